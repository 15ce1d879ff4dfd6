"""Where a study comes from: a file, or a user's own table, of which the family that learns from tables makes one."""

from __future__ import annotations

from pathlib import Path

import giantstep as gs
from giantstep.cli.options import Table, given
from giantstep.errors import InputError

FORECAST = (
    "This takes the inputs as Gaussian mixtures. For features as they are (of a network, any table), many classes and "
    "error bars: giantstep forecast --data."
)
"""Said below the prediction of a table."""


def about_table(study: gs.Study) -> str:
    """Return what is said below an answer about a table: the penalty in other words, and what else there is."""
    return "\n".join([study.scenario.penalty_elsewhere(), FORECAST])


def open_study(study: Path | None, table: Table) -> gs.Study:
    """Return the study of a file, or of a table: its learning curve unless a grid says otherwise."""
    if table.data is None:
        for name in given(table):
            raise InputError(f"--{name} is for --data, which is missing.")
        if study is None:
            raise InputError("A study is missing: give S.toml, or --data FILE --label COLUMN.")
        return gs.Study.read(study)
    if study is not None:
        raise InputError(f"Give either a study ({study}) or --data, not both.")
    if table.label is None:
        raise InputError("--label is missing: which column of the table holds the labels?")
    return _study_of_table(table.data, table.label, table)


def _study_of_table(path: Path, label: str, options: Table) -> gs.Study:
    from giantstep.datafile import read_labelled
    from giantstep.families import SHIPPED, family_class

    table = read_labelled(path, label, options.drop or ())
    family = next(family for family in map(family_class, SHIPPED) if "from_table" in vars(family))
    scale = {} if options.scale is None else {"scale": options.scale}
    scenario = family.from_table(table.inputs, table.labels, **scale)
    return gs.Study(scenario, grid=scenario.learning_curve())
