"""Grids: which fields of a scenario vary, over which values, along which dimensions;
checked as arrays.

A list makes a dimension named after its field, several lists their outer product in the
order given, a single value just replaces, and DataArrays keep their own dimensions, so
that two which share one are paired.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Array, Floats, Indices, Points
from giantstep.core.maths.gaussian import Function, Target
from giantstep.core.scenario.arrays import FrozenArray
from giantstep.core.scenario.changes import with_parts
from giantstep.core.scenario.fields import (
    LARGEST_WHOLE,
    allowed_types,
    allowed_values,
    as_number,
    check_numbers,
    field,
)
from giantstep.core.scenario.lists import (
    declaration,
    given_as,
    holds_parts,
    keys_of,
    names_meant,
    part_list,
    value_at,
)
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import check_field_name, dotted_names

DIM: FieldInfo = field("d", "input dimension", ge=1, infinite=True)
"""Declaration of the setting ``dim``, for scenarios whose theory does not depend on the
dimension.
"""


@dataclass(frozen=True)
class Batch:
    """Points which differ in numbers only: one call of the limit answers them all."""

    scenario: Scenario  # with every name that varies set to the one of this batch
    index: Indices  # (B,) positions in the flattened grid
    points: Points  # every numeric field, and ``dim``, as (B,) arrays


class Axis(NamedTuple):
    """The values of one field that varies: numbers, or names with a code for each
    point.
    """

    dims: tuple[str, ...]
    values: Array
    names: tuple[Any, ...] = ()


class Grid:
    """A scenario over a grid of its fields: names, lengths and number of its points,
    coordinate -> (dims, values).

    `fields` may be nested, with dots or ``__``; `dim` is the dimension of the finite
    system, a number or a list (which comes first), None for the bare limit. Attribute
    `scenario` has the single values put in.
    """

    def __init__(
        self,
        scenario: Scenario,
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        dim: Any = None,
    ) -> None:
        self.dim_is_field = "dim" in type(scenario).model_fields
        wanted = _with_dim_first(dotted_names(fields or {}), dim)
        single = {name: value for name, value in wanted.items() if not _is_many(value)}
        many = {name: value for name, value in wanted.items() if _is_many(value)}
        _make_parts(scenario, single, many)
        scenario = _with_tables(scenario, single)
        self.dim = self._one_dimension(single)
        self._take_list_values(scenario, single, many)
        varying = {name: many[name] for name in many if self._is_field(name)}
        self.scenario = _replaced(scenario, single, varying)
        self._axes = {name: self._axis(name, value) for name, value in many.items()}
        self._refuse_given_twice(single)
        self._lay_out(many)
        self._batches = list(self._split())
        for batch in self._batches:
            batch.scenario.check_points(batch.points)
            # all who ask share them
            for column in batch.points.values():
                column.setflags(write=False)

    def _is_field(self, name: str) -> bool:
        """Tell a field of the scenario from the setting ``dim``."""
        return name != "dim" or self.dim_is_field

    def _one_dimension(self, single: dict[str, Any]) -> float:
        """Take the setting ``dim`` out of the single values; infinity where it is not
        there.
        """
        if self.dim_is_field or "dim" not in single:
            return math.inf
        return float(_dimensions([single.pop("dim")])[0])

    def _take_list_values(
        self, scenario: Scenario, single: dict[str, Any], many: dict[str, Any]
    ) -> None:
        """Move lists that are one value of a field, a list or an array, to the single
        values.
        """
        for name in list(many):
            if self._is_field(name) and _is_one_value(
                scenario, single, name, many[name]
            ):
                single[name] = many.pop(name)

    def _refuse_given_twice(self, single: Mapping[str, Any]) -> None:
        """Refuse a field of a list's entry that varies under its own name and is given
        under that of all entries, or the other way round.
        """
        for name in self._axes:
            others = [axis for axis in self._axes if axis != name]
            other = given_as(self.scenario, name, single, others)
            if other is not None:
                raise InputError(
                    f"Field `{name}` varies and is given as `{other}`, too."
                )

    def _axis(self, name: str, value: Any) -> Axis:
        dims: tuple[str, ...] = (name,)
        if _is_data_array(value):
            dims = tuple(str(dim) for dim in value.dims)
        if not self._is_field(name):
            return Axis(dims, _dimensions(value))
        current = _value_after(self.scenario, {}, name)
        if isinstance(current, BaseModel):
            raise _part_varies(name, current)
        if isinstance(current, int | float) and not isinstance(current, bool):
            return Axis(dims, self._checked_numbers(name, value))
        return self._axis_of_names(name, value, dims)

    def _checked_numbers(self, name: str, value: Any) -> Floats:
        """Return the numbers that a field takes; of a list every entry must allow
        them.
        """
        numbers = _numbers(name, declaration(self.scenario, name), value)
        for leaf in names_meant(self.scenario, name):
            if leaf not in self.scenario.numbers:
                held = value_at(self.scenario, leaf)
                raise bad_field(leaf, held, f"one number where `{name}` varies")
            check_numbers(name, declaration(self.scenario, leaf), numbers)
        return numbers

    def _axis_of_names(self, name: str, value: Any, dims: tuple[str, ...]) -> Axis:
        """Return the axis of a field that holds no number: each different entry has a
        code.
        """
        entries = _entries(name, value)
        codes: dict[tuple[type, Any], int] = {}
        for entry in entries:
            is_nested = isinstance(entry, BaseModel | Mapping | Sequence)
            if is_nested and not isinstance(entry, str):
                raise bad_field(name, entry, "a single name in each place of the list")
        for entry in entries:
            # 1 and True are equal and mean different things
            codes.setdefault((type(entry), entry), len(codes))
        names = []
        for _, entry in codes:
            scenario = self.scenario.replace({name: entry})
            names.append(_value_after(scenario, {}, name))
        code_of_point = [codes[type(entry), entry] for entry in entries]
        indices = np.array(code_of_point, dtype=np.intp).reshape(np.shape(value))
        return Axis(dims, indices, tuple(names))

    def _lay_out(self, given: Mapping[str, Any]) -> None:
        """Find dimensions, lengths and coordinates, in the order given (``dim`` comes
        first).
        """
        sizes: dict[str, int] = {}
        self.coords: dict[str, tuple[tuple[str, ...], Array]] = {}
        for name, axis in self._axes.items():
            for dim, size in zip(axis.dims, axis.values.shape):
                if sizes.setdefault(dim, size) != size:
                    raise InputError(
                        f"Field `{name}` has {size} values along `{dim}`, but another"
                        f" has {sizes[dim]}."
                    )
            labels = axis.values
            if axis.names:
                labels = np.array([_label(entry) for entry in axis.names])[axis.values]
            self.coords[name] = (axis.dims, labels)
        for name, value in given.items():
            if _is_data_array(value):
                self._take_coordinates(name, value)
        self.dims = tuple(sizes)
        self.shape = tuple(sizes.values())
        self.size = math.prod(self.shape)

    def _take_coordinates(self, name: str, column: Any) -> None:
        """Take over the coordinates of a DataArray; what contradicts the grid is
        refused.
        """
        fields = {"dim", *self.scenario.numbers, *type(self.scenario).model_fields}
        for dim in map(str, column.dims):
            if dim in fields and dim not in self._axes:
                raise InputError(
                    f"The DataArray of `{name}` has the dimension `{dim}`, a field that"
                    " does not vary here."
                )
            if dim not in column.coords:
                continue
            labels = column.coords[dim].values
            dims, known = self.coords.setdefault(dim, ((dim,), labels))
            if dims != (dim,) or not np.array_equal(known, labels):
                raise InputError(
                    f"The DataArray of `{name}` has other values of `{dim}` than the"
                    " grid has."
                )

    def flat(self, name: str) -> Array:
        """Return the values (or codes) of a field that varies at every point, shape
        (size,).
        """
        axis = self._axes[name]
        order = [axis.dims.index(dim) for dim in self.dims if dim in axis.dims]
        absent = [place for place, dim in enumerate(self.dims) if dim not in axis.dims]
        column = np.expand_dims(axis.values.transpose(order), tuple(absent))
        return np.broadcast_to(column, self.shape).reshape(-1)

    def batches(self) -> list[Batch]:
        """Return the points, split by the names that vary."""
        return self._batches

    def _split(self) -> Iterator[Batch]:
        named = [name for name, axis in self._axes.items() if axis.names]
        if not named:
            index = np.arange(self.size)
            yield Batch(self.scenario, index, self._points(self.scenario, index))
            return
        codes = np.stack([self.flat(name) for name in named])
        combinations, batch_of_point = np.unique(codes, axis=1, return_inverse=True)
        for number, combination in enumerate(combinations.T):
            names = {
                name: self._axes[name].names[code]
                for name, code in zip(named, combination)
            }
            scenario = self.scenario.replace(names)
            index = np.flatnonzero(batch_of_point.reshape(-1) == number)
            yield Batch(scenario, index, self._points(scenario, index))

    def scenarios(self) -> list[Scenario]:
        """Return the scenario of every point, in the order of the flattened grid."""
        scenarios: dict[int, Scenario] = {}
        for batch in self.batches():
            for row, point in enumerate(batch.index.tolist()):
                scenarios[point] = scenario_at(batch.scenario, batch.points, row)
        return [scenarios[point] for point in range(self.size)]

    def block_count(self) -> dict[str, int]:
        """Return the lengths of own dimensions that the fields fix (``block``); the
        largest where scenarios differ.
        """
        counts: dict[str, int] = {}
        for batch in self.batches():
            for dim, count in batch.scenario.block_count().items():
                counts[dim] = max(count, counts.get(dim, 0))
        return counts

    def varying(self) -> dict[str, dict[str, Any] | None]:
        """Return the fields that vary as `core.result.provenance` keeps them: None, or
        what each label stands for.
        """
        fields: dict[str, dict[str, Any] | None] = dict.fromkeys(self._axes)
        for name, axis in self._axes.items():
            for value in axis.names:
                label = str(_label(value))
                content = content_of(self.scenario.replace({name: value}), name)
                meanings = fields[name] or {}
                if meanings.setdefault(label, content) != content:
                    # two functions of one name: the label does not say which
                    meanings[label] = {"callable": label}
                fields[name] = meanings
        return fields

    def _points(self, scenario: Scenario, index: Indices) -> Points:
        points = {
            name: np.full(len(index), value) for name, value in scenario.numbers.items()
        }
        if not self.dim_is_field:
            points["dim"] = np.full(len(index), self.dim)
        for name, axis in self._axes.items():
            if not axis.names:
                column = self.flat(name)[index].astype(float)
                for leaf in names_meant(scenario, name):
                    points[leaf] = column
        return points


def scenario_at(scenario: Scenario, points: Points, index: int) -> Scenario:
    """Return the scenario of one point: `scenario` with the numbers at that index."""
    changes: dict[str, float] = {}
    for name, (value, info) in scenario.numeric_fields().items():
        number = points[name][index]
        if number == value:
            continue
        changes[name] = int(number) if info.annotation is int else float(number)
    return scenario.replace(changes)


def content_of(scenario: Scenario, name: str) -> Any:
    """Return what a dotted field holds, as plain data."""
    content: Any = scenario.model_dump(mode="json")
    for key in keys_of(names_meant(scenario, name)[0]):
        content = content[key]
    return content


def _with_dim_first(fields: dict[str, Any], dim: Any) -> dict[str, Any]:
    """Return what varies or is set, with the setting ``dim`` before the fields."""
    if dim is None:
        return fields
    if "dim" in fields:
        raise InputError("Field `dim` is given twice.")
    return {"dim": dim, **fields}


def _make_parts(
    scenario: Scenario, single: dict[str, Any], many: dict[str, Any]
) -> None:
    """Make parts of the tables given for lists of parts: a whole list is one value."""
    fields = type(scenario).model_fields
    firsts = dict.fromkeys(name.partition(".")[0] for name in [*single, *many])
    for list_name in [name for name in firsts if part_list(fields.get(name))]:
        if list_name in many:
            single[list_name] = _one_list(list_name, many.pop(list_name))
        for name in single:
            if name.partition(".")[0] == list_name:
                single[name] = with_parts(scenario, name, single[name])


def _with_tables(scenario: Scenario, single: dict[str, Any]) -> Scenario:
    """Put tables (a step given as a mapping) in first: other fields may lie inside
    them.
    """
    names = [name for name, value in single.items() if isinstance(value, Mapping)]
    tables = {name: single.pop(name) for name in names}
    return scenario.replace(tables) if tables else scenario


def _part_varies(name: str, part: BaseModel) -> InputError:
    """Return the error for a list of values of a field that holds a part."""
    fields = [field for field in type(part).model_fields if field != "kind"]
    inside = ", ".join(f"{name}.{field}" for field in fields)
    advice = "vary a field inside it"
    if inside:
        advice += f" ({inside})"
    return InputError(
        f"Field `{name}` holds a {type(part).__name__} and cannot vary over a list;"
        f" {advice} or make a study of each."
    )


def _is_data_array(value: Any) -> bool:
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, xarray.DataArray)


def _is_many(value: Any) -> bool:
    if isinstance(value, str | bytes | Mapping | BaseModel | Function | Target):
        return False
    if isinstance(value, Sequence | set | frozenset):
        return True
    return hasattr(value, "__array__") and np.ndim(value) > 0


def _value_after(scenario: Scenario, changes: Mapping[str, Any], name: str) -> Any:
    """Return what a dotted field holds once `changes` are made; of all entries of a
    list the first that has it.
    """
    value: Any = scenario
    path = ""
    for key in keys_of(name):
        if holds_parts(value) and not isinstance(key, int):
            for place, entry in enumerate(value):
                changed = changes.get(f"{path}.{place}", entry)
                if key in getattr(type(changed), "model_fields", ()):
                    value = changed
                    break
        path = f"{path}.{key}" if path else str(key)
        if path in changes:
            value = changes[path]
        elif isinstance(value, BaseModel) and key in type(value).model_fields:
            value = getattr(value, str(key))
        elif holds_parts(value) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            check_field_name(scenario, name)
            raise InputError(
                f"There is no field `{name}` here: `{path.rpartition('.')[0]}` is"
                f" {value!r}."
            )
    return value


def _is_one_value(
    scenario: Scenario, single: Mapping[str, Any], name: str, value: Any
) -> bool:
    """Tell whether a list is one value of a field that holds a list or an array, rather
    than values of a grid.
    """
    current = _value_after(scenario, single, name)
    if isinstance(current, tuple | list | np.ndarray):
        _one_list(name, value)
    if isinstance(current, tuple | list | np.ndarray | FrozenArray):
        return True
    if not _is_matrix(value):
        return False
    keys = keys_of(name)
    if keys[0] not in type(scenario).model_fields or isinstance(keys[-1], int):
        return False
    # a name may stand there now, where an array is allowed too
    return FrozenArray in allowed_types(declaration(scenario, name).annotation)


def _is_matrix(value: Any) -> bool:
    """Tell whether a list holds lists: no values of a grid, but one array."""
    if isinstance(value, list | tuple):
        nested = any(np.ndim(item) > 0 for item in value)
    else:
        nested = np.ndim(value) > 1
    return nested and not _is_data_array(value)


def _one_list(name: str, value: Any) -> Any:
    """Return the list that replaces a list-valued field; what would make it vary is
    refused.
    """
    if _is_data_array(value) or _is_matrix(value):
        raise InputError(
            f"Field `{name}` is a list and cannot vary over a grid: those are different"
            " studies."
        )
    return value


def _replaced(
    scenario: Scenario, single: Mapping[str, Any], varying: Mapping[str, Any]
) -> Scenario:
    """Put the single values in; where they only fit the grid, its first point goes in
    with them.
    """
    if not single:
        return scenario
    try:
        return scenario.replace(single)
    except InputError as error:
        try:
            first = {name: _first_entry(value) for name, value in varying.items()}
            return scenario.replace({**single, **first})
        except (InputError, IndexError):
            raise error from None


def _first_entry(value: Any) -> Any:
    entry = np.asarray(value, dtype=object).flat[0]
    return entry.item() if hasattr(entry, "item") else entry


def _entries(name: str, value: Any) -> list[Any]:
    """Return the entries of a list, flat; lists inside a plain list, and empty ones,
    are refused.
    """
    if _is_data_array(value):
        return list(value.values.reshape(-1))
    if isinstance(value, set | frozenset):
        raise bad_field(name, value, "a list (a set has no order)")
    if not isinstance(value, Sequence) and np.ndim(value) != 1:
        raise bad_field(name, value, "one value, a list or a one-dimensional array")
    entries = list(value)
    if not entries:
        raise bad_field(name, entries, "a list of at least one value")
    return entries


def _numbers(name: str, info: FieldInfo, value: Any) -> Floats:
    """Return a list of numbers as an array; text, true/false, lists inside it and empty
    ones are refused.
    """
    entries = _entries(name, value)
    numbers = []
    for entry in entries:
        try:
            numbers.append(as_number(entry))
        except ValueError:
            raise bad_field(
                name, entry, f"{allowed_values(info)} in each place of the list"
            ) from None
    return np.array(numbers).reshape(np.shape(value))


def _dimensions(value: Any) -> Array:
    numbers = _numbers("dim", DIM, value)
    check_numbers("dim", DIM, numbers)
    is_whole = (numbers == np.round(numbers)) & (numbers < LARGEST_WHOLE)
    is_whole |= np.isinf(numbers)
    if not is_whole.all():
        bad = numbers[~is_whole].flat[0]
        raise bad_field("dim", bad, "a whole number below 2**53")
    if np.isinf(numbers).any():
        return numbers
    return numbers.astype(np.int64)


def _label(name: Any) -> Any:
    if isinstance(name, str | int | float):
        return name
    return name.name if isinstance(name, Function | Target) else str(name)
