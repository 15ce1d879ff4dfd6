"""Ridge fits of all penalties from one eigendecomposition, and their exact leave-one-out errors."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from giantstep.forecasts.curve import forecast_curve
from giantstep.forecasts.decomposition import centred_kernel, decompose_gram, decompose_kernel, sample_rows
from giantstep.forecasts.rowwise import sum_rows
from giantstep.lab.algebra import add_gram, cholesky, eigenvectors, outer_gram, solve_triangular
from giantstep.lab.devices import to_numpy
from giantstep.lab.ridge import EIGEN_PENALTIES
from giantstep.types import DeviceArray, Floats

_EPS = float(np.finfo(np.float64).eps)


def fit_ridges(features: Floats, labels: Floats, ridges: Floats) -> tuple[Floats, Floats]:
    """Return coefficients (p, ridges, R) and intercepts (ridges, R) of fits to rows in memory."""
    mean, intercept = features.mean(axis=0), labels.mean(axis=0)
    solutions, _ = solve_rows(features - mean, labels - intercept, ridges, np)
    return solutions, intercept - np.einsum("p,plr->lr", mean, solutions)


def leave_one_out(features: Floats, labels: Floats, ridges: Floats) -> Floats:
    """Return mean squared leave-one-out errors (ridges,), summed over the outputs; NaN where a row has leverage 1.

    Features that do not vary leave the means: the error is that of the mean of the other rows.
    """
    rows, columns = features.shape
    X, Y = features - features.mean(axis=0), labels - labels.mean(axis=0)
    if not np.any(np.abs(X) > 1e-13 * max(float(np.abs(features).max()), 1e-300)):
        return np.full(len(ridges), float(np.sum(Y**2)) / rows * (rows / (rows - 1)) ** 2)
    if columns < rows:
        gram = np.zeros((columns, columns), order="F")
        add_gram(gram, X, np)
        decomposition, loadings = decompose_gram(gram, X.T @ Y, float(np.sum(Y**2)), rows, np)
        vectors = X @ loadings
    else:
        decomposition, vectors = decompose_kernel(centred_kernel(X, np), Y, columns, np)
    sample = sample_rows(decomposition, np.arange(rows), vectors, labels, Y, np)
    curve = forecast_curve(decomposition, np.full(len(ridges), float(rows)), ridges)
    return sum_rows(decomposition, sample, curve, np).mse


def solve_rows(
    features: DeviceArray, labels: DeviceArray, ridges: Floats, xp: ModuleType
) -> tuple[DeviceArray, Floats]:
    """Return coefficients (p, ridges, R) for centred rows, and the squared training errors (ridges,)."""
    if len(features) > features.shape[1]:
        gram = xp.zeros((features.shape[1],) * 2, order="F")
        add_gram(gram, features, xp)
        return solve_gram(gram, features.T @ labels, xp.sum(labels**2), ridges, xp)
    return _solve_kernel(features, labels, ridges, xp)


def solve_gram(
    gram: DeviceArray, cross: DeviceArray, label_square: Any, ridges: Floats, xp: Any
) -> tuple[DeviceArray, Floats]:
    """Return coefficients (p, ridges, R) from X^T X and X^T Y, and the squared training errors (ridges,).

    Few ridges take a Cholesky factor each, many or a singular matrix one eigendecomposition. Only the lower triangle of
    the Gram matrix is read.
    """
    solutions = _solve_by_factors(gram, cross, ridges, xp) if len(ridges) <= EIGEN_PENALTIES else None
    if solutions is None:
        values, vectors = eigenvectors(gram, xp)
        signal = vectors.T @ cross
        kept = values > 4 * len(values) * _EPS * values[-1]
        shifted = xp.where(kept[:, None], values[:, None] + xp.asarray(ridges), 1.0)
        inverse = xp.where(kept[:, None], 1 / shifted, 0.0)
        flat = vectors @ (inverse[:, :, None] * signal[:, None, :]).reshape(len(values), -1)
        solutions = flat.reshape(len(values), len(ridges), -1)
    # |y - Xw|^2 = |y|^2 - w X^T y - ridge |w|^2 at the solution
    explained = xp.sum(solutions * cross[:, None, :], axis=(0, 2)) + xp.asarray(ridges) * xp.sum(
        solutions**2, axis=(0, 2)
    )
    return solutions, np.maximum(to_numpy(label_square - explained), 0.0)


def _solve_by_factors(gram: DeviceArray, cross: DeviceArray, ridges: Floats, xp: Any) -> DeviceArray | None:
    solutions = xp.empty((len(gram), len(ridges), cross.shape[1]))
    for number, ridge in enumerate(ridges):
        factor = cholesky(gram, float(ridge), xp)
        if factor is None:
            return None
        half = solve_triangular(factor, cross, False, xp)
        solutions[:, number] = solve_triangular(factor, half, True, xp)
    return solutions


def _solve_kernel(features: DeviceArray, outputs: DeviceArray, ridges: Floats, xp: Any) -> tuple[DeviceArray, Floats]:
    """Return the same through the kernel of few rows."""
    values, vectors = eigenvectors(outer_gram(features, xp), xp)
    signal = vectors.T @ outputs
    kept = values > 4 * features.shape[1] * _EPS * values[-1]
    inverse = xp.where(kept[:, None], 1 / xp.where(kept[:, None], values[:, None] + xp.asarray(ridges), 1.0), 0.0)
    dual = vectors @ (inverse[:, :, None] * signal[:, None, :]).reshape(len(values), -1)
    solutions = (features.T @ dual).reshape(features.shape[1], len(ridges), -1)
    residual = 1 - values[:, None] * inverse
    return solutions, to_numpy(xp.sum(xp.sum(signal**2, axis=1)[:, None] * residual**2, axis=0))
