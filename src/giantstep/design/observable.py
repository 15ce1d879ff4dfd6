"""One number of an answer: a variable of the question, or an entry of one (``test_error[time=2]``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.dimensions import dimension_named
from giantstep.errors import InputError, bad_field, field_error, nearest
from giantstep.family import Answer, Engine, Question, Variable
from giantstep.padding import last_known
from giantstep.types import Array, Floats

if TYPE_CHECKING:
    import xarray

PREFERRED = "test_error"
"""What is meant where no observable is named, in every question that has it; along time its last entry."""
LAST = "last"
"""The entry where a dimension ends."""


@dataclass(frozen=True)
class Observable:
    """A variable of a question and the entry of it that is meant.

    Attributes
    ----------
    variable : its declaration.
    entry : own dimension -> the coordinate picked along it, as text; ``"last"`` is the last one there is.
    question : the question it belongs to, which says how entries are counted or named.
    """

    variable: Variable
    entry: Mapping[str, str]
    question: Question

    @property
    def name(self) -> str:
        """The name of the variable, which the result has too."""
        return self.variable.name

    @property
    def text(self) -> str:
        """The observable as it is asked for."""
        inside = ", ".join(f"{dim}={value}" for dim, value in self.entry.items())
        return f"{self.name}[{inside}]" if inside else self.name

    def pick(self, answer: Answer, settings: Mapping[str, Any]) -> Floats:
        """Return the observable at every point of an answer, NaN where it was not solved."""
        failed = np.asarray(answer.status) != ""
        if self.name not in answer.values:
            return np.full(len(failed), np.nan)
        values = np.asarray(answer.values[self.name])
        if values.dtype.kind in "UO":
            raise InputError(f"`{self.name}` holds names, not numbers; choose another variable.")
        values = values.astype(np.float64)
        for axis, dim in reversed(list(enumerate(self.variable.dims, start=1))):
            if self.entry[dim] == LAST:
                values = last_known(values, axis)
                continue
            index = self._position(dim, self._coordinates(answer, settings, dim, values.shape[axis]))
            values = np.take(values, index, axis=axis)
        return np.where(failed, np.nan, values)

    def select(self, values: xarray.DataArray) -> xarray.DataArray:
        """Return the observable of a column of a result."""
        return values.isel({dim: self._position(dim, values[dim].values) for dim in self.variable.dims}, drop=True)

    def _coordinates(self, answer: Answer, settings: Mapping[str, Any], dim: str, length: int) -> Array:
        known = answer.coords.get(dim, settings.get(dim))
        return self.question.dimension(dim).first + np.arange(length) if known is None else np.asarray(known)

    def _position(self, dim: str, coordinates: Array) -> int:
        wanted = self.entry[dim]
        if wanted == LAST:
            return len(coordinates) - 1
        for index, value in enumerate(coordinates.tolist()):
            if str(value) == wanted or (isinstance(value, int | float) and _is_number(wanted, float(value))):
                return index
        shown = [str(value) for value in coordinates.tolist()]
        allowed = ", ".join(shown if len(shown) <= 12 else [*shown[:5], "...", *shown[-2:]])
        raise InputError(f"`{self.name}` has no entry {dim}={wanted}; along {dim} it has {allowed}.")


def read_observable(argument: str, text: Any, question: Question, engine: Engine = "limit") -> Observable:
    """Return the observable of an engine that a text means; `argument` is who asks, for the error."""
    known = {v.name: v for v in question.variables if engine in v.engines}
    if text is None:
        if PREFERRED not in known:
            named = ", ".join(map(_whole, known.values()))
            raise field_error(argument, f"Field `{{field}}` is missing: name a variable, one of {named}.")
        text = _whole(known[PREFERRED])
    if not isinstance(text, str):
        raise bad_field(argument, text, "one of " + ", ".join(known))
    match = re.fullmatch(r"\s*(\w+)\s*(?:\[(.*)\])?\s*", text)
    if match is None or match[1] not in known:
        raise bad_field(argument, text, f"one of {', '.join(known)}{nearest(text, list(known))}")
    variable = known[match[1]]
    entry = _entry(argument, text, match[2] or "", variable)
    return Observable(variable, entry, question)


def _entry(argument: str, text: str, inside: str, variable: Variable) -> dict[str, str]:
    entry = {}
    for part in filter(None, (part.strip() for part in inside.split(","))):
        dim, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            dim, value = (variable.dims[0] if len(variable.dims) == 1 else ""), part
        entry[dim] = value.strip("'\"")
    for dim in variable.dims:  # a trajectory is meant after its last step, unless a time is named
        if dimension_named(dim).role == "trajectory":
            entry.setdefault(dim, LAST)
    if set(entry) == set(variable.dims):
        return {dim: entry[dim] for dim in variable.dims}
    if not variable.dims:
        raise bad_field(argument, text, f"`{variable.name}` without brackets: it is one number")
    of_dims = ", ".join(f"`{dim}`" for dim in variable.dims)
    raise bad_field(argument, text, f"one of the entries of `{variable.name}`, which has the dimensions {of_dims}: "
                    f'write "{_whole(variable)}"')  # fmt: skip


def _whole(variable: Variable) -> str:
    """Return a variable as it may be asked for: the last time of a trajectory, else the first entry."""
    entries = (f"{dim}={LAST if dimension_named(dim).role == 'trajectory' else 1}" for dim in variable.dims)
    return f"{variable.name}[{', '.join(entries)}]" if variable.dims else variable.name


def _is_number(text: str, value: float) -> bool:
    try:
        return bool(np.isclose(float(text), value, rtol=1e-9, atol=0))
    except ValueError:
        return False
