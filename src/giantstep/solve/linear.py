"""Linear systems of many independent points at once."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from giantstep.types import Array


def solve_each(matrices: Array, right: Array) -> Array:
    """Solve ``matrices[i] x = right[i]`` for (B, k, k) and (B, k, m); NaN where the matrix is singular.

    NumPy refuses the whole stack for the sake of one singular matrix; a point must not depend on its neighbours.

    >>> solve_each(np.array([[[2.0]], [[0.0]]]), np.ones((2, 1, 1))).ravel()
    array([0.5, nan])
    """
    if matrices.shape[-1] == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            solution = right / matrices
        return np.where(np.isfinite(solution), solution, np.nan)
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        matrices = np.broadcast_to(matrices, (len(right), *matrices.shape[1:]))
        solutions = np.full(right.shape, np.nan, np.result_type(matrices, right))
        for solution, matrix, side in zip(solutions, matrices, right):
            with suppress(np.linalg.LinAlgError):
                solution[...] = np.linalg.solve(matrix, side)
        return solutions
