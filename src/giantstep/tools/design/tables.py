"""Results of design questions: datasets that are shown as a table, in plain text and in
a notebook.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from giantstep.core.base.display import (
    MOST_ROWS,
    Block,
    Table,
    blocks_text,
    inside_sentence,
)
from giantstep.core.result.provenance import provenance
from giantstep.core.result.table import about_field
from giantstep.core.result.text import Result
from giantstep.core.run.request import Request
from giantstep.tools.design.limits import ObservedLimit


class DesignResult(Result):
    """A Dataset that is shown as a table: a headline, a row for each point of the grid,
    the remarks.

    Its attribute ``headline`` is the first line and ``shown`` lists the columns, as
    JSON.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        if self._is_whole():
            return blocks_text(self.shown_blocks())
        return super().__repr__()

    def shown_blocks(self) -> list[Block]:
        """Return the headline, the table and the remarks."""
        if not self._is_whole():
            return super().shown_blocks()
        shown = [name for name in json.loads(self.attrs["shown"]) if name in self]
        grid = [str(dim) for dim in self["converged"].dims]
        rows = []
        remarks = list[str]()
        for entry in _places(self, grid):
            point = self.isel(entry)
            place = {
                dim: _cell(dim, point[dim].values[()])
                for dim in grid
                if dim in point.coords
            }
            rows.append({**place, **_cells(point, shown)})
            where = ", ".join(f"{dim} = {value}" for dim, value in place.items())
            said = [
                str(point[name].values)
                for name in ("status", "remark", "checked")
                if name in point
            ]
            remarks += [": ".join(filter(None, [where, text])) for text in said if text]
        blocks: list[Block] = [str(self.attrs["headline"])]
        if grid:
            blocks += _table(rows)
        else:
            blocks += _single(self, shown)
        more = []
        if len(remarks) > MOST_ROWS:
            more.append(f"({len(remarks) - MOST_ROWS} more)")
        if remarks:
            return [*blocks, "", *remarks[:MOST_ROWS], *more]
        return blocks

    def _is_whole(self) -> bool:
        """Tell whether the columns of the table are still there."""
        return (
            "shown" in self.attrs
            and "converged" in self
            and any(n in self for n in json.loads(self.attrs["shown"]))
        )


def design_result(
    request: Request,
    limits: Sequence[ObservedLimit],
    engine: str,
    columns: Mapping[str, tuple[tuple[str, ...], Any, Mapping[str, str] | str]],
    coords: Mapping[str, Any],
    settings: Mapping[str, Any],
    headline: tuple[str, str],
    **extra: Any,
) -> DesignResult:
    """Return the result of a design question.

    A column is its own dimensions, its values (points of the grid, ...), and its
    attributes or their ``long_name``; `coords` are those of own dimensions, `settings`
    and `extra` for the provenance. The `headline` is what stands before and behind the
    title of the scenario.
    """
    grid = request.grid
    data = {}
    for name, (own, values, about) in columns.items():
        laid_out = np.reshape(values, (*grid.shape, *np.shape(values)[1:]))
        attrs = {"long_name": about} if isinstance(about, str) else about
        data[name] = ((*grid.dims, *own), laid_out, attrs)
    fields = {
        name: (dims, values, about_field(grid.scenario, name))
        for name, (dims, values) in grid.coords.items()
    }
    settings = {**settings, **request.shown(), "tolerance": request.tolerance}
    said = {
        "headline": inside_sentence(grid.scenario.title).join(headline),
        "observable": limits[0].observable.text,
        "theory": "; ".join(
            dict.fromkeys(theory for limit in limits for theory in limit.theories)
        ),
        **extra,
    }
    return DesignResult(
        data,
        {**fields, **coords},
        provenance(grid, request.what, engine, settings, said),
    )


def _single(result: xarray.Dataset, shown: Sequence[str]) -> list[Block]:
    """Return the numbers of one point, and a row for each entry of the variables that
    have some.
    """
    wide = [name for name in shown if result[name].dims]
    dims = list(dict.fromkeys(str(dim) for name in wide for dim in result[name].dims))
    labels = {str(label) for dim in dims for label in result[dim].values}
    alone = [
        name
        for name in shown
        if name not in {*wide, *labels} and not _is_error(name, shown)
    ]
    said = [f"{name} = {_with_error(result, name, shown)}" for name in alone]
    blocks: list[Block] = []
    if said:
        blocks += ["", *said]
    for dim in dims:
        rows = []
        for index, label in enumerate(result[dim].values):
            if str(label) in shown:
                value = {"value": _cell("", result[str(label)].values[()])}
            else:
                value = {}
            own = [
                name
                for name in wide
                if dim in result[name].dims and not _is_error(name, shown)
            ]
            entries = {
                name.replace("_", " "): _with_error(result, name, shown, index)
                for name in own
            }
            if any(
                cell not in ("", "-") for cell in (*value.values(), *entries.values())
            ):
                rows.append({dim: str(label), **value, **entries})
        if rows:
            blocks += _table(rows)
    return blocks


def _is_error(name: str, shown: Sequence[str]) -> bool:
    """Tell whether a column is the standard error of another one, and stands beside it
    in one cell.
    """
    return name.endswith("_stderr") and name.removesuffix("_stderr") in shown


def _with_error(
    result: xarray.Dataset, name: str, shown: Sequence[str], index: Any = ()
) -> str:
    """Return an entry as text, with its standard error where that is shown."""
    cell = _cell(name, result[name].values[index])
    error = f"{name}_stderr"
    if error not in shown or cell == "-":
        return cell
    return f"{cell} +- {_cell(error, result[error].values[index])}"


def _places(result: xarray.Dataset, dims: Sequence[str]) -> list[dict[str, int]]:
    """Return every place along some dimensions."""
    return [
        dict(zip(dims, index))
        for index in np.ndindex(*(result.sizes[dim] for dim in dims))
    ]


def _cells(point: xarray.Dataset, shown: Sequence[str]) -> dict[str, str]:
    """Return the columns of one point; a variable with own dimensions has a column for
    each entry.
    """
    cells = {}
    for name in shown:
        if _is_error(name, shown):
            continue
        own = [str(dim) for dim in point[name].dims]
        for entry in _places(point, own):
            label = ", ".join(
                str(point[dim].values[position]) for dim, position in entry.items()
            )
            head = name.replace("_", " ") if name in _HEADS else name
            cells[f"{head} {label}".strip()] = _with_error(
                point.isel(entry), name, shown
            )
    return cells


_HEADS = (
    "worse_at_half",
    "worse_at_twice",
    "measured_worse_at_half",
    "measured_worse_at_twice",
    "derivative",
    "elasticity",
)
"""Variables whose columns are headed by words, the entry behind them."""
_ERRORS = ("derivative_error", "elasticity_error")
"""Errors, of which two digits say enough."""


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str | np.str_):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    number = float(value)
    is_worse = "worse_at" in name
    if name.endswith("_stderr"):
        if is_worse:
            return f"{number:.2g}%"
        return f"{number:.2g}"
    if math.isnan(number) or (is_worse and math.isinf(number)):
        return "-"
    if is_worse:
        if number < -1e-6:
            return f"{-number:.3g}% better"
        return f"{max(number, 0.0):+.3g}%"
    if name in _ERRORS:
        return f"{number:.2g}"
    return f"{number:.6g}"


def _table(rows: Sequence[dict[str, str]]) -> list[Block]:
    """Return a table below an empty line, without its empty columns."""
    heads = list(dict.fromkeys(head for row in rows for head in row))
    heads = [head for head in heads if any(row.get(head, "-") != "-" for row in rows)]
    cells = []
    for row in rows:
        cells.append([row.get(head, "-") for head in heads])
    return ["", Table(tuple(heads), cells, MOST_ROWS)]
