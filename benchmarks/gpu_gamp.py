"""GAMP on a GPU beside state evolution, sweep by sweep; what it printed at d = 20,000
is in `results/gpu_gamp.txt`.

    python benchmarks/gpu_gamp.py [--device cuda] [--dim 2000] [--trials 200]

Four channels of one direction from a start of overlap 0.05, eight sweeps each.
"""

from __future__ import annotations

import argparse

import numpy as np

import giantstep as gs

CHANNELS = (
    gs.BayesLimit(target="sign(z)", samples_per_dim=2.0),
    gs.BayesLimit(target="sign(z)", flip=0.1, samples_per_dim=4.0),
    gs.BayesLimit(target="tanh(z)", noise=0.1, samples_per_dim=1.0),
    gs.BayesLimit(target="relu(z)", samples_per_dim=1.5),
)


def main() -> None:
    """Print overlaps, standard errors and z-scores."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dim", type=int, default=2000)
    parser.add_argument("--trials", type=int, default=200)
    options = parser.parse_args()
    sizes = {
        "dim": options.dim,
        "trials": options.trials,
        "device": options.device,
        "seed": 11,
    }
    for scenario in CHANNELS:
        both = gs.compare(scenario, what="trajectory", overlap=0.05, steps=8, **sizes)
        print(
            scenario.target.name,
            scenario.noise,
            scenario.flip,
            scenario.samples_per_dim,
            sizes,
        )
        print("  limit ", both.q.sel(source="limit").values[1:].round(6))
        print("  GAMP  ", both.q.sel(source="experiment").values[1:].round(6))
        print("  s.e.  ", both.q_stderr.sel(source="experiment").values[1:].round(6))
        print("  largest |z|", float(np.abs(both.q_z.values[1:]).max().round(2)))


if __name__ == "__main__":
    main()
