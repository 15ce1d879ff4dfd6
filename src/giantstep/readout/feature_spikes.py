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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from giantstep.deadline import check_time
from giantstep.errors import bad_field
from giantstep.gaussian import Function, gauss_legendre_panels, hermite_values, normal_density
from giantstep.readout.answers import list_numbers
from giantstep.readout.random_features import linear_and_rest
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
