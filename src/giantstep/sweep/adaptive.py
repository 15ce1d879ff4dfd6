"""Adaptive sampling: where to put more points, and how many more trials a point needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.checks import check_number
from giantstep.errors import InputError, bad_field
from giantstep.family import Engine, Question
from giantstep.types import Booleans, Floats

if TYPE_CHECKING:
    import xarray


def checked_wishes(until: Mapping[str, float] | None, question: Question) -> dict[str, float]:
    """Return variable -> the standard error wished for, checked."""
    if until is None:
        return {}
    if not isinstance(until, Mapping):
        raise bad_field("until", until, "a table of variables and standard errors")
    names = [v.name for v in question.variables if "experiment" in v.engines]
    for name in until:
        if name not in names:
            raise bad_field("until", name, f"a table of standard errors of {', '.join(names)}")
    positive = "a number above 0"
    return {name: check_number(f"until.{name}", wish, positive, lambda w: w > 0) for name, wish in until.items()}


def trials_needed(done: int, most: int, errors: Sequence[tuple[float, float]]) -> int:
    """Return how many trials a point should have: at most twice as many as it has, so that the estimate can settle.

    Parameters
    ----------
    done : trials it has.
    most : never more.
    errors : (standard error, the wish) of each variable; the error of a mean falls as one over the root of trials.
    """
    need = done
    for error, wish in errors:
        if math.isnan(error):
            need = max(need, done + 1 if done < 2 else done)
        elif error > wish:
            need = max(need, done + 1, math.ceil(done * (error / wish) ** 2))
    return min(need, 2 * done, max(most, done))


def checked_refinement(refine: Mapping[str, float] | None, grid: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the field to refine and the tolerance, relative to the range of the curve."""
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
    return name, tolerance


def refined(
    result: xarray.Dataset, name: str, tolerance: float, question: Question, engine: Engine, whole: bool
) -> Floats:
    """Return new values of a field, in the middle of the intervals where a curve bends.

    A point bends by its distance from the straight line between its neighbours; both intervals beside it are halved
    where that is more than `tolerance` times the range of the curve, and more than three standard errors.
    """
    x = result[name].values.astype(float)
    order = np.argsort(x)
    x = x[order]
    curves = [v.name for v in question.variables if engine in v.engines and not v.dims]
    shown = [v for v in question.plot if v in curves] or [v for v in curves if result[v].dtype.kind == "f"][:1]
    bent = np.zeros(len(x), dtype=bool)
    for variable in shown[:1]:
        y = _curves(result[variable], name)[order]
        noise = _curves(result[f"{variable}_stderr"], name)[order] if f"{variable}_stderr" in result else 0 * y
        bent[1:-1] = _bends(x, y, np.nan_to_num(noise), tolerance)
    halved = bent[:-1] | bent[1:]
    left, right = x[:-1][halved], x[1:][halved]
    middle = np.sqrt(left * right) if _is_geometric(x) else 0.5 * (left + right)
    middle = np.unique(np.round(middle) if whole else middle)
    return middle[~np.isin(middle, x)]


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
