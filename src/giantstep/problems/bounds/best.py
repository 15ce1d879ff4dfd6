"""`best_possible` and `efficiency`: the same target and samples given to the best
estimator, and what is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep.core.base.errors import InputError
from giantstep.core.base.progress import A_FEW, Progress, ProgressOption, with_time
from giantstep.core.base.types import Array, Floats
from giantstep.core.result.provenance import grid_of, question_of
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.model import Scenario
from giantstep.problems.bounds.counting import (
    BoundCurve,
    BoundedError,
    BoundProblem,
    Teacher,
    teacher_of,
)

if TYPE_CHECKING:
    from giantstep.problems.bayes_limit.scenario import BayesLimit

_COLUMNS = {
    "bayes": ("ratio", "the best possible method"),
    "uninformed": ("amp_ratio", "message passing"),
}
"""Branch -> the end of the name of its column, and who that is."""
_LOOKED_AT = 10
"""About how many points of a slow curve are computed before an error is found on it."""


def best_possible(scenario: Scenario) -> BayesLimit:
    """Return the `BayesLimit` with the same target and noise, and with all samples that
    a scenario sees.

    Every fresh batch and the samples of the fit count, samples that are used again
    count once. What it returns knows the target function: no method of the scenario can
    have a smaller error, see ``gs.plot(result, bound=True)``.

    Parameters
    ----------
    scenario : `Network` and its presets, `GiantSteps`, `OnlineSGD`, `BatchReuse`, or
        `MixtureGLM` with one isotropic cluster. Steps on infinite batches, and starts
        that know something of the target, are refused.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     target="tanh(z)",
    ...     noise=0.1,
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ... )
    >>> best = gs.best_possible(s)
    >>> (
    ...     best.samples_per_dim,
    ...     float(gs.predict(best).mse.sel(branch="bayes"))
    ...     < float(gs.predict(s).test_error),
    ... )
    (2.0, True)
    """
    if not isinstance(scenario, Scenario):
        raise InputError(
            f"The first argument must be a scenario, not a {type(scenario).__name__}."
        )
    teacher = teacher_of(scenario)
    return teacher.problem.at(teacher.total())


def efficiency(
    result: xarray.Dataset, *, progress: ProgressOption = None
) -> xarray.Dataset:
    """Return how many times more samples a method needs than the best one for the same
    error.

    For every error of a result that has a best possible value, `efficiency` has
    ``NAME_ratio`` (against the best possible) and ``NAME_amp_ratio`` (against message
    passing, the best known fast algorithm): the samples of the method over those at
    which the best one has the same error, at every point of the grid its own target,
    noise and samples. At least 1, and infinite where the best one needs none: where the
    error is no smaller than without samples. What was measured has ``*_stderr``, that
    of the error carried over, and may be below 1 by chance; NaN where it is below the
    best possible error of 16 times as many samples.

    Ratios are solved for to 1% for targets of several directions, of which the best
    possible error takes seconds for every number of samples: up to half a minute for
    each distinct target, noise and error of the grid.

    Parameters
    ----------
    result : what `predict`, `simulate` or `compare` returned for a scenario that
        `best_possible` takes, or a part of it (``result.sel(noise=0.1)``).
    progress : True, False or a callable(done, total, text); a line on a terminal where
        it takes more than a moment.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="sign", loss="square", ridge=1.0, samples_per_dim=2.0)
    >>> e = gs.efficiency(gs.predict(s, samples_per_dim=[1.0, 4.0]))
    >>> bool((e.test_error_ratio > 1).all())
    True
    """
    from giantstep.core.result.text import Result

    teachers = Teachers(grid_of(result))
    names = [name for name in teachers.observables if name in result.data_vars]
    if not names:
        known = ", ".join(teachers.observables)
        raise InputError(
            "This result has none of the errors that have a best possible value"
            f" ({known})."
        )
    columns: dict[str, Any] = {}
    problems = {teacher.problem for teacher in teachers.each}
    with watched(dict.fromkeys(problems, _LOOKED_AT), progress) as bar:
        curves = {problem: BoundCurve(problem, bar) for problem in problems}
        for name in names:
            check_time(result, name)
            errors = result[name]
            spread = result.get(f"{name}_stderr")
            if spread is not None and spread.dims == errors.dims:
                spread = spread
            else:
                spread = None
            seen = teachers.seen(name, errors)
            for branch, (suffix, who) in _COLUMNS.items():
                ratio, stretch = _ratios(
                    errors, seen, curves, branch, measured=spread is not None
                )
                about = {
                    "long_name": f"{name}: samples over those that {who} needs",
                    "symbol": "n/n_best",
                }
                columns[f"{name}_{suffix}"] = errors.copy(data=ratio).assign_attrs(
                    about
                )
                if spread is not None:
                    columns[f"{name}_{suffix}_stderr"] = spread.copy(
                        data=spread.values * stretch
                    )
    counted = "; ".join(dict.fromkeys(teacher.counted for teacher in teachers.each))
    return Result(columns, attrs={**result.attrs, "counted": counted})


def _ratios(
    errors: xarray.DataArray,
    seen: list[Seen],
    curves: Mapping[BoundProblem, BoundCurve],
    branch: str,
    measured: bool,
) -> tuple[Floats, Floats]:
    """Return the samples of the method over those that the best one needs, and how fast
    that changes with the error.
    """
    values = errors.values.reshape(-1).astype(float)
    ratio, stretch = np.full((2, errors.size), np.nan)
    for one in seen:
        curve = curves[one.problem]
        observable = one.observable
        flip = one.problem.flip
        needed = curve.needed(
            observable.name,
            branch,
            observable.to_best(values[one.place], flip),
            one.samples,
        )
        if one.samples > 0:
            ratio[one.place] = one.samples / needed if needed != 0 else np.inf
        if measured:
            unit = observable.to_best(1.0, flip) - observable.to_best(0.0, flip)
            r = float(ratio[one.place])
            stretch[one.place] = (
                r * curve.steepness(observable.name, branch, one.samples / r) * unit
            )
    return ratio.reshape(errors.shape), stretch.reshape(errors.shape)


def watched(points: dict[BoundProblem, int], progress: ProgressOption) -> Progress:
    """Return a bar over so many points of each curve, for where they take more than a
    few seconds.
    """
    seconds = sum(problem.seconds * count for problem, count in points.items())
    option = False if progress is None and seconds < A_FEW else progress
    return Progress(
        option, sum(points.values()), with_time("best possible error", seconds)
    )


# -- A result seen from the best estimator: what is learnt at each of its points -------


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
        self.observables = list(
            dict.fromkeys(
                o.variable for teacher in self.each for o in teacher.observables
            )
        )

    def seen(self, variable: str, errors: xarray.DataArray) -> list[Seen]:
        """Return the errors of a variable that have a best possible value, point by
        point of a flattened array.
        """
        return [
            Seen(place, teacher.problem, observable, teacher.total(steps))
            for place, (teacher, steps) in enumerate(self._entries(errors))
            for observable in teacher.observables
            if observable.variable == variable
        ]

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
        time = errors.coords.get("time", xarray.DataArray(-1))  # -1: errors of the end
        columns = (
            xarray.DataArray(each, dims=self.grid.dims),
            xarray.DataArray(time.values, dims=time.dims),
        )
        teachers, steps = (
            c.broadcast_like(bare).transpose(*errors.dims).values.reshape(-1)
            for c in columns
        )
        for teacher, step in zip(teachers, steps):
            yield teacher, int(step) if step >= 0 else None


def check_time(result: xarray.Dataset, variable: str) -> None:
    """Refuse errors along time of which nobody says any more at which."""
    question = question_of(result.attrs)
    if question is None:
        declared = []
    else:
        declared = [v.dims for v in question.variables if v.name == variable]
    if (
        any("time" in dims for dims in declared)
        and "time" not in result[variable].coords
    ):
        which = f"at which time its `{variable}` is; keep the coordinate `time`"
        raise InputError(f"The result does not say any more {which}.")
