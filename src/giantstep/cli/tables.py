"""A result as a readable table on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.comparison import called
from giantstep.design.tables import result_text
from giantstep.dimensions import long_dimensions
from giantstep.families import family_class
from giantstep.notes import notes_in
from giantstep.texttable import MOST_ROWS, text_table

if TYPE_CHECKING:
    import xarray

_FORMATS = {"std err": ".2g", "se_total": ".2g", "z": ".2f"}

Row = list[tuple[str, Any]]
"""Head of each column and the value in it."""


def print_result(result: xarray.Dataset) -> None:
    """Print the main variables of a result: a list for one point, a row per point of a grid."""
    attrs = result.attrs
    if "shown" in attrs:
        print(result_text(result))
        return
    theory = f", theory {attrs['theory']}" if "theory" in attrs else ""
    engine = called(result, "limit") if attrs["engine"] == "limit" else attrs["engine"]
    title = f"{attrs['title']} ({attrs['family']}): {attrs['what']}, {engine}{theory}"
    question = family_class(attrs["family"]).questions[attrs["what"]]
    there = [variable for variable in question.variables if variable.name in result]
    curves = [variable.name for variable in there if long_dimensions(variable.dims)]
    scalars = [variable.name for variable in there if variable.name not in curves]
    grid = [str(dim) for dim in result["converged"].dims if dim != "source"]
    if grid:
        shown = [name for name in question.plot if name in scalars] or scalars
        print_rows(title, [[*row, ("status", _status(point))] for point, row in _rows(result, grid, shown)])
    else:
        print_rows(title, [row for name in scalars for row in _lines(result, name)])
        print(f"status: {_status(result)}\n")
    shown = [name for name in question.plot if name in curves]
    if shown:
        long = long_dimensions(result[shown[0]].dims)
        print_rows(f"along {', '.join(long)}", [row for _, row in _rows(result, [*grid, *long], shown)])
    if attrs["engine"] != "comparison":  # the report of a comparison has them
        for note in notes_in(attrs):
            print(note)


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print a title and rows of equal length; columns where nothing was computed are left out."""
    print(title)
    if not rows:
        return
    columns = [column for column in range(len(rows[0])) if not all(_is_nan(row[column][1]) for row in rows)]
    heads = [rows[0][column][0] for column in columns]
    lines = text_table(heads, [[_shown(*row[column]) for column in columns] for row in rows], MOST_ROWS)
    print("\n".join(lines))
    if len(rows) > MOST_ROWS:
        print(f"{len(rows) - MOST_ROWS} of {len(rows)} rows are left out; --out FILE.csv writes all.")
    print()


def _rows(result: xarray.Dataset, dims: Sequence[str], names: Sequence[str]) -> list[tuple[xarray.Dataset, Row]]:
    """Return every point along `dims` with its coordinates and the numbers of `names`."""
    rows, layers = [], _layers(result)
    for indices in np.ndindex(*(result.sizes[dim] for dim in dims)):
        point = result.isel(dict(zip(dims, indices)))
        row = [(name, point[name].values[()]) for dim in dims for name in _coordinates(result, dim)]
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
        if not all(map(_is_nan, numbers.values())):
            lines.append([("variable", label), *numbers.items(), meaning])
    return lines


def _layers(result: xarray.Dataset) -> dict[str, str]:
    """Return the layers of a comparison by what they are called; none where there is one result only."""
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
            values = values.sel(source=source)
        if values.dtype.kind in "UO":  # a name, such as a phase
            return str(values.values) or math.nan
        return float(values.mean("trial") if "trial" in values.dims else values)

    if layers:
        sides = {head: number(name, source) for head, source in layers.items()}
        return {**sides, "std err": number(f"{name}_stderr"), "z": number(f"{name}_z")}
    return {"value": number(name), "std err": number(f"{name}_stderr")}


def _coordinates(result: xarray.Dataset, dim: str) -> list[str]:
    """Return the columns of a dimension; a complex coordinate is held as two."""
    return [name for name in (f"{dim}_real", f"{dim}_imag") if name in result.coords] or [dim]


def _status(point: xarray.Dataset) -> str:
    if bool(point["converged"].all()):
        return "converged"
    reasons = [str(reason) for reason in np.atleast_1d(point["status"].values) if str(reason)]
    return "; ".join(dict.fromkeys(reasons)) or "not converged"


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _shown(head: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return "-" if _is_nan(float(value)) else format(float(value), _FORMATS.get(head, ".8g"))
