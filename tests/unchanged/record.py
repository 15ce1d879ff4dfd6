"""Add what is missing to numbers.json; cases that are named are written anew, with
their new formula version.

OPENBLAS_NUM_THREADS=1 python -m tests.unchanged.record ["NAME" ...]
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import giantstep as gs

from .cases import EXPERIMENTS, LIMITS, summary

RECORD = Path(__file__).with_name("numbers.json")


def numbers(verb, cases, known, anew):
    """Return the numbers of all cases: those on record, unless they are missing or to
    be made anew.
    """
    return {
        name: (
            known[name]
            if name in known and name not in anew
            else summary(verb(scenario, grid, **more, progress=False))
        )
        for name, (scenario, grid, more) in cases.items()
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    known = json.loads(RECORD.read_text())
    anew = sys.argv[1:]
    sides = []
    for side, verb, cases in (
        ("limits", gs.predict, LIMITS),
        ("experiments", gs.simulate, EXPERIMENTS),
    ):
        record = numbers(verb, cases, known[side], anew)
        lines = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(values)}"
            for name, values in record.items()
        )
        sides.append(f"{json.dumps(side)}: {{\n{lines}\n}}")
    RECORD.write_text("{\n" + ",\n".join(sides) + "\n}\n")
