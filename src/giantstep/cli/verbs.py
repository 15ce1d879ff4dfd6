"""The commands ``predict``, ``simulate``, ``compare``: a study from a file, changed by options, answered."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from giantstep.cli import outputs
from giantstep.cli.data import Data, Label, Scale, opened
from giantstep.cli.edit import Changes, edited

if TYPE_CHECKING:
    import xarray

    from giantstep.study import Study

StudyFile = Annotated[
    Path | None, typer.Argument(metavar="S.toml", help="The study; `giantstep new FAMILY` prints one.")
]
What = Annotated[str | None, typer.Option(help="The question asked (see `giantstep describe`).")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a field or setting; may be repeated."),
]
Grid = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=VALUES",
        help="Vary a field: start:stop:num[:log] or a list with commas; may be repeated.",
    ),
]
Theory = Annotated[str | None, typer.Option(help="Another published theory of the same quantity, by name.")]
Correction = Annotated[
    str | None, typer.Option(metavar="N", help="Add the leading finite-size correction at this dimension.")
]
Dim = Annotated[str | None, typer.Option(metavar="N", help="Dimension of the data; several with commas.")]
Trials = Annotated[int | None, typer.Option(help="Independent repetitions.")]
Seed = Annotated[int | None, typer.Option(help="Any whole number from 0 on.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda.")]
Paired = Annotated[bool, typer.Option("--paired", help="Give all points the same draws.")]
KeepTrials = Annotated[bool, typer.Option("--keep-trials", help="Keep every trial, not just the mean.")]
Out = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Write the result: .csv, .nc, .json, .tex; may be repeated."),
]
Plot = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Draw the result: .png, .pdf, .svg; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one strict JSON object.")]
Check = Annotated[bool, typer.Option("--check", help="Exit with status 1 where limit and experiment disagree.")]
Allow = Annotated[
    float, typer.Option(metavar="GAP", help="Relative gap that is no disagreement (the finite-size term).")
]


def predict(
    study: StudyFile = None,
    what: What = None,
    set_: Set = None,
    grid: Grid = None,
    theory: Theory = None,
    dim: Correction = None,
    out: Out = None,
    json: Json = False,
    plot: Plot = None,
    data: Data = None,
    label: Label = None,
    scale: Scale = None,
) -> None:
    """Answer a study with its limit of infinite dimension."""
    changes = Changes(what, set_ or (), grid or (), dim, limit={"theory": theory})
    result = _opened(Source(study, data, label, scale), "predict", changes, out, plot).predict()
    hand_over(result, out, plot, json)


def simulate(
    study: StudyFile = None,
    what: What = None,
    set_: Set = None,
    grid: Grid = None,
    dim: Dim = None,
    trials: Trials = None,
    seed: Seed = None,
    device: Device = None,
    paired: Paired = False,
    keep_trials: KeepTrials = False,
    out: Out = None,
    json: Json = False,
    plot: Plot = None,
    data: Data = None,
    label: Label = None,
    scale: Scale = None,
) -> None:
    """Answer a study with an experiment of finite dimension: means over trials, with standard errors."""
    experiment = {"trials": trials, "seed": seed, "device": device, "paired": paired or None}
    changes = Changes(what, set_ or (), grid or (), dim, experiment={**experiment, "keep_trials": keep_trials or None})
    result = _opened(Source(study, data, label, scale), "simulate", changes, out, plot).simulate()
    hand_over(result, out, plot, json)


def compare(
    study: StudyFile = None,
    what: What = None,
    set_: Set = None,
    grid: Grid = None,
    theory: Theory = None,
    dim: Dim = None,
    trials: Trials = None,
    seed: Seed = None,
    device: Device = None,
    paired: Paired = False,
    check: Check = False,
    allow: Allow = 0.0,
    out: Out = None,
    json: Json = False,
    plot: Plot = None,
    data: Data = None,
    label: Label = None,
    scale: Scale = None,
) -> None:
    """Answer a study with both and report how well they agree."""
    from giantstep.agreement import agreement

    _check_allow(allow)
    experiment = {"trials": trials, "seed": seed, "device": device, "paired": paired or None}
    changes = Changes(what, set_ or (), grid or (), dim, limit={"theory": theory}, experiment=experiment)
    result = _opened(Source(study, data, label, scale), "compare", changes, out, plot).compare()
    report = agreement(result)
    failures = report.failures(allow) if check else []
    hand_over(result, out, plot, json, report=report.to_dict(allow), closing=report.table(allow))
    if check and not report.passes(allow):
        about = f"in {', '.join(failures)}" if failures else "since nothing could be compared"
        print(f"giantstep: limit and experiment are not in agreement {about}.", file=sys.stderr)
        raise typer.Exit(1)


def _check_allow(allow: float) -> None:
    from giantstep.errors import bad_field

    if not allow >= 0:
        raise bad_field("allow", allow, "a number at least 0")


@dataclass(frozen=True)
class Source:
    """Where a study comes from: a file, or a table with its label column."""

    study: Path | None
    data: Path | None
    label: str | None
    scale: str | None


def _opened(source: Source, verb: str, changes: Changes, out: list[Path] | None, plot: list[Path] | None) -> Study:
    """Read the study, make the changes, and check all that can be checked before anything runs."""
    outputs.check(out or [], plot or [])
    return edited(opened(source.study, source.data, source.label, source.scale), verb, changes)


def hand_over(
    result: xarray.Dataset,
    out: list[Path] | None,
    plot: list[Path] | None,
    as_json: bool,
    report: dict[str, Any] | None = None,
    closing: str = "",
) -> None:
    """Write the files, print the result where it was not written, and exit with 1 where a point failed."""
    outputs.write(result, out or [], plot or [])
    if as_json:
        print(_json(result, report))
    else:
        if not (out or plot):
            from giantstep.cli.tables import print_result

            print_result(result)
        if closing:
            print(closing)
    for path in [*(out or []), *(plot or [])]:
        print(f"wrote {path}", file=sys.stderr)
    if not bool(result["converged"].all()):
        raise typer.Exit(1)


def _json(result: xarray.Dataset, report: dict[str, Any] | None) -> str:
    import json

    from giantstep.files import to_json
    from giantstep.jsondata import json_data

    text = to_json(result)
    if report is None:
        return text
    return json.dumps({**json.loads(text), "agreement": json_data(report)}, allow_nan=False)
