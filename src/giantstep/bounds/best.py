"""`best_possible` and `efficiency`: the same target and samples given to the best estimator, and what is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.bounds.counting import Observable, Teacher, teacher_of
from giantstep.errors import InputError
from giantstep.scenario import Scenario, from_content
from giantstep.types import Floats

if TYPE_CHECKING:
    import xarray

    from giantstep.families.bayes_limit.scenario import BayesLimit

_POINTS = {1: 49, 2: 13}
"""Sample sizes at which the best possible error is computed before it is inverted, by the number of directions."""


def best_possible(scenario: Scenario) -> BayesLimit:
    """Return the `BayesLimit` with the same target and noise, and with all samples that a scenario sees.

    Every fresh batch and the samples of the fit count, samples that are used again count once. What it returns knows
    the target function: no method of the scenario can have a smaller error, see ``gs.plot(result, bound=True)``.

    Parameters
    ----------
    scenario : `OneStep`, `FewSteps`, `GiantSteps`, `OnlineSGD`, `BatchReuse`, or `MixtureGLM` with one isotropic
        cluster. Steps on infinite batches, and starts that know something of the target, are refused.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(target="tanh(z)", noise=0.1, width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> best = gs.best_possible(s)
    >>> best.samples_per_dim, float(gs.predict(best).mse.sel(branch="bayes")) < float(gs.predict(s).test_error)
    (2.0, True)
    """
    from giantstep.families.bayes_limit.scenario import BayesLimit

    if not isinstance(scenario, Scenario):
        raise InputError(f"The first argument must be a scenario, not a {type(scenario).__name__}.")
    teacher = teacher_of(scenario)
    return BayesLimit(
        target=teacher.target, noise=teacher.noise, flip=teacher.flip, samples_per_dim=max(teacher.total(), 1e-9)
    )


def efficiency(result: xarray.Dataset) -> xarray.Dataset:
    """Return how many times more samples a method needs than the best one for the same error.

    For every error of a result that has a best possible value, `efficiency` has ``NAME_ratio`` (against the best
    possible) and ``NAME_amp_ratio`` (against message passing, the best known fast algorithm): the samples of the
    method over those at which the best one has the same error. At least 1 up to the noise of an experiment, and
    infinite where the best one needs none: where the error is no smaller than without samples.

    Parameters
    ----------
    result : what `predict`, `simulate` or `compare` returned for a scenario that `best_possible` takes.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="sign", loss="square", ridge=1.0, samples_per_dim=2.0)
    >>> e = gs.efficiency(gs.predict(s, samples_per_dim=[1.0, 4.0]))
    >>> bool((e.test_error_ratio > 1).all())
    True
    """
    import xarray

    scenario = scenario_of(result)
    teacher = teacher_of(scenario)
    columns: dict[str, Any] = {}
    for observable in teacher.observables:
        if observable.variable not in result:
            continue
        errors = observable.scale * result[observable.variable] + observable.shift
        samples = _samples(result, errors, scenario)
        for suffix, branch in (("ratio", "bayes"), ("amp_ratio", "uninformed")):
            columns[f"{observable.variable}_{suffix}"] = xarray.zeros_like(errors, dtype=float) + np.nan
            inverse = _needed_samples(scenario, observable, errors.values, float(samples.max()), branch)
            with np.errstate(divide="ignore"):
                columns[f"{observable.variable}_{suffix}"].values[...] = samples.broadcast_like(errors).values / inverse
    if not columns:
        names = ", ".join(observable.variable for observable in teacher.observables)
        raise InputError(f"This result has none of the errors that have a best possible value ({names}).")
    return xarray.Dataset(columns, attrs={"counted": teacher.counted, "family": scenario.family})


def scenario_of(result: xarray.Dataset) -> Scenario:
    """Return the scenario of a result."""
    content = getattr(result, "attrs", {}).get("scenario")
    if content is None:
        raise InputError("The first argument must be a result of predict, simulate or compare.")
    scenario: Scenario = from_content(json.loads(content))
    return scenario


def _samples(result: xarray.Dataset, errors: xarray.DataArray, scenario: Scenario) -> xarray.DataArray:
    """Return the samples per dimension that each error has seen, along the grid and the steps made."""
    import xarray

    dims = [dim for dim in errors.dims if dim in scenario.numeric_fields() or dim == "time"]
    axes = [np.asarray(errors[dim].values, dtype=float) for dim in dims]
    values = np.empty([len(axis) for axis in axes])
    for index in np.ndindex(*values.shape):
        point = {str(dim): float(axis[i]) for dim, axis, i in zip(dims, axes, index)}
        time = point.pop("time", None)
        changed = {name: _as_field(scenario, name, value) for name, value in point.items()}
        teacher = teacher_of(scenario.replace(changed) if changed else scenario)
        values[index] = teacher.total(None if time is None or not teacher.batch else int(time))
    return xarray.DataArray(values, dims=dims, coords={dim: errors[dim] for dim in dims})


def _as_field(scenario: Scenario, name: str, value: float) -> float | int:
    return int(value) if scenario.numeric_fields()[name][1].annotation is int else value


def bound_of(scenario: Scenario, observable: Observable, alpha: Floats, branch: str = "bayes") -> Floats:
    """Return the best possible value of an observable, in its own units, at samples per dimension alpha."""
    from giantstep.families.bayes_limit.scenario import BayesLimit
    from giantstep.study import predict

    teacher: Teacher = teacher_of(scenario)
    best = BayesLimit(target=teacher.target, noise=teacher.noise, flip=teacher.flip, samples_per_dim=1.0)
    distinct, index = np.unique(np.maximum(alpha, 1e-9), return_inverse=True)
    answer = predict(best, samples_per_dim=distinct.tolist()).sel(branch=branch)
    values = answer[observable.name].values[index.reshape(-1)]
    if observable.clean and teacher.flip > 0:
        values = (values - teacher.flip) / (1 - 2 * teacher.flip)
    return np.asarray((values - observable.shift) / observable.scale)


def _needed_samples(scenario: Scenario, observable: Observable, errors: Floats, most: float, branch: str) -> Floats:
    """Return the samples per dimension at which the best one has these errors (of a `BayesLimit` name)."""
    directions = min(teacher_of(scenario).target.directions, 2)
    alpha = np.geomspace(most / 1000, 1.05 * most, _POINTS[directions])
    values = observable.scale * bound_of(scenario, observable, alpha, branch) + observable.shift
    falling = np.minimum.accumulate(values)
    start = float(observable.scale * bound_of(scenario, observable, np.array([1e-9]), branch)[0] + observable.shift)
    keep = np.concatenate([[True], np.diff(falling) < 0])
    needed = np.exp(np.interp(-errors, -falling[keep], np.log(alpha[keep]), left=np.nan, right=np.nan))
    needed = np.where(errors >= falling[0], 0.0, needed)
    return np.where(errors >= start, 0.0, needed)
