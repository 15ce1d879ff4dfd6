"""The commands ``predict``, ``simulate``, ``compare``: a study from a file, changed by options, answered."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import giantstep as gs
from giantstep.cli.data import about_table, open_study
from giantstep.cli.edit import edit_study
from giantstep.cli.options import Changes, Check, Experiment, Limit, Output, StudyFiles, Table, Theory, Trials
from giantstep.cli.outputs import check_outputs, write_outputs
from giantstep.errors import InputError

if TYPE_CHECKING:
    import xarray

    from giantstep.agreements import Agreement
    from giantstep.scenario import Scenario

Studies = Annotated[list[Path] | None, StudyFiles]


class AskedStudies(NamedTuple):
    """What is answered: a study, and, of several files, their scenarios by name in place of its own."""

    study: gs.Study
    several: dict[str, dict[str, Scenario]]


def predict(changes: Changes, limit: Limit, output: Output, table: Table, study: Studies = None) -> None:
    """Answer a study with its limit of infinite dimension."""
    check_outputs(output)
    asked = _asked(study, table, "predict", changes, limit)
    hand_over(asked.study.predict(**asked.several), output, "" if table.data is None else about_table(asked.study))


def simulate(changes: Changes, experiment: Trials, output: Output, table: Table, study: Studies = None) -> None:
    """Answer a study with an experiment of finite dimension: means over trials, with standard errors."""
    check_outputs(output)
    asked = _asked(study, table, "simulate", changes, experiment)
    hand_over(asked.study.simulate(**asked.several), output)


def compare(
    changes: Changes,
    theory: Theory,
    experiment: Experiment,
    check: Check,
    output: Output,
    table: Table,
    study: Studies = None,
) -> None:
    """Answer a study with both and report how well they agree."""
    from giantstep.checks import check_number
    from giantstep.verdicts import SEE

    allow = check_number("allow", check.allow, "a number at least 0", lambda gap: gap >= 0)
    see = SEE if check.see is None else check_number("see", check.see, "a number above 0", lambda gap: gap > 0)
    check_outputs(output)
    asked = _asked(study, table, "compare", changes, theory, experiment)
    variables = [name.strip() for names in check.variables or () for name in names.split(",")] or None
    from giantstep.agreements import agreement, check_variables  # not before the study was found good

    check_variables(variables, asked.study.question)
    result = asked.study.compare(**asked.several)
    report = agreement(result, variables)
    hand_over(result, output, report.table(allow, see), agreement=report.to_dict(allow, see))
    if check.check:
        _check(report, allow, None if check.see is None else see)


def _asked(paths: list[Path] | None, table: Table, verb: str, changes: Changes, *settings: Any) -> AskedStudies:
    """Read the studies, change each by the options, and see that they differ in their scenarios only."""
    if not paths or len(paths) == 1:
        study = open_study(paths[0] if paths else None, table)
        return AskedStudies(edit_study(study, verb, changes, *settings), {})
    from giantstep.several import by_name
    from giantstep.study import same_tables

    names = _names(paths)
    edited = {name: edit_study(open_study(path, table), verb, changes, *settings) for name, path in zip(names, paths)}
    scenarios = by_name({name: study.scenario for name, study in edited.items()})
    first, *rest = edited.items()
    for name, study in rest:
        for part, option in _SHARED.items():
            one, other = getattr(first[1], part) or {}, getattr(study, part) or {}
            if one != other if part == "what" else not same_tables(one, other):
                raise InputError(
                    f"{first[0]!r} and {name!r} differ in `{part}`: studies in one table share all but the scenario "
                    f"({option} changes it in each)."
                )
    return AskedStudies(first[1], {"scenarios": scenarios})


_SHARED = {
    "what": "--what",
    "grid": "--grid",
    "settings": "--set",
    "limit": "--theory",
    "experiment": "--dim, --trials",
}
"""What several studies must have in common, and the options that change it."""


def _names(paths: list[Path]) -> list[str]:
    """Return what scenarios of several files are called: the names of the files, with their folders where need be."""
    for names in ([path.stem for path in paths], list(map(str, paths))):
        if len(set(names)) == len(names):
            return names
    raise InputError("One study is named twice.")


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
