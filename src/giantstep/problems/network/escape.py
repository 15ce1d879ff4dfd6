"""Rows that escape by their own overlap with the target: how much the first order of
the spread leaves out.

A row starts with an overlap of order 1/sqrt(d) with every direction of the target. The
theory carries it to first order (JU of `layer`), which is enough while it stays small
beside the row. A target without a linear part, or with a small one, leaves the means of
the blocks where they are, or nearly, and multiplies this overlap at every step. Then
the blocks are cut by the overlap of their rows (`layer.split_overlaps`).
finite_size_steps section 14, whose equations are cited by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import Booleans, Floats, Integers, Points
from giantstep.core.maths.gaussian.grids import plane_rule
from giantstep.core.readout.fits import Asked, Fit
from giantstep.problems.network.describe import Description
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem, finite_batches
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.splits import MOST_SPLIT

ESCAPES = {1: 0.0025, 2: 0.01}
"""Part of the objective from which the second order is followed, by the directions of
the target.

Some 0.5% of the test error, which is what the other terms of order 1/d leave out at d =
200 (finite_size_steps section 12); for two directions some 2%, because the cut takes a
second for each point there.
"""
SAID = 0.01
"""Part of the objective from which it is said that the second order is not followed."""
MOST_SUB_BLOCKS = 48
"""Sub-blocks of a fit on two directions, which takes some ten seconds then."""
UNMOVED = 1e-12
"""Change of the spread below which no step has moved the rows: what random features
leave out is no escape.
"""
SMALLEST = 1e-9
"""1/d at which the second order of the bare limit is taken: small enough to be
proportional to it.
"""
REACHABLE = 1000.0
"""Dimension up to which a limit that holds above it only needs no warning."""


WIDE = 0.3
"""Spread of the rows of a block along the target, in units of their length, from which
first order is doubtful.
"""


def outside_split(network: Network, points: Points) -> str:
    """Say why blocks cannot be cut by the overlaps of their rows; empty where they can
    be.
    """
    if not network.isotropic:
        return "the inputs have a covariance"
    if network.target.directions > MOST_SPLIT:
        return f"the target has more than {MOST_SPLIT} directions"
    if network.second_layer == "gaussian":
        return "the second layer is Gaussian"
    if (
        network.target.directions > 1
        and network.blocks * len(plane_rule()[1]) > MOST_SUB_BLOCKS
    ):
        return "the second layer has too many values for a target of two directions"
    if network.readout.classes:
        return "the labels are classes"
    if finite_batches(points).any():
        return "a step has a finite batch"
    other = [number for number, step in enumerate(network.steps) if not step.splits]
    if other:
        return f"steps.{other[0]} is no gradient step on the population"
    return ""


def escaping(network: Network, points: Points, neglected: Floats) -> Booleans:
    """Tell at which points the blocks are cut, where a part of the objective is
    `neglected` (B,).
    """
    if outside_split(network, points):
        return np.zeros(len(neglected), dtype=bool)
    return np.isfinite(points["dim"]) & (
        neglected >= ESCAPES[network.target.directions]
    )


def needed_dim(points: Points, neglected: Floats) -> float:
    """Return the dimension above which the bare limits among the points hold:
    (14.6).
    """
    # at a bare limit `neglected` is the part times d
    return float(neglected[np.isinf(points["dim"])].max(initial=0.0)) / ESCAPES[1]


def spread_beside_rows(problem: Problem, layer: Layer) -> float:
    """Return the largest standard deviation of an overlap inside a block, in units of a
    row; 0 in the limit.
    """
    spread = layer.rows.spread(problem, layer).overlaps
    if spread is None:
        return 0.0
    widest = np.linalg.eigvalsh(spread)[..., -1] / layer.squared_length(problem)
    return float(np.sqrt(np.max(widest / problem.numbers["dim"][:, None])))


# -- how much the second order of the spread is worth to a fit -------------------------


@dataclass(frozen=True)
class SecondOrder:
    """What second-order channels are made of: k blocks spread along r variables, for S
    sets (or one) and B points.
    """

    bend: Floats  # D_2 (S, k, N)
    along: Floats  # how a variable moves a feature, seen along kappa (S, k, r, N)
    across: Floats  # and along the L directions that are averaged out (S, k, r, L)
    gap: Floats  # E[y - f | kappa] times the weights of the fit's least squares (B, N)
    gap1: Floats  # the same of xi (y - f) (B, L, N)
    gap2: Floats  # the same of xi xi^T (y - f) (B, L, L, N)
    weights: Floats  # of the least squares (B, N)
    prior: Floats  # R (B, k)

    def gain(self, first: int, second: int, inverse_dim: Floats) -> Floats:
        """Return by how much the channel of two variables would lower the objective
        (B,): (14.5).
        """
        a = self.along[:, :, first]
        b = self.along[:, :, second]
        p = self.across[:, :, first]
        q = self.across[:, :, second]
        # what the channel has in common with what the fit leaves, by powers of xi
        source = _sums(self.bend * a * b, self.gap)
        power = a**2 * b**2
        axes = range(p.shape[2])
        for axis in axes:
            mixed = a * q[:, :, axis, None] + b * p[:, :, axis, None]
            source = source + _sums(self.bend * mixed, self.gap1[:, axis])
        for axis, other in product(axes, axes):
            both = p[:, :, axis, None] * q[:, :, other, None]
            source = source + _sums(self.bend * both, self.gap2[:, axis, other])
        if axes:
            pp = np.sum(p * p, axis=2)[..., None]
            qq = np.sum(q * q, axis=2)[..., None]
            pq = np.sum(p * q, axis=2)[..., None]
            # E (a + p xi)^2 (b + q xi)^2 over standard normals xi, term by term
            power = power + a**2 * qq + b**2 * pp + 4 * a * b * pq
            power = power + pp * qq + 2 * pq**2
        # (eps^2 - 1)/2 of one variable has half the variance of a product of two
        square = inverse_dim[:, None]
        if first == second:
            square = square / 2
        cost = 1 / self.prior + square * _sums(self.bend**2 * power, self.weights)
        gain: Floats = np.sum(square * source**2 / cost, axis=1)
        return gain


def _sums(functions: Floats, values: Floats) -> Floats:
    """Return sum_n functions values, for (S or 1, k, N) and (B, N), as (B, k)."""
    if len(functions) == 1:
        return values @ functions[0].T
    return (functions @ values[:, :, None])[:, :, 0]


def neglected(
    problem: Problem, layer: Layer, seen: list[Description], asked: Asked, fit: Fit
) -> Floats:
    """Return which part of the objective second-order channels would take away at every
    point (B,): (14.3)-(14.5).

    At a bare limit it is the part times d, for a large d. It is zero where nothing is
    known of it.
    """
    found = np.zeros(len(asked.owner))
    spread = layer.rows.spread(problem, layer).overlaps
    if spread is None or fit.first is None:
        return found
    start = np.eye(spread.shape[2])
    moved = np.abs(spread - start).max(axis=(1, 2, 3)) > UNMOVED
    spread = np.where(moved[:, None, None, None], spread, 0.0)
    if not np.any(spread):  # blocks that are cut have no spread left
        return found
    finite = np.isfinite(asked.points["dim"])
    inverse_dim = np.where(finite, asked.size.inverse_dim, SMALLEST)
    # the variables of a block: any root of the covariance of its overlaps
    values, vectors = np.linalg.eigh(spread)
    root = np.swapaxes(vectors, 2, 3) * np.sqrt(np.maximum(values, 0.0))[..., None]
    scale = layer.scale(problem)
    begin = 0
    for one in seen:
        end = begin + len(one.sets)  # these parameter sets among all that were asked
        points = np.flatnonzero((asked.owner >= begin) & (asked.owner < end))
        for part in split_rows(len(points), one.features.mu1[0].size):
            chosen = points[part]
            if len(one.sets) == 1:
                rows = one.sets
            else:
                rows = one.sets[asked.owner[chosen] - begin]
            second, objective = _second_order(
                one, fit, chosen, layer.frame[rows[0]], root[rows], scale[rows]
            )
            pairs = combinations_with_replacement(range(root.shape[2]), 2)
            gains = [second.gain(*pair, inverse_dim[chosen]) for pair in pairs]
            found[chosen] = np.sum(gains, axis=0) / objective
        begin = end
    return np.where(finite, found, found / SMALLEST)


def _second_order(
    one: Description,
    fit: Fit,
    points: Integers,
    frame: Floats,
    root: Floats,
    scale: Floats,
) -> tuple[SecondOrder, Floats]:
    """Return the second order at some points, and their objective (4.10) in its
    units.
    """
    assert fit.first is not None
    whole = len(points) == len(fit.status)
    first = fit.first if whole else fit.first.take(points)
    features = first.equations.features
    weights = first.node_weights
    theta, x, tau = (
        values[points]
        for values in (fit.solution.theta, fit.solution.x, fit.solution.tau)
    )
    output = _combined(theta, features.mu0) + _combined(x, features.T0)
    slopes = tau @ features.mu1
    explained = features.h * output + np.sum(features.h1 * slopes, axis=1)
    objective = np.sum(weights * (features.hh - explained), axis=1)
    basis = one.view.basis
    given = one.view.given
    L = given.h1.shape[1]
    # steep features scatter at a finite dimension: their rule repeats the nodes of
    # kappa for every length of an input
    copies = features.mu1.shape[2] // len(given.nodes)
    nodes = np.tile(given.nodes, (copies, 1))
    bent = (
        np.moveaxis(np.tile(given.h2, (copies, 1, 1)), 0, 2)
        - output[:, None, None] * np.eye(L)[:, :, None]
    )
    assert features.stretch is not None
    second = SecondOrder(
        bend=features.stretch / scale[..., None] ** 2,
        along=root @ (frame @ basis.learnt) @ nodes.T,
        across=root @ (frame @ basis.rest),
        gap=weights * (features.h - output),
        gap1=weights[:, None] * (features.h1 - slopes)[:, :L],
        gap2=weights[:, None, None] * bent,
        weights=weights,
        prior=first.response.R,
    )
    return second, objective


def _combined(coefficients: Floats, functions: Floats) -> Floats:
    """Return the combinations (B, N) of functions (1 or B, F, N) with coefficients (B,
    F).
    """
    if len(functions) == 1:
        return coefficients @ functions[0]
    return (coefficients[:, None] @ functions)[:, 0]
