"""The experiment: gradient descent at finite dimension, with the data matrix in full or drawn as it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.families.batch_reuse.gaussian_matrix import GaussianMatrix
from giantstep.families.batch_reuse.network import forward, losses
from giantstep.families.batch_reuse.population import own_rule, population_loss
from giantstep.families.batch_reuse.recursion import DIVERGED
from giantstep.families.batch_reuse.scenario import BatchReuse
from giantstep.lab import threads_for, to_numpy
from giantstep.types import DeviceArray, Floats

RULE_NODES = 2**14
"""Points of the population loss, scrambled anew in every trial, so that their error is part of the spread."""


class Samples:
    """n samples: projections of x on vectors, and sums of x over samples."""

    def __init__(self, scenario: BatchReuse, n: int, dim: int, draws: Any, method: str) -> None:
        xp, k, p = draws.xp, scenario.target.directions, scenario.neurons
        fresh = scenario.data == "fresh"
        self.times: Callable[[DeviceArray], DeviceArray]
        self.transposed_times: Callable[[DeviceArray], DeviceArray]
        if method == "direct":
            X = draws.normal("inputs", (n, dim))
            self.times, self.transposed_times = (lambda v: v @ X.T), (lambda f: f @ X)
        else:
            steps = 1 if fresh else scenario.steps
            matrix = GaussianMatrix(
                n, dim, lambda shape: draws.normal("products", shape), xp, k + p * (steps + 1), p * steps
            )
            self.times, self.transposed_times = matrix.times, matrix.transposed_times
        teacher = xp.zeros((k, dim))
        teacher[xp.arange(k), xp.arange(k)] = 1.0  # the direction of the target is no loss of generality
        labels = scenario.target(self.times(teacher).T)
        self.labels = labels + scenario.noise**0.5 * draws.normal("noise", n) if scenario.noise else labels
        if scenario.data == "cycle":
            self.groups = xp.arange(n) % scenario.batches  # samples are exchangeable


def trial(
    scenario: BatchReuse,
    points: Mapping[str, Floats],
    what: str,
    dim: int,
    draws: Any,
    settings: Mapping[str, Any],
) -> dict[str, Floats]:
    """Train one network and record order parameters and losses before every step and after the last."""
    thin = settings["method"] == "matrix-free"  # products with few vectors: a second thread only waits
    with threads_for(0 if thin else np.inf, draws.device):
        run = _train(scenario, dim, draws, settings["method"], keep=what == "kernels")
        found = run.kernels() if what == "kernels" else run.observed(draws)
        return {name: value[None] for name, value in found.items()}


@dataclass
class Run:
    """What one trial recorded at every time: order parameters, second layer, training loss; weights where kept."""

    scenario: BatchReuse
    dim: int
    M: Floats
    Q: Floats
    a: Floats
    train: Floats
    weights: list[DeviceArray]
    gradients: list[DeviceArray]

    def kernels(self) -> dict[str, Floats]:
        """Return C and Cl, NaN for times after the run diverged."""
        T, p, k = self.scenario.steps, self.scenario.neurons, self.scenario.target.directions
        C, Cl = np.full((T + 1, T + 1, p, p), np.nan), np.full((T, T, p, p), np.nan)
        for t, later in enumerate(self.weights):
            for s, earlier in enumerate(self.weights):
                C[t, s] = to_numpy(later[:, k:] @ earlier[:, k:].T) / self.dim
        fresh = self.scenario.data == "fresh"  # other samples: no covariance
        for t, later in enumerate(self.gradients):
            for s, earlier in enumerate(self.gradients):
                Cl[t, s] = 0.0 if fresh and s != t else to_numpy(later @ earlier.T) / self.dim
        return {"C": C, "Cl": Cl}

    def observed(self, draws: Any) -> dict[str, Floats]:
        """Return the variables of a trajectory."""
        return _observed(self.scenario, self.M, self.Q, self.a, self.train, draws)


def _train(scenario: BatchReuse, dim: int, draws: Any, method: str, keep: bool) -> Run:
    """Train one network; `keep` all weights and gradients."""
    xp, T, p, k = draws.xp, scenario.steps, scenario.neurons, scenario.target.directions
    n = max(1, round(scenario.samples_per_dim * dim))
    overlap, gram = scenario.start
    W = _start(overlap, gram, dim, draws)
    V = xp.zeros_like(W)
    a, rates = xp.asarray(scenario.second_layer), scenario.rates()
    M, Q = np.full((T + 1, p, k), np.nan), np.full((T + 1, p, p), np.nan)
    train, second = np.full(T + 1, np.nan), np.full((T + 1, p), np.nan)
    run = Run(scenario, dim, M, Q, second, train, [], [])
    samples = Samples(scenario, n, dim, draws, method)
    for t in range(T + 1):
        now_M, now_Q = to_numpy(W[:, :k]) / dim**0.5, to_numpy(W @ W.T) / dim
        if not np.isfinite(now_Q).all() or now_Q.diagonal().max() >= DIVERGED:
            break
        M[t], Q[t], second[t] = now_M, now_Q, to_numpy(a)
        if keep:
            run.weights.append(W)
        if scenario.data == "fresh" and t:
            samples = Samples(scenario, n, dim, draws, method)
        h = samples.times(W / dim**0.5)
        if t == T:
            train[t] = float(losses(scenario.activation, scenario.loss, a, h, samples.labels).mean())
            break
        W, V, a, train[t], gradient = _step(scenario, samples, W, V, a, h, t, float(rates[t]), draws)
        if keep:
            run.gradients.append(gradient)
    return run


def _start(overlap: Floats, gram: Floats, dim: int, draws: Any) -> DeviceArray:
    """Return first-layer weights (p, d) whose order parameters are exactly those given."""
    xp, (p, k) = draws.xp, overlap.shape
    if dim < p + k:
        raise np.linalg.LinAlgError(f"dim={dim} is too small for {p} neurons and {k} target directions")
    rows = draws.normal("weights", (p, dim))
    rows[:, :k] = 0.0
    rows = xp.linalg.qr(rows.T)[0].T
    values, vectors = np.linalg.eigh(gram - overlap @ overlap.T)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    W = xp.asarray(root) @ rows * dim**0.5
    W[:, :k] = xp.asarray(overlap) * dim**0.5
    return W


def _step(
    scenario: BatchReuse,
    samples: Samples,
    W: DeviceArray,
    V: DeviceArray,
    a: DeviceArray,
    h: DeviceArray,
    t: int,
    rate: float,
    draws: Any,
) -> tuple[DeviceArray, DeviceArray, DeviceArray, float, DeviceArray]:
    """Return weights, velocity and second layer after step t, the training loss before it, and the gradients F."""
    xp, dim = draws.xp, W.shape[1]
    now = forward(scenario.activation, scenario.loss, a, h, samples.labels)
    gradient, mask = now.gradient, _mask(scenario, samples, t, draws)
    if mask is not None:
        gradient = gradient * mask
    pull = samples.transposed_times(gradient) / dim**0.5
    V = scenario.momentum * V + pull + scenario.decay * W
    W = W - rate * V
    if scenario.constraint == "spherical":
        W = W * (dim / (W**2).sum(axis=1))[:, None] ** 0.5
    if scenario.second_layer_rate:
        slopes = now.second_layer_gradient
        mean = slopes.mean(axis=1) if mask is None else (slopes @ mask) / xp.maximum(mask.sum(), 1.0)
        a = a - scenario.second_layer_rate * mean
    return W, V, a, float(now.loss.mean()), gradient


def _mask(scenario: BatchReuse, samples: Samples, t: int, draws: Any) -> DeviceArray | None:
    if scenario.batches == 1:
        return None
    if scenario.data == "cycle":
        return (samples.groups == t % scenario.batches).astype(np.float64)
    return (draws.uniform("masks", len(samples.labels)) * scenario.batches < 1).astype(np.float64)


def _observed(scenario: BatchReuse, M: Floats, Q: Floats, a: Floats, train: Floats, draws: Any) -> dict[str, Floats]:
    seed = int(np.random.SeedSequence([draws.seed & 0xFFFFFFFF, draws.seed >> 32, draws.trial, 7]).generate_state(1)[0])
    rule = own_rule(scenario.target, RULE_NODES, seed)
    population = np.array(
        [
            population_loss(scenario.activation, scenario.loss, rule, scenario.noise, a[t], M[t], Q[t])
            for t in range(len(M))
        ]
    )
    lengths = np.sqrt(np.diagonal(Q, axis1=1, axis2=2))
    return {
        "M": M,
        "Q": Q,
        "cosine": M / lengths[:, :, None],
        "train_loss": train,
        "population_loss": population,
        "generalisation": population - train,
        "a": a,
    }


def memory(scenario: BatchReuse, points: Mapping[str, Floats], what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes of the data, or of the products asked for, and of what is at work."""
    p, k, T = scenario.neurons, scenario.target.directions, scenario.steps
    n = max(1.0, scenario.samples_per_dim * dim)
    work = 8 * (6 * p * (n + dim) + 4 * n) + (8 * p * (T + 1) * (n + dim) if what == "kernels" else 0)
    if settings["method"] == "direct":
        return int(8 * n * dim + work)
    steps = 1 if scenario.data == "fresh" else T
    return int(8 * (n + dim) * (k + p * (2 * steps + 1)) + work)
