"""The search for the best point of a limit: start grids, then local searches, all rows in lockstep."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import minimum_filter  # type: ignore[attr-defined]

from giantstep.design.constraints import MOST_FIELDS, Search
from giantstep.design.limits import ObservedLimit
from giantstep.errors import InputError
from giantstep.solve.minimum import minimise_each
from giantstep.types import Booleans, Floats, Indices

_STARTS = {0: 1, 1: 17, 2: 7, 3: 5, 4: 4}
"""Points of the start grid along each axis, by the number of free fields."""
_LOCAL = 3
"""Local minima of the start grid that are refined, at each point of the grid."""
_FEASIBLE_SCAN = 17
"""Points along each axis at which the constraints alone are tried, to find where they leave room."""
_FEASIBLE_ROWS = 16
"""Rows at which they are tried."""


class Candidate(NamedTuple):
    """A local minimum at one row: the observable, turned so that small is good, and the numeric fields there.

    `problem` and `search` led there; `settled` says that the search ended by itself.
    """

    value: float
    problem: SearchProblem
    search: Search
    fields: dict[str, float]
    settled: bool


@dataclass(eq=False)
class SearchProblem:
    """One combination of choices: a limit, and the searches over its numeric fields.

    `sign` is 1 to minimise, -1 to maximise, `starts` the points of the start grid along each axis, `feasible` (rows,)
    whether some point tried fulfils the constraints.
    """

    choice: dict[str, Any]
    limits: ObservedLimit
    searches: list[Search]
    sign: float
    starts: int | None = None
    feasible: Booleans = field(init=False)

    def __post_init__(self) -> None:
        self.feasible = np.zeros(self.limits.size, dtype=bool)

    def at(self, search: Search, fields: Mapping[str, Floats], rows: Indices) -> Floats:
        """Return the turned observable, given the free fields; NaN where it has no value."""
        columns, feasible = self._complete(search, fields, rows)
        self.feasible[rows[feasible]] = True
        values = np.full(len(rows), np.nan)
        allowed = {name: columns[name][feasible] for name in search.ranges}
        values[feasible] = self.sign * self.limits(rows[feasible], allowed)
        return values

    def _complete(
        self, search: Search, fields: Mapping[str, Floats], rows: Indices
    ) -> tuple[dict[str, Floats], Booleans]:
        named = dict.fromkeys(name for relation in search.relations for name in relation.names)
        constants = {name: self.limits.field(name, rows) for name in named if name not in search.ranges}
        return search.complete({**constants, **fields}, len(rows))

    def points(self, rows: int) -> int:
        """Return about how many points `solve` asks for: as many again after the start grid, to refine its minima."""
        free = [len(search.free) for search in self.searches]
        return 2 * rows * sum((self.starts or _STARTS.get(k, 1)) ** k for k in free)

    def solve(self, rows: Indices) -> dict[int, list[Candidate]]:
        """Return the local minima that all searches found at some rows.

        Each scans a grid of its free fields, and refines the best local minima of that.
        """
        found: dict[int, list[Candidate]] = {int(row): [] for row in rows}
        for search in self.searches:
            free = search.free
            if len(free) > MOST_FIELDS:
                raise InputError(f"At most {MOST_FIELDS} free numeric fields are searched over, not {len(free)}.")
            count = self.starts or _STARTS[len(free)]
            low, high = self._room(search, rows)
            start = _product([np.linspace(*ends, count) for ends in zip(low, high)])
            everywhere = _fields(search, np.tile(start, (len(rows), 1)))
            values = self.at(search, everywhere, np.repeat(rows, len(start))).reshape(len(rows), len(start))
            owner, place = _lowest_minima(values, (count,) * len(free))
            x, best, settled = start[place], values[owner, place], np.ones(len(owner), dtype=bool)
            if free:
                turned = partial(self._turned, search, rows[owner])
                x, best, settled = minimise_each(turned, x, (high - low) / max(count - 1, 1), low, high)
            columns, _ = self._complete(search, _fields(search, x), rows[owner])
            for index, row in enumerate(rows[owner].tolist()):
                fields = {name: float(columns[name][index]) for name in search.ranges}
                found[row].append(Candidate(float(best[index]), self, search, fields, bool(settled[index])))
        return found

    def _turned(self, search: Search, rows: Indices, x: Floats, index: Indices) -> Floats:
        return self.at(search, _fields(search, x), rows[index])

    def _room(self, search: Search, rows: Indices) -> tuple[Floats, Floats]:
        """Return the box of the free coordinates in which constraints leave room, a scan point more each way."""
        low, high = np.array([span.ends for span in search.free]).reshape(-1, 2).T
        if not (search.relations and search.free):
            return low, high
        scan = _product([np.linspace(*span.ends, _FEASIBLE_SCAN) for span in search.free])
        some = np.unique(rows[np.linspace(0, len(rows) - 1, min(len(rows), _FEASIBLE_ROWS)).astype(int)])
        points = np.tile(scan, (len(some), 1))
        feasible = self._complete(search, _fields(search, points), np.repeat(some, len(scan)))[1]
        if not feasible.any():
            return low, high
        spacing = (high - low) / (_FEASIBLE_SCAN - 1)
        inside = points[feasible]
        return np.maximum(inside.min(axis=0) - spacing, low), np.minimum(inside.max(axis=0) + spacing, high)


def _product(lines: list[Floats]) -> Floats:
    return np.array(list(itertools.product(*lines)), dtype=np.float64)


def _fields(search: Search, coordinates: Floats) -> dict[str, Floats]:
    """Return the free fields at coordinates (M, k)."""
    return {span.name: span.value(coordinates[:, axis]) for axis, span in enumerate(search.free)}


def _lowest_minima(values: Floats, shape: tuple[int, ...]) -> tuple[Indices, Indices]:
    """Return (row, position) of the lowest local minima of grids of values (R, G), NaN never among them."""
    grids = np.where(np.isnan(values), np.inf, values).reshape(len(values), *shape)
    around = minimum_filter(grids, size=(1, *[3] * len(shape)), mode="constant", cval=np.inf)
    ranked = np.where(grids == around, grids, np.inf).reshape(values.shape)
    order = np.argsort(ranked, axis=1, kind="stable")[:, :_LOCAL]
    rows, ranks = np.nonzero(np.isfinite(np.take_along_axis(ranked, order, axis=1)))
    return rows, order[rows, ranks]
