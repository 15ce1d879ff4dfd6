"""Is it slower than it was? Limits of this source and of another revision in turns, as
ratios.

    python benchmarks/speed.py [REVISION] [--rounds N] [--only WORDS] [--page]

Every row is asked through the public interface, which both revisions understand. A
round asks a row of one revision in a new process, then that of the other. The number of
a row is the least CPU time of its calls, after one call that loads what is needed; each
call has another value of a field, so that nothing is remembered. Ratios above one are
slower than before. `--page` writes the table that the documentation shows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "data" / "speed.md"
BEFORE = "095c856"
"""The last revision before the families of one network became one."""

CALLS = 3
"""Of which the fastest counts."""

Row = Callable[[float], object]
"""Asks a question; its argument, near one, moves a field a little."""


def rows() -> dict[str, Row]:
    """Return what is timed."""
    import numpy as np

    import giantstep as gs

    def asked(
        scenario: Any,
        grid: Mapping[str, Any] | None = None,
        moved: str = "ridge",
        **settings: Any,
    ) -> Row:
        def ask(factor: float) -> object:
            value = scenario
            for part in moved.split("."):
                value = getattr(value, part)
            changed = scenario.replace({moved: value * factor})
            return gs.predict(
                changed, grid, progress=False, cpu_limit=math.inf, **settings
            )

        return ask

    four = gs.Vocabulary([1, -0.5, 1.5, -2], [0.7, 0.1, 0.1, 0.1])
    sizes = dict(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    square = {
        "samples_per_dim": np.linspace(0.3, 5, 20).tolist(),
        "ridge": np.geomspace(1e-3, 1, 20).tolist(),
    }
    line = {"samples_per_dim": np.linspace(0.3, 4, 20).tolist()}

    def one(step: Any, **fields: Any) -> Any:
        common = dict(
            activation="relu",
            target="tanh(z)",
            noise=0.1,
            second_layer=gs.Vocabulary([1, -1]),
            **sizes,
        )
        return gs.OneStep(step=step, **{**common, **fields})

    planted = gs.PlantedSpike(strength=1.0, alignment=0.5)
    large = gs.MaximalStep(2.0)
    batch = gs.MaximalStep(2.0, 4.0)
    few = gs.FewSteps(
        target="z1 + z1*z2", activation="relu", noise=0.1, rate=2.0, steps=2, **sizes
    )
    coloured = few.replace(inputs=gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5]))
    blocks = one(planted, second_layer=four)
    classes = one(large, target="sign(z)", noise=0.0, loss="logistic")
    mixture = dict(samples_per_dim=2.0, ridge=0.1)
    reuse = gs.BatchReuse.example_for("trajectory")
    found: dict[str, Row] = {
        "one step, 400 points, one block": asked(one(planted), square, "noise"),
        "one step, 400 points, four blocks": asked(blocks, square, "noise"),
        "one step, one point": asked(one(large)),
        "one step, 200 rates": asked(
            one(large), {"step.rate": np.linspace(0.2, 4, 200).tolist()}
        ),
        "one step, finite batch, 20 points": asked(one(batch), line),
        "one step, finite batch, one point": asked(one(batch)),
        "one step, logistic, 20 points": asked(classes, line),
        "one step, spectrum": asked(one(large), moved="step.rate", what="spectrum"),
        "one step, weights": asked(gs.OneStep.example_for("weights"), what="weights"),
        "two steps, two directions, 20 points": asked(few, line),
        "two steps, 20 rates": asked(few, {"rate": np.linspace(0.5, 3, 20).tolist()}),
        "two steps on inputs with a covariance": asked(coloured, line),
        "two steps, along": asked(few, what="along"),
        "mixture, ridge, 400 points": asked(
            gs.MixtureGLM(labels="linear", noise=0.3, **mixture), square, "noise"
        ),
        "mixture, logistic, 20 points": asked(
            gs.MixtureGLM(loss="logistic", noise=0.3, **mixture), line, "noise"
        ),
        "mixture, hinge, 20 points": asked(
            gs.MixtureGLM(loss="hinge", noise=0.3, **mixture), line, "noise"
        ),
    }
    for target, noise in (
        ("sign(z)", 0.0),
        ("tanh(z)", 0.1),
        ("abs(z)", 0.01),
        ("abs(z)", 0.0),
        ("z1*z2", 0.25),
    ):
        bayes = gs.BayesLimit(target=target, noise=noise, samples_per_dim=1.5)
        moved = "noise" if noise else "samples_per_dim"
        name = f"best possible, {target}, noise {noise:g}"
        found[f"{name}, one point"] = asked(bayes, moved=moved)
        if noise:
            found[f"{name}, thresholds"] = asked(bayes, moved=moved, what="thresholds")
    for name, example, field in (
        (
            "clustering, overlaps",
            gs.SubspaceClustering.example_for("overlaps"),
            "sparsity",
        ),
        ("one-pass SGD, trajectory", gs.OnlineSGD.example_for("trajectory"), "rate"),
        ("giant steps, p fixed", gs.GiantSteps.example_for("steps"), "noise"),
    ):
        found[name] = asked(
            example,
            moved=field,
            what=name.split(", ")[1] if "giant" not in name else "steps",
        )
    found["batch reuse, trajectory"] = asked(reuse, moved="rate", what="trajectory")
    return found


def measure(wanted: str) -> dict[str, float]:
    """Return the least CPU time of every row, in this process."""
    import giantstep as gs

    warnings.simplefilter("ignore", gs.GiantstepWarning)
    found = {}
    for name, ask in rows().items():
        if wanted not in name:
            continue
        ask(1.0)
        times = []
        for call in range(CALLS):
            start = time.process_time()
            ask(1 - 0.01 * (call + 1))
            times.append(time.process_time() - start)
        found[name] = min(times)
    return found


def in_a_process(source: Path, wanted: str) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, __file__, "--measure", "--only", wanted]
    answer = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return json.loads(answer.splitlines()[-1])


def compare(revision: str, rounds: int, wanted: str) -> dict[str, float]:
    """Return the ratio of every row: this source over that of the revision."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", revision, "src"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        ratios = {}
        for name in filter(lambda name: wanted in name, rows()):
            sources = [ROOT / "src", Path(folder) / "src"] * rounds
            seconds = [in_a_process(source, name)[name] for source in sources]
            ratios[name] = min(seconds[::2]) / min(seconds[1::2])
            print(f"{name:50}{ratios[name]:8.2f}", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("revision", nargs="?", default=BEFORE)
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often both are measured in turns"
    )
    parser.add_argument("--only", default="", help="rows whose name has these words")
    parser.add_argument("--page", action="store_true", help="write docs/data/speed.md")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.only)))
        return
    ratios = compare(options.revision, options.rounds, options.only)
    if options.page:
        lines = [
            (
                "| asked of the limit | time, as a multiple of that of"
                f" {options.revision} |"
            ),
            "|---|---|",
        ]
        PAGE.write_text(
            "\n".join(
                [
                    *lines,
                    *(f"| {name} | {ratio:.2f} |" for name, ratio in ratios.items()),
                ]
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
