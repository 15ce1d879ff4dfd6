"""Read-outs of several steps, and spectra: time of a grid beside the same points one
call at a time.

python benchmarks/bench_readout.py

CPU seconds of one thread, best of three. "Alone" asks some of the points in calls of
their own and scales to all of them. A spectrum has no such alternative; beside it
stands the resolvent at as many complex points.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable

import numpy as np

import giantstep as gs

LAW = gs.Vocabulary([1, -1, 0.4], [0.35, 0.35, 0.3])
TARGETS = {1: "tanh(z1) + 0.5*h2(z1)", 2: "z1 + z1*z2", 3: "z1 + z1*z2 + z2*z3"}
GRID = {
    "samples_per_dim": np.geomspace(0.3, 6, 10).tolist(),
    "ridge": np.geomspace(0.01, 1, 10).tolist(),
}
RATES = {"rate": np.linspace(0.5, 3, 10).tolist(), "ridge": GRID["ridge"]}
ALONE = 3


def seconds(ask: Callable[[], object]) -> float:
    """Return the CPU seconds of a call, the best of three."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        ask()
        spent.append(time.process_time() - start)
    return min(spent)


def several_steps(directions: int) -> str:
    network = gs.FewSteps(
        target=TARGETS[directions],
        activation="relu",
        noise=0.1,
        second_layer=LAW,
        rate=2.0,
        steps=3,
        width_per_dim=2.0,
        samples_per_dim=2.0,
        ridge=0.1,
    )
    whole = seconds(lambda: gs.predict(network, GRID))
    points = [
        {"samples_per_dim": n, "ridge": ridge}
        for n, ridge in zip(GRID["samples_per_dim"], GRID["ridge"])
    ]
    some = points[:: len(points) // ALONE][:ALONE]
    alone = (
        seconds(lambda: [gs.predict(network.replace(**point)) for point in some])
        * 100
        / len(some)
    )
    rates = seconds(lambda: gs.predict(network, RATES))
    return (
        f"{directions} directions, 3 steps, 100 points: (n/d, ridge) {whole:.2f} s;"
        f" (rate, ridge) {rates:.2f} s; alone {alone:.1f} s, {alone / whole:.0f} and"
        f" {alone / rates:.0f} times"
    )


def structured(blocks: int, target: str) -> str:
    """Inputs with a power law of eigenvalues, three classes of neurons, as many steps
    as directions.
    """
    j = np.arange(1.0, blocks + 1)
    network = gs.FewSteps(
        target=target,
        activation="tanh",
        noise=0.02,
        second_layer=LAW,
        rate=2.0,
        steps=2 if "z2" in target else 1,
        width_per_dim=1.0,
        samples_per_dim=1.5,
        ridge=0.1,
        inputs=gs.InputBlocks(j**-0.4, np.full(blocks, 1 / blocks), (j - 0.5) ** -0.3),
    )
    spent = [
        seconds(lambda grid=grid: gs.predict(network, grid)) for grid in (GRID, RATES)
    ]
    alone = seconds(lambda: gs.predict(network))
    return (
        f"inputs with {blocks} eigenvalues, {target}, 100 points: (n/d, ridge)"
        f" {10 * spent[0]:.1f} ms a point; (rate, ridge) {10 * spent[1]:.1f} ms a"
        f" point; alone {1000 * alone:.0f} ms"
    )


def network_after_a_step(batch: float, **fields: object) -> gs.OneStep:
    common = dict(
        activation="relu",
        second_layer=gs.Vocabulary([1, -1]),
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
    )
    return gs.OneStep(
        step=gs.MaximalStep(rate=1.0, batch_per_dim=batch), **{**common, **fields}
    )


def spectrum(name: str, batch: float) -> str:
    network = network_after_a_step(batch, target="h1", noise=0.1)
    whole = seconds(lambda: gs.predict(network, what="spectrum"))
    z = np.linspace(0.1, 6, 120) + 0.01j
    plain = seconds(lambda: gs.predict(network, what="resolvent", z=z))
    return (
        f"spectrum, {name} batch: {whole:.2f} s; resolvent at 120 points {plain:.2f} s"
    )


def logistic() -> str:
    network = network_after_a_step(2.0, target="sign(z)", loss="logistic")
    ridges = np.geomspace(0.01, 1, 20).tolist()
    whole = seconds(lambda: gs.predict(network, ridge=ridges))
    alone = (
        seconds(
            lambda: [gs.predict(network.replace(ridge=ridge)) for ridge in ridges[::7]]
        )
        * 20
        / 3
    )
    ratio = f"alone {50 * alone:.0f} ms, {alone / whole:.1f} times"
    return f"logistic after a finite batch: {50 * whole:.0f} ms a point; {ratio}"


if __name__ == "__main__":
    warnings.simplefilter("ignore", gs.GiantstepWarning)
    for directions in TARGETS:
        print(several_steps(directions), flush=True)
    for blocks in (40, 400):
        for target in ("tanh(z)", "z1 + z1*z2"):
            print(structured(blocks, target), flush=True)
    print(spectrum("finite", 4.0))
    print(spectrum("large", gs.inf))
    print(logistic())
