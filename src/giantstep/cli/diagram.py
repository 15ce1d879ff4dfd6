"""The command ``phase-diagram``: the phases of a study's scenario as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import giantstep as gs
from giantstep.cli.options import Output, StudyFile
from giantstep.cli.outputs import check_outputs
from giantstep.cli.values import assignments, many, single


def phase_diagram(
    study: Annotated[Path, StudyFile],
    plot: Annotated[Path, typer.Option(metavar="FILE", help="Where to draw it: .png, .pdf, .svg.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a field; may be repeated.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUES", help="Another horizontal axis, or the range of the vertical one."),
    ] = None,
) -> None:
    """Draw the phase diagram of a study's scenario: named regions and the lines between them."""
    check_outputs(Output(plot=[plot]))
    fields = assignments("--set", set_ or (), lambda name, text: single(text))
    gs.phase_diagram(gs.Study.read(study).scenario, {**fields, **assignments("--grid", grid or (), many)}, path=plot)
    print(f"wrote {plot}", file=sys.stderr)
