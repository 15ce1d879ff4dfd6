"""Gaussian averages as sums over points, for the other files of this folder.

An average over standard normal variables is a weighted sum,

    E f(x)  ~  sum_i weights[i] f(points[i]).

There are two rules. `hermite_points` (Gauss-Hermite) is exact for polynomials and fast
for smooth functions. It is useless at a kink or a jump: there it converges like one
over the number of nodes. `panel_points` (Gauss-Legendre between edges) has an edge at
every kink, and so the function is smooth in each panel.

>>> points, weights = hermite_points(1, 10)
>>> round(float(weights @ points[:, 0] ** 4), 12)
3.0
>>> points, weights = panel_points(kinks=[0.0])
>>> round(float(weights @ abs(points)) ** 2, 12) == round(2 / np.pi, 12)
True
"""

import itertools

import numpy as np

REACH = 9.5
"""Beyond this many standard deviations lies 1e-21 of the normal law."""


def hermite_points(dimensions, count):
    """Return the product rule over independent normals: points (N, dimensions)."""
    line, mass = np.polynomial.hermite_e.hermegauss(count)
    mass = mass / mass.sum()
    points = np.array(list(itertools.product(line, repeat=dimensions)))
    weights = np.ones(1)
    for _ in range(dimensions):
        weights = np.outer(weights, mass).ravel()
    # Points of the corners that no average can notice are left out.
    heavy = weights > 1e-24
    return points.reshape(len(weights), dimensions)[heavy], weights[heavy]


def panels(edges, count=16):
    """Return Gauss-Legendre nodes and weights of an integral over all the panels."""
    line, mass = np.polynomial.legendre.leggauss(count)
    edges = np.asarray(edges, dtype=float)
    middle = (edges[1:] + edges[:-1]) / 2
    half = (edges[1:] - edges[:-1]) / 2
    points = middle[:, None] + half[:, None] * line
    return points.ravel(), (half[:, None] * mass).ravel()


def panel_points(kinks=(), width=1.0, count=16, reach=REACH):
    """Return the rule over one normal variable with panel edges at the kinks."""
    even = np.arange(-reach, reach + width / 2, width)
    inside = [kink for kink in kinks if -reach < kink < reach]
    edges = np.unique(np.concatenate([even, inside, [reach]]))
    points, lengths = panels(edges, count)
    return points, lengths * normal_density(points)


def normal_density(x):
    """Return the density of the standard normal law."""
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
