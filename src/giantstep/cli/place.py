"""The command ``place``: where a dataset lies in the phase diagram of clustering."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer

import giantstep as gs
from giantstep.cli.options import Json, Output
from giantstep.cli.outputs import check_outputs
from giantstep.errors import bad_field


def place(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A matrix, rows = samples: .csv, .tsv, .txt, .npy, .npz or .parquet.")
    ],
    clusters: Annotated[
        int | None, typer.Option(metavar="K", help="Number of clusters; chosen by evidence if left out.")
    ] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="The file has samples as columns.")] = False,
    seed: Annotated[int, typer.Option(help="Any whole number from 0 on.")] = 0,
    json: Json = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Mark the point in the phase diagram: .png, .pdf, .svg.")
    ] = None,
) -> None:
    """Say whether clusters in a dataset are easy, hard or impossible to find."""
    from giantstep.estimators.matrices import read_matrix
    from giantstep.files import atomic_write

    check_outputs(Output(plot=[plot] if plot else []))
    if seed < 0:
        raise bad_field("seed", seed, "a whole number at least 0")
    placement = gs.place(read_matrix(data, transpose), n_clusters="auto" if clusters is None else clusters, seed=seed)
    if plot:
        with atomic_write(plot) as temporary:
            placement.plot(temporary)
    print(json_module.dumps(placement.to_dict(), allow_nan=False) if json else placement.report())
    if plot:
        print(f"wrote {plot}", file=sys.stderr)
