"""Write numbers.json anew: only when an answer is meant to change, and with the formula version that goes with it.

OPENBLAS_NUM_THREADS=1 python -m tests.unchanged.record
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import giantstep as gs

from .cases import EXPERIMENTS, LIMITS, summary


def numbers(verb, cases):
    return {
        name: summary(verb(scenario, grid, **more, progress=False)) for name, (scenario, grid, more) in cases.items()
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sides = []
    for side, record in (("limits", numbers(gs.predict, LIMITS)), ("experiments", numbers(gs.simulate, EXPERIMENTS))):
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in record.items())
        sides.append(f"{json.dumps(side)}: {{\n{lines}\n}}")
    Path(__file__).with_name("numbers.json").write_text("{\n" + ",\n".join(sides) + "\n}\n")
