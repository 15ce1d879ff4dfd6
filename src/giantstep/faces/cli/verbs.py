"""The commands ``predict``, ``simulate``, ``compare``: a study from a file, changed by
options, answered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

import giantstep as gs
from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.faces.cli.options import (
    Changes,
    Experiment,
    Limit,
    Output,
    Shown,
    StudyFiles,
    Table,
    Theory,
    Trials,
    edit_study,
    given,
    names_in,
    option,
    write_outputs,
)

if TYPE_CHECKING:
    import xarray

    from giantstep.core.scenario.family import Engine, Question
    from giantstep.core.scenario.model import Scenario

Studies = Annotated[list[Path] | None, StudyFiles]

_FORECAST = (
    "This takes the inputs as Gaussian mixtures. For features as they are (of a"
    " network, any table), many classes and error bars: giantstep forecast --data."
)
"""Said below the prediction of a table."""


def predict(
    changes: Changes,
    limit: Limit,
    output: Output,
    shown: Shown,
    table: Table,
    study: Studies = None,
) -> None:
    """Answer a study with its limit of infinite dimension."""
    asked, several = _asked(study, table, "predict", changes, limit)
    _check_shown(shown.names(), asked.question, "limit")
    learnt: Any = asked.scenario
    if table.data is None:
        closing = ""
    else:
        closing = f"{learnt.penalty_elsewhere()}\n{_FORECAST}"
    hand_over(asked.predict(**several), output, closing, shown.names())


def simulate(
    changes: Changes,
    experiment: Trials,
    output: Output,
    shown: Shown,
    table: Table,
    study: Studies = None,
) -> None:
    """Answer a study with an experiment of finite dimension: means over trials, with
    standard errors.
    """
    asked, several = _asked(study, table, "simulate", changes, experiment)
    _check_shown(shown.names(), asked.question, "experiment")
    hand_over(asked.simulate(**several), output, variables=shown.names())


def compare(
    changes: Changes,
    theory: Theory,
    experiment: Experiment,
    output: Output,
    table: Table,
    study: Studies = None,
    check: bool = Option(
        False, "--check", help="Exit with status 1 where limit and experiment disagree."
    ),
    variables: list[str] | None = option(
        "NAMES", "Judge, print, write and draw these only; several with commas."
    ),
    see: float | None = option(
        "GAP",
        "Relative gap asked for (0.05); with --check, status 1 where it could not be"
        " seen.",
    ),
    allow: float = Option(
        0.0,
        metavar="GAP",
        help="Relative gap that is no disagreement (the finite-size term).",
    ),
) -> None:
    """Answer a study with both and report how well they agree."""
    from giantstep.core.result.agreement import agreement, check_variables
    from giantstep.core.result.verdicts import SEE, percent
    from giantstep.core.scenario.checks import check_number

    check_number("allow", allow, "a number at least 0", lambda gap: gap >= 0)
    if see is None:
        gap = SEE
    else:
        gap = check_number("see", see, "a number above 0", lambda gap: gap > 0)
    asked, several = _asked(study, table, "compare", changes, theory, experiment)
    judged = names_in(variables)
    check_variables(judged, asked.question)
    result = asked.compare(**several)
    report = agreement(result, judged)
    hand_over(
        result,
        output,
        report.table(allow, gap),
        judged,
        agreement=report.to_dict(allow, gap),
    )
    if check and not report.passes(allow, see):
        failed = report.failures(allow)
        blind = [name for name in report.failures(allow, gap) if name not in failed]
        if failed or not blind:
            if failed:
                about = f"in {', '.join(failed)}"
            else:
                about = "since nothing could be compared"
            print(
                f"giantstep: {report.theory.name} and experiment are not in agreement"
                f" {about}.",
                file=sys.stderr,
            )
        if see is not None and blind:
            hidden = (
                f"a gap of {percent(max(gap, allow))} could not have been seen in"
                f" {', '.join(blind)}"
            )
            print(f"giantstep: {hidden}.", file=sys.stderr)
        raise typer.Exit(1)


def _asked(
    paths: list[Path] | None, table: Table, verb: str, changes: Changes, *settings: Any
) -> tuple[gs.Study, dict[str, dict[str, Scenario]]]:
    """Return the study, changed by the options; of several files the first, with the
    scenarios of all by name.
    """
    if not paths or len(paths) == 1:
        study = _opened(paths[0] if paths else None, table)
        return edit_study(study, verb, changes, *settings), {}
    from giantstep.core.scenario.several import by_name

    names = [path.stem for path in paths]
    if len(set(names)) == len(names):
        names = names
    else:
        names = list(map(str, paths))
    if len(set(names)) < len(names):
        raise InputError("One study is named twice.")
    edited = {
        name: edit_study(_opened(path, table), verb, changes, *settings)
        for name, path in zip(names, paths)
    }
    scenarios = by_name({name: study.scenario for name, study in edited.items()})
    first = edited[names[0]]
    for name, study in edited.items():
        if replace(study, scenario=first.scenario) != first:
            rest = (
                "studies in one table share the rest (--what, --grid, --theory, --dim,"
                " --trials change it in each)"
            )
            raise InputError(
                f"{names[0]!r} and {name!r} differ in more than their scenarios:"
                f" {rest}."
            )
    return first, {"scenarios": scenarios}


def _opened(study: Path | None, table: Table) -> gs.Study:
    """Return the study of a file, or of a table: its learning curve unless a grid says
    otherwise.
    """
    if table.data is None:
        for name in given(table):
            raise InputError(f"--{name} is for --data, which is missing.")
        if study is None:
            raise InputError(
                "A study is missing: give S.toml, or --data FILE --label COLUMN."
            )
        return gs.Study.read(study)
    if study is not None:
        raise InputError(f"Give either a study ({study}) or --data, not both.")
    if table.label is None:
        raise InputError(
            "--label is missing: which column of the table holds the labels?"
        )
    from giantstep.core.scenario.families import SHIPPED, family_class
    from giantstep.tools.data.datafile import read_labelled

    read = read_labelled(table.data, table.label, table.drop or ())
    own = {} if table.scale is None else {"scale": table.scale}
    family: Any = next(
        family for family in map(family_class, SHIPPED) if "from_data" in vars(family)
    )
    scenario = family.from_data(read.inputs, read.labels, **own)
    return gs.Study(scenario, grid=scenario.learning_curve())


def _check_shown(names: list[str] | None, question: Question, engine: Engine) -> None:
    """Refuse names that the answer of an engine does not have, before it is
    computed.
    """
    known = [
        variable.name for variable in question.variables if engine in variable.engines
    ]
    for name in names or ():
        if name not in known:
            raise bad_field(
                "variables", name, f"among {', '.join(known)}{nearest(name, known)}"
            )


def hand_over(
    result: xarray.Dataset,
    output: Output,
    closing: str = "",
    variables: list[str] | None = None,
    **report: Any,
) -> None:
    """Do as `show_or_write` with the `variables` that are wanted, and exit with 1 where
    a point failed.
    """
    from giantstep.core.result.text import Result

    told = result if isinstance(result, Result) else Result.of(result)
    told = told if variables is None else told.only(variables)
    show_or_write(told, output, closing, told.listed, variables, **report)
    if not bool(result["converged"].all()):
        raise typer.Exit(1)


def show_or_write(
    result: xarray.Dataset,
    output: Output,
    closing: str,
    text: Callable[[], str],
    variables: list[str] | None = None,
    **report: Any,
) -> None:
    """Write the files, and print the result where it was not written, `closing` below
    it; JSON has `report` beside.
    """
    from giantstep.core.result.files import to_json

    files = write_outputs(result, output, variables)
    if output.json:
        print(to_json(result, **report))
    elif shown := "\n".join(filter(None, ["" if files else text(), closing])):
        print(shown)
    for path in files:
        print(f"wrote {path}", file=sys.stderr)
