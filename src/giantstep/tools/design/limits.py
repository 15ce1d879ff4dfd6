"""An observable of the limit as a function of fields, at all points of a grid at
once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field, field_error, nearest
from giantstep.core.base.progress import Progress, ProgressOption, counted, with_time
from giantstep.core.base.types import Array, Booleans, Floats, Indices, Points
from giantstep.core.run.problems import Problems
from giantstep.core.run.reach import Jump, jump_at
from giantstep.core.run.request import Request
from giantstep.core.run.returns import answer_of
from giantstep.core.scenario.answer import Answer, last_known
from giantstep.core.scenario.dimensions import dimension_named
from giantstep.core.scenario.family import Engine, Question, Variable
from giantstep.core.scenario.grid import Batch
from giantstep.core.scenario.lists import declaration, given_as, names_meant
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.names import dotted_names

if TYPE_CHECKING:
    import xarray

_GENERAL = ("what", "theory", "dim", "tolerance", "seed")
"""Keywords of `predict` that are no fields."""
_MOST_REMARKS = 3
"""Remarks that are passed on; a search asks for hundreds of points, and each may have
its own.
"""
_MOST_POINTS = 4096
"""Points answered in one batch; more of them need memory and save no time."""


def request_limit(
    scenario: Scenario,
    grid: Mapping[str, Any] | None,
    keywords: Mapping[str, Any],
    own_keywords: Sequence[str] = (),
) -> Request:
    """Return what `predict` would be asked with these keywords; the verb has
    `own_keywords` beside them.
    """
    if isinstance(scenario, Scenario):
        own = scenario.numeric_fields()
    else:
        own = {}
    general = {
        name: keywords[name]
        for name in _GENERAL
        if name in keywords and name not in own
    }
    rest = {name: value for name, value in keywords.items() if name not in general}
    what = general.pop("what", None)
    dim = general.pop("dim", None)
    return Request(
        scenario, grid, rest, what=what, dim=dim, also=own_keywords, **general
    )


def refuse_given(
    names: Iterable[str], sought: str, request: Request, given: Mapping[str, Any]
) -> None:
    """Refuse values for fields that are to be found; `sought` says how."""
    for name in names:
        if given_as(
            request.grid.scenario, name, dotted_names(given), request.grid.coords
        ):
            raise InputError(f"Field `{name}` is {sought} and given a value, too.")


class ObservedLimit:
    """One observable at the rows of a grid, some of their fields replaced.

    A call answers all points in one batch (one for each combination of names in the
    grid) and keeps count of what was not solved, row by row: `asked`, `failed` (size,),
    `reasons` why the first failed point of a row was not solved, `remarks` of the limit
    (an approximation that it chose) and `theories` that answered, each once.
    """

    def __init__(self, request: Request, observable: Observable) -> None:
        self.request = request
        self.observable = observable
        self._prepared = request.prepare()
        self.size = request.grid.size
        self._batches = request.grid.batches()
        self.asked, self.failed = np.zeros((2, self.size), dtype=np.int64)
        self.reasons: dict[int, str] = {}
        self.remarks: dict[str, None] = {}
        self.theories: dict[str, None] = {}
        self.bar: Progress | None = None

    @contextmanager
    def watched(
        self, text: str, count: int, progress: ProgressOption
    ) -> Iterator[Progress]:
        """Show how many points were asked for, of about `count`, and beforehand how
        long they may take.
        """
        seconds = count * self.request.grid.scenario.seconds(self.request.what)
        with Progress(progress, count, with_time(text, seconds)) as self.bar:
            yield self.bar

    def _parts(self, rows: Indices) -> Iterator[tuple[Batch, Indices, Indices]]:
        """Yield the batches that some rows are in: which of the rows are, and where."""
        for batch in self._batches:
            mine = np.flatnonzero(np.isin(rows, batch.index))
            if len(mine):
                yield batch, mine, np.searchsorted(batch.index, rows[mine])

    def field(self, name: str, rows: Indices) -> Floats:
        """Return a numeric field as the grid has it, at some rows; all entries of a
        list must have the same.
        """
        values = np.empty(len(rows))
        for batch, mine, places in self._parts(rows):
            first, *others = [
                batch.points[leaf][places] for leaf in names_meant(batch.scenario, name)
            ]
            if not all(np.array_equal(first, other) for other in others):
                raise InputError(
                    f"Field `{name}` has no one value here: name one entry of the list,"
                    " or set them all."
                )
            values[mine] = first
        return values

    def __call__(self, rows: Indices, changes: Mapping[str, Floats]) -> Floats:
        """Return the observable at `rows` with the fields `changes` replaced; NaN where
        it was not solved.
        """
        if len(rows) > _MOST_POINTS:
            blocks = [
                slice(start, start + _MOST_POINTS)
                for start in range(0, len(rows), _MOST_POINTS)
            ]
            parts = [
                self(rows[b], {name: column[b] for name, column in changes.items()})
                for b in blocks
            ]
            return np.concatenate(parts)
        values = np.full(len(rows), np.nan)
        for batch, mine, places in self._parts(rows):
            points = {name: column[places] for name, column in batch.points.items()}
            for name, column in changes.items():
                chosen = np.asarray(column, dtype=np.float64)[mine]
                points.update(
                    {leaf: chosen for leaf in names_meant(batch.scenario, name)}
                )
            values[mine] = self._answer(
                batch.scenario, points, rows[mine], list(changes)
            )
        np.add.at(self.asked, rows, 1)
        np.add.at(self.failed, rows[np.isnan(values)], 1)
        return values

    def _answer(
        self, scenario: Scenario, points: Points, rows: Indices, changed: Sequence[str]
    ) -> Floats:
        values = np.full(len(rows), np.nan)
        good = self._allowed(scenario, points, rows)
        if not good.any():
            return values
        kept = {name: column[good] for name, column in points.items()}
        prepared = self._prepared
        # where counts change (of steps, say), what they prepare changes, too
        if any(declaration(scenario, name).annotation is int for name in changed):
            prepared = scenario.prepare(kept, self.request.what, prepared)
        settings = self.request.for_engine("limit", prepared)
        with counted(self.bar, int(good.sum())):
            answer = answer_of(scenario, kept, self.request.what, settings)
        values[good] = self.observable.pick(answer, settings)
        self.remarks.update(dict.fromkeys(answer.warnings))
        theory = answer.attrs.get(
            "theory", self.request.theory or next(iter(scenario.theories))
        )
        self.theories.setdefault(str(theory))
        for row, reason in zip(rows[good], np.asarray(answer.status)):
            if reason:
                self.reasons.setdefault(int(row), str(reason))
        return values

    def point_at(
        self, row: int, changes: Mapping[str, float]
    ) -> tuple[Scenario, Points]:
        """Return the scenario and the point (arrays of one entry) of a row, some of its
        fields replaced.
        """
        (batch, _, places), *_ = self._parts(np.array([row]))
        points = {name: column[places] for name, column in batch.points.items()}
        for name, value in changes.items():
            points.update(
                {
                    leaf: np.array([float(value)])
                    for leaf in names_meant(batch.scenario, name)
                }
            )
        return batch.scenario, points

    def scenario_at(self, row: int, changes: Mapping[str, float]) -> Scenario:
        """Return the scenario of a row, with its own fields and some of them
        replaced.
        """
        scenario, points = self.point_at(row, changes)
        moved: dict[str, float | int] = {}
        for name, number in scenario.numbers.items():
            value = float(points[name][0])
            if value != number:
                if declaration(scenario, name).annotation is int:
                    moved[name] = int(value)
                else:
                    moved[name] = value
        return scenario.replace(moved) if moved else scenario

    def answer_at(
        self, row: int, changes: Mapping[str, float]
    ) -> tuple[Answer, Jump | None]:
        """Return the limit of one row with some fields replaced, and the jump that
        decides it, if there is one.
        """
        scenario, points = self.point_at(row, changes)
        settings = self.request.for_engine("limit", self._prepared)
        answer = answer_of(scenario, points, self.request.what, settings)
        jump = jump_at(
            scenario,
            points,
            self.request.what,
            settings,
            answer,
            lambda one: self.observable.pick(one, settings),
        )
        return answer, jump

    def _allowed(self, scenario: Scenario, points: Points, rows: Indices) -> Booleans:
        """Tell which points the scenario takes (a ridgeless fit at the interpolation
        threshold is none).
        """
        try:
            scenario.check_points(points)
            return np.ones(len(rows), dtype=bool)
        except InputError as error:
            if len(rows) == 1:
                self.reasons.setdefault(int(rows[0]), str(error))
                return np.zeros(1, dtype=bool)
        each = (
            {name: column[i : i + 1] for name, column in points.items()}
            for i in range(len(rows))
        )
        return np.concatenate(
            [
                self._allowed(scenario, one, rows[i : i + 1])
                for i, one in enumerate(each)
            ]
        )

    def problems(self) -> Problems:
        """Return what a verb warns of: the first few remarks. Points that failed are
        the result's to tell.
        """
        return Problems("limit", self.size, remarks=list(self.remarks)[:_MOST_REMARKS])

    def failure(self, row: int) -> str:
        """Say how many points of a row were not solved, and why the first was not."""
        reason = self.reasons.get(row, "the observable is not a number")
        return (
            f"{self.failed[row]} of {self.asked[row]} points were not solved (first"
            f" reason: {reason})"
        )


# -- One number of an answer: a variable of the question, or an entry of one (``test_err


PREFERRED = "test_error"
"""What is meant where no observable is named, in every question that has it; along time
its last entry.
"""
LAST = "last"
"""The entry where a dimension ends."""


@dataclass(frozen=True)
class Observable:
    """A variable of a question, and the coordinate picked along each of its own
    dimensions, as text.
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
        """Return the observable at every point of an answer, NaN where it was not
        solved.
        """
        failed = np.asarray(answer.status) != ""
        if self.name not in answer.values:
            return np.full(len(failed), np.nan)
        values = np.asarray(answer.values[self.name])
        if values.dtype.kind in "UO":
            raise InputError(
                f"`{self.name}` holds names, not numbers; choose another variable."
            )
        values = values.astype(np.float64)
        for axis, dim in reversed(list(enumerate(self.variable.dims, start=1))):
            if self.entry[dim] == LAST:
                values = last_known(values, axis)
                continue
            known = answer.coords.get(dim, settings.get(dim))
            counted_from = self.question.dimension(dim).first
            if known is None:
                places = counted_from + np.arange(values.shape[axis])
            else:
                places = np.asarray(known)
            values = np.take(values, self._position(dim, places), axis=axis)
        return np.where(failed, np.nan, values)

    def select(self, values: xarray.DataArray) -> xarray.DataArray:
        """Return the observable of a column of a result."""
        return values.isel(
            {
                dim: self._position(dim, values[dim].values)
                for dim in self.variable.dims
            },
            drop=True,
        )

    def _position(self, dim: str, coordinates: Array) -> int:
        wanted = self.entry[dim]
        if wanted == LAST:
            return len(coordinates) - 1
        for index, value in enumerate(coordinates.tolist()):
            if str(value) == wanted:
                return index
            with suppress(ValueError):  # of what is no number
                if isinstance(value, int | float) and np.isclose(
                    float(wanted), value, rtol=1e-9, atol=0
                ):
                    return index
        shown = [str(value) for value in coordinates.tolist()]
        allowed = ", ".join(
            shown if len(shown) <= 12 else [*shown[:5], "...", *shown[-2:]]
        )
        raise InputError(
            f"`{self.name}` has no entry {dim}={wanted}; along {dim} it has {allowed}."
        )


def read_observable(
    argument: str, text: Any, question: Question, engine: Engine = "limit"
) -> Observable:
    """Return the observable of an engine that a text means; `argument` is who asks, for
    the error.
    """
    known = {v.name: v for v in question.variables if engine in v.engines}
    if text is None:
        if PREFERRED not in known:
            named = ", ".join(map(_whole, known.values()))
            raise field_error(
                argument,
                f"Field `{{field}}` is missing: name a variable, one of {named}.",
            )
        text = _whole(known[PREFERRED])
    if not isinstance(text, str):
        raise bad_field(argument, text, "one of " + ", ".join(known))
    match = re.fullmatch(r"\s*(\w+)\s*(?:\[(.*)\])?\s*", text)
    if match is None or match[1] not in known:
        raise bad_field(
            argument, text, f"one of {', '.join(known)}{nearest(text, list(known))}"
        )
    variable = known[match[1]]
    return Observable(
        variable, _entry(argument, text, match[2] or "", variable), question
    )


def _entry(argument: str, text: str, inside: str, variable: Variable) -> dict[str, str]:
    entry = {}
    for part in filter(None, (part.strip() for part in inside.split(","))):
        dim, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            dim = variable.dims[0] if len(variable.dims) == 1 else ""
            value = part
        entry[dim] = value.strip("'\"")
    for dim in (
        variable.dims
    ):  # a trajectory is meant after its last step, unless a time is named
        if dimension_named(dim).role == "trajectory":
            entry.setdefault(dim, LAST)
    if set(entry) == set(variable.dims):
        return {dim: entry[dim] for dim in variable.dims}
    if not variable.dims:
        raise bad_field(
            argument, text, f"`{variable.name}` without brackets: it is one number"
        )
    of_dims = ", ".join(f"`{dim}`" for dim in variable.dims)
    raise bad_field(
        argument,
        text,
        f"one of the entries of `{variable.name}`, which has the dimensions {of_dims}: "
        f'write "{_whole(variable)}"',
    )


def _whole(variable: Variable) -> str:
    """Return a variable as it may be asked for: the last time of a trajectory, else the
    first entry.
    """
    entries = (
        f"{dim}={LAST if dimension_named(dim).role == 'trajectory' else 1}"
        for dim in variable.dims
    )
    if variable.dims:
        return f"{variable.name}[{', '.join(entries)}]"
    return variable.name
