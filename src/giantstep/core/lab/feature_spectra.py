"""Spectra of the features of a finite network: eigenvalues along a learning curve,
their summary, the resolvent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import Array, DeviceArray, Floats, Integers
from giantstep.core.lab.algebra import (
    eigenvalues,
    eigenvectors,
    leading_eigenvectors,
    multiply,
    outer_gram,
    smaller_gram,
)
from giantstep.core.lab.devices import to_numpy
from giantstep.core.lab.ridge import Blocks, Rows, accumulate

_ZERO = 1e-11
"""Eigenvalue, over the largest of the bulk, that is rounding."""
_COLUMNS = 1024
"""Eigenvectors that are multiplied with the rows at a time."""


def gram_eigenvalues(
    blocks: Blocks, width: int, samples: Integers, xp: ModuleType
) -> dict[int, Floats]:
    """Return the min(n, p) largest eigenvalues of Phi^T Phi, increasing, for every size
    n of the blocks.
    """
    spectra: dict[int, Floats] = {}
    for stage in accumulate(blocks, width, samples.tolist(), xp):
        if isinstance(stage, Rows):
            kernel = outer_gram(stage.features, xp)
            for size in stage.sizes:
                spectra[size] = to_numpy(eigenvalues(kernel[:size, :size], xp))
            del kernel
        else:
            spectra[stage.size] = to_numpy(eigenvalues(stage.matrix, xp))
    return spectra


def summarise_spectrum(
    eigenvalues: Floats, width: int, above: int, x: Floats, room: int
) -> dict[str, Any]:
    """Summarise increasing eigenvalues, `above` of them over the bulk; densities are of
    all `width` without those.
    """
    above = min(above, len(eigenvalues) - 1)
    bulk = eigenvalues[: len(eigenvalues) - above]
    nonzero = bulk[bulk > _ZERO * bulk[-1]]
    zeros = width - above - len(nonzero)
    outliers = np.full(room, np.nan)
    shown = min(above, room)
    outliers[:shown] = eigenvalues[::-1][:shown]
    cells = cell_edges(x)
    counts = np.diff(np.searchsorted(nonzero, cells))
    return {
        "density": counts / (width * np.diff(cells)),
        "cdf": (
            (np.where(x >= 0, zeros, 0) + np.searchsorted(nonzero, x, side="right"))
            / width
        ),
        "lower_edge": nonzero[0] if len(nonzero) else np.nan,
        "upper_edge": nonzero[-1] if len(nonzero) else np.nan,
        "atom": zeros / width,
        "mean_eigenvalue": nonzero.sum() / width,
        "outliers": outliers,
    }


def cell_edges(x: Floats) -> Floats:
    """Return the midpoints between neighbours, with a first and last edge as far out as
    the next is in.
    """
    if len(x) < 2:
        return np.full(len(x) + 1, np.nan)
    middle = 0.5 * (x[1:] + x[:-1])
    return np.concatenate([[2 * x[0] - middle[0]], middle, [2 * x[-1] - middle[-1]]])


def leading_singular_values(
    blocks: Blocks,
    width: int,
    beside: int,
    samples: Integers,
    room: int,
    xp: ModuleType,
) -> tuple[Floats, Floats]:
    """Return singular values of F/sqrt(n) (B, room) and their squared overlaps with
    further columns.
    """
    values = np.full((len(samples), room), np.nan)
    overlaps = np.full((len(samples), room, beside), np.nan)
    for stage in accumulate(
        blocks, width + beside, samples.tolist(), xp, keep_rows=False
    ):
        assert not isinstance(stage, Rows)
        points = samples == stage.size
        shown = min(room, width, stage.size)
        powers, vectors = leading_eigenvectors(stage.matrix[:width, :width], shown, xp)
        projected = to_numpy(stage.matrix[width:, :width] @ vectors)
        powers = to_numpy(powers)
        lengths = to_numpy(stage.matrix.diagonal()[width:])
        values[points, :shown] = np.sqrt(powers / stage.size)
        overlaps[points, :shown] = (projected**2 / (powers * lengths[:, None])).T
    return values, overlaps


def extreme_singular_vectors(
    weights: DeviceArray, xp: ModuleType
) -> Iterator[tuple[float, DeviceArray, DeviceArray]]:
    """Yield the largest and the smallest singular value, each with its left and right
    vector, of any length.
    """
    (p, d), gram = weights.shape, smaller_gram(weights, xp)
    for sign in (1.0, -1.0):
        powers, vectors = leading_eigenvectors(sign * gram, 1, xp)
        vector = vectors[:, 0]
        if p <= d:
            left = vector
            right = vector @ weights
        else:
            left = weights @ vector
            right = vector
        yield max(0.0, sign * float(powers[0])) ** 0.5, left, right


def resolvent_traces(
    blocks: Blocks,
    neurons: Sequence[slice],
    rows: DeviceArray,
    samples: Integers,
    z: Array,
    xp: ModuleType,
) -> tuple[Array, Array]:
    """Return tr[W_q^T (Phi^T Phi/p - z)^-1_qq' W_q']/p (B, Z, k, k), and the same
    without rows W (p, d) (B, Z, k).
    """
    p = len(rows)
    count = len(neurons)
    V2 = np.empty((len(samples), len(z), count), dtype=complex)
    V1 = np.empty((len(samples), len(z), count, count), dtype=complex)
    for stage in accumulate(blocks, p, samples.tolist(), xp, keep_rows=False):
        assert not isinstance(stage, Rows)
        values, vectors = eigenvectors(stage.matrix, xp)
        poles = 1 / (to_numpy(values)[None, :] / p - z[:, None]) / p
        points = samples == stage.size
        mass = [to_numpy(xp.sum(vectors[block] ** 2, axis=0)) for block in neurons]
        V2[points] = poles @ np.stack(mass, axis=-1)
        V1[points] = np.tensordot(
            poles, _overlaps(vectors, neurons, rows, xp), axes=(1, 2)
        )
        del vectors
    return V1, V2


def _overlaps(
    vectors: DeviceArray, neurons: Sequence[slice], rows: DeviceArray, xp: ModuleType
) -> Floats:
    """Return sum over i in q, j in q' of u_i u_j <w_i,w_j> for every eigenvector u: (q,
    q', p).
    """
    count = len(neurons)
    p = vectors.shape[1]
    result = np.empty((count, count, p))
    for columns in split_rows(p, 1, _COLUMNS):
        moved = [
            multiply(rows[block].T, vectors[block, columns], xp) for block in neurons
        ]
        for q in range(count):
            for r in range(q, count):
                result[q, r, columns] = result[r, q, columns] = to_numpy(
                    xp.sum(moved[q] * moved[r], axis=0)
                )
    return result
