"""Run the long comparisons of limit and experiment and write docs/verification.md.

    python benchmarks/verify_report.py [--quick] [--device cuda] [--out docs/verification.md]

For every check: sizes, trials, points, the largest |z| beside the line that so many points pass once in 1000,
the largest relative gap, the smallest error the experiment could have seen, and what a formula known to be
wrong would have given. The exit status is 1 where a check fails.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "families" / "one_step"))

from checks import LADDERS, SPECTRA, TRIALS, Ladder, climb, kolmogorov  # noqa: E402

import giantstep as gs  # noqa: E402

HEADER = """# Verification

Written by `benchmarks/verify_report.py`; giantstep {version}, {minutes:.0f} minutes on {where}.

The limit is taken with its finite-size correction where it is known. `largest |z|` is the largest gap in
standard errors, `line` the one that so many numbers pass by chance once in 1,000, `visible` the relative
error that would have reached the line. A gap beyond the line fails only if it also exceeds the stated
finite-size term.
"""


def percent(value: float) -> str:
    return f"{100 * value:.2f}%"


def ladder_passes(ladder: Ladder) -> bool:
    """Tell whether every rung agrees and nothing is left at 1/d -> 0."""
    allowed = ladder.check.finite_size
    rungs = all(rung.row.passes(allow=allowed / rung.dim) for rung in ladder.rungs)
    return rungs and abs(ladder.left) < 3.3 * ladder.left_error


def ladder_section(ladder: Ladder) -> str:
    check = ladder.check
    lines = [
        f"## {check.name}",
        "",
        f"`{check.scenario!r}`" + (f", over {check.grid}" if check.grid else ""),
        "",
        "| d | trials | points | largest \\|z\\| | line | largest gap | allowed gap | visible "
        "| wrong: \\|z\\| | wrong: gap |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for rung in ladder.rungs:
        row = rung.row
        wrong = f"{rung.wrong_z:.1f} | {percent(rung.wrong_gap)}" if check.wrong else "- | -"
        lines.append(
            f"| {rung.dim} | {rung.trials} | {row.points} | {row.largest_z:.2f} | {row.chance_z:.2f} "
            f"| {percent(row.largest_relative_gap)} | {percent(check.finite_size / rung.dim)} "
            f"| {percent(row.smallest_visible)} | {wrong} |"
        )
    lines += [
        "",
        f"Test error; gap = {percent(ladder.left)} +- {percent(ladder.left_error)} at 1/d -> 0, "
        f"slope {ladder.slope:.1f}/d: "
        f"an error of the limit above {percent(3.3 * ladder.left_error)} would have been seen. "
        + ("Agrees." if ladder_passes(ladder) else "**Does not agree.**"),
    ]
    if check.wrong:
        lines.append(f'The wrong formula is theory="{check.wrong}" (the published map of the step).')
    return "\n".join(lines) + "\n"


def spectrum_section(found: list[tuple[float, float, float]]) -> str:
    lines = [
        "## Spectra",
        "",
        "Largest difference of the distribution functions; the same for the law of the untrained network.",
        "",
        "| network | d | trials | distance | line | untrained law | L1 distance of densities |",
        "|---|---|---|---|---|---|---|",
    ]
    for check, (distance, untrained, area) in zip(SPECTRA, found):
        sizes = f"| {check.name} | {check.dim} | {check.trials} "
        lines.append(f"{sizes}| {distance:.4f} | 0.01 | {untrained:.4f} | {area:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="d = 250 and 500 only")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="ladders whose name contains this text, and no spectra")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "verification.md")
    options = parser.parse_args()
    chosen = [check for check in LADDERS if options.only in check.name]
    spectrum_checks = () if options.only else SPECTRA
    trials = TRIALS["quick" if options.quick else options.device]
    start = time.monotonic()
    if options.device == "cpu":
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            climbing = [pool.submit(climb, check, trials) for check in chosen]
            measuring = [pool.submit(kolmogorov, check) for check in spectrum_checks]
            ladders = [future.result() for future in climbing]
            spectra = [future.result() for future in measuring]
    else:
        ladders = [climb(check, trials, options.device) for check in chosen]
        spectra = [kolmogorov(check, options.device) for check in spectrum_checks]
    minutes = (time.monotonic() - start) / 60
    where = f"{options.workers} cores" if options.device == "cpu" else "a GPU"
    head = HEADER.format(version=gs.__version__, minutes=minutes, where=where)
    sections = [head, *map(ladder_section, ladders), *([spectrum_section(spectra)] if spectra else [])]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(sections))
    good = all(map(ladder_passes, ladders)) and all(distance < 0.01 for distance, _, _ in spectra)
    print(f"{options.out}: {'all checks agree' if good else 'A CHECK FAILED'} ({minutes:.1f} minutes)")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
