"""The experiment: runs of the network or of its overlaps, from the same starts as the limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.families.online_sgd.dynamics import DIVERGED
from giantstep.families.online_sgd.limit import averaged, drive_of, frame_of, observables
from giantstep.families.online_sgd.moments import NodeEngine, engine_for
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.simulators import BLOCK, ROWS, SIMULATORS
from giantstep.families.online_sgd.start import starts
from giantstep.lab import to_numpy
from giantstep.types import Array, Points

MOST_NODES = 20_000
"""Rules with more nodes are replaced by Sobol points when the error of a measured state is wanted."""


def trial(
    scenario: OnlineSGD, points: Points, what: str, dim: int, draws: Any, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Run once (or `runs` times at once) at every point; they share the samples and differ in their rates."""
    if what == "phases":
        return {}
    runs = int(settings["runs"])
    M, Q = starts(scenario, dim, draws.seed, draws.trial, runs)
    simulator = SIMULATORS[settings["simulator"]](
        scenario, drive_of(scenario, points), dim, int(points["batch_size"][0]), runs, draws
    )
    states = simulator.run(M, Q)
    if what == "recovery":
        return _recovery(scenario, points, settings, states, runs, draws.xp)
    return _trajectory(scenario, points, settings, states, runs)


def _trajectory(
    scenario: OnlineSGD, points: Points, settings: Mapping[str, Any], states: Any, runs: int
) -> dict[str, Array]:
    times, count = settings["time"], len(points["rate"])
    p, k = scenario.width, scenario.directions
    Ms, Qs = np.full((count, runs, len(times), p, k), np.nan), np.full((count, runs, len(times), p, p), np.nan)
    lost = np.zeros((count, runs), dtype=bool)
    place = 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for t, (M, Q) in enumerate(states):
            while place < len(times) and times[place] == t:
                now = to_numpy(Q)
                lost |= ~(np.diagonal(now, axis1=-2, axis2=-1).max(axis=-1) <= DIVERGED)
                Ms[:, :, place] = np.where(lost[..., None, None], np.nan, to_numpy(M))
                Qs[:, :, place] = np.where(lost[..., None, None], np.nan, now)
                place += 1
            if place == len(times):
                break
    engine = engine_for(scenario, settings["moments"])
    if isinstance(engine, NodeEngine) and engine.rule.size > MOST_NODES:
        engine = engine_for(scenario, "sobol")
    flat = observables(scenario, engine, Ms.reshape(-1, len(times), p, k), Qs.reshape(-1, len(times), p, p))
    return {name: averaged(name, value.reshape(count, runs, *value.shape[1:]), 1) for name, value in flat.items()}


def _recovery(
    scenario: OnlineSGD, points: Points, settings: Mapping[str, Any], states: Any, runs: int, xp: Any
) -> dict[str, Array]:
    count, most = len(points["rate"]), int(points["steps"].max())
    frame, threshold = xp.asarray(frame_of(scenario)), settings["threshold"]
    found = xp.full((count, runs), xp.inf)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for t, (M, Q) in enumerate(states):
            norm = xp.sqrt(xp.diagonal(Q, axis1=-2, axis2=-1))
            best = (xp.abs(M @ frame) / norm[..., None]).max(axis=(-2, -1))
            found = xp.where((best >= threshold) & (found == xp.inf), float(t), found)
            if t == most or (t % 16 == 0 and bool((found < xp.inf).all())):
                break
    time = to_numpy(found)
    reached = np.isfinite(time)
    median = np.median(time, axis=1)
    mean = np.where(reached.all(axis=1), time.mean(axis=1), np.nan)
    median = np.where(np.isfinite(median), median, np.nan)
    per_dim = points["batch_size"] / points["dim"]
    return {
        "recovery_time": median,
        "recovery_samples": median * per_dim,
        "escape_time": mean,
        "recovered": reached.mean(axis=1),
    }


def memory(scenario: OnlineSGD, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes of a batch (exact law) or of a chunk of it and the weights (direct), and of what is kept."""
    if what == "phases":
        return 0
    runs, count, batch = int(settings["runs"]), len(points["rate"]), int(points["batch_size"][0])
    p, k = scenario.width, scenario.directions
    kept = runs * count * (p * k + p * p) * len(settings.get("time", [0]))
    if settings["simulator"] == "direct":
        return int(8 * (kept + min(batch, ROWS) * (dim + 6 * p) + 4 * runs * count * p * dim + runs * dim * (k + p)))
    outer = batch * min(batch, dim) if scenario.known_algorithm.repeats else p * p
    drawn = max(BLOCK, runs * batch * (k + p + 1))
    return int(8 * (kept + 3 * drawn + 8 * count * runs * batch * p + 3 * runs * outer))
