"""Names of fields, dotted as files and results write them, and what each of them means.

``step.rate`` is the field ``rate`` of the part ``step``. In a list of parts
``steps.0.rate`` is that of the first entry, and ``steps.rate`` that of all entries that
have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from giantstep.core.base.errors import InputError, field_error
from giantstep.core.scenario.lists import (
    declaration,
    holds_parts,
    is_list_name,
    names_meant,
)
from giantstep.core.scenario.refusals import unknown_field

if TYPE_CHECKING:
    from giantstep.core.scenario.model import Checked, Scenario


def dotted_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Write keyword names with dots: ``step__rate`` is ``step.rate``."""
    return {name.replace("__", "."): value for name, value in fields.items()}


def leaf_fields(model: BaseModel) -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of every leaf field of a scenario or part.

    `Checked.leaves` keeps them: a scenario is frozen.
    """
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            for inner, leaf in leaf_fields(value):
                yield f"{name}.{inner}", leaf
        elif isinstance(value, tuple) and holds_parts(value):
            for place, entry in enumerate(value):
                for inner, leaf in leaf_fields(entry):
                    yield f"{name}.{place}.{inner}", leaf
        elif name != "kind":
            yield name, value


def walk_fields(model: Checked) -> Iterator[tuple[str, Any, FieldInfo]]:
    """Yield (dotted name, value, declaration) of every leaf field of a scenario or
    part.
    """
    for name, value in model.leaves:
        yield name, value, declaration(model, name)


def numbers_meant(scenario: Scenario, name: str) -> dict[str, tuple[float, FieldInfo]]:
    """Return the numeric fields that a name means (of a list all entries' own); none
    where one holds no number.
    """
    leaves = names_meant(scenario, name)
    if any(leaf not in scenario.numbers for leaf in leaves):
        return {}
    return {
        leaf: (scenario.numbers[leaf], declaration(scenario, leaf)) for leaf in leaves
    }


def one_number(scenario: Scenario, name: str) -> tuple[float, FieldInfo]:
    """Return the value of a numeric field with its declaration; entries of a list that
    differ have no one value.
    """
    values = {leaf: value for leaf, (value, _) in numbers_meant(scenario, name).items()}
    if len(set(values.values())) > 1:
        shown = ", ".join(f"{leaf} = {value:g}" for leaf, value in values.items())
        raise InputError(
            f"Field `{name}` has no one value here ({shown}): name one of them, or set"
            " them all first."
        )
    return next(iter(values.values())), declaration(scenario, name)


def check_field_name(scenario: Scenario, name: str, also: Sequence[str] = ()) -> None:
    """Raise `InputError` with the nearest name where a dotted field does not exist in
    this scenario.
    """
    known = {*dict(scenario.leaves), *type(scenario).model_fields}
    if name in known or is_list_name(scenario, name):
        return
    fields = {leaf: info for leaf, _, info in walk_fields(scenario)}
    sentence = unknown_field(type(scenario), name, fields, also, scenario)
    raise field_error(name, sentence)
