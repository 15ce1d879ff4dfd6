"""Hermite polynomials h_j = He_j/sqrt(j!) (He_2 = z^2 - 1), orthonormal under the
standard Gaussian measure.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Floats


def hermite_values(z: ArrayLike, order: int) -> np.ndarray:
    """Return h_0(z), ..., h_order(z) along a new first axis: sqrt(j+1) h_{j+1} = z
    h_j - sqrt(j) h_{j-1}.
    """
    return _recurrence(np.asarray(z, dtype=float), order, 1.0)


def hermite_functions(z: ArrayLike, order: int) -> np.ndarray:
    """Return h_j(z) sqrt(phi(z)), j = 0..order, along a new first axis: orthonormal in
    L2(dz), they never overflow.
    """
    z = np.asarray(z, dtype=float)
    return _recurrence(z, order, np.exp(-0.25 * z * z) / (2 * np.pi) ** 0.25)


def _recurrence(z: np.ndarray, order: int, start: np.ndarray | float) -> np.ndarray:
    if order < 0:
        raise bad_field("order", order, "a whole number, at least 0")
    values = np.empty((order + 1, *z.shape))
    values[0] = start
    if order > 0:
        values[1] = z * start
    for j in range(1, order):
        values[j + 1] = (z * values[j] - np.sqrt(j) * values[j - 1]) / np.sqrt(j + 1)
    return values


def root_factorials(order: int) -> np.ndarray:
    """Return sqrt(j!) for j = 0..order."""
    return np.concatenate([[1.0], np.cumprod(np.sqrt(np.arange(1.0, order + 1)))])


def multi_indices(dims: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Return all (b_1, ..., b_dims) of sum ``order``."""
    indices = []
    for axes in itertools.combinations_with_replacement(range(dims), order):
        check_time()
        indices.append(tuple(axes.count(axis) for axis in range(dims)))
    return tuple(indices)


def hermite_products(points: Floats, indices: Sequence[tuple[int, ...]]) -> Floats:
    """Return h_b(z) = prod_i h_{b_i}(z_i) for every multi-index b and points (N, dims):
    (len(indices), N).
    """
    values = hermite_values(
        points, max((max(index, default=0) for index in indices), default=0)
    )
    result = np.ones((len(indices), len(points)))
    for row, index in zip(result, indices):
        for axis in np.flatnonzero(index):
            row *= values[index[axis], :, axis]
    return result
