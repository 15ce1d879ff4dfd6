"""How often the sign of an output is not that of a class, or of another output."""

from __future__ import annotations

import numpy as np
import scipy

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import normal_distribution
from giantstep.core.readout.features import Features

_OPEN = 1e-15
"""Distance that correlations keep from -1 and 1."""


def field_variance(features: Features) -> Floats:
    """Return the variance (M,) of the field given kappa."""
    assert features.rho is not None
    along_rest = (features.rho**2).sum(axis=1)
    if features.blur is None:
        return along_rest
    return along_rest + features.blur


def misclassified(
    features: Features,
    c0: Floats,
    c1: Floats,
    variance: Floats,
    turned: Floats | float = 0.0,
) -> Floats:
    """Return P(sign f != the class), spiked_features (4.8); NaN where the features know
    no classes.

    Given kappa, f has mean c0 (B, N), variance (B, N) and parts c1 (B, L, N) along the
    unlearnt directions, and the class is `turned` with a probability (B, N).
    """
    if features.field is None or features.rho is None:
        return np.full(len(c0), np.nan)
    spread = np.broadcast_to(np.sqrt(field_variance(features)), len(c0))
    Q = np.maximum(variance, 1e-300)
    field = np.broadcast_to(features.field, c0.shape)
    x = c0 / np.sqrt(Q)
    error = np.empty_like(x)
    # kappa alone says the class, or it leaves some of the field open
    certain = np.flatnonzero(~(spread > 0))
    open_fields = np.flatnonzero(spread > 0)
    error[certain] = normal_distribution(-np.sign(field[certain]) * x[certain])
    if open_fields.size:
        wide = spread[open_fields, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            along = (features.rho[:, None, :] @ c1)[open_fields, 0, :] / wide
            # rounding must not leave the open interval: Owen's formula divides by its
            # distance from the ends
            correlation = along / np.sqrt(Q[open_fields])
            correlation = np.clip(correlation, -1 + _OPEN, 1 - _OPEN)
            error[open_fields] = opposite_signs(
                x[open_fields], field[open_fields] / wide, correlation
            )
    # an output that is zero has no sign: it is wrong half of the time
    error = np.where(np.isfinite(error), error, 0.5)
    return np.sum(features.weights * (turned + (1 - 2 * turned) * error), axis=1)


def opposite_signs(x: Floats, y: Floats, correlation: Floats) -> Floats:
    """Return P(sign X != sign Y) for unit normals of means x, y: Owen's formula, in
    which a zero counts as +0.
    """
    # -0.0 becomes 0.0, whose ratios have the other sign
    x = x + 0.0
    y = y + 0.0
    root = np.sqrt(1 - correlation**2)
    # at the origin the limit along x = y is taken
    neither = (x == 0) & (y == 0)
    y_over_x = np.where(neither, 1.0, y / x)
    x_over_y = np.where(neither, 1.0, x / y)
    first = scipy.special.owens_t(x, (y_over_x - correlation) / root)
    second = scipy.special.owens_t(y, (x_over_y - correlation) / root)
    return 2 * (first + second) + ((x < 0) != (y < 0))


def sign_disagreement(
    mean: Floats, variance: Floats, shared: Floats, weights: Floats
) -> float:
    """Return how often outputs (N,) of the covariance `shared` differ in sign:
    beyond_the_error (2.6).
    """
    # opposite_signs of equal means and variances, in which both terms are the same and
    # (1 - rho)/sqrt(1 - rho^2) is written without cancellation
    apart = np.maximum(variance - shared, 0.0)
    together = np.maximum(variance + shared, 1e-300)
    x = mean / np.sqrt(np.maximum(variance, 1e-300))
    return float(weights @ (4 * scipy.special.owens_t(x, np.sqrt(apart / together))))


def negative_positive(x: Floats, y: Floats, correlation: Floats) -> Floats:
    """Return P(X < 0 < Y) for unit normals of means x, y."""
    within = np.clip(correlation, -1 + _OPEN, 1 - _OPEN)
    # P(X < 0 < Y) + P(Y < 0 < X) is known, and P(X < 0) - P(Y < 0) is their difference
    both = opposite_signs(x, y, within)
    return 0.5 * (both + normal_distribution(-x) - normal_distribution(-y))
