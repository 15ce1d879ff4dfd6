"""Linear systems of many independent points at once."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from giantstep.core.base.types import Array


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
    # NumPy 1 would take it for vectors
    if right.ndim < matrices.ndim:
        right = np.broadcast_to(right, (*matrices.shape[:-2], *right.shape[-2:]))
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        return _solve_one_by_one(matrices, right)


def _solve_one_by_one(matrices: Array, right: Array) -> Array:
    """Solve a stack of systems some of which are singular."""
    stack = np.broadcast_shapes(matrices.shape[:-2], right.shape[:-2])
    matrices = np.broadcast_to(matrices, (*stack, *matrices.shape[-2:]))
    right = np.broadcast_to(right, (*stack, *right.shape[-2:]))
    solutions = np.full(right.shape, np.nan, np.result_type(matrices, right))
    for place in np.ndindex(stack):
        with suppress(np.linalg.LinAlgError):
            solutions[place] = np.linalg.solve(matrices[place], right[place])
    return solutions
