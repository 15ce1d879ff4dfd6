"""The one decomposition behind a forecast: eigenvalues of the centred features and the labels along them.

X and Y are features and labels with the means over the N rows taken off; forecast section 1 has the notation.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from giantstep.errors import InputError
from giantstep.lab.algebra import eigenvectors, outer_gram
from giantstep.lab.devices import to_numpy
from giantstep.types import Booleans, DeviceArray, Floats, Integers

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Decomposition:
    """What the forecast of (4) needs of N rows.

    Attributes
    ----------
    rows, columns : N and p.
    squares : (r,) non-zero eigenvalues s_j^2 of X^T X, increasing.
    coefficients : (r, R) labels along the left singular vectors, c = U^T Y.
    rest : |Y - U c|^2, summed over rows and outputs.
    total : |Y|^2.
    copies : rows that repeat others; they leave dimensions free that no new row would.
    """

    rows: int
    columns: int
    squares: Floats
    coefficients: Floats
    rest: float
    total: float
    copies: int = 0

    @property
    def rank(self) -> int:
        """Number r of non-zero eigenvalues."""
        return len(self.squares)

    @property
    def null(self) -> int:
        """Dimensions orthogonal to features and constants, N - 1 - r."""
        return self.rows - 1 - self.rank

    @property
    def strengths(self) -> Floats:
        """(r,) squared coefficients, summed over the outputs."""
        return np.sum(self.coefficients**2, axis=1)

    @property
    def noise_floor(self) -> float:
        """E(0) = RSS/(N - 1 - r): noise and misfit that no number of samples removes; NaN where nothing is left."""
        return self.rest / self.null if self.null else float("nan")

    @property
    def kappa_min(self) -> float:
        """Smallest kappa that the rows determine, forecast section 2: 0 unless the features interpolate."""
        interpolating = self.rank >= self.rows - 1 - self.copies
        return 1 / float(np.sum(1 / self.squares)) if interpolating else 0.0


@dataclass(frozen=True)
class RowSample:
    """The m rows that leave-one-out needs, on the device; all N where they are few.

    Attributes
    ----------
    index : (m,) their numbers.
    vectors : (m, r) rows of U.
    outside : (m,) diagonal of the projector on the null dimensions, 1 - 1/N - |U_i|^2; 0 where there is none.
    residual : (m, R) rows of Y - U c.
    labels : (m, R) labels as given, not centred.
    """

    index: Integers
    vectors: DeviceArray
    outside: DeviceArray
    residual: DeviceArray
    labels: Floats

    @property
    def count(self) -> int:
        """Number m of rows."""
        return len(self.labels)


def decompose_gram(
    gram: DeviceArray, moment: DeviceArray, total: float, rows: int, xp: ModuleType
) -> tuple[Decomposition, DeviceArray]:
    """Return the decomposition of a centred Gram matrix X^T X (p, p) with X^T Y (p, R), and V/s (p, r)."""
    columns = len(gram)
    values, vectors = eigenvectors(gram, xp)
    kept = _kept(to_numpy(values), rows, columns)
    squares = to_numpy(values)[kept]
    loadings = vectors[:, xp.asarray(np.flatnonzero(kept))] / xp.sqrt(xp.asarray(squares))
    coefficients = to_numpy(loadings.T @ moment)
    rest = max(total - float(np.sum(coefficients**2)), 0.0)
    return Decomposition(rows, columns, squares, coefficients, rest, total), loadings


def decompose_kernel(
    kernel: DeviceArray, labels: DeviceArray, columns: int, xp: ModuleType
) -> tuple[Decomposition, DeviceArray]:
    """Return the decomposition of a kernel X X^T (N, N) of centred features with Y (N, R), and U (N, r)."""
    rows = len(kernel)
    values, vectors = eigenvectors(kernel, xp)
    kept = _kept(to_numpy(values), rows, columns)
    vectors = vectors[:, xp.asarray(np.flatnonzero(kept))]
    coefficients = vectors.T @ labels
    residual = labels - vectors @ coefficients
    rest = float(xp.sum(residual**2)) if rows - 1 > int(kept.sum()) else 0.0
    total = float(xp.sum(labels**2))
    return Decomposition(rows, columns, to_numpy(values)[kept], to_numpy(coefficients), rest, total), vectors


def centred_kernel(features: DeviceArray, xp: ModuleType) -> DeviceArray:
    """Return X X^T of features (N, p) that are centred already."""
    kernel = outer_gram(features, xp)  # only the lower triangle is filled
    return xp.tril(kernel) + xp.tril(kernel, -1).T


def sample_rows(
    decomposition: Decomposition, index: Integers, vectors: DeviceArray, labels: Floats, centred: Floats, xp: ModuleType
) -> RowSample:
    """Return the rows of leave-one-out from their U (m, r), labels as given and labels centred over all rows."""
    outside = 1 - 1 / decomposition.rows - xp.sum(vectors**2, axis=1)
    residual = xp.asarray(centred) - vectors @ xp.asarray(decomposition.coefficients)
    if not decomposition.null:
        outside, residual = xp.zeros_like(outside), xp.zeros_like(residual)
    return RowSample(index, vectors, xp.maximum(outside, 0.0), residual, labels)


def _kept(values: Floats, rows: int, columns: int) -> Booleans:
    """Tell which eigenvalues are not zero to rounding; more than N - 1 there cannot be."""
    largest = float(values[-1])
    if not largest > 0:
        raise InputError("All columns of the features are constant, so that there is nothing to learn from.")
    kept = values > 4 * max(rows, columns) * _EPS * largest
    kept[: max(len(values) - (rows - 1), 0)] = False
    return kept
