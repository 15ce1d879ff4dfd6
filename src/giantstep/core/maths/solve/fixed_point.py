"""Fixed points x = G(x) of many independent points at once: Newton, guarded by the
plain map.

A point is frozen as soon as it has converged, so its answer does not depend on its
neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Booleans, Floats, Integers


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
    # of the active points, as what follows
    active, x, best_x, best_plain = (
        np.arange(len(found)),
        found,
        found,
        found,
    )
    best = residual
    stalled = np.zeros_like(iterations)
    count = 0
    for count in range(1, max_steps + 1):
        check_time()
        if active.size == 0:
            break
        plain, newton, now = step(x, active)
        finite = np.isfinite(now)
        now = np.where(finite, now, np.inf)
        # from far above Newton gains about a factor 2 a step, or less near a double
        # root: that is no stall
        stalled = np.where(now < 0.9 * best, 0, stalled + 1)
        best, best_x, best_plain = _chosen(
            now < best, (now, x, plain), (best, best_x, best_plain)
        )
        done = (now < goal) | ((best < good_enough) & (stalled >= 3))
        usable = (
            np.isfinite(newton).reshape(len(active), -1).all(axis=1)
            & (stalled < 12)
            & finite
        )
        x = newton
        if not usable.all():
            safe = np.isfinite(plain).reshape(len(active), -1).all(axis=1) & finite
            (x,) = _chosen(usable, (newton,), _chosen(safe, (plain,), (best_plain,)))
        if done.any():
            stopped = active[done]
            left = ~done
            found[stopped], residual[stopped], iterations[stopped] = (
                best_x[done],
                best[done],
                count,
            )
            active, x, best_x, best_plain, best, stalled = (
                values[left]
                for values in (active, x, best_x, best_plain, best, stalled)
            )
    found[active] = best_x
    residual[active] = best
    iterations[active] = count
    return FixedPoint(found, residual, iterations)


def _chosen(
    first: Booleans, values: tuple[Array, ...], others: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Return values at the points that are `first`, the others elsewhere."""
    if first.all():
        return values
    return tuple(
        np.where(first.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
        for a, b in zip(values, others)
    )


# -- Linear systems of many independent points at once ---------------------------------


def solve_each(matrices: Array, right: Array) -> Array:
    """Solve ``matrices x = right`` for stacks (..., k, k) and (..., k, m); NaN where a
    matrix is singular.

    NumPy refuses the whole stack for the sake of one singular matrix; a point must not
    depend on its neighbours.

    >>> solve_each(np.array([[[2.0]], [[0.0]]]), np.ones((2, 1, 1))).ravel()
    array([0.5, nan])
    """
    if matrices.shape[-1] == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            solution = right / matrices
        return np.where(np.isfinite(solution), solution, np.nan)
    if right.ndim < matrices.ndim:  # which NumPy 1 takes for vectors
        right = np.broadcast_to(right, (*matrices.shape[:-2], *right.shape[-2:]))
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        stack = np.broadcast_shapes(matrices.shape[:-2], right.shape[:-2])
        matrices, right = (
            np.broadcast_to(part, (*stack, *part.shape[-2:]))
            for part in (matrices, right)
        )
        solutions = np.full(right.shape, np.nan, np.result_type(matrices, right))
        for place in np.ndindex(stack):
            with suppress(np.linalg.LinAlgError):
                solutions[place] = np.linalg.solve(matrices[place], right[place])
        return solutions
