"""The commands that tell, draw and start: ``figures reproduce new describe cite doctor version``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import giantstep as gs
from giantstep.cli.options import Json, print_json

Family = Annotated[str, Argument(metavar="FAMILY", help="Name of a family, for example one-step.")]


def figures(
    long: Annotated[bool, Option("--long", help="Also what each panel shows, parameters and times.")] = False,
    json: Json = False,
) -> None:
    """List the figures that can be rebuilt: those of papers, and our own."""
    from giantstep.papers import list_figures

    recipes = list_figures()
    if json:
        names = ("name", "title", "paper", "ours", "description", "parameters", "seconds_quick", "seconds_full")
        print_json({"figures": [{name: getattr(recipe, name) for name in names} for recipe in recipes]})
        return
    for head, ours in (("Published figures", False), ("Figures of our own", True)):
        chosen = [recipe for recipe in recipes if recipe.ours is ours]
        print(f"{head} ({len(chosen)}):")
        print("\n\n".join(map(str, chosen)) if long else "\n".join(recipe.line for recipe in chosen), end="\n\n")
    print("giantstep reproduce NAME rebuilds one" + (".", "; giantstep figures --long says what each shows.")[not long])


def reproduce(
    name: Annotated[str, Argument(metavar="NAME", help="Name of a figure (see `giantstep figures`).")],
    quick: Annotated[bool, Option("--quick", help="A smaller size, in a minute or so.")] = False,
    device: Annotated[str, Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[Path, Option(metavar="DIR", help="Folder of the results.")] = Path("out"),
    store: Annotated[
        Path | None, Option(metavar="FILE", help="Keep every result here; what it holds is not computed again.")
    ] = None,
    check: Annotated[bool, Option("--check", help="Exit with status 1 where something disagrees.")] = False,
    see: Annotated[
        float | None,
        Option(metavar="GAP", help="With --check: also where a relative gap of this size could not be seen."),
    ] = None,
) -> None:
    """Rebuild a figure, published or ours: PNG, PDF, data and agreement report."""
    from giantstep.checks import check_number
    from giantstep.cli.options import check_new_folder
    from giantstep.papers.runner import reproduce as rebuild
    from giantstep.verdicts import SEE

    gap = SEE if see is None else check_number("see", see, "a number above 0", lambda gap: gap > 0)
    check_new_folder(out)
    report = rebuild(name, out=out, quick=quick, device=device, store=store)
    print(report)
    for path in report.files:
        print(f"wrote {path}", file=sys.stderr)
    if check and (not report.agrees or (see is not None and report.verdict(gap).verdict != "agrees")):
        print(f"giantstep: {report.verdict(gap).sentence}", file=sys.stderr)
        raise typer.Exit(1)


def new(family: Family) -> None:
    """Print a study of a family to start from, with every field explained."""
    from giantstep.describe import template

    sys.stdout.write(template(family))


def describe(family: Family, json: Json = False) -> None:
    """Describe a family: update rule, fields, symbols, bounds, questions, variables, theories, papers."""
    from giantstep import describe as about

    if json:
        print_json(about.describe(family))
    else:
        sys.stdout.write(about.describe_text(family))


def cite(
    study: Annotated[Path, Argument(metavar="S.toml", help="A study, or a result saved as .nc or .json.")],
) -> None:
    """Print the BibTeX of the papers behind a study."""
    is_result = study.suffix.lower() in (".nc", ".json")
    sys.stdout.write(gs.cite(gs.load(study) if is_result else gs.Study.read(study).scenario))


def doctor(json: Json = False) -> None:
    """Show versions, BLAS, cores, memory and GPU, and run a self-test."""
    from giantstep.cli.doctor import examine, report

    findings = examine()
    print_json(findings) if json else print(report(findings))
    if not findings["self_test"]["passed"]:
        raise typer.Exit(1)


def version() -> None:
    """Print the version."""
    print(gs.__version__)
