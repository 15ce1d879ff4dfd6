"""Learning curve of the one-step experiment against the matrix products it cannot
avoid.

Run ``python benchmarks/bench_experiment.py``. Prints, for a curve of 20 sample sizes at
p = 2048, d = 1365: the time of the whole curve over that of the plain products of its
largest point plus the solves (goal: at most 1.5); the share of the measured float64
matrix-product rate kept while streaming (goal: at least 70%); the peak memory. The best
of a few runs is taken on both sides; other programs disturb both.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import giantstep as gs
from giantstep.core.lab import Draws, accumulate, chunk_rows
from giantstep.problems.network.experiment import trained_networks, whiten
from giantstep.problems.network.questions import TEST_SAMPLES

CHUNK = chunk_rows("cpu")

DIM = 1365
WIDTH = 2048


def clock(call: Callable[[], object]) -> float:
    """Return the time of one call in seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def products(rows: int, test_rows: int) -> tuple[float, float]:
    """Return the time of the plain NumPy products of one point, and that of the first
    of them alone.
    """
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((WIDTH, DIM))
    inputs = rng.standard_normal((rows, DIM))
    features = np.empty((rows, WIDTH))
    start = time.perf_counter()
    np.matmul(inputs, weights.T, out=features)
    forward = time.perf_counter() - start
    start = time.perf_counter()
    features.T @ features
    gram = time.perf_counter() - start
    inputs = rng.standard_normal((test_rows, DIM))
    start = time.perf_counter()
    inputs @ weights.T
    return forward + gram + time.perf_counter() - start, forward


def solves(sizes: np.ndarray) -> float:
    """Return the time of one Cholesky fit for each sample size, in the smaller of n
    and p.
    """
    total = 0.0
    for size in sizes:
        matrix = np.asfortranarray(np.eye(min(int(size), WIDTH)) + 1e-3)
        right = np.ones(len(matrix))
        start = time.perf_counter()
        cho_solve(
            cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False), right
        )
        total += time.perf_counter() - start
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--activation", default="relu")
    options = parser.parse_args()
    scenario = gs.Network(
        target="tanh(z)",
        activation=options.activation,
        width_per_dim=WIDTH / DIM,
        second_layer=gs.Vocabulary([1.0]),
        steps=[gs.PlantedSpike(1.0, 1.0, 0.5)],
        readout=gs.Ridge(0.01),
        samples_per_dim=1.0,
    )
    ratios = np.linspace(0.1, 2.5, 20)
    points = {
        name: np.repeat(value, 20)
        for name, (value, _) in scenario.numeric_fields().items()
    }
    points["samples_per_dim"] = ratios * WIDTH / DIM
    sizes = np.rint(ratios * WIDTH).astype(int)
    rows = int(sizes.max())

    def curve() -> object:
        return scenario.trial(
            points, "errors", DIM, Draws(0, "bench", 0), {"time": np.ones(1)}
        )

    def stream() -> None:
        again = dataclasses.replace(trained, draws=Draws(0, "bench", 0))
        for _ in accumulate(again.training(), WIDTH, [rows], np):
            pass

    inputs = whiten(scenario, points, DIM)
    draws = Draws(0, "bench", 0)
    *_, trained = trained_networks(scenario, points, inputs, DIM, draws, {})
    stream(), products(CHUNK, CHUNK)
    best = [np.inf] * 5
    for _ in range(options.repeats):
        found = (
            clock(curve),
            *products(rows, TEST_SAMPLES),
            solves(sizes),
            clock(stream),
        )
        best = [min(old, new) for old, new in zip(best, found)]
    whole, plain, product, solving, streaming = best
    share = (1 + (WIDTH + 1) / (2 * DIM)) * product / streaming
    tracemalloc.start()
    curve()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = scenario.memory(points, "errors", DIM, {})
    print(
        f"curve of 20 points {whole:.2f} s; products of the largest {plain:.2f} s; 20"
        f" solves {solving:.2f} s"
    )
    print(
        f"curve / (products + solves) = {whole / (plain + solving):.2f}   (goal: at"
        " most 1.5)"
    )
    print(
        f"share of the matrix-product rate while streaming = {share:.2f}   (goal: at"
        " least 0.70)"
    )
    print(f"peak memory {peak / 2**20:.0f} MiB, announced {estimate / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
