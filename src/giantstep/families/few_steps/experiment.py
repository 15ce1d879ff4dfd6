"""The experiment of a few giant steps: a real network, real steps, and a ridge fit after every one of them.

Inputs and rows are whitened (`whitened`): isotropic inputs have the target on the first r axes. All steps belong to one
trajectory; the samples of the fit and of the test are the same after every step, so that what a step buys is measured
with little noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.few_steps.limit import count_outliers
from giantstep.families.few_steps.population import hermite_tensor, population_gradient
from giantstep.families.few_steps.row_draws import RowDraws
from giantstep.families.few_steps.scenario import FewSteps
from giantstep.families.few_steps.whitened import Whitened
from giantstep.lab import Draws, chunk_rows, ridge_path, to_numpy
from giantstep.lab.algebra import multiply
from giantstep.lab.feature_spectra import cell_edges, gram_eigenvalues, resolvent_traces, summarise_spectrum
from giantstep.lab.network import (
    Network,
    batch_gradient,
    draw_rows,
    gram_memory,
    ridge_memory,
    split_neurons,
    stream_memory,
)
from giantstep.readout import OUTLIER_ROOM
from giantstep.types import Array, DeviceArray, Floats, Integers, Points


@dataclass(frozen=True)
class _Trained:
    """The network after some steps, and what is asked of it at a group of points."""

    network: Network
    blocks: list[slice]
    samples: Integers
    ridges: Floats
    inputs: Whitened
    outliers: Integers
    settings: Mapping[str, Any]
    draws: Draws

    def training(self) -> Iterator[tuple[DeviceArray, DeviceArray]]:
        """Yield the features and labels of the fit."""
        return self.network.labelled("train", int(self.samples.max()), self.draws)

    def fit(self) -> tuple[DeviceArray, Floats]:
        """Fit b = a/sqrt(p), penalty ridge*p, at every point; return the fits (p, B) and the training errors."""
        p = self.network.width
        return ridge_path(self.training(), p, self.samples, self.ridges * p, self.draws.xp)


def trial(
    scenario: FewSteps, points: Points, what: str, dim: int, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Answer all points of a group, which share everything but samples_per_dim and ridge, by one network."""
    if dim <= scenario.target.directions:
        raise bad_field("dim", dim, f"above {scenario.target.directions}, the number of target directions")
    width = _width(points, dim)
    blocks = split_neurons(scenario.second_layer.probabilities, width)
    times = settings["time"]
    outliers = np.zeros((len(points["ridge"]), len(times)), dtype=np.int64)
    if what == "spectrum":
        outliers = count_outliers(scenario, points, dim, int(times[0]))
    path = []
    inputs = Whitened.of_scenario(scenario, float(points["precondition"][0]), dim)
    if inputs.rows is not None:
        draws = _row_draws(inputs.rows, points, dim, draws)
        settings = {**settings, "test_samples": min(int(settings.get("test_samples", 1)), draws.left)}
    trajectory = _trajectory(scenario, points, inputs, dim, blocks, draws)
    for time, network in enumerate(itertools.islice(trajectory, int(times[0]), None)):
        again = draws.anew()  # the same samples after every step
        trained = _Trained(
            network,
            blocks,
            _samples(points, dim),
            points["ridge"],
            inputs,
            outliers[:, time],
            settings,
            again,
        )
        path.append(_MEASURES[what](trained))
    return {name: np.stack([answer[name] for answer in path], axis=1) for name in path[0]}


def _row_draws(rows: Floats, points: Points, dim: int, draws: Draws) -> RowDraws:
    """Return draws of the rows of a table: a batch for every step, the samples of the fit, and the rest."""
    steps, batch = int(points["steps"][0]), float(points["batch_per_dim"][0]) * dim
    if steps and np.isinf(batch):
        raise bad_field("batch_per_dim", batch, "finite where inputs are rows of a table")
    sizes = {f"batch{number}": round(batch) for number in range(steps)}
    return RowDraws(draws, rows, {**sizes, "train": int(_samples(points, dim).max())})


def memory(scenario: FewSteps, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes that a trial needs."""
    width, samples = _width(points, dim), _samples(points, dim)
    table = 0 if scenario.inputs is None else getattr(getattr(scenario.inputs, "rows", None), "size", 0)
    chunk = chunk_rows(settings.get("device", "cpu"))
    numbers = 2 * table + 4 * width * dim + stream_memory(width, dim, samples, chunk)
    if np.isfinite(points["batch_per_dim"][0]):
        numbers += 2 * chunk * width
    if what in ("errors", "along"):
        numbers += ridge_memory(width, samples, points["ridge"], chunk)
    elif what != "steps":
        numbers += 2 * gram_memory(width, samples)
    return 8 * numbers


def _width(points: Points, dim: int) -> int:
    return max(1, round(float(points["width_per_dim"][0]) * dim))


def _samples(points: Points, dim: int) -> Integers:
    return np.maximum(1, np.rint(points["samples_per_dim"] * dim)).astype(np.int64)


def _trajectory(
    scenario: FewSteps, points: Points, inputs: Whitened, dim: int, blocks: list[slice], draws: Draws
) -> Iterator[Network]:
    """Yield the network before the first step and after every one."""
    xp, r = draws.xp, scenario.target.directions
    zeta = xp.asarray(np.repeat(scenario.second_layer.values, [block.stop - block.start for block in blocks]))
    weights = draw_rows(len(zeta), dim, draws, sphere=scenario.rows == "sphere")
    if scenario.has_shifts:
        for q, block in enumerate(blocks):
            weights[block] *= (scenario.planted.bulk or (1.0,) * len(blocks))[q]
            weights[block, :r] += xp.asarray(np.asarray(scenario.planted.shifts)[q])
    noise, batch = float(points["noise"][0]), float(points["batch_per_dim"][0]) * dim
    if inputs.root is not None:
        weights *= xp.asarray(inputs.root)
    network = Network(scenario.activation, weights, lambda rows: inputs.signal(rows, xp), scenario.target, noise)
    yield network
    rates = scenario.rates(points, 0)
    square = scenario.loss_of_steps == "square"
    tensor = hermite_tensor(scenario.target) if np.isinf(batch) and len(rates) else None
    for number, rate in enumerate(rates):
        if tensor is not None:
            gradient = population_gradient(scenario.activation, (tensor, inputs), network.weights, zeta, square, xp)
        else:
            output = zeta if square else 0.0 * zeta
            gradient, _ = batch_gradient(network, output, round(batch), draws, stream=f"batch{number}")
        gradient *= float(rate) * zeta[:, None]
        if inputs.pull is not None:
            gradient *= xp.asarray(inputs.pull)
        network = replace(network, weights=network.weights + gradient)
        yield network


def _errors(trained: _Trained) -> dict[str, Array]:
    xp, p, network = trained.draws.xp, trained.network.width, trained.network
    fitted, train = trained.fit()
    rows = int(trained.settings["test_samples"])
    squares = xp.zeros(len(train))
    for features, signal, _ in network.samples("test", rows, trained.draws):
        outputs = multiply(features, fitted, xp)
        outputs -= network.target(signal)[:, None]
        squares += xp.sum(xp.square(outputs, out=outputs), axis=0)
    Q2 = np.stack([to_numpy(xp.sum(fitted[block] ** 2, axis=0)) for block in trained.blocks], axis=-1)
    norm = Q2.sum(axis=-1)
    return {
        "test_error": to_numpy(squares) / rows + network.noise,
        "train_error": train,
        "objective": train + trained.ridges * p * norm / trained.samples,
        "norm": norm,
        "Q2": Q2,
        "theta": np.stack([to_numpy(xp.sum(fitted[block], axis=0)) for block in trained.blocks], axis=-1),
    }


def _steps(trained: _Trained) -> dict[str, Array]:
    """Measure where the classes are: means over their neurons, and d times the covariance inside them."""
    inputs, weights = trained.inputs, to_numpy(trained.network.weights)
    d = weights.shape[1]
    rows = [weights[block] for block in trained.blocks]
    overlaps = [inputs.signal(part, np) for part in rows]
    U = np.stack([part.mean(axis=0) for part in overlaps])
    moved = np.stack([inputs.along(part, np).mean(axis=0) for part in rows])
    across = [np.linalg.norm(np.delete(part, inputs.axes, axis=1), axis=1) for part in rows]
    norm = np.array([np.mean(np.sum(part**2, axis=1)) for part in rows])
    r = U.shape[1]
    values = {
        "U": U,
        "s": np.sqrt(norm - np.sum(moved**2, axis=1)),
        "cosine": U / np.sqrt(norm)[:, None],
        "row_norm": norm,
        "spread": d * np.stack([np.cov(part, rowvar=False).reshape(r, r) for part in overlaps]),
        "spread_s": d * np.array([part.var(ddof=1) for part in across]),
    }
    count = len(trained.ridges)
    return {name: np.repeat(value[None], count, axis=0) for name, value in values.items()}


def _along(trained: _Trained) -> dict[str, Array]:
    """Sort fresh samples by the leading direction of the class means into cells around the positions of kappa."""
    xp, network, kappa = trained.draws.xp, trained.network, np.asarray(trained.settings["kappa"], dtype=float)
    direction = _leading_direction(trained)
    fitted, train = trained.fit()
    cells = cell_edges(kappa)
    counts, squares, means = (
        np.zeros(len(kappa)),
        np.zeros((len(train), len(kappa))),
        np.zeros((len(train), len(kappa))),
    )
    for features, signal, rows in network.samples("test", int(trained.settings["test_samples"]), trained.draws):
        outputs, labels = to_numpy(multiply(features, fitted, xp)), to_numpy(network.target(signal))
        cell = np.searchsorted(cells, to_numpy(trained.inputs.along(rows, xp)) @ direction) - 1
        inside = np.flatnonzero((cell >= 0) & (cell < len(kappa)))
        counts += np.bincount(cell[inside], minlength=len(kappa))
        for point, output in enumerate(outputs.T):
            squares[point] += np.bincount(cell[inside], (labels - output)[inside] ** 2, len(kappa))
            means[point] += np.bincount(cell[inside], output[inside], len(kappa))
    with np.errstate(invalid="ignore"):  # an empty cell is not measured
        return {"error_along": squares / counts + network.noise, "mean_along": means / counts}


def _leading_direction(trained: _Trained) -> Floats:
    """Return the unit vector (R,) along which the classes have moved most, its largest entry positive."""
    sizes = [block.stop - block.start for block in trained.blocks]
    rows = to_numpy(trained.inputs.along(trained.network.weights, trained.draws.xp))
    U = np.stack([np.sqrt(size) * rows[block].mean(axis=0) for size, block in zip(sizes, trained.blocks)])
    leading: Floats = np.linalg.svd(U)[2][0]
    return leading * np.sign(leading[np.argmax(np.abs(leading))])


def _spectrum(trained: _Trained) -> dict[str, Array]:
    p, x = trained.network.width, np.asarray(trained.settings["x"], dtype=float)
    spectra = gram_eigenvalues(trained.training(), p, trained.samples, trained.draws.xp)
    rows = [
        summarise_spectrum(spectra[int(size)] / p, p, int(above), x, OUTLIER_ROOM)
        for size, above in zip(trained.samples, trained.outliers)
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0] if name != "mean_eigenvalue"}


def _resolvent(trained: _Trained) -> dict[str, Array]:
    z = np.asarray(trained.settings["z"], dtype=complex)
    rows = trained.network.weights[:, :1]  # V1 is not asked for
    _, V2 = resolvent_traces(trained.training(), trained.blocks, rows, trained.samples, z, trained.draws.xp)
    m = V2.sum(axis=-1)
    return {"m_real": m.real, "m_imag": m.imag}


_MEASURES = {
    "errors": _errors,
    "steps": _steps,
    "along": _along,
    "spectrum": _spectrum,
    "resolvent": _resolvent,
}
