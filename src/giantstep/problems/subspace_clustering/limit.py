"""The limit of subspace clustering: branches of state evolution, free entropies,
thresholds, phases.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, Booleans, Floats, Points
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.checks import check_number, every_time
from giantstep.problems.subspace_clustering.amp import spectral_overlap
from giantstep.problems.subspace_clustering.channels import (
    AssignmentChannel,
    assignment_channel,
    selection,
)
from giantstep.problems.subspace_clustering.curve import (
    CurveProblems,
    branches,
    critical_sparsity,
    thresholds,
    turning_points,
)
from giantstep.problems.subspace_clustering.mixture import largest_variance
from giantstep.problems.subspace_clustering.scenario import (
    ALGORITHMS,
    BRANCHES,
    PHASES,
    SubspaceClustering,
)
from giantstep.problems.subspace_clustering.unequal import unequal_clusters

_SAME = 1e-7
"""Relative difference of the SNR a below which two branches are one (rounding at a
spinodal is its square root).
"""
_SAME_SAMPLED = 1e-4
_SETTLED = 2e-6
"""The same of m_u, and the change of m_u in a step, where state evolution is iterated
(unequal weights).
"""
_RESIDUAL = 1e-9
"""Relative residual of a fixed point above which it is not solved."""
_LEAST_SPARSITY = 1e-20
"""Fraction of active features whose logarithms and squares are still exact."""
_TOO_SPARSE = (
    f"a sparsity below {_LEAST_SPARSITY:g} is beyond the numbers that state evolution"
    " is computed with"
)
_JUMPS = ("dyn", "it", "jump", "algB")


def prepare(
    scenario: SubspaceClustering, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Check the settings, and say which branch and which times the experiment answers
    with.
    """
    settings = dict(settings)
    if "overlap" in settings:
        settings["overlap"] = check_number(
            "overlap",
            settings["overlap"],
            "a number above 0 and below 1",
            lambda value: 0 < value < 1,
        )
    if what == "overlaps":
        settings["branch"] = [
            "informed" if settings["start"] == "informed" else "uninformed"
        ]
    if what == "rivals":
        known = ALGORITHMS[:-1]
        text = settings["algorithms"]
        asked = [name.strip() for name in text.split(",") if name.strip()]
        if not asked or (asked != ["all"] and not set(asked) <= set(known)):
            raise bad_field("algorithms", text, "all, or some of " + ", ".join(known))
        settings["algorithm"] = [
            name for name in known if asked == ["all"] or name in asked
        ]
    if what == "trajectory":
        settings["time"] = every_time(settings["steps"])
    return settings


class ClusterBatch(NamedTuple):
    """Points with the same number of clusters."""

    scenario: SubspaceClustering
    clusters: int
    points: Points
    settings: Mapping[str, Any]

    @property
    def unequal(self) -> bool:
        """Whether these are three or more clusters of unequal sizes."""
        return len(self.scenario.weights) > 2 and bool(
            np.ptp(self.scenario.weights) > 0
        )

    @property
    def channel(self) -> AssignmentChannel:
        """The assignment channel of equal clusters, or of two."""
        weights = self.scenario.weights
        return assignment_channel(
            self.clusters, weights[0] if len(weights) == 2 else None
        )

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.points["snr"])

    def rows(self) -> list[tuple[float, float, float]]:
        """Return (lam, alpha, rho) of every point."""
        columns = (
            self.points[name].tolist()
            for name in ("snr", "samples_per_dim", "sparsity")
        )
        return list(zip(*columns))

    def problems(self) -> CurveProblems:
        """Return the problem of every point."""
        informative = self.scenario.mean == "informative"
        return CurveProblems(
            self.channel,
            self.points["samples_per_dim"],
            self.points["sparsity"],
            informative,
        )


class Solved(NamedTuple):
    """Variables of a batch of points, the residual of their solution, and why those
    that failed did.
    """

    values: Mapping[str, Array]
    residual: Floats | float = 0.0
    failed: Booleans | bool = False
    reason: str = ""


def limit(
    scenario: SubspaceClustering, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Answer all points; those with the same number of clusters are solved together."""
    answer = Answer.blank(len(points["snr"]))
    for k in np.unique(points["clusters"]):
        rows = np.flatnonzero(points["clusters"] == k)
        batch = ClusterBatch(
            scenario,
            int(k),
            {name: column[rows] for name, column in points.items()},
            settings,
        )
        solved = _SOLVERS[what][batch.unequal](batch)
        answer.residual[rows] = solved.residual
        answer.status[rows] = np.where(solved.failed, solved.reason, "")
        if what != "critical":
            answer.status[rows[points["sparsity"][rows] < _LEAST_SPARSITY]] = (
                _TOO_SPARSE
            )
        answer.put(rows, solved.values)
    labels = {
        "overlaps": {"branch": BRANCHES},
        "rivals": {"algorithm": ("amp", "pca", "bayes")},
    }
    named = labels.get(what, {"time": settings["time"]} if what == "trajectory" else {})
    answer.coords = {name: np.array(values) for name, values in named.items()}
    if (
        what == "thresholds"
        and "lam_dyn" in answer.values
        and np.isnan(answer.values["lam_dyn"]).any()
    ):
        answer.warnings.append(
            "For unequal weights of three or more clusters only lam_alg is computed;"
            " the rest is NaN."
        )
    return answer


def _phase(uninformed: Floats, bayes: Floats) -> Array:
    """Name the phase of overlaps that AMP and the Bayes estimator reach."""
    return np.select(
        [bayes == 0, uninformed == 0, uninformed != bayes], PHASES[:3], PHASES[3]
    )


def _overlaps(batch: ClusterBatch) -> Solved:
    lam, (curves, index) = batch.points["snr"], batch.problems().different()
    problems = curves.at(index)
    turning = turning_points(curves).at(index)
    (low, low_left), (high, high_left) = branches(problems, turning, lam)
    phi = np.stack([problems.phi(a, lam) for a in (low, high)], axis=1)
    same = np.abs(high - low) <= _SAME * np.maximum(high, 1e-300)
    low = np.where(same, high, low)
    phi[:, 0] = np.where(same, phi[:, 1], phi[:, 0])
    best = np.where(phi[:, 1] >= phi[:, 0], 1, 0)
    a = np.stack([low, high, np.where(best == 1, high, low)], axis=1)
    values: dict[str, Array] = _observables(problems, lam, a)
    values["phi"] = np.concatenate(
        [phi, np.take_along_axis(phi, best[:, None], axis=1)], axis=1
    )
    values["ratio"] = lam / problems.threshold
    values["phase"] = _phase(a[:, 0], a[:, 2])
    residual = np.maximum(low_left, high_left)
    return Solved(
        values,
        residual,
        ~(residual <= _RESIDUAL),
        "no root of the state evolution was found",
    )


def _observables(problems: CurveProblems, lam: Floats, a: Floats) -> dict[str, Array]:
    """Return what is measured at fixed points a of shape (B, branches),
    subspace_clustering (7a)-(7c).
    """
    channel = problems.channel
    columns = a.shape[1]
    shape = a.shape
    wide = problems.at(np.repeat(np.arange(len(lam)), columns))
    lam = np.repeat(lam, columns)
    a = a.ravel()
    m_u = channel.overlap(a)
    m_v = np.where(a > 0, a / lam, 0.0)
    tpr, fpr = selection(*wide.observed(m_u, lam))
    values = {
        **_errors(channel, wide.rho, m_u, m_v),
        "accuracy": channel.accuracy(a),
        "tpr": tpr,
        "fpr": fpr,
    }
    return {name: value.reshape(shape) for name, value in values.items()}


def _errors(
    channel: AssignmentChannel, rho: Floats, m_u: Floats, m_v: Floats
) -> dict[str, Array]:
    mse_u = channel.variance * channel.rank * (1 - m_u)
    return {"m_u": m_u, "m_v": m_v, "mse_u": mse_u, "mse_v": rho * (1 - m_v)}


def _rivals(batch: ClusterBatch) -> Solved:
    """Answer for AMP and the Bayes estimator, and for PCA where clusters are equal and
    their mean says nothing.
    """
    solved = (_unequal_overlaps if batch.unequal else _overlaps)(batch)
    points = batch.points
    pca = np.full(batch.size, np.nan)
    k = batch.clusters
    if (
        not batch.scenario.weights and batch.scenario.mean == "centred"
    ):  # labels at SNR k q/(1-q), section 6
        q = spectral_overlap(points["snr"], points["samples_per_dim"], k)
        pca = batch.channel.accuracy(k * q / (1 - q))
    names = [name for name in ("accuracy", "accuracy_stderr") if name in solved.values]
    columns = {
        name: (solved.values[name][:, 0], pca, solved.values[name][:, 2])
        for name in names
    }
    return solved._replace(
        values={name: np.stack(column, axis=1) for name, column in columns.items()}
    )


def _trajectory(batch: ClusterBatch) -> Solved:
    lam = batch.points["snr"]
    problems = batch.problems()
    channel = batch.channel
    start = batch.settings["overlap"]
    m_u, m_v, accuracy = np.zeros((3, batch.size, len(batch.settings["time"])))
    m_u[:, 0], accuracy[:, 0] = start, channel.accuracy(channel.snr(start))
    for step in range(1, m_u.shape[1]):
        check_time()
        m_v[:, step], _, _ = problems.features(m_u[:, step - 1], lam)
        m_u[:, step] = channel.overlap(lam * m_v[:, step])
        accuracy[:, step] = channel.accuracy(lam * m_v[:, step])
    values = {**_errors(channel, problems.rho[:, None], m_u, m_v), "accuracy": accuracy}
    return Solved(
        values,
        0.0,
        np.any(~np.isfinite(m_u), axis=1),
        "its numbers leave the range of floating point",
    )


def _thresholds(batch: ClusterBatch) -> Solved:
    curves, index = batch.problems().different()
    values: dict[str, Array] = {
        name: column[index] for name, column in thresholds(curves).items()
    }
    residual = values.pop("residual")
    first_order = values.pop("first_order")
    values |= {
        f"ratio_{name}": values[f"lam_{name}"] / values["lam_alg"] for name in _JUMPS
    }
    values["transition"] = np.where(first_order, "first-order", "continuous")
    failed = ~(residual <= _RESIDUAL)
    return Solved(
        values, residual, failed, "the free entropies of the two branches do not cross"
    )


def _critical(batch: ClusterBatch) -> Solved:
    names = ("sparsity_c", "m_c", "ratio_c")
    missing = dict.fromkeys(names, np.full(batch.size, np.nan))
    if batch.unequal:
        return Solved(
            missing,
            np.nan,
            True,
            "not computed for three or more clusters of unequal sizes",
        )
    if batch.scenario.mean == "informative":
        return Solved(
            missing,
            0.0,
            True,
            "not computed where the mean is informative: ask for the thresholds",
        )
    unique, index = np.unique(batch.points["samples_per_dim"], return_inverse=True)
    ends = np.array(
        [critical_sparsity(batch.channel, float(alpha)) for alpha in unique]
    )[index.reshape(-1)]
    values = dict(zip(names, ends.T))
    reason = "no end: k >= 4 + 2 sqrt(alpha), first-order at every sparsity"
    return Solved(values, 0.0, np.isnan(values["m_c"]), reason)


def _replicates(names: tuple[str, ...], samples: Floats) -> dict[str, Array]:
    """Return means, and standard errors where there are several sets of nodes; samples
    (names, sets, ...).
    """
    values: dict[str, Array] = dict(zip(names, samples.mean(axis=1)))
    if (sets := samples.shape[1]) > 1:
        errors = samples.std(axis=1, ddof=1) / np.sqrt(sets)
        values |= {f"{name}_stderr": error for name, error in zip(names, errors)}
    return values


def _unequal_overlaps(batch: ClusterBatch) -> Solved:
    """Answer for three or more clusters of unequal sizes, point by point."""
    sets = unequal_clusters(tuple(batch.scenario.weights))
    names = ("m_u", "m_v", "mse_u", "mse_v", "accuracy", "tpr", "fpr", "phi")
    samples = np.empty((len(names), len(sets), batch.size, 2))
    change = np.zeros(batch.size)
    for number, nodes in enumerate(sets):
        for (index, row), informed in itertools.product(
            enumerate(batch.rows()), (0, 1)
        ):
            fixed = nodes.fixed_point(*row, bool(informed))
            samples[:, number, index, informed] = [fixed.values[name] for name in names]
            change[index] = max(change[index], fixed.change)
    mean = samples.mean(axis=1)
    same = np.abs(mean[0, :, 1] - mean[0, :, 0]) <= _SAME_SAMPLED * np.maximum(
        mean[0, :, 1], 1e-300
    )
    low = np.where(same, samples[..., 1], samples[..., 0])
    best = (mean[-1, :, 1] >= mean[-1, :, 0]) | same
    bayes = np.where(best, samples[..., 1], low)
    values = _replicates(names, np.stack([low, samples[..., 1], bayes], axis=-1))
    strength = largest_variance(batch.scenario.weights) * np.sqrt(
        batch.points["samples_per_dim"]
    )
    values["ratio"] = batch.points["snr"] * strength
    values["phase"] = _phase(values["m_u"][:, 0], values["m_u"][:, 2])
    return Solved(
        values, change, ~(change <= _SETTLED), "state evolution did not settle"
    )


def _unequal_trajectory(batch: ClusterBatch) -> Solved:
    sets = unequal_clusters(tuple(batch.scenario.weights))
    names = ("m_u", "m_v", "mse_u", "mse_v", "accuracy")
    samples = np.empty((len(names), len(sets), batch.size, len(batch.settings["time"])))
    for number, nodes in enumerate(sets):
        start, _, start_accuracy = nodes.assignments(
            nodes.start_snr(batch.settings["overlap"]) * np.eye(nodes.rank)
        )
        for index, row in enumerate(batch.rows()):
            M_u = start
            M_v = np.zeros_like(start)
            accuracy = start_accuracy
            for step in range(samples.shape[-1]):
                if step:
                    M_v, M_u, _, accuracy = nodes.step(M_u, *row)
                samples[:, number, index, step] = [
                    *nodes.overlaps(M_u, M_v, row[2]).values(),
                    accuracy,
                ]
    return Solved(_replicates(names, samples))


def _unequal_thresholds(batch: ClusterBatch) -> Solved:
    """Answer with the linear stability of zero overlap; the curve of fixed points has
    no single parameter here.
    """
    missing = [
        *(f"{kind}_{name}" for kind in ("lam", "ratio") for name in _JUMPS),
        "m_dyn",
        "m_jump",
        "m_algB",
    ]
    values: dict[str, Array] = dict.fromkeys(missing, np.full(batch.size, np.nan))
    values["lam_alg"] = 1 / (
        largest_variance(batch.scenario.weights)
        * np.sqrt(batch.points["samples_per_dim"])
    )
    values["transition"] = np.full(batch.size, "")
    return Solved(values)


_SOLVERS: dict[
    str, tuple[Callable[[ClusterBatch], Solved], Callable[[ClusterBatch], Solved]]
] = {
    "overlaps": (_overlaps, _unequal_overlaps),
    "rivals": (_rivals, _rivals),
    "trajectory": (_trajectory, _unequal_trajectory),
    "thresholds": (_thresholds, _unequal_thresholds),
    "critical": (_critical, _critical),
}
"""What answers a question for equal (or two) clusters, and for three or more clusters
of unequal sizes.
"""
