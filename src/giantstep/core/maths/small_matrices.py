"""Inverses and products of stacks of small matrices, in closed form where faster."""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import Array
from giantstep.core.maths.solve import solve_each


def small_inverse(matrices: Array) -> Array:
    """Invert stacks of small matrices; sizes 1 and 2 in closed form, for speed."""
    size = matrices.shape[-1]
    if size == 1:
        return 1 / matrices
    if size == 2:
        a = matrices[..., 0, 0]
        b = matrices[..., 0, 1]
        c = matrices[..., 1, 0]
        d = matrices[..., 1, 1]
        determinant = a * d - b * c
        out = np.empty_like(matrices)
        out[..., 0, 0] = d / determinant
        out[..., 0, 1] = -b / determinant
        out[..., 1, 0] = -c / determinant
        out[..., 1, 1] = a / determinant
        return out
    return solve_each(matrices, np.eye(size))


def small_product(left: Array, right: Array) -> Array:
    """Multiply stacks of small matrices; size 2 in closed form, for speed."""
    if left.shape[-1] != 2:
        return np.asarray(left @ right)
    # two outer products, the second one added in place
    product = left[..., :, 0, None] * right[..., None, 0, :]
    product += left[..., :, 1, None] * right[..., None, 1, :]
    return product
