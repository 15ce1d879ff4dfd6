"""The ladders of dimensions and the spectra of one gradient step
(tests/families/network/checks.py) as pieces.

A ladder asks more than agreement at one dimension: the gap must shrink as 1/d, and what
is left at 1/d -> 0 must vanish within its standard error. Where a published formula is
known to be wrong, the ladder says how clearly it is rejected.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

from pieces import ROOT, Piece, Record, digest

sys.path.insert(0, str(ROOT / "tests" / "families" / "network"))

from checks import (
    LADDERS,
    SPECTRA,
    TRIALS,
    Check,
    Ladder,
    SpectrumCheck,
    climb,
    kolmogorov,
)

MOST_DISTANCE = 0.01
"""Largest difference of two distribution functions that counts as agreement."""


def ladder_passes(ladder: Ladder) -> bool:
    """Tell whether every rung agrees and nothing is left at 1/d -> 0."""
    allowed = ladder.check.finite_size
    rungs = all(rung.row.passes(allow=allowed / rung.dim) for rung in ladder.rungs)
    return rungs and abs(ladder.left) < 3.3 * ladder.left_error


def measure_ladder(check: Check, device: str) -> Record:
    """Compare at growing dimensions."""
    ladder = climb(check, TRIALS[device], device)
    good = ladder_passes(ladder)
    return {
        "family": "one-step",
        "check": check.name,
        "scenario": repr(check.scenario),
        "grid": check.grid,
        "finite_size": check.finite_size,
        "wrong": check.wrong,
        "rungs": [asdict(rung) for rung in ladder.rungs],
        "left": ladder.left,
        "left_error": ladder.left_error,
        "slope": ladder.slope,
        "ok": good,
        "said": "agrees" if good else "does not agree",
    }


def measure_spectrum(check: SpectrumCheck, device: str) -> Record:
    """Compare two distributions of eigenvalues."""
    distance, untrained, area = kolmogorov(check, device)
    numbers = {
        "distance": distance,
        "untrained": untrained,
        "area": area,
        "line": MOST_DISTANCE,
    }
    good = distance < MOST_DISTANCE
    sizes = {"check": check.name, "dim": check.dim, "trials": check.trials}
    return {
        "family": "one-step",
        **sizes,
        **numbers,
        "ok": good,
        "said": f"distance {distance:.4f}",
    }


def _digest(check: Check | SpectrumCheck, device: str) -> str:
    scenario = check.scenario
    plain = {name: value for name, value in vars(check).items() if name != "scenario"}
    return digest(
        scenario.content(), scenario.formula_version, plain, TRIALS[device], device
    )


def pieces(device: str) -> list[Piece]:
    """Return a piece for every ladder and spectrum; those of a GPU are larger and serve
    a CPU as well.
    """
    ladders = [(f"ladders/{check.name}", measure_ladder, check) for check in LADDERS]
    spectra = [(f"spectra/{check.name}", measure_spectrum, check) for check in SPECTRA]
    kinds = dict.fromkeys((device, "cuda"))
    return [
        Piece(
            name,
            tuple(_digest(check, kind) for kind in kinds),
            work,
            (check, device),
            device=device,
        )
        for name, work, check in [*ladders, *spectra]
    ]
