"""Speed of one-pass SGD: map steps per second, and the exact-in-law simulator beside
the direct one.

    python benchmarks/bench_dynamics.py

Every line names the plain alternative measured in the same run and the ratio to it.
Seconds are those of the processor (one thread), so that a busy machine does not change
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import giantstep as gs
from giantstep.core.lab import Draws
from giantstep.problems.online_sgd.dynamics import map_trajectory
from giantstep.problems.online_sgd.integrators import integrator_for
from giantstep.problems.online_sgd.simulators import SIMULATORS
from giantstep.problems.online_sgd.states import drive_of, starts

ERF = "erf(z/sqrt(2))"


def committee(p: int, **fields: object) -> gs.OnlineSGD:
    """Return an erf student of width p and an erf committee of as many directions."""
    target = " + ".join(f"erf(z{r + 1}/sqrt(2))/{p}" for r in range(p))
    base = {
        "target": target,
        "activation": ERF,
        "second_layer": [1.0] * p,
        "dim": 1000,
        "batch_size": 100,
    }
    base |= {"rate": 0.1, "constraint": "projected", "initial_overlap": 0.1 * np.eye(p)}
    return gs.OnlineSGD(**{**base, **fields})


def hermite(p: int, **fields: object) -> gs.OnlineSGD:
    """Return p third Hermite neurons on a third Hermite target."""
    base = {
        "target": "h3(z1)",
        "activation": "h3",
        "second_layer": [1.0] * p,
        "dim": 1024,
        "batch_size": 16384,
    }
    return gs.OnlineSGD(
        **{
            **base,
            "rate": 1e-3,
            "constraint": "projected",
            "initial_overlap": [[0.05]] * p,
            **fields,
        }
    )


def seconds(call: Callable[[], object], least: float = 0.5) -> float:
    """Return the processor time of one call, repeated until it is measurable."""
    call()
    count = 0
    start = time.process_time()
    while time.process_time() - start < least:
        call()
        count += 1
    return (time.process_time() - start) / count


def map_rate(
    scenario: gs.OnlineSGD, steps: int, batch: int = 1, kind: str = "auto"
) -> float:
    """Return steps per second of the map, summed over a batch of rates."""
    points = {
        name: np.full(batch, value)
        for name, (value, _) in scenario.numeric_fields().items()
    }
    points["rate"] = points["rate"] * np.linspace(0.5, 1.5, batch)
    drive, integrator = drive_of(scenario, points), integrator_for(scenario, kind)
    start = starts(scenario, scenario.dim, 0, 0, 1)
    M, Q = (np.repeat(part, batch, axis=0) for part in start)
    return (
        batch
        * steps
        / seconds(lambda: map_trajectory(integrator, drive, M, Q, np.array([steps])))
    )


def simulator_seconds(scenario: gs.OnlineSGD, simulator: str, steps: int) -> float:
    """Return the seconds of one update."""
    points = scenario.point()
    start = starts(scenario, scenario.dim, 0, 0, 1)

    def run() -> object:
        draws = Draws(0, "bench", 0)
        drive = drive_of(scenario, points)
        made = SIMULATORS[simulator](
            scenario, drive, start, scenario.dim, scenario.batch_size, draws
        )
        made.advance(steps)
        return made.overlaps()

    return seconds(run) / steps


def line(name: str, ours: float, other: str, theirs: float) -> None:
    """Print steps per second beside the alternative's, and their ratio."""
    print(
        f"{name:38s}{ours:10.0f} steps/s   {other:14s}{theirs:9.1f} steps/s  "
        f" {ours / theirs:7.2f} x"
    )


def maps() -> None:
    """Print map speeds."""
    line(
        "erf map, p = k = 1, closed form",
        map_rate(committee(1), 2000),
        "product rule",
        map_rate(committee(1), 50, 1, "tensor"),
    )
    one = map_rate(committee(2), 300)
    line(
        "erf map, p = k = 2, closed form",
        one,
        "product rule",
        map_rate(committee(2), 3, 1, "tensor"),
    )
    line(
        "erf map, p = k = 2, 64 rates at once",
        map_rate(committee(2), 100, 64),
        "one by one",
        one,
    )
    line(
        "H3 map, p = 4, polynomials exactly",
        map_rate(hermite(4), 50),
        "Sobol points",
        map_rate(hermite(4), 50, 1, "sobol"),
    )
    smooth, kinked = (
        hermite(4, target="tanh(z1)", activation=name) for name in ("tanh", "relu")
    )
    line(
        "tanh map, p = 4, Sobol points",
        map_rate(smooth, 50),
        "relu, p = 4",
        map_rate(kinked, 50),
    )


def simulators() -> None:
    """Print the two simulators side by side."""
    for p in (1, 4):
        scenario = hermite(p)
        law = simulator_seconds(scenario, "exact-law", 3)
        direct = simulator_seconds(scenario, "direct", 1)
        print(
            f"d = 1024, n_b = 16384, p = {p}:   exact law {law * 1e3:7.1f} ms/step  "
            f" direct {direct * 1e3:8.1f} ms/step   {direct / law:6.1f} x"
        )
    large = hermite(1, dim=10**6, batch_size=1)
    law = simulator_seconds(large, "exact-law", 200)
    print(f"d = 1,000,000, n_b = 1, p = 1:  exact law {law * 1e6:7.1f} us/step")


if __name__ == "__main__":
    maps()
    simulators()
