"""The ridge fit on the gradient's own sample, after a small or growing step (step_size_regimes section 10).

The samples have shaped the direction beta = X^T r/n they are then fitted along, and the labels leak into it:

    <x_j, beta> = g1 kappa*_j + phi r_j + sqrt(phi E r^2) x'_j,    phi = d/n,  r the residuals of the gradient,

while the other directions of the input satisfy sum_j r_j x_j = 0. With l = x' + sqrt(phi/E r^2) r the learnt coordinate
is kappa = (g1 kappa* + sqrt(phi E r^2) l)/b. On fresh inputs l = x', so that the second moments of (y, c1 kappa*, c1 l,
h_0(kappa), ..., h_J(kappa)) are needed under two laws, that of the sample and the clean one. The right vectors of the
features h_j have the Gram matrix G of step_size_regimes (6b), without the fluctuation of |x|^2. Valid for the rank-one
update and spikes s = eta c1 b/sqrt(p) with s^2 << 1. That page has r = y; in general r = y - m, with m the output at
the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.families.network.closed import NOT_FINITE
from giantstep.families.network.closed.spikes import right_vectors
from giantstep.families.network.problem import second_layer_law
from giantstep.families.network.scenario import Network
from giantstep.families.network.steps.weak import WeakStep, residual_power
from giantstep.family import Answer
from giantstep.gaussian import Function, gauss_legendre_panels, hermite_values, normal_density
from giantstep.gaussian.grids import hermite_rule
from giantstep.readout.random_features import bulk_traces, linear_and_rest, solve_random_features
from giantstep.types import Array, Floats, Points

ORDER = 7
"""J, the highest degree of the features h_j(kappa)."""

STRONG_SPIKE = 0.3
BOUND = 13.0
GAUSS_NODES = 24
DERIVATIVE_STEP = 1e-30


def same_sample_errors(
    step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any], order: int = ORDER
) -> Answer:
    """Answer ``what="errors"`` where ``fit_sample="same"``; the order parameters are not computed."""
    if step.update != "rank-one":
        allowed = '"rank-one" for the limit where fit_sample="same" (no theory of the whole gradient is known there)'
        raise bad_field("steps.0.update", step.update, allowed)
    if np.any(np.isinf(points["dim"])):
        raise InputError(
            'Field `dim` is missing: where fit_sample="same" the limit needs the dimension, a whole number, '
            "because its formula is one at a finite size."
        )
    eta, c1 = step.size(points), network.activation.hermite(1)[1]
    g0, g1 = network.label.hermite(1)
    length = g1**2 + residual_power(network, points) / points["samples_per_dim"]  # b^2
    strength = eta * c1 * np.sqrt(length / (points["width_per_dim"] * points["dim"]))
    sample, clean = _second_moments(network, points, order)
    G = _right_vectors(network, points, strength, order)
    values = _errors(network.activation, points, sample, clean, G)
    values["null_error"] = clean.M[:, 0, 0].copy()
    values["affine_error"] = values["null_error"] - g0**2 - g1**2
    solved = np.isfinite(values["test_error"]) & np.isfinite(values["train_error"])
    answer = Answer.closed(values, status=np.where(solved, "", NOT_FINITE), attrs={"theory": "exact"})
    strong = np.abs(strength) > STRONG_SPIKE
    if strong.any():
        answer.warnings.append(
            f'The theory of fit_sample="same" is one of weak spikes, s^2 << 1, but s = eta c1 |beta|/sqrt(p) is above '
            f"{STRONG_SPIKE:g} at {strong.sum()} of {len(strong)} points (up to {np.max(np.abs(strength)):.2g})."
        )
        answer.approximations["the spike is taken as weak"] = f"s is up to {np.max(np.abs(strength)):.2g}"
    if _radius_matters(network):
        answer.warnings.append(
            'The theory of fit_sample="same" leaves out the fluctuation of |x|^2, which mixes with the spike where the '
            "second layer has a nonzero mean and the activation is nearly centred but not odd: expect errors off by "
            "about 3% at every dimension."
        )
        answer.approximations["the fluctuation of |x|^2 is left out"] = "about 3% at every dimension"
    return answer


def _radius_matters(network: Network) -> bool:
    """Tell whether |x|^2 has a right vector along that of the spike, and no stronger constant there to absorb it."""
    zeta, pi = second_layer_law(network)
    c0, _, c2 = network.activation.hermite(2)
    return bool(abs(np.sum(pi * zeta)) > 1e-10 and abs(c2) > max(abs(c0), 1e-10))


class _Moments(NamedTuple):
    """Second moments of (y, c1 kappa*, c1 l, h_0(kappa), ...): M (B, J+4, J+4), and with r/sqrt(E r^2): m (B, J+4)."""

    M: Floats
    m: Floats


def _second_moments(network: Network, points: Points, order: int) -> tuple[_Moments, _Moments]:
    """Return the moments under the law of the sample and under the clean law, each distinct one computed once."""
    rows = np.stack([1 / points["samples_per_dim"], points["noise"], residual_power(network, points)], axis=1)
    distinct, which = np.unique(rows, axis=0, return_inverse=True)

    def moments(leak: float) -> _Moments:
        found = zip(*(_moments_of(network, phi, noise, power, leak, order) for phi, noise, power in distinct))
        return _Moments(*(np.stack(values)[which.reshape(-1)] for values in found))

    return moments(1.0), moments(0.0)


def _moments_of(
    network: Network, phi: float, noise: float, power: float, leak: float, order: int
) -> tuple[Floats, Floats]:
    zeta, pi = second_layer_law(network)
    c0, c1 = network.activation.hermite(1)
    g1 = network.label.hermite(1)[1]
    z, z_weights = _panels(network.label.kinks)
    gauss, gauss_weights = hermite_rule(GAUSS_NODES)
    errors, error_weights = (gauss, gauss_weights) if noise > 0 else (np.zeros(1), np.ones(1))
    y = network.label(z)[:, None, None] + np.sqrt(noise) * errors[:, None]
    r = (y - c0 * np.sum(pi * zeta)) / np.sqrt(power)
    l = gauss + leak * np.sqrt(phi) * r
    kappa = (g1 * z[:, None, None] + np.sqrt(phi * power) * l) / np.sqrt(g1**2 + phi * power)
    shape = kappa.shape
    weights = (z_weights[:, None, None] * error_weights[:, None] * gauss_weights).ravel()
    linear = [np.broadcast_to(values, shape).ravel() for values in (y, c1 * z[:, None, None], c1 * l, r)]
    variables = np.concatenate([linear[:3], hermite_values(kappa.ravel(), order)])
    weighted = variables * weights
    return weighted @ variables.T, weighted @ linear[3]


def _panels(kinks: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return nodes and weights for E f(z) of a function with these kinks, polynomially growing."""
    inside = [kink for kink in kinks if abs(kink) < BOUND]
    nodes, weights = gauss_legendre_panels(np.unique([*np.linspace(-BOUND, BOUND, 14), *inside]))
    return nodes, weights * normal_density(nodes)


def _right_vectors(network: Network, points: Points, strength: Floats, order: int) -> Floats:
    """Return G = U^T U of step_size_regimes (6b), (B, J+1, J+1)."""
    zeta, pi = second_layer_law(network)
    distinct, which = np.unique(strength, return_inverse=True)
    kernels = np.empty((len(distinct), order + 1, order + 1))
    for kernel, s in zip(kernels, distinct):
        u = right_vectors(network.activation, s, zeta, order)
        kernel[...] = (pi * u) @ u.T
    G = kernels[which.reshape(-1)] * (points["width_per_dim"] * points["dim"])[:, None, None]
    if network.rows == "gaussian":  # |w_i|^2 fluctuates
        G[:, 0, 0] += network.activation.hermite(2)[2] ** 2 * points["width_per_dim"]
    return G


def _errors(activation: Function, points: Points, sample: _Moments, clean: _Moments, G: Floats) -> dict[str, Floats]:
    bulk = solve_random_features(
        activation, points["samples_per_dim"], points["width_per_dim"], points["readout.ridge"]
    )
    fit = _fit(activation, points, sample, G, bulk.nu)
    step = DERIVATIVE_STEP
    moved = _fit(activation, points, sample, G, bulk.nu + 1j * step)
    norm = moved.objective.imag / step / bulk.slope  # d objective/d lambda: the fit itself is stationary
    gamma = 1 - bulk.slope
    predicted = _quadratic(fit.residual, clean.M) + fit.remainder
    test = predicted + (gamma * fit.across + fit.own * fit.along**2) / bulk.slope
    return {
        "test_error": test,
        "train_error": fit.objective - bulk.ridge * norm,
        "objective": fit.objective,
        "norm": norm,
    }


class _Fit(NamedTuple):
    """The deterministic part of the fit at the effective ridge nu (arrays over points, complex where nu is)."""

    residual: Array  # v = (1, -coefficients), (B, J+4)
    remainder: Array  # what the fitted weights add outside the features, beta_Omega
    across: Array  # error across the direction of r in sample space
    along: Array  # error along it
    own: Array  # A_y omega_y^2: variance that the error along r leaves in the bulk
    objective: Array


def _fit(activation: Function, points: Points, sample: _Moments, G: Floats, nu: Array) -> _Fit:
    c1, rest = linear_and_rest(activation)
    q = points["width_per_dim"] / points["samples_per_dim"]
    t, dt, tau, dtau = bulk_traces(c1, rest, points["width_per_dim"], nu)
    shrink = 1 - q * (1 - nu * t)  # lambda/nu
    ratio = 1 / (shrink + q * rest * t)  # omega_y/omega
    M = sample.M + (ratio - 1)[:, None, None] * (sample.m[:, :, None] * sample.m[:, None, :])
    size = M.shape[1] - 1
    T, dT = _block(tau, G, t), _block(dtau, G, dt)
    C = M[:, 1:, 1:].copy()
    C[:, [0, 1], [0, 1]] -= c1**2
    w = np.linalg.solve(np.eye(size) + C @ T, M[:, 1:, :1])[:, :, 0]
    coefficients = (T @ w[:, :, None])[:, :, 0]
    square = -_quadratic(w, dT)
    remainder = np.sum(w * coefficients, axis=1) - nu * square - c1**2 * np.sum(coefficients[:, :2] ** 2, axis=1)
    v = np.concatenate([np.ones((len(w), 1)), -coefficients], axis=1)
    along = np.sum(v * sample.m, axis=1)
    across = _quadratic(v, sample.M) - along**2 + remainder
    objective = shrink * across + ratio * shrink * along**2 + nu * shrink * square
    return _Fit(v, remainder, across, along, q * rest * (t + nu * dt) * ratio**2, objective)


def _block(tau: Array, G: Floats, t: Array) -> Array:
    """Return diag(tau, tau, G t), (B, J+3, J+3)."""
    size = G.shape[1] + 2
    T = np.zeros((len(tau), size, size), dtype=tau.dtype)
    T[:, 0, 0] = T[:, 1, 1] = tau
    T[:, 2:, 2:] = G * t[:, None, None]
    return T


def _quadratic(v: Array, M: Array) -> Array:
    """Return v^T M v for every point."""
    value: Array = np.einsum("bi,bij,bj->b", v, M, v)
    return value
