"""The option ``--data``: a study of a user's own table, made by the family that learns from tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from giantstep.errors import InputError

if TYPE_CHECKING:
    from giantstep.study import Study

Data = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A table in place of a study: .csv, .tsv, .npz, .parquet; rows = samples."),
]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="With --data: the column that holds the labels.")]
Scale = Annotated[
    str | None, typer.Option(metavar="HOW", help="With --data: columns (each to unit variance), global or none.")
]


def opened(study: Path | None, data: Path | None, label: str | None, scale: str | None) -> Study:
    """Return the study of a file, or of a table: its learning curve unless a grid says otherwise."""
    from giantstep.study import Study

    if data is None:
        for name, value in (("--label", label), ("--scale", scale)):
            if value is not None:
                raise InputError(f"{name} is for --data, which is missing.")
        if study is None:
            raise InputError("A study is missing: give S.toml, or --data FILE --label COLUMN.")
        return Study.read(study)
    if study is not None:
        raise InputError(f"Give either a study ({study}) or --data, not both.")
    if label is None:
        raise InputError("--label is missing: which column of the table holds the labels?")
    return _of_table(data, label, scale)


def _of_table(path: Path, label: str, scale: str | None) -> Study:
    from giantstep.datafile import read_labelled
    from giantstep.families import families, family_class
    from giantstep.study import Study

    table = read_labelled(path, label)
    family = next(family for family in map(family_class, families()) if "from_table" in vars(family))
    options = {} if scale is None else {"scale": scale}
    scenario = family.from_table(table.inputs, table.labels, **options)
    return Study(scenario, grid=scenario.learning_curve())
