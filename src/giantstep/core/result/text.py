"""Results for reading: rows of their main numbers, and what a notebook shows of
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import xarray

from giantstep.core.base.display import (
    MOST_ROWS,
    Block,
    Table,
    blocks_html,
    blocks_text,
)
from giantstep.core.result.columns import entries, flattened
from giantstep.core.result.layers import called, layers_of
from giantstep.core.result.notes import notes_in
from giantstep.core.result.provenance import main_variables, question_of
from giantstep.core.scenario.dimensions import long_dimensions
from giantstep.core.scenario.family import DIAGNOSTICS

_SIDES = ("_stderr", "_gap", "_z", "_twin", "_twin_stderr")
_LAYERS = ("source", "trial")


class Result(xarray.Dataset):
    """A Dataset that a notebook shows as a table of its main numbers, with all that it
    holds folded away below.
    """

    __slots__ = ()

    @classmethod
    def of(cls, result: xarray.Dataset) -> Self:
        """Return a Dataset as a result."""
        return cls(dict(result.data_vars), dict(result.coords), dict(result.attrs))

    def __getitem__(self, key: Any) -> Any:
        """Return a variable; a list of them brings along what a comparison has beside
        each: errors, gaps, z-scores.
        """
        if isinstance(key, list) and self.attrs.get("engine") == "comparison":
            beside = [
                *(f"{name}{side}" for name in key for side in _SIDES),
                "converged",
            ]
            key = [
                *key,
                *(
                    name
                    for name in beside
                    if name in self.data_vars and name not in key
                ),
            ]
        return super().__getitem__(key)

    def __repr__(self) -> str:
        return super().__repr__().replace("<xarray.", "<giantstep.", 1)

    def _repr_html_(self) -> str:
        inside = (
            "<summary>all variables, coordinates and attributes"
            " (xarray.Dataset)</summary>"
        )
        whole = xarray.Dataset._repr_html_(self)
        return f"{blocks_html(self.shown_blocks())}<details>{inside}{whole}</details>"

    def only(self, names: Sequence[str]) -> Self:
        """Return the result with these variables alone, their errors, gaps and scores,
        and what was not computed.
        """
        wanted = [f"{name}{side}" for name in names for side in ("", *_SIDES)]
        kept = [
            name for name in (*wanted, "converged", "status") if name in self.data_vars
        ]
        return type(self)(
            {name: self.data_vars[name] for name in kept}, attrs=self.attrs
        )

    def shown_blocks(self) -> list[Block]:
        """Return the main numbers: what a notebook shows, and the command line
        prints.
        """
        return listing(self)

    def listed(self) -> str:
        """Return the main numbers as text."""
        return blocks_text(self.shown_blocks()).rstrip()


def listing(result: xarray.Dataset) -> list[Block]:
    """Return the main variables of a result for reading: a list for one point, a row
    for each point of a grid.
    """
    names = _variables(result)
    figure = main_variables(result.attrs)
    curves = [name for name in names if long_dimensions(result[name].dims)]
    scalars = [name for name in names if name not in curves]
    about = next(iter(names), None)
    if "converged" in result:
        about = "converged"
    grid = [
        str(dim) for dim in (result[about].dims if about else ()) if dim not in _LAYERS
    ]
    tables = []
    if grid:
        columns = _columns(
            result, grid, [name for name in figure if name in scalars] or scalars
        )
        if "converged" in result:
            points = [
                dict(zip(grid, place))
                for place in np.ndindex(*(result.sizes[dim] for dim in grid))
            ]
            columns.append(
                ("status", [_status(result.isel(point)) for point in points])
            )
        tables.append(columns)
    elif scalars:
        tables.append(_lines(result, scalars))
    shown = [name for name in figure if name in curves] or ([] if tables else curves)
    if shown:
        tables.append(
            _columns(result, [*grid, *long_dimensions(result[shown[0]].dims)], shown)
        )
    if grid or "converged" not in result:
        state = []
    else:
        state = [f"status: {_status(result)}"]
    # the report of a comparison has its notes
    if result.attrs.get("engine") == "comparison":
        notes = []
    else:
        notes = notes_in(result.attrs)
    return listing_blocks(_title(result), tables, [*state, *notes])


def listing_blocks(
    title: str,
    tables: Sequence[Sequence[tuple[str, Sequence[Any]]]],
    notes: Sequence[str] = (),
) -> list[Block]:
    """Return a title, tables of columns without empty ones (the ends of long tables),
    and sentences below them.
    """
    blocks: list[Block] = [title]
    for table in tables:
        columns = [
            (head, values) for head, values in table if not all(map(_is_nan, values))
        ]
        rows = list(
            zip(*([_cell(head, value) for value in values] for head, values in columns))
        )
        if columns:
            blocks += [Table(tuple(head for head, _ in columns), rows, MOST_ROWS), ""]
    return [*blocks, *notes]


def _cell(head: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if _is_nan(value):
        return "-"
    return format(float(value), {"std err": ".2g", "z": ".2f"}.get(head, ".8g"))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _title(result: xarray.Dataset) -> str:
    if "family" not in (attrs := result.attrs):
        return str(attrs.get("title", "Result"))
    if attrs["engine"] == "limit":
        engine = called(result, "limit")
    else:
        engine = attrs["engine"]
    theory = f", theory {attrs['theory']}" if "theory" in attrs else ""
    return f"{attrs['title']} ({attrs['family']}): {attrs['what']}, {engine}{theory}"


def _variables(result: xarray.Dataset) -> list[str]:
    """Return the variables of a result without what stands beside them: as declared,
    then others.
    """
    question = question_of(result.attrs)
    if question is None:
        declared = []
    else:
        declared = [variable.name for variable in question.variables]
    there = [str(name) for name in result.data_vars if str(name) not in DIAGNOSTICS]
    plain = [
        n
        for n in there
        if not any(
            n.endswith(side) and n.removesuffix(side) in there for side in _SIDES
        )
    ]
    return [name for name in declared if name in plain] or plain


def _columns(
    result: xarray.Dataset, dims: Sequence[str], names: Sequence[str]
) -> list[tuple[str, list[Any]]]:
    """Return the columns of a table whose rows run along `dims`: coordinates, then the
    numbers of `names`.
    """
    coordinates = [name for dim in dims for name in _coordinates(result, dim)]
    columns = [(name, _along(result, dims, result[name])) for name in coordinates]
    for name in names:
        for label, sides in _entries(result, dims, name):
            heads = [
                label if list(sides)[0] == "value" else f"{label} {list(sides)[0]}",
                *list(sides)[1:],
            ]
            columns += zip(heads, sides.values())
    return columns


def _lines(result: xarray.Dataset, names: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """Return the variables of a single point as columns, an entry in each row, with the
    meaning.
    """
    rows: list[dict[str, Any]] = []
    for name in names:
        for label, sides in _entries(result, (), name):
            numbers = {head: values[0] for head, values in sides.items()}
            if not all(map(_is_nan, numbers.values())):
                rows.append(
                    {
                        "variable": label,
                        **numbers,
                        "meaning": str(result[name].attrs.get("long_name", "")),
                    }
                )
    heads = list(
        dict.fromkeys(head for row in rows for head in row if head != "meaning")
    )
    return [
        (head, [row.get(head, math.nan) for row in rows])
        for head in [*heads, "meaning"]
    ]


def _entries(
    result: xarray.Dataset, dims: Sequence[str], name: str
) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Yield the entries of a variable along its small dimensions: label -> head of a
    column -> its values.
    """

    def at(column: str, source: str) -> xarray.DataArray:
        if "source" in result[column].dims:
            values = result[column].sel(source=source)
        else:
            values = result[column]
        return values.mean("trial") if "trial" in values.dims else values

    sources = layers_of(result)
    sides = {called(result, source): at(name, source) for source in sources} or {
        "value": at(name, "")
    }
    if f"{name}_stderr" in result and (not sources or "experiment" in sources):
        sides["std err"] = at(f"{name}_stderr", "experiment")
    if f"{name}_twin" in result:
        sides["twin"] = at(f"{name}_twin", "")
    if f"{name}_z" in result:
        sides["z"] = result[f"{name}_z"]
    for label, entry in entries(result, name, (*dims, *_LAYERS)):
        yield (
            label,
            {
                h: _along(result, dims, side.isel(entry, missing_dims="ignore"))
                for h, side in sides.items()
            },
        )


def _along(
    result: xarray.Dataset, dims: Sequence[str], column: xarray.DataArray
) -> list[Any]:
    """Return the values of a column at every point along `dims`, numbers or texts."""
    values = flattened(result, dims, column).tolist()
    return [
        value if isinstance(value, int | float) else str(value) or math.nan
        for value in values
    ]


def _coordinates(result: xarray.Dataset, dim: str) -> list[str]:
    """Return the columns of a dimension; a complex coordinate is held as two, paired
    fields share a dimension.
    """
    pair = [name for name in (f"{dim}_real", f"{dim}_imag") if name in result.coords]
    shared = [
        str(name)
        for name, coordinate in result.coords.items()
        if coordinate.dims == (dim,)
    ]
    return pair or ([dim] if dim in result.coords else shared)


def _status(point: xarray.Dataset) -> str:
    if bool((point["converged"] == 1).all()):
        return "converged"
    if "status" not in point:
        return "not converged"
    reasons = map(str, np.atleast_1d(point["status"].values))
    return "; ".join(dict.fromkeys(filter(None, reasons))) or "not converged"
