"""A store as a table: one row per point, with its fields, its trials, and mean and standard error of every variable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from giantstep.errors import GiantstepError, check_ending
from giantstep.families import family_class, family_names
from giantstep.family import Variable
from giantstep.files import atomic_write
from giantstep.jsondata import with_infinity
from giantstep.padding import pad_stack
from giantstep.sweeps.inspect import Entry, entries
from giantstep.trials import mean_and_error

FORMATS = (".csv", ".parquet")


def export(path: str | Path, out: str | Path) -> int:
    """Write a store as CSV or Parquet, one row per point; return the number of rows."""
    import pandas  # type: ignore[import-untyped]

    suffix = check_ending(out, FORMATS, "A store is exported as {}")
    table = pandas.DataFrame([{**_labels(entry), **_measured(entry)} for entry in entries(path)])
    texts = [name for name, kind in table.dtypes.items() if kind.kind == "O"]
    table = table.fillna(dict.fromkeys(texts, "")).astype(dict.fromkeys(texts, str))
    with atomic_write(out) as temporary:
        if suffix == ".csv":
            table.to_csv(temporary, index=False)
        else:
            try:
                table.to_parquet(temporary, engine="pyarrow")
            except ImportError:
                raise GiantstepError("Parquet files need pyarrow (install giantstep[parquet]).") from None
    return len(table)


def _labels(entry: Entry) -> dict[str, Any]:
    """Return what a point is: its name, what was asked, its fields, and how its trials went."""
    ask, point = entry.ask, entry.point
    fields = _flat(with_infinity(json.loads(point.scenario)))
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


def _measured(entry: Entry) -> dict[str, Any]:
    """Return the value of every variable: of an experiment the mean, and its standard error beside it."""
    ask = entry.ask
    measured: dict[str, Any] = {}
    question = family_class(ask.family).questions.get(ask.what) if ask.family in family_names() else None
    declared = {} if question is None else {variable.name: variable for variable in question.variables}
    for name in dict.fromkeys(name for row in entry.rows for name in row.values):
        kept = pad_stack([row.values.get(name) for row in entry.rows])
        if ask.source == "limit":
            measured |= _written_out(name, kept[0])
            continue
        variable = declared.get(name, Variable(name, (), "", ""))
        mean, error = mean_and_error(kept[:, None], variable)
        measured |= _written_out(name, mean[0]) | _written_out(f"{name}_stderr", error[0])
    return measured


def _written_out(name: str, values: Any) -> dict[str, Any]:
    """Return the entries of an array by name, ``V2[1]``; a number has the name alone."""
    values = np.asarray(values)
    places = {index: ",".join(str(number + 1) for number in index) for index in np.ndindex(values.shape)}
    return {f"{name}[{place}]" if place else name: values[index] for index, place in places.items()}
