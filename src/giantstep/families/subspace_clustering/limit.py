"""The limit of subspace clustering: branches of state evolution, free entropies, thresholds, phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giantstep.checks import check_number
from giantstep.errors import bad_field
from giantstep.families.subspace_clustering import informative
from giantstep.families.subspace_clustering.channels import (
    AssignmentChannel,
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
from giantstep.families.subspace_clustering.informative import InformedProblems
from giantstep.families.subspace_clustering.rivals import pca_accuracy
from giantstep.families.subspace_clustering.scenario import ALGORITHMS, BRANCHES, PHASES, SubspaceClustering
from giantstep.families.subspace_clustering.unequal import strongest, unequal_clusters
from giantstep.family import Answer
from giantstep.types import Array, Floats, Indices, Points

_SAME = 1e-7
"""Relative difference of the SNR a below which two branches are one (rounding at a spinodal is its square root)."""
_SAME_SAMPLED, _SETTLED = 1e-4, 2e-6
"""The same of m_u, and the change of m_u in a step, where state evolution is iterated (unequal weights)."""
_RESIDUAL = 1e-9
"""Relative residual of a fixed point above which it is not solved."""


def prepare(scenario: SubspaceClustering, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check the settings, and say which branch and which times the experiment answers with."""
    settings = dict(settings)
    if "overlap" in settings:
        settings["overlap"] = check_number(
            "overlap", settings["overlap"], "a number above 0 and below 1", lambda value: 0 < value < 1
        )
    if what == "overlaps":
        settings["branch"] = ["informed" if settings["start"] == "informed" else "uninformed"]
    if what == "rivals":
        settings["algorithm"] = _algorithms(settings["algorithms"])
    if what == "trajectory":
        settings["time"] = np.arange(settings["steps"] + 1)
    return settings


def _algorithms(text: str) -> list[str]:
    """Return the algorithms of the experiment that a text names, in the order of the table."""
    known = ALGORITHMS[:-1]
    asked = [name.strip() for name in text.split(",") if name.strip()]
    if not asked or (asked != ["all"] and not set(asked) <= set(known)):
        raise bad_field("algorithms", text, "all, or some of " + ", ".join(known))
    return [name for name in known if asked == ["all"] or name in asked]


def limit(scenario: SubspaceClustering, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer all points; those with the same number of clusters are solved together."""
    size = len(points["snr"])
    answer = Answer({}, np.full(size, "", dtype=object), np.zeros(size), np.zeros(size, np.int64))
    for places, k in _by_clusters(points):
        some = {name: values[places] for name, values in points.items()}
        if len(scenario.weights) > 2 and np.ptp(scenario.weights) > 0:
            values, residual, reasons = _UNEQUAL[what](scenario, some, settings)
        else:
            values, residual, reasons = _SOLVERS[what](scenario, channel_of(scenario, k), some, settings)
        answer.residual[places], answer.status[places] = residual, reasons
        for name, value in values.items():
            kind = object if value.dtype.kind in "UO" else np.float64
            answer.values.setdefault(name, np.empty((size, *value.shape[1:]), kind))[places] = value
    answer.status = answer.status.astype(str)
    if what == "overlaps":
        answer.coords["branch"] = np.array(BRANCHES)
    if what == "rivals":
        answer.coords["algorithm"] = np.array(["amp", "pca", "bayes"])
    if what == "trajectory":
        answer.coords["time"] = settings["time"]
    if what == "thresholds" and "lam_dyn" in answer.values and np.isnan(answer.values["lam_dyn"]).any():
        answer.warnings.append(
            "For unequal weights of three or more clusters only lam_alg is computed; the rest is NaN."
        )
    return answer


def _by_clusters(points: Points) -> Iterator[tuple[Indices, int]]:
    clusters = np.asarray(points["clusters"])
    for k in np.unique(clusters):
        yield np.flatnonzero(clusters == k), int(k)


def channel_of(scenario: SubspaceClustering, clusters: int) -> AssignmentChannel:
    """Return the assignment channel of equal clusters, or of two clusters with the weights of the scenario."""
    return assignment_channel(clusters, scenario.weights[0] if len(scenario.weights) == 2 else None)


Solved = tuple[dict[str, Array], Floats, NDArray[np.object_]]


def _problems(scenario: SubspaceClustering, channel: AssignmentChannel, points: Points) -> tuple[Problems, Indices]:
    """Return the different (alpha, rho) among the points, and which of them each point has."""
    rows = np.stack([points["samples_per_dim"], points["sparsity"]], axis=1)
    unique, place = np.unique(rows, axis=0, return_inverse=True)
    make = InformedProblems.of if scenario.mean == "informative" else Problems
    return make(channel, unique[:, 0].copy(), unique[:, 1].copy()), place.reshape(-1)


def _overlaps(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    lam = points["snr"]
    curves, place = _problems(scenario, channel, points)
    problems, found = curves.at(place), turning_points(curves)
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


def _rivals(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    """Answer for AMP and the Bayes estimator, and for PCA where clusters are equal and their mean says nothing."""
    values, residual, reasons = _overlaps(scenario, channel, points, settings)
    equal = not scenario.weights and scenario.mean == "centred"
    pca = pca_accuracy(channel, points["samples_per_dim"], points["snr"]) if equal else np.full(len(residual), np.nan)
    accuracy = values["accuracy"]
    return {"accuracy": np.stack([accuracy[:, 0], pca, accuracy[:, 2]], axis=1)}, residual, reasons


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
            m_v[:, step] = informed_overlap(b, informative.known(problems, lam), rho, channel.rank)[0]
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
    curves, place = _problems(scenario, channel, points)
    reasons = np.full(len(place), "", dtype=object)
    names = ("dyn", "it", "jump", "algB")
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
    reasons[np.isnan(values["m_c"])] = (
        "not computed where the mean is informative: ask for the thresholds"
        if informed
        else "no end: k >= 4 + 2 sqrt(alpha), first-order at every sparsity"
    )
    return values, np.zeros(len(place)), reasons


def _unequal_overlaps(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    """Answer for three or more clusters of unequal sizes, point by point."""
    sets = unequal_clusters(tuple(scenario.weights))
    count, names = len(points["snr"]), ("m_u", "m_v", "mse_u", "mse_v", "accuracy", "tpr", "fpr", "phi")
    found = np.empty((len(names), len(sets), count, 2))
    change = np.zeros(count)
    for place in range(count):
        lam, alpha, rho = (float(points[name][place]) for name in ("snr", "samples_per_dim", "sparsity"))
        for which, nodes in enumerate(sets):
            for branch, informed in enumerate((False, True)):
                fixed = nodes.fixed_point(lam, alpha, rho, informed)
                found[:, which, place, branch] = [fixed.values[name] for name in names]
                change[place] = max(change[place], fixed.change)
    mean = found.mean(axis=1)
    same = np.abs(mean[0, :, 1] - mean[0, :, 0]) <= _SAME_SAMPLED * np.maximum(mean[0, :, 1], 1e-300)
    found[..., 0] = np.where(same, found[..., 1], found[..., 0])
    best = np.where((mean[-1, :, 1] >= mean[-1, :, 0]) | same, 1, 0)
    third = np.where(best == 1, found[..., 1], found[..., 0])
    every = np.concatenate([found, third[..., None]], axis=-1)
    values: dict[str, Array] = dict(zip(names, every.mean(axis=1)))
    if len(sets) > 1:
        errors = every.std(axis=1, ddof=1) / np.sqrt(len(sets))
        values |= {f"{name}_stderr": error for name, error in zip(names, errors)}
    values["ratio"] = points["snr"] * strongest(scenario.weights) * np.sqrt(points["samples_per_dim"])
    low, bayes = values["m_u"][:, 0], values["m_u"][:, 2]
    values["phase"] = np.select([bayes == 0, low == 0, low != bayes], PHASES[:3], PHASES[3])
    reasons = np.full(count, "", dtype=object)
    reasons[~(change <= _SETTLED)] = "state evolution did not settle"
    return values, change, reasons


def _unequal_rivals(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    values, change, reasons = _unequal_overlaps(scenario, points, settings)
    missing = np.full(len(change), np.nan)
    answers: dict[str, Array] = {
        name: np.stack([values[name][:, 0], missing, values[name][:, 2]], axis=1)
        for name in ("accuracy", "accuracy_stderr")
        if name in values
    }
    return answers, change, reasons


def _unequal_trajectory(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    sets = unequal_clusters(tuple(scenario.weights))
    count, steps, names = len(points["snr"]), len(settings["time"]), ("m_u", "m_v", "mse_u", "mse_v", "accuracy")
    found = np.empty((len(names), len(sets), count, steps))
    for which, nodes in enumerate(sets):
        first = nodes.start_snr(settings["overlap"]) * np.eye(nodes.rank)
        begin, _, right = nodes.assignments(first)
        for place in range(count):
            lam, alpha, rho = (float(points[name][place]) for name in ("snr", "samples_per_dim", "sparsity"))
            M_u, M_v, accuracy = begin, np.zeros_like(begin), right
            for step in range(steps):
                if step:
                    M_v, M_u, _, accuracy = nodes.step(M_u, lam, alpha, rho)
                now = {**nodes.measured(M_u, M_v, rho), "accuracy": accuracy}
                found[:, which, place, step] = [now[name] for name in names]
    values: dict[str, Array] = dict(zip(names, found.mean(axis=1)))
    if len(sets) > 1:
        errors = found.std(axis=1, ddof=1) / np.sqrt(len(sets))
        values |= {f"{name}_stderr": error for name, error in zip(names, errors)}
    return values, np.zeros(count), np.full(count, "", dtype=object)


def _unequal_thresholds(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    """Answer with the linear stability of zero overlap; the curve of fixed points has no single parameter here."""
    count, names = len(points["snr"]), ("dyn", "it", "jump", "algB")
    missing = np.full(count, np.nan)
    values: dict[str, Array] = {f"lam_{name}": missing for name in names}
    values |= {f"ratio_{name}": missing for name in names} | {f"m_{name}": missing for name in names if name != "it"}
    values["lam_alg"] = 1 / (strongest(scenario.weights) * np.sqrt(points["samples_per_dim"]))
    values["transition"] = np.full(count, "")
    return values, np.zeros(count), np.full(count, "", dtype=object)


def _unequal_critical(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    missing = np.full(len(points["snr"]), np.nan)
    reasons = np.full(len(missing), "not computed for three or more clusters of unequal sizes", dtype=object)
    return dict.fromkeys(("sparsity_c", "m_c", "ratio_c"), missing), missing, reasons


_SOLVERS: dict[str, Callable[..., Solved]] = {
    "overlaps": _overlaps,
    "rivals": _rivals,
    "trajectory": _trajectory,
    "thresholds": _thresholds,
    "critical": _critical,
}
_UNEQUAL: dict[str, Callable[..., Solved]] = {
    "overlaps": _unequal_overlaps,
    "rivals": _unequal_rivals,
    "trajectory": _unequal_trajectory,
    "thresholds": _unequal_thresholds,
    "critical": _unequal_critical,
}
