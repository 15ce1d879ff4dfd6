"""A result seen from the best estimator: what is learnt at each of its points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Array
from giantstep.core.result.provenance import question_of
from giantstep.core.scenario.grid import Grid
from giantstep.problems.bounds.counting import BoundedError, Teacher, teacher_of
from giantstep.problems.bounds.curve import BoundProblem


@dataclass(frozen=True)
class Seen:
    """One entry of a variable: its place in the flattened array, what is learnt, and
    the samples seen by then.
    """

    place: int
    problem: BoundProblem
    observable: BoundedError
    samples: float


class Teachers:
    """What every point of a grid learns from; a point that has no best possible error
    is refused.
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.each = [teacher_of(scenario) for scenario in grid.scenarios()]
        # the variables that have a best possible value somewhere
        variables: dict[str, None] = {}
        for teacher in self.each:
            for observable in teacher.observables:
                variables[observable.variable] = None
        self.observables = list(variables)

    def seen(self, variable: str, errors: xarray.DataArray) -> list[Seen]:
        """Return the errors of a variable that have a best possible value, point by
        point of a flattened array.
        """
        entries = []
        for place, (teacher, steps) in enumerate(self._entries(errors)):
            for observable in teacher.observables:
                if observable.variable == variable:
                    samples = teacher.total(steps)
                    entries.append(Seen(place, teacher.problem, observable, samples))
        return entries

    def samples(self, errors: xarray.DataArray) -> xarray.DataArray:
        """Return all samples per dimension that were seen at every entry of a
        variable.
        """
        totals = np.array(
            [teacher.total(steps) for teacher, steps in self._entries(errors)]
        )
        return xarray.DataArray(totals.reshape(errors.shape), dims=errors.dims)

    def _entries(
        self, errors: xarray.DataArray
    ) -> Iterator[tuple[Teacher, int | None]]:
        """Yield the teacher of every entry of a flattened array, and the steps made by
        then (None: all of them).
        """
        each: Array = np.empty(self.grid.shape, dtype=object)
        each.reshape(-1)[:] = self.each
        # coordinates play no part
        bare = xarray.DataArray(np.zeros(errors.shape), dims=errors.dims)

        def flattened(column: xarray.DataArray) -> Array:
            whole = column.broadcast_like(bare).transpose(*errors.dims)
            return whole.values.reshape(-1)

        # -1: errors of the end
        time = errors.coords.get("time", xarray.DataArray(-1))
        teachers = flattened(xarray.DataArray(each, dims=self.grid.dims))
        times = flattened(xarray.DataArray(time.values, dims=time.dims))
        for teacher, steps in zip(teachers, times):
            yield teacher, int(steps) if steps >= 0 else None


def check_time(result: xarray.Dataset, variable: str) -> None:
    """Refuse errors along time of which nobody says any more at which."""
    question = question_of(result.attrs)
    if question is None or "time" in result[variable].coords:
        return
    declared = [one.dims for one in question.variables if one.name == variable]
    if any("time" in dims for dims in declared):
        which = f"at which time its `{variable}` is; keep the coordinate `time`"
        raise InputError(f"The result does not say any more {which}.")
