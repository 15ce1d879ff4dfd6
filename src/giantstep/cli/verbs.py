"""The commands ``predict``, ``simulate``, ``compare``: a study from a file, changed by options, answered."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from giantstep.cli.data import about_table, open_study
from giantstep.cli.edit import edit_study
from giantstep.cli.options import Changes, Check, Experiment, Limit, Output, StudyFile, Table, Theory, Trials
from giantstep.cli.outputs import check_outputs, write_outputs

if TYPE_CHECKING:
    import xarray

    from giantstep.agreements import Agreement

Study = Annotated[Path | None, StudyFile]


def predict(changes: Changes, limit: Limit, output: Output, table: Table, study: Study = None) -> None:
    """Answer a study with its limit of infinite dimension."""
    check_outputs(output)
    edited = edit_study(open_study(study, table), "predict", changes, limit)
    hand_over(edited.predict(), output, "" if table.data is None else about_table(edited))


def simulate(changes: Changes, experiment: Trials, output: Output, table: Table, study: Study = None) -> None:
    """Answer a study with an experiment of finite dimension: means over trials, with standard errors."""
    check_outputs(output)
    hand_over(edit_study(open_study(study, table), "simulate", changes, experiment).simulate(), output)


def compare(
    changes: Changes,
    theory: Theory,
    experiment: Experiment,
    check: Check,
    output: Output,
    table: Table,
    study: Study = None,
) -> None:
    """Answer a study with both and report how well they agree."""
    from giantstep.checks import check_number
    from giantstep.verdicts import SEE

    allow = check_number("allow", check.allow, "a number at least 0", lambda gap: gap >= 0)
    see = SEE if check.see is None else check_number("see", check.see, "a number above 0", lambda gap: gap > 0)
    check_outputs(output)
    edited = edit_study(open_study(study, table), "compare", changes, theory, experiment)
    asked = [name.strip() for names in check.variables or () for name in names.split(",")] or None
    from giantstep.agreements import agreement, check_variables  # not before the study was found good

    check_variables(asked, edited.question)
    result = edited.compare()
    report = agreement(result, asked)
    hand_over(result, output, report.table(allow, see), agreement=report.to_dict(allow, see))
    if check.check:
        _check(report, allow, None if check.see is None else see)


def _check(report: Agreement, allow: float, see: float | None) -> None:
    """Exit with status 1 where something disagrees, or where a gap of `see` could not have been seen."""
    from giantstep.verdicts import percent

    bad = report.failures(allow)
    blind = [] if see is None else [name for name in report.failures(allow, see) if name not in bad]
    if bad or not report.rows:
        about = f"in {', '.join(bad)}" if bad else "since nothing could be compared"
        print(f"giantstep: {report.theory.name} and experiment are not in agreement {about}.", file=sys.stderr)
    if blind and see is not None:
        hidden = f"a gap of {percent(max(see, allow))} could not have been seen in {', '.join(blind)}"
        print(f"giantstep: {hidden}.", file=sys.stderr)
    if bad or blind or not report.rows:
        raise typer.Exit(1)


def hand_over(result: xarray.Dataset, output: Output, closing: str = "", **report: Any) -> None:
    """Write the files, print the result where it was not written, and exit with 1 where a point failed.

    Parameters
    ----------
    closing : text below the table.
    **report : what JSON says beside the result.
    """
    files = write_outputs(result, output)
    if output.json:
        from giantstep.files import to_json

        print(to_json(result, **report))
    else:
        if not files:
            from giantstep.cli.tables import print_result

            print_result(result)
        if closing:
            print(closing)
    for path in files:
        print(f"wrote {path}", file=sys.stderr)
    if not bool(result["converged"].all()):
        raise typer.Exit(1)
