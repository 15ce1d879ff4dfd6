"""docs/reproduction.md from the records of `figures.py` and the declarations of the
recipes.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from giantstep.core.result.verdicts import trials_text
from giantstep.core.scenario.references import BIBTEX
from giantstep.papers import list_figures
from giantstep.papers.recipe import Recipe, Size
from verify_report import percent, table

Record = Mapping[str, Any]

HEAD = """# Figures, rebuilt

Written by `make figures` (`benchmarks/figures.py`) from its records, `docs/data/figures.json`, and from the
declarations in `giantstep.papers`. Every figure is made by `giantstep reproduce NAME`; [figures of
papers, and our own](published_figures.md) lists them without results. Those of `giantstep2026...`, and those called
*ours* below, are in no paper.

- *Agree*: limit and experiment agree in every panel that is judged, and every check holds.
- *Cannot tell*: nothing disagrees, but a gap of 5% (or of the finite-size gap granted, where that is larger) could hide
  somewhere. The figure says how many trials would tell, and why they were not run.
- *Differ*: a gap is beyond chance and beyond what the finite dimension is granted, or a check fails.

The table of a figure has every variable that is judged; what is drawn and not judged is not in it. Gaps are relative to
the variable itself at the same point and time. Where a variable stays near zero, the figure says what they are relative
to instead.

What this compares is our limit with our experiment at the parameters shown. Where the published curve or formula is
another one, [where published formulas differ](differences.md) says which of the two the experiment supports.

The version beside a picture is the one that the source had when it was made. Where the studies of a figure or the
versions of their formulas have changed since, the picture is called older.
"""

PAPER_FIGURES = Path(__file__).with_name("paper_figures.toml")
NUMBERS = """## Which figure of the paper

The papers were not at hand when this table was written: a number stands here where a [theory page](theory/index.md) or
the recipe names it, and *number not checked* elsewhere. *Ours* is a figure that the paper does not have, as far as
these pages say. Recipes of `giantstep2026...` draw derivations of our own and have no other paper.
"""
WITHOUT = """## Figures of the papers without a recipe

Those that the theory pages mention. Papers may have others, which these pages do not name.
"""

DIFFERENCES = {
    "dandi2025random": "One gradient step",
    "cui2024asymptotics": "One gradient step",
    "dandi2024benefits": "Batch reuse",
    "arnaboldi2024online": "Gradient dynamics",
    "arnaboldi2024repetita": "Gradient dynamics",
    "dandi2023giant": "Gradient dynamics",
    "pesce2023gaussian": "Mixtures and universality",
    "gerace2024gaussian": "Mixtures and universality",
    "loureiro2021mixtures": "Mixtures and universality",
    "pesce2022subspace": "Subspace clustering",
}
"""Papers with a section of docs/differences.md."""

NOT_RUN = {
    "giant-orientation": 0.26,
    "phase-retrieval": 0.73,
}
"""Figures that cannot tell, and the hours of a CPU core that their present trials take,
by one trial of each study.
"""


ACCENTS = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "^": "\u0302", "~": "\u0303"}
"""Accents of BibTeX as characters that combine with the letter before them."""


def status(record: Record) -> str:
    """Return agree, cannot tell, differ, or not judged."""
    judged = [check for check in record["checks"] if check["line"] is not None]
    if not record["agrees"]:
        return "differ"
    if record["comparisons"]:
        return "agree" if record["verdict"] == "agrees" else "cannot tell"
    return "agree" if judged else "not judged"


def entry(paper: str, field: str) -> str:
    """Return a field of a BibTeX entry as text."""
    match = re.search(rf"\b{field}\s*=\s*\{{(.*?)\}},?\s*\n", BIBTEX[paper], flags=re.S)
    if match:
        text = re.sub(
            r"\\(['`\"^~])\{?(\w)\}?",
            lambda found: found[2] + ACCENTS[found[1]],
            match[1],
        )
    else:
        text = ""
    return re.sub(
        r"\s+", " ", re.sub(r"[{}\\]", "", unicodedata.normalize("NFC", text))
    )


def of_the_paper() -> dict[str, Any]:
    """Return what recipes show of their papers, where they differ, and figures without
    a recipe.
    """
    return tomllib.loads(PAPER_FIGURES.read_text(encoding="utf-8"))


def shown(own: Mapping[str, str]) -> str:
    """Return which figure of its paper a recipe rebuilds."""
    return own.get("shows") or f"Ours: {own['ours']}."


def number_table() -> list[str]:
    """Return the table of all recipes that have a paper, with the figure each
    rebuilds.
    """
    known = of_the_paper()
    rows = [
        (f"`{recipe.name}`", f"`{recipe.paper}`", plain(shown(known[recipe.name])))
        for recipe in list_figures()
        if recipe.name in known
    ]
    return table(("recipe", "paper", "figure"), rows)


def without_table() -> list[str]:
    """Return the table of figures without a recipe."""
    rows = [
        (f"`{one['paper']}`", plain(one["figure"]), plain(one["reason"]))
        for one in of_the_paper()["without"]
    ]
    return table(("paper", "figure", "why there is no recipe"), rows)


def paper_lines(recipe: Recipe) -> list[str]:
    """Return what a recipe shows of its paper, and where the two differ."""
    own = of_the_paper().get(recipe.name)
    if own is None:
        return []
    differs = own.get("differs", "The paper has no such figure.")
    return [
        f"- In the paper: {plain(shown(own))}",
        f"- Where ours differs: {plain(differs)}",
    ]


def plain(text: str) -> str:
    """Return a text in which Markdown finds no emphasis and no tags."""
    return re.sub(r"([*<\\])", r"\\\1", text)


def paper_table(found: Mapping[str, Record]) -> list[str]:
    """Return the table by paper."""
    rows = []
    total = Counter()
    recipes = list_figures()
    for paper in dict.fromkeys(recipe.paper for recipe in recipes):
        own = [
            found[recipe.name]
            for recipe in recipes
            if recipe.paper == paper and recipe.name in found
        ]
        count = Counter(map(status, own))
        count["rebuilt"], count["quick"] = (
            len(own),
            sum(record["quick"] for record in own),
        )
        count["recipes"] = sum(recipe.paper == paper for recipe in recipes)
        count["judged"] = len(own) - count["not judged"]
        total += count
        rows.append((f"`{paper}`: {entry(paper, 'title')}", *_counts(count)))
    rows.append(("all", *_counts(total)))
    head = (
        "paper",
        "recipes",
        "rebuilt",
        "at quick size",
        "judged",
        "agree",
        "cannot tell",
        "differ",
    )
    return table(head, rows)


def _counts(count: Counter[str]) -> tuple[int, ...]:
    return tuple(
        count[name]
        for name in (
            "recipes",
            "rebuilt",
            "quick",
            "judged",
            "agree",
            "cannot tell",
            "differ",
        )
    )


def size_line(recipe: Recipe, record: Record) -> str:
    """Return the size, where and when it was run, and what the full size would take
    where it was not run.
    """
    size = "quick size" if record["quick"] else "full size"
    where = f"{record['machine']}, {record['date']}, giantstep {record['version']}"
    if record.get("stale"):
        older = ", older than the present studies of the figure"
    else:
        older = ""
    parts = record["parts_core_seconds"] or 0.0
    how = f" ({record['how']})" if "how" in record else ""
    seconds = (
        f"{record['core_seconds'] + parts:.0f} s of a"
        f" core{' in several pieces' if parts else ''}{how}"
    )
    took = (
        f"{size},"
        f" {'in pieces whose time was not kept' if record.get('untimed') else seconds},"
        f" {where}{older}"
    )
    if not record["quick"]:
        return took + "."
    if recipe.seconds_full is None:
        return took + "; the full size was not run."
    return (
        f"{took}; the full size was not run: it takes {recipe.seconds_full / 3600:.1f}"
        " hours of a core."
    )


def scale_lines(recipe: Recipe, record: Record) -> list[str]:
    """Return what gaps are relative to where that is not the variable itself."""
    if record.get("stale"):
        return []
    asked = recipe.studies(Size(record["quick"], record["device"])).values()
    sizes = dict.fromkeys(
        (name, size)
        for study in asked
        if study.judged
        for name, size in study.scale.items()
    )
    return [
        f"- Gaps of `{name}` are relative to {size:g} where it is smaller."
        for name, size in sizes
    ]


def undecided_lines(record: Record) -> list[str]:
    """Return why the trials that would tell were not run, and what they take."""
    if status(record) != "cannot tell":
        return []
    if record.get("stale"):
        asked = "the figure asks for more trials now"
    else:
        asked = "they want more trials than these"
    took = (
        f"take {NOT_RUN[record['figure']]:g} hours of a CPU core, by the time of one"
        " trial of each study"
    )
    return [
        f"- Why they were not run: {asked}, which {took}, and no core was free for so"
        " long."
    ]


def judged_rows(record: Record) -> list[str]:
    """Return the comparisons and checks of a figure as tables."""
    rows = [
        (
            f"`{part['name']}`",
            f"`{variable['variable']}`",
            part.get("dim", "-"),
            part["trials"],
            variable["points"],
            _number(variable["largest_z"]),
            _percent(variable["largest_relative_gap"]),
            _percent(variable["visible_gap"]),
            _verdict(variable),
        )
        for part in record["comparisons"]
        for variable in part["variables"]
    ]
    head = (
        "study",
        "variable",
        "d",
        "trials",
        "points",
        "largest |z|",
        "largest gap",
        "visible gap",
        "verdict",
    )
    lines = [*table(head, rows), ""] if rows else []
    checks = [
        (
            plain(check["name"]),
            _number(check["value"]),
            f"{'above' if check['above'] else 'below'} {check['line']:g}",
            "holds" if check["agrees"] else "**fails**",
        )
        for check in record["checks"]
        if check["line"] is not None
    ]
    return [
        *lines,
        *(table(("check", "value", "line", ""), checks) if checks else []),
        *([""] if checks else []),
    ]


def _number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else "-"


def _verdict(variable: Record) -> str:
    """Return a verdict, with the trials that would tell where it cannot."""
    if variable["verdict"] != "cannot tell":
        return str(variable["verdict"])
    return f"cannot tell; {trials_text(variable['trials_that_would_tell'])} would"


def _percent(value: Any) -> str:
    return percent(value) if isinstance(value, int | float) else "-"


def figure_lines(recipe: Recipe, record: Record) -> list[str]:
    """Return the part of one figure."""
    quick = " --quick" if record["quick"] else ""
    device = " --device cuda" if record["device"] == "cuda" else ""
    said = {
        "agree": "Agrees",
        "cannot tell": "Cannot tell",
        "differ": "Differs",
        "not judged": "Not judged",
    }
    lines = [
        f"### {recipe.name}",
        "",
        f"![{recipe.title}](figures/reproduced/{recipe.name}.png)",
        "",
        plain(
            f"{recipe.title}{'' if recipe.title.endswith('?') else '.'}"
            f" {recipe.description}"
        ),
        "",
        f"- **{said[status(record)]}.** {plain(record['sentence'])}",
        *undecided_lines(record),
        *scale_lines(recipe, record),
        *paper_lines(recipe),
        f"- Parameters (full size): {plain(recipe.parameters)}",
        f"- This picture: {size_line(recipe, record)}",
        *(f"- {plain(note)}" for note in record["notes"]),
        f"- `giantstep reproduce {recipe.name}{quick}{device}`",
        "",
    ]
    rows = judged_rows(record)
    return [*lines, *rows]


def report(records: Mapping[str, Record]) -> str:
    """Return the page."""
    found = {record["figure"]: record for record in records.values()}
    lines = [HEAD, "## By paper", "", *paper_table(found), ""]
    missing = [recipe.name for recipe in list_figures() if recipe.name not in found]
    if missing:
        lines += [f"Not rebuilt yet: {', '.join(f'`{name}`' for name in missing)}.", ""]
    lines += [NUMBERS, *number_table(), "", WITHOUT, *without_table(), ""]
    recipes = list_figures()
    for paper in dict.fromkeys(recipe.paper for recipe in recipes):
        own = [
            recipe
            for recipe in recipes
            if recipe.paper == paper and recipe.name in found
        ]
        if not own:
            continue
        lines += [
            f"## {entry(paper, 'title')}",
            "",
            f"`{paper}`, {entry(paper, 'author')}.",
        ]
        if paper in DIFFERENCES:
            section = DIFFERENCES[paper]
            anchor = section.lower().replace(" ", "-")
            lines.append(
                "Where it differs from ours, and which the experiment supports:"
                f" [{section}](differences.md#{anchor})."
            )
        lines.append("")
        for recipe in own:
            lines += figure_lines(recipe, found[recipe.name])
    return "\n".join(lines).rstrip() + "\n"
