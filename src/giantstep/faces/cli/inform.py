"""The commands that tell, draw and start: ``figures reproduce new describe cite doctor
version``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import giantstep as gs
from giantstep.faces.cli.options import Json, option, print_answer, print_json

if TYPE_CHECKING:
    from giantstep.papers.recipe import Recipe

Family = Annotated[
    str, Argument(metavar="FAMILY", help="Name of a family, for example one-step.")
]


def figures(
    long: bool = Option(
        False, "--long", help="Also what each panel shows, parameters and times."
    ),
    json: Json = False,
) -> None:
    """List the figures that can be rebuilt: those of papers, and our own."""
    from giantstep.papers import list_figures

    recipes = list_figures()
    if json:
        print_json({"figures": [_about(recipe) for recipe in recipes]})
        return
    published = [recipe for recipe in recipes if not recipe.ours]
    ours = [recipe for recipe in recipes if recipe.ours]
    _print_figures("Published figures", published, long)
    _print_figures("Figures of our own", ours, long)
    how = "giantstep reproduce NAME rebuilds one"
    if long:
        print(f"{how}.")
    else:
        print(f"{how}; giantstep figures --long says what each shows.")


def _about(recipe: Recipe) -> dict[str, Any]:
    """Return what there is to say of a figure, as plain data."""
    names = (
        "name",
        "title",
        "paper",
        "ours",
        "description",
        "parameters",
        "seconds_quick",
        "seconds_full",
    )
    return {name: getattr(recipe, name) for name in names}


def _print_figures(head: str, recipes: Sequence[Recipe], long: bool) -> None:
    print(f"{head} ({len(recipes)}):")
    if long:
        text = "\n\n".join(map(str, recipes))
    else:
        text = "\n".join(recipe.line for recipe in recipes)
    print(text, end="\n\n")


def reproduce(
    name: Annotated[
        str,
        Argument(metavar="NAME", help="Name of a figure (see `giantstep figures`)."),
    ],
    quick: bool = Option(False, "--quick", help="A smaller size, in a minute or so."),
    device: str = Option("cpu", help="cpu or cuda."),
    out: Path = Option(Path("out"), metavar="DIR", help="Folder of the results."),
    store: Path | None = option(
        "FILE", "Keep every result here; what it holds is not computed again."
    ),
    check: bool = Option(
        False, "--check", help="Exit with status 1 where something disagrees."
    ),
    see: float | None = option(
        "GAP", "With --check: also where a relative gap of this size could not be seen."
    ),
) -> None:
    """Rebuild a figure, published or ours: PNG, PDF, data and agreement report."""
    from giantstep.core.result.verdicts import SEE
    from giantstep.core.scenario.checks import check_number
    from giantstep.faces.cli.options import check_new_folder
    from giantstep.papers.runner import reproduce as rebuild

    if see is None:
        gap = SEE
    else:
        gap = check_number("see", see, "a number above 0", lambda gap: gap > 0)
    check_new_folder(out)
    report = rebuild(name, out=out, quick=quick, device=device, store=store)
    print(report)
    for path in report.files:
        print(f"wrote {path}", file=sys.stderr)
    is_seen = see is None or report.verdict(gap).verdict == "agrees"
    if check and not (report.agrees and is_seen):
        print(f"giantstep: {report.verdict(gap).sentence}", file=sys.stderr)
        raise typer.Exit(1)


def new(family: Family) -> None:
    """Print a study of a family to start from, with every field explained."""
    from giantstep.core.scenario.describe import template

    sys.stdout.write(template(family))


def describe(family: Family, json: Json = False) -> None:
    """Describe a family: update rule, fields, symbols, bounds, questions, variables,
    theories, papers.
    """
    from giantstep.core.scenario import describe as about

    if json:
        print_json(about.describe(family))
    else:
        sys.stdout.write(about.describe_text(family))


def cite(
    study: Annotated[
        Path,
        Argument(metavar="S.toml", help="A study, or a result saved as .nc or .json."),
    ],
) -> None:
    """Print the BibTeX of the papers behind a study."""
    about: Any
    if study.suffix.lower() in (".nc", ".json"):
        about = gs.load(study)
    else:
        about = gs.Study.read(study).scenario
    sys.stdout.write(gs.cite(about))


def doctor(json: Json = False) -> None:
    """Show versions, BLAS, cores, memory and GPU, and run a self-test."""
    from giantstep.faces.cli.doctor import examine, report

    findings = examine()
    print_answer(findings, report(findings), json)
    if not findings["self_test"]["passed"]:
        raise typer.Exit(1)


def version() -> None:
    """Print the version."""
    print(gs.__version__)
