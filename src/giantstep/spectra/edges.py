"""Edges of a bulk: where the real solution outside ceases to exist."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from giantstep.deadline import check_time
from giantstep.types import Floats

CLOSE = 0.7
"""Stability below which a point tells where the edge is."""
FAR = 0.3
"""Stability above which an extrapolated edge may be far off."""
POINTS = 5
"""Points from which an edge is extrapolated."""
DOUBTS = 4
"""Times that a failure well before the extrapolated edge is forgotten: from afar a solver may find another branch."""


def march_to_edge(
    stability: Callable[[float], float | None],
    start: float,
    first_step: float,
    *,
    relative: float = 1e-11,
    max_solves: int = 200,
) -> float | None:
    """Return the edge reached from `start` in the direction of `first_step`.

    `stability(z)` solves at the real point z (warm-started from the last success) and returns the smallest eigenvalue
    of the linearised equations, or None where there is no solution. Outside the bulk it is positive and vanishes at the
    edge, where z = edge + a v^2 + b v^3 + ... in terms of the stability v: the edge is extrapolated from the last
    points and approached without crossing, until two extrapolations agree to `relative`. A point without a solution
    that lies well before the edge so found is tried again from nearby.
    """
    value = stability(start)
    if value is None or value <= 0:
        return None
    z, step = start, first_step
    near: list[tuple[float, float]] = [(z, value)]
    estimate: float | None = None
    last: float | None = None
    barrier: float | None = None
    doubts = DOUBTS
    for _ in range(max_solves):
        check_time()
        if barrier is not None and abs(step) > 0.5 * abs(barrier - z):
            step = 0.5 * (barrier - z)
        if abs(step) <= 1e-3 * relative * max(abs(z), 1e-300):
            return z if estimate is None else estimate
        trial = z + step
        there = stability(trial)
        if there is None or there <= 0:
            barrier = trial
            continue
        falling = there < value
        z, value = trial, there
        near.append((z, value))
        if value > 0.5 or not falling or sum(v < CLOSE for _, v in near) < 2:
            step = _stride(near[-3:], step)
            continue
        last, estimate = estimate, _extrapolate([point for point in near if point[1] < CLOSE][-POINTS:])
        ahead = (estimate - z) * step > 0
        if barrier is not None and ahead and doubts and abs(estimate - z) > 2 * abs(barrier - z):
            barrier, doubts = None, doubts - 1
        if ahead and last is not None and abs(estimate - last) <= relative * max(abs(estimate), 1e-300):
            return estimate
        share = 0.8 if value < FAR else 0.5
        step = min(share * abs(estimate - z), 4 * abs(step)) * math.copysign(1, step) if ahead else 0.5 * step
    return estimate


def _stride(points: list[tuple[float, float]], step: float) -> float:
    """Return the next step far from an edge, where f = (1 - v)^(-1/2) is nearly linear in z; f = 1 at the edge.

    Closer to the edge f falls faster and faster: the step is shorter by the ratio of the last two slopes.
    """
    z, f = np.array([z for z, _ in points]), 1 / np.sqrt(np.maximum([1 - v for _, v in points], 1e-300))
    slopes = np.diff(f) / np.diff(z)
    if not f[-1] < f[-2]:
        return 2 * step
    wanted = min(3.5, f[-1]) if f[-1] > 6 else 1 + 0.6 * (f[-1] - 1)
    bent = min(1.0, max(slopes[0] / slopes[-1], 0.1))
    return math.copysign(min(abs(bent * (wanted - f[-1]) / slopes[-1]), 8 * abs(step)), step)


def _extrapolate(points: list[tuple[float, float]]) -> float:
    """Return c_0 of the polynomial z = c_0 + c_2 v^2 + c_3 v^3 + ... through the points (z, v)."""
    z, v = np.array(points).T
    return float(z[-1] + _fit(z - z[-1], v / v.max())[0])


def _fit(z: Floats, v: Floats) -> Floats:
    """Return c_0, c_2, c_3, ... of z = c_0 + c_2 v^2 + c_3 v^3 + ..., as many as there are points."""
    powers = np.concatenate([[0], np.arange(2, len(z) + 1)])
    coefficients: Floats = np.linalg.lstsq(v[:, None] ** powers, z)[0]
    return coefficients


def stability_at(z: float, known: Floats, v: Floats) -> float | None:
    """Return the stability expected at z from its values v at known points, two or more; None beyond the edge.

    The two nearest points, the first ones, give z = c_0 + c_2 v^2; the others correct it, if not by too much.

    >>> edge, v = 2.0, np.array([0.2, 0.3, 0.4])
    >>> round(stability_at(edge + 0.01 + 0.001, edge + v**2 + v**3, v), 12)
    0.1
    """
    if known[0] == known[1]:
        return None
    square = float(v[0] ** 2 + (z - known[0]) * (v[1] ** 2 - v[0] ** 2) / (known[1] - known[0]))
    if square <= 0:
        return None
    first = guess = math.sqrt(square)
    coefficients = _fit(known - z, v / v[0])
    ascending = np.insert(coefficients, 1, 0.0) / v[0] ** np.arange(len(v) + 1)
    slopes = np.polynomial.polynomial.polyder(ascending)
    for _ in range(6):
        check_time()
        slope = float(np.polynomial.polynomial.polyval(guess, slopes))
        guess -= float(np.polynomial.polynomial.polyval(guess, ascending)) / slope if slope else math.nan
        if not 0.5 * first < guess < 2 * first:
            return first
    return guess
