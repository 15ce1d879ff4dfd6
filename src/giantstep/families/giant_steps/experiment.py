"""The experiment: real gradient steps on fresh batches, streamed, then a ridge fit of the second layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from giantstep.errors import InputError
from giantstep.families.giant_steps.scenario import DIVERGED, GiantSteps
from giantstep.lab import ridge_path, to_numpy
from giantstep.types import Floats, Indices, Points

TEST_SAMPLES, FIT_TEST_SAMPLES = 4000, 20_000
_MOST_SAMPLES = 2**31


@dataclass(frozen=True)
class _Trial:
    """One draw: the network, its data and the sizes."""

    scenario: GiantSteps
    dim: int
    width: int
    noise: float
    batch: int
    second_layer: Any
    block: Indices
    draws: Any

    @property
    def xp(self) -> Any:
        return self.draws.xp

    def labels(self, X: Any, stream: str) -> Any:
        """Return the labels of samples X; the target directions are the first k axes."""
        clean = self.scenario.target(X[:, : self.scenario.target.directions])
        if self.noise == 0:
            return clean
        return clean + math.sqrt(self.noise) * self.draws.normal(f"noise of {stream}", len(X))

    def samples(self, stream: str, count: int) -> Iterator[tuple[Any, Any]]:
        """Yield (X, y) chunk by chunk."""
        for _, _, X in self.draws.chunks(stream, count, self.dim):
            yield X, self.labels(X, stream)


def trial(
    scenario: GiantSteps, points: Points, what: str, dim: int, draws: Any, settings: Mapping[str, Any]
) -> dict[str, Floats]:
    """Run one trial at one point (no field is shared)."""
    point = {name: float(values[0]) for name, values in points.items()}
    run = _prepared(scenario, point, dim, draws)
    if what == "specialisation":
        values = _orientation(run, round(point["batch_exponent"]), settings["labels"] == "cleaned")
    elif what == "fit":
        values = _one_step_fit(run, point["rate"], float(settings["fit_ridge"]))
    else:
        values = _steps(run, point, what, settings)
    return {name: np.asarray(value, dtype=float)[None] for name, value in values.items()}


def memory(scenario: GiantSteps, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes of the weights, a chunk of samples with its features, and the sums of the fit."""
    width = max(scenario.neurons(float(width)) for width in points["width"])
    chunk = 8192 if str(settings.get("device", "cpu")) != "cpu" else 1024
    square = dim * dim if what == "specialisation" else 2 * width * width
    return 8 * (3 * width * dim + chunk * (dim + 4 * width) + square)


def _prepared(scenario: GiantSteps, point: Mapping[str, float], dim: int, draws: Any) -> _Trial:
    k, width = scenario.target.directions, scenario.neurons(point["width"])
    if dim <= k:
        raise InputError(f"The experiment needs dim above {k}, the number of target directions, but is dim={dim}.")
    if math.isinf(point["batch_per_dim"]):
        raise InputError("The experiment needs a finite `batch_per_dim`, but is batch_per_dim=inf.")
    size = point["batch_per_dim"] * dim ** point["batch_exponent"]
    if size > _MOST_SAMPLES:
        raise InputError(f"A batch of {size:.2g} samples is too large; take a smaller dim or batch.")
    _, counts = scenario.fractions(point["width"])
    block = np.repeat(np.arange(len(counts)), counts.astype(int))
    second_layer = draws.xp.asarray(np.array(scenario.values)[block])
    return _Trial(scenario, dim, width, point["noise"], max(1, round(size)), second_layer, block, draws)


def _steps(run: _Trial, point: Mapping[str, float], what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    W = run.draws.normal("weights", (run.width, run.dim)) / math.sqrt(run.dim)
    rows: list[dict[str, Any]] = []
    for time in range(int(point["steps"]) + 1):
        last = time == int(point["steps"])
        if what == "errors":
            rows.append({"test_error": _fitted_error(run, W, time, settings)})
        if last and what == "errors":
            break
        G = _gradient(run, W, f"batch {time}")
        if what == "steps":
            rows.append(_observed(run, W, G))
        elif what == "neurons":
            both = _cosines(run, W, G)
            rows.append({name: to_numpy(value) for name, value in zip(("cosine", "gradient_cosine"), both)})
        W = _followed(run, W + point["rate"] * run.second_layer[:, None] * G)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _followed(run: _Trial, W: Any) -> Any:
    """Return the weights, NaN once they have diverged."""
    bounded = float(run.xp.max(run.xp.abs(W))) < math.sqrt(DIVERGED)
    return W if bounded else run.xp.full_like(W, math.nan)


def _gradient(run: _Trial, W: Any, stream: str) -> Any:
    """(1/n) sum (y - f) s'(w_i.x) x for every neuron, chunk by chunk."""
    G = run.xp.zeros_like(W)
    for X, y in run.samples(stream, run.batch):
        fields = X @ W.T
        residual = y - run.scenario.activation(fields) @ run.second_layer / run.width
        G += (run.scenario.activation.derivative(fields) * residual[:, None]).T @ X
    return G / run.batch


def _observed(run: _Trial, W: Any, G: Any) -> dict[str, Any]:
    """Averages over the neurons of every block."""
    cosine, step_cosine = _cosines(run, W, G)
    overlap = to_numpy(W @ W.T)
    blocks = len(run.scenario.values)
    R = np.zeros((blocks, blocks))
    for t in range(blocks):
        for s in range(blocks):
            pairs = overlap[np.ix_(run.block == t, run.block == s)]
            if t != s:
                R[t, s] = pairs.mean()
            elif len(pairs) > 1:
                R[t, s] = (pairs.sum() - np.trace(pairs)) / (len(pairs) * (len(pairs) - 1))
    return {
        "cosine": _by_block(run, cosine),
        "norm": _by_block(run, run.xp.sum(W * W, axis=1)),
        "M": _by_block(run, W[:, : run.scenario.target.directions]),
        "R": R,
        "gradient_cosine": _by_block(run, step_cosine),
    }


def _cosines(run: _Trial, W: Any, G: Any) -> tuple[Any, Any]:
    """Cosines of every neuron's weights and of its next step with the target directions."""
    k, norm = run.scenario.target.directions, run.xp.linalg.norm
    steps = run.xp.sign(run.second_layer)[:, None] * G
    return W[:, :k] / norm(W, axis=1)[:, None], steps[:, :k] / norm(G, axis=1)[:, None]


def _by_block(run: _Trial, values: Any) -> Floats:
    host = to_numpy(values)
    return np.array([host[run.block == t].mean(axis=0) for t in range(len(run.scenario.values))])


def _fitted_error(run: _Trial, W: Any, time: int, settings: Mapping[str, Any]) -> float:
    """Error on fresh samples after a ridge fit of the second layer on fresh samples."""
    size = max(1, round(settings["fit_per_dim"] * run.dim)) if settings["fit_per_dim"] else run.batch
    scale = 1 / math.sqrt(run.width)

    def features() -> Iterator[tuple[Any, Any]]:
        for X, y in run.samples(f"fit {time}", size):
            yield run.scenario.activation(X @ W.T) * scale, y

    fitted, _ = ridge_path(features(), run.width, np.array([size]), np.array([float(settings["ridge"])]), run.xp)
    total = 0.0
    for X, y in run.samples(f"test {time}", TEST_SAMPLES):
        total += float(run.xp.sum((y - run.scenario.activation(X @ W.T) @ fitted[:, 0] * scale) ** 2))
    return total / TEST_SAMPLES


def _orientation(run: _Trial, order: int, cleaned: bool) -> dict[str, Any]:
    """Cosines of the gradients of y s'(w_i.x) x at random weights; lower Hermite parts fitted on the same batch."""
    xp, k = run.xp, run.scenario.target.directions
    clean = _fitted_parts(run, order - 1) if cleaned else None
    W = run.draws.normal("weights", (run.width, run.dim)) / math.sqrt(run.dim)
    G, spike = xp.zeros_like(W), xp.zeros(run.dim)
    for X, y in run.samples("batch 0", run.batch):
        if clean is not None:
            y = y - clean.values(X)
        G += (run.scenario.activation.derivative(X @ W.T) * y[:, None]).T @ X
        spike += y @ X
    unit = G[:, :k] / xp.linalg.norm(G, axis=1)[:, None]
    matrix = to_numpy(unit.T @ unit) / run.width
    trace, size = float(np.trace(matrix)), float(np.sum(matrix**2))
    return {
        "alignment": trace,
        "alignment_by_direction": np.diag(matrix),
        "specialised": trace**2 / size if size > 0 else 0.0,
        "spike": _spike_cosine(run, spike) if order == 1 or not cleaned else 0.0,
    }


def _spike_cosine(run: _Trial, spike: Any) -> float:
    from giantstep.families.giant_steps.specialisation import statistics

    C1 = statistics(run.scenario.target, run.scenario.activation, 1).vector()
    length = float(np.linalg.norm(C1))
    if length < 1e-9:
        return 0.0
    return float(to_numpy(spike[: len(C1)]) @ C1) / length / float(run.xp.linalg.norm(spike))


def _one_step_fit(run: _Trial, rate: float, penalty: float) -> dict[str, Any]:
    """One step on cleaned labels from output zero, then ridge on fresh samples cleaned with estimates of their own."""
    W = run.draws.normal("weights", (run.width, run.dim)) / math.sqrt(run.dim)
    clean, G = _fitted_parts(run, 1), run.xp.zeros_like(W)
    for X, y in run.samples("batch 0", run.batch):
        G += (run.scenario.activation.derivative(X @ W.T) * (y - clean.values(X))[:, None]).T @ X
    stepped = W + rate * run.second_layer[:, None] * G / run.batch
    parts = _fitted_parts(run, 1, "fit")
    errors = (_ridge_error(run, weights, parts, penalty) for weights in (W, stepped))
    return dict(zip(("initial_error", "test_error"), errors))


def _ridge_error(run: _Trial, W: Any, parts: _Parts, penalty: float) -> float:
    """Error of a ridge fit on the samples of the stream `fit`; every network sees the same ones."""
    again, scale = _fresh(run), 1 / math.sqrt(run.width)

    def features() -> Iterator[tuple[Any, Any]]:
        for X, y in again.samples("fit", run.batch):
            yield run.scenario.activation(X @ W.T) * scale, y - parts.values(X)

    fitted, _ = ridge_path(features(), run.width, np.array([run.batch]), np.array([penalty]), run.xp)
    total = 0.0
    for X, y in again.samples("test", FIT_TEST_SAMPLES):
        total += float(run.xp.sum((y - parts.values(X) - run.scenario.activation(X @ W.T) @ fitted[:, 0] * scale) ** 2))
    return total / FIT_TEST_SAMPLES


def _fresh(run: _Trial) -> _Trial:
    """Return the same trial with its streams at their beginning."""
    draws = type(run.draws)(run.draws.seed, run.draws.key, run.draws.trial, run.draws.device)
    return replace(run, draws=draws)


@dataclass(frozen=True)
class _Parts:
    """Hermite parts of the labels of order 0, 1, 2 as estimated: constant, vector, matrix."""

    constant: float
    vector: Any
    matrix: Any

    def values(self, X: Any) -> Any:
        total = self.constant
        if self.vector is not None:
            total = total + X @ self.vector
        if self.matrix is not None:
            total = total + 0.5 * (((X @ self.matrix) * X).sum(axis=1) - self.matrix.diagonal().sum())
        return total


def _fitted_parts(run: _Trial, highest: int, stream: str = "batch 0") -> _Parts:
    """Estimate the Hermite parts up to an order on the samples of a stream."""
    xp = run.xp
    constant, vector, matrix = 0.0, xp.zeros(run.dim), xp.zeros((run.dim, run.dim)) if highest >= 2 else None
    for X, y in _fresh(run).samples(stream, run.batch):
        constant += float(y.sum())
        vector += y @ X
        if matrix is not None:
            matrix += (X * y[:, None]).T @ X
    constant /= run.batch
    if matrix is not None:
        matrix = matrix / run.batch - constant * xp.eye(run.dim)
    return _Parts(constant, vector / run.batch if highest >= 1 else None, matrix)
