"""The spikes of the features F = sigma(X W1^T) after a small or growing step: outliers of F/sqrt(n), degree by degree.

As in step_size_regimes section 6. With kappa = <x, beta>/|beta| the learnt feature, h_j = He_j/sqrt(j!) and
s = eta c1 |beta|/sqrt(p), neuron i sees sigma(<w_i,x> + s zeta_i kappa), so that F = F0 + sum_j h_j(kappa) u_j^T with

    (u_j)_i = (s zeta_i)^j sqrt(j!) c_j(tau_i),   tau_i^2 = 1 + s^2 zeta_i^2,
    c_j(tau) = E[sigma(tau v) He_j(v)]/(j! tau^j),   j = 0..7.

One more feature is chi = (|x|^2 - d)/sqrt(2d), with u_chi = c_2 sqrt(2/d) for every neuron. Gaussian rows add
2 c_2^2 p/d to |u_0|^2. F0 = c_1 X W0^T + c_{>1} Z is the bulk of random features; its part along kappa joins u_1, which
adds c_1^2 p/d to |u_1|^2. Every eigenpair (theta^2, e) of the Gram matrix of the u_j gives, with r = p/d and q = p/n
(step_size_regimes (6d), (6e), (6f)),

    rho = theta^2 + c_{>1}^2 + c_1^2 theta^2/(theta^2 - c_1^2 r),   z = rho (1 - q) + q rho^2/theta^2,

a singular value sqrt(z) with left vector u, (u . h_j/sqrt(n))^2 = e_j^2 (theta^2/rho) dz/dtheta^2. It lies outside the
bulk where theta^2 > c_1^2 (r + sqrt(r)) and dz/dtheta^2 > 0; the bulk ends where the derivative vanishes.

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
from typing import Any, NamedTuple

import numpy as np

from giantstep.deadline import check_time
from giantstep.errors import bad_field
from giantstep.gaussian import Function, gauss_legendre_panels, hermite_values, normal_density
from giantstep.gaussian.grids import hermite_rule
from giantstep.readout.answers import list_numbers
from giantstep.readout.random_features import bulk_traces, linear_and_rest, solve_random_features
from giantstep.solve.finite import brent_root
from giantstep.types import Array, Floats, Integers

SPIKE_ROOM = 6
"""Singular values that an answer has room for."""
HIGHEST_DEGREE = 7
"""Degree of the last u_j: a weak spike leaves s^8 out."""
DEGREES = np.arange(5)
"""Degrees whose alignments are shown unless others are asked for."""
_BOUND, _PANELS = 13.0, 52
"""How far the average over v goes, in standard deviations, and on how many panels: 1e-15 of a moment."""


class Neurons(NamedTuple):
    """The activation, and the law of zeta: values (k,) with probabilities (k,); rows are Gaussian or unit vectors."""

    activation: Function
    zeta: Floats
    pi: Floats
    gaussian_rows: bool

    @property
    def mean(self) -> float:
        """E zeta."""
        return float(np.sum(self.pi * self.zeta))

    @property
    def power(self) -> float:
        """E zeta^2."""
        return float(np.sum(self.pi * self.zeta**2))

    def right_vectors(self, s: float, order: int, added: float = 0.0) -> Floats:
        """Return u_j of every zeta, j = 0..order: (s zeta/tau)^j E[sigma(tau v) h_j(v)], step_size_regimes (6a)."""
        square, which = np.unique(self.zeta**2, return_inverse=True)
        tau = np.sqrt(1 + (s**2 + added) * square)
        regular = np.broadcast_to(np.linspace(-_BOUND, _BOUND, _PANELS + 1), (len(tau), _PANELS + 1))
        kinks = np.clip(np.asarray(self.activation.kinks)[None, :] / tau[:, None], -_BOUND, _BOUND)
        v, weights = gauss_legendre_panels(np.sort(np.concatenate([regular, kinks], axis=1), axis=1))
        weighted = self.activation(tau[:, None] * v) * normal_density(v) * weights
        moments = np.einsum("kv,jkv->jk", weighted, hermite_values(v, order))
        return (s * self.zeta / tau[which]) ** np.arange(order + 1)[:, None] * moments[:, which]

    def gram(self, s: float, dim: float, width: float, added: float = 0.0) -> Floats:
        """Return the Gram matrix of u_0..u_7, u_chi, (9, 9), where |w_i|^2 = 1 + added zeta_i^2."""
        c2, neurons = self.activation.hermite(2)[2] / np.sqrt(2), width * dim
        vectors = self.right_vectors(s, HIGHEST_DEGREE, added)
        vectors = np.concatenate([vectors, np.full((1, len(self.zeta)), c2 * np.sqrt(2 / dim))])
        matrix = neurons * (vectors * self.pi) @ vectors.T
        if self.gaussian_rows:
            matrix[0, 0] += 2 * c2**2 * neurons / dim
        return np.asarray(matrix)

    def without_dimension(self, power: float, width: float) -> tuple[Floats, Floats]:
        """Return the eigenpairs of a small step as d -> inf, power = eta^2 |beta|^2.

        Only u_1, u_chi and the norms of Gaussian rows keep a finite length. Where c_0 is not 0, u_0 is infinitely long
        and the others count across it: u_chi, parallel to it, is lost, and so is the mean of the second layer.
        """
        c0, c1, c2 = self.activation.hermite(2) / np.sqrt([1, 1, 2])
        constant, chi = abs(c0) > 1e-12, 2 * c2**2 * width
        matrix = np.zeros((HIGHEST_DEGREE + 2, HIGHEST_DEGREE + 2))
        matrix[1, 1] = power * c1**4 * (self.power - (self.mean**2 if constant else 0.0))
        if not constant:
            along = np.sqrt(max(power, 0.0)) * np.sign(c1) * c1**2 * self.mean
            matrix[-1, -1], matrix[0, 0] = chi, chi if self.gaussian_rows else 0.0
            matrix[1, -1] = matrix[-1, 1] = along * np.copysign(np.sqrt(chi), c2)
        strength, vectors = eigenpairs(matrix, c1**2 * width)
        if constant:
            at = int(np.argmax(np.abs(vectors[0])))
            order = np.r_[at, np.delete(np.arange(len(strength)), at)]
            strength, vectors = strength[order], vectors[:, order]
            strength[0] = np.inf
        return strength, vectors


def eigenpairs(matrix: Floats, learnt: float) -> tuple[Floats, Floats]:
    """Return theta^2, largest first, and the eigenvectors, after what F0 has along kappa joined u_1."""
    matrix = matrix.copy()
    matrix[1, 1] += learnt
    strength, vectors = np.linalg.eigh(matrix)
    return strength[::-1], vectors[:, ::-1]


@dataclass(frozen=True)
class FeatureBulk:
    """The bulk of F0/sqrt(n): coefficients c_1 and c_{>1}^2 of the activation, r = p/d, q = p/n."""

    c1: float
    rest: float
    width: float
    load: float

    def spike(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return rho, z and dz/dtheta^2 at theta^2 = `theta`."""
        c, q = self.c1**2, self.load
        gap = theta - c * self.width
        rho = theta + self.rest + c * theta / gap
        slope = 1 - c**2 * self.width / gap**2
        z = rho * (1 - q) + q * rho**2 / theta
        return rho, z, slope * (1 - q) + 2 * q * rho * slope / theta - q * rho**2 / theta**2

    def outliers(self, strength: Floats, vectors: Floats) -> tuple[Floats, Floats]:
        """Return the singular values of eigenpairs (theta^2, e), and the squared cosines with the functions (J, K)."""
        finite = np.isfinite(strength)
        theta = np.where(finite, strength, 1.0 + self.c1**2 * self.width)
        rho, z, slope = self.spike(theta)
        return np.where(finite, np.sqrt(z), np.inf), vectors**2 * np.where(finite, theta / rho * slope, 1.0)

    def spikes(self, strength: Floats, vectors: Floats, degrees: Integers) -> dict[str, Array]:
        """Return the edge of the bulk and what leaves it, of eigenpairs (theta^2, e); NaN where there are no more."""
        threshold = self.threshold()
        outside = np.flatnonzero(strength > threshold)[:SPIKE_ROOM]
        singular, overlaps = self.outliers(strength[outside], vectors[:, outside])
        room = SPIKE_ROOM - len(outside)
        overlaps = np.pad(overlaps.T, ((0, room), (0, 0)), constant_values=np.nan)
        return {
            "singular_values": np.pad(singular, (0, room), constant_values=np.nan),
            "alignment": overlaps[:, degrees],
            "norm_alignment": overlaps[:, -1],
            "bulk_edge": np.sqrt(self.spike(np.array(threshold))[1]),
        }

    def threshold(self) -> float:
        """Return the theta^2 above which a spike leaves the bulk."""
        low = self.c1**2 * (self.width + np.sqrt(self.width))
        high = 2 * low
        while self.spike(np.array(high))[2] < 0:
            check_time()
            high *= 2

        def slope(theta: float) -> float:
            return float(self.spike(np.array(theta))[2])

        return brent_root(slope, low, high, xtol=1e-14 * low, rtol=1e-14)


def feature_spikes(
    neurons: Neurons,
    width: Floats,
    samples: Floats,
    dim: Floats,
    s: Floats,
    power: Floats,
    added: Floats,
    degrees: Integers,
) -> dict[str, Array]:
    """Return the spikes of B points and the names of these `degrees`; ratios per dimension.

    s and `added` are those of `Neurons.gram`, `power` that of `Neurons.without_dimension`, where `dim` is infinite.
    """
    c1, rest = linear_and_rest(neurons.activation)
    rows = []
    for p, n, d, size, square, more in zip(*(array.tolist() for array in (width, samples, dim, s, power, added))):
        if d == np.inf:
            pairs = neurons.without_dimension(square, p)
        else:
            pairs = eigenpairs(neurons.gram(size, d, p, more), c1**2 * p)
        rows.append(FeatureBulk(c1, rest, p, p / n).spikes(*pairs, degrees))
    values = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return {**values, "spike_degree": spike_degrees(values["alignment"], values["norm_alignment"], degrees)}


def check_degrees(degree: Any) -> Integers:
    """Return the degrees asked for, or 0 to 4."""
    if degree is None:
        return DEGREES
    values = list_numbers(degree, float)
    whole = bool(values.size) and bool(np.all(values == np.rint(values)))
    if not whole or values.min() < 0 or values.max() > HIGHEST_DEGREE or np.any(np.diff(values) <= 0):
        raise bad_field("degree", degree, f"an increasing list of whole numbers from 0 to {HIGHEST_DEGREE}")
    return values.astype(np.int64)


def spike_degrees(alignment: Floats, norm_alignment: Floats, degrees: Integers) -> Floats:
    """Return the degree of largest alignment (..., spike); NaN without one, or where |x|^2 is the better name."""
    known = np.where(np.isnan(alignment), -1.0, alignment)
    largest = known.max(axis=-1)
    named = (largest >= 0) & (largest > norm_alignment)
    return np.where(named, degrees[known.argmax(axis=-1)], np.nan)


# -- The ridge fit on the gradient's own sample -----------------------------------------------------------


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
