"""What an experiment measures of a real network after a step: a function `measure_...` for each question."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from giantstep.families.network.questions import TEST_SAMPLES
from giantstep.families.network.scenario import Network
from giantstep.families.network.trained import ONLY, Trained, outputs_of
from giantstep.gaussian import hermite_values
from giantstep.lab import to_numpy
from giantstep.lab.feature_spectra import (
    cell_edges,
    extreme_singular_vectors,
    gram_eigenvalues,
    leading_singular_values,
    resolvent_traces,
    summarise_spectrum,
)
from giantstep.lab.network import block_sums
from giantstep.readout import OUTLIER_ROOM
from giantstep.readout.feature_spikes import SPIKE_ROOM, check_degrees, spike_degrees
from giantstep.types import Array, DeviceArray, Floats, Integers

# -- errors ----------------------------------------------------------------------------------------------------------


def measure_errors(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Fit the second layer at every point and measure its errors on fresh samples, label noise included."""
    fit, rows = trained.fitted(ridges), int(settings.get("test_samples") or TEST_SAMPLES)
    network, flip = trained.network_of, trained.flip
    squares, wrong = (np.zeros(len(ridges)) for _ in range(2))
    for outputs, signal, _ in outputs_of((trained,), {ONLY: fit.weights}, rows):
        squares += np.sum((outputs[0] - np.asarray(network.target(signal))[:, None]) ** 2, axis=0)
        wrong += wrong_signs(network, outputs, signal)
    values = {"train_error": fit.train, "objective": fit.objective, **_order_parameters(trained, fit.weights)}
    values["test_misclassified"] = np.where(np.isnan(fit.train), np.nan, wrong / rows)
    values["test_error"] = squares / rows + trained.network.noise
    if network.readout.classes:
        values["test_error"] = (1 - 2 * flip) * values["test_misclassified"] + flip
    return values


def wrong_signs(network: Network, outputs: Floats, signal: Floats) -> Floats:
    """Return how often outputs (copies, m, B) have another sign than their class, over copies (B,); NaN without one."""
    if network.class_direction is None:
        return np.full(outputs.shape[2], np.nan)
    side = np.sign(signal @ network.class_direction)
    return np.asarray(np.mean(np.sign(outputs) != side[None, :, None], axis=0).sum(axis=0))


def _order_parameters(trained: Trained, fitted: DeviceArray) -> dict[str, Array]:
    """Return norm, theta, t, psi, Q1 and Q2 of the fits b = a/sqrt(p) (p, B); sums over rows where they are defined."""
    Q2, theta, tau = block_sums(fitted, trained.blocks, trained.bulk, trained.draws.xp)
    values = {"norm": Q2.sum(axis=-1), "theta": theta, "Q2": Q2}
    network = trained.network_of
    if network.target.directions > 1 or network.inputs is not None:
        rows = np.full(theta.shape, np.nan)
        return {**values, "t": rows, "psi": rows, "Q1": rows[:, :, None] * rows[:, None, :]}
    along = tau @ trained.spike_axes
    across = tau @ tau.swapaxes(1, 2) - along[:, :, :1] * along[:, None, :, 0]
    return {**values, "t": along[:, :, 0], "psi": along[:, :, 1], "Q1": across}


# -- where the blocks are, and errors along kappa ----------------------------------------------------------------------


def measure_steps(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Measure where the blocks are: means over their neurons, and d times the covariance inside them."""
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
    return {name: np.repeat(value[None], len(ridges), axis=0) for name, value in values.items()}


def measure_along(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Sort fresh samples by the leading learnt direction into cells around the positions; average error and output."""
    network, kappa, rows = trained.network, np.asarray(settings["kappa"], dtype=float), int(settings["test_samples"])
    place, cells = _leading(trained), cell_edges(kappa)
    counts = np.zeros(len(kappa))
    squares, means = (np.zeros((len(ridges), len(kappa))) for _ in range(2))
    for outputs, signal, inputs in outputs_of((trained,), {ONLY: trained.fitted(ridges).weights}, rows):
        labels, cell = np.asarray(network.target(signal)), np.searchsorted(cells, place(inputs)) - 1
        inside = np.flatnonzero((cell >= 0) & (cell < len(kappa)))
        counts += np.bincount(cell[inside], minlength=len(kappa))
        for point, output in enumerate(outputs[0].T):
            squares[point] += np.bincount(cell[inside], (labels - output)[inside] ** 2, len(kappa))
            means[point] += np.bincount(cell[inside], output[inside], len(kappa))
    with np.errstate(invalid="ignore"):  # an empty cell is not measured
        return {"error_along": squares / counts + network.noise, "mean_along": means / counts}


def _leading(trained: Trained) -> Callable[[DeviceArray], Floats]:
    """Return what gives the place of inputs along the leading direction: the spike, or where the blocks moved most."""
    inputs, xp = trained.inputs, trained.draws.xp
    known = trained.directions is not None or inputs.frame is None and not trained.on_batch
    if known and inputs.root is None and trained.network_of.target.directions == 1:
        axis = xp.asarray(trained.spike_axes[:, 0])
        return lambda rows: to_numpy(rows @ axis)
    whole = trained.on_batch and inputs.root is None  # the noise of a batch has directions of its own
    seen = (lambda rows: rows) if whole else (lambda rows: inputs.along(rows, xp))
    sizes = [block.stop - block.start for block in trained.blocks]
    rows = to_numpy(seen(trained.network.weights))
    U = np.stack([np.sqrt(size) * rows[block].mean(axis=0) for size, block in zip(sizes, trained.blocks)])
    leading: Floats = np.linalg.svd(U, full_matrices=False)[2][0]
    target = to_numpy(inputs.along(xp.asarray(leading[None]), xp))[0] if whole else leading
    leading = leading * np.sign(target[np.argmax(np.abs(target))])
    return lambda rows: to_numpy(seen(rows) @ xp.asarray(leading))


# -- spectra and spikes ------------------------------------------------------------------------------------------------


def measure_spectrum(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Summarise the eigenvalues of Phi^T Phi/p (or /n), of which so many are ``settings["outliers"]`` at each point."""
    p, x = trained.network.width, np.asarray(settings["x"], dtype=float)
    spectra = gram_eigenvalues(trained.training(), p, trained.samples, trained.draws.xp)
    rows = []
    for size, above in zip(trained.samples, settings["outliers"]):
        scale = p / size if settings.get("normalisation") == "n" else 1.0
        rows.append(summarise_spectrum(scale * (spectra[int(size)] / p), p, int(above), x, OUTLIER_ROOM))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def measure_resolvent(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Return m(z) and the block traces V1, V2 of the resolvent of Phi^T Phi/p."""
    z, network = np.asarray(settings["z"], dtype=complex), trained.network_of
    V1, V2 = resolvent_traces(trained.training(), trained.blocks, trained.bulk, trained.samples, z, trained.draws.xp)
    known = network.target.directions == 1 and network.inputs is None
    traces = {"m": V2.sum(axis=-1), "V2": V2, "V1": V1 if known else np.full_like(V1, np.nan)}
    return {f"{name}_{half}": getattr(value, half) for name, value in traces.items() for half in ("real", "imag")}


def measure_weights(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Return the extreme singular values of the weights and where their vectors point, the same for all points."""
    xp, second_layer = trained.draws.xp, trained.second_layer
    values = {}
    extremes = extreme_singular_vectors(trained.network.weights, xp)
    for end, prefix, (value, left, right) in zip(("top", "bottom"), ("", "bottom_"), extremes):
        values[f"{end}_singular_value"] = value
        squared_left = (left @ second_layer) ** 2 / ((left @ left) * (second_layer @ second_layer))
        values[f"{prefix}left_alignment"] = float(squared_left)
        overlaps = to_numpy(trained.inputs.signal(right[None], xp))[0]
        values[f"{prefix}right_alignment"] = float(overlaps @ overlaps / float(right @ right))
    return {name: np.full(len(trained.samples), value) for name, value in values.items()}


def measure_spikes(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Return the largest singular values of F/sqrt(n) on the fit sample, and their overlaps with h_j(kappa)."""
    degrees = check_degrees(settings.get("degree"))
    blocks, sizes = _features_and_functions(trained, degrees), (trained.network.width, len(degrees) + 1)
    values, overlaps = leading_singular_values(blocks, *sizes, trained.samples, SPIKE_ROOM, trained.draws.xp)
    alignment, norm_alignment = overlaps[:, :, :-1], overlaps[:, :, -1]
    return {
        "singular_values": values,
        "alignment": alignment,
        "norm_alignment": norm_alignment,
        "spike_degree": spike_degrees(alignment, norm_alignment, degrees),
    }


def _features_and_functions(trained: Trained, degrees: Integers) -> Iterator[tuple[DeviceArray, DeviceArray]]:
    """Yield [F, h_j(kappa), chi] (m, p + J + 1), whose Gram matrix holds all that is wanted, and no labels."""
    xp, (p, d), rows = trained.draws.xp, trained.network.weights.shape, int(trained.samples.max())
    buffer = xp.empty((min(trained.draws.chunk, rows), p + len(degrees) + 1))
    nothing, place = xp.zeros(len(buffer)), _leading(trained)
    for features, _, inputs in trained.network.samples("train", rows, trained.draws):
        block = buffer[: len(features)]
        block[:, :p] = features
        block[:, p:-1] = xp.asarray(hermite_values(place(inputs), int(degrees.max()))[degrees].T)
        block[:, -1] = (xp.sum(inputs * inputs, axis=1) - d) / (2 * d) ** 0.5
        yield block, nothing[: len(block)]
