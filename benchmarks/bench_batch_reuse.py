"""Batch reuse: points against plain Monte Carlo at equal time, cost of the limit and of
both experiments.

Run with ``python benchmarks/bench_batch_reuse.py [--quick]``; set
OPENBLAS_NUM_THREADS=1 for the cost of one core.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import giantstep as gs
from giantstep.problems.batch_reuse import limit
from giantstep.problems.batch_reuse.limit import labels_of, layout_of
from giantstep.problems.batch_reuse.points import Layout, WeightedPoints, sobol_points

HE3 = gs.BatchReuse(
    target="h3(z)/sqrt(6)",
    activation="erf(z/sqrt(2))",
    samples_per_dim=2,
    rate=0.3,
    steps=2,
)
EXACT = -0.0356048
"""M at step two of `HE3`, by the tensor grid."""
AUTHORS = gs.BatchReuse(
    target="tanh(z1 + h3(z2))",
    activation="relu",
    second_layer=[2**-0.5, -(2**-0.5)],
    samples_per_dim=3,
    rate=0.2,
    steps=7,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    points_against_monte_carlo(30 if quick else 100)
    cost_of_the_limit()
    cost_of_the_experiments(quick)


def points_against_monte_carlo(repeats: int) -> None:
    """Error of one run of the He3 case, and how much longer plain Monte Carlo needs for
    the same error.
    """
    layout = layout_of(HE3)
    print(
        f"He3 with erf, two steps: root mean square error of M against {EXACT} over"
        f" {repeats} runs"
    )
    print(
        "  points   plain error    time     Sobol error    time    error ratio at equal"
        " time"
    )
    for nodes in (2**12, 2**14, 2**16):
        errors = {}
        seconds = {}
        for name in ("plain", "sobol"):
            start = time.process_time()
            found = []
            for seed in range(repeats):
                if name == "plain":
                    points = plain_points(layout, nodes, seed)
                else:
                    points = sobol_points(layout, nodes, 0, seed)
                found.append(
                    float(
                        limit.Trajectory(HE3, points, labels_of(HE3, points)).M[2, 0, 0]
                    )
                )
            seconds[name] = (time.process_time() - start) / repeats
            errors[name] = float(np.sqrt(np.mean((np.array(found) - EXACT) ** 2)))
        # plain Monte Carlo given the time of the Sobol run has its error times the root
        # of the ratio of times
        ratio = (
            errors["plain"]
            * np.sqrt(seconds["plain"] / seconds["sobol"])
            / errors["sobol"]
        )
        print(
            f"  {nodes:6d}   {errors['plain']:.1e}   {seconds['plain']:.4f} s  "
            f" {errors['sobol']:.1e}   {seconds['sobol']:.4f} s   {ratio:8.0f}"
        )


def plain_points(layout: Layout, nodes: int, seed: int) -> WeightedPoints:
    """Return plain Monte Carlo points with equal weights."""
    normal = np.random.default_rng(seed).standard_normal((layout.gaussian, nodes))
    return WeightedPoints(
        normal[: layout.directions],
        None,
        normal[layout.directions :],
        np.full(nodes, 1 / nodes),
    )


def cost_of_the_limit() -> None:
    gs.predict(AUTHORS, nodes=2**8)
    start = time.process_time()
    gs.predict(AUTHORS)
    print(
        f"limit, p = 2, T = 7, 4 x 2^16 points: {time.process_time() - start:.2f} s of"
        " CPU (wanted: below 1)"
    )


def cost_of_the_experiments(quick: bool) -> None:
    gs.simulate(AUTHORS, dim=50, trials=1)
    for dim in (1000, 4000):
        seconds = {}
        for method in ("direct", "matrix-free"):
            start = time.process_time()
            gs.simulate(AUTHORS, dim=dim, trials=2, method=method)
            seconds[method] = (time.process_time() - start) / 2
        direct = seconds["direct"]
        free = seconds["matrix-free"]
        print(
            f"experiment, d = {dim}: direct {direct:.3f} s, matrix-free {free:.3f} s,"
            f" {direct / free:.0f} times"
        )
    for dim in (10**5,) if quick else (10**5, 10**6):
        start = time.process_time()
        gs.simulate(AUTHORS, dim=dim, trials=1)
        print(
            f"experiment, d = {dim}: matrix-free {time.process_time() - start:.2f} s of"
            " CPU per seed"
        )


if __name__ == "__main__":
    main()
