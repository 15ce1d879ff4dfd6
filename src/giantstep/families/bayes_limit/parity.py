"""The product of k signs: a channel in closed form with M = q I, bayes_multi_index (9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement

import numpy as np
from scipy.special import erfc

from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density
from giantstep.types import Floats

_NODES = {2: 8, 3: 6, 4: 6, 5: 4, 6: 3}
"""Nodes of a panel of one coordinate, by the number of signs: the sum over all coordinates takes a second at most."""
_EDGES = {2: 1.0, 3: 1.0, 4: 1.5, 5: 2.0, 6: 2.5}
"""Width of the panels near zero in units of sqrt(V), by the number of signs."""


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
        omega, weights = _half_line(k, q)
        x = omega / np.sqrt(2 * V)
        log_t = np.log1p(-erfc(x))  # log of erf, exact where it is near one
        slope = np.sqrt(2 / (np.pi * V)) * np.exp(-(x**2))
        others_log, others_weight = _products(log_t, weights, k - 1)
        log_T = math.log(scale) + log_t[:, None] + others_log
        rest = -np.expm1(2 * log_T)  # 1 - T^2
        joint = weights[:, None] * others_weight
        slopes = (scale * slope[:, None] * np.exp(others_log)) ** 2 / np.maximum(rest, 1e-300)
        low = -0.5 * np.expm1(log_T)
        entropy = -(1 - low) * np.log1p(-low) - low * np.log(np.maximum(low, 1e-300))
        return float((joint * slopes).sum()), -float((joint * entropy).sum())

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 and rho: two signs have rho = (2/pi)^2 (1 - 2 f)^2, more have none."""
        first = 2 / math.pi * (1 - 2 * self.flip) ** 2 if self.directions == 1 else 0.0
        return first, (2 / math.pi) ** 2 * (1 - 2 * self.flip) ** 2 if self.directions == 2 else 0.0

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best errors in closed form, bayes_multi_index (9)."""
        k, scale = self.directions, 1 - 2 * self.flip
        half = 0.5 * (self.high - self.low)
        mse = half**2 * (1 - scale**2 * (2 / math.pi * math.asin(q)) ** k)
        return mse, 0.5 * (1 - scale * (2 / math.pi * math.asin(math.sqrt(q))) ** k)


def _half_line(k: int, q: float) -> tuple[Floats, Floats]:
    """Return nodes omega > 0 and weights of N(0, q) that sum to one: T^2 is even in every coordinate."""
    cut, s = 8.5 * np.sqrt(q), np.sqrt(1 - q)
    inner = s * np.arange(0.0, 8.0, _EDGES[k])
    outer = np.linspace(0.0, cut, max(2, int(np.ceil(8.5 / _EDGES[k])) + 1))
    tiny = s * np.array([1e-6, 1e-4, 1e-2, 0.1, 0.35]) if k == 2 else s * np.array([1e-3, 0.05, 0.35])
    edges = np.concatenate([[0.0], inner, tiny, outer])
    edges = np.unique(edges[edges <= cut])
    edges = edges[np.concatenate([[True], np.diff(edges) > 1e-9 * s])]
    omega, weights = gauss_legendre_panels(edges, _NODES[k])
    return omega, 2 * weights * normal_density(omega / np.sqrt(q)) / np.sqrt(q)


def _products(log_t: Floats, weights: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the logarithms of products of `count` factors and their weights, every multiset of nodes once."""
    if count == 1:
        return log_t, weights
    certain = log_t > -1e-17
    log_t = np.append(log_t[~certain], 0.0)
    weights = np.append(weights[~certain], weights[certain].sum())
    heavy = np.flatnonzero(weights > 1e-13)
    multisets = combinations_with_replacement(range(len(heavy)), count)
    index = np.fromiter(chain.from_iterable(multisets), dtype=np.intp).reshape(-1, count)
    orders, run = np.full(len(index), float(math.factorial(count))), np.ones(len(index))
    for position in range(1, count):  # a multiset occurs in count!/(multiplicities!) orders
        run = np.where(index[:, position] == index[:, position - 1], run + 1, 1.0)
        orders /= run
    return log_t[heavy][index].sum(axis=1), weights[heavy][index].prod(axis=1) * orders
