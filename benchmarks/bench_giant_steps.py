"""Giant steps: the block map against following every neuron, and the exponents against
plain Monte Carlo.

.venv/bin/python benchmarks/bench_giant_steps.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import giantstep as gs
from giantstep.problems.giant_steps import overlap_map
from giantstep.problems.giant_steps.limit import network_at

EX1 = "(4*z1 + z1**2 + z2)/2"


def seconds(call: Callable[[], object], repeat: int = 3) -> float:
    """Return the least time of some calls."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def follow(network: overlap_map.Network, steps: int) -> overlap_map.Overlaps:
    """Iterate the map of a network."""
    state = overlap_map.start(network)
    for _ in range(steps):
        space = overlap_map.shared_space(network, state)
        state = overlap_map.step(
            network, state, overlap_map.gradient(network, state, 0.25, space), 1.0
        )
    return state


def maps() -> None:
    """Blocks against single neurons: the same two steps of a network of 6, and a
    network of 1000.
    """
    point = {"width": 6.0, "noise": 0.1}
    scenario = gs.GiantSteps(target=EX1, rate=1.0, batch_per_dim=4.0, width=6)
    blocks = network_at(scenario, point)
    by_block = seconds(lambda: follow(blocks, 2))
    by_neuron = seconds(lambda: follow(blocks.single(), 2))
    gap = np.max(np.abs(follow(blocks, 2).M[0] - follow(blocks.single(), 2).M[0]))
    print(
        f"two steps, p = 6: blocks {by_block:.3f} s, single neurons {by_neuron:.3f} s,"
        f" {by_neuron / by_block:.1f} times"
    )
    print(
        f"    largest difference of M: {gap:.1e} (Sobol points on the side of the"
        " single neurons)"
    )
    wide = network_at(scenario, {"width": 1000.0, "noise": 0.1})
    print(
        f"two steps, p = 1000: blocks {seconds(lambda: follow(wide, 2)):.3f} s (the"
        " cost does not grow with p)"
    )
    measured = seconds(
        lambda: gs.simulate(scenario.replace(steps=2), dim=1000, trials=1), 1
    )
    print(
        f"one experiment, d = 1000, p = 6: {measured:.3f} s, {measured / by_block:.1f}"
        " times the exact map"
    )


def exponents() -> None:
    """Time of the calculator, and how many samples Monte Carlo would need for its
    tolerance.
    """
    for target in (
        "h3(z)",
        "z1 + h3(z2)",
        "h4(z1) + 5*sign(z1*z2*z3)",
        "sign(z1*z2*z3*z4)",
    ):
        print(
            f"exponents of {target}:"
            f" {seconds(lambda target=target: gs.exponents(target)):.3f} s"
        )
    z = np.random.default_rng(0).standard_normal((1_000_000, 2))
    start = time.perf_counter()
    y = z[:, 0] + z[:, 1] ** 3 - 3 * z[:, 1]
    noise = np.std(y * z[:, 1]) / 1e3
    taken = time.perf_counter() - start
    print(
        f"Monte Carlo, 10^6 samples: {taken:.3f} s to {noise:.0e}; 1e-7 takes"
        f" {(noise / 1e-7) ** 2:.0e} times that"
    )


if __name__ == "__main__":
    maps()
    exponents()
