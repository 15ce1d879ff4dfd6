"""Edges of a bulk: where the real solution outside ceases to exist."""

from __future__ import annotations

from collections.abc import Callable


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
    of the linearised equations, or None where there is no solution. Outside the bulk it is positive and vanishes like
    sqrt(|z - edge|), so its square is extrapolated linearly to zero and approached without crossing.
    """
    value = stability(start)
    if value is None or value <= 0:
        return None
    z, step = start, first_step
    estimate = None
    for _ in range(max_solves):
        trial = z + step
        there = stability(trial)
        if there is None or there <= 0:
            step /= 2
            if abs(step) <= 1e-3 * relative * max(abs(z), 1e-300):
                return estimate if estimate is not None else z
            continue
        slope = (there**2 - value**2) / (trial - z)
        z, value = trial, there
        if value > 0.5 or slope * step >= 0:
            continue
        estimate = z - value**2 / slope
        distance = estimate - z
        if abs(distance) <= relative * max(abs(estimate), 1e-300):
            return estimate
        step = min(0.7 * abs(distance), 4 * abs(step)) * (1 if distance > 0 else -1)
    return estimate
