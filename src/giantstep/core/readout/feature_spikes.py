"""The spikes of the features F = sigma(X W1^T) after a small or growing step: outliers
of F/sqrt(n), degree by degree.

As in step_size_regimes section 6. With kappa = <x, beta>/|beta| the learnt feature,
h_j = He_j/sqrt(j!) and s = eta c1 |beta|/sqrt(p), neuron i sees sigma(<w_i,x> + s
zeta_i kappa), so that F = F0 + sum_j h_j(kappa) u_j^T with

    (u_j)_i = (s zeta_i)^j sqrt(j!) c_j(tau_i),   tau_i^2 = 1 + s^2 zeta_i^2,
    c_j(tau) = E[sigma(tau v) He_j(v)]/(j! tau^j),   j = 0..7.

One more feature is chi = (|x|^2 - d)/sqrt(2d), with u_chi = c_2 sqrt(2/d) for every
neuron. Gaussian rows add 2 c_2^2 p/d to |u_0|^2. F0 = c_1 X W0^T + c_{>1} Z is the bulk
of random features; its part along kappa joins u_1, which adds c_1^2 p/d to |u_1|^2.
Every eigenpair (theta^2, e) of the Gram matrix of the u_j gives, with r = p/d and q =
p/n (step_size_regimes (6d), (6e), (6f)),

    rho = theta^2 + c_{>1}^2 + c_1^2 theta^2/(theta^2 - c_1^2 r), z = rho (1 - q) + q
    rho^2/theta^2,

a singular value sqrt(z) with left vector u, (u . h_j/sqrt(n))^2 = e_j^2 (theta^2/rho)
dz/dtheta^2. It lies outside the bulk where theta^2 > c_1^2 (r + sqrt(r)) and
dz/dtheta^2 > 0; the bulk ends where the derivative vanishes.

The samples have shaped the direction beta = X^T r/n they are then fitted along, and the
labels leak into it:

    <x_j, beta> = g1 kappa*_j + phi r_j + sqrt(phi E r^2) x'_j, phi = d/n, r the
    residuals of the gradient,

while the other directions of the input satisfy sum_j r_j x_j = 0. With l = x' +
sqrt(phi/E r^2) r the learnt coordinate is kappa = (g1 kappa* + sqrt(phi E r^2) l)/b. On
fresh inputs l = x', so that the second moments of (y, c1 kappa*, c1 l, h_0(kappa), ...,
h_J(kappa)) are needed under two laws, that of the sample and the clean one. The right
vectors of the features h_j have the Gram matrix G of step_size_regimes (6b), without
the fluctuation of |x|^2. Valid for the rank-one update and spikes s = eta c1 b/sqrt(p)
with s^2 << 1. That page has r = y; in general r = y - m, with m the output at the
start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.gaussian import (
    Function,
    gauss_legendre_panels,
    hermite_values,
    normal_density,
)
from giantstep.core.maths.gaussian.grids import hermite_rule
from giantstep.core.maths.solve.roots import brent_root
from giantstep.core.readout.answers import list_numbers
from giantstep.core.readout.random_features import (
    bulk_traces,
    linear_and_rest,
    solve_random_features,
)

SPIKE_ROOM = 6
"""Singular values that an answer has room for."""
HIGHEST_DEGREE = 7
"""Degree of the last u_j: a weak spike leaves s^8 out."""
DEGREES = np.arange(5)
"""Degrees whose alignments are shown unless others are asked for."""
_NO_CONSTANT = 1e-12
"""E sigma below which it is rounding."""
_BOUND = 13.0
_PANELS = 52
"""How far the average over v goes, in standard deviations, and on how many panels:
1e-15 of a moment.
"""


class Neurons(NamedTuple):
    """The activation, and the law of zeta: values (k,) with probabilities (k,); rows
    are Gaussian or unit vectors.
    """

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
        """Return u_j of every zeta, j = 0..order: (s zeta/tau)^j E[sigma(tau v)
        h_j(v)], step_size_regimes (6a).
        """
        # tau depends on zeta^2 alone, which many values share
        square, square_of_value = np.unique(self.zeta**2, return_inverse=True)
        tau = np.sqrt(1 + (s**2 + added) * square)
        v, weights = self._panels(tau)
        weighted = self.activation(tau[:, None] * v) * normal_density(v) * weights
        moments = np.einsum("kv,jkv->jk", weighted, hermite_values(v, order))
        degrees = np.arange(order + 1)[:, None]
        turned = s * self.zeta / tau[square_of_value]
        return turned**degrees * moments[:, square_of_value]

    def _panels(self, tau: Floats) -> tuple[Floats, Floats]:
        """Return nodes and weights of v for sigma(tau v) at every tau (k, V), with
        edges at its kinks.
        """
        edges = np.linspace(-_BOUND, _BOUND, _PANELS + 1)
        regular = np.broadcast_to(edges, (len(tau), _PANELS + 1))
        kinks = np.asarray(self.activation.kinks)[None, :] / tau[:, None]
        # a kink beyond the bound makes an empty panel there: all tau have as many
        kinks = np.clip(kinks, -_BOUND, _BOUND)
        return gauss_legendre_panels(
            np.sort(np.concatenate([regular, kinks], axis=1), axis=1)
        )


def feature_spikes(
    neurons: Neurons,
    sizes: tuple[Floats, ...],
    s: Floats,
    power: Floats,
    added: Floats,
    degrees: Integers,
) -> dict[str, Array]:
    """Return the spikes of B points of these sizes (p/d, n/d, d) and the names of these
    `degrees`.

    |w_i|^2 = 1 + added zeta_i^2, and power = eta^2 |beta|^2 counts where d is infinite.
    """
    c1, rest = linear_and_rest(neurons.activation)
    columns = [array.tolist() for array in (*sizes, s, power, added)]
    rows = []
    for p, n, d, strength, square, more in zip(*columns):
        if d == np.inf:
            theta, vectors = _small_step(neurons, square, p)
        else:
            theta, vectors = _with_dimension(neurons, strength, d, p, more)
        rows.append(
            _outliers(
                c1=c1,
                rest=rest,
                r=p,
                q=p / n,
                strength=theta,
                vectors=vectors,
                degrees=degrees,
            )
        )
    values = {}
    for name in rows[0]:
        values[name] = np.stack([row[name] for row in rows])
    values["spike_degree"] = spike_degrees(
        values["alignment"], values["norm_alignment"], degrees
    )
    return values


def _with_dimension(
    neurons: Neurons, s: float, dim: float, width: float, added: float
) -> tuple[Floats, Floats]:
    """Return the eigenpairs of the Gram matrix of u_0..u_7, u_chi."""
    c1, c2 = neurons.activation.hermite(2)[1:] / np.sqrt([1, 2])
    vectors = neurons.right_vectors(s, HIGHEST_DEGREE, added)
    # u_chi is the same for all neurons
    u_chi = np.full((1, len(neurons.zeta)), c2 * np.sqrt(2 / dim))
    vectors = np.concatenate([vectors, u_chi])
    matrix = width * dim * (vectors * neurons.pi) @ vectors.T
    if neurons.gaussian_rows:
        # |w_i|^2 fluctuates from neuron to neuron, and with it the constant part
        matrix[0, 0] += 2 * c2**2 * width
    return _eigenpairs(matrix, c1**2 * width)


def _small_step(neurons: Neurons, power: float, width: float) -> tuple[Floats, Floats]:
    """Return the eigenpairs of a small step as d -> inf.

    Only u_1, u_chi and the norms of Gaussian rows keep a finite length. Where c_0 is
    not 0, u_0 is infinitely long and the others count across it: u_chi, parallel to it,
    is lost, and so is the mean of the second layer.
    """
    c0, c1, c2 = neurons.activation.hermite(2) / np.sqrt([1, 1, 2])
    constant = abs(c0) > _NO_CONSTANT
    chi = 2 * c2**2 * width
    last = HIGHEST_DEGREE + 1
    matrix = np.zeros((last + 1, last + 1))
    if constant:
        # the part of u_1 across the infinite u_0
        variance = neurons.power - neurons.mean**2
        matrix[1, 1] = power * c1**4 * variance
        return _constant_first(*_eigenpairs(matrix, c1**2 * width))
    # u_0 = 0 but for the lengths of Gaussian rows
    matrix[1, 1] = power * c1**4 * neurons.power
    matrix[last, last] = chi
    if neurons.gaussian_rows:
        matrix[0, 0] = chi
    # zeta enters u_1 to the first power: its mean is what u_chi, constant, sees of it
    along = np.sqrt(max(power, 0.0)) * np.sign(c1) * c1**2 * neurons.mean
    crossed = along * np.copysign(np.sqrt(chi), c2)
    matrix[1, last] = crossed
    matrix[last, 1] = crossed
    return _eigenpairs(matrix, c1**2 * width)


def _constant_first(strength: Floats, vectors: Floats) -> tuple[Floats, Floats]:
    """Return eigenpairs with u_0 first, infinitely long."""
    at = int(np.argmax(np.abs(vectors[0])))
    order = np.r_[at, np.delete(np.arange(len(strength)), at)]
    strength = strength[order]
    strength[0] = np.inf
    return strength, vectors[:, order]


def _eigenpairs(matrix: Floats, learnt: float) -> tuple[Floats, Floats]:
    """Return theta^2, largest first, and the eigenvectors, after what F0 has along
    kappa joined u_1.
    """
    matrix[1, 1] += learnt
    strength, vectors = np.linalg.eigh(matrix)
    # eigh has the largest last
    return strength[::-1], vectors[:, ::-1]


def _outliers(
    c1: float,
    rest: float,
    r: float,
    q: float,
    strength: Floats,
    vectors: Floats,
    degrees: Integers,
) -> dict[str, Array]:
    """Return the edge of the bulk and what leaves it, of eigenpairs (theta^2, e); NaN
    where there are no more.
    """
    c = c1**2

    def spike(theta: Array | float) -> tuple[Any, Any, Any]:
        """Return rho, z and dz/dtheta^2 at theta^2 = `theta`."""
        gap = theta - c * r
        rho = theta + rest + c * theta / gap
        drho = 1 - c**2 * r / gap**2
        z = rho * (1 - q) + q * rho**2 / theta
        # of rho (1 - q), then of q rho^2/theta^2 by its two factors
        dz = drho * (1 - q) + 2 * q * rho * drho / theta - q * rho**2 / theta**2
        return rho, z, dz

    threshold = _threshold(lambda theta: float(spike(theta)[2]), c * (r + np.sqrt(r)))
    # sorted: the strongest ones where there are more than room
    outside = np.flatnonzero(strength > threshold)[:SPIKE_ROOM]
    finite = np.isfinite(strength[outside])
    missing = (0, SPIKE_ROOM - len(outside))
    # any finite value in place of an infinite spike, whose answers are set below
    theta = np.where(finite, strength[outside], 1.0 + c * r)
    rho, z, dz = spike(theta)
    shares = np.where(finite, theta / rho * dz, 1.0)
    overlaps = vectors[:, outside] ** 2 * shares
    overlaps = np.pad(overlaps.T, (missing, (0, 0)), constant_values=np.nan)
    singular_values = np.where(finite, np.sqrt(z), np.inf)
    _, edge, _ = spike(threshold)
    return {
        "singular_values": np.pad(singular_values, missing, constant_values=np.nan),
        "alignment": overlaps[:, degrees],
        "norm_alignment": overlaps[:, -1],
        "bulk_edge": np.sqrt(edge),
    }


def _threshold(slope: Callable[[float], float], low: float) -> float:
    """Return theta^2 where dz/dtheta^2 changes its sign above `low`: the bulk ends
    there.
    """
    # at `low` rho stands still, so that z falls; far away dz/dtheta^2 = 1
    high = 2 * low
    while slope(high) < 0:
        check_time()
        high *= 2
    return brent_root(slope, low, high, xtol=1e-14 * low, rtol=1e-14)


def check_degrees(degree: Any) -> Integers:
    """Return the degrees asked for, or 0 to 4."""
    if degree is None:
        return DEGREES
    values = list_numbers(degree, float)
    whole = bool(values.size) and bool(np.all(values == np.rint(values)))
    # `whole` first: an empty list has no least number
    valid = (
        whole
        and values.min() >= 0
        and values.max() <= HIGHEST_DEGREE
        and bool(np.all(np.diff(values) > 0))
    )
    if not valid:
        raise bad_field(
            "degree",
            degree,
            f"an increasing list of whole numbers from 0 to {HIGHEST_DEGREE}",
        )
    return values.astype(np.int64)


def spike_degrees(
    alignment: Floats, norm_alignment: Floats, degrees: Integers
) -> Floats:
    """Return the degree of largest alignment (..., spike); NaN without one, or where
    |x|^2 is the better name.
    """
    # argmax has no answer among NaN; no alignment is negative
    known = np.where(np.isnan(alignment), -1.0, alignment)
    largest = known.max(axis=-1)
    named = (largest >= 0) & (largest > norm_alignment)
    return np.where(named, degrees[known.argmax(axis=-1)], np.nan)


# -- The ridge fit on the gradient's own sample ----------------------------------------


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
    linear = [
        np.broadcast_to(f, kappa.shape).ravel() for f in (y, c1 * kappa_star, c1 * l, r)
    ]
    *fields, residuals = linear
    variables = np.concatenate([fields, hermite_values(kappa.ravel(), order)])
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
