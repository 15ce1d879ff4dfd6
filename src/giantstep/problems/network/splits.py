"""Blocks cut into sub-blocks, along a fluctuation that first order does not describe.

structured_inputs (8.2): the leading channel of inputs of low effective rank.
finite_size_steps section 14: the overlaps of single rows with the target.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.grids import hermite_rule, plane_rule
from giantstep.core.maths.gaussian.subspaces import Directions
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.start import start_rows

SPLIT_NODES = {1: 7, 2: 5}
"""Sub-blocks of each block, for one block and for more: structured_inputs (8.2)."""
OVERLAP_NODES = 7
"""Sub-blocks of each block for one direction of the target: nine and fifteen move the
test error by up to 0.6%.
"""
MOST_SPLIT = 2
"""Directions of the target by whose overlaps blocks are split; a rule for three has too
many nodes.
"""
ESCAPED = 0.3
"""Overlap of the rows with a direction of the target, in units of their length, from
which they have found it.
"""


def cut(problem: Problem, weights: Floats, total: float = 1.0) -> Problem:
    """Return the problem with a sub-block of each of these weights, whose sum is
    `total`, in every block.
    """
    pi = problem.pi[:, :, None] * weights / total
    return dataclasses.replace(
        problem,
        zeta=np.repeat(problem.zeta, len(weights)),
        pi=pi.reshape(len(problem.pi), -1),
    )


def split_blocks(problem: Problem) -> tuple[Problem, Layer]:
    """Return the problem with sub-blocks along the leading channel n = L^1/2 V^T:
    structured_inputs (8.2).

    Its linear part is followed at the nodes x_l of a Gauss-Hermite rule: U starts at
    L^1/2 n x_l/sqrt(d).
    """
    k = len(problem.zeta)
    nodes, weights = hermite_rule(SPLIT_NODES[min(k, 2)])
    finer = cut(problem, weights, weights.sum())
    root = np.sqrt(problem.coordinate_eigenvalues)
    # n of structured_inputs (8.2), for the one direction of the target
    n = root * problem.inputs.frame[0]
    n /= np.linalg.norm(n)
    node_of_block = np.tile(nodes, k)[:, None]
    root_dim = np.sqrt(float(problem.numbers["dim"][0]))
    means = node_of_block * (root * n) / root_dim
    rows = start_rows(finer)
    # what the nodes follow is no longer a part of the spread
    rows.JU[..., 1:] -= np.outer(root * n, n)
    M = len(problem.frame)
    layer = Layer(means=np.tile(means, (M, 1, 1)), frame=problem.frame, rows=rows)
    return finer, layer


def split_overlaps(problem: Problem) -> tuple[Problem, Layer]:
    """Return the problem with sub-blocks at the nodes of a rule for the overlaps of a
    row: finite_size_steps (14.2).

    A row of a sub-block starts at its node x_l/sqrt(d), and has no spread along the
    target.
    """
    r = problem.target.directions
    k = len(problem.zeta)
    nodes, weights = overlap_rule(r)
    dim = problem.numbers["dim"][:, None]
    finer = cut(problem, weights)
    rows = start_rows(finer)
    frame = problem.frame
    # what is left of a row on the sphere; a Gaussian row has its other coordinates
    # whatever its overlaps are
    if problem.network.rows == "sphere":
        taken = np.sum(nodes**2, axis=1)
    else:
        taken = np.full(len(nodes), float(r))
    s = np.tile(np.sqrt(np.maximum(1 - taken / dim, 0.0)), k)
    overlaps = np.tile(nodes, (k, 1)) / np.sqrt(dim[..., None])
    B = s[..., None] * rows.B
    # finite_size_steps (14.2): a node has no spread along the target at the start
    along = np.swapaxes(frame, 1, 2)[:, None] @ (frame[:, None] @ rows.JU)
    Js = rows.Js.copy()
    # ds = d(s^2)/(2 s)
    Js[..., 0] /= s
    rows = dataclasses.replace(
        rows,
        B=B,
        JU=s[..., None, None] * (rows.JU - along),
        Js=Js,
        past=B[:, None],
        length=s,
        feedback=s[:, None, :, None] * rows.feedback,  # the mean of rows of this length
        # sums over single rows would need their law inside a sub-block
        single=np.zeros(len(dim), dtype=bool),
    )
    return finer, Layer(means=overlaps @ frame, frame=frame, rows=rows)


def overlap_rule(directions: int) -> tuple[Floats, Floats]:
    """Return nodes (n, r) and weights (n,) for the overlaps of a row."""
    if directions == MOST_SPLIT:
        nodes, weights = plane_rule()
    else:
        nodes, weights = hermite_rule(OVERLAP_NODES)
    return nodes.reshape(len(weights), directions), weights


def learnt_of_target(
    problem: Problem, layer: Layer, number: int, basis: Directions
) -> Floats:
    """Return the directions of the target that one parameter set has learnt, in the
    target's coordinates (r, c).

    Sub-blocks begin with overlaps that nobody has learnt. There a direction counts that
    the mean of a whole block has, or that most rows have turned into, some to one side
    and some to the other.
    """
    frame = layer.frame[number]
    if not problem.is_split:
        return frame @ basis.learnt
    overlaps = layer.means[number] @ frame.T
    pi = problem.pi[number]
    of_sub_blocks = pi[:, None] * overlaps
    # the sub-blocks of a block stand side by side: `cut`
    of_blocks = of_sub_blocks.reshape(problem.network.blocks, -1, len(frame))
    squares = layer.squared_length(problem)[number]
    # the mean of cos^2 between a row and each direction
    turned = (overlaps * (pi / squares)[:, None]).T @ overlaps
    sizes, axes = np.linalg.eigh(turned)
    return np.concatenate(
        [of_blocks.sum(axis=1).T, axes[:, sizes > ESCAPED**2]], axis=1
    )
