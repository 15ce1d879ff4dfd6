"""Changes of a scenario: what `Scenario.replace` puts in place of which field.

A scenario is frozen. To change it, its parts on the way to a field become tables, the
field is set in them, and the class makes a new, checked scenario of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from giantstep.core.base.errors import InputError
from giantstep.core.scenario.fields import models_allowed
from giantstep.core.scenario.lists import (
    PartList,
    keys_of,
    names_meant,
    no_entry_has,
    part_list,
)
from giantstep.core.scenario.names import check_field_name
from giantstep.core.scenario.own_classes import parent_of
from giantstep.core.scenario.refusals import lacked_by_part

if TYPE_CHECKING:
    from giantstep.core.scenario.model import Scenario


def changed_content(scenario: Scenario, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a scenario with some of them changed: dotted name -> value;
    unchecked.
    """
    content = dict(scenario)
    for name in sorted(changes, key=_outer_first):
        for place in _fields_meant(scenario, content, name):
            _put(scenario, content, place, changes[name])
    return {name: _with_classes(value) for name, value in content.items()}


def _outer_first(name: str) -> tuple[int, bool, int]:
    """Return what names are sorted by.

    A part comes before its fields, its kind before the others, and what means all
    entries of a list before what means one of them.
    """
    keys = keys_of(name)
    places = sum(isinstance(key, int) for key in keys)
    depth = len(keys) - places
    return depth, keys[-1] != "kind", places


def _fields_meant(
    scenario: Scenario, content: Mapping[str, Any], name: str
) -> list[str]:
    """Return the fields that a name means in a content: of a list without a place those
    of all entries.
    """
    field, dot, inner = name.partition(".")
    entries = content.get(field)
    info = type(scenario).model_fields.get(field)
    is_inside_list = part_list(info) is not None and isinstance(entries, list | tuple)
    if not dot or info is None or not is_inside_list:
        return [name]
    parts = [_class_of_entry(info, entry) for entry in entries or ()]
    names = names_meant(scenario, name, parts)
    if not names:
        raise no_entry_has(field, inner, parts)
    return names


# -- parts as tables -------------------------------------------------------------------


class _OpenPart(dict[str, Any]):
    """A part of a user's class as a table, while fields of it are changed; it remembers
    which class that is.
    """

    def __init__(self, part: BaseModel) -> None:
        super().__init__(part)
        self.made_of = type(part)


def _opened(part: BaseModel | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a part as a table whose fields can be changed."""
    if isinstance(part, _OpenPart):
        return part
    if isinstance(part, BaseModel) and parent_of(type(part)) is not None:
        return _OpenPart(part)
    return dict(part or {})


def _with_classes(value: Any) -> Any:
    """Return a changed value of a field, in which tables that were parts of a user's
    class are parts of it again.
    """
    if isinstance(value, list):
        return [_with_classes(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _with_classes(entry) for name, entry in value.items()}
    if not isinstance(value, _OpenPart):
        return fields
    kind = value.made_of.model_fields.get("kind")
    # another kind was put into the table: the class is no longer the user's
    if kind is not None and fields.get("kind") != kind.default:
        return fields
    return value.made_of(**fields)


def _class_of_entry(info: FieldInfo, entry: Any) -> type[BaseModel] | None:
    """Return the class of an entry of a list of parts, or of the table it comes as."""
    if isinstance(entry, BaseModel):
        return type(entry)
    if isinstance(entry, _OpenPart):
        return entry.made_of
    if isinstance(entry, Mapping):
        return _class_of_kind(info, entry.get("kind"))
    return None


def _class_of_kind(info: FieldInfo, kind: Any) -> Any:
    """Return the class of a part with this `kind` among those a field, or an entry of
    its list, may hold; else None.
    """
    if not isinstance(kind, str):
        return None
    for model in models_allowed(info):
        declared = model.model_fields.get("kind")
        if declared is not None and declared.default == kind:
            return model
    return None


def with_parts(scenario: Scenario, name: str, value: Any) -> Any:
    """Return a list of parts, or one entry of it, with tables as parts; what is neither
    stays as it is.
    """
    field, _, place = name.partition(".")
    if not place and isinstance(value, list | tuple):
        return tuple(
            with_parts(scenario, f"{name}.{index}", entry)
            for index, entry in enumerate(value)
        )
    is_entry = isinstance(keys_of(place)[0], int)
    if not is_entry or not isinstance(value, Mapping):
        return value
    part = _class_of_entry(type(scenario).model_fields[field], value)
    if part is None:
        return value
    try:
        return part(**value)
    except InputError as error:
        raise error.inside(name) from None


# -- one field -------------------------------------------------------------------------


def _put(scenario: Scenario, content: dict[str, Any], name: str, value: Any) -> None:
    """Change one field of a content; the parts on the way to it become tables."""
    *parents, last = keys_of(name)
    table = _open_way(scenario, content, name)
    info = type(scenario).model_fields.get(name.partition(".")[0])
    _check_last_key(scenario, table, name)
    part = None
    if last == "kind" and info is not None:
        part = _class_of_kind(info, value)
    if part is not None:
        # another kind keeps what both have
        for other in [other for other in table if other not in part.model_fields]:
            del table[other]
    table[last] = value


def _open_way(scenario: Scenario, content: dict[str, Any], name: str) -> Any:
    """Return the table that holds a field in a content; what stands on the way to it is
    opened.
    """
    *parents, last = keys_of(name)
    field = name.partition(".")[0]
    info = type(scenario).model_fields.get(field)
    listed = part_list(info)
    table: Any = content
    for key in parents:
        if isinstance(table, list):
            _check_place(listed, field, table, key)
            held = table[int(key)]
        else:
            held = table.get(key)
        # a part that is not there yet begins with its kind
        begins = held is None and info is not None and last == "kind"
        if isinstance(held, list | tuple) and listed is not None:
            table[key] = list(held)
        elif isinstance(held, BaseModel | Mapping) or begins:
            table[key] = _opened(held)
        else:
            check_field_name(scenario, name)
            raise InputError(f"There is no field `{name}` here: `{key}` is {held!r}.")
        table = table[key]
    return table


def _check_place(
    listed: PartList | None, field: str, entries: list[Any], key: str | int
) -> None:
    if listed is not None:
        listed.check_place(field, entries, str(key))


def _check_last_key(scenario: Scenario, table: Any, name: str) -> None:
    """Refuse a place that a list has not, and a field that a part of this kind has
    not.
    """
    *parents, last = keys_of(name)
    field = name.partition(".")[0]
    listed = part_list(type(scenario).model_fields.get(field))
    if isinstance(table, list) and listed is not None:
        _check_place(listed, field, table, last)
    elif isinstance(last, int):
        check_field_name(scenario, name)
    if len(parents) != 1:
        return
    part = getattr(scenario, str(parents[0]), None)
    if not isinstance(part, BaseModel) or last in table:
        return
    is_same_kind = table.get("kind") == getattr(part, "kind", None)
    if is_same_kind and lacked_by_part(type(scenario), name, scenario):
        check_field_name(scenario, name)
