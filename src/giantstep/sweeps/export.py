"""A store as a table: one row per point, with its fields, its trials, and mean and standard error of every variable."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from giantstep.errors import GiantstepError, InputError
from giantstep.families import family_class, family_names
from giantstep.family import Variable
from giantstep.files import atomic_write, csv_text
from giantstep.padding import blank_array, pad_stack
from giantstep.sweeps.inspect import Entry, entries
from giantstep.trials import mean_and_error
from giantstep.types import Array

FORMATS = (".csv", ".nc", ".parquet")


def export(path: str | Path, out: str | Path) -> int:
    """Write a store as CSV, NetCDF or Parquet, one row per point; return the number of rows."""
    suffix = Path(out).suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"A store is exported as {', '.join(FORMATS)}, but the file is called {Path(out).name!r}.")
    result = dataset(entries(path))
    with atomic_write(out) as temporary:
        if suffix == ".nc":
            result.to_netcdf(temporary, engine="h5netcdf")
        elif suffix == ".csv":
            temporary.write_text(csv_text(columns(result)), encoding="utf-8", newline="")
        else:
            _write_parquet(columns(result), temporary)
    return int(result.sizes["point"])


def dataset(points: Iterable[Entry]) -> xarray.Dataset:
    """Return the points of a store as a Dataset over the dimension ``point``; fields and variables as columns."""
    lines = [(_labels(entry), _measured(entry)) for entry in points]
    data: dict[str, Any] = {}
    for name in dict.fromkeys(name for labels, _ in lines for name in labels):
        data[name] = ("point", _column([labels.get(name) for labels, _ in lines]))
    dims = {name: own for _, measured in lines for name, (own, _) in measured.items()}
    stacked = {name: pad_stack([m[name][1] if name in m else None for _, m in lines]) for name in dims}
    lengths: dict[str, int] = {}
    for name, values in stacked.items():
        for dim, length in zip(dims[name], values.shape[1:]):
            lengths[dim] = max(lengths.get(dim, 0), length)
    for name, values in stacked.items():
        full = blank_array((len(lines), *(lengths[dim] for dim in dims[name])), like=values)
        full[tuple(map(slice, values.shape))] = values
        data[name] = (("point", *dims[name]), full.astype(str) if full.dtype == object else full)
    return xarray.Dataset(data, attrs={"title": "results of giantstep sweep, one row per point"})


def _labels(entry: Entry) -> dict[str, Any]:
    """Return what a point is: its name, what was asked, its fields, and how its trials went."""
    ask, point = entry.ask, entry.point
    fields = _flat(json.loads(point.scenario))
    settings = {name: value for name, value in _flat(ask.settings).items() if name not in fields}
    reasons = [row.reason for row in entry.failures]
    return {
        "key": point.digest[:16],
        "family": ask.family,
        "what": ask.what,
        "source": ask.source,
        **{name: value for name, value in fields.items() if name != "family"},
        **({} if "dim" in fields else {"dim": point.dim}),
        **settings,
        "trials_done": sum(not row.reason for row in entry.rows),
        "trials_failed": len(reasons),
        "status": reasons[0] if reasons else "",
    }


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = json.dumps(value) if isinstance(value, list) else value
    return flat


def _measured(entry: Entry) -> dict[str, tuple[tuple[str, ...], Array]]:
    """Return variable -> (its own dims, its value); the mean of an experiment and its standard error."""
    declared = _declared(entry)
    measured: dict[str, tuple[tuple[str, ...], Array]] = {}
    for name in dict.fromkeys(name for row in entry.rows for name in row.values):
        kept = pad_stack([row.values.get(name) for row in entry.rows])
        own = declared[name].dims if name in declared else tuple(f"{name}_{axis}" for axis in range(kept.ndim - 1))
        if entry.ask.source == "limit":
            measured[name] = own, kept[0]
            continue
        variable = declared.get(name, Variable(name, own, "", ""))
        everywhere = np.ones((len(kept), 1), dtype=bool)
        mean, error = mean_and_error(kept[:, None], variable, everywhere)
        measured[name], measured[f"{name}_stderr"] = (own, mean[0]), (own, error[0])
    return measured


def _declared(entry: Entry) -> dict[str, Variable]:
    if entry.ask.family not in family_names():
        return {}
    question = family_class(entry.ask.family).questions.get(entry.ask.what)
    declared = {} if question is None else {variable.name: variable for variable in question.variables}
    return {**declared, **{f"{name}_stderr": variable for name, variable in declared.items()}}


def _column(values: list[Any]) -> Array:
    """Return one column: numbers where all are, otherwise text."""
    numbers = [_number(value) for value in values]
    if all(number is not None for number in numbers):
        return np.array(numbers)
    return np.array(["" if value is None else str(value) for value in values])


def _number(value: Any) -> float | int | None:
    if value is None:
        return float("nan")
    if isinstance(value, str) and value in ("inf", "-inf"):
        return float(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def columns(result: xarray.Dataset) -> dict[str, Array]:
    """Return a Dataset over ``point`` as columns of equal length; other dims are written out, ``V2[1]``."""
    table: dict[str, Array] = {}
    for name, variable in result.data_vars.items():
        for index in np.ndindex(variable.shape[1:]):
            entry = ",".join(str(number + 1) for number in index)
            table[f"{name}[{entry}]" if index else str(name)] = variable.values[(slice(None), *index)]
    return table


def _write_parquet(table: Mapping[str, Array], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise GiantstepError("Parquet files need pyarrow (install giantstep[parquet]).") from None
    parquet.write_table(pyarrow.table({name: values.tolist() for name, values in table.items()}), path)
