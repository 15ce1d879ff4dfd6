"""Product rules for E f(z), z ~ N(0, I_r), that break where f is not smooth.

Axis by axis: an axis without a break gets a Gauss-Hermite rule, one that breaks at
fixed points the Gauss rule of the Gaussian weight on every piece, and one whose breaks
depend on the axes before it (planes across the axes) Gauss-Legendre panels between
them. All rules are symmetric where the breaks are, so that zeros by symmetry are exact.

A `JointRule` holds nodes xi of independent standard normals; E f(v), v ~ N(0, C), is
the weighted sum of f(L xi) with L L^T = C, `semidefinite_factor`. Product rules are
exact for polynomials and break on the planes they are told of; above four dimensions
scrambled Sobol points take over. A rule knows a coarser one, and their difference is
its error.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from giantstep.core.base.errors import Code, InputError, NotFiniteError
from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian.planes import Plane
from giantstep.core.maths.gaussian.quadrature import (
    PANEL_NODES,
    gauss_legendre_panels,
    kept_rule,
    normal_density,
    trapezoid_rule,
)

MOST_POINTS = 5_000_000
"""Product rules with more points than this are refused."""
BOUND = 9.0
MOST_PLANES = 24
NARROW_NODES = 12
"""Nodes between breaks beside the narrow places of a function."""
NARROW = 0.5
"""Width of an interval on which the normal density is as smooth as a function that is
broken there.
"""
NEGLIGIBLE = 1e-19
"""Points of less weight are left out."""


class NodeGrid(NamedTuple):
    """Points (N, r) and weights (N,) that sum to one."""

    points: Floats
    weights: Floats


def hermite_rule(count: int) -> tuple[Floats, Floats]:
    """Return the Gauss-Hermite nodes and weights of N(0, 1); exact up to degree 2
    count - 1.
    """
    nodes, weights = kept_rule("hermite", count)
    return nodes, weights / weights.sum()


def plane_rule() -> tuple[Floats, Floats]:
    """Return the 12 points (N, 2) and weights of a rule of N(0, I_2) that is exact up
    to degree 7.

    >>> points, weights = plane_rule()
    >>> print(f"{weights @ (points[:, 0] ** 4 * points[:, 1] ** 2):.9f}")
    3.000000000
    """
    near = np.sqrt((9 - 3 * np.sqrt(5)) / 4)
    far = np.sqrt((9 + 3 * np.sqrt(5)) / 4)
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    axes = np.sqrt(6.0) * np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    each = np.array([1 / 36, (5 + 2 * np.sqrt(5)) / 45, (5 - 2 * np.sqrt(5)) / 45])
    return np.concatenate([axes, near * corners, far * corners]), np.repeat(each, 4)


def even_rule(step: float, bound: float = BOUND) -> tuple[Floats, Floats]:
    """Return the trapezoid rule of N(0, 1) on [-bound, bound]: for analytic functions
    that vary on a small scale.
    """
    nodes, weights = trapezoid_rule(step, bound)
    return nodes, weights / weights.sum()


def interval_rule(low: float, high: float, count: int) -> tuple[Floats, Floats]:
    """Return the Gauss rule of the N(0, 1) density on [low, high], that of a fine
    Legendre discretisation.
    """
    low = max(low, -BOUND - 3)
    high = min(high, BOUND + 3)
    fine, measure = gauss_legendre_panels(np.linspace(low, high, 33), 24)
    return gauss_rule(fine, measure * normal_density(fine), count)


def panel_rule(low: float, high: float, count: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes on [low, high] with the N(0, 1) density in the
    weights: for narrow intervals.
    """
    nodes, measure = gauss_legendre_panels(
        np.array([low, high]), min(count, PANEL_NODES)
    )
    return nodes, measure * normal_density(nodes)


def gauss_rule(points: Floats, masses: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the Gauss rule of a discrete measure: by Lanczos' recurrence on its
    points, orthogonalised twice.
    """
    mass = masses.sum()
    basis = np.empty((count, len(points)))
    basis[0] = np.sqrt(masses / mass)
    diagonal = np.empty(count)
    side = np.empty(max(count - 1, 0))
    for j in range(count):
        moved = points * basis[j]
        diagonal[j] = basis[j] @ moved
        if j + 1 < count:
            for _ in range(2):
                moved = moved - (basis[: j + 1] @ moved) @ basis[: j + 1]
            side[j] = np.linalg.norm(moved)
            basis[j + 1] = moved / side[j]
    nodes, vectors = np.linalg.eigh(
        np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1)
    )
    return nodes, mass * vectors[0] ** 2


def broken_rule(breaks: Sequence[float], count: int) -> tuple[Floats, Floats]:
    """Return the rule on the line that breaks at ``breaks``, with ``count`` nodes on
    every piece.
    """
    inside = sorted({float(b) for b in breaks if -BOUND < b < BOUND})
    if not inside:
        return hermite_rule(2 * count)
    ends = [-np.inf, *inside, np.inf]
    many = len(inside) > MOST_PLANES
    pieces = [
        (
            panel_rule(low, high, count)
            if many and high - low < NARROW
            else interval_rule(low, high, count)
        )
        for low, high in zip(ends, ends[1:])
    ]
    nodes, weights = (np.concatenate(parts) for parts in zip(*pieces))
    if np.allclose(np.sort(-np.array(inside)), inside, rtol=0, atol=1e-13):
        nodes = 0.5 * (nodes - nodes[::-1])
        weights = 0.5 * (weights + weights[::-1])
    return nodes, weights / weights.sum()


def product_grid(
    dims: int,
    planes: Sequence[Plane],
    smooth: tuple[Floats, Floats],
    piece: int,
    narrow: Sequence[Plane] = (),
) -> NodeGrid:
    """Return the product rule that breaks on ``planes``: `smooth` on an axis without
    one, `piece` nodes between two.

    It breaks on `narrow`, too, across which a function is smooth: nothing happens where
    those cross.
    """
    grid = NodeGrid(np.zeros((1, 0)), np.ones(1))
    planes = [*with_crossings(planes, dims), *narrow]
    if narrow:  # that many nodes are enough between two of them, and no fewer
        piece = max(piece, NARROW_NODES)
    for axis in range(dims):
        ending = [plane for plane in planes if plane.last_axis == axis]
        if any(np.any(np.abs(plane.normal[:axis]) > 1e-12) for plane in ending):
            nodes, weights = moving_panels(
                np.stack([cut(p, grid.points, axis) for p in ending], axis=1), 7, piece
            )
        else:
            breaks = [-plane.offset / plane.normal[axis] for plane in ending]
            nodes, weights = broken_rule(breaks, piece) if breaks else smooth
            nodes = nodes[None, :]
            weights = weights[None, :]
        row, last, mass = with_axis(grid.weights, nodes, weights, 8 * MOST_POINTS)
        if len(row) > MOST_POINTS:
            raise too_many(len(row))
        grid = NodeGrid(
            np.concatenate([grid.points.take(row, axis=0), last[:, None]], axis=1), mass
        )
    return NodeGrid(grid.points, grid.weights / grid.weights.sum())


def cut(plane: Plane, points: Floats, axis: int) -> Floats:
    """Return where a plane cuts an axis, given points (N, axis or more) on the axes
    before it.
    """
    return np.asarray(
        -(plane.offset + points[:, :axis] @ np.array(plane.normal[:axis]))
        / plane.normal[axis]
    )


def moving_panels(breaks: Floats, edges: int, count: int) -> tuple[Floats, Floats]:
    """Return the rule of N(0, 1) for every point, `count` nodes a panel, between even
    edges and its breaks (N, K).
    """
    even = np.broadcast_to(np.linspace(-BOUND, BOUND, edges), (len(breaks), edges))
    together = np.sort(
        np.concatenate([even, np.clip(breaks, -BOUND, BOUND)], axis=1), axis=1
    )
    nodes, weights = gauss_legendre_panels(together, count)
    return nodes, weights * normal_density(nodes)


def with_crossings(planes: Sequence[Plane], dims: int) -> list[Plane]:
    """Add the planes of the earlier axes on which two breaks of a later axis meet:
    there its integral is not smooth.
    """
    if not all(np.isfinite([*plane.normal, plane.offset]).all() for plane in planes):
        raise NotFiniteError("a plane on which the target breaks is not finite")
    together = dict.fromkeys(
        plane for plane in planes if np.any(np.abs(plane.normal) > 1e-12)
    )
    for axis in range(dims - 1, 0, -1):
        ending = [plane for plane in together if plane.last_axis == axis]
        for first, second in itertools.combinations(ending, 2):
            a = np.array(first.normal)
            b = np.array(second.normal)
            normal = a * b[axis] - b * a[axis]
            length = float(np.linalg.norm(normal))
            if length > 1e-9 and len(together) < MOST_PLANES:
                offset = (first.offset * b[axis] - second.offset * a[axis]) / length
                clean = np.where(np.abs(normal) < 1e-9 * length, 0.0, normal) / length
                together.setdefault(
                    Plane(tuple(np.round(clean, 12).tolist()), round(offset, 12))
                )
    return list(together)


def with_axis(
    weights: Floats, nodes: Floats, mass: Floats, most: int
) -> tuple[Integers, Floats, Floats]:
    """Return, for one more axis of rule (N or 1, m), which point each node extends, its
    coordinate and weight.
    """
    if len(weights) * mass.shape[1] > most:
        raise too_many(len(weights) * mass.shape[1])
    joint = weights[:, None] * mass
    kept = np.flatnonzero(joint > NEGLIGIBLE)
    row, column = np.divmod(kept, joint.shape[1])
    return row, nodes.take(column if len(nodes) == 1 else kept), joint.take(kept)


def too_many(count: float) -> InputError:
    """Return the refusal of a product rule with so many nodes."""
    return InputError(
        f"The product rule would need {count:.2g} nodes, more than can be held.",
        Code.TOO_MANY_NODES,
    )
