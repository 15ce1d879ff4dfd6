"""Where a function that is known by its values only is not smooth: jumps, kinks, jumps
of the next two derivatives.

Fourth differences over a step h are of order h^4 where a function is smooth and of
order h^q at a jump of its q-th derivative. Cells in which they fall off too slowly are
divided again and again, until rounding hides them; where the function is smooth after
all, however steep, the division ends before. A weak edge hides behind a strong one
nearby: the search is repeated without differences across the edges that are known,
until there are no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Booleans, Floats

REACH = 16.0
"""Edges are looked for in |z| < REACH."""
_CELLS = 256
_PARTS = 4
_STEPS = 8
_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 512 * _EPS
"""Of a fourth difference, relative to the values: those of sums have more of it than
their last digit.
"""
_FINEST = 16 * _EPS
"""Step, relative to max(1, |z|), below which a cell is not divided any more: what is
left there is a jump.
"""
_GROWTH = 2.5
"""Of the fourth derivative when steps are divided by four: 1 where it exists, 4 at a
jump of f''', more at others.
"""
_LEVELS = 4
"""Divisions that an edge survives before rounding hides it."""
_SEEN = 1e2
"""Times rounding, the difference that an edge shows at first; less is no edge that
matters.
"""
_HIDDEN = 4.0
"""Times rounding, the difference at which the division of an edge ends."""
_MOST = 64
"""Edges above which values are noisy, or there is no end of them: then none is
named.
"""
_ROUNDS = 8
_BLIND = 1e-7
"""Width of cells down to which they are divided beside a known edge, whatever they
show.
"""
_SAME = 1e-9
"""Distance below which two edges are one."""

Edge = tuple[float, float]
"""A place, and how far off it may be."""


class _Cells(NamedTuple):
    """Cells and their largest fourth difference, its place, and whether a known edge
    forbids some (`blind`).
    """

    left: Floats
    derivative: Floats
    visible: Floats
    seen: Floats
    place: Floats
    blind: Booleans

    def kept(self, which: Booleans) -> _Cells:
        return _Cells(*(column[which] for column in self))  # type: ignore[arg-type]


class _Differences(NamedTuple):
    """Fourth differences of a function whose values are of size `scale`, none of them
    across a known edge.
    """

    f: Callable[[Floats], Floats]
    scale: float
    known: list[Edge]

    def look(self, left: Floats, width: float, seen: Floats) -> _Cells:
        """Take differences at steps of an eighth of a cell, centred from one end of it
        to the other.
        """
        nodes = left[:, None] + width / _STEPS * np.arange(-2, _STEPS + 3)
        values = np.asarray(self.f(nodes.ravel()), dtype=float).reshape(nodes.shape)
        values = np.where(np.isfinite(values), values, 0.0)
        size = np.abs(np.diff(values, 4, axis=1))
        blind = np.zeros(len(left), dtype=bool)
        for place, doubt in self.known:
            across = (nodes[:, :-4] <= place + 2 * doubt) & (
                nodes[:, 4:] >= place - 2 * doubt
            )
            size[across] = 0.0
            blind |= across.any(axis=1) & (width > max(_BLIND, 4 * doubt))
        rows = np.arange(len(left))
        largest = np.argmax(size, axis=1)
        difference = size[rows, largest]
        visible = difference / (
            _ROUNDING * np.maximum(np.max(np.abs(values), axis=1), self.scale)
        )
        derivative = difference / (width / _STEPS) ** 4
        seen = np.where(blind, 0.0, np.maximum(seen, visible))
        return _Cells(left, derivative, visible, seen, nodes[rows, 2 + largest], blind)


def find_edges(f: Callable[[Floats], Floats]) -> tuple[float, ...]:
    """Return the places in |z| < 16 where a function is not smooth, in increasing
    order.
    """
    with np.errstate(all="ignore"):
        middle = np.abs(np.asarray(f(np.linspace(-4.0, 4.0, 97)), dtype=float))
        scale = max(
            float(np.nanmedian(np.where(np.isfinite(middle), middle, np.nan))), 1e-300
        )
        known: list[Edge] = []
        for _ in range(_ROUNDS):
            check_time()
            more = _search(_Differences(f, scale, known))
            if more is None or len(more) > _MOST:
                return ()
            edges = _apart([*known, *more])
            if len(edges) == len(known):
                break
            known = edges
    # of the numbers that may be meant, those with the fewest decimals
    shorter = [
        (place, max(doubt, 1e-13), [round(place, n) + 0.0 for n in range(16)])
        for place, doubt in known
    ]
    return tuple(
        next((r for r in short if abs(r - place) <= doubt), place)
        for place, doubt, short in shorter
    )


def _search(differences: _Differences) -> list[Edge] | None:
    """Return the edges that differences show; None where there is no end of them."""
    width = 2 * REACH / _CELLS
    cells = differences.look(
        np.linspace(-REACH, REACH, _CELLS, endpoint=False), width, np.zeros(_CELLS)
    )
    found: list[Edge] = []
    for level in range(1, 40):
        check_time()
        width /= _PARTS
        left: Floats = (cells.left[:, None] + width * np.arange(_PARTS)).ravel()
        parts = differences.look(left, width, np.repeat(cells.seen, _PARTS))
        rough = (parts.visible > 1) & (
            parts.derivative > _GROWTH * np.repeat(cells.derivative, _PARTS)
        )
        hidden = (parts.visible.reshape(-1, _PARTS).max(axis=1) < _HIDDEN) & (
            level > _LEVELS
        )
        found += [
            (float(place), _PARTS * width)
            for place in cells.place[hidden & (cells.seen > _SEEN)]
        ]
        cells = parts.kept(parts.blind | (rough & ~np.repeat(hidden, _PARTS)))
        finest = width / _STEPS < _FINEST * np.maximum(1.0, np.abs(cells.left))
        found += [
            (float(place), width)
            for place in cells.place[finest & (cells.seen > _SEEN)]
        ]
        cells = cells.kept(~finest)
        if len(cells.left) > 4 * _MOST:
            return None
        if not len(cells.left):
            break
    return _apart(found)


def _apart(found: list[Edge]) -> list[Edge]:
    """Return edges that lie apart; of neighbours the one that is known best."""
    edges: list[Edge] = []
    for place, doubt in sorted(found):
        if edges and place - edges[-1][0] <= max(4 * (doubt + edges[-1][1]), _SAME):
            edges[-1] = min(edges[-1], (place, doubt), key=lambda edge: edge[1])
        else:
            edges.append((place, doubt))
    return edges
