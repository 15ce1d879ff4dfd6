"""The law of noisy labels given kappa, as nodes: averages of any function of the label and kappa, times 1, xi, xi xi^T.

z ~ N(0, I_r) is a linear image of kappa in R^m and xi in R^L, as in `conditional`. At every node of kappa the rule over
xi and the label noise, thousands of points, is carried over to a few nodes of the label by local interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from giantstep.gaussian.conditional import Rules, inner_points, product_rule
from giantstep.gaussian.grids import even_rule, hermite_rule
from giantstep.gaussian.target import Target
from giantstep.types import Floats, Integers

PANELS, LABEL_NODES = {0: 20, 1: 12}, 8
"""Panels in the label, without and with directions of kappa, and nodes on each. Polynomials of degree 7 on a panel are
integrated exactly. What a batch of 0.3 d samples or more asks for has errors of 1e-9, and of 1e-8 with kappa."""
FINE_PANELS = 24
"""Panels of the labels without their noise, which is added to each node."""
NOISE_NODES = {0: 60, 1: 24}
"""Gauss-Hermite nodes of the label noise, without and with directions of kappa."""
INNER_STEPS = {1: 0.1, 2: 0.25}
"""Step of the rule over xi, by the number of directions; 0.4 for more."""
NEGLIGIBLE = 1e-17
"""Weight of a point below which it is left out."""


@dataclass(frozen=True)
class LabelLaw:
    """Nodes (kappa, y) with weights of functions of them, times 1, xi_a and xi_a xi_b."""

    kappa: Floats  # (N, m)
    row: Integers  # (J,): which kappa a node has
    label: Floats  # (J,)
    weights: Floats  # (J,): they sum to one
    linear: Floats  # (L, J)
    quadratic: Floats  # (L, L, J)


def label_law(
    target: Target, learnt: Floats, rest: Floats, scale: float, fineness: float, noise: float, flip: float
) -> LabelLaw:
    """Return the law of y = g(z) + sqrt(noise) eps, turned with probability `flip`, for z as in `condition`."""
    rules = Rules.of(target, learnt, rest)
    kappa, mass = product_rule(rules, scale, fineness)
    kappa, mass = kappa[mass > NEGLIGIBLE], mass[mass > NEGLIGIBLE]
    inner = even_rule(INNER_STEPS.get(rules.averaged, 0.4))
    points, weights, owner = inner_points(rules, kappa, inner)
    weights = weights * (mass / np.bincount(owner, weights, len(kappa)))[owner]
    kept = np.flatnonzero(weights > NEGLIGIBLE)
    points, weights, owner = points[kept], weights[kept], owner[kept]
    values, xi = target(points @ rules.basis.T), points[:, learnt.shape[1] :]
    if flip > 0:
        values, weights = np.concatenate([values, -values]), np.concatenate([(1 - flip) * weights, flip * weights])
        owner, xi = np.tile(owner, 2), np.tile(xi, (2, 1))
    first, second = np.triu_indices(xi.shape[1])
    moments = np.concatenate([np.ones((1, len(xi))), xi.T, (xi[:, first] * xi[:, second]).T])  # 1, xi_a, xi_a xi_b
    law = Points(values, owner, moments * weights)
    some = min(learnt.shape[1], 1)
    law = _compressed(law, len(kappa), FINE_PANELS if noise > 0 else PANELS[some])
    if noise > 0:
        eps, share = hermite_rule(NOISE_NODES[some])
        label = (law.label[:, None] + np.sqrt(noise) * eps).ravel()
        moments = (law.moments[:, :, None] * share).reshape(len(law.moments), -1)
        law = _compressed(Points(label, np.repeat(law.row, len(eps)), moments), len(kappa), PANELS[some])
    return _law(kappa, law, xi.shape[1])


class Points(NamedTuple):
    """Labels, which kappa each has, and weights times the moments of xi."""

    label: Floats
    row: Integers
    moments: Floats


def _compressed(points: Points, rows: int, panels: int) -> Points:
    """Carry points over to panels in the label at every kappa, where there are more of them than nodes."""
    y, row, moments = points
    weights = moments[0]
    if np.bincount(row, minlength=rows).max() <= panels * LABEL_NODES:
        return points
    centre = np.sum(weights * y) / weights.sum()
    spread = np.sqrt(np.sum(weights * (y - centre) ** 2) / weights.sum())
    t = np.arcsinh((y - centre) / spread)
    low, high = np.full(rows, np.inf), np.full(rows, -np.inf)
    np.minimum.at(low, row, t)
    np.maximum.at(high, row, t)
    empty = ~np.isfinite(low)
    low[empty] = high[empty] = 0.0
    width = np.maximum(high - low, 1e-9) / panels
    panel = np.clip(((t - low[row]) / width[row]).astype(np.int64), 0, panels - 1)
    edge = low[:, None] + width[:, None] * np.arange(panels + 1)
    left, right = centre + spread * np.sinh(edge[:, :-1]), centre + spread * np.sinh(edge[:, 1:])
    legendre, _ = leggauss(LABEL_NODES)
    nodes = 0.5 * (left + right)[:, :, None] + 0.5 * (right - left)[:, :, None] * legendre
    a, b = left[row, panel], right[row, panel]
    at, inside = (legvander(x, LABEL_NODES - 1).T for x in (legendre, (2 * y - a - b) / (b - a)))
    basis = np.linalg.solve(at, inside)  # Lagrange polynomials (nodes of the panel, points)
    cell, cells = row * panels + panel, rows * panels
    sums = [np.stack([np.bincount(cell, own * moment, cells) for own in basis], axis=1).ravel() for moment in moments]
    return Points(nodes.ravel(), np.repeat(np.arange(rows), panels * LABEL_NODES), np.stack(sums))


def _law(kappa: Floats, points: Points, L: int) -> LabelLaw:
    """Return the law of weighted points; those without weight are left out."""
    moments = points.moments / points.moments[0].sum()
    quadratic = np.zeros((L, L, moments.shape[1]))
    rows, columns = np.triu_indices(L)
    quadratic[rows, columns] = quadratic[columns, rows] = moments[1 + L :]
    kept = np.flatnonzero(np.abs(moments).max(axis=0) > NEGLIGIBLE)
    label, row = points.label[kept], points.row[kept]
    return LabelLaw(kappa, row, label, moments[0, kept], moments[1 : 1 + L, kept], quadratic[..., kept])
