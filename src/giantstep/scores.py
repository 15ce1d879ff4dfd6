"""Scores of gaps, and what chance gives: Student's t as a normal score, the line of many points, trials and power."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from giantstep.types import Floats

CHANCE = 1e-3
"""How often the line of a report is passed where limit and experiment agree."""

POWER = 0.9
"""How often a gap that is called visible passes the line."""


def normal_score(t: ArrayLike, freedom: ArrayLike) -> Floats:
    """Return the normal score with the tail probability of Student's t; infinite `freedom` returns `t`.

    >>> round(float(normal_score(2.776445, 4)), 3)   # the 97.5% point of Student's t
    1.96
    """
    t, freedom = np.broadcast_arrays(np.asarray(t, float), np.asarray(freedom, float))
    size = np.abs(t)
    with np.errstate(invalid="ignore", divide="ignore"):
        score = -special.ndtri_exp(_log_tail(size, np.where(np.isinf(freedom), 1.0, freedom)))
        score = np.where(np.isinf(size) | np.isinf(freedom), size, np.maximum(score, 0.0))
    return np.where(freedom > 0, np.copysign(score, t), np.nan)


def _log_tail(t: Floats, freedom: Floats) -> Floats:
    """Return log P(T > t) for t >= 0, also where the probability itself is too small for a float."""
    tail = special.stdtr(freedom, -t)
    # P(T > t) = I_x(a, 1/2)/2 with x = freedom/(freedom + t^2), a = freedom/2; leading term of its series
    a, ratio = freedom / 2, t**2 / freedom
    leading = -a * np.log1p(ratio) - 0.5 * np.log1p(1 / ratio) - np.log(2 * a) - special.betaln(a, 0.5)
    series = -np.log1p(-(a + 0.5) / (a + 1) / (1 + ratio))
    return np.where(tail > 1e-280, np.log(np.maximum(tail, 1e-300)), leading + series)


def student_line(line: float, freedom: ArrayLike) -> Floats:
    """Return the t that has the normal score `line`: the inverse of `normal_score`."""
    freedom = np.asarray(freedom, float)
    t = -special.stdtrit(np.where(np.isinf(freedom), 1e10, freedom), special.ndtr(-line))
    return np.where(np.isinf(freedom), line, t)


def chance_line(points: int) -> float:
    """Return the |z| that the largest of so many normal scores passes once in 1,000.

    >>> round(chance_line(1), 2)
    3.29
    """
    each = -np.expm1(np.log1p(-CHANCE) / max(points, 1))
    return float(-special.ndtri(each / 2))


def trials_for_gap(spread: ArrayLike, relative: float, points: int = 1, power: float = 0.5) -> Floats:
    """Return the trials with which a relative gap passes the line of so many points with probability `power`.

    `spread` is the standard deviation of one trial over the mean; NaN where there is none.

    >>> float(trials_for_gap(0.1, 0.05)), float(trials_for_gap(0.1, 0.05, power=0.9))
    (50.0, 88.0)
    """
    spread = np.asarray(spread, dtype=float)
    line, extra = chance_line(points), float(special.ndtri(power))
    low, high = np.full(spread.shape, 1.0), np.full(spread.shape, 2.0**40)
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        sees = (student_line(line, middle - 1) + extra) * spread <= relative * np.sqrt(middle) * (1 + 1e-12)
        low, high = np.where(sees, low, middle), np.where(sees, middle, high)
    return np.where(np.isfinite(spread), high, np.nan)


def visible_gap(spread: ArrayLike, trials: int, points: int = 1, power: float = POWER) -> Floats:
    """Return the relative gap that passes the line of so many points with probability `power`: inverse of the above.

    >>> float(visible_gap(0.1, 88)) <= 0.05 < float(visible_gap(0.1, 87))
    True
    """
    passed = student_line(chance_line(points), trials - 1) + special.ndtri(power)
    return np.asarray(passed * np.asarray(spread, dtype=float) / np.sqrt(trials), dtype=np.float64)
