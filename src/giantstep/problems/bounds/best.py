"""`best_possible` and `efficiency`: the same target and samples given to the best
estimator, and what is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from giantstep.core.base.errors import InputError
from giantstep.core.base.progress import A_FEW, Progress, ProgressOption, with_time
from giantstep.core.base.types import Floats
from giantstep.core.result.provenance import grid_of
from giantstep.core.result.text import Result
from giantstep.core.scenario.model import Scenario
from giantstep.problems.bounds.counting import teacher_of
from giantstep.problems.bounds.curve import BoundCurve, BoundProblem
from giantstep.problems.bounds.teachers import Seen, Teachers, check_time

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
        # points of one problem share what is computed of its curve
        curves = {problem: BoundCurve(problem, bar) for problem in problems}
        for name in names:
            check_time(result, name)
            columns |= _columns(result, name, teachers, curves)
    counted = "; ".join(dict.fromkeys(teacher.counted for teacher in teachers.each))
    return Result(columns, attrs={**result.attrs, "counted": counted})


def _columns(
    result: xarray.Dataset,
    name: str,
    teachers: Teachers,
    curves: Mapping[BoundProblem, BoundCurve],
) -> dict[str, xarray.DataArray]:
    """Return the ratios of one error, with their standard errors where it has one."""
    errors = result[name]
    stderr = result.get(f"{name}_stderr")
    if stderr is not None and stderr.dims != errors.dims:
        # of another shape it is not the spread of these entries
        stderr = None
    entries = teachers.seen(name, errors)
    columns = {}
    for branch, (suffix, who) in _COLUMNS.items():
        ratio, stretch = _ratios(
            errors, entries, curves, branch, measured=stderr is not None
        )
        columns[f"{name}_{suffix}"] = errors.copy(data=ratio).assign_attrs(
            long_name=f"{name}: samples over those that {who} needs",
            symbol="n/n_best",
        )
        if stderr is not None:
            values = stderr.values * stretch
            columns[f"{name}_{suffix}_stderr"] = stderr.copy(data=values)
    return columns


def _ratios(
    errors: xarray.DataArray,
    entries: list[Seen],
    curves: Mapping[BoundProblem, BoundCurve],
    branch: str,
    measured: bool,
) -> tuple[Floats, Floats]:
    """Return the samples of the method over those that the best one needs, and how fast
    that changes with the error.
    """
    values = errors.values.reshape(-1).astype(float)
    ratio = np.full(errors.size, np.nan)
    stretch = np.full(errors.size, np.nan)
    for entry in entries:
        curve = curves[entry.problem]
        observable = entry.observable
        flip = entry.problem.flip
        error = observable.to_best(values[entry.place], flip)
        needed = curve.needed(observable.name, branch, error, entry.samples)
        if entry.samples > 0:
            ratio[entry.place] = entry.samples / needed if needed != 0 else np.inf
        if measured:
            # d ratio = ratio |d log n_best/d error|, in units of the variable
            unit = observable.to_best(1.0, flip) - observable.to_best(0.0, flip)
            r = float(ratio[entry.place])
            steepness = curve.steepness(observable.name, branch, entry.samples / r)
            stretch[entry.place] = r * steepness * unit
    return ratio.reshape(errors.shape), stretch.reshape(errors.shape)


def watched(points: dict[BoundProblem, int], progress: ProgressOption) -> Progress:
    """Return a bar over so many points of each curve, for where they take more than a
    few seconds.
    """
    seconds = sum(problem.seconds * count for problem, count in points.items())
    option = progress
    if progress is None and seconds < A_FEW:
        option = False
    text = with_time("best possible error", seconds)
    return Progress(option, sum(points.values()), text)
