"""Everything that limit and experiment are held against each other with, in pieces;
writes docs/verification.md.

    python benchmarks/verify.py [--plan] [--budget MINUTES] [--cores N] [--device cuda]
    [--only NAMES] [--report]

Pieces are the studies of benchmarks/studies, the ladders of dimensions and spectra of
`verify_ladders.py`, the networks drawn at random of `random_networks.py`, the test
files with tests marked slow, and the quick tests of what computes, under every kernel
of OpenBLAS that the processor has (`kernels.py`), with one and with two threads. A
study here is a study file with one more table: `[check]` has a `title`, the relative
gap `allow`ed to finite-size terms the limit does not know, and the `variables` that the
family's page shows (all are judged). Records go to docs/data/verification.json; the
exit status is 1 where something disagrees or fails.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import giantstep as gs
import kernels
import random_networks
import verify_ladders
from giantstep.core.run.study_file import study_fields
from pieces import (
    ROOT,
    STATE,
    Piece,
    Record,
    Records,
    add_options,
    digest,
    study_content,
    work_through,
)
from verify_report import report

STUDIES = ROOT / "benchmarks" / "studies"
DATA = ROOT / "docs" / "data" / "verification.json"
PAGE = ROOT / "docs" / "verification.md"
THREADS = (1, 2)
READS_RECIPES = re.compile(
    "papers|recipe|reproduce|preset|explorer|docs/|figures/|runner"
)
"""What a test says that reads recipes, by itself or in another program."""


def read_study(path: Path) -> tuple[gs.Study, dict[str, Any]]:
    """Return the study of a file and its table `check`."""
    content = tomllib.loads(path.read_text())
    check = content.pop("check")
    return gs.Study(**study_fields(content, path.name)), check


def measure_study(path: Path) -> Record:
    """Compare limit and experiment; trials are stored one by one."""
    study, check = read_study(path)
    store = STATE / "stores" / f"{path.stem}.db"
    store.parent.mkdir(parents=True, exist_ok=True)
    measured = study.sweep(store=store, engine="local", progress=False)
    rows = []
    for row in gs.agreement(study.compare(stored=measured, progress=False)).rows:
        verdict = row.verdict(allow=check["allow"])
        rows.append(
            {
                "check": check["title"],
                "variable": row.variable,
                "dim": study.experiment.get("dim", study.scenario.content().get("dim")),
                "trials": study.experiment["trials"],
                "points": row.points,
                "largest_z": row.largest_z,
                "line": row.chance_z,
                "largest_gap": row.largest_relative_gap,
                "allowed_gap": check["allow"],
                "visible": row.smallest_visible,
                "visible_gap": row.visible_gap,
                "verdict": verdict.verdict,
                "brief": verdict.brief,
                "shown": row.variable in check["variables"],
            }
        )
    bad = [row["variable"] for row in rows if row["verdict"] == "disagrees"]
    if bad:
        said = f"disagrees in {', '.join(bad)}"
    else:
        said = f"none of {len(rows)} variables disagrees"
    return {"family": study.scenario.family, "rows": rows, "ok": not bad, "said": said}


def study_pieces() -> list[Piece]:
    """Return a piece for every study file."""
    pieces = []
    for path in sorted(STUDIES.glob("*.toml")):
        study, check = read_study(path)
        pieces.append(
            Piece(
                f"studies/{path.stem}",
                (digest(study_content(study), check),),
                measure_study,
                (path,),
            )
        )
    return pieces


def source_digest(test: str) -> str:
    """Return a hash of the package, without its recipes where the text of a test has
    nothing to do with them.
    """
    source = ROOT / "src" / "giantstep"
    recipes = bool(READS_RECIPES.search(test))
    files = sorted(
        path for path in source.rglob("*") if path.suffix in (".py", ".toml", ".csv")
    )
    kept = (
        path
        for path in files
        if recipes or "papers" not in path.relative_to(source).parts
    )
    return hashlib.sha256(b"".join(path.read_bytes() for path in kept)).hexdigest()[:16]


def run_tests(file: str) -> Record:
    """Run the slow tests of a file."""
    return _pytest(
        [*kernels.PYTEST, "-m", "slow", "-n", "0", "--timeout=0", file],
        dict(os.environ),
    )


def run_under_kernel(kernel: str, threads: int) -> Record:
    """Run the quick tests of what computes with one kernel of OpenBLAS; two of them run
    at once.
    """
    if kernels.in_use(kernel).lower() != kernel.lower():
        return {
            "ok": False,
            "said": f"OpenBLAS does not take {kernel} here",
            "failures": [],
        }
    return _pytest(kernels.tests(["-n", "2"]), kernels.environment(kernel, threads))


def _pytest(command: list[str], environment: dict[str, str]) -> Record:
    """Return how a run of tests ended, and what failed."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    said = (
        (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]
        .strip("= ")
        .partition(" in ")[0]
    )
    names = [
        line.split()[1]
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED", "ERROR"))
    ]
    return {"ok": done.returncode in (0, 5), "said": said, "failures": names}


def test_pieces() -> list[Piece]:
    """Return a piece for every file with tests marked slow; they depend on the whole
    package but for the recipes.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "slow",
        "-n",
        "0",
        "tests",
        "src",
    ]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True
    ).stdout.splitlines()
    files = sorted(
        {
            line.partition("::")[0]
            for line in listed
            if "::" in line and not line.startswith("ERROR")
        }
    )
    marks = (ROOT / "tests" / "long_tests.txt").read_text()
    texts = {file: (ROOT / file).read_text() for file in files}
    return [
        Piece(
            file, (digest(source_digest(file + text), marks, text),), run_tests, (file,)
        )
        for file, text in texts.items()
    ]


def kernel_pieces(available: list[str]) -> list[Piece]:
    """Return a piece for every kernel and number of threads; they depend on the whole
    package and on all tests.
    """
    tests = sorted((ROOT / "tests").rglob("*.py"))
    content = hashlib.sha256(b"".join(path.read_bytes() for path in tests)).hexdigest()
    mark = digest(source_digest("recipes are read"), content)
    return [
        Piece(
            f"kernels/{kernel}-{threads}",
            (mark,),
            run_under_kernel,
            (kernel, threads),
            cores=2,
        )
        for kernel in available
        for threads in THREADS
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument(
        "--without-tests", action="store_true", help="leave the slow tests out"
    )
    options = parser.parse_args()
    records = Records(DATA)
    pieces = [
        *verify_ladders.pieces(options.device),
        *study_pieces(),
        *random_networks.pieces(options.device),
    ]
    stored_tests = [
        Piece(name, (), run_tests, (name,))
        for name in records.names()
        if name.startswith(("tests/", "src/")) and (ROOT / name).exists()
    ]
    leave_tests = options.without_tests or options.report
    pieces += stored_tests if leave_tests else test_pieces()
    pieces += [] if leave_tests else kernel_pieces(kernels.available()[1])
    failed = work_through(pieces, records, options)
    measured = [
        name.removeprefix("kernels/").rpartition("-")[0]
        for name in records.names()
        if name.startswith("kernels/")
    ]
    here = {piece.name for piece in pieces}
    pieces += [
        piece
        for piece in kernel_pieces(list(dict.fromkeys(measured)))
        if piece.name not in here
    ]
    if options.plan:
        return 0
    kept = records.keep(pieces)
    drawn = {
        name: record for name, record in kept.items() if name.startswith("networks/")
    }
    PAGE.write_text(
        report(kept) + "\n" + "\n".join(random_networks.report_lines(drawn))
    )
    print(f"{PAGE.relative_to(ROOT)} is written.")
    disagree = [name for name in failed if name]
    print(
        f"Failed or not finished: {', '.join(disagree)}."
        if disagree
        else "Nothing disagrees or failed."
    )
    return 1 if disagree else 0


if __name__ == "__main__":
    raise SystemExit(main())
