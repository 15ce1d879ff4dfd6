"""A result seen from the best estimator: what is learnt at each of its points, and from how many samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import xarray

from giantstep.bounds.counting import BoundedError, Teacher, teacher_of
from giantstep.errors import InputError
from giantstep.grid import Grid
from giantstep.result import grid_of, question_of

if TYPE_CHECKING:
    from giantstep.bounds.curve import BoundProblem
    from giantstep.types import Array


@dataclass(frozen=True)
class Teachers:
    """What every point of a grid learns from.

    Attributes
    ----------
    grid : the points.
    each : their teachers, in the order of the flattened grid.
    """

    grid: Grid
    each: list[Teacher]

    @classmethod
    def of_result(cls, result: xarray.Dataset) -> Teachers:
        """Return those of a result or a part of one; a point that has no best possible error is refused."""
        return cls.of_grid(grid_of(result))

    @classmethod
    def of_grid(cls, grid: Grid) -> Teachers:
        """Return those of a grid."""
        return cls(grid, [teacher_of(scenario) for scenario in grid.scenarios()])

    @cached_property
    def observables(self) -> list[str]:
        """The variables that have a best possible value somewhere."""
        return list(dict.fromkeys(o.variable for teacher in self.each for o in teacher.observables))

    @property
    def counted(self) -> str:
        """How samples were counted, in words."""
        return "; ".join(dict.fromkeys(teacher.counted for teacher in self.each))

    def column(self, values: list[object]) -> xarray.DataArray:
        """Return one value for each point along the dimensions of the grid."""
        array: Array = np.empty(len(values), dtype=object)
        array[:] = values
        return xarray.DataArray(array.reshape(self.grid.shape), dims=self.grid.dims)

    def seen(self, variable: str, errors: xarray.DataArray) -> list[Seen]:
        """Return the errors of a variable, point by point of a flattened array, with the best one's side of each.

        Points at which the variable has no best possible value (mean squared errors of classes) are left out.
        """
        teachers = self.column([_Reading.of(teacher, variable) for teacher in self.each])
        steps = _steps_made(errors)
        teacher, made = (a.transpose(*errors.dims).values.reshape(-1) for a in _alike(errors, teachers, steps))
        return [
            Seen(place, one.teacher.problem, one.observable, one.samples(int(step)))
            for place, (one, step) in enumerate(zip(teacher, made))
            if one is not None
        ]


@dataclass(frozen=True)
class Seen:
    """One entry of a variable: its place in the flattened array, what is learnt, and the samples seen by then."""

    place: int
    problem: BoundProblem
    observable: BoundedError
    samples: float


@dataclass(frozen=True)
class _Reading:
    teacher: Teacher
    observable: BoundedError

    @classmethod
    def of(cls, teacher: Teacher, variable: str) -> _Reading | None:
        for observable in teacher.observables:
            if observable.variable == variable:
                return cls(teacher, observable)
        return None

    def samples(self, step: int) -> float:
        """Return the samples seen after some steps; all of them where the errors are those of the end."""
        return self.teacher.total(None if step < 0 or not self.teacher.batch else step)


def _steps_made(errors: xarray.DataArray) -> xarray.DataArray:
    """Return how many updates were made at each entry; -1 where the variable is that of the end."""
    if "time" in errors.coords:
        return xarray.DataArray(errors["time"].values, dims=errors["time"].dims)
    return xarray.DataArray(-1)


def _alike(errors: xarray.DataArray, *arrays: xarray.DataArray) -> list[xarray.DataArray]:
    """Return arrays with the dimensions of the errors; coordinates play no part."""
    bare = xarray.DataArray(np.zeros(errors.shape), dims=errors.dims)
    return [array.broadcast_like(bare) for array in arrays]


def check_time(result: xarray.Dataset, variable: str) -> None:
    """Refuse errors along time of which nobody says any more at which."""
    question = question_of(result.attrs)
    declared = [] if question is None else [v.dims for v in question.variables if v.name == variable]
    if any("time" in dims for dims in declared) and "time" not in result[variable].coords:
        raise InputError(
            f"The result does not say any more at which time its `{variable}` is; keep the coordinate `time`."
        )
