"""Several giant steps in real networks on a GPU, beside their limit at the same
dimension: `results/gpu_few_steps.csv`.

    python benchmarks/gpu_few_steps.py [--dim 4000] [--sets 5] [--only tanh]     measure on a GPU, write the file
    python benchmarks/gpu_few_steps.py --judge                                   the stored numbers beside the limit

Three activations, two and three directions, 0 to 3 steps on the exact population
gradient, three sample sizes.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

import giantstep as gs

STORED = Path(__file__).parent / "results" / "gpu_few_steps.csv"
SAMPLES = [0.6, 1.5, 3.0]
SET = 48
FIRST_SEED = 5000
"""Trials of a set, and the first seed. The stored `tanh` has 17 sets; the others are of
one call with seed 1000.
"""


def network(
    activation: str, target: str, law: gs.Vocabulary, **fields: float
) -> gs.FewSteps:
    return gs.FewSteps(
        activation=activation,
        target=target,
        second_layer=law,
        steps=3,
        samples_per_dim=1.5,
        **fields,
    )


NETWORKS = {
    "relu": network(
        "relu",
        "z1 + z1*z2 + 0.8*z2*z3",
        gs.Vocabulary([1, -1, -0.4], [0.3, 0.3, 0.4]),
        rate=2.0,
        width_per_dim=1.0,
        ridge=0.1,
        noise=0.02,
    ),
    "gelu": network(
        "gelu",
        "tanh(z1) + 0.8*z1*z2",
        gs.Vocabulary([1, -1, 0.5], [0.4, 0.4, 0.2]),
        rate=1.8,
        width_per_dim=1.2,
        ridge=0.05,
        noise=0.05,
    ),
    "tanh": network(
        "tanh(z + 0.6)",
        "z1 + 0.7*h2(z1)*z2 + 0.5*z1*z2",
        gs.Vocabulary([1.5, -1]),
        rate=2.2,
        width_per_dim=0.9,
        ridge=0.02,
        noise=0.1,
    ),
}
HEAD = [
    "network",
    "variable",
    "dim",
    "trials",
    "samples_per_dim",
    "time",
    "mean",
    "stderr",
]


def measure(dim: int, sets: int, names: list[str]) -> None:
    """Measure in sets of `SET` trials, each with its own seed, and put the pooled
    numbers into the file.
    """
    rows = [
        row
        for row in csv.reader(STORED.read_text().splitlines()[1:])
        if row[0] not in names
    ]
    for name in names:
        scenario = NETWORKS[name]
        grid = {"samples_per_dim": SAMPLES}
        seeds = range(FIRST_SEED, FIRST_SEED + sets)
        results = [
            gs.simulate(
                scenario,
                grid,
                dim=dim,
                trials=SET,
                seed=seed,
                device="cuda",
                test_samples=20_000,
            )
            for seed in seeds
        ]
        for variable in ("test_error", "train_error", "norm"):
            means = np.mean([result[variable].values for result in results], axis=0)
            squares = np.sum(
                [result[f"{variable}_stderr"].values ** 2 for result in results], axis=0
            )
            for (i, j), mean in np.ndenumerate(means):
                error = np.sqrt(squares[i, j]) / sets
                rows.append(
                    [
                        name,
                        variable,
                        dim,
                        SET * sets,
                        SAMPLES[i],
                        j,
                        f"{mean:.8g}",
                        f"{error:.3g}",
                    ]
                )
    with STORED.open("w", newline="") as file:
        csv.writer(file).writerows([HEAD, *rows])


def judge() -> None:
    scores: dict[str, list[float]] = {}
    rows = list(csv.DictReader(STORED.read_text().splitlines()))
    for name, scenario in NETWORKS.items():
        mine = [row for row in rows if row["network"] == name]
        limit = gs.predict(
            scenario, {"samples_per_dim": SAMPLES}, dim=int(mine[0]["dim"])
        )
        for row in mine:
            at = {
                "samples_per_dim": float(row["samples_per_dim"]),
                "time": int(row["time"]),
            }
            expected = float(limit[row["variable"]].sel(at))
            mean = float(row["mean"])
            z = (mean - expected) / float(row["stderr"])
            scores.setdefault(row["variable"], []).append(z)
            if row["variable"] == "test_error":
                numbers = (
                    f"network {mean:.6g}, limit {expected:.6g}, gap"
                    f" {mean / expected - 1:+.2%}, z {z:+.1f}"
                )
                print(
                    f"{name:5} n/d {at['samples_per_dim']:3} step {at['time']}:"
                    f" {numbers}"
                )
    for variable, z in scores.items():
        rms = np.sqrt(np.mean(np.square(z)))
        print(
            f"{variable}: {len(z)} points, largest |z| {np.max(np.abs(z)):.2f}, rms"
            f" {rms:.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=4000)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument(
        "--only", nargs="+", choices=list(NETWORKS), default=list(NETWORKS)
    )
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", gs.GiantstepWarning)
    judge() if options.judge else measure(options.dim, options.sets, options.only)
