"""The limit of subspace clustering: branches of state evolution, free entropies, thresholds, phases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from giantstep.checks import check_number
from giantstep.errors import bad_field
from giantstep.families.subspace_clustering.channels import AssignmentChannel, assignment_channel
from giantstep.families.subspace_clustering.curve import (
    Problems,
    critical_sparsity,
    lower_branch,
    thresholds,
    turning_points,
    upper_branch,
)
from giantstep.families.subspace_clustering.informative import InformedProblems
from giantstep.families.subspace_clustering.mixture import largest_variance
from giantstep.families.subspace_clustering.rivals import pca_accuracy
from giantstep.families.subspace_clustering.scenario import ALGORITHMS, BRANCHES, PHASES, SubspaceClustering
from giantstep.families.subspace_clustering.unequal import unequal_clusters
from giantstep.family import Answer
from giantstep.types import Array, Booleans, Floats, Indices, Points

_SAME = 1e-7
"""Relative difference of the SNR a below which two branches are one (rounding at a spinodal is its square root)."""
_SAME_SAMPLED, _SETTLED = 1e-4, 2e-6
"""The same of m_u, and the change of m_u in a step, where state evolution is iterated (unequal weights)."""
_RESIDUAL = 1e-9
"""Relative residual of a fixed point above which it is not solved."""
_JUMPS = ("dyn", "it", "jump", "algB")


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


class Solved(NamedTuple):
    """Variables of a batch of points, the residual of their solution, and why those that failed did."""

    values: Mapping[str, Array]
    residual: Floats | float = 0.0
    failed: Booleans | bool = False
    reason: str = ""


def limit(scenario: SubspaceClustering, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer all points; those with the same number of clusters are solved together."""
    size = len(points["snr"])
    answer = Answer({}, np.full(size, "", dtype=object), np.zeros(size), np.zeros(size, np.int64))
    unequal = len(scenario.weights) > 2 and np.ptp(scenario.weights) > 0
    for k in np.unique(points["clusters"]):
        rows = np.flatnonzero(points["clusters"] == k)
        part = {name: column[rows] for name, column in points.items()}
        if unequal:
            solved = _UNEQUAL[what](scenario, part, settings)
        else:
            solved = _EQUAL[what](scenario, _channel(scenario, int(k)), part, settings)
        answer.residual[rows] = solved.residual
        answer.status[rows] = np.where(solved.failed, solved.reason, "")
        for name, value in solved.values.items():
            kind = object if value.dtype.kind in "UO" else np.float64
            answer.values.setdefault(name, np.empty((size, *value.shape[1:]), kind))[rows] = value
    answer.status = answer.status.astype(str)
    answer.coords = _coords(what, settings)
    if what == "thresholds" and "lam_dyn" in answer.values and np.isnan(answer.values["lam_dyn"]).any():
        answer.warnings.append(
            "For unequal weights of three or more clusters only lam_alg is computed; the rest is NaN."
        )
    return answer


def _coords(what: str, settings: Mapping[str, Any]) -> dict[str, Array]:
    if what == "trajectory":
        return {"time": settings["time"]}
    names = {"overlaps": ("branch", BRANCHES), "rivals": ("algorithm", ("amp", "pca", "bayes"))}
    return {names[what][0]: np.array(names[what][1])} if what in names else {}


def _channel(scenario: SubspaceClustering, clusters: int) -> AssignmentChannel:
    """Return the assignment channel of equal clusters, or of two clusters with the weights of the scenario."""
    return assignment_channel(clusters, scenario.weights[0] if len(scenario.weights) == 2 else None)


def _problems(scenario: SubspaceClustering, channel: AssignmentChannel, points: Points) -> Problems:
    kind = InformedProblems if scenario.mean == "informative" else Problems
    return kind(channel, points["samples_per_dim"], points["sparsity"])


def _different(scenario: SubspaceClustering, channel: AssignmentChannel, points: Points) -> tuple[Problems, Indices]:
    """Return the different (alpha, rho) among the points, and which of them each point has."""
    pairs = np.stack([points["samples_per_dim"], points["sparsity"]], axis=1)
    unique, index = np.unique(pairs, axis=0, return_inverse=True)
    columns = {"samples_per_dim": unique[:, 0].copy(), "sparsity": unique[:, 1].copy()}
    return _problems(scenario, channel, columns), index.reshape(-1)


def _phase(uninformed: Floats, bayes: Floats) -> Array:
    """Name the phase of overlaps that AMP and the Bayes estimator reach."""
    return np.select([bayes == 0, uninformed == 0, uninformed != bayes], PHASES[:3], PHASES[3])


def _overlaps(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    lam = points["snr"]
    curves, index = _different(scenario, channel, points)
    problems, turning = curves.at(index), turning_points(curves).at(index)
    (low, low_left), (high, high_left) = (branch(problems, turning, lam) for branch in (lower_branch, upper_branch))
    phi = np.stack([problems.phi(a, lam) for a in (low, high)], axis=1)
    same = np.abs(high - low) <= _SAME * np.maximum(high, 1e-300)
    low = np.where(same, high, low)
    phi[:, 0] = np.where(same, phi[:, 1], phi[:, 0])
    best = np.where(phi[:, 1] >= phi[:, 0], 1, 0)
    a = np.stack([low, high, np.where(best == 1, high, low)], axis=1)
    values: dict[str, Array] = _observables(problems, lam, a)
    values["phi"] = np.concatenate([phi, np.take_along_axis(phi, best[:, None], axis=1)], axis=1)
    values["ratio"] = lam / problems.threshold
    values["phase"] = _phase(a[:, 0], a[:, 2])
    residual = np.maximum(low_left, high_left)
    return Solved(values, residual, ~(residual <= _RESIDUAL), "no root of the state evolution was found")


def _observables(problems: Problems, lam: Floats, a: Floats) -> dict[str, Array]:
    """Return what is measured at fixed points a of shape (B, branches), subspace_clustering (7a)-(7c)."""
    channel, columns, shape = problems.channel, a.shape[1], a.shape
    wide, lam, a = problems.at(np.repeat(np.arange(len(lam)), columns)), np.repeat(lam, columns), a.ravel()
    m_u, m_v = channel.overlap(a), np.where(a > 0, a / lam, 0.0)
    tpr, fpr = wide.selection(wide.features_snr(m_u, lam), lam)
    values = {**_errors(channel, wide.rho, m_u, m_v), "accuracy": channel.accuracy(a), "tpr": tpr, "fpr": fpr}
    return {name: value.reshape(shape) for name, value in values.items()}


def _errors(channel: AssignmentChannel, rho: Floats, m_u: Floats, m_v: Floats) -> dict[str, Array]:
    mse_u = channel.variance * channel.rank * (1 - m_u)
    return {"m_u": m_u, "m_v": m_v, "mse_u": mse_u, "mse_v": rho * (1 - m_v)}


def _rivals(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    """Answer for AMP and the Bayes estimator, and for PCA where clusters are equal and their mean says nothing."""
    solved = _overlaps(scenario, channel, points, settings)
    equal = not scenario.weights and scenario.mean == "centred"
    missing = np.full(len(points["snr"]), np.nan)
    pca = pca_accuracy(channel, points["samples_per_dim"], points["snr"]) if equal else missing
    accuracy = solved.values["accuracy"]
    return solved._replace(values={"accuracy": np.stack([accuracy[:, 0], pca, accuracy[:, 2]], axis=1)})


def _trajectory(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    lam, problems = points["snr"], _problems(scenario, channel, points)
    m_u, m_v, accuracy = np.zeros((3, len(lam), len(settings["time"])))
    m_u[:, 0], accuracy[:, 0] = settings["overlap"], channel.accuracy(channel.snr(settings["overlap"]))
    for step in range(1, m_u.shape[1]):
        m_v[:, step], _ = problems.features_overlap(problems.features_snr(m_u[:, step - 1], lam), lam)
        m_u[:, step] = channel.overlap(lam * m_v[:, step])
        accuracy[:, step] = channel.accuracy(lam * m_v[:, step])
    return Solved({**_errors(channel, problems.rho[:, None], m_u, m_v), "accuracy": accuracy})


def _thresholds(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    curves, index = _different(scenario, channel, points)
    table = thresholds(curves).at(index)
    values: dict[str, Array] = {f"lam_{name}": getattr(table, f"lam_{name}") for name in (*_JUMPS, "alg")}
    values |= {f"ratio_{name}": values[f"lam_{name}"] / table.lam_alg for name in _JUMPS}
    values |= {name: getattr(table, name) for name in ("m_dyn", "m_jump", "m_algB")}
    values["transition"] = np.where(table.first_order, "first-order", "continuous")
    failed = ~(table.residual <= _RESIDUAL)
    return Solved(values, table.residual, failed, "the free entropies of the two branches do not cross")


def _critical(
    scenario: SubspaceClustering, channel: AssignmentChannel, points: Points, settings: Mapping[str, Any]
) -> Solved:
    names, count = ("sparsity_c", "m_c", "ratio_c"), len(points["snr"])
    if scenario.mean == "informative":
        missing = dict.fromkeys(names, np.full(count, np.nan))
        return Solved(missing, 0.0, True, "not computed where the mean is informative: ask for the thresholds")
    unique, index = np.unique(points["samples_per_dim"], return_inverse=True)
    ends = np.array([critical_sparsity(channel, float(alpha)) for alpha in unique])[index.reshape(-1)]
    values = dict(zip(names, ends.T))
    reason = "no end: k >= 4 + 2 sqrt(alpha), first-order at every sparsity"
    return Solved(values, 0.0, np.isnan(values["m_c"]), reason)


def _replicates(names: tuple[str, ...], samples: Floats) -> dict[str, Array]:
    """Return means, and standard errors where there are several sets of nodes; samples (names, sets, ...)."""
    values: dict[str, Array] = dict(zip(names, samples.mean(axis=1)))
    if (sets := samples.shape[1]) > 1:
        errors = samples.std(axis=1, ddof=1) / np.sqrt(sets)
        values |= {f"{name}_stderr": error for name, error in zip(names, errors)}
    return values


def _each(points: Points) -> list[tuple[float, float, float]]:
    """Return (lam, alpha, rho) of every point."""
    columns = (points[name].tolist() for name in ("snr", "samples_per_dim", "sparsity"))
    return list(zip(*columns))


def _unequal_overlaps(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    """Answer for three or more clusters of unequal sizes, point by point."""
    sets = unequal_clusters(tuple(scenario.weights))
    names = ("m_u", "m_v", "mse_u", "mse_v", "accuracy", "tpr", "fpr", "phi")
    branches, change = np.empty((len(names), len(sets), len(points["snr"]), 2)), np.zeros(len(points["snr"]))
    for number, nodes in enumerate(sets):
        for (index, row), informed in itertools.product(enumerate(_each(points)), (0, 1)):
            fixed = nodes.fixed_point(*row, bool(informed))
            branches[:, number, index, informed] = [fixed.values[name] for name in names]
            change[index] = max(change[index], fixed.change)
    mean = branches.mean(axis=1)
    same = np.abs(mean[0, :, 1] - mean[0, :, 0]) <= _SAME_SAMPLED * np.maximum(mean[0, :, 1], 1e-300)
    low = np.where(same, branches[..., 1], branches[..., 0])
    best = (mean[-1, :, 1] >= mean[-1, :, 0]) | same
    bayes = np.where(best, branches[..., 1], low)
    values = _replicates(names, np.stack([low, branches[..., 1], bayes], axis=-1))
    values["ratio"] = points["snr"] * largest_variance(scenario.weights) * np.sqrt(points["samples_per_dim"])
    values["phase"] = _phase(values["m_u"][:, 0], values["m_u"][:, 2])
    return Solved(values, change, ~(change <= _SETTLED), "state evolution did not settle")


def _unequal_rivals(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    solved = _unequal_overlaps(scenario, points, settings)
    missing = np.full(len(points["snr"]), np.nan)
    columns = {name: value for name, value in solved.values.items() if name in ("accuracy", "accuracy_stderr")}
    return solved._replace(
        values={name: np.stack([value[:, 0], missing, value[:, 2]], axis=1) for name, value in columns.items()}
    )


def _unequal_trajectory(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    sets, names = unequal_clusters(tuple(scenario.weights)), ("m_u", "m_v", "mse_u", "mse_v", "accuracy")
    samples = np.empty((len(names), len(sets), len(points["snr"]), len(settings["time"])))
    for number, nodes in enumerate(sets):
        start, _, start_accuracy = nodes.assignments(nodes.start_snr(settings["overlap"]) * np.eye(nodes.rank))
        for index, row in enumerate(_each(points)):
            M_u, M_v, accuracy = start, np.zeros_like(start), start_accuracy
            for step in range(samples.shape[-1]):
                if step:
                    M_v, M_u, _, accuracy = nodes.step(M_u, *row)
                samples[:, number, index, step] = [*nodes.overlaps(M_u, M_v, row[2]).values(), accuracy]
    return Solved(_replicates(names, samples))


def _unequal_thresholds(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    """Answer with the linear stability of zero overlap; the curve of fixed points has no single parameter here."""
    count = len(points["snr"])
    missing = [*(f"{kind}_{name}" for kind in ("lam", "ratio") for name in _JUMPS), "m_dyn", "m_jump", "m_algB"]
    values: dict[str, Array] = dict.fromkeys(missing, np.full(count, np.nan))
    values["lam_alg"] = 1 / (largest_variance(scenario.weights) * np.sqrt(points["samples_per_dim"]))
    values["transition"] = np.full(count, "")
    return Solved(values)


def _unequal_critical(scenario: SubspaceClustering, points: Points, settings: Mapping[str, Any]) -> Solved:
    missing = np.full(len(points["snr"]), np.nan)
    values = dict.fromkeys(("sparsity_c", "m_c", "ratio_c"), missing)
    return Solved(values, np.nan, True, "not computed for three or more clusters of unequal sizes")


_EQUAL: dict[str, Callable[..., Solved]] = {
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
