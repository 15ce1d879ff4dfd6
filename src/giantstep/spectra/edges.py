"""Edges of a bulk: where the real solution outside ceases to exist."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

POINTS = 5
"""Points from which an edge is extrapolated."""


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
    points and approached without crossing, until two extrapolations agree to `relative`.
    """
    value = stability(start)
    if value is None or value <= 0:
        return None
    z, step = start, first_step
    near: list[tuple[float, float]] = [(z, value)]
    estimate: float | None = None
    last: float | None = None
    barrier: float | None = None
    for _ in range(max_solves):
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
        if value > 0.5 or not falling:
            step *= 2
            continue
        last, estimate = estimate, _extrapolate(near[-POINTS:])
        ahead = (estimate - z) * step > 0
        if ahead and last is not None and abs(estimate - last) <= relative * max(abs(estimate), 1e-300):
            return estimate
        step = min(0.8 * abs(estimate - z), 4 * abs(step)) * math.copysign(1, step) if ahead else 0.5 * step
    return estimate


def _extrapolate(points: list[tuple[float, float]]) -> float:
    """Return c_0 of the polynomial z = c_0 + c_2 v^2 + c_3 v^3 + ... through the points (z, v)."""
    z, v = np.array(points).T
    powers = np.concatenate([[0], np.arange(2, len(points) + 1)])
    scaled = (v / v.max())[:, None] ** powers
    return float(z[-1] + np.linalg.lstsq(scaled, z - z[-1])[0][0])
