"""The one decomposition behind a forecast: eigenvalues of the centred features and the
labels along them.

X and Y are features and labels with the means over the N rows taken off; forecast
section 1 has the notation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats, Integers, Strings
from giantstep.core.lab.algebra import eigenvectors, smaller_gram

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Decomposition:
    """What the forecast of (4) needs of N rows, and the m rows that leave-one-out
    needs; all N where they are few.
    """

    rows: int  # N
    columns: int  # p
    squares: Floats  # (r,) non-zero eigenvalues s_j^2 of X^T X, increasing
    coefficients: Floats  # (r, R) labels along the left singular vectors, c = U^T Y
    rest: float  # |Y - U c|^2, summed over rows and outputs
    copies: (
        int  # rows that repeat others; they leave dimensions free that no new row would
    )
    kept: Integers  # (m,) numbers of the m rows
    vectors: Floats  # (m, r) their rows of U
    # (m,) diagonal of the projector on the null dimensions, 1 - 1/N - |U_i|^2; 0 where
    # there is none
    outside: Floats
    residual: Floats  # (m, R) rows of Y - U c
    labels: Floats  # (m, R) labels as given, not centred

    @property
    def null(self) -> int:
        """Dimensions orthogonal to features and constants, N - 1 - r."""
        return self.rows - 1 - len(self.squares)

    @property
    def kappa_min(self) -> float:
        """Smallest kappa that the rows determine, forecast section 2: 0 unless the
        features interpolate.
        """
        interpolating = len(self.squares) >= self.rows - 1 - self.copies
        return 1 / float(np.sum(1 / self.squares)) if interpolating else 0.0


def decompose(
    features: Floats, labels: Floats, keep: Integers, copies: int = 0
) -> Decomposition:
    """Return the decomposition of centred features (N, p) and labels (N, R), with the
    rows to `keep` of them.
    """
    # the smaller of X^T X and X X^T has all of it: with few columns U = X V/s, with few
    # rows U are its eigenvectors
    (rows, columns), tall = features.shape, len(features) > features.shape[1]
    centred = labels - labels.mean(axis=0)
    values, vectors = eigenvectors(smaller_gram(features, np), np)
    # more than N - 1 eigenvalues cannot differ from zero by more than rounding
    kept = values > 4 * max(rows, columns) * _EPS * values[-1]
    kept[: max(len(values) - (rows - 1), 0)] = False
    squares = values[kept]
    vectors = vectors[:, kept]
    if tall:
        loadings = vectors / np.sqrt(squares)
        coefficients = loadings.T @ (features.T @ centred)
        fitted = features @ (loadings @ coefficients)
        own = features[keep] @ loadings
    else:
        coefficients = vectors.T @ centred
        fitted = vectors @ coefficients
        own = vectors[keep]
    null = rows - 1 > len(squares)
    residual = centred - fitted if null else np.zeros_like(centred)
    if null:
        outside = 1 - 1 / rows - np.sum(own**2, axis=1)
    else:
        outside = np.zeros(len(keep))
    kept_rows = keep, own, np.maximum(outside, 0.0), residual[keep], labels[keep]
    return Decomposition(
        rows,
        columns,
        squares,
        coefficients,
        float(np.sum(residual**2)),
        copies,
        *kept_rows,
    )


# -- The forecast without rows: traces of the resolvent of N rows ----------------------


_STEPS = 200
"""Newton steps at most; they are monotone and double the digits, so that a dozen is
usual.
"""
_PRECISION = 4e-16
"""Relative step below which only rounding is left (two units of the last place)."""


class Resolvent(NamedTuple):
    """M(ridge) = (X X^T + ridge)^-1 off the constants, times `unit`, at B ridges:
    forecast section 1.

    `unit` is the ridge itself where features leave dimensions free (ridge 0 is then
    least squares), else 1 (ridge 0 interpolates). Every ratio the forecast takes is
    free of it.
    """

    kappa: Floats  # (B,) effective ridges of forecast (2), unit/t1
    # (B, r) eigenvalues along the features; those of the dimensions that are free are 1
    weights: Floats
    t1: Floats  # (B,) traces of M, M^2, M^3
    t2: Floats
    t3: Floats
    q2: Floats  # (B,) traces of Y^T M^2 Y and Y^T M^3 Y
    q3: Floats


def resolvent(decomposition: Decomposition, ridge: Floats) -> Resolvent:
    """Return the resolvent of N rows at ridges (B,)."""
    squares = decomposition.squares
    null = decomposition.null
    strengths = np.sum(decomposition.coefficients**2, axis=1)
    unit = ridge if null else np.ones_like(ridge)
    weights = unit[:, None] / (squares + ridge[:, None])
    traces = [np.sum(weights**k, axis=1) + null for k in (1, 2, 3)]
    forms = [weights**k @ strengths + decomposition.rest for k in (2, 3)]
    return Resolvent(unit / traces[0], weights, *traces, *forms)


def solve_ridge(decomposition: Decomposition, samples: Floats, ridge: Floats) -> Floats:
    """Return the ridge of N rows that has the kappa of `ridge` at n = `samples`,
    forecast (3), for B points.

    It is NaN where the rows do not determine it. Newton's method decreases to the
    largest root from the right for n < N, where the equation is convex, and increases
    from 0 for n > N, where it is concave.
    """
    count = decomposition.rows
    excess = samples - count
    determined = (excess <= 0) | (
        ridge >= excess * decomposition.kappa_min * (1 - 1e-12)
    )
    least_squares = (ridge == 0) & (samples - 1 >= len(decomposition.squares))
    power = float(np.sum(decomposition.squares))
    with np.errstate(divide="ignore"):
        start = (ridge * (count - 1) - excess * power / (count - 1)) / (samples - 1)
    solution = np.select(
        [least_squares, excess < 0, excess == 0], [0.0, start, ridge], 0.0
    )
    active = determined & ~least_squares & (excess != 0)
    for _ in range(_STEPS):
        index = np.flatnonzero(active)
        if not len(index):
            break
        at = resolvent(decomposition, solution[index])
        # ridge (1 + (n - N)/(ridge t1)) is exact where the two terms nearly cancel
        exact = solution[index] * (1 + excess[index] / at.t1)
        if decomposition.null:
            value = exact
        else:
            value = solution[index] + excess[index] * at.kappa
        step = (value - ridge[index]) / (1 + excess[index] * at.t2 / at.t1**2)
        moved = np.maximum(solution[index] - step, 0.0)
        # the sequence is monotone: once it turns round, rounding has been reached
        turned = np.where(
            excess[index] < 0, moved >= solution[index], moved <= solution[index]
        )
        done = turned | (np.abs(moved - solution[index]) <= _PRECISION * moved)
        solution[index] = np.where(turned, solution[index], moved)
        active[index[done]] = False
    return np.where(determined, solution, np.nan)


@dataclass(frozen=True)
class ForecastCurve:
    """B points (samples, ridge) and what the traces say of them; NaN where `status`
    says why.
    """

    decomposition: Decomposition
    samples: Floats
    ridge: Floats
    status: Strings
    resolvent: Resolvent
    kappa: Floats
    df1: Floats
    df2: Floats
    gcv: Floats  # test error by forecast (4), squared errors summed over the outputs
    bias_noise: Floats  # E(kappa)
    variance: Floats  # gcv - E
    train_mse: Floats  # mean squared error on the n training rows


def forecast_curve(
    decomposition: Decomposition, samples: Floats, ridge: Floats
) -> ForecastCurve:
    """Return the forecast at B points (samples, ridge)."""
    n = samples
    count = decomposition.rows
    matched = solve_ridge(decomposition, n, ridge)
    determined = np.isfinite(matched)
    matched[~determined] = 1.0
    at = resolvent(decomposition, matched)
    shrunk = decomposition.squares / (decomposition.squares + matched[:, None])
    df1 = np.sum(shrunk, axis=1)
    df2 = count - 1 - at.t1**2 / at.t2
    spare = (n - count) + at.t1**2 / at.t2  # n - 1 - df2
    finite = spare > 1e-9 * n
    good = determined & finite
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = at.q2 / at.t2
        gcv = (1 + 1 / n) * (n - 1) * noise / spare
        train = (n - 1) ** 2 * noise / (n * spare) * (1 - df1 / (n - 1)) ** 2
        columns = np.stack([at.kappa, df1, df2, gcv, noise, gcv - noise, train])
    status = np.full(len(n), "", object)
    for b in np.flatnonzero(~determined):
        least = (n[b] - count) * decomposition.kappa_min
        status[b] = (
            f"{count} rows do not determine this; use a ridge of at least {least:.3g}"
        )
    status[determined & ~finite] = (
        "the error is infinite where ridge 0 just interpolates; use a ridge above 0"
    )
    columns[:, ~good] = np.nan
    return ForecastCurve(decomposition, n, ridge, status.astype(str), at, *columns)
