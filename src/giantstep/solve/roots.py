"""Roots of a batch of monotone functions, each in its own bracket."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from giantstep.deadline import check_time
from giantstep.types import Floats, Indices


def falling_root(
    function: Callable[[Floats, Indices], tuple[Floats, Floats]],
    low: Floats,
    high: Floats,
    *,
    steps: int = 100,
    width: float = 4e-16,
) -> tuple[Floats, Floats]:
    """Return (root, value left) of functions that fall through zero between `low` and `high`, by guarded Newton steps.

    `function(x, index)` gives value and slope of the members `index` of the batch. An end is returned where there is
    no change of sign. A root is known once it moves by less than `width`, in units of itself or of 1.
    """
    low, high = np.minimum(low, high), np.maximum(low, high)
    x = 0.5 * (low + high)
    left = np.zeros(len(x))
    active = np.arange(len(x))
    for step in range(steps):
        check_time()
        value, slope = function(x[active], active)
        left[active] = value
        down = value < 0
        high[active] = np.where(down, x[active], high[active])
        low[active] = np.where(down, low[active], x[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x[active] - value / slope
        inside = (newton >= low[active]) & (newton <= high[active]) & (slope < 0)
        new = np.where(inside & (step % 8 != 7), newton, 0.5 * (low[active] + high[active]))
        tight = width * np.maximum(np.abs(x[active]), 1.0)
        done = (np.abs(new - x[active]) <= tight) | (high[active] - low[active] <= tight) | (value == 0)
        x[active] = np.where(value == 0, x[active], new)
        active = active[~done]
        if not len(active):
            break
    return x, left


def crossing(function: Callable[[Floats, Indices], Floats], low: Floats, high: Floats) -> Floats:
    """Return where functions fall from positive (at `low`) to not positive (at `high`)."""
    from scipy.optimize.elementwise import find_root

    def checked(x: Floats, index: Indices) -> Floats:
        check_time()
        return function(x, index)

    return np.asarray(find_root(checked, (low, high), args=(np.arange(len(low)),), tolerances={"xrtol": 1e-13}).x)
