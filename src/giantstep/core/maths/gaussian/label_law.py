"""The law of noisy labels given kappa.

The rule over xi and the label noise, thousands of points at every node of kappa, is
carried over to a few nodes of the label by local interpolation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian import grids
from giantstep.core.maths.gaussian.conditional import Rules, inner_points, product_rule
from giantstep.core.maths.gaussian.target import Target

PANELS = {0: 20, 1: 12}
LABEL_NODES = 8
"""Panels in the label, without and with directions of kappa, and nodes on each.
Polynomials of degree 7 on a panel are integrated exactly. What a batch of 0.3 d samples
or more asks for has errors of 1e-9, and of 1e-8 with kappa.
"""
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
    """Nodes (kappa, y) with weights of functions of them, times 1, xi_a and xi_a
    xi_b.
    """

    kappa: Floats  # (N, m)
    row: Integers  # (J,): which kappa a node has
    label: Floats  # (J,)
    weights: Floats  # (J,): they sum to one
    linear: Floats  # (L, J)
    quadratic: Floats  # (L, L, J)


def label_law(
    target: Target,
    learnt: Floats,
    rest: Floats,
    scale: float,
    fineness: float,
    noise: float,
    flip: float,
) -> LabelLaw:
    """Return the law of y = g(z) + sqrt(noise) eps, turned with probability `flip`, for
    z as in `condition`.
    """
    rules = Rules.of(target, learnt, rest)
    kappa, mass = product_rule(rules, scale, fineness)
    kappa = kappa[mass > NEGLIGIBLE]
    mass = mass[mass > NEGLIGIBLE]
    points = _joint_points(rules, kappa, mass, flip)
    learnt_or_none = min(learnt.shape[1], 1)
    panels = PANELS[learnt_or_none]
    if noise > 0:
        points = _compressed(points, len(kappa), FINE_PANELS)
        points = _with_noise(points, noise, NOISE_NODES[learnt_or_none])
    points = _compressed(points, len(kappa), panels)
    return _law(kappa, points, rules.averaged)


class Points(NamedTuple):
    """Labels, which kappa each has, and weights times the moments of xi."""

    label: Floats  # (J,)
    row: Integers  # (J,)
    moments: Floats  # (1 + L + L (L + 1) / 2, J): of 1, xi_a and xi_a xi_b, a <= b


def _joint_points(rules: Rules, kappa: Floats, mass: Floats, flip: float) -> Points:
    """Return the labels at a rule of (kappa, xi), without noise and turned with
    probability `flip`.
    """
    step = INNER_STEPS.get(rules.averaged, 0.4) / rules.target.resolution.steps
    points, weights, owner = inner_points(rules, kappa, grids.even_rule(step))
    # the rule over xi may lose some weight where it ends: that of kappa is restored
    weights = weights * (mass / np.bincount(owner, weights, len(kappa)))[owner]
    kept = np.flatnonzero(weights > NEGLIGIBLE)
    points = points[kept]
    weights = weights[kept]
    owner = owner[kept]
    values = rules.target(points @ rules.basis.T)
    xi = points[:, rules.learnt :]
    if flip > 0:
        values = np.concatenate([values, -values])
        weights = np.concatenate([(1 - flip) * weights, flip * weights])
        owner = np.tile(owner, 2)
        xi = np.tile(xi, (2, 1))
    first, second = np.triu_indices(xi.shape[1])
    pairs = xi[:, first] * xi[:, second]
    moments = np.concatenate([np.ones((1, len(xi))), xi.T, pairs.T])
    return Points(label=values, row=owner, moments=moments * weights)


def _with_noise(points: Points, noise: float, nodes: int) -> Points:
    """Add normal noise of some variance to the labels, by a rule of so many nodes."""
    eps, share = grids.hermite_rule(nodes)
    label = points.label[:, None] + np.sqrt(noise) * eps
    moments = points.moments[:, :, None] * share
    return Points(
        label=label.ravel(),
        row=np.repeat(points.row, len(eps)),
        moments=moments.reshape(len(moments), -1),
    )


def _compressed(points: Points, rows: int, panels: int) -> Points:
    """Carry points over to panels in the label at every kappa, where there are more of
    them than nodes.
    """
    check_time()
    row = points.row
    if np.bincount(row, minlength=rows).max() <= panels * LABEL_NODES:
        return points
    panel, left, right = _label_panels(points, rows, panels)
    legendre, _ = leggauss(LABEL_NODES)
    middle = 0.5 * (left + right)
    half_width = 0.5 * (right - left)
    nodes = middle[:, :, None] + half_width[:, :, None] * legendre
    a = left[row, panel]
    b = right[row, panel]
    place_in_panel = (2 * points.label - a - b) / (b - a)
    check_time()
    # Lagrange polynomials (nodes of the panel, points): those that are 1 at a node and
    # 0 at the others, from Legendre polynomials at the nodes and at the points
    at_nodes = legvander(legendre, LABEL_NODES - 1).T
    at_points = legvander(place_in_panel, LABEL_NODES - 1).T
    check_time()
    lagrange = np.linalg.solve(at_nodes, at_points)
    check_time()
    cell = row * panels + panel
    cells = rows * panels
    sums = []
    for moment in points.moments:
        at_node = [np.bincount(cell, share * moment, cells) for share in lagrange]
        sums.append(np.stack(at_node, axis=1).ravel())
    return Points(
        label=nodes.ravel(),
        row=np.repeat(np.arange(rows), panels * LABEL_NODES),
        moments=np.stack(sums),
    )


def _label_panels(
    points: Points, rows: int, panels: int
) -> tuple[Integers, Floats, Floats]:
    """Return the panel of every point (J,), and where panels begin and end (rows,
    panels).

    They are even in arsinh of the label: a few far labels must not widen all panels.
    """
    y = points.label
    row = points.row
    weights = points.moments[0]
    centre = np.sum(weights * y) / weights.sum()
    spread = np.sqrt(np.sum(weights * (y - centre) ** 2) / weights.sum())
    t = np.arcsinh((y - centre) / spread)
    low = np.full(rows, np.inf)
    high = np.full(rows, -np.inf)
    np.minimum.at(low, row, t)
    np.maximum.at(high, row, t)
    empty = ~np.isfinite(low)
    low[empty] = 0.0
    high[empty] = 0.0
    # labels may be all alike at a node of kappa
    width = np.maximum(high - low, 1e-9) / panels
    panel = np.clip(((t - low[row]) / width[row]).astype(np.int64), 0, panels - 1)
    edge = low[:, None] + width[:, None] * np.arange(panels + 1)
    left = centre + spread * np.sinh(edge[:, :-1])
    right = centre + spread * np.sinh(edge[:, 1:])
    return panel, left, right


def _law(kappa: Floats, points: Points, L: int) -> LabelLaw:
    """Return the law of weighted points; those without weight are left out."""
    moments = points.moments / points.moments[0].sum()
    quadratic = np.zeros((L, L, moments.shape[1]))
    first, second = np.triu_indices(L)
    pairs = moments[1 + L :]
    quadratic[first, second] = pairs
    quadratic[second, first] = pairs
    kept = np.flatnonzero(np.abs(moments).max(axis=0) > NEGLIGIBLE)
    return LabelLaw(
        kappa=kappa,
        row=points.row[kept],
        label=points.label[kept],
        weights=moments[0, kept],
        linear=moments[1 : 1 + L, kept],
        quadratic=quadratic[..., kept],
    )
