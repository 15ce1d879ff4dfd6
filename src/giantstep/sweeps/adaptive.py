"""Adaptive sampling: where to put more points, and how many more trials a point needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.checks import check_number, check_whole
from giantstep.errors import InputError, bad_field
from giantstep.family import Question
from giantstep.partlists import declaration
from giantstep.request import Request
from giantstep.types import Booleans, Floats

if TYPE_CHECKING:
    import xarray

_WHOLE = "a whole number at least 1"


def trial_goal(question: Question, trials: int, until: Any, most_trials: int | None) -> TrialGoal:
    """Return which standard errors are wanted, checked; a point has `trials` at first, and 20 times as many at most."""
    until = {} if until is None else until
    if not isinstance(until, Mapping):
        raise bad_field("until", until, "a table of variables and standard errors")
    names = [variable.name for variable in question.variables if "experiment" in variable.engines]
    for name in until:
        if name not in names:
            raise bad_field("until", name, f"a table of standard errors of {', '.join(names)}")
    errors = {n: check_number(f"until.{n}", e, "a number above 0", lambda e: e > 0) for n, e in until.items()}
    most = 20 * trials if most_trials is None else most_trials
    return TrialGoal(errors, check_whole("most_trials", most, _WHOLE, 1))


def refinement(grid: Mapping[str, Any], refine: Any, most_points: int) -> Refinement | None:
    """Return which field is refined, checked; `grid` holds the values of every field that varies."""
    most = check_whole("most_points", most_points, _WHOLE, 1)
    if refine is None:
        return None
    if not isinstance(refine, Mapping) or len(refine) != 1:
        raise bad_field("refine", refine, "a table of one field of the grid and its tolerance")
    ((name, tolerance),) = refine.items()
    name = name.replace("__", ".")
    allowed = "a number above 0 and below 1"
    tolerance = check_number(f"refine.{name}", tolerance, allowed, lambda value: 0 < value < 1)
    values = np.asarray(grid.get(name))
    if values.ndim != 1 or values.dtype.kind not in "iuf" or len(values) < 3 or hasattr(grid.get(name), "dims"):
        raise InputError(f"Field `{name}` can only be refined where the grid has a list of at least 3 numbers for it.")
    return Refinement(name, tolerance, most)


@dataclass(frozen=True)
class TrialGoal:
    """Standard errors below which a point has enough trials, and how many it may have."""

    errors: Mapping[str, float]
    most: int


def trials_needed(done: int, most: int, errors: Sequence[tuple[float, float]]) -> int:
    """Return how many trials a point should have: at most twice as many as it has, so that the estimate can settle.

    Parameters
    ----------
    done : trials it has.
    most : never more.
    errors : (standard error, the goal) of each variable; the error of a mean falls as one over the root of trials.
    """
    need = done
    for error, goal in errors:
        if math.isnan(error):
            need = max(need, done + 1 if done < 2 else done)
        elif error > goal:
            need = max(need, done + 1, math.ceil(done * (error / goal) ** 2))
    return min(need, 2 * done, max(most, done))


@dataclass(frozen=True)
class Refinement:
    """A field that gets more values, up to `most`, where a curve bends by more than `tolerance` times its range."""

    name: str
    tolerance: float
    most: int

    def values(self, result: xarray.Dataset, request: Request) -> Floats | None:
        """Return the old values of the field and new ones between them; None where the curve is fine.

        A point bends by its distance from the straight line between its neighbours; both intervals beside it are
        halved where that is too much, and more than three standard errors.
        """
        old = result[self.name].values
        order = np.argsort(old)
        x = old[order].astype(float)
        bent = np.zeros(len(x), dtype=bool)
        for variable in _shown_curves(result, request.question)[:1]:
            y = _curves(result[variable], self.name)[order]
            noise = _curves(result[f"{variable}_stderr"], self.name)[order] if f"{variable}_stderr" in result else 0 * y
            bent[1:-1] = _bends(x, y, np.nan_to_num(noise), self.tolerance)
        halved = bent[:-1] | bent[1:]
        left, right = x[:-1][halved], x[1:][halved]
        middle = np.sqrt(left * right) if _is_geometric(x) else 0.5 * (left + right)
        whole = self.name == "dim" or declaration(request.grid.scenario, self.name).annotation is int
        middle = np.unique(np.round(middle) if whole else middle)
        new = middle[~np.isin(middle, x)][: max(self.most - len(old), 0)]
        return np.sort(np.concatenate([old, new])) if len(new) else None


def _shown_curves(result: xarray.Dataset, question: Question) -> list[str]:
    """Return the variables of one number each that a plot shows, or else all of them."""
    curves = [variable.name for variable in question.variables if variable.name in result and not variable.dims]
    return [name for name in question.plot if name in curves] or [n for n in curves if result[n].dtype.kind == "f"]


def _curves(variable: Any, name: str) -> Floats:
    """Return a variable as (values of the field, curves)."""
    averaged = variable.mean("trial") if "trial" in variable.dims else variable
    values = np.moveaxis(averaged.values, averaged.dims.index(name), 0)
    return values.reshape(len(values), -1)


def _bends(x: Floats, y: Floats, noise: Floats, tolerance: float) -> Booleans:
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = ((x[1:-1] - x[:-2]) / (x[2:] - x[:-2]))[:, None]
        distance = np.abs(y[1:-1] - (1 - weight) * y[:-2] - weight * y[2:])
        error = np.sqrt(noise[1:-1] ** 2 + ((1 - weight) * noise[:-2]) ** 2 + (weight * noise[2:]) ** 2)
        finite = np.where(np.isfinite(y), y, np.nan)
        scale = np.fmax.reduce(finite, axis=0) - np.fmin.reduce(finite, axis=0)
        return ((distance > tolerance * scale) & (distance > 3 * error)).any(axis=1)


def _is_geometric(x: Floats) -> bool:
    """Tell whether the values lie more evenly on a log scale."""
    if x[0] <= 0 or len(x) < 3:
        return False
    steps, ratios = np.diff(x), np.diff(np.log(x))
    return bool(np.median(ratios) / ratios.max() > np.median(steps) / steps.max())
