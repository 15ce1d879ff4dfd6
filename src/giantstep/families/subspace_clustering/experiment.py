"""The experiment: draw a mixture with sparse means, run AMP on it, compare with the truth."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from giantstep.errors import bad_field
from giantstep.families.subspace_clustering.amp import (
    BLOCKS,
    AMPRun,
    Sweep,
    amp,
    cluster_directions,
    cluster_weights,
    helmert,
    starting_point,
)
from giantstep.families.subspace_clustering.rivals import rival_labels
from giantstep.families.subspace_clustering.scenario import SubspaceClustering
from giantstep.lab import array_module, to_numpy
from giantstep.types import Array, Booleans, Floats, Indices, Points

_TURNS = 3
"""Random turns of the start that are tried for three or more clusters of unequal sizes."""


def trial(
    scenario: SubspaceClustering, points: Points, what: str, dim: int, draws: Any, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Run AMP once at every point; they share the noise, the features and the labels.

    Points differ in the strength of the signal and in the number of rows. A run that stops at `max_iterations` keeps
    its last values, with ``amp_converged`` 0; one that diverges is NaN.
    """
    if what in ("thresholds", "critical"):
        return {}
    samples = [_samples(alpha, dim) for alpha in points["samples_per_dim"]]
    truth = _draw(scenario, max(samples), dim, draws, settings["instance"])
    rows = []
    for snr, alpha, n in zip(points["snr"], points["samples_per_dim"], samples):
        generator = draws.generator(f"start {float(snr)!r} {float(alpha)!r}")
        rows.append(_ANSWERS[what](truth.observed(n, float(snr)), settings, generator))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def memory(scenario: SubspaceClustering, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes of the noise, of the data and of what AMP and its start keep per row and column."""
    if what in ("thresholds", "critical"):
        return 0
    k = scenario.clusters
    samples = [_samples(alpha, dim) for alpha in points["samples_per_dim"]]
    if min(samples) < k or dim < k:
        raise bad_field("dim", dim, f"large enough for {k} samples and {k} features, as many as clusters")
    if settings["instance"] == "balanced" and round(scenario.sparsity * dim) < _rank(scenario):
        raise bad_field(
            "dim", dim, f'large enough for {_rank(scenario)} active features (sparsity * dim), or instance="random"'
        )
    krylov = BLOCKS * (k + 1) * 3
    matrices = 3 if scenario.mean == "informative" else 2  # the spectral start needs a centred copy
    return 8 * (matrices * max(samples) * dim + (max(samples) + dim) * (6 * k + krylov))


def _samples(alpha: float, dim: int) -> int:
    return max(1, round(float(alpha) * dim))


def _rank(scenario: SubspaceClustering) -> int:
    return scenario.clusters if scenario.mean == "informative" else scenario.clusters - 1


@dataclass
class Truth:
    """Noise, features and labels of one trial, on its device; `X` is filled by `observed`."""

    scenario: SubspaceClustering
    noise: Any
    features: Any
    """(d, p) rows of V in the coordinates of the assignments, V^T V = rho d for a balanced instance."""
    labels: Indices
    active: Booleans
    snr: float = 0.0
    X: Any = None

    @property
    def prefactor(self) -> float:
        """The signal is prefactor U V^T."""
        return float(np.sqrt(self.snr / (self.scenario.sparsity * len(self.features))))

    def observed(self, n: int, snr: float) -> Truth:
        """Return the data of the first n rows at some snr."""
        s = self.scenario
        weights = cluster_weights(s.clusters, s.weights)
        labels = self.labels[:n]
        one = Truth(s, self.noise[:n], self.features, labels, self.active, snr)
        means = cluster_directions(s.clusters, weights, s.mean)
        xp_means = type(self).on_device(self.noise, means)
        signal = (one.prefactor * xp_means) @ self.features.T  # (k, d)
        one.X = signal[type(self).on_device(self.noise, labels)]
        one.X += one.noise
        return one

    @staticmethod
    def on_device(like: Any, array: Array) -> Any:
        """Return an array on the device of another."""
        return array_module(like).asarray(array)


def _draw(scenario: SubspaceClustering, n: int, dim: int, draws: Any, instance: str) -> Truth:
    """Draw noise, features and labels; rows come in an order in which every first part is balanced."""
    xp, k, r = draws.xp, scenario.clusters, _rank(scenario)
    weights = cluster_weights(k, scenario.weights)
    noise = xp.empty((n, dim))
    for start, stop, rows in draws.chunks("noise", n, dim):
        noise[start:stop] = rows
    normal = draws.normal("features", (dim, r))
    if instance == "random":
        active = draws.uniform("support", dim) < scenario.sparsity
        features = normal * active[:, None]
        places = to_numpy(draws.uniform("labels", n))
        labels = np.minimum(np.searchsorted(np.cumsum(weights), places, side="right"), k - 1)
        return Truth(scenario, noise, features, labels, to_numpy(active))
    count = round(scenario.sparsity * dim)
    features = xp.zeros((dim, r))
    features[:count] = xp.linalg.qr(normal[:count])[0] * (scenario.sparsity * dim) ** 0.5
    turns = [(np.arange(int(np.ceil(n * w)) + 1) + 0.5) / w for w in weights]
    owners = np.repeat(np.arange(k), [len(turn) for turn in turns])
    labels = owners[np.argsort(np.concatenate(turns), kind="stable")][:n]
    return Truth(scenario, noise, features, labels, np.arange(dim) < count)


def _run(truth: Truth, settings: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """Run AMP from the start asked for; with unequal weights from both signs of it, keeping the likelier result."""
    s, start = truth.scenario, settings["start"]
    model = _model(truth)
    first = starting_point(
        truth.X, start, truth=truth.labels, overlap=settings["overlap"], generator=generator, **model
    )
    limits = {"max_iterations": settings["max_iterations"], **model}
    run = amp(truth.X, start=first, **limits)
    if s.weights and np.ptp(s.weights) > 0 and start != "informed":
        run = _likeliest(truth, run, first, limits, generator)
    values = _measured(truth, run)
    values["phi"] = run.log_evidence / truth.X.shape[1]
    if run.outcome == "diverged":
        values = {name: np.nan for name in values}
    row: dict[str, Any] = {name: [value] for name, value in values.items()}
    return {**row, "amp_iterations": run.iterations, "amp_converged": float(run.converged)}


def _likeliest(truth: Truth, run: AMPRun, first: Any, limits: Mapping[str, Any], generator: Any) -> AMPRun:
    """Return the likeliest of several runs: clusters of unequal sizes have fixed points that take one for another.

    Two clusters are started with the other sign. More of them are started from the start turned at random, and with the
    clusters of the likeliest run given to the weights in another order.
    """

    def likelihood(one: AMPRun) -> float:
        return one.log_evidence if one.outcome != "diverged" else -np.inf

    if len(truth.scenario.weights) == 2:
        return max(run, amp(truth.X, start=-first, **limits), key=likelihood)
    p, linalg = first.shape[1], array_module(truth.X).linalg
    turns = (linalg.qr(generator.standard_normal((p, p), dtype=np.float64))[0] for _ in range(_TURNS))
    best = max([run, *(amp(truth.X, start=first @ turn, **limits) for turn in turns)], key=likelihood)
    orders = _orders(np.asarray(truth.scenario.weights), to_numpy(best.posteriors).sum(axis=0))
    starts = (best.posteriors[:, order] @ best.directions for order in orders)
    return max([best, *(amp(truth.X, start=one, **limits) for one in starts)], key=likelihood)


def _rivals(truth: Truth, settings: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """Return the accuracy of message passing from two starts and of its rivals, on the same data."""
    s, k = truth.scenario, truth.scenario.clusters
    host = to_numpy(truth.X)
    active = max(1, round(s.sparsity * host.shape[1]))
    accuracies = []
    for name in settings["algorithm"]:
        if name.startswith("amp"):
            start = "thresholding" if name == "amp-thresholding" else "spectral"
            accuracies.append(_run(truth, {**settings, "start": start, "overlap": 0.5}, generator)["accuracy"][0])
            continue
        labels = rival_labels(host, k, name, active=active)
        table = np.zeros((k, k))
        np.add.at(table, (labels, truth.labels), 1)
        accuracies.append(table[linear_sum_assignment(-table)].sum() / len(labels))
    return {"accuracy": accuracies}


def _orders(weights: Floats, sizes: Floats) -> list[Indices]:
    """Return orders in which found clusters may belong to the weights: all that differ for up to four, else by size.

    By size means the order of the sizes and its exchanges of two.
    """
    by_size = np.argsort(sizes)[np.argsort(np.argsort(weights))]
    if len(weights) <= 4:
        orders = [np.array(order) for order in itertools.permutations(range(len(weights)))]
    else:
        orders = [by_size]
        for pair in itertools.combinations(range(len(weights)), 2):
            order = by_size.copy()
            order[list(pair)] = order[list(pair[::-1])]
            orders.append(order)
    different = {tuple(tuple(sorted(order[weights == w])) for w in np.unique(weights)): order for order in orders}
    return list(different.values())


def _model(truth: Truth) -> dict[str, Any]:
    """Return what AMP is told of the model: all of its parameters, nothing of the truth."""
    s = truth.scenario
    weights = cluster_weights(s.clusters, s.weights)
    return {"clusters": s.clusters, "sparsity": s.sparsity, "snr": truth.snr, "mean": s.mean, "weights": weights}


def _trajectory(truth: Truth, settings: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """Run AMP from an informed start and measure after every sweep; a run that stands still keeps its values."""
    s, steps = truth.scenario, len(settings["time"]) - 1
    weights = cluster_weights(s.clusters, s.weights)
    history: list[dict[str, float]] = []
    model = _model(truth)
    first = starting_point(
        truth.X, "informed", truth=truth.labels, overlap=settings["overlap"], generator=generator, **model
    )

    def observe(sweep: Sweep | AMPRun) -> None:
        history.append(_measured(truth, sweep, relabel=False))

    d = truth.X.shape[1]
    xp_zeros = Truth.on_device(truth.noise, np.zeros((d, first.shape[1])))
    directions = Truth.on_device(truth.noise, cluster_directions(s.clusters, weights, s.mean))
    prior = Truth.on_device(truth.noise, np.full(d, s.sparsity))
    observe(Sweep(0, _probabilities(first, directions, weights), first, xp_zeros, prior, np.inf))
    amp(truth.X, start=first, max_iterations=steps, tolerance=1e-24, observe=observe, **model)
    history += [history[-1]] * (steps + 1 - len(history))
    names = ("m_u", "m_v", "mse_u", "mse_v", "accuracy")
    return {name: [one[name] for one in history] for name in names}


def _probabilities(U: Any, directions: Any, weights: Floats) -> Any:
    """Return the probabilities P with P @ directions = U (they sum to one)."""
    like = Truth.on_device(U, np.ones((len(weights), 1)))
    xp = array_module(U)
    system = xp.concatenate([directions, like], axis=1).T  # (p + 1, k)
    right = xp.concatenate([U, xp.ones((len(U), 1))], axis=1).T
    return (xp.linalg.pinv(system) @ right).T


def _measured(truth: Truth, run: Sweep | AMPRun, relabel: bool = True) -> dict[str, float]:
    """Return overlaps and errors against the truth, after the relabelling of the clusters that fits it best."""
    s = truth.scenario
    k, (n, d) = s.clusters, truth.X.shape
    weights = cluster_weights(k, s.weights)
    posteriors, support = to_numpy(run.posteriors), to_numpy(run.support)
    confusion = np.stack([posteriors[truth.labels == c].sum(axis=0) for c in range(k)])  # (true, found)
    order = np.arange(k)
    if relabel:  # among clusters of the same weight: others can be told apart
        order = linear_sum_assignment(-confusion + 2 * n * (np.abs(weights[:, None] - weights) > 1e-12))[1]
    posteriors = posteriors[:, order]
    Q = helmert(k)
    places = Q - weights @ Q
    variance = float(weights @ (places**2).sum(axis=1))
    guess, true = posteriors @ places, places[truth.labels]
    means, goal = to_numpy(run.features) / truth.prefactor, to_numpy(truth.features)
    if s.mean == "informative":
        means, goal = means[:, order] @ Q, goal @ Q
    else:
        means = (means @ Q.T)[:, order] @ Q
    scale = s.sparsity * d * (k - 1)
    chosen = support > 0.5
    active = truth.active
    return {
        "m_u": float((guess * true).sum() / (n * variance)),
        "m_v": float((means * goal).sum() / scale),
        "mse_u": float(((guess - true) ** 2).sum() / n),
        "mse_v": float(((means - goal) ** 2).sum() / (d * (k - 1))),
        "accuracy": float((posteriors.argmax(axis=1) == truth.labels).mean()),
        "tpr": float(chosen[active].mean()) if active.any() else np.nan,
        "fpr": float(chosen[~active].mean()) if not active.all() else 0.0,
    }


_ANSWERS: dict[str, Callable[[Truth, Mapping[str, Any], Any], dict[str, Any]]] = {
    "overlaps": _run,
    "rivals": _rivals,
    "trajectory": _trajectory,
}
