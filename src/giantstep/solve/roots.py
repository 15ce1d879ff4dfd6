"""Roots of monotone functions: one bracket at a time, or a batch of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from giantstep.deadline import check_time
from giantstep.types import Floats, Indices


def bisect(
    positive: Callable[[float], bool],
    low: float,
    high: float,
    *,
    relative: float = 1e-13,
    max_steps: int = 200,
) -> float:
    """Return the point in (low, high) where `positive` turns from true (at `low`) to false (at `high`)."""
    for _ in range(max_steps):
        check_time()
        middle = 0.5 * (low + high)
        if abs(high - low) <= relative * abs(middle) or middle in (low, high):
            break
        if positive(middle):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


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
    """Return where functions fall from positive (at `low`) to not positive (at `high`), by guarded regula falsi."""
    index = np.arange(len(low))
    low, high = low.copy(), high.copy()
    at_low, at_high = function(low, index), function(high, index)
    side = np.zeros(len(low))
    for step in range(100):
        check_time()
        width = high - low
        if np.all(width <= 1e-13 * np.maximum(np.abs(high), 1.0)):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            new = low + width * at_low / (at_low - at_high)
        middle = 0.5 * (low + high)
        new = np.where((new > low) & (new < high) & (step % 4 != 3), new, middle)
        value = function(new, index)
        up = value > 0
        at_low = np.where(up, value, np.where(side == -1, 0.5 * at_low, at_low))
        at_high = np.where(up, np.where(side == 1, 0.5 * at_high, at_high), value)
        low, high = np.where(up, new, low), np.where(up, high, new)
        side = np.where(up, 1.0, -1.0)
    return 0.5 * (low + high)
