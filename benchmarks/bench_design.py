"""Design questions: 200 of them in lockstep against one, in CPU time.

.venv/bin/python benchmarks/bench_design.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import giantstep as gs

MIXTURE = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
ONES = gs.Vocabulary([1])
FEATURES = gs.OneStep(
    target="z + 0.5*h2(z)",
    noise=0.2,
    width_per_dim=2.0,
    samples_per_dim=2.0,
    ridge=0.1,
    second_layer=ONES,
)
STEP = FEATURES.replace(step={"kind": "maximal", "rate": 1.0})
ROWS = 200


def seconds(call: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Return the least CPU time of some calls, and what the last returned."""
    best = np.inf
    result = None
    for _ in range(repeat):
        start = time.process_time()
        result = call()
        best = min(best, time.process_time() - start)
    return best, result


def against_one(title: str, ask: Callable[..., Any], rows: dict[str, Any]) -> None:
    """Print the time of one question and of many in lockstep."""
    ask()
    one, _ = seconds(ask, 5)
    many, result = seconds(lambda: ask(**rows), 1)
    if "evaluations" in result:
        tried = f", {float(result.evaluations.mean()):.0f} points each"
    else:
        tried = ""
    print(
        f"{title}: one {one:.3f} s, {ROWS} in lockstep {many:.2f} s, {many / one:.1f}"
        f" times{tried}"
    )


def main() -> None:
    """Optimise, solve and differentiate at one point and at 200."""
    warnings.simplefilter("ignore", gs.GiantstepWarning)
    ridge = {"ridge": (1e-4, 1e2)}
    noise = {"noise": np.geomspace(0.05, 2, ROWS)}
    samples = {"samples_per_dim": np.geomspace(0.5, 8, ROWS)}
    against_one(
        "ridge regression, best ridge and samples",
        lambda **rows: gs.optimize(
            MIXTURE,
            over={**ridge, "samples_per_dim": (0.2, 5.0)},
            minimise="test_mse",
            **rows,
        ),
        noise,
    )
    against_one(
        "random features, best ridge and width",
        lambda **rows: gs.optimize(
            FEATURES, over={**ridge, "width_per_dim": (0.1, 10.0)}, **rows
        ),
        samples,
    )
    against_one(
        "a step on fresh features, best ridge and rate",
        lambda **rows: gs.optimize(
            STEP, over={**ridge, "step.rate": (0.1, 10.0)}, **rows
        ),
        samples,
    )
    against_one(
        "random features, best ridge",
        lambda **rows: gs.optimize(FEATURES, over=ridge, **rows),
        samples,
    )
    against_one(
        "random features, samples for an error of 1.3",
        lambda **rows: gs.solve_for(
            FEATURES, "samples_per_dim", test_error=1.3, between=(0.1, 100), **rows
        ),
        {"width_per_dim": np.geomspace(1, 10, ROWS)},
    )
    against_one(
        "random features, all sensitivities",
        lambda **rows: gs.sensitivity(FEATURES, **rows),
        samples,
    )


if __name__ == "__main__":
    main()
