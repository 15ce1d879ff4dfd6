"""Expectations over a margin s ~ N(mean, scale^2) and a label.

One *row* is one cluster of one point and one label. Where loss and label are smooth on
the scale of the margin the trapezoidal rule is exact to rounding with few nodes;
elsewhere rows have their own Gauss-Legendre panels, with every kink on an edge. Empty
panels cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats, Indices
from giantstep.core.maths.gaussian import normal_density
from giantstep.core.maths.gaussian.quadrature import legendre_rule
from giantstep.core.readout.losses.functions import Loss
from giantstep.core.readout.losses.labels import BinaryLabels

BOUND = 9.0
"""Standard deviations kept on both sides; beyond lies a probability of 2e-19."""
PANEL = 1.5
"""Width of the regular panels, in standard deviations."""
NODES = 16
"""Nodes on each."""
LEAST_STEP = 0.15
"""Step of the trapezoidal rule below which panels need fewer nodes."""
BLOCK = 128
"""Rows whose nodes are worked on together."""
STEP_EDGES = np.array([-6.0, -2.0, 0.0, 2.0, 6.0])
"""Edges around the step of a label, in units of its width."""
_BASE = np.linspace(-BOUND, BOUND, round(2 * BOUND / PANEL) + 1)


class RowNodes(NamedTuple):
    """Quadrature nodes xi of all rows in one list, with their weights (the normal
    density included) and their rows.
    """

    xi: Floats  # (J,)
    weights: Floats  # (J,)
    row: Indices  # (J,): the row that a node belongs to
    rows: int  # how many there are, also those without nodes

    def sums(self, *integrands: Floats) -> tuple[Floats, ...]:
        """Return the integral of each integrand over xi ~ N(0,1), one number per
        row.
        """
        totals = []
        for integrand in integrands:
            totals.append(sum_rows(self.row, self.weights * integrand, self.rows))
        return tuple(totals)


def sum_rows(row: Indices, values: Floats, rows: int) -> Floats:
    """Return the sum of the values of each row."""
    return np.bincount(row, values, minlength=rows).astype(np.float64, copy=False)


def panel_nodes(edges: Floats, nodes_per_panel: int = NODES) -> RowNodes:
    """Return Gauss-Legendre nodes on [-9, 9] with the given edges (rows, n) beside the
    regular ones.

    Edges outside (or not finite) are left out.

    >>> nodes = panel_nodes(np.array([[0.3], [np.inf]]))
    >>> kink = np.abs(nodes.xi - 0.3) * (nodes.row == 0)
    >>> (sums,) = nodes.sums(kink + nodes.xi**2)
    >>> [round(float(v), 12) for v in sums]
    [1.833522484234, 1.0]
    """
    rows = len(edges)
    # edges outside fall on the ends, where they make panels of no width
    inside = np.clip(np.where(np.isnan(edges), BOUND, edges), -BOUND, BOUND)
    regular = np.broadcast_to(_BASE, (rows, _BASE.size))
    edges = np.sort(np.concatenate([regular, inside], axis=1), axis=1)
    widths = np.diff(edges, axis=1)
    # panels of no width cost no nodes
    row, panel = np.nonzero(widths > 0)
    unit, unit_weights = legendre_rule(nodes_per_panel)
    width = widths[row, panel][:, None]
    xi = (edges[row, panel][:, None] + width * unit).ravel()
    weights = (width * unit_weights).ravel() * normal_density(xi)
    return RowNodes(xi, weights, np.repeat(row, nodes_per_panel), rows)


def trapezoid_nodes(step: Floats, reach: Floats) -> RowNodes:
    """Return the nodes of the trapezoidal rule on [-reach, reach], with step and reach
    for each row.

    >>> nodes = trapezoid_nodes(np.array([0.5, 0.3]), np.array([9.0, 9.0]))
    >>> [round(float(v), 12) for v in nodes.sums(nodes.xi**4)[0]]
    [3.0, 3.0]
    """
    half = np.ceil(reach / step).astype(np.int64)
    counts = 2 * half + 1
    row = np.repeat(np.arange(len(step)), counts)
    # rows lie one after the other: counted from the middle node of each
    middle = np.cumsum(counts) - counts + half
    position = np.arange(len(row)) - np.repeat(middle, counts)
    xi = position * step[row]
    return RowNodes(xi, step[row] * normal_density(xi), row, len(step))


class MarginLaws(NamedTuple):
    """Margins s = mean + scale xi and teacher fields of conditional mean M = tau +
    slope xi, variance v; all (rows,).

    For label y the margin is y omega and the teacher field y nu, so that the label is
    always 1.
    """

    mean: Floats
    scale: Floats
    tau: Floats  # mean of the field at the mean margin
    slope: Floats  # of the field, in standard deviations of the margin
    variance: Floats  # of the field at a given margin
    flip: Floats  # chance that a label is turned

    def take(self, index: Indices) -> MarginLaws:
        """Return the rows in `index`."""
        return MarginLaws(*(column[index] for column in self))

    def mirrored(self) -> MarginLaws:
        """Return the laws of the other label: margin and teacher field change their
        signs.
        """
        return self._replace(mean=-self.mean, tau=-self.tau)

    def with_mirrored(self) -> MarginLaws:
        """Return the rows of label 1, and after them those of the other label."""
        both = zip(self, self.mirrored())
        return MarginLaws(*(np.concatenate(columns) for columns in both))

    def edges(self, kinks: Floats, labels: BinaryLabels) -> Floats:
        """Return kinks of the margin, and the step of the label where it is narrow, in
        terms of xi (rows, n).
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            at_kinks = (kinks - self.mean[:, None]) / self.scale[:, None]
            width = labels.width(self.variance) / np.abs(self.slope)
            # where the mean of the field changes its sign
            centre = -self.tau / self.slope
            steps = centre[:, None] + STEP_EDGES * width[:, None]
        # a label that changes over a standard deviation or more needs no edges
        steps = np.where(width[:, None] < 1.0, steps, np.inf)
        return np.concatenate([at_kinks, steps], axis=1)


class Margins(NamedTuple):
    """Quadrature of one set of rows: margins s and label weights Z, Z' at all nodes."""

    nodes: RowNodes
    s: Floats  # (J,)
    chance: Floats  # (J,): Z, that the label is the one of the row
    chance_slope: Floats  # (J,): Z', its derivative in the mean of the field

    def mirrored(self) -> Margins:
        """Return the other label at the same nodes: xi counts backwards there, and one
        of the labels is certain.
        """
        return Margins(self.nodes, -self.s, 1 - self.chance, self.chance_slope)

    def expect(self, *values: Floats) -> tuple[Floats, ...]:
        """Return E[1(label) value(s)] of each, per row."""
        return self.nodes.sums(*(value * self.chance for value in values))


def quadrature(
    rows: MarginLaws, labels: BinaryLabels, kinks: Floats, nodes_per_panel: int = NODES
) -> Margins:
    """Lay nodes for rows with the given kinks of the margin (rows, n), and weigh them
    with the label.
    """
    return _weigh(rows, labels, panel_nodes(rows.edges(kinks, labels), nodes_per_panel))


def _weigh(rows: MarginLaws, labels: BinaryLabels, nodes: RowNodes) -> Margins:
    """Return the margins and the chances of the label at the nodes."""
    row = nodes.row
    s = rows.mean[row] + rows.scale[row] * nodes.xi
    field = rows.tau[row] + rows.slope[row] * nodes.xi
    chance, slope = labels.positive(field, rows.variance[row], rows.flip[row])
    return Margins(nodes, s, chance, slope)


class ChannelMoments(NamedTuple):
    """E g, E g^2, E dg/ds and E dg/dnu of the rows (the label's probability
    included).
    """

    g: Floats  # E g
    g2: Floats  # E g^2
    slope: Floats  # E dg/ds
    along_teacher: Floats  # E dg/dnu


def both_labels(
    rows: MarginLaws,
    labels: BinaryLabels,
    loss: Loss,
    V: Floats,
    nodes_per_panel: int = NODES,
    weights: Floats | None = None,
    stretch: Floats | float = 1.0,
) -> Iterator[tuple[int, Indices, Margins]]:
    """Yield label, row numbers and margins until the rows of both labels are covered;
    `rows` are those of label 1.

    Smooth rows come in blocks whose arrays fit into a fast memory, and both labels
    share the nodes and the chances. Rows that count with small `weights` (rows,) are
    not followed as far into their tails. `stretch` makes the steps of the trapezoidal
    rule longer than rounding asks for: by 1.6 the moments are wrong by less than 1e-5.
    """
    step = np.minimum(
        loss.resolving_step(rows.scale),
        labels.resolving_step(rows.slope, rows.variance),
    )
    smooth = np.flatnonzero(step > LEAST_STEP)
    rough = np.flatnonzero(step <= LEAST_STEP)
    reach = np.full(step.shape, BOUND)
    if weights is not None:
        # where weight times normal density falls to 1e-17
        reach = np.sqrt(2 * np.log(np.maximum(weights, 1e-16) / 1e-17))
    # stretched after the choice of the rule, which rounding decides
    step = np.asarray(stretch * step)
    for index in np.split(smooth, range(BLOCK, smooth.size, BLOCK)):
        nodes = trapezoid_nodes(step[index], reach[index])
        margins = _weigh(rows.take(index), labels, nodes)
        yield 1, index, margins
        yield -1, index, margins.mirrored()
    if rough.size:
        kinks = loss.at(rough).kinks(V[rough])
        laws = rows.take(rough)
        # kinks break the symmetry: each label has nodes of its own
        yield 1, rough, quadrature(laws, labels, kinks, nodes_per_panel)
        other = laws.mirrored()
        yield -1, rough, quadrature(other, labels, kinks, nodes_per_panel)


def both_moments(
    rows: MarginLaws,
    labels: BinaryLabels,
    loss: Loss,
    V: Floats,
    nodes_per_panel: int = NODES,
    weights: Floats | None = None,
    stretch: Floats | float = 1.0,
) -> ChannelMoments:
    """Return E y g, E g^2, E dg/ds and E y dg/dnu over both labels, the pull g at
    strengths V (rows,).

    The other arguments are those of `both_labels`.
    """
    total = np.zeros((4, len(V)))
    for label, row, margins in both_labels(
        rows, labels, loss, V, nodes_per_panel, weights, stretch
    ):
        moments = moments_at(margins, loss.at(row), V[row])
        # of margins y omega and fields y nu: g alone changes its sign with y
        total[:, row] += [
            label * moments.g,
            moments.g2,
            moments.slope,
            moments.along_teacher,
        ]
    return ChannelMoments(*total)


def moments_at(margins: Margins, loss: Loss, V: Floats) -> ChannelMoments:
    """Integrate the pull at the nodes of `margins`.

    E dg/dnu is taken as E g dZ/dM, which is valid for discontinuous labels.
    """
    row = margins.nodes.row
    pull = loss.at(row).pull(margins.s, V[row])
    g, g2, slope = margins.expect(pull.g, pull.g**2, pull.slope)
    # nu enters through the label alone: the derivative falls on its chance
    (along,) = margins.nodes.sums(pull.g * margins.chance_slope)
    return ChannelMoments(g, g2, slope, along)
