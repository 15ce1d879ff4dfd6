"""The limit of one-pass SGD: trajectories, recovery times, exponents; batched over points and starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from giantstep.checks import check_number
from giantstep.errors import bad_field
from giantstep.families.online_sgd.dynamics import (
    DIVERGED_REASON,
    Drive,
    equal_neurons,
    map_recovery,
    map_trajectory,
    ode_recovery,
    ode_trajectory,
    rows,
)
from giantstep.families.online_sgd.escape import escape
from giantstep.families.online_sgd.moments import COARSE, SCRAMBLES, Engine, engine_for
from giantstep.families.online_sgd.phases import phases
from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.start import is_random, starts
from giantstep.family import Answer
from giantstep.types import Array, Floats, Integers, Points

KEPT = 400


def prepare(scenario: OnlineSGD, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check the settings, choose the updates that are kept."""
    settings = dict(settings)
    if what == "trajectory":
        settings["time"] = kept_times(settings["times"], int(points["steps"].max()))
    if what == "recovery":
        settings["threshold"] = check_number(
            "threshold", settings["threshold"], "a number above 0 and below 1", lambda value: 0 < value < 1
        )
    if settings.get("nodes") is not None:
        settings["nodes"] = int(
            check_number(
                "nodes", settings["nodes"], "a whole number from 2 to 200", lambda n: 2 <= n <= 200, whole=True
            )
        )
    return settings


def kept_times(wanted: Any, steps: int) -> Integers:
    """Return the updates that are kept: those asked for, or at most 400, denser early."""
    if wanted is None:
        return np.unique(np.round(steps * np.linspace(0, 1, KEPT) ** 2)).astype(np.int64)
    times = np.atleast_1d(np.asarray(wanted))
    if np.iscomplexobj(times) or np.any(times != np.round(times)) or np.any(times < 0) or np.any(times > steps):
        raise bad_field("times", np.asarray(wanted).tolist(), f"whole numbers from 0 to steps = {steps}")
    return np.unique(times).astype(np.int64)


def limit(scenario: OnlineSGD, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer all points at once."""
    if what == "phases":
        return phases(scenario, points)
    return _recovery(scenario, points, settings) if what == "recovery" else _trajectory(scenario, points, settings)


def drive_of(scenario: OnlineSGD, points: Points, theory: str | None = None) -> Drive:
    """Return the parameters of the update at every point."""
    return Drive(
        points["rate"] / scenario.width,
        np.asarray(points["dim"], dtype=float),
        np.asarray(points["batch_size"], dtype=float),
        scenario.inner_rates(points),
        np.asarray(points["noise"], dtype=float),
        np.array(scenario.second_layer),
        scenario.constraint,
        theory if theory in ("asymptotic", "published") else "map",
    )


def frame_of(scenario: OnlineSGD) -> Floats:
    """Return the unit target directions in whitened coordinates, as columns."""
    directions = scenario.whitening.T
    return np.asarray(directions / np.linalg.norm(directions, axis=0))


class _Batch:
    """Points times starts, flattened; `mean` and `shape` bring them back."""

    def __init__(self, scenario: OnlineSGD, points: Points, settings: Mapping[str, Any]) -> None:
        trials = int(settings.get("trials") or settings["starts"])
        self.runs, self.trials = (int(settings["runs"]), trials) if is_random(scenario) else (1, 1)
        self.count = len(points["rate"])
        per = self.runs * self.trials
        seed = int(settings.get("seed", 0))
        found = [
            starts(scenario, int(dim), seed, trial, self.runs) for dim in points["dim"] for trial in range(self.trials)
        ]
        self.M, self.Q = (np.concatenate([start[i] for start in found]) for i in range(2))
        self.place = np.repeat(np.arange(self.count), per)

    def mean(self, name: str, values: Floats) -> Floats:
        """Average an observable over the starts of a point."""
        return averaged(name, values.reshape(self.count, -1, *values.shape[1:]), 1)


def _engines(scenario: OnlineSGD, settings: Mapping[str, Any]) -> list[Engine]:
    """Return one engine, or several with independent points where it samples."""
    kind, nodes, points = settings["moments"], settings["nodes"], settings["points"]
    first = engine_for(scenario, kind, nodes, points)
    if not first.sampled:
        return [first]
    return [first, *(engine_for(scenario, kind, nodes, points, scramble) for scramble in range(1, SCRAMBLES))]


def _symmetric(engine: Engine, drive: Drive, batch: _Batch) -> Drive:
    """Let neurons that start equal stay equal where sampled moments would tell them apart."""
    if not engine.sampled:
        return drive
    return replace(drive, classes=equal_neurons(drive.second_layer, batch.M, batch.Q))


def _facts(engines: list[Engine], error: float) -> tuple[dict[str, Any], list[str]]:
    facts = {"moments": engines[0].name, "moment_error": float(error)}
    if error <= COARSE or engines[0].sampled:
        return facts, []
    return facts, [f"The Gaussian moments of two rules differ by {error:.1g}; raise `nodes` or take Sobol points."]


def _trajectory(scenario: OnlineSGD, points: Points, settings: Mapping[str, Any]) -> Answer:
    theory, times = settings.get("theory") or "map", settings["time"]
    batch = _Batch(scenario, points, settings)
    drive = drive_of(scenario, points, theory).take(batch.place)
    engines = _engines(scenario, settings)
    drive = _symmetric(engines[0], drive, batch)
    move = ode_trajectory if theory == "ode" else map_trajectory
    found = [observables(scenario, e, *move(e, drive, batch.M, batch.Q, times)) for e in engines]
    values: dict[str, Array] = {}
    for name in found[0]:
        replicas = np.stack([batch.mean(name, one[name]) for one in found])
        values[name] = replicas.mean(axis=0)
        if len(found) > 1:
            values[f"{name}_stderr"] = replicas.std(axis=0, ddof=1) / np.sqrt(len(found))
    lost = np.isnan(values["mse"]).any(axis=1)
    error = engines[0].error(rows(batch.M[:1], batch.Q[:1]), drive.inner[:1], drive.noise[:1])
    last = found[0]["M"][0, -1] @ np.linalg.inv(scenario.whitening).T, found[0]["Q"][0, -1]
    if np.all(np.isfinite(last[1])):
        error = max(error, engines[0].error(rows(last[0][None], last[1][None]), drive.inner[:1], drive.noise[:1]))
    facts, warnings = _facts(engines, error)
    return Answer(
        values,
        np.where(lost, DIVERGED_REASON, ""),
        np.full(batch.count, error),
        np.full(batch.count, int(times[-1])),
        coords={"time": times},
        warnings=warnings,
        attrs=facts,
    )


def observables(scenario: OnlineSGD, engine: Engine, M: Floats, Q: Floats) -> dict[str, Floats]:
    """Return what is measured on states M (n, times, p, k) in whitened coordinates and Q (n, times, p, p)."""
    flat_M, flat_Q = M.reshape(-1, *M.shape[2:]), Q.reshape(-1, *Q.shape[2:])
    good = np.isfinite(flat_Q).all(axis=(1, 2))
    mse = np.full(len(flat_Q), np.nan)
    if good.any():
        mse[good] = engine.mse(rows(flat_M[good], flat_Q[good]))
    overlaps = M @ scenario.whitening.T
    norm = np.sqrt(np.diagonal(Q, axis1=-2, axis2=-1))
    cosine = M @ frame_of(scenario) / norm[..., None]
    return {
        "M": overlaps,
        "Q": Q,
        "mse": mse.reshape(M.shape[:2]),
        "cosine": cosine,
        "best": np.abs(cosine).max(axis=-2),
        "rms": cosine[..., 0, :],
    }


def averaged(name: str, values: Floats, axis: int) -> Floats:
    """Average an observable over runs or starts; `rms` is the root of the mean square."""
    return np.sqrt((values**2).mean(axis=axis)) if name == "rms" else values.mean(axis=axis)


def _recovery(scenario: OnlineSGD, points: Points, settings: Mapping[str, Any]) -> Answer:
    theory, threshold = settings.get("theory") or "map", settings["threshold"]
    batch = _Batch(scenario, points, settings)
    drive = drive_of(scenario, points, theory).take(batch.place)
    engines = _engines(scenario, settings)[:1]
    drive = _symmetric(engines[0], drive, batch)
    move = ode_recovery if theory == "ode" else map_recovery
    steps = np.asarray(points["steps"], dtype=float)[batch.place]
    time = move(engines[0], drive, batch.M, batch.Q, frame_of(scenario), threshold, steps)
    per_trial = time.reshape(batch.count, batch.trials, batch.runs)
    median = np.median(per_trial, axis=-1).mean(axis=-1)
    reached = np.isfinite(time).reshape(batch.count, -1).mean(axis=1)
    status = np.where(np.isnan(median), DIVERGED_REASON, "").astype(object)
    never = np.isinf(median)
    status[never] = f"the cosine {threshold:g} was not reached within `steps`"
    if scenario.initial_overlap == "zero":
        status[never] = (
            f"the cosine {threshold:g} was not reached within `steps` (a start without overlap may stay at a saddle)"
        )
    escape_time, escape_rate = escape(scenario, points, threshold, engines[0])
    # a saddle without a start: the linear instability and the noise answer
    saved = never & np.isfinite(escape_time) & np.array(scenario.initial_overlap == "zero")
    status[saved] = ""
    median = np.where(np.isfinite(median), median, np.nan)
    facts, warnings = _facts(
        engines, engines[0].error(rows(batch.M[:1], batch.Q[:1]), drive.inner[:1], drive.noise[:1])
    )
    return Answer(
        {
            "recovery_time": median,
            "recovery_samples": median * points["batch_size"] / points["dim"],
            "escape_time": escape_time,
            "escape_rate": escape_rate,
            "recovered": reached,
        },
        status.astype(str),
        np.zeros(batch.count),
        np.nan_to_num(median).astype(np.int64),
        warnings=warnings,
        attrs=facts,
    )
