"""The product of k signs at M = q I, bayes_multi_index (9), by a series in T^2.

With t = erf(omega/sqrt(2 V)) of one coordinate and T the product of all, times 1 - 2 flip, both 1/(1 - T^2) and the
entropy are sums over powers T^(2n), whose means are powers of one-dimensional ones, E t^(2n). Any number of signs
costs the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

from giantstep.gaussian.quadrature import gauss_legendre_panels
from giantstep.types import Floats

_CERTAIN, _PANELS = 6.0, 20
"""omega/sqrt(2 V) beyond which t is one, as 1 - t = 2e-17, and panels up to there; twice as many change 1e-13."""
_ONE_BY_ONE = 256
"""Terms that are summed one by one; the terms after them are an integral over n, wrong by 1e-13."""
_OCTAVES = 40
"""Factors of two in n over which it goes: terms fall like 1/n^2 at last, and 1e-15 is left."""


@dataclass(frozen=True)
class Parity:
    """The product of the signs of k = `directions` coordinates, flipped with probability `flip`."""

    directions: int
    flip: float
    low: float = -1.0
    high: float = 1.0

    last, farthest = 6.0, 12.0
    continuous_mass = 0.0

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) of one direction and Psi(q)."""
        k, V, scale = self.directions, 1 - q, 1 - 2 * self.flip
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
        """Return E m1^2 = 0 and rho: two signs have rho = (2/pi)^2 (1 - 2 f)^2, more have none."""
        return 0.0, (2 / math.pi) ** 2 * (1 - 2 * self.flip) ** 2 if self.directions == 2 else 0.0

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best errors in closed form, bayes_multi_index (9)."""
        k, scale = self.directions, 1 - 2 * self.flip
        half = 0.5 * (self.high - self.low)
        mse = half**2 * (1 - scale**2 * (2 / math.pi * math.asin(q)) ** k)
        return mse, 0.5 * (1 - scale * (2 / math.pi * math.asin(math.sqrt(q))) ** k)


def _terms() -> tuple[Floats, Floats]:
    """Return n and weights with which f(n) is summed from 1 to infinity: one by one, then by Euler and Maclaurin.

    The sum from N on is the integral from N - 1/2 on, plus f'(N - 1/2)/24, which is a difference of two terms.
    """
    n = np.arange(1.0, _ONE_BY_ONE + 1)
    weights = np.ones(len(n))
    start = _ONE_BY_ONE - 0.5
    far, dn = gauss_legendre_panels(start * 2.0 ** np.arange(_OCTAVES + 1), 8)
    weights[-1] = 1 / 24  # it is part of the integral
    weights[-2] -= 1 / 24
    return np.concatenate([n, far]), np.concatenate([weights, dn])
