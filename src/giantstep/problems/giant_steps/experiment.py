"""The experiment: real gradient steps on fresh batches, streamed, then a ridge fit of
the second layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import InputError
from giantstep.core.base.types import DeviceArray, Floats, Indices, Points
from giantstep.core.lab import chunk_rows, ridge_path, to_numpy
from giantstep.problems.giant_steps.limit import spread_of, statistics
from giantstep.problems.giant_steps.scenario import GiantSteps
from giantstep.problems.giant_steps.tolerances import DIVERGED

TEST_SAMPLES = 4000
FIT_TEST_SAMPLES = 20_000
"""Fresh samples of a test after every step, and of the one after a fit: errors of 2%
and 1% of the variance.
"""
_MOST_SAMPLES = 2**31
"""Samples of a batch at most: more would not end."""
Parts = Callable[[DeviceArray], DeviceArray]
"""Hermite parts of the labels of order 0, 1, 2 as estimated, at samples X."""


@dataclass(frozen=True)
class _Trial:
    """One draw: the network, its data and the sizes."""

    scenario: GiantSteps
    directions: int
    dim: int
    width: int
    noise: float
    batch: int
    second_layer: DeviceArray
    block: Indices
    draws: Any
    xp: Any

    def start(self) -> DeviceArray:
        """Return random weights of unit norm."""
        return self.draws.normal("weights", (self.width, self.dim)) / math.sqrt(
            self.dim
        )

    def samples(
        self, stream: str, count: int
    ) -> Iterator[tuple[DeviceArray, DeviceArray]]:
        """Yield (X, y) chunk by chunk; the target directions are the first k axes."""
        for _, _, X in self.draws.chunks(stream, count, self.dim):
            y = self.scenario.target(X[:, : self.directions])
            if self.noise:
                y = y + math.sqrt(self.noise) * self.draws.normal(
                    f"noise of {stream}", len(X)
                )
            yield X, y

    def again(self) -> _Trial:
        """Return the same trial with its streams at their beginning."""
        return replace(self, draws=self.draws.anew())


def trial(
    scenario: GiantSteps,
    points: Points,
    what: str,
    dim: int,
    draws: Any,
    settings: Mapping[str, Any],
) -> dict[str, Floats]:
    """Run one trial at one point (no field is shared)."""
    point = {name: float(values[0]) for name, values in points.items()}
    k = scenario.target.directions
    width = scenario.neurons(point["width"])
    if dim <= k:
        raise InputError(
            f"The experiment needs dim above {k}, the number of target directions, but"
            f" is dim={dim}."
        )
    if math.isinf(point["batch_per_dim"]):
        raise InputError(
            "The experiment needs a finite `batch_per_dim`, but is batch_per_dim=inf."
        )
    size = point["batch_per_dim"] * dim ** point["batch_exponent"]
    if size > _MOST_SAMPLES:
        raise InputError(
            f"A batch of {size:.2g} samples is too large; take a smaller dim or batch."
        )
    _, counts = scenario.fractions(point["width"])
    block = np.repeat(np.arange(len(counts)), counts.astype(int))
    batch = max(1, round(size))
    second_layer = draws.xp.asarray(np.array(scenario.values)[block])
    run = _Trial(
        scenario,
        k,
        dim,
        width,
        point["noise"],
        batch,
        second_layer,
        block,
        draws,
        draws.xp,
    )
    if what == "specialisation":
        values = _orientation(
            run, round(point["batch_exponent"]), settings["labels"] == "cleaned"
        )
    elif what == "fit":
        values = _one_step_fit(run, point["rate"], float(settings["fit_ridge"]))
    else:
        values = _steps(run, point, what, settings)
    return {
        name: np.asarray(value, dtype=float)[None] for name, value in values.items()
    }


def memory(
    scenario: GiantSteps,
    points: Points,
    what: str,
    dim: int,
    settings: Mapping[str, Any],
) -> int:
    """Return the bytes of the weights, a chunk of samples with its features, and the
    sums of the fits.
    """
    width = max(scenario.neurons(float(width)) for width in points["width"])
    chunk = chunk_rows(str(settings.get("device", "cpu")))
    parts = 0
    square = 2 * width * width
    if what == "specialisation":
        if settings["labels"] == "cleaned":
            highest = int(points["batch_exponent"].max())
        else:
            highest = 0
        parts = sum(math.comb(dim + order - 1, order) for order in range(highest))
        square = 2 * parts * parts
    return 8 * (3 * width * dim + chunk * (dim + 4 * width + 2 * parts) + square)


def _steps(
    run: _Trial, point: Mapping[str, float], what: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    W = run.start()
    steps = int(point["steps"])
    if settings.get("fit_per_dim"):
        fit_size = max(1, round(settings["fit_per_dim"] * run.dim))
    else:
        fit_size = run.batch
    rows: list[dict[str, Any]] = []

    def residual(X: DeviceArray, y: DeviceArray, fields: DeviceArray) -> DeviceArray:
        return y - run.scenario.activation(fields) @ run.second_layer / run.width

    for time in range(steps + 1):
        check_time()
        if what == "errors":
            fit = (f"fit {time}", fit_size)
            test = (f"test {time}", TEST_SAMPLES)
            rows.append(
                {
                    "test_error": _ridge_error(
                        run, W, fit, test, float(settings["ridge"]), lambda X: 0.0
                    )
                }
            )
            if time == steps:
                break
        G = _gradient_sum(run, W, f"batch {time}", residual) / run.batch
        if what == "steps":
            rows.append(_block_averages(run, W, G))
        elif what == "neurons":
            rows.append(
                {name: to_numpy(value) for name, value in _cosines(run, W, G).items()}
            )
        W = W + point["rate"] * run.second_layer[:, None] * G
        if not float(run.xp.max(run.xp.abs(W))) < math.sqrt(DIVERGED):
            W = run.xp.full_like(W, math.nan)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _gradient_sum(
    run: _Trial,
    W: DeviceArray,
    stream: str,
    residual: Callable[[DeviceArray, DeviceArray, DeviceArray], DeviceArray],
) -> DeviceArray:
    """Return sum r s'(w_i.x) x over a batch for every neuron, chunk by chunk; r is
    `residual` (X, y, X W^T).
    """
    G = run.xp.zeros_like(W)
    for X, y in run.samples(stream, run.batch):
        fields = X @ W.T
        G += (
            run.scenario.activation.derivative(fields) * residual(X, y, fields)[:, None]
        ).T @ X
    return G


def _block_averages(run: _Trial, W: DeviceArray, G: DeviceArray) -> dict[str, Any]:
    """Return averages over the neurons of every block, and over pairs of different ones
    of every two blocks.
    """
    member = np.equal.outer(np.arange(len(run.scenario.values)), run.block).astype(
        float
    )
    counts = member.sum(axis=1)
    overlap = to_numpy(W @ W.T)
    pairs = np.outer(counts, counts) - np.diag(counts)
    R = (member @ overlap @ member.T - np.diag(member @ np.diag(overlap))) / np.where(
        pairs > 0, pairs, np.inf
    )
    columns = {
        **_cosines(run, W, G),
        "norm": run.xp.sum(W * W, axis=1),
        "M": W[:, : run.directions],
    }
    # no product with `member`: a neuron without a gradient is NaN in its own block only
    means = {
        name: np.array(
            [
                to_numpy(column)[run.block == block].mean(axis=0)
                for block in range(len(counts))
            ]
        )
        for name, column in columns.items()
    }
    return {**means, "R": R}


def _cosines(run: _Trial, W: DeviceArray, G: DeviceArray) -> dict[str, DeviceArray]:
    """Return cosines of every neuron's weights and of its next step with the target
    directions.
    """
    k = run.directions
    norm = run.xp.linalg.norm
    steps = run.xp.sign(run.second_layer)[:, None] * G
    return {
        "cosine": W[:, :k] / norm(W, axis=1)[:, None],
        "gradient_cosine": steps[:, :k] / norm(G, axis=1)[:, None],
    }


def _ridge_error(
    run: _Trial,
    W: DeviceArray,
    fit: tuple[str, int],
    test: tuple[str, int],
    penalty: float,
    parts: Parts,
) -> float:
    """Return the error of a ridge fit on labels without the parts given; its samples
    and fresh ones: stream, size.
    """

    def rows(stream: str, count: int) -> Iterator[tuple[DeviceArray, DeviceArray]]:
        for X, y in run.samples(stream, count):
            yield run.scenario.activation(X @ W.T) / math.sqrt(run.width), y - parts(X)

    fitted, _ = ridge_path(
        rows(*fit), run.width, np.array([fit[1]]), np.array([penalty]), run.xp
    )
    return (
        sum(
            float(run.xp.sum((y - hidden @ fitted[:, 0]) ** 2))
            for hidden, y in rows(*test)
        )
        / test[1]
    )


def _orientation(run: _Trial, order: int, cleaned: bool) -> dict[str, Any]:
    """Return cosines of the gradients of y s'(w_i.x) x at random weights; lower Hermite
    parts fitted on the batch.
    """
    xp = run.xp
    k = run.directions
    if cleaned:
        parts = _fit_parts(run, order - 1, "batch 0")
    else:
        parts = lambda X: 0.0  # noqa: E731
    spike = xp.zeros(run.dim)

    def residual(X: DeviceArray, y: DeviceArray, fields: DeviceArray) -> DeviceArray:
        nonlocal spike
        y = y - parts(X)
        spike += y @ X
        return y

    G = _gradient_sum(run, run.start(), "batch 0", residual)
    unit = G[:, :k] / xp.linalg.norm(G, axis=1)[:, None]
    matrix = to_numpy(unit.T @ unit) / run.width
    C1 = statistics(run.scenario.target, run.scenario.activation, 1).tensors[1]
    length = float(np.linalg.norm(C1))
    shown = length >= 1e-9 and (order == 1 or not cleaned)
    return {
        "alignment": float(np.trace(matrix)),
        "alignment_by_direction": np.diag(matrix),
        "specialised": spread_of(matrix),
        "spike": (
            float(to_numpy(spike[:k]) @ C1) / length / float(xp.linalg.norm(spike))
            if shown
            else 0.0
        ),
    }


def _one_step_fit(run: _Trial, rate: float, penalty: float) -> dict[str, Any]:
    """Make a step on cleaned labels from output zero, then fit fresh samples cleaned
    with estimates of their own.
    """
    W = run.start()
    parts = _averages(run, "batch 0")
    G = _gradient_sum(run, W, "batch 0", lambda X, y, fields: y - parts(X))
    stepped = W + rate * run.second_layer[:, None] * G / run.batch
    samples = (
        ("fit", run.batch),
        ("test", FIT_TEST_SAMPLES),
        penalty,
        _averages(run, "fit"),
    )
    networks = {"initial_error": W, "test_error": stepped}.items()
    # both see the same
    return {
        name: _ridge_error(run.again(), weights, *samples) for name, weights in networks
    }


def _averages(run: _Trial, stream: str) -> Parts:
    """Return the constant and the linear part of the labels as averages of a stream: it
    may be short.
    """
    constant, vector = 0.0, run.xp.zeros(run.dim)
    for X, y in run.again().samples(stream, run.batch):
        constant = constant + float(y.sum())
        vector = vector + y @ X
    return lambda X: (constant + X @ vector) / run.batch


def _fit_parts(run: _Trial, highest: int, stream: str) -> Parts:
    """Fit the parts of the labels up to an order on the samples of a stream by least
    squares; return their sum at X.
    """
    xp, (one, other) = run.xp, run.xp.triu_indices(run.dim)
    gram = 0.0
    moment = 0.0

    def parts(X: DeviceArray) -> DeviceArray:
        products = [
            xp.ones((len(X), 1)),
            X,
            *([X[:, one] * X[:, other]] if highest >= 2 else []),
        ]
        return xp.concatenate(products[: highest + 1], axis=1)

    for X, y in run.again().samples(stream, run.batch):
        rows = parts(X)
        gram = gram + rows.T @ rows
        moment = moment + rows.T @ y
    fitted = xp.linalg.lstsq(gram, moment, rcond=None)[0]
    return lambda X: parts(X) @ fitted
