"""Fields that hold a list of parts, and names with a place in it: ``steps.0.rate``, or
without: all entries.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from giantstep.core.base.errors import InputError, field_error, nearest


@dataclass(frozen=True)
class PartList:
    """Declares a field that holds a list of parts, which may be empty; it stands in the
    annotation.

    ``steps: Annotated[tuple[AnyStep, ...], PartList("steps", "[gs.NoStep()]")]`` has
    what the entries are called and an example of them; ``AnyStep`` is a union of parts
    told apart by their `kind`.
    """

    plural: str
    example: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def as_tuple(value: Any) -> tuple[Any, ...]:
            if not isinstance(value, list | tuple):
                raise ValueError(f"a list of {self.plural}, e.g. {self.example}")
            return tuple(value)

        return core_schema.no_info_before_validator_function(as_tuple, handler(source))

    def check_place(self, field: str, entries: Sequence[Any], place: str) -> None:
        """Refuse a place that the list has not."""
        if int(place) >= len(entries):
            said = f"there are {len(entries)} {self.plural}, counted from 0"
            said = said if entries else f"`{field}` is an empty list"
            raise field_error(f"{field}.{place}", f"There is no `{{field}}`: {said}.")


def part_list(info: FieldInfo | None) -> PartList | None:
    """Return how a field declares its list of parts; None where it holds something
    else.
    """
    metadata = () if info is None else info.metadata
    return next(
        (declared for declared in metadata if isinstance(declared, PartList)), None
    )


def value_annotation(info: FieldInfo) -> Any:
    """Return the annotation of what a field holds, of one entry where that is a list of
    parts.
    """
    if part_list(info) is None:
        return info.annotation
    return get_args(info.annotation)[0]


def holds_parts(value: Any) -> bool:
    """Tell whether a value is a list of parts, or of tables of parts; not an empty
    one.
    """
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(v, BaseModel | Mapping) for v in value)
    )


def keys_of(name: str) -> list[str | int]:
    """Return a dotted name as the keys of nested data."""
    # one way only to write a place, so that a field has one name
    return [
        int(word) if re.fullmatch(r"0|[1-9][0-9]*", word) else word
        for word in name.split(".")
    ]


def value_at(model: BaseModel, name: str) -> Any:
    """Return what a dotted field holds; the model itself where the name is empty."""
    value: Any = model
    for key in keys_of(name) if name else ():
        value = value[key] if isinstance(key, int) else getattr(value, key)
    return value


def names_meant(
    model: BaseModel, name: str, parts: Sequence[type[BaseModel] | None] | None = None
) -> list[str]:
    """Return the fields that a name means: of a list without a place those of all
    entries, or of such `parts`.
    """
    field, dot, inner = name.partition(".")
    first = keys_of(inner)[0]
    if (
        not dot
        or isinstance(first, int)
        or part_list(type(model).model_fields.get(field)) is None
    ):
        return [name]
    classes: Sequence[type[BaseModel] | None]
    if parts is None:
        classes = [type(entry) for entry in getattr(model, field)]
    else:
        classes = parts
    return [
        f"{field}.{place}.{inner}"
        for place, part in enumerate(classes)
        if part and first in part.model_fields
    ]


def given_as(
    model: BaseModel, name: str, single: Iterable[str], varying: Iterable[str]
) -> str | None:
    """Return the name under which a field that varies is given, too: among those of one
    value, or that vary.
    """
    own = set(names_meant(model, name))
    others = list(varying)
    for other in (*others, *single):
        theirs = set(names_meant(model, other))
        # one value for all entries of a list leaves open what varies in one of them
        if own & theirs and (other in others or len(theirs) <= len(own)):
            return other
    return None


def is_list_name(model: BaseModel, name: str) -> bool:
    """Tell whether a name is an entry of a list, or a field of all entries that have
    it; raise where none has.
    """
    field, dot, inner = name.partition(".")
    declared = part_list(type(model).model_fields.get(field))
    if declared is None or not dot:
        return False
    entries = getattr(model, field)
    first = keys_of(inner)[0]
    if isinstance(first, int):
        declared.check_place(field, entries, inner.partition(".")[0])
        return "." not in inner
    if not names_meant(model, name):
        raise no_entry_has(field, inner, [type(entry) for entry in entries])
    return True


def no_entry_has(
    field: str, inner: str, parts: Sequence[type[BaseModel] | None]
) -> InputError:
    """Return the error for a field that no entry of a list has."""
    name = f"{field}.{inner}"
    if not parts:
        return field_error(
            name, f"There is no field `{{field}}`: `{field}` is an empty list."
        )
    has = list(
        dict.fromkeys(
            own for part in parts if part for own in part.model_fields if own != "kind"
        )
    )
    guess = nearest(inner, has).replace("`", f"`{field}.", 1)
    said = f"they have {', '.join(has)}" if has else "they have no fields"
    return field_error(
        name, f"There is no field `{{field}}`{guess} in any entry of `{field}`; {said}."
    )


def declaration(model: BaseModel, name: str) -> FieldInfo:
    """Return the declaration of a dotted field; the symbol of one in a list has its
    place, counted from 1.
    """
    parent, _, last = names_meant(model, name)[0].rpartition(".")
    part: type[BaseModel] = type(value_at(model, parent))
    return declaration_at(
        part, last, next((key + 1 for key in keys_of(name) if isinstance(key, int)), 0)
    )


def symbol_of(info: FieldInfo) -> str:
    """Return the symbol in the declaration of a field."""
    extra = info.json_schema_extra
    return str(extra.get("symbol", "")) if isinstance(extra, dict) else ""


def declaration_at(part: type[BaseModel], field: str, place: int) -> FieldInfo:
    """Return the declaration of a field of the part at a place of a list, counted from
    1; 0 is no list.
    """
    info = part.model_fields[field]
    extra = info.json_schema_extra
    if place and isinstance(extra, dict) and "symbol" in extra:
        info = copy.copy(info)
        info.json_schema_extra = {
            **extra,
            "symbol": with_place(str(extra["symbol"]), place),
        }
    return info


def with_place(symbol: str, place: int) -> str:
    """Return the symbol of a field at a place of a list; what is no one symbol stays as
    it is.
    """
    left = symbol.partition(" = ")[0]
    if not re.fullmatch(r"[A-Za-z]\w*", left):
        return symbol
    return f"{re.sub(r'(?<=[A-Za-z])(?=[0-9]+$)', '_', left)}_{place}"


def tables_at(content: Any, keys: Sequence[str | int]) -> Iterator[dict[str, Any]]:
    """Yield the tables that keys lead to in nested data; of a list without a place
    those of all entries.
    """
    if isinstance(content, list) and keys and isinstance(keys[0], int):
        for entry in content[keys[0] :][:1]:
            yield from tables_at(entry, keys[1:])
    elif isinstance(content, list):
        for entry in content:
            yield from tables_at(entry, keys)
    elif isinstance(content, dict) and keys:
        yield from tables_at(content.get(str(keys[0])), keys[1:])
    elif isinstance(content, dict):
        yield content
