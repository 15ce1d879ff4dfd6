"""Results in files: CSV, NetCDF, JSON, LaTeX for pgfplots; nothing is ever half
written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError, check_ending
from giantstep.core.base.files import atomic_write, write_text
from giantstep.core.base.jsondata import json_data
from giantstep.core.result.columns import csv_text, table
from giantstep.core.result.notes import notes_in

if TYPE_CHECKING:
    import xarray


SAVED = (".csv", ".nc", ".json", ".tex")
LOADED = (".nc", ".json")
"""Endings of files that results are written to, and read back from."""


def save(result: xarray.Dataset, path: str | Path) -> None:
    r"""Write a result to a file, in the format its name ends with.

    - ``.csv``: a row per grid point (and per ``source``, ``trial``, ``time``, ``x``);
      small dimensions make columns, ``V2[1]``, ``Q1[1,2]``.
    - ``.nc``: NetCDF, with everything; `load` reads it back.
    - ``.json``: strict JSON with the arrays by name, null for NaN, "inf" for infinity;
      `load` reads it back.
    - ``.tex``: the columns of the CSV as a macro ``\giantstepdata`` for pgfplots and
      pgfplotstable.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import giantstep as gs
    >>> r = gs.predict(
    ...     gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1),
    ...     ridge=[0.1, 1.0],
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gs.save(r, pathlib.Path(folder) / "r.csv")
    ...     len(
    ...         (pathlib.Path(folder) / "r.csv").read_text().splitlines()
    ...     )  # a head and a row for each ridge
    3
    """
    suffix = check_ending(path, SAVED, "A result is saved as {}")
    if not hasattr(result, "data_vars"):
        raise InputError(f"save takes a result, not a {type(result).__name__}.")
    if suffix == ".nc":
        with atomic_write(path) as temporary:
            result.to_netcdf(temporary, engine="h5netcdf")
    elif suffix == ".json":
        write_text(path, to_json(result) + "\n")
    else:
        write_text(
            path, csv_text(table(result)) if suffix == ".csv" else _tex_text(result)
        )


def load(path: str | Path) -> xarray.Dataset:
    """Read a result that `save` wrote as ``.nc`` or ``.json``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import giantstep as gs
    >>> r = gs.predict(gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gs.save(r, pathlib.Path(folder) / "r.nc")
    ...     gs.load(
    ...         pathlib.Path(folder) / "r.nc"
    ...     ).test_error.item() == r.test_error.item()
    True
    """
    suffix = check_ending(path, LOADED, "A result is loaded from {}", there=True)
    from giantstep.core.result.text import Result

    try:
        if suffix == ".nc":
            result = _from_netcdf(Path(path))
        else:
            result = from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{str(path)!r} is not a result of giantstep ({type(error).__name__}:"
            f" {error})."
        ) from None
    notes = notes_in(result.attrs)  # NetCDF has no list of a single text
    result = result.assign_attrs(notes=notes) if notes else result
    return Result.of(result)


def to_json(result: xarray.Dataset, **more: Any) -> str:
    """Return a result as one strict JSON object, with `more` beside it: each coordinate
    and variable by its name.
    """
    return json.dumps({**plain_data(result), **more}, allow_nan=False)


def plain_data(result: xarray.Dataset) -> dict[str, Any]:
    """Return a result as data that strict JSON holds: each coordinate and variable by
    its name.
    """
    variables = {str(name): variable for name, variable in result.variables.items()}
    data: dict[str, Any] = {
        name: json_data(variable.values.tolist())
        for name, variable in variables.items()
    }
    data["dims"] = {
        name: list(map(str, variable.dims)) for name, variable in variables.items()
    }
    kinds = {"f": "float", "b": "bool", "i": "int", "u": "int"}
    data["dtypes"] = {
        name: kinds.get(variable.dtype.kind, "str")
        for name, variable in variables.items()
    }
    data["about"] = {
        name: dict(variable.attrs)
        for name, variable in variables.items()
        if variable.attrs
    }
    data["coords"] = [str(name) for name in result.coords]
    # NetCDF gives numbers back as those of NumPy
    data["attrs"] = {
        name: v.item() if isinstance(v, np.generic) else v
        for name, v in result.attrs.items()
    }
    return data


def from_json(text: str) -> xarray.Dataset:
    """Return the result that `to_json` wrote."""
    import xarray

    data = json.loads(text)
    columns = {}
    for name, dims in data["dims"].items():
        kind = {"bool": bool, "int": np.int64, "str": str}.get(
            data["dtypes"][name], np.float64
        )
        # None becomes NaN, "inf" infinity
        as_written = object if kind is np.float64 else kind
        values = np.array(data[name], dtype=as_written).astype(kind)
        columns[name] = (dims, values, data["about"].get(name, {}))
    coords = {name: columns.pop(name) for name in data["coords"]}
    return xarray.Dataset(columns, coords, attrs=data["attrs"])


_TEX_HEAD = r"""% Written by giantstep {giantstep_version}: {what} of {family}, {engine}.
% \input this file, then
%   plot:   \addplot table[x={x}, y={y}] {{\giantstepdata}};      (pgfplots)
%   table:  \pgfplotstabletypeset[columns={{{x},{y}}},      (pgfplotstable, booktabs)
%             every head row/.style={{before row=\toprule, after row=\midrule}},
%             every last row/.style={{after row=\bottomrule}}]{{\giantstepdata}}
\pgfplotstableread{{
"""  # noqa: E501


def _tex_text(result: xarray.Dataset) -> str:
    columns = {
        _tex_name(name): map(_tex_cell, values.tolist())
        for name, values in table(result).items()
    }
    columns.pop("status", None)
    names = list(columns)
    shown = [
        _tex_name(str(name))
        for name in result.data_vars
        if _tex_name(str(name)) in columns
    ]
    about = {
        name: result.attrs.get(name, "?")
        for name in ("what", "family", "engine", "giantstep_version")
    }
    head = _TEX_HEAD.format(x=names[0], y=(shown or names)[0], **about)
    body = "".join(" ".join(row) + "\n" for row in [names, *zip(*columns.values())])
    return head + body + "}\\giantstepdata\n"


def _tex_name(name: str) -> str:
    """Return a name that is plain in TeX: ``test_error`` is ``test-error``, ``Q1[1,2]``
    is ``Q1-1-2``.
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def _tex_cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    return "{" + re.sub(r"([_#%&$])", r"\\\1", str(value)) + "}"


def _from_netcdf(path: Path) -> xarray.Dataset:
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        result = opened.load()
    texts = {
        name: variable.astype(str)
        for name, variable in result.variables.items()
        if variable.dtype == object
    }
    return (
        result.assign_coords({n: texts.pop(n) for n in result.coords if n in texts})
        .assign(texts)
        .drop_encoding()
    )
