"""The command ``script``: the experiment of a study as a program that runs without giantstep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from giantstep.cli.options import StudyFile
from giantstep.cli.values import assignments, single


def script(
    study: Annotated[Path, StudyFile],
    lang: Annotated[str, typer.Option(help="numpy, or torch, where gradients are those of autograd.")] = "numpy",
    dim: Annotated[int | None, typer.Option(help="Dimension of the data; that of the study, or 300.")] = None,
    trials: Annotated[int | None, typer.Option(help="Independent repetitions; those of the study, or 10.")] = None,
    seed: Annotated[int | None, typer.Option(help="Any whole number from 0 on.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a field; may be repeated.")
    ] = None,
) -> None:
    """Print the experiment of a study as a program that runs without giantstep."""
    from giantstep.scripts import one_scenario
    from giantstep.scripts import script as write
    from giantstep.study import Study

    read = Study.read(study)
    scenario = one_scenario(read, assignments("--set", set_ or (), lambda name, text: single(text)))
    given = {"dim": dim, "trials": trials, "seed": seed}
    said = {name: read.experiment.get(name) if value is None else value for name, value in given.items()}
    settings: dict[str, Any] = {"lang": lang, **{name: value for name, value in said.items() if value is not None}}
    sys.stdout.write(write(scenario, **settings))
