"""Expectations over a margin s ~ N(mean, scale^2) and a label, with every kink on the edge of a panel.

One *row* is one cluster of one point and one label. Rows have their own panels; empty panels cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.gaussian import normal_density
from giantstep.gaussian.quadrature import legendre_rule
from giantstep.risk.labels import BinaryLabels
from giantstep.risk.losses import Loss
from giantstep.types import Floats, Indices

BOUND = 9.0
"""Standard deviations kept on both sides; beyond lies a probability of 2e-19."""
PANEL = 1.5
NODES = 16
_BASE = np.linspace(-BOUND, BOUND, round(2 * BOUND / PANEL) + 1)


@dataclass(frozen=True)
class Nodes:
    """Quadrature nodes xi of all rows in one list, with their weights (the normal density included) and their rows."""

    xi: Floats
    weights: Floats
    row: Indices
    rows: int

    def sums(self, *integrands: Floats) -> tuple[Floats, ...]:
        """Return the integral of each integrand over xi ~ N(0,1), one number per row."""
        return tuple(sum_rows(self.row, self.weights * f, self.rows) for f in integrands)


def sum_rows(row: Indices, values: Floats, rows: int) -> Floats:
    """Return the sum of the values of each row."""
    return np.bincount(row, values, minlength=rows).astype(np.float64, copy=False)


def panel_nodes(edges: Floats, nodes_per_panel: int = NODES) -> Nodes:
    """Return Gauss-Legendre nodes on [-9, 9] with the given edges (rows, n) beside the regular ones.

    Edges outside (or not finite) are left out.

    >>> nodes = panel_nodes(np.array([[0.3], [np.inf]]))
    >>> [round(float(v), 12) for v in nodes.sums(np.abs(nodes.xi - 0.3) * (nodes.row == 0) + nodes.xi**2)[0]]
    [1.833522484234, 1.0]
    """
    rows = len(edges)
    inside = np.clip(np.where(np.isnan(edges), BOUND, edges), -BOUND, BOUND)
    edges = np.sort(np.concatenate([np.broadcast_to(_BASE, (rows, _BASE.size)), inside], axis=1), axis=1)
    widths = np.diff(edges, axis=1)
    row, panel = np.nonzero(widths > 0)
    unit, unit_weights = legendre_rule(nodes_per_panel)
    width = widths[row, panel][:, None]
    xi = (edges[row, panel][:, None] + width * unit).ravel()
    weights = (width * unit_weights).ravel() * normal_density(xi)
    return Nodes(xi, weights, np.repeat(row, nodes_per_panel), rows)


@dataclass(frozen=True)
class MarginLaws:
    """Margins s = mean + scale xi and teacher fields of conditional mean M = tau + slope xi, variance v; all (rows,).

    For label y the margin is y omega and the teacher field y nu, so that the label is always 1.
    """

    mean: Floats
    scale: Floats
    tau: Floats
    slope: Floats
    variance: Floats
    flip: Floats

    def edges(self, kinks: Floats, labels: BinaryLabels) -> Floats:
        """Return kinks of the margin, and the step of the label where it is narrow, in terms of xi (rows, n)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at_kinks = (kinks - self.mean[:, None]) / self.scale[:, None]
            width = labels.width(self.variance) / np.abs(self.slope)
            centre = -self.tau / self.slope
            steps = centre[:, None] + np.array([-6.0, -2.0, 0.0, 2.0, 6.0]) * width[:, None]
        return np.concatenate([at_kinks, np.where(width[:, None] < 1.0, steps, np.inf)], axis=1)


@dataclass(frozen=True)
class Margins:
    """Quadrature of one set of rows: margins s and label weights Z, Z' at all nodes."""

    nodes: Nodes
    s: Floats
    chance: Floats
    chance_slope: Floats

    def expect(self, *values: Floats) -> tuple[Floats, ...]:
        """Return E[1(label) value(s)] of each, per row."""
        return self.nodes.sums(*(value * self.chance for value in values))


def quadrature(rows: MarginLaws, labels: BinaryLabels, kinks: Floats, nodes_per_panel: int = NODES) -> Margins:
    """Lay nodes for rows with the given kinks of the margin (rows, n), and weigh them with the label."""
    nodes = panel_nodes(rows.edges(kinks, labels), nodes_per_panel)
    row = nodes.row
    s = rows.mean[row] + rows.scale[row] * nodes.xi
    chance, slope = labels.positive(rows.tau[row] + rows.slope[row] * nodes.xi, rows.variance[row], rows.flip[row])
    return Margins(nodes, s, chance, slope)


@dataclass(frozen=True)
class ChannelMoments:
    """E g, E g^2, E dg/ds and E dg/dnu of the rows (the label's probability included, its sign not)."""

    g: Floats
    g2: Floats
    slope: Floats
    along_teacher: Floats


def channel_moments(
    rows: MarginLaws, labels: BinaryLabels, loss: Loss, V: Floats, nodes_per_panel: int = NODES
) -> ChannelMoments:
    """Integrate the pull of the proximal map of strength V (rows,).

    E dg/dnu is taken as E g dZ/dM, which is valid for discontinuous labels.
    """
    margins = quadrature(rows, labels, loss.kinks(V), nodes_per_panel)
    row = margins.nodes.row
    pull = loss.at(row).pull(margins.s, V[row])
    g, g2, slope = margins.expect(pull.g, pull.g**2, pull.slope)
    (along,) = margins.nodes.sums(pull.g * margins.chance_slope)
    return ChannelMoments(g, g2, slope, along)
