"""Product rules for E f(z), z ~ N(0, I_r), that break where f is not smooth.

Axis by axis: an axis without a break gets a Gauss-Hermite rule, one that breaks at fixed points the Gauss rule of the
Gaussian weight on every piece, and one whose breaks depend on the axes before it (planes across the axes)
Gauss-Legendre panels between them. All rules are symmetric where the breaks are, so that zeros by symmetry are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from giantstep.errors import Code, InputError, NotFiniteError
from giantstep.gaussian.quadrature import gauss_legendre_panels, kept_rule, normal_density, trapezoid_rule
from giantstep.gaussian.target import Plane
from giantstep.types import Floats, Integers

MOST_POINTS = 5_000_000
"""Product rules with more points than this are refused."""
BOUND = 9.0
MOST_PLANES = 24
NEGLIGIBLE = 1e-19
"""Points of less weight are left out."""


class NodeGrid(NamedTuple):
    """Points (N, r) and weights (N,) that sum to one."""

    points: Floats
    weights: Floats


def hermite_rule(count: int) -> tuple[Floats, Floats]:
    """Return the Gauss-Hermite nodes and weights of N(0, 1); exact up to degree 2 count - 1."""
    nodes, weights = kept_rule("hermite", count)
    return nodes, weights / weights.sum()


def even_rule(step: float, bound: float = BOUND) -> tuple[Floats, Floats]:
    """Return the trapezoid rule of N(0, 1) on [-bound, bound]: for analytic functions that vary on a small scale."""
    nodes, weights = trapezoid_rule(step, bound)
    return nodes, weights / weights.sum()


def interval_rule(low: float, high: float, count: int) -> tuple[Floats, Floats]:
    """Return the Gauss rule of the N(0, 1) density on [low, high]: exact for polynomials of degree 2 count - 1.

    That of a fine Legendre discretisation.

    >>> nodes, weights = interval_rule(0.0, np.inf, 6)
    >>> round(float(weights @ nodes**2), 12), round(float(weights @ nodes), 12)
    (0.5, 0.398942280401)
    """
    low, high = max(low, -BOUND - 3), min(high, BOUND + 3)
    fine, measure = gauss_legendre_panels(np.linspace(low, high, 33), 24)
    return gauss_rule(fine, measure * normal_density(fine), count)


def gauss_rule(points: Floats, masses: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the Gauss rule of a discrete measure: by Lanczos' recurrence on its points, orthogonalised twice.

    >>> nodes, weights = gauss_rule(np.linspace(0.0, 1.0, 50), np.full(50, 0.02), 6)
    >>> round(float(weights @ nodes**11), 12) == round(float(np.mean(np.linspace(0.0, 1.0, 50) ** 11)), 12)
    True
    """
    mass = masses.sum()
    basis = np.empty((count, len(points)))
    basis[0] = np.sqrt(masses / mass)
    diagonal, side = np.empty(count), np.empty(max(count - 1, 0))
    for j in range(count):
        moved = points * basis[j]
        diagonal[j] = basis[j] @ moved
        if j + 1 < count:
            for _ in range(2):
                moved = moved - (basis[: j + 1] @ moved) @ basis[: j + 1]
            side[j] = np.linalg.norm(moved)
            basis[j + 1] = moved / side[j]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1))
    return nodes, mass * vectors[0] ** 2


def broken_rule(breaks: Sequence[float], count: int) -> tuple[Floats, Floats]:
    """Return the rule on the line that breaks at ``breaks``, with ``count`` nodes on every piece."""
    inside = sorted({float(b) for b in breaks if -BOUND < b < BOUND})
    if not inside:
        return hermite_rule(2 * count)
    ends = [-np.inf, *inside, np.inf]
    pieces = [interval_rule(low, high, count) for low, high in zip(ends, ends[1:])]
    nodes = np.concatenate([piece[0] for piece in pieces])
    weights = np.concatenate([piece[1] for piece in pieces])
    if np.allclose(np.sort(-np.array(inside)), inside, rtol=0, atol=1e-13):
        nodes, weights = 0.5 * (nodes - nodes[::-1]), 0.5 * (weights + weights[::-1])
    return nodes, weights / weights.sum()


def product_grid(dims: int, planes: Sequence[Plane], smooth: tuple[Floats, Floats], piece: int) -> NodeGrid:
    """Return the product rule in ``dims`` dimensions that breaks on ``planes``.

    An axis without breaks has the rule `smooth` (`hermite_rule` or `even_rule`), one with breaks `piece` nodes between
    two.
    """
    grid = NodeGrid(np.zeros((1, 0)), np.ones(1))
    planes = with_crossings(planes, dims)
    for axis in range(dims):
        ending = [plane for plane in planes if plane.last_axis == axis]
        if any(np.any(np.abs(plane.normal[:axis]) > 1e-12) for plane in ending):
            nodes, weights = _moving_rule(grid.points, ending, axis, piece)
        else:
            breaks = [-plane.offset / plane.normal[axis] for plane in ending]
            nodes, weights = broken_rule(breaks, piece) if breaks else smooth
            nodes, weights = nodes[None, :], weights[None, :]
        row, last, mass = with_axis(grid.weights, nodes, weights, 8 * MOST_POINTS)
        if len(row) > MOST_POINTS:
            raise too_many(len(row))
        grid = NodeGrid(np.concatenate([grid.points.take(row, axis=0), last[:, None]], axis=1), mass)
    return NodeGrid(grid.points, grid.weights / grid.weights.sum())


def with_crossings(planes: Sequence[Plane], dims: int) -> list[Plane]:
    """Add the planes of the earlier axes on which two breaks of a later axis meet: there its integral is not smooth."""
    if not all(np.isfinite([*plane.normal, plane.offset]).all() for plane in planes):
        raise NotFiniteError("a plane on which the target breaks is not finite")
    together = dict.fromkeys(plane for plane in planes if np.any(np.abs(plane.normal) > 1e-12))
    for axis in range(dims - 1, 0, -1):
        ending = [plane for plane in together if plane.last_axis == axis]
        for first, second in itertools.combinations(ending, 2):
            a, b = np.array(first.normal), np.array(second.normal)
            normal = a * b[axis] - b * a[axis]
            length = float(np.linalg.norm(normal))
            if length > 1e-9 and len(together) < MOST_PLANES:
                offset = (first.offset * b[axis] - second.offset * a[axis]) / length
                clean = np.where(np.abs(normal) < 1e-9 * length, 0.0, normal) / length
                together.setdefault(Plane(tuple(np.round(clean, 12).tolist()), round(offset, 12)))
    return list(together)


def with_axis(weights: Floats, nodes: Floats, mass: Floats, most: int) -> tuple[Integers, Floats, Floats]:
    """Return, for one more axis, which point each node extends, its coordinate and its weight.

    The rule of the axis, `nodes` and `mass`, is that of every point so far (N, m), or (1, m). More than `most` nodes,
    those of negligible weight included, are refused.
    """
    if len(weights) * mass.shape[1] > most:
        raise too_many(len(weights) * mass.shape[1])
    joint = weights[:, None] * mass
    kept = np.flatnonzero(joint > NEGLIGIBLE)
    row, column = np.divmod(kept, joint.shape[1])
    return row, nodes.take(column if len(nodes) == 1 else kept), joint.take(kept)


def too_many(count: float) -> InputError:
    """Return the refusal of a product rule with so many nodes."""
    return InputError(f"The product rule would need {count:.2g} nodes, more than can be held.", Code.TOO_MANY_NODES)


def _moving_rule(points: Floats, planes: Sequence[Plane], axis: int, piece: int) -> tuple[Floats, Floats]:
    """Return nodes and weights (N, m) of an axis whose breaks depend on the point so far."""
    breaks = [-(plane.offset + points @ np.array(plane.normal[:axis])) / plane.normal[axis] for plane in planes]
    fixed = np.broadcast_to(np.linspace(-BOUND, BOUND, 7), (len(points), 7))
    moving = np.clip(np.stack(breaks, axis=1), -BOUND, BOUND)
    edges = np.sort(np.concatenate([fixed, moving], axis=1), axis=1)
    nodes, weights = gauss_legendre_panels(edges, piece)
    return nodes, weights * normal_density(nodes)
