"""Gaussian means: the integrals that the other files of this folder share.

Page: section 2 of "A few giant steps on a multi-index target" (few_steps_readout),
which is also section 2 of "Spiked random features" (spiked_features).

A rule is a pair of arrays, nodes and weights. The mean of a function of z ~ N(0, 1) is
`weights @ function(nodes)`. Functions with a kink (relu at 0) need the places of their
kinks, since a rule is accurate only on pieces where the function is smooth.

>>> z, weights = normal_rule(kinks=[0.0])
>>> print(round(float(weights @ np.abs(z)), 12), round(float(np.sqrt(2 / np.pi)), 12))
0.797884560803 0.797884560803
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Function = Callable[[Array], Array]
Rule = tuple[Array, Array]

REACH = 9.0
"""Beyond nine standard deviations the normal density is below 1e-18."""

LEGENDRE_NODES, LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(12)


def panels(edges: Array) -> Rule:
    """Return nodes and weights of E f(z), z ~ N(0, 1), by Gauss-Legendre between edges.

    `edges` increase along the last axis; the axes before it count different rules.
    """
    low = edges[..., :-1, None]
    high = edges[..., 1:, None]
    middle = (high + low) / 2
    half = (high - low) / 2
    z = middle + half * LEGENDRE_NODES
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    weights = half * LEGENDRE_WEIGHTS * density
    flat = (*edges.shape[:-1], -1)
    return z.reshape(flat), weights.reshape(flat)


def normal_rule(kinks: Sequence[float] = (), width: float = 0.5) -> Rule:
    """Return a rule on the line that is exact to rounding between the kinks."""
    edges = np.arange(-REACH, REACH + width / 2, width)
    edges = np.unique([*edges, *kinks])
    z, weights = panels(edges)
    # The weights sum to one but for rounding; a constant has itself as its mean.
    return z, weights / weights.sum()


def even_rule(step: float, reach: float = REACH) -> Rule:
    """Return the trapezoid rule: few nodes, very accurate for analytic functions."""
    count = round(reach / step)
    z = step * np.arange(-count, count + 1)
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()


def product_rule(rules: Sequence[Rule]) -> Rule:
    """Return a rule in R^r, nodes of shape (r, N), from one rule for each axis."""
    axes = [nodes for nodes, _ in rules]
    mesh = np.meshgrid(*axes, indexing="ij")
    nodes = np.stack([axis.ravel() for axis in mesh])
    weights = np.ones(1)
    for _, of_axis in rules:
        weights = np.outer(weights, of_axis).ravel()
    # Far corners of the product weigh nothing.
    kept = weights > 1e-19
    return nodes[:, kept], weights[kept]


@dataclass
class Smoothed:
    """What (2.2) says of one block: a function smoothed by the rest of its row.

    D[j] = E[He_j(xi) sigma(A + s xi)]/s^j, the j-th derivative in A of E sigma(A + s xi);
    square = E sigma(A + s xi)^2. The arrays run over the values A that were asked for.
    """  # noqa: E501

    D: Array
    square: Array
    s: float

    @property
    def mu0(self) -> Array:
        """The mean of a feature given A."""
        return self.D[0]

    @property
    def mu1(self) -> Array:
        """Its slope along the rest of the row."""
        return self.s * self.D[1]

    @property
    def mu2(self) -> Array:
        """The variance of what is neither mean nor slope; rounding can make it < 0."""
        rest = self.square - self.mu0**2 - self.mu1**2
        return np.maximum(0.0, rest)

    @property
    def nu(self) -> Array:
        """The derivative of the mean in s."""
        return self.s * self.D[2]


def smoothed(sigma: Function, kinks: Sequence[float], A: Array, s: float) -> Smoothed:
    """Return (2.2) at an array of values A; `kinks` are those of sigma."""
    # On a product of rules A often has few values; each is integrated once.
    values, place = np.unique(np.round(A, 13), return_inverse=True)
    regular = np.linspace(-REACH, REACH, 15)
    edges = np.tile(regular, (len(values), 1))
    # sigma(A + s xi) has its kink where xi = (kink - A)/s.
    moved = (np.array(kinks, dtype=float) - values[:, None]) / s
    edges = np.hstack([edges, np.clip(moved, -REACH, REACH)])
    xi, weights = panels(np.sort(edges, axis=1))
    function = sigma(values[:, None] + s * xi)
    hermite = [
        np.ones_like(xi),
        xi,
        xi**2 - 1,
        xi**3 - 3 * xi,
        xi**4 - 6 * xi**2 + 3,
    ]
    D = []
    for j, polynomial in enumerate(hermite):
        mean = np.sum(weights * polynomial * function, axis=1)
        D.append(mean[place] / s**j)
    square = np.sum(weights * function**2, axis=1)
    return Smoothed(D=np.array(D), square=square[place], s=s)
