"""Roots of one function or a batch of them, in brackets; what left the range of
floating point is said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import NotFiniteError
from giantstep.core.base.types import Floats, Indices
from giantstep.core.maths.solve.open_points import OpenPoints


def falling_root(
    function: Callable[[Floats, Indices], tuple[Floats, Floats]],
    low: Floats,
    high: Floats,
) -> tuple[Floats, Floats]:
    """Return (root, value left) of functions that fall through zero between `low` and
    `high`, by guarded Newton steps.

    `function(x, index)` gives value and slope of the members `index` of the batch. An
    end is returned where there is no change of sign.
    """
    ends = (low, high)
    low = np.minimum(*ends)
    high = np.maximum(*ends)
    x = 0.5 * (low + high)
    left = np.zeros(len(x))
    points = OpenPoints(len(x), rounds=100)
    for step, active in enumerate(points):
        here = x[active]
        value, slope = function(here, active)
        left[active] = value
        # the root lies below where the function is negative
        down = value < 0
        high[active] = np.where(down, here, high[active])
        low[active] = np.where(down, low[active], here)
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = here - value / slope
        inside = (newton >= low[active]) & (newton <= high[active]) & (slope < 0)
        # every eighth step halves the bracket: Newton's may creep along one end of it
        may_use_newton = inside & (step % 8 != 7)
        new = np.where(may_use_newton, newton, 0.5 * (low[active] + high[active]))
        tight = 4e-16 * np.maximum(np.abs(here), 1.0)
        still = np.abs(new - here) <= tight
        narrow = high[active] - low[active] <= tight
        exact = value == 0
        x[active] = np.where(exact, here, new)
        points.freeze(still | narrow | exact)
    return x, left


def crossing(
    function: Callable[[Floats, Indices], Floats], low: Floats, high: Floats
) -> Floats:
    """Return where functions fall from positive (at `low`) to not positive (at
    `high`).
    """
    from scipy.optimize.elementwise import find_root

    def checked(x: Floats, index: Indices) -> Floats:
        check_time()
        return function(x, index)

    index = np.arange(len(low))
    result = find_root(checked, (low, high), args=(index,), tolerances={"xrtol": 1e-13})
    return np.asarray(result.x)


def require_finite(what: str, *numbers: Any) -> None:
    """Raise `NotFiniteError` where one of the arrays holds a NaN or an infinity."""
    if not all(np.isfinite(array).all() for array in numbers):
        raise NotFiniteError(f"{what} is not finite")


def brent_root(
    function: Callable[[float], float], low: float, high: float, **tolerances: float
) -> float:
    """Return the zero between `low` and `high`, where the signs differ, by Brent's
    method.
    """

    def checked(x: float) -> float:
        value = float(function(x))
        if np.isnan(value):
            raise NotFiniteError(f"an equation is not a number at {x:.6g}")
        return value

    return float(scipy.optimize.brentq(checked, low, high, **tolerances))
