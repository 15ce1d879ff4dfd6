"""The best possible error: fixed points read off the curve alpha(q) against iterating state evolution, and times.

.venv/bin/python benchmarks/bench_bayes.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import giantstep as gs
from giantstep.families.bayes_limit.problem import problem_of

LABELS, NOISY, EXACT = ("sign(z)", 0.0), ("abs(z)", 0.1), ("abs(z)", 0.0)


def seconds(call: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def fresh(target: str, noise: float, flip: float = 0.0) -> gs.BayesLimit:
    """Return a scenario of which nothing is tabulated yet."""
    problem_of.cache_clear()
    return gs.BayesLimit(target=target, noise=noise, flip=flip, samples_per_dim=1.5)


def iterate(target: str, noise: float, alpha: float, change: float = 1e-10) -> int:
    """Iterate state evolution from a small overlap until nothing moves; return the steps it took."""
    problem = problem_of(gs.Target(target), noise, 0.0)
    M, steps = np.array([[1e-3]]), 0
    while True:
        new = problem.step(M, alpha)
        steps += 1
        if abs(float(new[0, 0] - M[0, 0])) < change:
            return steps
        M = new


def point(target: str, noise: float, what: str = "errors", **grid: object) -> float:
    """Return the time of a question of which nothing is tabulated yet."""
    scenario = fresh(target, noise)
    return seconds(lambda: gs.predict(scenario, what=what, **grid))


def main() -> None:
    """Print the times."""
    gs.predict(fresh(*LABELS))  # imports
    for name, channel in (("labels", LABELS), ("noisy", NOISY), ("exact", EXACT)):
        curve = point(*channel, samples_per_dim=np.linspace(0.8, 3.0, 50).tolist())
        table = point(*channel, what="thresholds")
        first = point(*channel)
        again = gs.BayesLimit(target=channel[0], noise=channel[1], samples_per_dim=1.6)
        start = time.perf_counter()
        gs.predict(again)
        following = time.perf_counter() - start
        print(
            f"{name:7} first point {1e3 * first:6.1f} ms, next {1e3 * following:5.1f} ms, 50 points {curve:5.2f} s, "
            f"thresholds {table:5.2f} s"
        )
    for alpha in (0.62, 0.7, 1.5):
        start = time.perf_counter()
        steps = iterate(*NOISY, alpha)
        plain = time.perf_counter() - start
        read = point(*NOISY, samples_per_dim=alpha)
        print(
            f"|z|, noise 0.1, n/d = {alpha}: {steps} iterations {plain:.2f} s, from the curve {read:.2f} s, "
            f"ratio {plain / read:.1f}"
        )
    for target, noise in (("sign(z1) + sign(z2)", 0.0), ("z1 + z1*z2", 0.25)):
        print(f"{target}: one point {point(target, noise):.2f} s")


if __name__ == "__main__":
    main()
