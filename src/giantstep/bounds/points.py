"""A result seen from the best estimator: what is learnt at each of its points, and from how many samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray

from giantstep.bounds.counting import BoundedError, Teacher, teacher_of
from giantstep.bounds.curve import BoundProblem
from giantstep.errors import InputError
from giantstep.grid import Grid
from giantstep.result import grid_of, question_of
from giantstep.types import Array


@dataclass(frozen=True)
class Seen:
    """One entry of a variable: its place in the flattened array, what is learnt, and the samples seen by then."""

    place: int
    problem: BoundProblem
    observable: BoundedError
    samples: float


@dataclass(frozen=True)
class Teachers:
    """What every point of a grid learns from; a point that has no best possible error is refused."""

    grid: Grid

    @classmethod
    def of_result(cls, result: xarray.Dataset) -> Teachers:
        """Return those of a result or a part of one."""
        return cls(grid_of(result))

    @cached_property
    def each(self) -> list[Teacher]:
        """The teachers, in the order of the flattened grid."""
        return [teacher_of(scenario) for scenario in self.grid.scenarios()]

    @cached_property
    def observables(self) -> list[str]:
        """The variables that have a best possible value somewhere."""
        return list(dict.fromkeys(o.variable for teacher in self.each for o in teacher.observables))

    @property
    def counted(self) -> str:
        """How samples were counted, in words."""
        return "; ".join(dict.fromkeys(teacher.counted for teacher in self.each))

    def seen(self, variable: str, errors: xarray.DataArray) -> list[Seen]:
        """Return the errors of a variable, point by point of a flattened array, with the best one's side of each.

        Points at which the variable has no best possible value (mean squared errors of classes) are left out.
        """
        each: Array = np.empty(self.grid.shape, dtype=object)
        each.reshape(-1)[:] = self.each
        bare = xarray.DataArray(np.zeros(errors.shape), dims=errors.dims)  # coordinates play no part
        time = errors.coords.get("time", xarray.DataArray(-1))  # -1: errors of the end
        columns = (xarray.DataArray(each, dims=self.grid.dims), xarray.DataArray(time.values, dims=time.dims))
        teachers, steps = (c.broadcast_like(bare).transpose(*errors.dims).values.reshape(-1) for c in columns)
        return [
            Seen(place, teacher.problem, observable, teacher.total(int(step) if step >= 0 else None))
            for place, (teacher, step) in enumerate(zip(teachers, steps))
            for observable in teacher.observables
            if observable.variable == variable
        ]


def check_time(result: xarray.Dataset, variable: str) -> None:
    """Refuse errors along time of which nobody says any more at which."""
    question = question_of(result.attrs)
    declared = [] if question is None else [v.dims for v in question.variables if v.name == variable]
    if any("time" in dims for dims in declared) and "time" not in result[variable].coords:
        raise InputError(
            f"The result does not say any more at which time its `{variable}` is; keep the coordinate `time`."
        )
