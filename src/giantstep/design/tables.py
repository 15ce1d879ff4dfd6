"""Results of design questions: datasets that are shown as a table, in plain text and in a notebook."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import xarray

from giantstep.display import html_table
from giantstep.listing import Result
from giantstep.request import Request
from giantstep.result import about_field, provenance
from giantstep.texttable import MOST_ROWS, is_words, text_table, without_middle


class DesignResult(Result):
    """A Dataset that is shown as a table: a headline, a row for each point of the grid, the remarks.

    Its attribute ``headline`` is the first line and ``shown`` lists the columns, as JSON.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        return result_text(self) if self._is_whole() else super().__repr__()

    def _listing(self) -> str:
        return result_html(self) if self._is_whole() else super()._listing()

    def _is_whole(self) -> bool:
        """Tell whether the columns of the table are still there."""
        return "shown" in self.attrs and "converged" in self and any(n in self for n in json.loads(self.attrs["shown"]))


class ShownParts(NamedTuple):
    """What is shown of a design question: a headline, lines and tables below it, and remarks."""

    headline: str
    body: list[str | list[dict[str, str]]]
    remarks: list[str]


def design_result(
    request: Request,
    engine: str,
    columns: Mapping[str, tuple[tuple[str, ...], Any, Mapping[str, str] | str]],
    coords: Mapping[str, Any],
    settings: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> DesignResult:
    """Return the result of a design question.

    Parameters
    ----------
    columns : variable -> (its own dimensions, values (points of the grid, ...), its attributes or their ``long_name``).
    coords : coordinates of own dimensions.
    settings, extra : for the provenance.
    """
    grid = request.grid
    data = {
        name: (
            (*grid.dims, *own),
            np.reshape(values, (*grid.shape, *np.shape(values)[1:])),
            {"long_name": about} if isinstance(about, str) else about,
        )
        for name, (own, values, about) in columns.items()
    }
    fields = {name: (dims, values, about_field(grid.scenario, name)) for name, (dims, values) in grid.coords.items()}
    return DesignResult(data, {**fields, **coords}, provenance(grid, request.what, engine, settings, extra))


def result_text(result: xarray.Dataset) -> str:
    """Return a result of a design question as plain text."""
    parts = _parts(result)
    lines = [parts.headline]
    for part in parts.body:
        lines += [part] if isinstance(part, str) else ["", *text_table(*_cells_of(part), MOST_ROWS)]
    return "\n".join([*lines, "", *_cut(parts.remarks)] if parts.remarks else lines)


def result_html(result: xarray.Dataset) -> str:
    """Return a result of a design question as HTML."""
    parts = _parts(result)
    said = [f"<div><b>{escape(parts.headline)}</b></div>"]
    for part in parts.body:
        if isinstance(part, str):
            said.append(f"<div>{escape(part)}</div>")
        else:
            heads, cells = _cells_of(part)
            right = [number for number, column in enumerate(zip(*cells)) if not is_words(column)]
            said.append(html_table(heads, without_middle(cells, MOST_ROWS), right))
    return "".join([*said, *(f"<div>{escape(remark)}</div>" for remark in _cut(parts.remarks))])


def _parts(result: xarray.Dataset) -> ShownParts:
    shown = [name for name in json.loads(result.attrs["shown"]) if name in result]
    grid = [str(dim) for dim in result["converged"].dims]
    body: list[str | list[dict[str, str]]] = [_rows(result, shown, grid)] if grid else _single(result, shown)
    return ShownParts(str(result.attrs["headline"]), body, _remarks(result, grid))


def _rows(result: xarray.Dataset, shown: Sequence[str], grid: Sequence[str]) -> list[dict[str, str]]:
    """Return a row for each point of a grid."""
    points = [result.isel(index) for index in _places(result, grid)]
    return [{**_place(point, grid), **_cells(point, shown)} for point in points]


def _single(result: xarray.Dataset, shown: Sequence[str]) -> list[str | list[dict[str, str]]]:
    """Return the numbers of one point, and a row for each entry of the variables that have some."""
    wide = [name for name in shown if result[name].dims]
    dims = list(dict.fromkeys(str(dim) for name in wide for dim in result[name].dims))
    labels = {str(label) for dim in dims for label in result[dim].values}
    said = [f"{name} = {_cell(name, result[name].values[()])}" for name in shown if name not in {*wide, *labels}]
    tables = []
    for dim in dims:
        rows = []
        for index, label in enumerate(result[dim].values):
            value = {"value": _cell("", result[str(label)].values[()])} if str(label) in shown else {}
            entries = {n.replace("_", " "): _cell(n, result[n].values[index]) for n in wide if dim in result[n].dims}
            if any(cell not in ("", "-") for cell in (*value.values(), *entries.values())):
                rows.append({dim: str(label), **value, **entries})
        tables += [rows] if rows else []
    return [*([""] if said else []), *said, *tables]


def _remarks(result: xarray.Dataset, grid: Sequence[str]) -> list[str]:
    remarks = []
    for index in _places(result, grid):
        point = result.isel(index)
        where = ", ".join(f"{dim} = {value}" for dim, value in _place(point, grid).items())
        said = [str(point[name].values) for name in ("status", "remark") if name in point]
        remarks += [f"{where}: {text}" if where else text for text in said if text]
    return remarks


def _places(result: xarray.Dataset, grid: Sequence[str]) -> Iterator[dict[str, int]]:
    for index in np.ndindex(*(result.sizes[dim] for dim in grid)):
        yield dict(zip(grid, index))


def _place(point: xarray.Dataset, grid: Sequence[str]) -> dict[str, str]:
    return {dim: _cell(dim, point[dim].values[()]) for dim in grid if dim in point.coords}


def _cells(point: xarray.Dataset, shown: Sequence[str]) -> dict[str, str]:
    """Return the columns of one point; a variable with own dimensions has a column for each entry."""
    cells = {}
    for name in shown:
        own = [str(dim) for dim in point[name].dims]
        for index in np.ndindex(*(point.sizes[dim] for dim in own)):
            entry = dict(zip(own, index))
            label = ", ".join(str(point[dim].values[position]) for dim, position in entry.items())
            head = name.replace("_", " ") if name in _HEADS else name
            cells[f"{head} {label}".strip()] = _cell(name, point[name].isel(entry).values[()])
    return cells


_HEADS = ("worse_at_half", "worse_at_twice", "derivative", "elasticity")
"""Variables whose columns are headed by words, the entry behind them."""
_ERRORS = ("derivative_error", "elasticity_error")
"""Errors, of which two digits say enough."""


def _cell(name: str, value: Any) -> str:
    if isinstance(value, str | np.str_):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    number = float(value)
    if math.isnan(number):
        return "-"
    if name.startswith("worse_at"):
        if math.isinf(number):
            return "-"
        return f"{-number:.3g}% better" if number < -1e-6 else f"{max(number, 0.0):+.3g}%"
    return format(number, ".2g" if name in _ERRORS else ".6g")


def _cut(remarks: list[str]) -> list[str]:
    more = [f"({len(remarks) - MOST_ROWS} more)"] if len(remarks) > MOST_ROWS else []
    return [*remarks[:MOST_ROWS], *more]


def _cells_of(rows: Sequence[dict[str, str]]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and the cells of a table, without empty columns."""
    heads = [head for head in dict.fromkeys(head for row in rows for head in row)]
    heads = [head for head in heads if any(row.get(head, "-") != "-" for row in rows)]
    return heads, [[row.get(head, "-") for head in heads] for row in rows]
