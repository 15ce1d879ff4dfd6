"""How often the output has the wrong sign, given the conditional law of the output and of the class."""

from __future__ import annotations

import numpy as np

from giantstep.gaussian import normal_distribution
from giantstep.readout.features import Features
from giantstep.types import Floats


def field_variance(features: Features) -> Floats:
    """Return the variance (M,) of the field given kappa."""
    assert features.rho is not None
    own = (features.rho**2).sum(axis=1)
    return own if features.blur is None else own + features.blur


def misclassified(features: Features, c0: Floats, c1: Floats, variance: Floats, turned: Floats | float = 0.0) -> Floats:
    """Return P(sign f != the class), spiked_features (4.8); NaN where the features know no classes.

    Given kappa, f has mean c0 (B, N), variance (B, N) and parts c1 (B, L, N) along the unlearnt directions, and the
    class is `turned` with a probability (B, N).
    """
    if features.field is None or features.rho is None:
        return np.full(len(c0), np.nan)
    spread = np.broadcast_to(np.sqrt(field_variance(features)), len(c0))
    Q = np.maximum(variance, 1e-300)
    field = np.broadcast_to(features.field, c0.shape)
    x = c0 / np.sqrt(Q)
    error = np.empty_like(x)
    known, mixed = np.flatnonzero(~(spread > 0)), np.flatnonzero(spread > 0)
    error[known] = normal_distribution(-np.sign(field[known]) * x[known])
    if mixed.size:
        wide = spread[mixed, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            along = (features.rho[:, None, :] @ c1)[mixed, 0, :] / wide
            correlation = np.clip(along / np.sqrt(Q[mixed]), -1 + 1e-15, 1 - 1e-15)
            error[mixed] = opposite_signs(x[mixed], field[mixed] / wide, correlation)
    error = np.where(np.isfinite(error), error, 0.5)
    return np.sum(features.weights * (turned + (1 - 2 * turned) * error), axis=1)


def opposite_signs(x: Floats, y: Floats, correlation: Floats) -> Floats:
    """Return P(sign X != sign Y) for unit normals of means x, y: Owen's formula, in which a zero counts as +0."""
    from scipy.special import owens_t

    x, y = x + 0.0, y + 0.0  # -0.0 becomes 0.0
    root = np.sqrt(1 - correlation**2)
    neither = (x == 0) & (y == 0)
    first = owens_t(x, (np.where(neither, 1.0, y / x) - correlation) / root)
    second = owens_t(y, (np.where(neither, 1.0, x / y) - correlation) / root)
    return 2 * (first + second) + ((x < 0) != (y < 0))


def sign_disagreement(mean: Floats, variance: Floats, shared: Floats, weights: Floats) -> float:
    """Return how often two outputs of this mean and variance (N,) and the covariance `shared` differ in sign.

    beyond_the_error (2.6), on a rule that resolves sqrt(variance)/|slope of the mean|.
    """
    from scipy.special import owens_t

    own, other = np.maximum(variance - shared, 0.0), np.maximum(variance + shared, 1e-300)
    x = mean / np.sqrt(np.maximum(variance, 1e-300))
    return float(weights @ (4 * owens_t(x, np.sqrt(own / other))))


def negative_positive(x: Floats, y: Floats, correlation: Floats) -> Floats:
    """Return P(X < 0 < Y) for unit normals of means x, y."""
    from scipy.special import ndtr

    within = np.clip(correlation, -1 + 1e-15, 1 - 1e-15)
    return 0.5 * (opposite_signs(x, y, within) + ndtr(-x) - ndtr(-y))
