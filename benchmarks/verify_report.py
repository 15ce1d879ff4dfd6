"""docs/verification.md from the records of `verify.py`: verdicts with power, date,
version, machine, by family.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Record = Mapping[str, Any]

HEAD = """# Verification

Written by `make verify` (`benchmarks/verify.py`) from its records, `docs/data/verification.json`. Each piece has the
digest of what it depends on, so that a second run does only what changed; `python benchmarks/verify.py --plan` says
what that is and how long it took before.

*Agrees*: a gap of 5% (or of the finite-size gap granted, where that is larger) would have been seen nine times in ten
and was not. *Cannot tell* names the trials that would ([verdicts](verdicts.md)). The limit is taken with its finite-
size correction where it is known. A *ladder* is one comparison at several growing dimensions.

The version is the one that the source had on the day of a measurement. A record of an older version counts as long as
its digest (scenario, grid, settings, versions of the formulas) is that of the present source; others are marked. The
measurements of 16 November 2026 under 0.1.0 were made on the source that was called 0.2.0 later that day.
"""


def percent(value: float) -> str:
    return f"{100 * value:.2f}%"


def run_of(record: Record) -> str:
    """Return date, version and machine of a record, and whether what it depends on has
    changed since.
    """
    text = f"{record['date']}, giantstep {record['version']}, {record['machine']}"
    text += f", {record['origin']}" if "origin" in record else ""
    if record["stale"]:
        return f"{text}; **older than the present seeds or sizes**"
    return text


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return [
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |"
        for line in lines
    ]


def summary(studies: Mapping[str, Record]) -> list[str]:
    """Return the table of families."""
    families = sorted({record["family"] for record in studies.values()})
    rows = []
    for family in families:
        own = [record for record in studies.values() if record["family"] == family]
        judged = [row for record in own for row in record["rows"]]
        count = Counter(row["verdict"] for row in judged)
        visible = sorted(
            row["visible_gap"]
            for row in judged
            if isinstance(row["visible_gap"], float)
        )
        middle = percent(visible[len(visible) // 2]) if visible else "-"
        versions = ", ".join(sorted({record["version"] for record in own}))
        dates = sorted({record["date"] for record in own})
        kinds = ", ".join(sorted({record["machine"] for record in own}))
        points = sum(row["points"] for row in judged)
        numbers = (count["agrees"], count["cannot tell"], count["disagrees"])
        rows.append(
            (
                family,
                len(own),
                len(judged),
                points,
                *numbers,
                middle,
                dates[-1],
                versions,
                kinds,
            )
        )
    head = (
        "family",
        "studies",
        "variables",
        "points",
        "agree",
        "cannot tell",
        "disagree",
        "visible gap (median)",
    )
    return table((*head, "date", "version", "machine"), rows)


def study_lines(name: str, record: Record) -> list[str]:
    """Return a study with every variable that was judged."""
    rows = [
        (
            f"`{row['variable']}`",
            row["dim"],
            row["trials"],
            row["points"],
            f"{row['largest_z']:.2f}" if isinstance(row["largest_z"], float) else "-",
            f"{row['line']:.2f}",
            (
                percent(row["largest_gap"])
                if isinstance(row["largest_gap"], float)
                else "-"
            ),
            percent(row["allowed_gap"]),
            (
                percent(row["visible_gap"])
                if isinstance(row["visible_gap"], float)
                else "-"
            ),
            row["brief"],
        )
        for row in record["rows"]
    ]
    head = (
        "variable",
        "d",
        "trials",
        "points",
        "largest |z|",
        "by chance",
        "largest gap",
        "granted",
        "visible gap",
    )
    where = f"{run_of(record)}, {record['core_seconds']:.0f} s of a core"
    title = record["rows"][0]["check"]
    return [
        f"`benchmarks/{name}.toml`: {title} ({where}).",
        "",
        *table((*head, "verdict"), rows),
        "",
    ]


def ladder_lines(record: Record) -> list[str]:
    """Return a ladder of dimensions."""
    grid = f", over {record['grid']}" if record["grid"] else ""
    rows = []
    for rung in record["rungs"]:
        row = rung["row"]
        dim = rung["dim"]
        if record["wrong"]:
            wrong = (f"{rung['wrong_z']:.1f}", percent(rung["wrong_gap"]))
        else:
            wrong = ("-", "-")
        gaps = (
            row["largest_relative_gap"],
            record["finite_size"] / dim,
            row["smallest_visible"],
        )
        scores = (f"{row['largest_z']:.2f}", f"{row['chance_z']:.2f}")
        rows.append(
            (dim, rung["trials"], row["points"], *scores, *map(percent, gaps), *wrong)
        )
    head = (
        "d",
        "trials",
        "points",
        "largest |z|",
        "line",
        "largest gap",
        "allowed gap",
        "on the line",
    )
    end = (
        f"Test error; gap = {percent(record['left'])} +-"
        f" {percent(record['left_error'])} at 1/d -> 0, slope {record['slope']:.1f}/d:"
        f" an error of the limit above {percent(3.3 * record['left_error'])} would have"
        " been seen. " + ("Agrees." if record["ok"] else "**Does not agree.**")
    )
    if record["wrong"]:
        end += (
            f' The wrong formula is theory="{record["wrong"]}" (the published map of'
            " the step)."
        )
    tables = table((*head, "wrong: |z|", "wrong: gap"), rows)
    return [
        f"### {record['check']}",
        "",
        f"`{record['scenario']}`{grid} ({run_of(record)}).",
        "",
        *tables,
        "",
        end,
        "",
    ]


def spectrum_lines(records: Iterable[Record]) -> list[str]:
    """Return the distances of spectra."""
    rows = [
        (
            record["check"],
            record["dim"],
            record["trials"],
            f"{record['distance']:.4f}",
            record["line"],
            f"{record['untrained']:.4f}",
            f"{record['area']:.3f}",
            run_of(record),
        )
        for record in records
    ]
    head = (
        "network",
        "d",
        "trials",
        "distance",
        "line",
        "untrained law",
        "L1 distance of densities",
        "run",
    )
    said = (
        "Largest difference of the distribution functions; the same for the law of the"
        " untrained network."
    )
    return ["### Spectra", "", said, "", *table(head, rows), ""]


def test_lines(tests: Mapping[str, Record]) -> list[str]:
    """Return what the slow tests said, file by file."""
    if not tests:
        return ["## Slow tests", "", "Not run for this report.", ""]
    rows = [
        (
            f"`{name}`",
            record["said"],
            record["date"],
            record["machine"],
            f"{record['seconds']:.0f} s",
        )
        for name, record in tests.items()
    ]
    failures = [name for record in tests.values() for name in record["failures"]]
    if failures:
        said = f"Failed: {', '.join(f'`{name}`' for name in failures)}."
    else:
        said = "None failed."
    head = ("file", "outcome", "date", "machine", "took")
    return ["## Slow tests", "", said, "", *table(head, rows), ""]


def kernel_lines(kernels: Mapping[str, Record]) -> list[str]:
    """Return what the quick tests said under every kernel."""
    said = (
        "Quick tests of what computes, under every kernel of OpenBLAS that a processor"
        " has (`benchmarks/kernels.py`)."
    )
    if not kernels:
        return ["## Kernels", "", f"{said} Not run for this report.", ""]
    rows = []
    for name, record in kernels.items():
        kernel, _, threads = name.removeprefix("kernels/").rpartition("-")
        rows.append(
            (
                kernel,
                threads,
                record["said"],
                run_of(record),
                f"{record['seconds']:.0f} s",
            )
        )
    failures = sorted(
        {name for record in kernels.values() for name in record["failures"]}
    )
    if failures:
        said += f" Failed: {', '.join(f'`{name}`' for name in failures)}."
    else:
        said += " None failed."
    return [
        "## Kernels",
        "",
        said,
        "",
        *table(("kernel", "threads", "outcome", "run", "took"), rows),
        "",
    ]


def report(records: Mapping[str, Record]) -> str:
    """Return the page."""

    def kind(*starts: str) -> dict[str, Record]:
        return {
            name: record for name, record in records.items() if name.startswith(starts)
        }

    studies = kind("studies/")
    ladders = kind("ladders/")
    spectra = kind("spectra/")
    tests = kind("tests/", "src/")
    kernels = kind("kernels/")
    disagree = [name for name, record in records.items() if not record["ok"]]
    judged = sum(len(record["rows"]) for record in studies.values())
    if disagree:
        verdict = f"Disagrees or failed: {', '.join(disagree)}."
    else:
        verdict = "Nothing disagrees, nothing failed."
    counts = (
        f"{len(studies)} studies with {judged} judged variables, {len(ladders)} ladders"
        " of dimensions"
    )
    counts += f", {len(spectra)} spectra"
    old = sum(record["stale"] for record in records.values())
    if old:
        stale = (
            f" {old} of these records are older than the present seeds or sizes and"
            " say so."
        )
    else:
        stale = ""
    if tests:
        slow = f"slow tests of {len(tests)} files"
    else:
        slow = "no slow tests"
    if kernels:
        slow += f", quick tests under {len(kernels)} settings of OpenBLAS"
    else:
        slow += ""
    lines = [
        HEAD,
        f"{counts}, {slow}. {verdict}{stale}",
        "",
        "## By family",
        "",
        *summary(studies),
        "",
    ]
    for family in sorted({record["family"] for record in studies.values()}):
        lines += [f"## {family}", ""]
        for name, record in studies.items():
            if record["family"] == family:
                lines += study_lines(name, record)
    if ladders:
        lines += ["## Ladders of dimensions: one gradient step", ""]
        lines += [line for record in ladders.values() for line in ladder_lines(record)]
    if spectra:
        lines += spectrum_lines(spectra.values())
    return (
        "\n".join([*lines, *test_lines(tests), *kernel_lines(kernels)]).rstrip() + "\n"
    )
