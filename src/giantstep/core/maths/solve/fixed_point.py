"""Fixed points x = G(x) of many independent points at once: Newton, guarded by the
plain map.

A point is frozen as soon as it has converged, so its answer does not depend on its
neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Array, Booleans, Floats, Integers
from giantstep.core.maths.solve.open_points import OpenPoints

_PROGRESS = 0.9
"""A step that leaves more than this share of the best residual has not helped."""
_AT_ROUNDING = 3
"""Such steps after which a point that is good enough will get no better."""
_LOST = 12
"""Such steps after which Newton's are no longer taken."""


@dataclass
class FixedPoint:
    """Solution of x = G(x) at each of B points: `x` (B, ...), `residual`, `iterations`
    (B,).
    """

    x: Array
    residual: Floats
    iterations: Integers


def solve_fixed_point(
    step: Callable[[Array, Array], tuple[Array, Array, Array]],
    start: Array,
    *,
    goal: float = 1e-13,
    good_enough: float = 1e-10,
    max_steps: int = 60,
) -> FixedPoint:
    """Solve x = G(x) at every point of a batch, real or complex (B, ...).

    ``step(x, active) -> (plain, newton, residual)`` is asked for the points listed in
    `active`: G(x), the Newton iterate, with NaN in the points where it is not
    admissible, and the residual of x itself. A point is frozen once its residual is
    below `goal`, or once it is below `good_enough` and no longer shrinks (rounding has
    been reached).
    """
    found = np.array(start)
    residual = np.full(len(start), np.inf)
    iterations = np.zeros(len(found), dtype=np.int64)
    points = OpenPoints(len(found), max_steps)
    # arrays of the active points alone, cut where points are frozen: to take them from
    # the whole batch in every step would cost more than the rest of this loop
    x = found
    best = residual
    best_x = found
    best_plain = found
    stalled = np.zeros_like(iterations)
    count = 0
    for count, active in enumerate(points, start=1):
        plain, newton, now = step(x, active)
        finite = np.isfinite(now)
        now = np.where(finite, now, np.inf)
        # from far above Newton gains about a factor 2 a step, or less near a double
        # root: that is no stall
        stalled = np.where(now < _PROGRESS * best, 0, stalled + 1)
        better = now < best
        best = _chosen(better, now, best)
        best_x = _chosen(better, x, best_x)
        best_plain = _chosen(better, plain, best_plain)
        done = (now < goal) | ((best < good_enough) & (stalled >= _AT_ROUNDING))
        usable = _finite_points(newton) & (stalled < _LOST) & finite
        x = newton
        if not usable.all():
            # the plain map instead, from the best point where even that has left the
            # numbers
            safe = _finite_points(plain) & finite
            x = _chosen(usable, newton, _chosen(safe, plain, best_plain))
        if done.any():
            solved = active[done]
            found[solved] = best_x[done]
            residual[solved] = best[done]
            iterations[solved] = count
            points.freeze(done)
            left = ~done
            x = x[left]
            best = best[left]
            best_x = best_x[left]
            best_plain = best_plain[left]
            stalled = stalled[left]
    found[points.active] = best_x
    residual[points.active] = best
    iterations[points.active] = count
    return FixedPoint(found, residual, iterations)


def _finite_points(x: Array) -> Booleans:
    """Return at which points of a batch (B, ...) all numbers are finite."""
    return np.asarray(np.isfinite(x).reshape(len(x), -1).all(axis=1))


def _chosen(first: Booleans, values: Array, others: Array) -> Array:
    """Return values at the points that are `first`, the others elsewhere."""
    if first.all():
        return values
    return np.where(np.expand_dims(first, tuple(range(1, values.ndim))), values, others)
