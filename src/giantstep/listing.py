"""Results for reading: rows of their main numbers, and what a notebook shows of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from numbers import Number
from typing import Any, NamedTuple, Self

import numpy as np
import xarray

from giantstep.dimensions import long_dimensions
from giantstep.display import html_table
from giantstep.family import DIAGNOSTICS
from giantstep.notes import notes_in

Row = list[tuple[str, Any]]
"""Head of each column and the value in it."""

_MOST_ROWS = 20
"""Rows of a table in a notebook, so that it fits a screen; the middle of a longer one is left out, and said so."""
_FORMATS = {"std err": ".2g", "se_total": ".2g", "z": ".2f"}
_SIDES = ("_stderr", "_gap", "_z")


class Result(xarray.Dataset):
    """A Dataset that a notebook shows as a table of its main numbers, with all that it holds folded away below."""

    __slots__ = ()

    @classmethod
    def of(cls, result: xarray.Dataset) -> Self:
        """Return a Dataset as a result."""
        return cls(dict(result.data_vars), dict(result.coords), dict(result.attrs))

    def __repr__(self) -> str:
        return super().__repr__().replace("<xarray.", "<giantstep.", 1)

    def _repr_html_(self) -> str:
        return self._listing() + folded("all variables, coordinates and attributes (xarray.Dataset)", self)

    def _listing(self) -> str:
        """Return the tables as HTML."""
        return listing_html(listing(self))


class Listing(NamedTuple):
    """What is said of a result: a title, tables, and sentences below them."""

    title: str
    tables: list[list[Row]]
    notes: list[str]


def listing(result: xarray.Dataset) -> Listing:
    """Return the main variables of a result: a list for one point, a row for each point of a grid."""
    attrs = result.attrs
    names, figure = _variables(result), _main(result)
    curves = [name for name in names if long_dimensions(result[name].dims)]
    scalars = [name for name in names if name not in curves]
    grid = _grid(result, names)
    if grid:
        shown = [name for name in figure if name in scalars] or scalars
        rows = [[*row, *_status_cell(point)] for point, row in _rows(result, grid, shown)]
    else:
        rows = [row for name in scalars for row in _lines(result, name)]
    tables = [rows] if rows else []
    shown = [name for name in figure if name in curves] or ([] if tables else curves)
    if shown:
        long = long_dimensions(result[shown[0]].dims)
        tables.append([row for _, row in _rows(result, [*grid, *long], shown)])
    state = [] if grid or "converged" not in result else [f"status: {_status(result)}"]
    notes = [] if attrs.get("engine") == "comparison" else notes_in(attrs)  # the report of a comparison has them
    return Listing(_title(result), tables, [*state, *notes])


def without_empty_columns(rows: Sequence[Row]) -> list[Row]:
    """Return rows of equal length without the columns in which nothing was computed."""
    kept = [column for column in range(len(rows[0])) if not all(is_nan(row[column][1]) for row in rows)]
    return [[row[column] for column in kept] for row in rows]


def listing_html(shown: Listing) -> str:
    """Return a listing as HTML."""
    tables = "".join(_html(without_empty_columns(rows)) for rows in shown.tables if rows)
    return f"<div><b>{escape(shown.title)}</b></div>{tables}" + "".join(f"<div>{escape(n)}</div>" for n in shown.notes)


def folded(title: str, result: xarray.Dataset) -> str:
    """Return what xarray says of a Dataset as HTML that opens on a click."""
    inside = xarray.Dataset._repr_html_(result)
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def shown_cell(head: str, value: Any) -> str:
    """Return a value of a table as text."""
    if isinstance(value, str):
        return value
    return "-" if is_nan(float(value)) else format(float(value), _FORMATS.get(head, ".8g"))


def is_nan(value: Any) -> bool:
    """Tell whether a value is NaN; a text is not."""
    return isinstance(value, float) and math.isnan(value)


def _html(rows: Sequence[Row]) -> str:
    heads = [head for head, _ in rows[0]]
    right = [column for column, (_, value) in enumerate(rows[0]) if not isinstance(value, str)]
    cells = [[_short(head, value) for head, value in row] for row in rows]
    left_out = len(cells) - _MOST_ROWS
    half = _MOST_ROWS // 2
    if left_out > 0:
        cells = [*cells[:half], ["..."] * len(heads), *cells[-half:]]
    said = f"<div>{left_out} of {len(rows)} rows are left out.</div>" if left_out > 0 else ""
    return html_table(heads, cells, right) + said


def _short(head: str, value: Any) -> str:
    """Return a value with the digits that a reader looks at."""
    if isinstance(value, str) or is_nan(float(value)) or head in _FORMATS:
        return shown_cell(head, value)
    return f"{float(value):.5g}"


def _title(result: xarray.Dataset) -> str:
    from giantstep.comparison import called

    attrs = result.attrs
    if "family" not in attrs:
        return str(attrs.get("title", "Result"))
    engine = called(result, "limit") if attrs["engine"] == "limit" else attrs["engine"]
    theory = f", theory {attrs['theory']}" if "theory" in attrs else ""
    return f"{attrs['title']} ({attrs['family']}): {attrs['what']}, {engine}{theory}"


def _variables(result: xarray.Dataset) -> list[str]:
    """Return the variables of a result without what stands beside them: as declared, then others."""
    from giantstep.result import question_of

    question = question_of(result.attrs)
    declared = [] if question is None else [variable.name for variable in question.variables]
    there = [str(name) for name in result.data_vars if str(name) not in DIAGNOSTICS]
    plain = [n for n in there if not any(n.endswith(side) and n.removesuffix(side) in there for side in _SIDES)]
    return [name for name in declared if name in plain] or plain


def _main(result: xarray.Dataset) -> Sequence[str]:
    """Return the variables that a figure shows."""
    from giantstep.result import question_of

    if "plot" in result.attrs:
        return [str(name) for name in json.loads(str(result.attrs["plot"]))]
    question = question_of(result.attrs)
    return () if question is None else question.plot


def _grid(result: xarray.Dataset, names: Sequence[str]) -> list[str]:
    """Return the dimensions of the grid; where nothing says which they are, those of the first variable."""
    about = "converged" if "converged" in result else names[0] if names else None
    dims = () if about is None else result[about].dims
    return [str(dim) for dim in dims if dim not in ("source", "trial")]


def _rows(result: xarray.Dataset, dims: Sequence[str], names: Sequence[str]) -> list[tuple[xarray.Dataset, Row]]:
    """Return every point along `dims` with its coordinates and the numbers of `names`."""
    rows, layers = [], _layers(result)
    for indices in np.ndindex(*(result.sizes[dim] for dim in dims)):
        point = result.isel(dict(zip(dims, indices)))
        row = [(name, _plain(point[name].values[()])) for dim in dims for name in _coordinates(result, dim)]
        for name in names:
            for label, numbers in _entries(point, name, layers):
                main, *rest = numbers.items()
                head = label if main[0] == "value" else f"{label} {main[0]}"
                row += [(head, main[1]), *rest]
        rows.append((point, row))
    return rows


def _lines(result: xarray.Dataset, name: str) -> list[Row]:
    """Return the numbers of one variable of a single point as rows, with the meaning."""
    meaning = ("meaning", str(result[name].attrs.get("long_name", "")))
    lines: list[Row] = []
    for label, numbers in _entries(result, name, _layers(result)):
        if not all(map(is_nan, numbers.values())):
            lines.append([("variable", label), *numbers.items(), meaning])
    return lines


def _layers(result: xarray.Dataset) -> dict[str, str]:
    """Return the layers of a comparison by what they are called; none where there is one result only."""
    from giantstep.comparison import called

    sources = [str(source) for source in np.atleast_1d(result["source"].values)] if "source" in result.coords else []
    return {called(result, source): source for source in sources}


def _entries(point: xarray.Dataset, name: str, layers: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the entries of a variable along its small dimensions, each with its label and its numbers."""
    own = [str(dim) for dim in point[name].dims if dim not in ("source", "trial")]
    entries = []
    for indices in np.ndindex(*(point.sizes[dim] for dim in own)):
        label = ",".join(str(point[dim].values[index]) for dim, index in zip(own, indices))
        entry = dict(zip(own, indices))
        entries.append((f"{name}[{label}]" if own else name, _numbers(point, name, entry, layers)))
    return entries


def _numbers(point: xarray.Dataset, name: str, entry: dict[str, int], layers: Mapping[str, str]) -> dict[str, Any]:
    def number(column: str, source: str = "experiment") -> Any:
        if column not in point:
            return math.nan
        values = point[column].isel({dim: index for dim, index in entry.items() if dim in point[column].dims})
        if "source" in values.dims:
            if source not in values["source"]:
                return math.nan
            values = values.sel(source=source)
        if values.dtype.kind in "UO":  # a name, such as a phase
            return str(values.values) or math.nan
        return float(values.mean("trial") if "trial" in values.dims else values)

    if layers:
        sides = {head: number(name, source) for head, source in layers.items()}
        return {**sides, "std err": number(f"{name}_stderr"), "z": number(f"{name}_z")}
    return {"value": number(name), "std err": number(f"{name}_stderr")}


def _coordinates(result: xarray.Dataset, dim: str) -> list[str]:
    """Return the columns of a dimension; a complex coordinate is held as two, paired fields share a dimension."""
    pair = [name for name in (f"{dim}_real", f"{dim}_imag") if name in result.coords]
    if pair or dim in result.coords:
        return pair or [dim]
    return [str(name) for name, coordinate in result.coords.items() if coordinate.dims == (dim,)]


def _plain(value: Any) -> Any:
    """Return a coordinate as a Python value."""
    return value if isinstance(value, Number) else str(value)


def _status_cell(point: xarray.Dataset) -> Row:
    return [("status", _status(point))] if "converged" in point else []


def _status(point: xarray.Dataset) -> str:
    if bool((point["converged"] == 1).all()):
        return "converged"
    said = np.atleast_1d(point["status"].values) if "status" in point else ()
    reasons = [str(reason) for reason in said if str(reason)]
    return "; ".join(dict.fromkeys(reasons)) or "not converged"
