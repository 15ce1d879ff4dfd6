"""The experiment: draw a mixture with sparse means, run AMP on it, compare with the
truth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy.optimize import linear_sum_assignment

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import (
    Array,
    Booleans,
    DeviceArray,
    Floats,
    Indices,
    Points,
)
from giantstep.core.lab import array_module, to_numpy
from giantstep.core.lab.algebra import KRYLOV_BLOCKS
from giantstep.problems.subspace_clustering.amp import (
    AMPEstimate,
    AMPRun,
    amp,
    starting_point,
)
from giantstep.problems.subspace_clustering.mixture import (
    ClusterMixture,
    cluster_directions,
)
from giantstep.problems.subspace_clustering.rivals import rival_labels
from giantstep.problems.subspace_clustering.scenario import SubspaceClustering

_ROTATIONS = 3
"""Random rotations of the start that are tried for three or more clusters of unequal
sizes.
"""


def trial(
    scenario: SubspaceClustering,
    points: Points,
    what: str,
    dim: int,
    draws: Any,
    settings: Mapping[str, Any],
) -> dict[str, Array]:
    """Run AMP once at every point; they share noise, features and labels, and differ in
    signal and rows.
    """
    if what in ("thresholds", "critical"):
        return {}
    samples = [max(1, round(float(alpha) * dim)) for alpha in points["samples_per_dim"]]
    noise, features, labels, active = _draw(
        scenario, max(samples), dim, draws, settings["instance"]
    )
    rows = []
    for snr, alpha, n in zip(points["snr"], points["samples_per_dim"], samples):
        mixture = ClusterMixture(
            scenario.clusters,
            scenario.sparsity,
            float(snr),
            scenario.weights,
            scenario.mean,
        )
        prefactor = float(np.sqrt(snr / (scenario.sparsity * dim)))
        X = ((prefactor * draws.xp.asarray(mixture.directions)) @ features.T)[
            draws.xp.asarray(labels[:n])
        ]
        X += noise[:n]
        generator = draws.generator(f"start {float(snr)!r} {float(alpha)!r}")
        data = Data(X, mixture, prefactor, to_numpy(features), labels[:n], active)
        rows.append(_ANSWERS[what](data, settings, generator))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def memory(
    scenario: SubspaceClustering,
    points: Points,
    what: str,
    dim: int,
    settings: Mapping[str, Any],
) -> int:
    """Return the bytes of the noise, of the data and of what AMP and its start keep per
    row and column.
    """
    if what in ("thresholds", "critical"):
        return 0
    k = scenario.clusters
    rank = _rank(scenario)
    samples = [max(1, round(float(alpha) * dim)) for alpha in points["samples_per_dim"]]
    if min(samples) < k or dim < k:
        raise bad_field(
            "dim",
            dim,
            f"large enough for {k} samples and {k} features, as many as clusters",
        )
    if settings["instance"] == "balanced" and round(scenario.sparsity * dim) < rank:
        raise bad_field(
            "dim",
            dim,
            f"large enough for {rank} active features (sparsity * dim), or"
            ' instance="random"',
        )
    krylov = KRYLOV_BLOCKS * (k + 1) * 3
    # the spectral start needs a centred copy
    matrices = 3 if scenario.mean == "informative" else 2
    return 8 * (matrices * max(samples) * dim + (max(samples) + dim) * (6 * k + krylov))


def _rank(scenario: SubspaceClustering) -> int:
    if scenario.mean == "informative":
        return scenario.clusters
    return scenario.clusters - 1


@dataclass
class Data:
    """Data with their truth: X = prefactor U V^T + Z; AMP is told the mixture, nothing
    of the truth.
    """

    X: DeviceArray
    mixture: ClusterMixture
    prefactor: float
    features: Floats
    labels: Indices
    active: Booleans


def _draw(
    scenario: SubspaceClustering, n: int, dim: int, draws: Any, instance: str
) -> tuple[DeviceArray, DeviceArray, Indices, Booleans]:
    """Draw noise (n, d), features (d, p) in the coordinates of the assignments, labels
    (n,), active features (d,).

    Of a balanced instance V^T V = rho d, and every first part of the rows is balanced.
    """
    xp = draws.xp
    k = scenario.clusters
    r = _rank(scenario)
    weights = ClusterMixture(k, 1.0, 1.0, scenario.weights).weights
    noise = xp.empty((n, dim))
    for start, stop, rows in draws.chunks("noise", n, dim):
        noise[start:stop] = rows
    normal = draws.normal("features", (dim, r))
    if instance == "random":
        active = draws.uniform("support", dim) < scenario.sparsity
        uniform = to_numpy(draws.uniform("labels", n))
        labels = np.minimum(
            np.searchsorted(np.cumsum(weights), uniform, side="right"), k - 1
        )
        return noise, normal * active[:, None], labels, to_numpy(active)
    count = round(scenario.sparsity * dim)
    features = xp.zeros((dim, r))
    features[:count] = (
        xp.linalg.qr(normal[:count])[0] * (scenario.sparsity * dim) ** 0.5
    )
    turns = [(np.arange(int(np.ceil(n * w)) + 1) + 0.5) / w for w in weights]
    owners = np.repeat(np.arange(k), [len(turn) for turn in turns])
    labels = owners[np.argsort(np.concatenate(turns), kind="stable")][:n]
    return noise, features, labels, np.arange(dim) < count


def _overlaps(
    data: Data, settings: Mapping[str, Any], generator: Any
) -> dict[str, Any]:
    """Run AMP from the start asked for; with unequal weights from both signs of it,
    keeping the likelier result.
    """
    known = {"truth": data.labels, "overlap": settings["overlap"]}
    first = starting_point(data.X, data.mixture, settings["start"], generator, **known)
    sweeps = settings["max_iterations"]
    run = amp(data.X, data.mixture, first, max_iterations=sweeps)
    if np.ptp(data.mixture.weights) > 0 and settings["start"] != "informed":
        run = _likeliest(data, run, first, sweeps, generator)
    values = {**_measure(data, run), "phi": run.log_evidence / data.X.shape[1]}
    if run.outcome == "diverged":
        values = dict.fromkeys(values, np.nan)
    row: dict[str, Any] = {name: [value] for name, value in values.items()}
    return {
        **row,
        "amp_iterations": run.iterations,
        "amp_converged": float(run.converged),
    }


def _likeliest(
    data: Data, run: AMPRun, first: DeviceArray, sweeps: int, generator: Any
) -> AMPRun:
    """Return the likeliest of several runs: clusters of unequal sizes have fixed points
    that take one for another.

    Two are started with the other sign, more from turned starts, and with the found
    clusters in another order.
    """

    def likelihood(run: AMPRun) -> float:
        return run.log_evidence if run.outcome != "diverged" else -np.inf

    def run_from(start: DeviceArray) -> AMPRun:
        return amp(data.X, data.mixture, start, max_iterations=sweeps)

    if data.mixture.clusters == 2:
        return max(run, run_from(-first), key=likelihood)
    p = first.shape[1]
    xp = array_module(data.X)
    rotations = (
        xp.linalg.qr(generator.standard_normal((p, p)))[0] for _ in range(_ROTATIONS)
    )
    best = max(
        [run, *(run_from(first @ rotation) for rotation in rotations)], key=likelihood
    )
    orders = _orders(
        np.asarray(data.mixture.weights), to_numpy(best.posteriors).sum(axis=0)
    )
    starts = (
        best.posteriors[:, order] @ xp.asarray(data.mixture.directions)
        for order in orders
    )
    return max([best, *map(run_from, starts)], key=likelihood)


def _rivals(data: Data, settings: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """Return the accuracy of message passing from two starts and of its rivals, on the
    same data.
    """
    k = data.mixture.clusters
    host = to_numpy(data.X)
    active = max(1, round(data.mixture.sparsity * host.shape[1]))
    accuracies = []
    for name in settings["algorithm"]:
        if name.startswith("amp"):
            start = "thresholding" if name == "amp-thresholding" else "spectral"
            accuracies.append(
                _overlaps(
                    data, {**settings, "start": start, "overlap": 0.5}, generator
                )["accuracy"][0]
            )
            continue
        labels = rival_labels(host, k, name, active=active)
        table = np.zeros((k, k))
        np.add.at(table, (labels, data.labels), 1)
        accuracies.append(table[linear_sum_assignment(-table)].sum() / len(labels))
    return {"accuracy": accuracies}


def _orders(weights: Floats, sizes: Floats) -> list[Indices]:
    """Return orders in which found clusters may belong to the weights: all for up to
    four, else near that of sizes.
    """
    by_size = np.argsort(sizes)[np.argsort(np.argsort(weights))]
    if len(weights) <= 4:
        orders = [
            np.array(order) for order in itertools.permutations(range(len(weights)))
        ]
    else:
        orders = [by_size]
        for pair in itertools.combinations(range(len(weights)), 2):
            order = by_size.copy()
            order[list(pair)] = order[list(pair[::-1])]
            orders.append(order)
    different = {
        tuple(tuple(sorted(order[weights == w])) for w in np.unique(weights)): order
        for order in orders
    }
    return list(different.values())


def _trajectory(
    data: Data, settings: Mapping[str, Any], generator: Any
) -> dict[str, Any]:
    """Run AMP from an informed start and measure after every sweep; a run that stands
    still keeps its values.
    """
    steps = len(settings["time"]) - 1
    xp = array_module(data.X)
    d = data.X.shape[1]
    history: list[dict[str, float]] = []
    first = starting_point(
        data.X,
        data.mixture,
        "informed",
        generator,
        truth=data.labels,
        overlap=settings["overlap"],
    )

    def observe(estimate: AMPEstimate) -> None:
        history.append(_measure(data, estimate, relabel=False))

    # posteriors P with P @ directions = U, which sum to one
    directions = xp.asarray(data.mixture.directions)
    system = xp.concatenate([directions, xp.ones((len(directions), 1))], axis=1)
    posteriors = xp.concatenate(
        [first, xp.ones((len(first), 1))], axis=1
    ) @ xp.linalg.pinv(system)
    observe(
        AMPEstimate(
            posteriors,
            first,
            xp.zeros((d, first.shape[1])),
            xp.full(d, data.mixture.sparsity),
        )
    )
    amp(
        data.X,
        data.mixture,
        first,
        max_iterations=steps,
        tolerance=1e-24,
        observe=observe,
    )
    history += [history[-1]] * (steps + 1 - len(history))
    return {
        name: [row[name] for row in history]
        for name in ("m_u", "m_v", "mse_u", "mse_v", "accuracy")
    }


def _measure(
    data: Data, estimate: AMPEstimate, relabel: bool = True
) -> dict[str, float]:
    """Return overlaps and errors against the truth, after the relabelling of the
    clusters that fits it best.
    """
    k, (n, d), weights = (
        data.mixture.clusters,
        data.X.shape,
        np.asarray(data.mixture.weights),
    )
    posteriors = to_numpy(estimate.posteriors)
    selected = to_numpy(estimate.support) > 0.5
    # (true, found)
    confusion = np.stack([posteriors[data.labels == c].sum(axis=0) for c in range(k)])
    order = np.arange(k)
    if relabel:  # among clusters of the same weight: others can be told apart
        order = linear_sum_assignment(
            -confusion + 2 * n * (np.abs(weights[:, None] - weights) > 1e-12)
        )[1]
    posteriors = posteriors[:, order]
    Q = scipy.linalg.helmert(k).T
    directions = cluster_directions(weights)
    variance = float(weights @ (directions**2).sum(axis=1))
    u_hat = posteriors @ directions
    u = directions[data.labels]
    v_hat = to_numpy(estimate.features) / data.prefactor
    v = data.features
    if data.mixture.mean == "informative":
        v_hat = v_hat[:, order] @ Q
        v = v @ Q
    else:
        v_hat = (v_hat @ Q.T)[:, order] @ Q
    return {
        "m_u": float((u_hat * u).sum() / (n * variance)),
        "m_v": float((v_hat * v).sum() / (data.mixture.sparsity * d * (k - 1))),
        "mse_u": float(((u_hat - u) ** 2).sum() / n),
        "mse_v": float(((v_hat - v) ** 2).sum() / (d * (k - 1))),
        "accuracy": float((posteriors.argmax(axis=1) == data.labels).mean()),
        "tpr": float(selected[data.active].mean()) if data.active.any() else np.nan,
        "fpr": float(selected[~data.active].mean()) if not data.active.all() else 0.0,
    }


_ANSWERS: dict[str, Callable[[Data, Mapping[str, Any], Any], dict[str, Any]]] = {
    "overlaps": _overlaps,
    "rivals": _rivals,
    "trajectory": _trajectory,
}
