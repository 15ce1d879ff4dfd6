"""Planes on which a function of several Gaussian variables is not smooth, and where
those of a callable are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.edges import find_edges


class Plane(NamedTuple):
    """Points with <normal, z> + offset = 0, where a target is not smooth."""

    normal: tuple[float, ...]
    offset: float

    def within(self, dimensions: int) -> Plane:
        """Return the plane in more dimensions, along the new ones."""
        return Plane(
            (*self.normal, *(0.0,) * (dimensions - len(self.normal))), self.offset
        )

    def is_near(self, other: Plane) -> bool:
        """Tell whether two planes are one, up to the error with which they are
        found.
        """
        own = np.array([*self.normal, self.offset])
        others = np.array([*other.normal, other.offset])
        return bool(
            min(np.max(np.abs(own - others)), np.max(np.abs(own + others))) < 1e-6
        )

    @property
    def last_axis(self) -> int:
        """The last axis that the plane cuts."""
        return max(axis for axis, part in enumerate(self.normal) if abs(part) > 1e-12)


def turned_planes(planes: Iterable[Plane], basis: Floats) -> list[Plane]:
    """Return planes in coordinates u with z = basis u and |normal| = 1; those that cut
    no axis of u are left out.
    """
    turned = []
    for plane in planes:
        normal = np.array(plane.normal) @ basis
        length = float(np.linalg.norm(normal))
        if not length <= 1e-9:  # what is not finite is refused by who reads it
            clean = np.where(np.abs(normal) < 1e-12 * length, 0.0, normal) / length
            turned.append(Plane(tuple(clean.tolist()), plane.offset / length))
    return turned


def plane_through(normal: Floats, offset: float) -> Plane | None:
    """Return the plane with |normal| = 1 and its first large entry positive, or None
    for a constant.
    """
    length = float(np.linalg.norm(normal))
    if length < 1e-12:
        return None
    if normal[np.argmax(np.abs(normal) > 1e-9 * length)] > 0:
        sign = 1.0
    else:
        sign = -1.0
    scaled = np.where(np.abs(normal) < 1e-12 * length, 0.0, sign * normal / length)
    return Plane(
        tuple(np.round(scaled, 14).tolist()), round(sign * offset / length, 14) + 0.0
    )


# -- the planes of a callable ----------------------------------------------------------


LINES = {2: 12, 3: 16, 4: 20, 5: 24, 6: 28}
"""Straight lines along which edges are looked for, by the number of directions."""
_NEAR = 7.0
"""Edges farther from the origin are of no weight."""
_ON_PLANE = 1e-6
"""Distance up to which an edge lies on a plane."""
_MOST_TRIED = 20_000
"""Planes through some of the edges that are tried."""
_MOST_FOUND = 12


def find_planes(f: Callable[[Floats], Floats], directions: int) -> tuple[Plane, ...]:
    """Return the planes on which a function of arrays (N, k) is not smooth, from its
    edges along straight lines.

    A plane is one that holds more of the edges than chance would put there. Edges on
    curved sets, and planes that cut nothing but lines that were not drawn, stay
    unknown: they show in the measured error.
    """
    edges = _edges_on_lines(f, directions)
    rng = np.random.default_rng(directions)
    found: list[Plane] = []
    wanted = directions + 3
    while len(edges) >= wanted and len(found) < _MOST_FOUND:
        normals, offsets = _planes_through(edges, directions, rng)
        if not len(normals):
            break
        inside = np.abs(edges @ normals.T + offsets) < _ON_PLANE
        best = int(np.argmax(inside.sum(axis=0)))
        members = inside[:, best]
        if members.sum() < wanted:
            break
        plane = _fitted(edges[members])
        if plane is not None:
            found.append(plane)
        edges = edges[~members]
    return tuple(found)


def _edges_on_lines(f: Callable[[Floats], Floats], directions: int) -> Floats:
    """Return points (N, k) at which the function is not smooth along some straight
    line.
    """
    rng = np.random.default_rng(1000 + directions)
    points = [np.zeros((0, directions))]
    for _ in range(LINES[directions]):
        base = rng.standard_normal(directions)
        along = rng.standard_normal(directions)
        along /= np.linalg.norm(along)
        places = np.array(find_edges(partial(_on_line, f, base, along)), dtype=float)
        points.append(base + places[:, None] * along)
    together = np.concatenate(points)
    return together[np.linalg.norm(together, axis=1) < _NEAR]


def _on_line(
    f: Callable[[Floats], Floats], base: Floats, along: Floats, t: Floats
) -> Floats:
    return f(base + t[:, None] * along)


def _planes_through(
    edges: Floats, k: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return unit normals (S, k) and offsets (S,) of planes through k of the edges
    each.
    """
    if len(edges) < 80 and k == 2:
        chosen = np.array(list(itertools.combinations(range(len(edges)), 2)))
    else:
        chosen = rng.integers(len(edges), size=(_MOST_TRIED, k))
    corners = edges[chosen]
    _, sizes, spans = np.linalg.svd(corners[:, 1:] - corners[:, :1])
    # points that nearly lie on something smaller than a plane say nothing about it
    apart = sizes[:, -1] > 1e-2
    normals = spans[apart, -1]
    return normals, -np.einsum("sk,sk->s", normals, corners[apart, 0])


def _fitted(points: Floats) -> Plane | None:
    """Return the plane through many points; numbers that are round up to the error of
    the points become round.
    """
    centre = points.mean(axis=0)
    normal = np.linalg.svd(points - centre)[2][-1]
    normal = np.where(np.abs(normal) < 1e-9, 0.0, normal)
    normal = normal / np.linalg.norm(normal)
    offset = -float(normal @ centre)
    return plane_through(np.round(normal, 12), round(offset, 10))
