"""Experiments that only a GPU reaches: the real network after a step on a finite batch,
and the streaming speed.

    python benchmarks/gpu_real_network.py speed OUT      # learning curves at p = 16384 against the float64 GEMM ceiling
    python benchmarks/gpu_real_network.py check OUT      # the same draws on CPU and GPU give the same numbers
    python benchmarks/gpu_real_network.py data OUT [NETWORK...]   # real networks over batch_per_dim, stored as CSV

Needs CuPy and a CUDA device. The committed output is benchmarks/results/; the figure
`finite-batch` draws the data.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import giantstep as gs
from giantstep.core.lab import Draws, accumulate, synchronize
from giantstep.papers.cui2024asymptotics import BATCHES, NETWORKS, STORED_SEED, TRIALS
from giantstep.papers.giantstep2026batch import NEW_NETWORKS
from giantstep.problems.network.experiment import (
    count_samples,
    trained_networks,
    whiten,
)

VOCABULARIES = {
    1: gs.Vocabulary([1.0]),
    2: gs.Vocabulary([1, -1], [0.9, 0.1]),
    4: gs.Vocabulary([1, -0.5, 1.5, -2], [0.7, 0.1, 0.1, 0.1]),
}


def vocabulary_scenario(k: int) -> gs.OneStep:
    return gs.OneStep(
        activation="relu",
        target="tanh(z)",
        ridge=0.01,
        width_per_dim=1.5,
        samples_per_dim=1.0,
        second_layer=VOCABULARIES[k],
        step=gs.PlantedSpike(strength=1.0, alignment=0.5),
    )


def timed(function) -> float:
    import cupy

    synchronize(cupy)
    start = time.perf_counter()
    function()
    synchronize(cupy)
    return time.perf_counter() - start


def speed(out: Path) -> None:
    import cupy

    p = 16384
    dim = 10923
    a, b = (
        cupy.random.standard_normal((8192, dim)),
        cupy.random.standard_normal((dim, p)),
    )
    product = cupy.empty((8192, p))
    cupy.matmul(a, b, out=product)
    seconds = timed(
        lambda a=a, b=b, c=product: [cupy.matmul(a, b, out=c) for _ in range(10)]
    )
    ceiling = 10 * 2 * 8192 * dim * p / seconds / 1e12
    del a, b, product
    s = vocabulary_scenario(4).network(1)
    ratios = np.linspace(0.3, 2.5, 15)
    points = {
        name: np.full(15, value) for name, (value, _) in s.numeric_fields().items()
    }
    points["samples_per_dim"] = ratios * p / dim
    n = int(count_samples(points, dim).max())

    def stream() -> None:
        draws = Draws(0, "speed", 0, "cuda")
        *_, trained = trained_networks(
            s, points, whiten(s, points, dim), dim, draws, {}
        )
        for _ in accumulate(trained.training(), p, [n], draws.xp):
            pass

    stream()
    streaming = timed(stream)
    flops = 2 * n * dim * p + 2 * n * p * p
    fraction = flops / streaming / 1e12 / ceiling
    curves = []
    errors = {}
    for k in VOCABULARIES:
        for trial in range(5):
            began = time.perf_counter()
            answer = gs.simulate(
                vocabulary_scenario(k),
                dim=dim,
                trials=1,
                seed=trial,
                device="cuda",
                samples_per_dim=ratios * p / dim,
            )
            curves.append(time.perf_counter() - began)
            errors.setdefault(k, []).append(answer.test_error.values)
    limit = {
        k: (
            gs.predict(
                vocabulary_scenario(k), dim=dim, samples_per_dim=ratios * p / dim
            ).test_error.values
        )
        for k in errors
    }
    gaps = {
        k: float(np.max(np.abs(np.mean(e, axis=0) / limit[k] - 1)))
        for k, e in errors.items()
    }
    report = {
        "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "gemm_ceiling_tflops": ceiling,
        "streaming_tflops": flops / streaming / 1e12,
        "streaming_fraction_of_ceiling": fraction,
        "one_curve_seconds": float(np.median(curves)),
        "fifteen_curves_seconds": float(np.sum(curves)),
        "largest_relative_gap_to_limit_5_trials": gaps,
    }
    print(json.dumps(report, indent=1), flush=True)
    (out / "gpu_speed.json").write_text(json.dumps(report, indent=1) + "\n")


def check(out: Path) -> None:
    """Run one trial on both devices from the CPU's random numbers."""
    import cupy

    worst = {}
    for s in NETWORKS.values():
        for step in (s.step, gs.MaximalStep(1.0), gs.PlantedSpike(1.0, alignment=0.7)):
            case = s.replace(step=step)
            points = {
                field: np.array([value, value])
                for field, (value, _) in case.numeric_fields().items()
            }
            points["samples_per_dim"] = np.array([0.7, 2.0])
            answers = []
            for device in ("cpu", "cuda"):
                draws = _CopiedDraws(0, "check", 0, device)
                asked = case.prepare(
                    {**points, "dim": np.full(2, np.inf)}, "errors", {"device": device}
                )
                answers.append(case.trial(points, "errors", 300, draws, asked))
            for variable, value in answers[0].items():
                gap = np.max(np.abs(value - answers[1][variable])) / np.max(
                    np.abs(value)
                )
                worst[variable] = max(worst.get(variable, 0.0), float(gap))
    print("CPU against GPU, largest relative difference:", worst, flush=True)
    (out / "gpu_check.json").write_text(
        json.dumps({"device": str(cupy.cuda.Device(0)), **worst}, indent=1) + "\n"
    )


class _CopiedDraws(Draws):
    """The CPU's numbers, in the CPU's chunks, on either device."""

    def __init__(self, seed: int, key: str, trial: int, device: str) -> None:
        super().__init__(seed, key, trial, device)
        self.source = Draws(seed, key, trial, "cpu")
        self.chunk = self.source.chunk

    def normal(self, stream, shape, out=None):
        values = self.xp.asarray(self.source.normal(stream, shape))
        if out is None:
            return values
        out[...] = values
        return out


def data(out: Path) -> None:
    rows = [
        "network,dim,batch_per_dim,trials,test_error,test_error_stderr,train_error,train_error_stderr,norm,norm_stderr"
    ]
    for name in sys.argv[3:] or [*NETWORKS, *NEW_NETWORKS]:
        s = {**NETWORKS, **NEW_NETWORKS}[name]
        sizes = (
            (4000, BATCHES, TRIALS[name]),
            (2000, [0.5, 2.0, 10.0], 64),
            (8000, [0.5, 2.0, 10.0], 16),
        )
        sizes = sizes[:1] if name in NEW_NETWORKS else sizes
        for dim, batches, trials in sizes:
            began = time.perf_counter()
            result = gs.simulate(
                s,
                dim=dim,
                trials=trials,
                seed=STORED_SEED,
                device="cuda",
                step__batch_per_dim=batches,
            )
            limit = gs.predict(s, dim=dim, step__batch_per_dim=batches)
            isotropic = gs.predict(
                s, dim=dim, theory="isotropic", step__batch_per_dim=batches
            )
            for place, batch in enumerate(batches):
                values = [
                    float(result[v + e][place])
                    for v in ("test_error", "train_error", "norm")
                    for e in ("", "_stderr")
                ]
                rows.append(
                    ",".join(
                        [
                            name,
                            str(dim),
                            f"{batch:g}",
                            str(trials),
                            *(f"{value:.8g}" for value in values),
                        ]
                    )
                )
                mean, error = values[:2]
                exact = float(limit.test_error[place])
                published = float(isotropic.test_error[place])
                print(
                    f"{name:10} d={dim} batch_per_dim={batch:<5g}"
                    f" {mean:.5f}({error:.5f})  exact {exact:.5f}"
                    f" z={(mean - exact) / error:+5.1f}  isotropic {published:.5f}"
                    f" z={(mean - published) / error:+5.1f}",
                    flush=True,
                )
            print(f"  {time.perf_counter() - began:.0f} s", flush=True)
            (out / "real_network.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    {"speed": speed, "check": check, "data": data}[sys.argv[1]](folder)
