"""Compare limit and experiment in every study of benchmarks/studies and write docs/data/agreement.json.

    python benchmarks/agreement_tables.py [--only TEXT] [--workers N]

A check is a study file with one more table: `[check]` has a `title`, the relative gap `allow`ed to finite-size terms
the limit does not know, and the `variables` that are shown (all compared ones are checked). The documentation shows the
tables on the page of each family, with their verdicts. The exit status is 1 where a variable disagrees.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tomllib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import giantstep as gs
from giantstep.studyfile import study_fields

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "benchmarks" / "studies"
TABLES = ROOT / "docs" / "data" / "agreement.json"


def measured(path: Path) -> tuple[str, list[dict[str, Any]], list[str]]:
    """Return the family, the rows of the table, and the variables that do not agree."""
    content = tomllib.loads(path.read_text())
    check = content.pop("check")
    study = gs.Study(**study_fields(content, path.name))
    report = gs.agreement(study.compare(progress=False))
    rows, failed = [], []
    for row in report.rows:
        if not row.passes(allow=check["allow"]):
            failed.append(f"{path.name}: {row.variable} |z| {row.largest_z:.2f}, gap {row.largest_relative_gap:.2%}")
        if row.variable in check["variables"]:
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
                }
            )
    return study.scenario.family, rows, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="files whose name contains this text; other rows are kept")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    paths = [path for path in sorted(STUDIES.glob("*.toml")) if options.only in path.name]
    tables = json.loads(TABLES.read_text()) if options.only and TABLES.exists() else {}
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(measured, paths))
    failures = []
    for _, rows, _ in results:
        titles = {row["check"] for row in rows}
        tables = {name: [row for row in table if row["check"] not in titles] for name, table in tables.items()}
    for family, rows, failed in results:
        tables.setdefault(family, []).extend(rows)
        failures += failed
    TABLES.parent.mkdir(parents=True, exist_ok=True)
    TABLES.write_text(json.dumps(tables, indent=1) + "\n")
    print("\n".join(failures) or f"{TABLES.name}: none of {len(paths)} checks disagrees")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
