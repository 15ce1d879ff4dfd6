"""A result as columns of a table: a row for each point, small dimensions beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from giantstep.core.base.types import Array
from giantstep.core.scenario.dimensions import long_dimensions

if TYPE_CHECKING:
    import xarray


def table(result: xarray.Dataset) -> dict[str, Array]:
    """Return a result as columns of equal length: what the CSV holds."""
    own = [str(dim) for dim in result.dims]
    if "converged" in result:
        grid = [str(dim) for dim in result["converged"].dims]
    else:
        grid = own
    rows = ("source", "trial", *long_dimensions(own))
    row_dims = [*grid, *(dim for dim in rows if dim in own and dim not in grid)]
    columns = {dim: flattened(result, row_dims, result[dim]) for dim in row_dims}
    # layers have the names that reports and legends use, each row at its own dimension
    if "source" in columns:
        from giantstep.core.result.layers import called

        names = {
            source: called(result, source) for source in np.unique(columns["source"])
        }
        dims = columns.get("dim", columns["source"])
        rows_called = [
            names[source].replace("each d", f"d = {dim}")
            for source, dim in zip(columns["source"], dims)
        ]
        columns["source"] = np.array(rows_called)
    others = [str(name) for name in result.coords if name not in result.dims]
    for name in [*others, *map(str, result.data_vars)]:
        for label, entry in entries(result, name, row_dims):
            columns[label] = flattened(result, row_dims, result[name].isel(entry))
    return columns


def entries(
    result: xarray.Dataset, name: str, dims: Sequence[str]
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the entries of a variable along dimensions other than `dims`: what each is
    called, and its place.
    """
    own = [str(dim) for dim in result[name].dims if dim not in dims]
    for place in np.ndindex(*(result.sizes[dim] for dim in own)):
        label = ",".join(
            str(result[dim].values[index]) for dim, index in zip(own, place)
        )
        yield f"{name}[{label}]" if own else name, dict(zip(own, place))


def flattened(
    result: xarray.Dataset, dims: Sequence[str], column: xarray.DataArray
) -> Array:
    """Return the values of a column at every point along `dims`, repeated along those
    that it does not have.
    """
    missing = {dim: result.sizes[dim] for dim in dims if dim not in column.dims}
    return np.asarray(column.expand_dims(missing).transpose(*dims).values.reshape(-1))


def csv_text(columns: Mapping[str, Array]) -> str:
    """Return columns of equal length as CSV."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values())))
    return text.getvalue()
