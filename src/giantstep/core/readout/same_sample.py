"""The ridge fit on the gradient's own sample, after a small or growing step.

The samples have shaped the direction beta = X^T r/n they are then fitted along, and the
labels leak into it (step_size_regimes section 6):

    <x_j, beta> = g1 kappa*_j + phi r_j + sqrt(phi E r^2) x'_j, phi = d/n, r the
    residuals of the gradient,

while the other directions of the input satisfy sum_j r_j x_j = 0. With l = x' +
sqrt(phi/E r^2) r the learnt coordinate is kappa = (g1 kappa* + sqrt(phi E r^2) l)/b. On
fresh inputs l = x', so that the second moments of (y, c1 kappa*, c1 l, h_0(kappa), ...,
h_J(kappa)) are needed under two laws, that of the sample and the clean one. The right
vectors of the features h_j, those of `feature_spikes`, have the Gram matrix G of
step_size_regimes (6b), without the fluctuation of |x|^2. Valid for the rank-one update
and spikes s = eta c1 b/sqrt(p) with s^2 << 1. That page has r = y; in general r = y -
m, with m the output at the start.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.gaussian import (
    Function,
    gauss_legendre_panels,
    hermite_values,
    normal_density,
)
from giantstep.core.maths.gaussian.grids import hermite_rule
from giantstep.core.readout.feature_spikes import Neurons
from giantstep.core.readout.random_features import (
    bulk_traces,
    linear_and_rest,
    solve_random_features,
)

BOUND = 13.0
PANELS = 13
"""How far the average over kappa* goes, in standard deviations, and on how many
panels.
"""
GAUSS_NODES = 24
"""Nodes of the averages over the noise and over x': exact for polynomials of degree 47,
three times that of h_7^2.
"""
DERIVATIVE_STEP = 1e-30
"""Imaginary part of nu that a derivative is read from: its square is below rounding."""


def fit_on_same_sample(
    neurons: Neurons,
    label: Function,
    numbers: tuple[Floats, ...],
    strength: Floats,
    count: Floats,
    order: int,
) -> dict[str, Floats]:
    """Return the errors of B points with spikes of these strengths s, in networks of
    `count` neurons.

    The numbers are n/d, p/d, the ridge, the label noise, and E r^2; `order` is the
    highest degree of the features.
    """
    samples, width, ridge, noise, power = numbers
    c1, rest = linear_and_rest(neurons.activation)
    laws = np.stack([1 / samples, noise, power], axis=1)
    # of the sample, into which the labels leak, and of fresh inputs
    sample, with_residual = _moments_of_points(neurons, label, order, 1.0, laws)
    fresh, _ = _moments_of_points(neurons, label, order, 0.0, laws)
    bulk = solve_random_features(neurons.activation, samples, width, ridge)
    fitted = partial(
        _fitted,
        M=sample,
        m=with_residual,
        G=_gram_of_spikes(neurons, strength, count, order, width),
        width=width,
        q=width / samples,
        c1=c1,
        rest=rest,
    )
    fit = fitted(nu=bulk.nu)
    moved = fitted(nu=bulk.nu + 1j * DERIVATIVE_STEP)
    # d objective/d lambda: the fit is stationary
    norm = moved.objective.imag / DERIVATIVE_STEP / bulk.slope
    # gamma/(1 - gamma) is the variance of a fit in the bulk; slope = 1 - gamma
    across = (1 - bulk.slope) * fit.across
    in_bulk = (across + fit.left * fit.along**2) / bulk.slope
    return {
        "test_error": _quadratic(fit.v, fresh) + fit.remainder + in_bulk,
        "train_error": fit.objective - bulk.ridge * norm,
        "objective": fit.objective,
        "norm": norm,
        "null_error": fresh[:, 0, 0].copy(),
    }


def _gram_of_spikes(
    neurons: Neurons, strength: Floats, count: Floats, order: int, width: Floats
) -> Floats:
    """Return G of (6b) at every point (B, J + 1, J + 1)."""
    strengths, strength_of_point = np.unique(strength, return_inverse=True)
    grams = []
    for s in strengths:
        vectors = neurons.right_vectors(s, order)
        grams.append((neurons.pi * vectors) @ vectors.T)
    # points of one strength share the averages over v
    G = np.stack(grams)[strength_of_point.reshape(-1)] * count[:, None, None]
    if neurons.gaussian_rows:
        # |w_i|^2 fluctuates
        G[:, 0, 0] += neurons.activation.hermite(2)[2] ** 2 * width
    return G


def _moments_of_points(
    neurons: Neurons, label: Function, order: int, leak: float, laws: Floats
) -> tuple[Floats, Floats]:
    """Return what `_second_moments` does at every point, of laws (B, 3): points that
    share d/n, the noise and E r^2 share one average.
    """
    distinct, law_of_point = np.unique(laws, axis=0, return_inverse=True)
    law_of_point = law_of_point.reshape(-1)
    pairs = [_second_moments(neurons, label, order, leak, *law) for law in distinct]
    M = np.stack([of_law for of_law, _ in pairs])
    m = np.stack([of_law for _, of_law in pairs])
    return M[law_of_point], m[law_of_point]


def _label_rule(label: Function) -> tuple[Floats, Floats]:
    """Return nodes and weights of kappa* ~ N(0, 1) that resolve the kinks of the
    label.
    """
    edges = np.linspace(-BOUND, BOUND, PANELS + 1)
    inside = [kink for kink in label.kinks if abs(kink) < BOUND]
    z, weights = gauss_legendre_panels(np.unique([*edges, *inside]))
    return z, weights * normal_density(z)


def _second_moments(
    neurons: Neurons,
    label: Function,
    order: int,
    leak: float,
    phi: float,
    noise: float,
    power: float,
) -> tuple[Floats, Floats]:
    """Return the second moments of (y, c1 kappa*, c1 l, h_0(kappa), ...), and with
    r/sqrt(E r^2), `leak` = 0: clean.
    """
    c0, c1 = neurons.activation.hermite(1)
    g1 = label.hermite(1)[1]
    z, z_weights = _label_rule(label)
    gauss, gauss_weights = hermite_rule(GAUSS_NODES)
    if noise > 0:
        errors = gauss
        error_weights = gauss_weights
    else:
        errors = np.zeros(1)
        error_weights = np.ones(1)
    # a grid over kappa* (z), the noise of the labels, and x'
    kappa_star = z[:, None, None]
    y = label(z)[:, None, None] + np.sqrt(noise) * errors[:, None]
    # in units of its root mean square
    r = (y - c0 * neurons.mean) / np.sqrt(power)
    l = gauss + leak * np.sqrt(phi) * r
    b = np.sqrt(g1**2 + phi * power)
    kappa = (g1 * kappa_star + np.sqrt(phi * power) * l) / b
    weights = z_weights[:, None, None] * error_weights[:, None] * gauss_weights
    # all of them at all nodes of the grid
    linear = [
        np.broadcast_to(f, kappa.shape).ravel() for f in (y, c1 * kappa_star, c1 * l)
    ]
    residuals = np.broadcast_to(r, kappa.shape).ravel()
    variables = np.concatenate([linear, hermite_values(kappa.ravel(), order)])
    weighted = variables * weights.ravel()
    return weighted @ variables.T, weighted @ residuals


class SampleFit(NamedTuple):
    """The deterministic part of the fit at an effective ridge nu, complex where nu
    is.
    """

    v: Array  # (1, -coefficients) (B, J + 4)
    remainder: Array  # what the fitted weights add outside the features, beta_Omega
    across: Array
    along: Array  # the error across and along the direction of r in sample space
    left: Array  # A_y omega_y^2, the variance that the error along r leaves in the bulk
    objective: Array


def _fitted(
    M: Floats,
    m: Floats,
    G: Floats,
    width: Floats,
    q: Floats,
    c1: float,
    rest: float,
    nu: Array,
) -> SampleFit:
    """Return the deterministic part of the fit at the effective ridge nu."""
    t, dt, tau, dtau = bulk_traces(c1, rest, width, nu)
    shrink = 1 - q * (1 - nu * t)  # lambda/nu
    ratio = 1 / (shrink + q * rest * t)  # omega_y/omega
    # the direction of r in sample space has a weight of its own, omega_y
    whole = M + (ratio - 1)[:, None, None] * (m[:, :, None] * m[:, None, :])
    T = _by_feature(tau, t, G)
    C = whole[:, 1:, 1:].copy()
    # the linear features are those of the bulk: their second moments are in tau already
    C[:, [0, 1], [0, 1]] -= c1**2
    eye = np.eye(T.shape[1])
    w = np.linalg.solve(eye + C @ T, whole[:, 1:, :1])[:, :, 0]
    coefficients = (T @ w[:, :, None])[:, :, 0]
    # the squared norm of the weights on the features
    square = -_quadratic(w, _by_feature(dtau, dt, G))
    remainder = (
        np.sum(w * coefficients, axis=1)
        - nu * square
        - c1**2 * np.sum(coefficients[:, :2] ** 2, axis=1)
    )
    # y minus what is fitted of it; its product with r is the error along r
    v = np.concatenate([np.ones((len(w), 1)), -coefficients], axis=1)
    along = np.sum(v * m, axis=1)
    across = _quadratic(v, M) - along**2 + remainder
    return SampleFit(
        v=v,
        remainder=remainder,
        across=across,
        along=along,
        left=q * rest * (t + nu * dt) * ratio**2,
        objective=shrink * across + ratio * shrink * along**2 + nu * shrink * square,
    )


def _by_feature(tau: Array, t: Array, G: Floats) -> Array:
    """Return diag(tau, tau, G t) (B, J + 3, J + 3): c1 kappa*, c1 l, then h_0, ...,
    h_J.
    """
    size = 2 + G.shape[1]
    T = np.zeros((len(tau), size, size), dtype=tau.dtype)
    T[:, 0, 0] = tau
    T[:, 1, 1] = tau
    T[:, 2:, 2:] = G * t[:, None, None]
    return T


def _quadratic(v: Array, M: Array) -> Array:
    """Return v^T M v for every point."""
    return np.asarray(np.einsum("bi,bij,bj->b", v, M, v))
