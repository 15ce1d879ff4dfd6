"""The experiment: runs of the network or of its overlaps, from the same starts as the
limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Points
from giantstep.core.lab import to_numpy
from giantstep.problems.online_sgd.integrators import NodeIntegrator, integrator_for
from giantstep.problems.online_sgd.scenario import OnlineSGD
from giantstep.problems.online_sgd.simulators import BLOCK, ROWS, SIMULATORS, Simulator
from giantstep.problems.online_sgd.states import (
    average,
    best_cosine,
    drive_of,
    has_diverged,
    observe,
    starts,
)

MOST_NODES = 20_000
"""Rules with more nodes are replaced by Sobol points when the error of a measured state
is wanted.
"""


def trial(
    scenario: OnlineSGD,
    points: Points,
    what: str,
    dim: int,
    draws: Any,
    settings: Mapping[str, Any],
) -> dict[str, Array]:
    """Run once (or `runs` times at once) at every point; they share the samples and
    differ in their rates.
    """
    if what == "phases":
        return {}
    runs = int(settings["runs"])
    start = starts(scenario, dim, draws.seed, draws.trial, runs)
    batch = int(points["batch_size"][0])
    simulator = SIMULATORS[settings["simulator"]](
        scenario, drive_of(scenario, points), start, dim, batch, draws
    )
    if what == "recovery":
        return _recovery(scenario, points, settings, simulator, draws.xp)
    return _trajectory(scenario, points, settings, simulator)


def _trajectory(
    scenario: OnlineSGD,
    points: Points,
    settings: Mapping[str, Any],
    simulator: Simulator,
) -> dict[str, Array]:
    times = settings["time"]
    count = len(points["rate"])
    runs = int(settings["runs"])
    times = times[times <= points["steps"][0]]
    p = scenario.width
    k = scenario.directions
    Ms = np.full((count, runs, len(times), p, k), np.nan)
    Qs = np.full((count, runs, len(times), p, p), np.nan)
    lost = np.zeros((count, runs), dtype=bool)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for column, updates in enumerate(np.diff(times, prepend=0)):
            simulator.advance(int(updates))
            M, Q = simulator.overlaps()
            lost |= has_diverged(to_numpy(Q))
            Ms[:, :, column] = np.where(lost[..., None, None], np.nan, to_numpy(M))
            Qs[:, :, column] = np.where(lost[..., None, None], np.nan, to_numpy(Q))
    integrator = integrator_for(scenario, settings["moments"])
    if isinstance(integrator, NodeIntegrator) and len(integrator.xi) > MOST_NODES:
        integrator = integrator_for(scenario, "sobol")
    flat = observe(
        scenario,
        integrator,
        Ms.reshape(-1, len(times), p, k),
        Qs.reshape(-1, len(times), p, p),
    )
    return {
        name: average(name, value.reshape(count, runs, *value.shape[1:]), 1)
        for name, value in flat.items()
    }


def _recovery(
    scenario: OnlineSGD,
    points: Points,
    settings: Mapping[str, Any],
    simulator: Simulator,
    xp: ModuleType,
) -> dict[str, Array]:
    last = int(points["steps"].max())
    frame = xp.asarray(scenario.frame)
    first = xp.full((len(points["rate"]), int(settings["runs"])), xp.inf)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for update in range(last + 1):
            check_time()
            simulator.advance(1 if update else 0)
            there = best_cosine(*simulator.overlaps(), frame) >= settings["threshold"]
            first = xp.where(there & (first == xp.inf), float(update), first)
            if update % 16 == 0 and bool((first < xp.inf).all()):
                break
    time = to_numpy(first)
    reached = np.isfinite(time)
    median = np.median(time, axis=1)
    median = np.where(np.isfinite(median), median, np.nan)
    return {
        "recovery_time": median,
        "recovery_samples": median * (points["batch_size"] / points["dim"]),
        "escape_time": np.where(reached.all(axis=1), time.mean(axis=1), np.nan),
        "recovered": reached.mean(axis=1),
    }


def memory(
    scenario: OnlineSGD,
    points: Points,
    what: str,
    dim: int,
    settings: Mapping[str, Any],
) -> int:
    """Return the bytes of a batch (exact law) or of a chunk of it and the weights
    (direct), and of what is kept.
    """
    if what == "phases":
        return 0
    runs = int(settings["runs"])
    count = len(points["rate"])
    batch = int(points["batch_size"][0])
    p = scenario.width
    k = scenario.directions
    kept = runs * count * (p * k + p * p) * len(settings.get("time", [0]))
    if settings["simulator"] == "direct":
        return int(
            8
            * (
                kept
                + min(batch, ROWS) * (dim + 6 * p)
                + 4 * runs * count * p * dim
                + runs * dim * (k + p)
            )
        )
    if scenario.known_algorithm.repeats:
        outer = batch * min(batch, dim)
    else:
        outer = p * p
    drawn = max(BLOCK, runs * batch * (k + p + 1))
    return int(8 * (kept + 3 * drawn + 8 * count * runs * batch * p + 3 * runs * outer))
