"""Linear systems of many independent points at once."""

from __future__ import annotations

import numpy as np

from giantstep.types import Array


def solve_each(matrices: Array, right: Array) -> Array:
    """Solve ``matrices[i] x = right[i]`` for (B, k, k) and (B, k, m); NaN where the matrix is singular.

    NumPy refuses the whole stack for the sake of one singular matrix; a point must not depend on its neighbours.

    >>> solve_each(np.array([[[2.0]], [[0.0]]]), np.ones((2, 1, 1))).ravel()
    array([0.5, nan])
    """
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        matrices = np.broadcast_to(matrices, (len(right), *matrices.shape[1:]))
        found = np.full(right.shape, np.nan, np.result_type(matrices, right))
        for place, (matrix, side) in enumerate(zip(matrices, right)):
            try:
                found[place] = np.linalg.solve(matrix, side)
            except np.linalg.LinAlgError:
                continue
        return found
