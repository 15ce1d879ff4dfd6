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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from giantstep.gaussian import Function, gauss_legendre_panels, hermite_values, normal_density
from giantstep.gaussian.grids import hermite_rule
from giantstep.readout.feature_spikes import Neurons
from giantstep.readout.random_features import bulk_traces, linear_and_rest, solve_random_features
from giantstep.types import Array, Floats

BOUND, PANELS = 13.0, 13
"""How far the average over kappa* goes, in standard deviations, and on how many panels."""
GAUSS_NODES = 24
"""Nodes of the averages over the noise and over x': exact for polynomials of degree 47, three times that of h_7^2."""
DERIVATIVE_STEP = 1e-30
"""Imaginary part of nu that a derivative is read from: its square is below rounding."""


@dataclass(frozen=True)
class SameSample:
    """B points whose fit has the sample of the gradient; ratios are per dimension, J is the order of the features."""

    neurons: Neurons
    label: Function
    samples: Floats
    width: Floats
    ridge: Floats
    noise: Floats
    power: Floats  # E r^2
    order: int

    def errors(self, strength: Floats, count: Floats) -> dict[str, Floats]:
        """Return the errors with spikes of these strengths s, in networks of so many neurons."""
        sample, clean = self._second_moments()
        G = self._right_vectors(strength, count)
        bulk = solve_random_features(self.neurons.activation, self.samples, self.width, self.ridge)
        fit = self._fit(sample, G, bulk.nu)
        moved = self._fit(sample, G, bulk.nu + 1j * DERIVATIVE_STEP)
        norm = moved.objective.imag / DERIVATIVE_STEP / bulk.slope  # d objective/d lambda: the fit is stationary
        predicted = _quadratic(fit.residual, clean.M) + fit.remainder
        test = predicted + ((1 - bulk.slope) * fit.across + fit.own * fit.along**2) / bulk.slope
        train = fit.objective - bulk.ridge * norm
        null = clean.M[:, 0, 0].copy()
        return {"test_error": test, "train_error": train, "objective": fit.objective, "norm": norm, "null_error": null}

    def _second_moments(self) -> tuple[_SampleMoments, _SampleMoments]:
        """Return the moments under the law of the sample and under the clean law, each distinct one computed once."""
        rows = np.stack([1 / self.samples, self.noise, self.power], axis=1)
        distinct, which = np.unique(rows, axis=0, return_inverse=True)

        def moments(leak: float) -> _SampleMoments:
            found = zip(*(self._moments_of(phi, noise, power, leak) for phi, noise, power in distinct))
            return _SampleMoments(*(np.stack(values)[which.reshape(-1)] for values in found))

        return moments(1.0), moments(0.0)

    def _moments_of(self, phi: float, noise: float, power: float, leak: float) -> tuple[Floats, Floats]:
        c0, c1 = self.neurons.activation.hermite(1)
        g1 = self.label.hermite(1)[1]
        inside = [kink for kink in self.label.kinks if abs(kink) < BOUND]
        z, z_weights = gauss_legendre_panels(np.unique([*np.linspace(-BOUND, BOUND, PANELS + 1), *inside]))
        gauss, gauss_weights = hermite_rule(GAUSS_NODES)
        errors, error_weights = (gauss, gauss_weights) if noise > 0 else (np.zeros(1), np.ones(1))
        y = self.label(z)[:, None, None] + np.sqrt(noise) * errors[:, None]
        r = (y - c0 * self.neurons.mean) / np.sqrt(power)
        l = gauss + leak * np.sqrt(phi) * r
        kappa = (g1 * z[:, None, None] + np.sqrt(phi * power) * l) / np.sqrt(g1**2 + phi * power)
        weights = (z_weights * normal_density(z))[:, None, None] * error_weights[:, None] * gauss_weights
        linear = [np.broadcast_to(f, kappa.shape).ravel() for f in (y, c1 * z[:, None, None], c1 * l, r)]
        variables = np.concatenate([linear[:3], hermite_values(kappa.ravel(), self.order)])
        weighted = variables * weights.ravel()
        return weighted @ variables.T, weighted @ linear[3]

    def _right_vectors(self, strength: Floats, count: Floats) -> Floats:
        """Return G = U^T U of step_size_regimes (6b), (B, J+1, J+1)."""
        distinct, which = np.unique(strength, return_inverse=True)
        vectors = [self.neurons.right_vectors(s, self.order) for s in distinct]
        kernels = np.stack([(self.neurons.pi * u) @ u.T for u in vectors])
        G = kernels[which.reshape(-1)] * count[:, None, None]
        if self.neurons.gaussian_rows:  # |w_i|^2 fluctuates
            G[:, 0, 0] += self.neurons.activation.hermite(2)[2] ** 2 * self.width
        return G

    def _fit(self, sample: _SampleMoments, G: Floats, nu: Array) -> _SampleFit:
        c1, rest = linear_and_rest(self.neurons.activation)
        q = self.width / self.samples
        t, dt, tau, dtau = bulk_traces(c1, rest, self.width, nu)
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
        return _SampleFit(v, remainder, across, along, q * rest * (t + nu * dt) * ratio**2, objective)


class _SampleMoments(NamedTuple):
    """Second moments of (y, c1 kappa*, c1 l, h_0(kappa), ...): M (B, J+4, J+4), and with r/sqrt(E r^2): m (B, J+4)."""

    M: Floats
    m: Floats


class _SampleFit(NamedTuple):
    """The deterministic part of the fit at the effective ridge nu (arrays over points, complex where nu is)."""

    residual: Array  # v = (1, -coefficients), (B, J+4)
    remainder: Array  # what the fitted weights add outside the features, beta_Omega
    across: Array  # error across the direction of r in sample space
    along: Array  # error along it
    own: Array  # A_y omega_y^2: variance that the error along r leaves in the bulk
    objective: Array


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
