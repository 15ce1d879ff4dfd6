"""The one decomposition behind a forecast: eigenvalues of the centred features and the labels along them.

X and Y are features and labels with the means over the N rows taken off; forecast section 1 has the notation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.lab.algebra import add_gram, eigenvectors, outer_gram
from giantstep.types import Floats, Integers

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
    copies : rows that repeat others; they leave dimensions free that no new row would.
    """

    rows: int
    columns: int
    squares: Floats
    coefficients: Floats
    rest: float
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
    """The m rows that leave-one-out needs; all N where they are few.

    Attributes
    ----------
    index : (m,) their numbers.
    vectors : (m, r) rows of U.
    outside : (m,) diagonal of the projector on the null dimensions, 1 - 1/N - |U_i|^2; 0 where there is none.
    residual : (m, R) rows of Y - U c.
    labels : (m, R) labels as given, not centred.
    """

    index: Integers
    vectors: Floats
    outside: Floats
    residual: Floats
    labels: Floats

    @property
    def count(self) -> int:
        """Number m of rows."""
        return len(self.labels)


def decompose(features: Floats, labels: Floats, keep: Integers, copies: int = 0) -> tuple[Decomposition, RowSample]:
    """Return the decomposition of N rows, and those of them that leave-one-out looks at.

    The smaller of X^T X and X X^T has all of it: with few columns U = X V/s, with few rows U are its eigenvectors.

    Parameters
    ----------
    features : (N, p), centred.
    labels : (N, R), as given.
    keep : numbers of the rows of the sample.
    copies : rows that repeat others.
    """
    (rows, columns), tall = features.shape, len(features) > features.shape[1]
    centred = labels - labels.mean(axis=0)
    values, vectors = eigenvectors(smaller_gram(features), np)
    # more than N - 1 eigenvalues cannot differ from zero by more than rounding
    kept = values > 4 * max(rows, columns) * _EPS * values[-1]
    kept[: max(len(values) - (rows - 1), 0)] = False
    squares, vectors = values[kept], vectors[:, kept]
    if tall:
        loadings = vectors / np.sqrt(squares)
        coefficients = loadings.T @ (features.T @ centred)
        fitted, own = features @ (loadings @ coefficients), features[keep] @ loadings
    else:
        coefficients = vectors.T @ centred
        fitted, own = vectors @ coefficients, vectors[keep]
    null = rows - 1 > len(squares)
    residual = centred - fitted if null else np.zeros_like(centred)
    outside = 1 - 1 / rows - np.sum(own**2, axis=1) if null else np.zeros(len(keep))
    decomposition = Decomposition(rows, columns, squares, coefficients, float(np.sum(residual**2)), copies)
    return decomposition, RowSample(keep, own, np.maximum(outside, 0.0), residual[keep], labels[keep])


def smaller_gram(features: Floats) -> Floats:
    """Return X^T X or X X^T, whichever is smaller; only its lower triangle is filled."""
    rows, columns = features.shape
    if columns >= rows:
        return np.asarray(outer_gram(features, np))
    gram = np.zeros((columns, columns), order="F")
    add_gram(gram, features, np)
    return gram
