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
    low, high = np.minimum(low, high), np.maximum(low, high)
    x = 0.5 * (low + high)
    left = np.zeros(len(x))
    active = np.arange(len(x))
    for step in range(100):
        check_time()
        value, slope = function(x[active], active)
        left[active] = value
        down = value < 0
        high[active] = np.where(down, x[active], high[active])
        low[active] = np.where(down, low[active], x[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x[active] - value / slope
        inside = (newton >= low[active]) & (newton <= high[active]) & (slope < 0)
        new = np.where(
            inside & (step % 8 != 7), newton, 0.5 * (low[active] + high[active])
        )
        tight = 4e-16 * np.maximum(np.abs(x[active]), 1.0)
        done = (
            (np.abs(new - x[active]) <= tight)
            | (high[active] - low[active] <= tight)
            | (value == 0)
        )
        x[active] = np.where(value == 0, x[active], new)
        active = active[~done]
        if not len(active):
            break
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

    return np.asarray(
        find_root(
            checked,
            (low, high),
            args=(np.arange(len(low)),),
            tolerances={"xrtol": 1e-13},
        ).x
    )


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
