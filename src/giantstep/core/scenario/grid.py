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
        wanted = dotted_names(fields or {})
        self.dim_is_field = "dim" in type(scenario).model_fields
        if dim is not None:
            if "dim" in wanted:
                raise InputError("Field `dim` is given twice.")
            wanted = {"dim": dim, **wanted}
        single = {name: value for name, value in wanted.items() if not _is_many(value)}
        many = {name: value for name, value in wanted.items() if _is_many(value)}
        owners = dict.fromkeys(name.partition(".")[0] for name in wanted)
        for owner in [
            name for name in owners if part_list(type(scenario).model_fields.get(name))
        ]:
            if owner in many:
                single[owner] = _one_list(owner, many.pop(owner))
            for name in [name for name in single if name.partition(".")[0] == owner]:
                single[name] = with_parts(scenario, name, single[name])
        # tables (a step given as a mapping) go in first, since other fields may lie
        # inside them
        parts = {
            name: single.pop(name)
            for name in list(single)
            if isinstance(single[name], Mapping)
        }
        scenario = scenario.replace(parts) if parts else scenario
        own_dim = not self.dim_is_field
        if own_dim and "dim" in single:
            self.dim = float(_dimensions([single.pop("dim")])[0])
        else:
            self.dim = float("inf")
        for name in [name for name in many if not (own_dim and name == "dim")]:
            if _is_one_value(scenario, single, name, many[name]):
                single[name] = many.pop(name)
        self.scenario = _replaced(scenario, single, many, self.dim_is_field)
        self._axes = {name: self._axis(name, value) for name, value in many.items()}
        # of a list's entry it may vary under its own name, or under that of all entries
        for name in self._axes:
            other = given_as(
                self.scenario,
                name,
                single,
                [axis for axis in self._axes if axis != name],
            )
            if other is not None:
                raise InputError(
                    f"Field `{name}` varies and is given as `{other}`, too."
                )
        self._lay_out(many)
        self._batches = list(self._split())
        for batch in self._batches:
            batch.scenario.check_points(batch.points)
            for column in batch.points.values():  # all who ask share them
                column.setflags(write=False)

    def _axis(self, name: str, value: Any) -> Axis:
        if _is_data_array(value):
            dims = tuple(str(dim) for dim in value.dims)
        else:
            dims = (name,)
        if name == "dim" and not self.dim_is_field:
            return Axis(dims, _dimensions(value))
        current = _value_after(self.scenario, {}, name)
        if isinstance(current, BaseModel):
            inside = ", ".join(
                f"{name}.{inner}"
                for inner in type(current).model_fields
                if inner != "kind"
            )
            where = (
                f"vary a field inside it{f' ({inside})' if inside else ''} or make a"
                " study of each"
            )
            raise InputError(
                f"Field `{name}` holds a {type(current).__name__} and cannot vary over"
                f" a list; {where}."
            )
        if isinstance(current, int | float) and not isinstance(current, bool):
            numbers = _numbers(name, declaration(self.scenario, name), value)
            for leaf in names_meant(self.scenario, name):
                if leaf not in self.scenario.numbers:
                    raise bad_field(
                        leaf,
                        value_at(self.scenario, leaf),
                        f"one number where `{name}` varies",
                    )
                check_numbers(name, declaration(self.scenario, leaf), numbers)
            return Axis(dims, numbers)
        entries = _entries(name, value)
        for entry in entries:
            if isinstance(entry, BaseModel | Mapping | Sequence) and not isinstance(
                entry, str
            ):
                raise bad_field(name, entry, "a single name in each place of the list")
        codes = {
            key: code
            for code, key in enumerate(
                dict.fromkeys((type(entry), entry) for entry in entries)
            )
        }
        names = tuple(
            _value_after(self.scenario.replace({name: entry}), {}, name)
            for _, entry in codes
        )
        indices = np.array(
            [codes[type(entry), entry] for entry in entries], dtype=np.intp
        )
        return Axis(dims, indices.reshape(np.shape(value)), names)

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
            if axis.names:
                labels = np.array([_label(entry) for entry in axis.names])[axis.values]
            else:
                labels = axis.values
            self.coords[name] = (axis.dims, labels)
        fields = {
            "dim",
            *self.scenario.numbers,
            *type(self.scenario).model_fields,
        } - self._axes.keys()
        for name, value in given.items():
            for dim in map(str, value.dims if _is_data_array(value) else ()):
                if dim in fields:
                    which = (
                        f"has the dimension `{dim}`, a field that does not vary here"
                    )
                    raise InputError(f"The DataArray of `{name}` {which}.")
                if dim in value.coords:
                    labels = value.coords[dim].values
                    known = self.coords.setdefault(dim, ((dim,), labels))
                    if known[0] != (dim,) or not np.array_equal(known[1], labels):
                        raise InputError(
                            f"The DataArray of `{name}` has other values of `{dim}`"
                            " than the grid has."
                        )
        self.dims = tuple(sizes)
        self.shape = tuple(sizes.values())
        self.size = math.prod(self.shape)

    def flat(self, name: str) -> Array:
        """Return the values (or codes) of a field that varies at every point, shape
        (size,).
        """
        axis = self._axes[name]
        order = [axis.dims.index(dim) for dim in self.dims if dim in axis.dims]
        shape = [
            size if dim in axis.dims else 1 for dim, size in zip(self.dims, self.shape)
        ]
        return np.broadcast_to(
            axis.values.transpose(order).reshape(shape), self.shape
        ).reshape(-1)

    def batches(self) -> list[Batch]:
        """Return the points, split by the names that vary."""
        return self._batches

    def _split(self) -> Iterator[Batch]:
        named = [name for name, axis in self._axes.items() if axis.names]
        if not named:
            index = np.arange(self.size)
            yield Batch(self.scenario, index, self._points(self.scenario, index))
            return
        combined, codes = np.unique(
            np.stack([self.flat(name) for name in named]), axis=1, return_inverse=True
        )
        for code, combination in enumerate(combined.T):
            names = {
                name: self._axes[name].names[index]
                for name, index in zip(named, combination)
            }
            scenario = self.scenario.replace(names)
            rows = np.flatnonzero(codes.reshape(-1) == code)
            yield Batch(scenario, rows, self._points(scenario, rows))

    def scenarios(self) -> list[Scenario]:
        """Return the scenario of every point, in the order of the flattened grid."""
        found: dict[int, Scenario] = {}
        for batch in self.batches():
            found |= {
                int(i): scenario_at(batch.scenario, batch.points, place)
                for place, i in enumerate(batch.index)
            }
        return [found[place] for place in range(self.size)]

    def block_count(self) -> dict[str, int]:
        """Return the lengths of own dimensions that the fields fix (``block``); the
        largest where scenarios differ.
        """
        counts: dict[str, int] = {}
        for own in [batch.scenario.block_count() for batch in self.batches()]:
            counts |= {
                dim: max(count, counts.get(dim, 0)) for dim, count in own.items()
            }
        return counts

    def varying(self) -> dict[str, dict[str, Any] | None]:
        """Return the fields that vary as `giantstep.core.result.table.grid_of` reads
        them: None, or what each label stands for.
        """
        fields: dict[str, dict[str, Any] | None] = dict.fromkeys(self._axes)
        for name, axis in self._axes.items():
            for value in axis.names:
                label = str(_label(value))
                content = content_of(self.scenario.replace({name: value}), name)
                found = fields[name] = fields[name] or {}
                if found.setdefault(label, content) != content:
                    # two functions of one name: the label does not say which
                    found[label] = {"callable": label}
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
                points.update({leaf: column for leaf in names_meant(scenario, name)})
        return points


def scenario_at(scenario: Scenario, points: Points, index: int) -> Scenario:
    """Return the scenario of one point: `scenario` with the numbers at that index."""
    changes: dict[str, float] = {}
    for name, (value, info) in scenario.numeric_fields().items():
        if points[name][index] != value:
            changes[name] = (int if info.annotation is int else float)(
                points[name][index]
            )
    return scenario.replace(changes)


def content_of(scenario: Scenario, name: str) -> Any:
    """Return what a dotted field holds, as plain data."""
    content: Any = scenario.model_dump(mode="json")
    for key in keys_of(names_meant(scenario, name)[0]):
        content = content[key]
    return content


def _is_data_array(value: Any) -> bool:
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, xarray.DataArray)


def _is_many(value: Any) -> bool:
    if isinstance(value, str | bytes | Mapping | BaseModel | Function | Target):
        return False
    return isinstance(value, Sequence | set | frozenset) or (
        hasattr(value, "__array__") and np.ndim(value) > 0
    )


def _value_after(scenario: Scenario, changes: Mapping[str, Any], name: str) -> Any:
    """Return what a dotted field holds once `changes` are made; of all entries of a
    list the first that has it.
    """
    value: Any = scenario
    path = ""
    for key in keys_of(name):
        if holds_parts(value) and not isinstance(key, int):
            entries = [
                changes.get(f"{path}.{place}", entry)
                for place, entry in enumerate(value)
            ]
            value = next(
                (
                    entry
                    for entry in entries
                    if key in getattr(type(entry), "model_fields", ())
                ),
                value,
            )
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
    is_field = keys_of(name)[0] in type(scenario).model_fields and not isinstance(
        keys_of(name)[-1], int
    )
    # perhaps a name stands there now
    return is_field and FrozenArray in allowed_types(
        declaration(scenario, name).annotation
    )


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
    scenario: Scenario,
    single: Mapping[str, Any],
    many: Mapping[str, Any],
    dim_is_field: bool,
) -> Scenario:
    """Put the single values in; where they only fit the grid, its first point goes in
    with them.
    """
    if not single:
        return scenario
    try:
        return scenario.replace(single)
    except InputError as error:
        varying = {
            name: value for name, value in many.items() if name != "dim" or dim_is_field
        }
        try:
            first = {
                name: np.asarray(value, dtype=object).flat[0]
                for name, value in varying.items()
            }
            first = {
                name: item.item() if hasattr(item, "item") else item
                for name, item in first.items()
            }
            return scenario.replace({**single, **first})
        except (InputError, IndexError):
            raise error from None


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
    whole = np.isinf(numbers) | (
        (numbers == np.round(numbers)) & (numbers < LARGEST_WHOLE)
    )
    if not whole.all():
        raise bad_field("dim", numbers[~whole].flat[0], "a whole number below 2**53")
    if np.isinf(numbers).any():
        return numbers
    return numbers.astype(np.int64)


def _label(name: Any) -> Any:
    if isinstance(name, str | int | float):
        return name
    return name.name if isinstance(name, Function | Target) else str(name)
