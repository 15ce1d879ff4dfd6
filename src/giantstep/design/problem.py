"""The search for the best point of a limit: start grids, then local searches, all rows in lockstep."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from giantstep.design.constraints import Search
from giantstep.design.limits import Limits
from giantstep.design.ranges import MOST_FIELDS
from giantstep.errors import InputError
from giantstep.solve.minimum import minimise_each, stencil_offsets
from giantstep.types import Booleans, Floats, Indices

_STARTS = {0: 1, 1: 17, 2: 7, 3: 5, 4: 4}
"""Points of the start grid along each axis, by the number of free fields."""
_LOCAL = 3
"""Local minima of the start grid that are refined, at each point of the grid."""
_FEASIBLE_SCAN = 17
"""Points along each axis at which the constraints alone are tried, to find where they leave room."""
_FEASIBLE_ROWS = 16
"""Rows at which they are tried."""


@dataclass
class Candidates:
    """Local minima of all rows.

    Attributes
    ----------
    row : (S,) whose.
    value : (S,) the observable there, turned so that small is good.
    columns : field -> (S,) values of the numeric fields.
    origin : (S,) number of the search that led there.
    settled : (S,) whether that search ended by itself.
    """

    row: Indices
    value: Floats
    columns: dict[str, Floats]
    origin: Indices
    settled: Booleans


@dataclass
class Problem:
    """One combination of choices: a limit, and the searches over its numeric fields.

    Attributes
    ----------
    choice : field -> what was chosen.
    limits : the observable.
    searches : see `giantstep.design.constraints.searches`.
    sign : 1 to minimise, -1 to maximise.
    starts : points of the start grid along each axis.
    """

    choice: dict[str, Any]
    limits: Limits
    searches: list[Search]
    sign: float
    starts: int | None = None
    feasible: Booleans = field(init=False)

    def __post_init__(self) -> None:
        self.feasible = np.zeros(self.limits.size, dtype=bool)

    def evaluate(self, search: Search, free: Floats, rows: Indices) -> Floats:
        """Return the turned observable at coordinates (M, k) of the free fields; NaN where it has no value."""
        fields = {span.name: span.value(free[:, axis]) for axis, span in enumerate(search.free)}
        return self.at(search, fields, rows)[0]

    def at(self, search: Search, fields: Mapping[str, Floats], rows: Indices) -> tuple[Floats, dict[str, Floats]]:
        """Return the turned observable and all fields searched over, given the free ones."""
        constants = {name: self.limits.field(name, rows) for name in search.constants()}
        columns, feasible = search.complete({**constants, **fields}, len(rows))
        self.feasible[rows[feasible]] = True
        searched = {name: columns[name] for name in search.ranges}
        values = np.full(len(rows), np.nan)
        allowed = {name: column[feasible] for name, column in searched.items()}
        values[feasible] = self.sign * self.limits(rows[feasible], allowed)
        return values, searched

    def points(self, rows: Indices) -> int:
        """Return about how many points `solve` asks for: as many again after the start grid, to refine its minima."""
        free = [len(search.free) for search in self.searches]
        return 2 * len(rows) * sum((self.starts or _STARTS.get(k, 1)) ** k for k in free)

    def solve(self, rows: Indices) -> Candidates:
        """Return the local minima of all searches at some rows."""
        parts = [self._minima(number, search, rows) for number, search in enumerate(self.searches)]
        names = list(parts[0].columns)
        return Candidates(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.value for part in parts]),
            {name: np.concatenate([part.columns[name] for part in parts]) for name in names},
            np.concatenate([part.origin for part in parts]),
            np.concatenate([part.settled for part in parts]),
        )

    def _minima(self, number: int, search: Search, rows: Indices) -> Candidates:
        """Scan a grid of the free fields, then refine its best local minima."""
        free = search.free
        if len(free) > MOST_FIELDS:
            raise InputError(f"At most {MOST_FIELDS} free numeric fields are searched over, not {len(free)}.")
        count = self.starts or _STARTS[len(free)]
        low, high = self._room(search, rows)
        lines = [np.linspace(*ends, count) for ends in zip(low, high)]
        start = np.array(list(itertools.product(*lines))).reshape(count ** len(free), len(free))
        everywhere = np.tile(start, (len(rows), 1))
        values = self.evaluate(search, everywhere, np.repeat(rows, len(start))).reshape(len(rows), len(start))
        owner, place = _lowest_minima(values, (count,) * len(free))
        spacing = (high - low) / max(count - 1, 1)
        if free:
            found = minimise_each(
                lambda x, index: self.evaluate(search, x, rows[owner[index]]), start[place], spacing, low, high,
                _first_stencils(values[owner], place, count, len(free)),
            )  # fmt: skip
            coordinates, best, settled = found.x, found.value, found.settled
        else:
            coordinates, best, settled = start[place], values[owner, place], np.ones(len(owner), dtype=bool)
        fields = {span.name: span.value(coordinates[:, axis]) for axis, span in enumerate(free)}
        constants = {name: self.limits.field(name, rows[owner]) for name in search.constants()}
        columns = search.complete({**constants, **fields}, len(owner))[0]
        searched = {name: columns[name] for name in search.ranges}
        return Candidates(rows[owner], best, searched, np.full(len(owner), number), settled)

    def _room(self, search: Search, rows: Indices) -> tuple[Floats, Floats]:
        """Return the box of the free coordinates in which constraints leave room, a scan point more each way."""
        free = search.free
        low, high = np.array([span.ends for span in free]).reshape(-1, 2).T
        if not (search.relations and free):
            return low, high
        lines = [np.linspace(*span.ends, _FEASIBLE_SCAN) for span in free]
        scan = np.array(list(itertools.product(*lines)))
        some = np.unique(rows[np.linspace(0, len(rows) - 1, min(len(rows), _FEASIBLE_ROWS)).astype(int)])
        points, owner = np.tile(scan, (len(some), 1)), np.repeat(some, len(scan))
        fields = {span.name: span.value(points[:, axis]) for axis, span in enumerate(free)}
        constants = {name: self.limits.field(name, owner) for name in search.constants()}
        feasible = search.complete({**constants, **fields}, len(owner))[1]
        if not feasible.any():
            return low, high
        spacing = (high - low) / (_FEASIBLE_SCAN - 1)
        inside = points[feasible]
        return np.maximum(inside.min(axis=0) - spacing, low), np.minimum(inside.max(axis=0) + spacing, high)


def _first_stencils(values: Floats, place: Indices, count: int, k: int) -> Floats:
    """Return the values (S, P) of grids (S, count^k) on the stencils around places, moved inside from the edges."""
    centre = np.stack(np.unravel_index(place, (count,) * k), axis=1)
    nodes = np.clip(centre, 1, count - 2)[:, None, :] + stencil_offsets(k).astype(int)
    flat = np.ravel_multi_index(tuple(np.moveaxis(nodes, -1, 0)), (count,) * k)
    return np.take_along_axis(values, flat, axis=1)


def _lowest_minima(values: Floats, shape: tuple[int, ...]) -> tuple[Indices, Indices]:
    """Return (row, position) of the lowest local minima of grids of values (R, G), NaN never among them."""
    grids = np.where(np.isnan(values), np.inf, values).reshape(len(values), *shape)
    padded = np.pad(grids, [(0, 0), *[(1, 1)] * len(shape)], constant_values=np.inf)
    lowest = np.isfinite(grids)
    for offset in itertools.product(range(3), repeat=len(shape)):
        window = tuple(slice(first, first + size) for first, size in zip(offset, shape))
        lowest &= grids <= padded[(slice(None), *window)]
    ranked = np.where(lowest.reshape(values.shape), grids.reshape(values.shape), np.inf)
    order = np.argsort(ranked, axis=1, kind="stable")[:, :_LOCAL]
    taken = np.isfinite(np.take_along_axis(ranked, order, axis=1))
    rows, ranks = np.nonzero(taken)
    return rows, order[rows, ranks]
