"""Results: the values of an engine, laid out as one labelled table with its provenance.

Grid dimensions come first, then ``trial`` where trials are kept, then own ones; NaN
means "not computed".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import xarray
from xarray.indexes import PandasIndex

from giantstep.core.base.errors import GiantstepError
from giantstep.core.base.types import Array, Indices
from giantstep.core.result.text import Result
from giantstep.core.scenario.answer import blank_array, corner, largest_shape
from giantstep.core.scenario.family import DIAGNOSTICS, Engine, Question, Variable
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.lists import (
    declaration,
    names_meant,
    symbol_of,
)
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.several import NAME


@dataclass
class ResultTable:
    """Collects the answers of one engine, batch by batch, over a flattened grid; what a
    batch lacks is left NaN.
    """

    grid: Grid
    question: Question
    engine: Engine
    pieces: dict[str, list[tuple[Indices, Array]]] = field(default_factory=dict)
    diagnostics: dict[str, Array] = field(default_factory=dict)
    coords: dict[str, Array] = field(default_factory=dict)

    @cached_property
    def columns(self) -> dict[str, Variable]:
        """Name of every column that may be filled, in order -> the variable, of a
        ``_stderr`` the one it belongs to.
        """
        # another name was refused when it was answered (`returns`)
        columns = {}
        for variable in self.question.variables:
            columns[variable.name] = variable
            columns[f"{variable.name}_stderr"] = variable
        return columns

    def put(self, name: str, index: Indices, values: Any) -> None:
        """Add the values (B, ...) of a variable, or of its ``_stderr``, at the points
        `index`; numbers or names.
        """
        array = np.asarray(values)
        kind = object if array.dtype.kind in "UO" else np.float64
        self.pieces.setdefault(name, []).append((index, array.astype(kind, order="C")))

    def put_nothing(
        self, settings: Mapping[str, Any], trials: int | None = None
    ) -> None:
        """Say "not computed" of every variable without numbers, where no point gave
        any; `trials` are kept.
        """
        counts = self.grid.block_count()
        size = self.grid.size
        index = np.arange(size)
        for variable in self.question.variables:
            if self.engine not in variable.engines or variable.name in self.pieces:
                continue
            own = [
                counts.get(dim, np.size(settings.get(dim, 0))) for dim in variable.dims
            ]
            kept = own if trials is None else [trials, *own]
            self.put(variable.name, index, np.full((size, *kept), np.nan))
            if self.engine == "experiment":
                stderr = np.full((size, *own), np.nan)
                self.put(f"{variable.name}_stderr", index, stderr)

    def put_diagnostic(self, name: str, index: Indices, values: Any) -> None:
        """Add one number or text per point."""
        array = np.asarray(values)
        blank: Any = 0
        if array.dtype.kind in "UO":
            # texts of any length
            array = array.astype(object)
            blank = ""
        empty = np.full(self.grid.size, blank, array.dtype)
        self.diagnostics.setdefault(name, empty)[index] = array

    def put_coords(self, coords: Mapping[str, Any]) -> None:
        """Add coordinates of own dimensions; batches must agree on them, though some
        may be longer.
        """
        for dim, values in coords.items():
            new = np.asarray(values)
            old = self.coords.get(dim, new[:0])
            if not np.array_equal(old[: len(new)], new[: len(old)]):
                raise GiantstepError(
                    f"The {self.engine} answered with different values of `{dim}` at"
                    " different points."
                )
            self.coords[dim] = max(old, new, key=len)

    def gather(self, name: str) -> Array:
        """Return all values of a variable, shape (points, ...), NaN (no name) where
        nothing was put.
        """
        pieces = self.pieces[name]
        index, full = pieces[0]
        # one piece may have all points in order: then nothing is copied
        is_whole = np.array_equal(index, np.arange(self.grid.size))
        if len(pieces) > 1 or not is_whole:
            own = largest_shape([values.shape[1:] for _, values in pieces])
            full = blank_array((self.grid.size, *own), like=full)
            for index, values in pieces:
                full[corner(index, values.shape[1:])] = values
        return full.astype(str) if full.dtype == object else full

    def dataset(
        self,
        scenario: Scenario,
        *,
        trials_kept: bool,
        settings: Mapping[str, Any],
        attrs: Mapping[str, Any],
    ) -> xarray.Dataset:
        """Lay everything out as a Dataset."""
        data = self._variables(trials_kept=trials_kept)
        coords = {
            name: (dims, values, about_field(scenario, name))
            for name, (dims, values) in self.grid.coords.items()
        }
        lengths: dict[str, int] = {}
        for variable in data.values():
            lengths |= dict(zip(map(str, variable.dims), variable.shape))
        own_lengths = {
            dim: size for dim, size in lengths.items() if dim not in self.grid.dims
        }
        coords |= self._own_coords(own_lengths, settings)
        result = Result(
            asked_first(data, self.question), _coordinates(coords), attrs=attrs
        )
        # only where they differ: reindexing, too, would import Dask
        labels = {}
        for dim, names in self.question.labels.items():
            if dim in own_lengths and result[dim].values.tolist() != list(names):
                labels[dim] = list(names)
        return result.reindex(labels) if labels else result

    def _variables(self, *, trials_kept: bool) -> dict[str, xarray.Variable]:
        """Return the columns that were filled, then the diagnostics, over the dims of
        the grid.
        """
        grid = self.grid
        data: dict[str, xarray.Variable] = {}
        lengths: dict[str, int] = {}
        for name, variable in self.columns.items():
            if name not in self.pieces:
                continue
            dims = variable.dims
            if trials_kept and name == variable.name:
                dims = ("trial", *dims)
            values = self.gather(name)
            for dim, length in zip(dims, values.shape[1:]):
                if lengths.setdefault(dim, length) != length:
                    raise GiantstepError(
                        f"`{name}` has {length} entries of `{dim}`, but another"
                        f" variable has {lengths[dim]}."
                    )
            array = values.reshape(grid.shape + values.shape[1:])
            attrs = _about(variable, name)
            data[name] = xarray.Variable(grid.dims + dims, array, attrs, fastpath=True)
        for name, values in self.diagnostics.items():
            if values.dtype == object:
                values = values.astype(str)
            attrs = {"long_name": DIAGNOSTICS[name]}
            array = values.reshape(grid.shape)
            data[name] = xarray.Variable(grid.dims, array, attrs, fastpath=True)
        return data

    def _own_coords(
        self, lengths: Mapping[str, int], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the coordinates of own dimensions: the engine's, those asked for, or a
        count from 1.
        """
        coords: dict[str, Any] = {}
        for dim, length in lengths.items():
            values = self.coords.get(dim, settings.get(dim))
            if values is None:
                values = self.question.dimension(dim).first + np.arange(length)
            values = np.atleast_1d(values)
            is_solved = np.all(self.diagnostics.get("converged", True))
            # the points given up are those that reach further
            if len(values) > length and not is_solved:
                values = values[:length]
            if values.shape != (length,):
                raise GiantstepError(
                    f"The {self.engine} answered with {length} entries of `{dim}`, not"
                    f" {values.size}."
                )
            if np.iscomplexobj(values):
                # files hold no complex numbers
                coords[f"{dim}_real"] = (dim,), values.real, {}
                coords[f"{dim}_imag"] = (dim,), values.imag, {}
                values = np.arange(length)
            coords[dim] = (dim,), values, {}
        return coords


def asked_first(data: Mapping[str, Any], question: Question) -> dict[str, Any]:
    """Return the columns of a result with those of the variables a figure shows first,
    order parameters after.
    """
    endings = ("", "_stderr", "_gap", "_z", "_twin", "_twin_stderr")
    order = dict.fromkeys(name + ending for name in question.plot for ending in endings)
    order |= dict.fromkeys(data)
    return {name: data[name] for name in order if name in data}


def _coordinates(
    given: Mapping[str, tuple[tuple[str, ...], Array, dict[str, str]]],
) -> xarray.Coordinates:
    """Return coordinates, name -> (dims, values, attributes), with an index where one
    names a dimension.
    """
    # made here: looking at plain arrays, xarray would import Dask where that is
    # installed
    coords = {
        name: xarray.Variable(*about, fastpath=True) for name, about in given.items()
    }
    indexes = {}
    for name, variable in coords.items():
        if variable.dims != (name,):
            continue
        labels = pandas.Index(variable.values)
        index = PandasIndex(labels, name, coord_dtype=variable.dtype)
        coords[name] = index.create_variables({name: variable})[name]
        indexes[name] = index
    return xarray.Coordinates(coords, indexes)


def _about(variable: Variable, name: str) -> dict[str, str]:
    if name != variable.name:
        return {"long_name": f"standard error of {variable.name}"}
    about = {"long_name": variable.meaning, "symbol": variable.symbol}
    if variable.absent:
        return {**about, "absent": variable.absent}
    return about


def about_field(scenario: Scenario, name: str) -> dict[str, str]:
    """Return the attributes of a coordinate that holds a field: what it means and its
    symbol.
    """
    leaves = dict(scenario.leaves)
    if all(leaf in leaves for leaf in names_meant(scenario, name)):
        info = declaration(scenario, name)
        return {"long_name": info.description or "", "symbol": symbol_of(info)}
    if name == NAME:
        return {"long_name": "scenario"}
    if name == "dim":
        return {"long_name": "input dimension", "symbol": "d"}
    return {}
