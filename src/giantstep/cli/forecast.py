"""The command ``forecast``: the learning curve of given features."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import giantstep as gs
from giantstep.cli.options import Output
from giantstep.cli.outputs import check_outputs
from giantstep.cli.values import many
from giantstep.cli.verbs import show_or_write
from giantstep.errors import InputError

if TYPE_CHECKING:
    from giantstep.datafile import LabelledTable
    from giantstep.forecasts.table import Forecast

SHOWN = ("error", "mse")


@dataclass(frozen=True)
class ForecastOptions:
    """What is asked of the features."""

    samples: Annotated[
        str | None, Option(metavar="SIZES", help="Sample sizes: 100:10000:12 (evenly in log) or a list with commas.")
    ] = None
    ridge: Annotated[
        str | None, Option(metavar="RIDGES", help="Penalties: 0.1:1000:9 (evenly in log) or a list with commas.")
    ] = None
    task: Annotated[str, Option(help="regression, classes or auto.")] = "auto"
    trials: Annotated[int, Option(help="Real fits at every size; 0: no experiment.")] = 8
    rows: Annotated[int, Option(help="Rows that leave-one-out looks at where there are more.")] = 4000
    seed: Annotated[int, Option(help="Any whole number from 0 on.")] = 0


def forecast(
    data: Annotated[
        Path, Option(metavar="FILE", help="Features and labels: .csv, .tsv, .npz, .parquet, or features alone: .npy.")
    ],
    label: Annotated[
        str, Option(metavar="COLUMN", help="Column (array of an .npz) that holds the labels; with .npy: a file .npy.")
    ],
    asked: ForecastOptions,
    output: Output,
    groups: Annotated[
        str | None, Option(metavar="COLUMN", help="Column of groups whose rows stay together in the experiment.")
    ] = None,
    drop: Annotated[
        list[str] | None, Option(metavar="COLUMN", help="A column that is no feature; may be repeated.")
    ] = None,
) -> None:
    """Forecast how the error of a ridge read-out of given features falls with more samples.

    For features as they are, of any law (a network's penultimate layer, a raw table). `giantstep predict --data` is for
    raw inputs taken as Gaussian mixtures, with other losses and exact limits.
    """
    check_outputs(output)
    table, grouping = _read(data, label, groups, drop or [])
    settings = {**vars(asked), "ridge": _sizes("ridge", asked.ridge), "samples": _sizes("samples", asked.samples)}
    result = gs.forecast(table.inputs, table.labels, groups=grouping, **settings)
    trust = json.loads(result.attrs["trust_numbers"])
    show_or_write(result, output, result.attrs["trust"], _print_curve, trust=trust)


def _read(data: Path, label: str, groups: str | None, drop: list[str]) -> tuple[LabelledTable, Any]:
    """Return features with labels, and the groups of the rows."""
    from giantstep.datafile import read_labelled, read_npy

    if data.suffix.lower() == ".npy":
        for option in ["--groups"] * (groups is not None) + ["--drop"] * bool(drop):
            raise InputError(f"{option} names a column, which .npy features do not have; use .csv, .npz or .parquet.")
        return read_npy(data, label), None
    table = read_labelled(data, label, [*drop, *([] if groups is None else [groups])])
    return table, None if groups is None else table.others[groups]


def _sizes(name: str, text: str | None) -> Any:
    """Return numbers from a list with commas or start:stop:num, which is even in log unless it says otherwise."""
    if text is None:
        return None
    values = many(name, text + ":log" if text.count(":") == 2 else text)
    if name != "samples" or ":" not in text:
        return values
    import numpy as np

    return np.unique(np.round(np.asarray(values)).astype(np.int64))


def _print_curve(result: Forecast) -> None:
    """Print the forecast at the best ridge of each sample size, with the experiment and the verdicts."""
    import numpy as np

    from giantstep.forecasts.table import known
    from giantstep.listing import ListedTable, Listing, listing_text

    attrs = result.attrs
    names = [name for name in SHOWN if name in result]
    rows = []
    for size in result["samples"].values:
        if not np.isfinite(result[names[0]].sel(source="limit", samples=size)).any():
            continue
        best = result.best_ridge(size)
        point = result.sel(samples=size, ridge=float(best))
        row: dict[str, Any] = {"samples": float(size), "best ridge": float(best)}
        row["not told from"] = ", ".join(f"{ridge:.4g}" for ridge in best.rivals) or "-"
        for name in names:
            limit = point.sel(source="limit")
            row[f"{name} ± se_total"] = known(limit[name].item(), limit[f"{name}_se_total"].item())
            if "experiment" in result["source"].values:
                real = point.sel(source="experiment")
                measured = known(real[name].item(), real[f"{name}_stderr"].item())
                row[f"{name} in the experiment"] = "-" if np.isnan(real[name]) else measured
            row[f"verdict on {name}"] = str(point[f"{name}_verdict"].item())
        rows.append(row)
    about = f"{attrs['N']} rows, {attrs['p']} features, {attrs['task']}"
    table = ListedTable(list(rows[0]) if rows else [], [list(row.values()) for row in rows])
    print(listing_text(Listing(f"{attrs['title']}: {about}; at the best ridge of each size", [table], [])))
    print("For raw inputs taken as Gaussian mixtures, other losses and exact limits: giantstep predict --data.\n")
