"""The two scalar channels of subspace clustering: assignments and sparse features, at a
given signal-to-noise ratio.

Assignments are observed at the SNR a, subspace_clustering section 2.1, features at the
SNR b, section 2.2, and where the mean of the data is informative also their mean
direction at the SNR gamma, section 8.1. Overlaps are m in [0, 1], with their
logarithmic slope s = d log m/d log(SNR), and the free entropies psi. The slopes carry
the phase diagram: a branch of state evolution is stable where the product of the two is
below one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from scipy.interpolate import BSpline, make_interp_spline

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import gauss_legendre_panels, trapezoid_rule
from giantstep.core.maths.solve.roots import brent_root

_LOWEST = 1e-6
_HIGHEST = 400.0
"""Range of the splines in log a; series below, saturated above."""
_NODES = 300
_DEGREE = 9
"""Nodes of the splines and their degree; they leave 1e-13."""
_FINE = 16
_COARSE = 10
"""Nodes on each panel of the integrals; the coarse ones, for two dimensions, are good
to 1e-10.
"""
_STEPS = np.array([0.0, -3.0, 3.0, -8.0, 8.0, -20.0, 20.0, -40.0, 40.0])
"""Arguments of the sigmoid at which its integrals are broken into panels."""
_CHUNK = 4096
"""Points whose nodes are held at once: some 10 MB."""


@dataclass(frozen=True)
class AssignmentChannel:
    """Assignments observed with SNR a: H_c = a delta(c, c*) + sqrt(a) z_c, posterior
    softmax(H) (equal weights).

    `variance` nu is the variance of the assignments per coordinate (1/k, or 2w(1-w) for
    two clusters of weights w and 1-w) and `rank` p = k - 1 their number: m_u = nu a +
    O(a^2), psi_u' = nu p m_u/2.
    """

    clusters: int
    weight: float | None
    variance: float
    curvature: float  # c in m_u = nu a (1 + c a + O(a^2))
    _ratio: BSpline
    _slope: BSpline
    _entropy: BSpline

    @property
    def rank(self) -> int:
        """Number of coordinates of the assignments."""
        return self.clusters - 1

    def overlap(self, a: ArrayLike) -> Floats:
        """Return m_u(a) = (k E p_{c*} - 1)/(k - 1), the share of the assignments'
        variance that is recovered.
        """
        a, x = self._inside(a)
        value = (
            self.variance
            * a
            * np.where(a < _LOWEST, 1 + self.curvature * a, self._ratio(x))
        )
        return np.where(a > _HIGHEST, 1.0, np.minimum(value, 1.0))

    def slope(self, a: ArrayLike) -> Floats:
        """Return d log m_u/d log a."""
        a, x = self._inside(a)
        value = np.where(
            a < _LOWEST, 1 + self.curvature * a, 1 + self._slope(x) / self._ratio(x)
        )
        return np.where(a > _HIGHEST, 0.0, value)

    def entropy(self, a: ArrayLike) -> Floats:
        """Return psi_u(a) = E log sum_c w_c exp(B.u_c - a|u_c|^2/2) = nu p/2 times the
        integral of m_u.
        """
        a, x = self._inside(a)
        half = 0.5 * self.variance * self.rank
        low = np.where(a < _LOWEST, 1 + 2 * self.curvature * a / 3, self._entropy(x))
        return 0.5 * half * self.variance * np.minimum(
            a, _HIGHEST
        ) ** 2 * low + half * np.maximum(a - _HIGHEST, 0.0)

    def accuracy(self, a: ArrayLike) -> Floats:
        """Return the probability that the most probable cluster is the true one."""
        a = np.asarray(a, dtype=np.float64)
        if self.weight is not None:
            w = self.weight
            x = np.maximum(self.variance * a, 1e-300)
            gap = math.sqrt((1 - w) / w) + math.sqrt(w / (1 - w))
            shift = math.log(w / (1 - w)) / (gap * np.sqrt(x))
            half = 0.5 * gap * np.sqrt(x)
            return w * special.ndtr(half + shift) + (1 - w) * special.ndtr(half - shift)
        z, density = trapezoid_rule(0.1, 9.0)
        return special.ndtr(z + np.sqrt(a)[..., None]) ** (self.clusters - 1) @ density

    def snr(self, overlap: float) -> float:
        """Return the a with m_u(a) = `overlap`, at least 1e-12."""
        ends = math.log(1e-12), math.log(_HIGHEST)
        wanted = float(np.clip(overlap, *self.overlap(np.exp(ends))))
        return math.exp(
            brent_root(lambda x: wanted - float(self.overlap(math.exp(x))), *ends)
        )

    @staticmethod
    def _inside(a: ArrayLike) -> tuple[Floats, Floats]:
        a = np.asarray(a, dtype=np.float64)
        return a, np.log(np.clip(a, _LOWEST, _HIGHEST))


@functools.lru_cache(maxsize=64)
def assignment_channel(clusters: int, weight: float | None = None) -> AssignmentChannel:
    """Return the channel of k equal clusters, or of two with weights (`weight`, 1 -
    `weight`); the last 64 are kept.

    m_u/(nu a) is interpolated in log a by splines; with equal weights its values are
    exact one-dimensional integrals by the Gumbel-max identity, m_u = k int f F^{k-2}
    [F(y) - F(y-a)] dy, subspace_clustering (2.1d), where F is the law of a Gumbel
    variable plus sqrt(a) N(0, 1).
    """
    direct: Callable[[float], float]
    if weight is not None and weight != 0.5:
        variance = 2 * weight * (1 - weight)
        direct = functools.partial(_two_point, w=weight)
    else:
        weight = None
        variance = 1 / clusters
        direct = functools.partial(_gumbel, clusters=clusters)
    x = np.linspace(math.log(_LOWEST), math.log(_HIGHEST), _NODES)
    ratio = make_interp_spline(
        x, [direct(a) / (variance * a) for a in np.exp(x)], _DEGREE
    )
    if weight is None:
        curvature = (clusters - 4) / (2 * clusters)
    else:
        curvature = (float(ratio(math.log(1e-5))) - 1) / 1e-5
    ends = np.exp(x)
    t, weights = gauss_legendre_panels(
        np.stack([np.append(0.0, ends[:-1]), ends], axis=1), 16
    )
    pieces = (weights * t * ratio(np.log(np.maximum(t, _LOWEST)))).sum(axis=1)
    # 2/(nu a^2) Int m_u
    entropy = make_interp_spline(x, 2 * np.cumsum(pieces) / ends**2, _DEGREE)
    return AssignmentChannel(
        clusters, weight, variance, curvature, ratio, ratio.derivative(), entropy
    )


def _gumbel(a: float, clusters: int) -> float:
    """Return m_u(a) for k equal clusters; below a = 1 every term is positive: the
    RELATIVE error is rounding.
    """
    root = math.sqrt(a)
    step = 0.2
    y = np.arange(-9 * root - 4, 9 * root + a + 40, step)
    if a < 0.25:
        z, density = trapezoid_rule(0.3, 9.0)
        g = np.exp(root * z[None, :] - y[:, None])
        law = np.exp(-g)
        F = law @ density
        f = (g * law) @ density
        rise = (-law * np.expm1(-g * math.expm1(a))) @ density
    else:
        _, kernel = trapezoid_rule(step / root, 9.5)
        reach = len(kernel) // 2
        padded = y[0] + step * np.arange(-reach, len(y) + reach)
        g = np.exp(-np.maximum(padded, -700.0))
        F, f = (
            np.convolve(values, kernel, "valid")
            for values in (np.exp(-g), g * np.exp(-g))
        )
        shifted = np.exp(-np.exp(-np.maximum(padded - a, -700.0)))
        rise = F - np.convolve(shifted, kernel, "valid")
    return float(clusters * step * np.sum(f * F ** (clusters - 2) * rise))


def _two_point(a: float, w: float) -> float:
    """Return E u_hat^2 for u = sqrt((1-w)/w) with probability w, else -sqrt(w/(1-w)),
    at SNR x = 2w(1-w) a.
    """
    x = 2 * w * (1 - w) * a
    z, density = trapezoid_rule(min(0.2, 0.2 / math.sqrt(x)), 9.5)
    upper = math.sqrt((1 - w) / w)
    lower = -math.sqrt(w / (1 - w))
    total = 0.0
    for u, weight in ((upper, w), (lower, 1 - w)):
        field = (x * u + math.sqrt(x) * z) * (upper - lower) - x * (
            upper**2 - lower**2
        ) / 2
        # without overflow, without cancellation
        rise = np.where(field > 0, -np.expm1(-field), np.expm1(field))
        scale = np.where(
            field > 0,
            w + (1 - w) * np.exp(-np.abs(field)),
            w * np.exp(-np.abs(field)) + 1 - w,
        )
        total += weight * float(
            ((upper - lower) * w * (1 - w) * rise / scale) ** 2 @ density
        )
    return total


def features_overlap(
    b: ArrayLike, sparsity: ArrayLike, rank: int, gamma: ArrayLike = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Return m_v(b), d log m_v/d log b and d log m_v/d log gamma for Gauss-Bernoulli
    features in p dimensions at SNR b.

    m_v = b/(1+b) E expit(b t/2 - L), t ~ chi^2_{p+2}, L = log((1-rho)/rho) + (p/2)
    log(1+b). Where the mean is known at the SNR gamma (one-hot U), gamma t1/2 -
    log(1+gamma)/2 is added to the argument and averaged over t1 ~ chi^2_1.
    """
    b, rho, gamma = np.broadcast_arrays(*np.atleast_1d(b, sparsity, gamma))
    mean = np.ones(b.shape)
    tilt = np.zeros(b.shape)
    turn = np.zeros(b.shape)
    sparse = rho < 1
    if sparse.any():
        snr = np.maximum(b[sparse], 1e-300)
        known = gamma[sparse]
        r, weights, shifted, wide = _mean_nodes(
            snr, known, _threshold(snr, known, rho[sparse], rank)
        )
        inner = _chi_means(
            _sigmoids, wide, shifted, rank + 2, _COARSE if known.any() else _FINE
        )
        value, slope, bend = inner * weights
        mean[sparse], tilt[sparse] = (
            value.sum(axis=1),
            (slope - 0.5 * rank / (1 + wide) * bend).sum(axis=1),
        )
        turn[sparse] = known * (bend * (0.5 * r**2 - 0.5 / (1 + known)[:, None])).sum(
            axis=1
        )
    return b / (1 + b) * mean, 1 / (1 + b) + b * tilt / mean, turn / mean


def features_entropy(
    b: ArrayLike, sparsity: ArrayLike, rank: int, gamma: ArrayLike = 0.0
) -> Floats:
    """Return psi_v(b), the free entropy of the features, with a mean known at the SNR
    gamma; psi_v' = rho p m_v/2.

    psi_v = log(1-rho) + rho E softplus(b t/2 - L) + (1-rho) E softplus(b t/(2(1+b)) -
    L), t ~ chi^2_p.
    """
    b, rho, gamma = np.broadcast_arrays(*np.atleast_1d(b, sparsity, gamma))
    value = 0.5 * rank * (b - np.log1p(b)) + 0.5 * (gamma - np.log1p(gamma))
    sparse = (rho < 1) & ((b > 0) | (gamma > 0))
    if sparse.any():
        snr = np.maximum(b[sparse], 1e-300)
        share = rho[sparse]
        known = gamma[sparse]
        L = _threshold(snr, known, share, rank)
        active, idle = (
            _softplus_mean(snr / c, known / e, L, rank)
            for c, e in ((1, 1), (1 + snr, 1 + known))
        )
        value[sparse] = np.log1p(-share) + share * active + (1 - share) * idle
    return value


def selection(
    b: ArrayLike, sparsity: ArrayLike, rank: int, gamma: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Return the true and false positive rates of selecting the features whose activity
    is more likely than not, (7c).

    The rule is b t/2 + gamma t1/2 > L (idle features: each divided by 1 + its SNR); 1
    and 0 where all are active.
    """
    b, rho, gamma = np.broadcast_arrays(*np.atleast_1d(b, sparsity, gamma))
    sparse = rho < 1
    snr = np.maximum(b, 1e-300)
    known = (b > 0) | (gamma > 0)
    L = _threshold(snr, gamma, np.where(sparse, rho, 0.5), rank)
    rates = []
    for scale, mean in ((snr, gamma), (snr / (1 + snr), gamma / (1 + gamma))):
        _, weights, shifted, _ = _mean_nodes(scale, mean, L, _FINE)
        with np.errstate(over="ignore"):
            rest = 2 * np.maximum(shifted, 0.0) / scale[:, None]
        rate = (weights * special.chdtrc(rank, rest)).sum(axis=1)
        rates.append(np.where(known, rate, np.where(rho > 0.5, 1.0, 0.0)))
    return np.where(sparse, rates[0], 1.0), np.where(sparse, rates[1], 0.0)


def _threshold(b: Floats, gamma: Floats, rho: Floats, rank: int) -> Floats:
    """Return L = log((1-rho)/rho) + log(1+gamma)/2 + (p/2) log(1+b)."""
    return 0.5 * np.log1p(gamma) - special.logit(rho) + 0.5 * rank * np.log1p(b)


def _mean_nodes(
    b: Floats, gamma: Floats, threshold: Floats, order: int = _COARSE
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return nodes r of the mean direction, t1 = r^2, and weights, (B, N), with L -
    gamma t1/2 and b at each.
    """
    if not gamma.any():  # a mean that says nothing has one node
        one = np.ones((len(b), 1))
        return one, one, threshold[:, None], b[:, None]
    r, weights = chi_nodes(gamma, threshold, 1, order)
    return (
        r,
        weights,
        threshold[:, None] - 0.5 * gamma[:, None] * r**2,
        np.broadcast_to(b[:, None], r.shape),
    )


def chi_nodes(
    scale: Floats, threshold: Floats, freedom: int, order: int = _FINE
) -> tuple[Floats, Floats]:
    """Return nodes r and weights, (B, N), of the law of r = sqrt(chi^2), on panels that
    end where a sigmoid turns.

    It is that of scale r^2/2 - threshold: at small sparsity a step.
    """
    end = math.sqrt(freedom) + 10
    even = np.broadcast_to(np.linspace(0, end, 9), (len(scale), 9))
    with np.errstate(over="ignore"):
        turns = np.sqrt(
            np.maximum(
                2 * (threshold[:, None] + _STEPS) / np.maximum(scale, 1e-300)[:, None],
                0.0,
            )
        )
    breaks = np.sort(np.concatenate([even, np.minimum(turns, end)], axis=1), axis=1)
    r, weights = gauss_legendre_panels(breaks, order)
    norm = 2 ** (0.5 * freedom - 1) * math.gamma(0.5 * freedom)
    return r, weights * r ** (freedom - 1) * np.exp(-0.5 * r**2) / norm


def _chi_means(
    each: Callable[[Floats, Floats], tuple[Floats, ...]],
    scale: Floats,
    threshold: Floats,
    freedom: int,
    order: int,
) -> Floats:
    """Return means of functions of scale t/2 - threshold and t/2, t ~ chi^2; one array
    like `scale` for each.
    """
    flat = scale.ravel()
    limit = threshold.ravel()
    means = []
    for piece in split_rows(flat.size, 1, _CHUNK):
        r, weights = chi_nodes(flat[piece], limit[piece], freedom, order)
        t = 0.5 * r**2
        values = each(flat[piece, None] * t - limit[piece, None], t)
        means.append([(weights * value).sum(axis=1) for value in values])
    return np.concatenate(means, axis=1).reshape(-1, *scale.shape)


def _sigmoids(x: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
    value = special.expit(x)
    bend = value * (1 - value)
    return value, bend * t, bend


def _softplus_mean(b: Floats, gamma: Floats, threshold: Floats, rank: int) -> Floats:
    """Return E softplus(b t/2 + gamma t1/2 - threshold), t ~ chi^2_p, t1 ~ chi^2_1."""
    _, masses, shifted, wide = _mean_nodes(b, gamma, threshold)
    order = _COARSE if gamma.any() else _FINE
    (mean,) = _chi_means(
        lambda x, t: (np.logaddexp(0.0, x),), wide, shifted, rank, order
    )
    return (mean * masses).sum(axis=1)
