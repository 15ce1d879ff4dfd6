"""The limit of subspace clustering: branches of state evolution, free entropies, thresholds, phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giantstep.checks import checked_number
from giantstep.families.subspace_clustering import informative
from giantstep.families.subspace_clustering.channels import (
    AssignmentChannel,
    Floats,
    assignment_channel,
    features_overlap,
    informed_overlap,
    selection,
)
from giantstep.families.subspace_clustering.curve import (
    Problems,
    Turning,
    critical_sparsity,
    lower_branch,
    thresholds,
    turning_points,
    upper_branch,
)
from giantstep.families.subspace_clustering.scenario import BRANCHES, PHASES, SubspaceClustering
from giantstep.family import Answer

Points = Mapping[str, NDArray[np.float64]]
_SAME = 1e-7
"""Relative difference of the SNR a below which two branches are one (rounding at a spinodal is its square root)."""
_RESIDUAL = 1e-9
"""Relative residual of a fixed point above which it is not solved."""


def prepare(scenario: SubspaceClustering, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check the settings, and say which branch and which times the experiment answers with."""
    settings = dict(settings)
    if "overlap" in settings:
        settings["overlap"] = checked_number(
            "overlap", settings["overlap"], "a number above 0 and below 1", lambda value: 0 < value < 1
        )
    if what == "overlaps":
        settings["branch"] = ["informed" if settings["start"] == "informed" else "uninformed"]
    if what == "trajectory":
        settings["time"] = np.arange(settings["steps"] + 1)
    return settings


def limit(scenario: SubspaceClustering, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer all points; those with the same number of clusters are solved together."""
    size = len(points["snr"])
    answer = Answer({}, np.full(size, "", dtype=object), np.zeros(size), np.zeros(size, np.int64))
    for places, channel in _by_clusters(scenario, points):
        some = {name: values[places] for name, values in points.items()}
        solve = _SOLVERS[what]
        values, residual, reasons = solve(scenario, channel, some, settings)
        answer.residual[places], answer.status[places] = residual, reasons
        for name, value in values.items():
            kind = object if value.dtype.kind in "UO" else np.float64
            answer.values.setdefault(name, np.empty((size, *value.shape[1:]), kind))[places] = value
    answer.status = answer.status.astype(str)
    if what == "overlaps":
        answer.coords["branch"] = np.array(BRANCHES)
    if what in ("thresholds", "critical") and scenario.mean == "informative":
        answer.warnings.append('Where mean="informative", only lam_alg is computed; other thresholds are NaN.')
    if what == "trajectory":
        answer.coords["time"] = settings["time"]
    return answer


def _by_clusters(scenario: SubspaceClustering, points: Points) -> Iterator[tuple[NDArray[np.intp], AssignmentChannel]]:
    clusters = np.asarray(points["clusters"])
    for k in np.unique(clusters):
        yield np.flatnonzero(clusters == k), channel_of(scenario, int(k))


def channel_of(scenario: SubspaceClustering, clusters: int) -> AssignmentChannel:
    """Return the assignment channel of a scenario with so many clusters."""
    return assignment_channel(clusters, scenario.weights[0] if scenario.weights else None)


Solved = tuple[dict[str, NDArray[Any]], Floats, NDArray[np.object_]]


def _problems(channel: AssignmentChannel, points: Points) -> tuple[Problems, NDArray[np.intp]]:
    """Return the different (alpha, rho) among the points, and which of them each point has."""
    rows = np.stack([points["samples_per_dim"], points["sparsity"]], axis=1)
    unique, place = np.unique(rows, axis=0, return_inverse=True)
    return Problems(channel, unique[:, 0].copy(), unique[:, 1].copy()), place.reshape(-1)


def _overlaps(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    lam, alpha, rho = (points[name] for name in ("snr", "samples_per_dim", "sparsity"))
    problems = Problems(channel, alpha, rho)
    if scenario.mean == "informative":
        (low, low_left), (high, high_left), phi = informative.branches(problems, lam)
        ratio = lam / informative.onset(problems)
    else:
        curves, place = _problems(channel, points)
        found = turning_points(curves)
        turning = Turning(*(getattr(found, name)[place] for name in Turning.__dataclass_fields__))
        (low, low_left), (high, high_left) = (branch(problems, turning, lam) for branch in (lower_branch, upper_branch))
        phi = np.stack([problems.phi(a, lam) for a in (low, high)], axis=1)
        ratio = lam / problems.threshold
    same = np.abs(high - low) <= _SAME * np.maximum(high, 1e-300)
    low = np.where(same, high, low)
    phi[:, 0] = np.where(same, phi[:, 1], phi[:, 0])
    best = np.where(phi[:, 1] >= phi[:, 0], 1, 0)
    a = np.stack([low, high, np.where(best == 1, high, low)], axis=1)
    values = _observables(scenario, problems, lam, a)
    values["phi"] = np.concatenate([phi, np.take_along_axis(phi, best[:, None], axis=1)], axis=1)
    values["ratio"] = ratio
    nothing, amp_nothing, optimal = a[:, 2] == 0, a[:, 0] == 0, a[:, 0] == a[:, 2]
    values["phase"] = np.select([nothing, amp_nothing, ~optimal], PHASES[:3], PHASES[3])
    residual = np.maximum(low_left, high_left)
    reasons = np.full(len(lam), "", dtype=object)
    reasons[~(residual <= _RESIDUAL)] = "no root of the state evolution was found"
    return values, residual, reasons


def _observables(scenario: SubspaceClustering, problems: Problems, lam: Floats, a: Floats) -> dict[str, Floats]:
    """Return what is measured at fixed points a of shape (B, branches)."""
    channel, columns = problems.channel, a.shape[1]
    wide = problems.at(np.repeat(np.arange(len(lam)), columns))
    snr = np.repeat(lam, columns)
    m_u = channel.overlap(a).ravel()
    b = wide.features_snr(m_u, snr)
    m_v = np.where(a.ravel() > 0, a.ravel() / snr, 0.0)
    if scenario.mean == "informative":
        tpr, fpr = informative.selected(wide, snr, b)
    else:
        tpr, fpr = selection(b, wide.rho, channel.rank)
    values = {
        "m_u": m_u,
        "m_v": m_v,
        "mse_u": channel.variance * channel.rank * (1 - m_u),
        "mse_v": wide.rho * (1 - m_v),
        "accuracy": channel.accuracy(a.ravel()),
        "tpr": tpr,
        "fpr": fpr,
    }
    return {name: value.reshape(a.shape) for name, value in values.items()}


def _trajectory(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    lam, alpha, rho = (points[name] for name in ("snr", "samples_per_dim", "sparsity"))
    problems = Problems(channel, alpha, rho)
    count, steps = len(lam), len(settings["time"])
    m_u, m_v, accuracy = (np.zeros((count, steps)) for _ in range(3))
    first = channel.snr(settings["overlap"])
    m_u[:, 0], accuracy[:, 0] = settings["overlap"], channel.accuracy(first)
    for step in range(1, steps):
        b = problems.features_snr(m_u[:, step - 1], lam)
        if scenario.mean == "informative":
            m_v[:, step], _ = informed_overlap(b, informative.known(problems, lam), rho, channel.rank)
        else:
            m_v[:, step], _ = features_overlap(b, rho, channel.rank)
        m_u[:, step] = channel.overlap(lam * m_v[:, step])
        accuracy[:, step] = channel.accuracy(lam * m_v[:, step])
    values = {
        "m_u": m_u,
        "m_v": m_v,
        "mse_u": channel.variance * channel.rank * (1 - m_u),
        "mse_v": rho[:, None] * (1 - m_v),
        "accuracy": accuracy,
    }
    return values, np.zeros(count), np.full(count, "", dtype=object)


def _thresholds(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    curves, place = _problems(channel, points)
    reasons = np.full(len(place), "", dtype=object)
    names = ("dyn", "it", "jump", "algB")
    if scenario.mean == "informative":
        alg = informative.onset(curves)[place]
        missing = np.full(len(place), np.nan)
        values: dict[str, NDArray[Any]] = {f"lam_{name}": missing for name in names}
        values |= {f"ratio_{name}": missing for name in names} | {
            f"m_{name}": missing for name in names if name != "it"
        }
        return {**values, "lam_alg": alg, "transition": np.full(len(place), "")}, np.zeros(len(place)), reasons
    found = thresholds(curves).at(place)
    values = {f"lam_{name}": getattr(found, f"lam_{name}") for name in (*names, "alg")}
    values |= {f"ratio_{name}": getattr(found, f"lam_{name}") / found.lam_alg for name in names}
    values |= {name: getattr(found, name) for name in ("m_dyn", "m_jump", "m_algB")}
    values["transition"] = np.where(found.first_order, "first-order", "continuous")
    reasons[~(found.residual <= _RESIDUAL)] = "the free entropies of the two branches do not cross"
    return values, found.residual, reasons


def _critical(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    unique, place = np.unique(points["samples_per_dim"], return_inverse=True)
    informed = scenario.mean == "informative"
    found = np.array([(np.nan,) * 3 if informed else critical_sparsity(channel, float(alpha)) for alpha in unique])
    values = dict(zip(("sparsity_c", "m_c", "ratio_c"), found[place.reshape(-1)].T))
    reasons = np.full(len(place), "", dtype=object)
    if not informed:
        reasons[np.isnan(values["m_c"])] = "no end: k >= 4 + 2 sqrt(alpha), first-order at every sparsity"
    return values, np.zeros(len(place)), reasons


_SOLVERS: dict[str, Callable[..., Solved]] = {
    "overlaps": _overlaps,
    "trajectory": _trajectory,
    "thresholds": _thresholds,
    "critical": _critical,
}
