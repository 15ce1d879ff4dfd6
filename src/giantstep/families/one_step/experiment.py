"""The one-step network at finite size: real data, a real gradient step, ridge fits along a learning curve.

One trial draws the first layer, takes the step, and passes once over the training data; all sample sizes and
ridges are answered on the way. Sections 1, 5.2 and 8 of the notes on spiked features.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step.feature_spikes import checked_degrees
from giantstep.families.one_step.same_sample import check_question
from giantstep.families.one_step.scenario import (
    GrowingStep,
    MaximalStep,
    NoStep,
    OneStep,
    PlantedSpike,
    SmallStep,
    Vocabulary,
)
from giantstep.families.one_step.spectrum import outlier_counts
from giantstep.families.one_step.spike_experiment import feature_spikes, weights_spike
from giantstep.families.one_step.steps import second_layer_law, step_size
from giantstep.gaussian import Function
from giantstep.gaussian.quadrature import expectation
from giantstep.lab import Draws, Rows, accumulate, chunk_rows, ridge_path, to_numpy
from giantstep.lab.algebra import eigenvalues, eigenvectors, multiply
from giantstep.readout import LOSSES, OUTLIER_ROOM
from giantstep.risk.fitting import fit
from giantstep.types import Array, Booleans, DeviceArray, Floats, Integers, Points

TEST_SAMPLES = 10_000
_ZERO = 1e-11
_ROW_BLOCK = 128
_SERIES_LIMIT = 100
_COLUMNS = 1024


def trial(
    scenario: OneStep, points: Points, what: str, dim: int, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Run one trial: one draw of weights and data for all points.

    Parameters
    ----------
    scenario : the network; its numbers are taken from `points`.
    points : (B,) arrays by dotted field; they differ in ``samples_per_dim`` and ``ridge`` only.
    what : ``"errors"``, ``"spectrum"``, ``"resolvent"``, ``"weights"`` or ``"spikes"``.
    dim : dimension d of the inputs.
    draws : random arrays by named stream, on the device that computes.
    settings : ``test_samples`` (errors); ``x``, ``normalisation`` (spectrum); ``z`` (resolvent);
        ``degree`` (spikes).

    Returns
    -------
    Variable name -> (B, ...) array.
    """
    if scenario.fit_sample == "same":
        check_question(what)
    sizes = _sizes(points, dim)
    network = _network(scenario, points, sizes, draws)
    if what == "errors" and scenario.loss != "square":
        return _classification(scenario.loss, network, points, sizes, draws, settings)
    if what == "errors":
        return _errors(network, points, sizes, draws, settings)
    if what == "along":
        return _along(network, points, sizes, draws, settings)
    if what == "spectrum":
        above = outlier_counts(scenario, {**points, "dim": np.full(len(sizes.samples), float(dim))}, settings)
        return _spectrum(network, above, sizes, draws, settings)
    if what == "weights":
        return weights_spike(network.weights, network.second_layer, draws, len(sizes.samples))
    if what == "spikes":
        degrees, learnt = checked_degrees(settings.get("degree")), network.directions[:, 0]
        return feature_spikes(network.activation, network.weights, learnt, sizes.samples, degrees, draws)
    return _resolvent(network, points, sizes, draws, settings)


def memory(scenario: OneStep, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes one trial needs at its peak."""
    sizes = _sizes(points, dim)
    p, d, count = sizes.width, dim, len(sizes.samples)
    chunk = chunk_rows(settings.get("device", "cpu"))
    most = int(sizes.samples.max())
    few = int(sizes.samples[sizes.samples <= p].max(initial=0))
    weights = p * d * (1 if isinstance(scenario.step, NoStep) else 2 if isinstance(scenario.step, PlantedSpike) else 3)
    building = weights + p * d
    if isinstance(scenario.step, SmallStep | GrowingStep | MaximalStep):
        infinite = math.isinf(_number(points, "step.batch_per_dim"))
        building += 5 * _ROW_BLOCK * p if infinite else chunk * (2 * p + d) + 4 * _ROW_BLOCK * p
    streaming = chunk * d + (min(chunk, most) + 2 * _ROW_BLOCK) * p
    if what == "weights":
        return 8 * max(building, weights + 3 * min(p, d) ** 2)
    if what in ("resolvent", "spikes"):
        fitting = p * p + max(3 * p * p, 2 * p * p + (scenario.blocks + 1) * d * min(chunk, p))
    else:
        fitting = max(few * (p + 2 * few), p * (p + max(few, p)) if most > p else 0)
    if what == "errors":
        together = int(np.unique(points["ridge"], return_counts=True)[1].max())
        fitting = p * count + max(fitting + 3 * few * together, chunk * p + 3 * chunk * count)
    if what == "errors" and scenario.loss != "square":  # all features at once, Newton's weighted copy, its matrices
        fitting = 2 * most * p + 2 * p * p
    if settings.get("device", "cpu") != "cpu":
        fitting += 6 * min(p, most) ** 2 + 3 * chunk * p
    return 8 * max(building, weights + streaming + fitting)


@dataclass(frozen=True)
class _Sizes:
    dim: int
    width: int
    samples: Integers


@dataclass(frozen=True)
class _Network:
    """The network after its step: weights (p, d); <w*,x> = aim[0] x_1 + aim[1] x_2.

    `bulk` holds the rows of the bulk: w0_i, or w_i - u_q v after a step on a finite batch. `directions` are the
    spike v and v_perp as columns (d, 2), `second_layer` the values zeta_i at the start.
    """

    activation: Function
    target: Function
    noise: float
    bulk: DeviceArray
    weights: DeviceArray
    blocks: list[slice]
    aim: tuple[float, float]
    directions: DeviceArray
    same_sample: bool = False
    second_layer: DeviceArray = None
    flip: float = 0.0


def _number(points: Points, name: str) -> float:
    return float(points[name][0])


def _sizes(points: Points, dim: int) -> _Sizes:
    if dim < 2:
        raise bad_field("dim", dim, "at least 2")
    samples = np.maximum(np.rint(points["samples_per_dim"] * dim), 1).astype(np.int64)
    return _Sizes(dim, max(1, round(_number(points, "width_per_dim") * dim)), samples)


def _network(scenario: OneStep, points: Points, sizes: _Sizes, draws: Draws) -> _Network:
    xp, p, d = draws.xp, sizes.width, sizes.dim
    initial = draws.normal("weights", (p, d))
    initial /= xp.linalg.norm(initial, axis=1)[:, None] if scenario.rows == "sphere" else math.sqrt(d)
    law = scenario.second_layer
    if isinstance(law, Vocabulary):
        edges = np.rint(np.cumsum((0.0, *law.probabilities)) * p).astype(int)
        blocks = [slice(int(start), int(stop)) for start, stop in zip(edges, edges[1:])]
        zeta = xp.asarray(np.repeat(law.values, np.diff(edges)))
    else:
        blocks = [slice(0, p)]
        zeta = draws.normal("second_layer", p)
    step, aim = scenario.step, (1.0, 0.0)
    noise = _number(points, "noise")
    weights, bulk, directions = initial, initial, xp.eye(d, 2)
    if isinstance(step, PlantedSpike):
        gamma = _number(points, "step.alignment")
        aim = (gamma, math.sqrt(max(1 - gamma * gamma, 0.0)))
        strength = _by_neuron("step.strength", step.strength, points, blocks, draws)
        weights = initial * _by_neuron("step.bulk", step.bulk, points, blocks, draws)[:, None]
        weights[:, 0] += strength * zeta if isinstance(step.strength, float) else strength
    elif isinstance(step, SmallStep | GrowingStep):
        weights, spike = _small_step(scenario, step, points, sizes, initial, zeta, draws)
        bulk = weights - spike[0][:, None] * spike[1]
        directions = _directions(spike[1], xp)
    elif isinstance(step, MaximalStep):
        batch = _number(points, "step.batch_per_dim")
        sizes_of_step = _number(points, "step.rate") * zeta[:, None]
        if math.isinf(batch):
            kept = 1 - 2 * _number(points, "flip")
            weights = population_gradient(scenario.activation, scenario.target, initial, zeta, xp, kept)
            weights *= sizes_of_step
            weights += initial
        else:
            rows = max(1, round(batch * d))
            weights, spike = batch_gradient(scenario.activation, scenario.target, noise, initial, zeta, rows, draws)
            weights *= sizes_of_step
            weights += initial
            bulk = weights - sizes_of_step * (float(scenario.activation.hermite(1)[1]) * spike)
            directions = _directions(spike, xp)
    same = scenario.fit_sample == "same"
    flip = _number(points, "flip")
    return _Network(
        scenario.activation, scenario.target, noise, bulk, weights, blocks, aim, directions, same, zeta, flip
    )


def _small_step(
    scenario: OneStep,
    step: SmallStep | GrowingStep,
    points: Points,
    sizes: _Sizes,
    initial: DeviceArray,
    zeta: DeviceArray,
    draws: Draws,
) -> tuple[DeviceArray, tuple[DeviceArray, DeviceArray]]:
    """Take a small or growing step; return the weights and the spike as (size per neuron, X0^T r/n0)."""
    xp, activation, target = draws.xp, scenario.activation, scenario.target
    dim = np.array([float(sizes.dim)])
    eta = step_size(scenario, {**{name: values[:1] for name, values in points.items()}, "dim": dim})[0]
    size = zeta * (eta / math.sqrt(sizes.width))
    batch = _number(points, "step.batch_per_dim")
    zeta_law, pi = second_layer_law(scenario)
    fed_back = _number(points, "step.initial_output") == 1
    output = zeta * math.sqrt(sizes.width) if fed_back else 0 * zeta  # what `batch_gradient` divides by p
    offset = 0.0 if fed_back else float(activation.hermite(0)[0] * np.sum(pi * zeta_law))
    c1 = float(activation.hermite(1)[1])
    if math.isinf(batch):
        gradient = population_gradient(activation, target, initial, output, xp)
        gradient -= offset * math.sqrt(2) * float(activation.hermite(2)[2]) * initial
        beta = -c1 * (output @ initial) / sizes.width
        beta[0] += float(target.hermite(1)[1])
    else:
        rows = max(1, round(batch * sizes.dim))
        noise = _number(points, "noise")
        gradient, beta = batch_gradient(activation, target, noise, initial, output, rows, draws, offset)
    if step.update == "rank-one":
        gradient = xp.broadcast_to(c1 * beta, initial.shape)
    return initial + size[:, None] * gradient, (c1 * size, beta)


def _directions(spike: DeviceArray, xp: Any) -> DeviceArray:
    """Return v along the spike and v_perp, the part of w* = e_1 across it, as orthonormal columns."""
    v = spike / xp.linalg.norm(spike)
    across = -v[0] * v
    across[0] += 1.0
    return xp.stack([v, across / xp.linalg.norm(across)], axis=1)


def _by_neuron(
    name: str, value: float | tuple[float, ...], points: Points, blocks: list[slice], draws: Draws
) -> DeviceArray:
    values = np.broadcast_to(_number(points, name) if isinstance(value, float) else value, len(blocks))
    return draws.xp.asarray(np.repeat(values, [block.stop - block.start for block in blocks]))


def batch_gradient(
    activation: Function,
    target: Function,
    noise: float,
    weights: DeviceArray,
    zeta: DeviceArray,
    rows: int,
    draws: Draws,
    offset: float = 0.0,
) -> tuple[DeviceArray, DeviceArray]:
    """Return (1/n0) sum_mu (y_mu - f0(x_mu)) sigma'(<w_i,x_mu>) x_mu on fresh samples (p, d), and X0^T (y - f0)/n0.

    f0(x) = offset + sum_j zeta_j sigma(<w_j,x>)/p is the network at the start and y = target(x_1) + noise.
    """
    xp, (p, d) = draws.xp, weights.shape
    gradient, spike = xp.zeros((p, d)), xp.zeros(d)
    before, values = xp.empty((draws.chunk, p)), xp.empty((draws.chunk, p))
    errors = _noise(draws, "batch_noise", rows, noise)
    for start, stop, inputs in draws.chunks("batch", rows, d):
        z, f = before[: stop - start], values[: stop - start]
        multiply(inputs, weights.T, xp, out=z)
        _apply(activation, z, f, xp)
        residual = target(inputs[:, 0]) + next(errors) - f @ zeta / p - offset
        _apply(activation.derivative, z, f, xp)
        f *= residual[:, None]
        multiply(f.T, inputs, xp, out=gradient, add=True)
        spike += residual @ inputs
    gradient /= rows
    return gradient, spike / rows


def population_gradient(
    activation: Function, target: Function, weights: DeviceArray, zeta: DeviceArray, xp: Any, kept: float = 1.0
) -> DeviceArray:
    """Return E[(y - f0(x)) sigma'(<w_i,x>) x], (p, d): `batch_gradient` of an infinite batch, with E[y|x] = kept g.

    Exact at finite d, with w* = e_1. By Stein's lemma E[f(<a,x>) sigma'(<b,x>) x] is a E[f' sigma'] +
    b E[f sigma'']; for unit vectors both are power series in <a,b> whose coefficients are products of Hermite
    coefficients, so that no derivative is taken. Different rows are nearly orthogonal and the series short;
    the term of a neuron with itself is w_i E[z sigma sigma'].
    """
    p, d = weights.shape
    order = _series_order(p, d)
    own, teacher = activation.hermite(order + 2), kept * target.hermite(order + 2)
    along_target, along_self = _pair_series(teacher, own, weights[:, 0], xp)
    itself, _ = expectation(lambda z: z * activation(z) * activation.derivative(z), activation.kinks)
    gradient = xp.empty((p, d))
    for start in range(0, p, _ROW_BLOCK):
        rows = slice(start, min(start + _ROW_BLOCK, p))
        here = xp.arange(rows.stop - start)
        overlaps = multiply(weights[rows], weights.T, xp)
        overlaps[here, here + start] = 0.0
        outward, inward = _pair_series(own, own, overlaps, xp)
        outward[here, here + start] = 0.0
        inward[here, here + start] = 0.0
        outward *= zeta / -p
        scale = along_self[rows] - (inward @ zeta + itself * zeta[rows]) / p
        gradient[rows] = scale[:, None] * weights[rows]
        multiply(outward, weights, xp, out=gradient[rows], add=True)
    gradient[:, 0] += along_target
    return gradient


def _pair_series(outer: Floats, inner: Floats, overlap: DeviceArray, xp: Any) -> tuple[DeviceArray, DeviceArray]:
    """Return E[f' sigma'] and E[f sigma''] at given overlaps, from Hermite coefficients of f and sigma."""
    j = np.arange(len(inner) - 2)
    slopes = (j + 1) * outer[1:-1] * inner[1:-1]
    curvatures = np.sqrt((j + 1) * (j + 2)) * outer[:-2] * inner[2:]
    return _polynomial(slopes, overlap, xp), _polynomial(curvatures, overlap, xp)


def _polynomial(coefficients: Floats, x: DeviceArray, xp: Any) -> DeviceArray:
    total = xp.full(x.shape, float(coefficients[-1]))
    for coefficient in coefficients[-2::-1]:
        total *= x
        total += float(coefficient)
    return total


def _series_order(p: int, d: int) -> int:
    """Return the power at which overlaps of p random unit vectors are rounding (but for one draw in 1e6)."""
    largest = math.sqrt(-math.expm1(2 * math.log(1e-6 / (p + 1) ** 2) / (d - 1)))
    return min(math.ceil(-37 / math.log(largest)), _SERIES_LIMIT) if largest < 1 else _SERIES_LIMIT


def _noise(draws: Draws, stream: str, rows: int, variance: float) -> Iterator[Any]:
    """Yield the label noise chunk by chunk, to be used beside `Draws.chunks` of the inputs."""
    if variance == 0:
        yield from itertools.repeat(0.0)
    for _, _, chunk in draws.chunks(stream, rows, 1):
        yield math.sqrt(variance) * chunk[:, 0]


def _apply(function: Callable[..., Any], z: DeviceArray, out: DeviceArray, xp: Any) -> None:
    """Write function(z) into `out`, on the CPU a few rows at a time to keep intermediate arrays small."""
    rows = _ROW_BLOCK if xp is np else len(z)
    for start in range(0, len(z), rows):
        function(z[start : start + rows], out=out[start : start + rows])


def _samples(
    network: _Network, stream: str, rows: int, draws: Draws
) -> Iterator[tuple[DeviceArray, DeviceArray, DeviceArray]]:
    """Yield (features (m, p), <w*,x> (m,), inputs (m, d)) of fresh samples; features and inputs are buffers' views."""
    p, d = network.weights.shape
    buffer = draws.xp.empty((min(draws.chunk, rows), p))
    for start, stop, inputs in draws.chunks(stream, rows, d):
        features = buffer[: stop - start]
        multiply(inputs, network.weights.T, draws.xp, out=features)
        _apply(network.activation, features, features, draws.xp)
        signal = network.aim[0] * inputs[:, 0] + network.aim[1] * inputs[:, 1]
        yield features, signal, inputs


def _training(network: _Network, sizes: _Sizes, draws: Draws) -> Iterator[tuple[DeviceArray, DeviceArray]]:
    rows, stream = int(sizes.samples.max()), "train"
    if network.same_sample:  # the samples and labels of the gradient, drawn once more from the start of their streams
        draws, stream = Draws(draws.seed, draws.key, draws.trial, draws.device), "batch"
    errors = _noise(draws, stream + "_noise", rows, network.noise)
    for (features, signal, _), error in zip(_samples(network, stream, rows, draws), errors):
        yield features, network.target(signal) + error


def _errors(
    network: _Network, points: Points, sizes: _Sizes, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Fit b = a/sqrt(p) at every point: f(x) = sum_i b_i sigma(<w_i,x>), penalty ridge*p."""
    xp, p = draws.xp, sizes.width
    penalties = points["ridge"] * p
    fitted, train = ridge_path(_training(network, sizes, draws), p, sizes.samples, penalties, xp)
    count = int(settings.get("test_samples") or TEST_SAMPLES)
    squares, wrong = xp.zeros(len(train)), xp.zeros(len(train))
    for features, signal, _ in _samples(network, "test", count, draws):
        outputs = multiply(features, fitted, xp)
        wrong += xp.sum(xp.sign(outputs) != xp.sign(signal)[:, None], axis=0)
        outputs -= network.target(signal)[:, None]
        squares += xp.sum(xp.square(outputs, out=outputs), axis=0)
    values = _order_parameters(network, fitted, xp)
    return {
        "test_error": to_numpy(squares) / count + network.noise,
        "train_error": train,
        "objective": train + penalties * values["norm"] / sizes.samples,
        "test_misclassified": to_numpy(wrong) / count,
        **values,
    }


def _order_parameters(network: _Network, fitted: DeviceArray, xp: Any) -> dict[str, Array]:
    """Return norm, theta, t, psi, Q1 and Q2 of the fits b = a/sqrt(p) (p, B)."""
    by_block = [fitted[block] for block in network.blocks]
    Q2 = np.stack([to_numpy(xp.sum(part * part, axis=0)) for part in by_block], axis=-1)
    tau = np.stack([to_numpy(part.T @ network.bulk[block]) for part, block in zip(by_block, network.blocks)], axis=1)
    along = tau @ to_numpy(network.directions)
    return {
        "norm": Q2.sum(axis=-1),
        "theta": np.stack([to_numpy(xp.sum(part, axis=0)) for part in by_block], axis=-1),
        "Q2": Q2,
        "t": along[:, :, 0],
        "psi": along[:, :, 1],
        "Q1": tau @ tau.swapaxes(1, 2) - along[:, :, :1] * along[:, None, :, 0],
    }


def _classification(
    loss: str, network: _Network, points: Points, sizes: _Sizes, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Fit b = a/sqrt(p) with a convex loss at every point, to optimality; penalty ridge*p/2 |b|^2."""
    xp, p = draws.xp, sizes.width
    rows = int(sizes.samples.max())
    inputs, labels, start = np.empty((rows, p)), np.empty(rows), 0
    for features, some in _training(network, sizes, draws):  # the features are views of a buffer: copied at once
        stop = start + len(some)
        inputs[start:stop], labels[start:stop] = to_numpy(features), to_numpy(some)
        start = stop
    labels[draws.uniform("flips", len(labels)) < network.flip] *= -1
    penalties = points["ridge"] * p
    fits = [fit(inputs[:size], labels[:size], loss, ridge=penalty) for size, penalty in zip(sizes.samples, penalties)]
    fitted = xp.asarray(np.stack([found.weights for found in fits], axis=1))
    values = _order_parameters(network, fitted, xp)
    values["train_error"], values["objective"] = np.empty(len(fits)), np.empty(len(fits))
    for place, (found, size) in enumerate(zip(fits, sizes.samples)):
        margins = labels[:size] * (inputs[:size] @ found.weights)
        losses = LOSSES[loss].value(margins)
        values["train_error"][place] = np.mean(margins < 0)
        values["objective"][place] = np.mean(losses) + 0.5 * penalties[place] * values["norm"][place] / size
    wrong, count = xp.zeros(len(fits)), int(settings.get("test_samples") or TEST_SAMPLES)
    for features, signal, _ in _samples(network, "test", count, draws):
        wrong += xp.sum(xp.sign(multiply(features, fitted, xp)) != xp.sign(signal)[:, None], axis=0)
    values["test_misclassified"] = to_numpy(wrong) / count
    values["test_error"] = (1 - 2 * network.flip) * values["test_misclassified"] + network.flip
    unsolved = np.array([not found.solved for found in fits])
    return {name: np.where(_like(unsolved, array), np.nan, array) for name, array in values.items()}


def _like(mask: Booleans, array: Array) -> Booleans:
    return mask.reshape((-1,) + (1,) * (array.ndim - 1))


def _along(
    network: _Network, points: Points, sizes: _Sizes, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Sort fresh samples by kappa = <v,x> into cells around the wanted places; average the error and the output."""
    xp, p = draws.xp, sizes.width
    fitted, train = ridge_path(_training(network, sizes, draws), p, sizes.samples, points["ridge"] * p, xp)
    cells = _cells(np.asarray(settings["kappa"], dtype=float))
    rows = int(settings.get("test_samples") or TEST_SAMPLES)
    counts = np.zeros(len(cells) - 1)
    squares, means = (np.zeros((len(train), len(counts))) for _ in range(2))
    for features, signal, inputs in _samples(network, "test", rows, draws):
        outputs = to_numpy(multiply(features, fitted, xp))
        along = to_numpy(inputs @ network.directions[:, 0])
        labels, place = to_numpy(network.target(signal)), np.searchsorted(cells, along) - 1
        inside = np.flatnonzero((place >= 0) & (place < len(counts)))
        counts += np.bincount(place[inside], minlength=len(counts))
        for point, output in enumerate(outputs.T):
            residual = (labels - output) ** 2
            squares[point] += np.bincount(place[inside], residual[inside], len(counts))
            means[point] += np.bincount(place[inside], output[inside], len(counts))
    with np.errstate(invalid="ignore"):  # an empty cell is not measured
        return {"error_along": squares / counts + network.noise, "mean_along": means / counts}


def _spectrum(
    network: _Network, outliers: Integers, sizes: _Sizes, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Summarise the eigenvalues; how many of them lie above the bulk is what the limit says."""
    xp, p = draws.xp, sizes.width
    found: dict[int, Floats] = {}
    for stage in accumulate(_training(network, sizes, draws), p, sizes.samples.tolist(), xp):
        if isinstance(stage, Rows):
            kernel = stage.kernel(xp)
            for size in stage.sizes:
                found[size] = to_numpy(eigenvalues(kernel[:size, :size], xp)) / p
            del kernel
        else:
            found[stage.size] = to_numpy(eigenvalues(stage.matrix, xp)) / p
    x = np.asarray(settings["x"], dtype=float)
    rows = []
    for size, above in zip(sizes.samples, outliers):
        scale = p / size if settings.get("normalisation", "p") == "n" else 1.0
        rows.append(_summary(scale * found[int(size)], p, int(above), x))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _summary(eigenvalues: Floats, p: int, above: int, x: Floats) -> dict[str, Any]:
    """Summarise the min(n, p) largest eigenvalues (increasing), of which `above` lie over the bulk."""
    above = min(above, len(eigenvalues) - 1)
    bulk = eigenvalues[: len(eigenvalues) - above]
    nonzero = bulk[bulk > _ZERO * bulk[-1]]
    zeros = p - above - len(nonzero)
    outliers = np.full(OUTLIER_ROOM, np.nan)
    shown = min(above, OUTLIER_ROOM)
    outliers[:shown] = eigenvalues[::-1][:shown]
    cells = _cells(x)
    counts = np.diff(np.searchsorted(nonzero, cells))
    return {
        "density": counts / (p * np.diff(cells)),
        "cdf": (np.where(x >= 0, zeros, 0) + np.searchsorted(nonzero, x, side="right")) / p,
        "lower_edge": nonzero[0] if len(nonzero) else np.nan,
        "upper_edge": nonzero[-1] if len(nonzero) else np.nan,
        "atom": zeros / p,
        "mean_eigenvalue": nonzero.sum() / p,
        "outliers": outliers,
    }


def _cells(x: Floats) -> Floats:
    """Return the midpoints between neighbours, with a first and last edge as far out as the next is in."""
    if len(x) < 2:
        return np.full(len(x) + 1, np.nan)
    middle = 0.5 * (x[1:] + x[:-1])
    return np.concatenate([[2 * x[0] - middle[0]], middle, [2 * x[-1] - middle[-1]]])


def _resolvent(
    network: _Network, points: Points, sizes: _Sizes, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    xp, p, count = draws.xp, sizes.width, len(network.blocks)
    z = np.asarray(settings["z"], dtype=complex)
    V2 = np.empty((len(sizes.samples), len(z), count), dtype=complex)
    V1 = np.empty((len(sizes.samples), len(z), count, count), dtype=complex)
    blocks = _training(network, sizes, draws)
    for stage in accumulate(blocks, p, sizes.samples.tolist(), xp, keep_rows=False):
        assert not isinstance(stage, Rows)
        values, vectors = eigenvectors(stage.matrix, xp)
        poles = 1 / (to_numpy(values)[None, :] / p - z[:, None]) / p
        here = sizes.samples == stage.size
        mass = [to_numpy(xp.sum(vectors[block] ** 2, axis=0)) for block in network.blocks]
        V2[here] = poles @ np.stack(mass, axis=-1)
        V1[here] = np.tensordot(poles, _overlaps(network, vectors, xp), axes=(1, 2))
        del vectors
    m = V2.sum(axis=-1)
    named = {"m": m, "V2": V2, "V1": V1}
    return {f"{name}_{part}": getattr(value, part) for name, value in named.items() for part in ("real", "imag")}


def _overlaps(network: _Network, vectors: DeviceArray, xp: Any) -> Floats:
    """Return sum over i in q, j in q' of u_i u_j <b_i,b_j>, b the bulk rows, for every eigenvector u: (q, q', p)."""
    count, p = len(network.blocks), vectors.shape[1]
    result = np.empty((count, count, p))
    for start in range(0, p, _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        moved = [multiply(network.bulk[block].T, vectors[block, columns], xp) for block in network.blocks]
        for q in range(count):
            for r in range(q, count):
                result[q, r, columns] = result[r, q, columns] = to_numpy(xp.sum(moved[q] * moved[r], axis=0))
    return result
