"""Stacks of small matrices: inverses and products, in closed form where that is faster."""

from __future__ import annotations

import numpy as np

from giantstep.solve import solve_each
from giantstep.types import Array


def small_inverse(matrices: Array) -> Array:
    """Invert stacks of small matrices; sizes 1 and 2 in closed form, for speed."""
    size = matrices.shape[-1]
    if size == 1:
        return 1 / matrices
    if size == 2:
        (a, b), (c, d) = np.moveaxis(matrices, (-2, -1), (0, 1))
        out = np.empty_like(matrices)
        determinant = a * d - b * c
        out[..., 0, 0], out[..., 0, 1] = d / determinant, -b / determinant
        out[..., 1, 0], out[..., 1, 1] = -c / determinant, a / determinant
        return out
    return solve_each(matrices, np.eye(size))


def small_product(left: Array, right: Array) -> Array:
    """Multiply stacks of small matrices; size 2 in closed form, for speed."""
    if left.shape[-1] != 2:
        product: Array = left @ right
        return product
    first = left[..., :, 0, None] * right[..., None, 0, :]
    first += left[..., :, 1, None] * right[..., None, 1, :]
    return first
