"""The best possible error: seconds of CPU for points, curves and thresholds of which
nothing is tabulated yet.

The least of some calls; other programs that share the caches and the clock of the
processor make all of them longer. Beside each first point stands the plain alternative:
sweeps of state evolution with the same channel, from little and from nearly full
knowledge until they stand still.

.venv/bin/python benchmarks/bench_bayes.py
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

import giantstep as gs
from giantstep.problems.bayes_limit.problem import problem_of

CURVE = np.linspace(0.3, 4.0, 50).tolist()
CHANNELS = (
    ("sign(z)", 0.0, 0.0),
    ("sign(z)", 0.0, 0.1),
    ("sign(abs(z) - 0.67448975)", 0.0, 0.0),
    ("z", 0.25, 0.0),
    ("tanh(z)", 0.1, 0.0),
    ("relu(z)", 0.1, 0.0),
    ("abs(z)", 0.1, 0.0),
    ("abs(z)", 0.01, 0.0),
    ("abs(z)", 0.001, 0.0),
    ("h2(z)", 0.5, 0.0),
    ("h3(z)", 0.5, 0.0),
    ("abs(z)", 0.0, 0.0),
    ("relu(z)", 0.0, 0.0),
    ("h3(z)", 0.0, 0.0),
    ("z**2*exp(-z**2)", 0.0, 0.0),
)
SEVERAL = (
    ("sign(z1*z2)", 0.0),
    ("sign(z1) + sign(z2)", 0.0),
    ("z1*z2", 0.25),
    ("z1 + z1*z2", 0.25),
    ("z1 + h2(z2)", 0.25),
)
GOALS = (
    "Goals: a point 5 ms (labels) and 50 ms (noisy, exact), 50 points 1 s, thresholds 1"
    " s, two directions 2 s a point"
)
ALPHA = 1.5
STILL = 1e-10
MOST_SECONDS = 10.0
THREE = (
    ("z1**2 + sign(z1*z2*z3)", 0.25),
    ("z1 + z2*z3", 0.25),
    ("h2(z1) + h2(z2) + h2(z3)", 1.0),
)


def seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def least(
    target: str, noise: float, flip: float = 0.0, repeat: int = 5, **question: object
) -> float:
    """Return the least time of a question, asked anew each time."""
    found = math.inf
    for _ in range(repeat):
        problem_of.cache_clear()
        scenario = gs.BayesLimit(
            target=target, noise=noise, flip=flip, samples_per_dim=ALPHA
        )
        found = min(
            found,
            seconds(partial(gs.predict, scenario, cpu_limit=math.inf, **question)),
        )
    return found


def sweep(
    target: str, noise: float, flip: float = 0.0, still: float = STILL
) -> tuple[float, int]:
    """Return the CPU time and the number of plain sweeps to the uninformed and the
    informed fixed point.

    They are given up after some seconds.
    """
    problem_of.cache_clear()
    problem = problem_of(gs.Target(target), noise, flip)
    r = problem.reading.rank
    start = time.process_time()
    count = 0
    for overlap in (0.01 * np.diag(np.linspace(1.0, 0.8, r)), 0.99 * np.eye(r)):
        if problem.curve is not None and overlap[0, 0] < 0.5:
            M = 0.01 * np.eye(r)
        else:
            M = overlap
        moved = math.inf
        while moved > still and time.process_time() - start < MOST_SECONDS:
            M, before = problem.channels(0)[0].step(M, ALPHA), M
            moved = float(np.abs(M - before).max())
            count = count + 1
    return time.process_time() - start, count


def main() -> None:
    """Print the times."""
    warnings.simplefilter("ignore", gs.GiantstepWarning)
    gs.predict(gs.BayesLimit(target="sign(z)", samples_per_dim=1.5))  # imports
    print(f"{os.cpu_count()} processors with a load of {os.getloadavg()[0]:.1f}")
    print(GOALS)
    for target, noise, flip in CHANNELS:
        first = least(target, noise, flip, 9)
        curve = least(target, noise, flip, 2, samples_per_dim=CURVE)
        table = least(target, noise, flip, 3, what="thresholds")
        plain, sweeps = sweep(target, noise, flip)
        if noise:
            kind = f"noise {noise:g}"
        elif "sign" in target:
            kind = f"flip {flip:g}"
        else:
            kind = "exact"
        print(
            f"{target:26} {kind:11} first point {1e3 * first:6.1f} ms ({sweeps} sweeps"
            f" {1e3 * plain:6.1f} ms), 50 points {curve:5.2f} s, thresholds"
            f" {table:5.2f} s",
            flush=True,
        )
    for target, noise in SEVERAL:
        first = least(target, noise, repeat=2)
        table = least(target, noise, repeat=2, what="thresholds")
        plain, sweeps = sweep(target, noise, still=1e-7)
        print(
            f"{target:26} noise {noise:<5g} first point {first:9.2f} s ({sweeps} sweeps"
            f" {plain:5.1f} s), thresholds {table:5.2f} s",
            flush=True,
        )
    for target, noise in THREE:
        table = least(target, noise, repeat=2, what="thresholds")
        print(f"{target:26} noise {noise:<5g} thresholds {table:5.2f} s", flush=True)


if __name__ == "__main__":
    main()
