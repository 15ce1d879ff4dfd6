"""What the long experiments of one-pass SGD would take in full, scaled from a few hundred steps of each.

    python benchmarks/scale_times.py

Writes docs/data/scaled_times.json: for every such figure the seconds of one core, study by study, machine and date.
A recipe whose full size was never run shows this number, and says that it was scaled.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import datetime
import json
import time
import warnings
from typing import Any

import giantstep as gs
from giantstep.papers import list_figures
from giantstep.papers.recipe import FigureStudy, Size
from pieces import ROOT, machine

OUT = ROOT / "docs" / "data" / "scaled_times.json"
FIGURES = ("sgd-three-directions", "repetition-")
LEAST = 1.0
"""Seconds that the short run takes at least."""


def seconds_of_trial(asked: FigureStudy) -> float:
    """Return the seconds of one trial in full, from the difference of two short runs."""
    study = asked.study
    whole = study.scenario.content()["steps"]

    def short(steps: int) -> float:
        settings: dict[str, Any] = {**study.settings, "times": [steps]}
        start = time.process_time()
        gs.simulate(study.scenario.replace(steps=steps), trials=1, seed=1, progress=False, **settings)
        return time.process_time() - start

    few = min(10, whole)
    begin, steps = short(few), few
    while steps < whole:
        steps = min(4 * steps, whole)
        took = short(steps)
        if took - begin > LEAST:
            return begin + (took - begin) * (whole - few) / (steps - few)
    return short(whole)


def main() -> None:
    warnings.simplefilter("ignore")
    found = {}
    for recipe in list_figures():
        if recipe.name.startswith(FIGURES):
            studies = {
                name: [round(seconds_of_trial(asked), 1), asked.study.experiment.get("trials", 1)]
                for name, asked in recipe.studies(Size()).items()
                if asked.verb != "predict"
            }
            seconds = sum(trial * trials for trial, trials in studies.values())
            found[recipe.name] = {"seconds": round(seconds), "studies": studies}
            print(recipe.name, round(seconds), flush=True)
    date = datetime.date.today().isoformat()
    OUT.write_text(json.dumps({"machine": machine("cpu"), "date": date, "figures": found}) + "\n")


if __name__ == "__main__":
    main()
