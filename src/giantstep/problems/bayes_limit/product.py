"""y = c z1 z2 without noise at M = q I, bayes_multi_index (8), from one function of the
distance to the origin.

With z = sqrt(V) x, omega = sqrt(V) w and y = V eta the channel at any V is the channel
at V = 1: 2 V I(q) is the mean of F(w), the information about w in eta = x1 x2, x ~ N(w,
1), over w ~ N(0, q/V 1), and Psi(q) that of H(w) = Int Z log Z, less log V. Only their
means over the angle count, functions of rho = |w| that are tabulated once. For large
rho eta tells one direction exactly: F -> 1 and H + log rho -> -log(2 pi e)/2, with
corrections in powers of 1/rho.

With t = erf(omega/sqrt(2 V)) of one coordinate and T the product of all, times 1 - 2
flip, both 1/(1 - T^2) and the entropy are sums over powers T^(2n), whose means are
powers of one-dimensional ones, E t^(2n). Any number of signs costs the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import erfc, k0, k1

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.quadrature import (
    gauss_legendre_panels,
    normal_density,
)

_ROUNDING = 1e-13
"""Relative size below which a convolution is rounding of its transforms."""
_DEEPEST = -40.0
"""Smallest log|x| on a level set."""
_LOG_STEP = 0.1
_STEP = 0.4
_REACH = 8.5
"""Steps in log|x| and in x at most, and how far x lies from w."""
_SERIES = 80
_SCALE = 4.0
"""Degree of the Chebyshev series of both functions in rho/(rho + scale); 110 change I
and Psi by 1e-11.
"""
_FAR = 12.2
"""Distance from the origin beyond which x1 is positive: 8.5 standard deviations, at
half of a right angle.
"""
_SIDE = 6.0
_ANGLES = 14
"""Distance from an axis within which F changes fast, and nodes of the angle on each
side of it.
"""
_ETA_STEP = 0.2
_ETA_REACH = 13.0
"""Step and reach in eta far from the origin, in units of rho, which is its standard
deviation.
"""
_JOINTS = np.array([0.3, 1.0, 3.0, 6.0, 12.2])
"""Ends of panels of rho where F and H change fast, however wide the law of w is."""
_CUT = 9.0
"""Standard deviations of w at which its law is cut."""


def _angular_means(rho: float) -> tuple[float, float]:
    """Return the means of F and H over the angle of w; every octant gives the same."""
    corner = min(0.25 * math.pi, _SIDE / rho)
    angle, weight = gauss_legendre_panels(
        np.unique([0.0, corner, 0.25 * math.pi]), _ANGLES
    )
    at = _at if rho < _FAR else _at_large
    information, entropy = at(rho * np.cos(angle), rho * np.sin(angle))
    return (
        float(weight @ information) * 4 / math.pi,
        float(weight @ entropy) * 4 / math.pi,
    )


def _at_large(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return F and H at points w (N,), (N,) with w1 so large that x1 > 0: plain sums
    over x1 and eta.
    """
    x = first[:, None] + _STEP * np.arange(
        -int(_REACH / _STEP), int(_REACH / _STEP) + 1
    )
    size = np.hypot(first, second)
    step = _ETA_STEP * size
    h = np.arange(-int(_ETA_REACH / _ETA_STEP), int(_ETA_REACH / _ETA_STEP) + 1)
    eta = (first * second)[:, None] + step[:, None] * h
    away = eta[:, :, None] / x[:, None, :] - second[:, None, None]
    joint = normal_density(away)
    weights = _STEP * normal_density(x - first[:, None]) / x
    Z, slope_1, slope_2 = (
        np.matmul(table, column[:, :, None])[:, :, 0]
        for table, column in (
            (joint, weights),
            (joint, weights * (x - first[:, None])),
            (joint * away, weights),
        )
    )
    seen = Z > 0
    Z = np.where(seen, Z, 1.0)
    information = step * ((slope_1**2 + slope_2**2) / Z).sum(axis=1)
    return information, step * (seen * Z * np.log(Z)).sum(axis=1)


def _at(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return F and H at points w (N,), (N,)."""
    # on the level set x = +-(e^t, eta e^-t) the density Z is a convolution in t of two
    # tables, one for each coordinate: a product of Fourier transforms; eta < 0 is eta >
    # 0 with w2 -> -w2
    largest = float(max(first.max(), second.max()))
    step = min(_LOG_STEP, _STEP / (largest + 1.0))
    t = step * np.arange(
        int(_DEEPEST / step), int(math.log(largest + _REACH) / step) + 1
    )
    size = int(next_fast_len(2 * len(t), real=True))
    plain = {}
    sloped = {}
    for name, w in ((1, first), (-1, -first), (2, second), (-2, -second)):
        away = np.exp(t) - w[:, None]
        table = normal_density(away)
        plain[name], sloped[name] = (
            np.fft.rfft(x, size, axis=1) for x in (table, table * away)
        )
    u = 2 * t[0] + step * np.arange(size)
    inside = u > t[0] + 3.0
    sums = []
    for sign in (1, -1):
        a = 2 * sign
        b = -2 * sign
        products = (
            plain[1] * plain[a] + plain[-1] * plain[b],
            sloped[1] * plain[a] - sloped[-1] * plain[b],
            plain[1] * sloped[a] - plain[-1] * sloped[b],
        )
        sums.append(
            [
                step * np.fft.irfft(product, size, axis=1)[:, inside]
                for product in products
            ]
        )
    floor = (
        _ROUNDING * np.maximum(sums[0][0].max(axis=1), sums[1][0].max(axis=1))[:, None]
    )
    measure = step * np.exp(u[inside])
    information, entropy = np.zeros((2, len(first)))
    for Z, slope_1, slope_2 in sums:
        seen = Z > floor
        kept = np.where(seen, Z, 1.0)
        information += (seen * (slope_1**2 + slope_2**2) / kept) @ measure
        entropy += (seen * kept * np.log(kept)) @ measure
    return information, entropy


@dataclass(frozen=True)
class Product:
    """y = c z1 z2 without noise; M = q I, and full recovery above alpha = 2."""

    scale: float

    directions = 2
    continuous_mass = 1.0
    last = 9.0
    farthest = 34.0

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) of one direction and Psi(q)."""
        V = 1 - q
        sigma = math.sqrt(q / V)
        cut = _CUT * sigma
        edges = np.unique(
            np.concatenate([np.linspace(0.0, cut, 19), _JOINTS[cut > _JOINTS]])
        )
        rho, weight = gauss_legendre_panels(edges, 12)
        weight = weight * rho / sigma**2 * np.exp(-0.5 * (rho / sigma) ** 2)
        unit, (first, second) = 2 * rho / (rho + _SCALE) - 1, self._tables
        chebval = np.polynomial.chebyshev.chebval
        information = chebval(unit, first) * rho**2 / (1 + rho**2)
        entropy = chebval(unit, second) - 0.5 * np.log1p(rho**2)
        return float(weight @ information) / (2 * V), float(
            weight @ entropy
        ) - math.log(V * abs(self.scale))

    @cached_property
    def _tables(self) -> tuple[Floats, Floats]:
        """Series of F (1 + rho^2)/rho^2 and of H + log(1 + rho^2)/2: smooth at zero and
        at infinity.
        """
        unit = np.cos(np.pi * (np.arange(_SERIES) + 0.5) / _SERIES)
        rho = _SCALE * (1 + unit) / (1 - unit)
        F, H = np.array([_angular_means(float(r)) for r in rho]).T
        chebfit = np.polynomial.chebyshev.chebfit
        first, second = (
            chebfit(unit, v, _SERIES - 1)
            for v in (F * (1 + rho**2) / rho**2, H + 0.5 * np.log1p(rho**2))
        )
        return first, second

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 = 0 and rho = Int y^2 K1(y)^2/K0(y) dy/pi over the line."""
        y, weights = gauss_legendre_panels(
            np.concatenate([[0.0], np.geomspace(1e-12, 0.5, 28), np.arange(1.0, 60.0)]),
            20,
        )
        return 0.0, float(2 / math.pi * (weights @ (y**2 * k1(y) ** 2 / k0(y))))

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error c^2 (1 - q^2)."""
        return self.scale**2 * (1 - q**2), np.nan


# -- The product of k signs at M = q I, bayes_multi_index (9), by a series in T^2 ------


_CERTAIN = 6.0
_PANELS = 20
"""omega/sqrt(2 V) beyond which t is one, as 1 - t = 2e-17, and panels up to there;
twice as many change 1e-13.
"""
_ONE_BY_ONE = 256
"""Terms that are summed one by one; the terms after them are an integral over n, wrong
by 1e-13.
"""
_OCTAVES = 40
"""Factors of two in n over which it goes: terms fall like 1/n^2 at last, and 1e-15 is
left.
"""


@dataclass(frozen=True)
class Parity:
    """The product of the signs of k = `directions` coordinates, flipped with
    probability `flip`.
    """

    directions: int
    flip: float
    low: float = -1.0
    high: float = 1.0

    last = 6.0
    farthest = 12.0
    continuous_mass = 0.0

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) of one direction and Psi(q)."""
        k = self.directions
        V = 1 - q
        scale = 1 - 2 * self.flip
        end = min(_CERTAIN, 9.0 * math.sqrt(0.5 * q / V))
        x, weights = gauss_legendre_panels(np.linspace(0.0, end, _PANELS + 1), 12)
        weights = weights * 2 * math.sqrt(V / (math.pi * q)) * np.exp(-(x**2) * V / q)
        log_t = np.log1p(-erfc(x))  # log of erf, exact where it is near one
        slope = 2 / (math.pi * V) * np.exp(-2 * x**2)
        n, terms = _terms()
        powers = np.exp(2 * n[:, None] * log_t)
        mean = powers @ weights + max(0.0, 1 - float(weights.sum()))  # E t^(2n)
        others = terms * scale ** (2 * n) * mean ** (k - 1)
        information = float(others @ (powers @ (weights * slope * np.exp(-2 * log_t))))
        return information, float(others @ (mean / (2 * n * (2 * n - 1)))) - math.log(2)

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 = 0 and rho: two signs have rho = (2/pi)^2 (1 - 2 f)^2, more
        have none.
        """
        return 0.0, (
            (2 / math.pi) ** 2 * (1 - 2 * self.flip) ** 2
            if self.directions == 2
            else 0.0
        )

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best errors in closed form, bayes_multi_index (9)."""
        k = self.directions
        scale = 1 - 2 * self.flip
        half = 0.5 * (self.high - self.low)
        mse = half**2 * (1 - scale**2 * (2 / math.pi * math.asin(q)) ** k)
        return mse, 0.5 * (1 - scale * (2 / math.pi * math.asin(math.sqrt(q))) ** k)


def _terms() -> tuple[Floats, Floats]:
    """Return n and weights with which f(n) is summed from 1 to infinity: one by one,
    then by Euler and Maclaurin.
    """
    # the sum from N on is the integral from N - 1/2 on, plus f'(N - 1/2)/24, which is a
    # difference of two terms
    n = np.arange(1.0, _ONE_BY_ONE + 1)
    weights = np.ones(len(n))
    start = _ONE_BY_ONE - 0.5
    far, dn = gauss_legendre_panels(start * 2.0 ** np.arange(_OCTAVES + 1), 8)
    weights[-1] = 1 / 24  # it is part of the integral
    weights[-2] -= 1 / 24
    return np.concatenate([n, far]), np.concatenate([weights, dn])
