"""Leading singular vectors of a large matrix, on any device."""

from __future__ import annotations

from typing import Any

import numpy as np

from giantstep.lab.algebra import multiply
from giantstep.lab.devices import array_module, to_numpy
from giantstep.types import DeviceArray, Floats

KRYLOV_BLOCKS = 15
"""Blocks of the Krylov space in which the leading singular vectors are found."""


def leading_vectors(X: DeviceArray, count: int, generator: Any) -> tuple[DeviceArray, Floats]:
    """Return the leading `count` left singular vectors, (n, count), and singular values of a matrix.

    They are found in a block Krylov space of 15 blocks (30 products with X); just above the edge of the bulk, where
    they are nearly degenerate, the vectors are those of largest variance in that space. Small matrices are decomposed.
    """
    xp = array_module(X)
    n, d = X.shape
    width = min(count + 2, n, d)
    if min(n, d) <= 4 * KRYLOV_BLOCKS * width:
        values, vectors = xp.linalg.eigh(X @ X.T if n <= d else X.T @ X)
        values = xp.sqrt(xp.maximum(values[::-1][:count], 1e-300))
        vectors = vectors[:, ::-1][:, :count]
        return vectors if n <= d else (X @ vectors) / values, to_numpy(values)
    block = xp.linalg.qr(multiply(X, generator.standard_normal((d, width), dtype=np.float64), xp))[0]
    basis = block
    for _ in range(KRYLOV_BLOCKS - 1):
        block = multiply(X, multiply(X.T, xp.ascontiguousarray(block), xp), xp)
        for _ in range(2):
            block = block - basis @ (basis.T @ block)
        block = xp.linalg.qr(block)[0]
        basis = xp.concatenate([basis, block], axis=1)
    image = multiply(X.T, xp.ascontiguousarray(basis), xp)
    values, vectors = xp.linalg.eigh(image.T @ image)
    return basis @ vectors[:, ::-1][:, :count], to_numpy(xp.sqrt(xp.maximum(values[::-1][:count], 0.0)))
