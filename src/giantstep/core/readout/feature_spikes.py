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
"""

from __future__ import annotations

from collections.abc import Callable
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
from giantstep.core.maths.solve.roots import brent_root
from giantstep.core.readout.answers import list_numbers
from giantstep.core.readout.random_features import (
    linear_and_rest,
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
    # c_k = E[sigma He_k]/k! of step_size_regimes section 1
    c1, c2 = neurons.activation.hermite(2)[1:] / np.sqrt([1, 2])
    vectors = neurons.right_vectors(s, HIGHEST_DEGREE, added)
    # u_chi is the same for all neurons
    u_chi = np.full((1, len(neurons.zeta)), c2 * np.sqrt(2 / dim))
    vectors = np.concatenate([vectors, u_chi])
    # step_size_regimes (6b) and (6c)
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
        # the last term of step_size_regimes (6c)
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
        # step_size_regimes (6d)
        gap = theta - c * r
        rho = theta + rest + c * theta / gap
        drho = 1 - c**2 * r / gap**2
        z = rho * (1 - q) + q * rho**2 / theta
        # of rho (1 - q), then of q rho^2/theta^2 by its two factors
        dz = drho * (1 - q) + 2 * q * rho * drho / theta - q * rho**2 / theta**2
        return rho, z, dz

    # below both lines of step_size_regimes (6e) nothing leaves the bulk
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
