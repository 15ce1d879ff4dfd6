"""What an experiment measures of a real network beyond its mean error: gradients, perturbed inputs, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import entr, expit

from giantstep.errors import bad_field
from giantstep.families.network.answers.calibration import OF_CLASSES
from giantstep.families.network.measure_pairs import fitted_copy, mover, outputs_of
from giantstep.families.network.trained import Trained
from giantstep.lab import to_numpy
from giantstep.lab.algebra import multiply
from giantstep.lab.feature_spectra import cell_edges
from giantstep.lab.network import apply_by_rows
from giantstep.readout.calibration import NAIVE, WANTED, coverage, honest_width
from giantstep.readout.sensitivity import folded_mean
from giantstep.types import Array, Floats

CELLS = 40
"""Cells of logits of equal counts: their calibration error is biased by chance, and not compared."""
LEAST_COUNT = 25
"""Fresh samples in a cell of logits from which its share is shown."""
SHARPEST = 1e3
"""Largest 1/T that is looked for, where every label has the sign of its output."""


def measure_sensitivity(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Measure the gradient of every fit at fresh inputs, and its errors to first order in the perturbation."""
    if trained.network_of.inputs is not None:
        raise bad_field("inputs", type(trained.network_of.inputs).__name__, 'left out where what="sensitivity"')
    network, draws, xp = trained.network, trained.draws, trained.draws.xp
    fitted, eps = fitted_copy((trained,), (0, 0, 0), ridges), np.asarray(settings["eps"])
    rows, (p, d) = int(settings.get("test_samples") or 1), network.weights.shape
    norm, along, attacked = np.zeros(len(ridges)), np.zeros(len(ridges)), np.zeros((len(ridges), len(eps)))
    before, values = xp.empty((min(draws.chunk, rows), p)), xp.empty((min(draws.chunk, rows), p))
    moved = mover(trained, settings)
    for start, stop, inputs in draws.chunks("test", rows, d):
        signal = network.signal(inputs)
        if moved is not None:
            inputs, signal = moved(inputs)
        z, f = before[: stop - start], values[: stop - start]
        multiply(inputs, network.weights.T, xp, out=z)
        apply_by_rows(network.activation, z, f, xp)
        outputs, labels = to_numpy(multiply(f, fitted, xp)), to_numpy(network.target(signal))
        apply_by_rows(network.activation.derivative, z, f, xp)
        for point in range(len(ridges)):
            gradient = multiply(f * fitted[:, point], network.weights, xp)
            squares = to_numpy(xp.sum(gradient**2, axis=1))
            norm[point] += squares.sum() / rows
            along[point] += float(xp.sum(trained.inputs.signal(gradient, xp) ** 2)) / rows
            perturbed = _attacked(trained, settings["shifted_noise"], outputs[:, point], labels, squares, eps)
            attacked[point] += perturbed / rows
    return {
        "gradient_norm2": norm,
        "gradient_learnt": along,
        "gradient_rest": norm - along,
        "attacked_error": attacked,
    }


def _attacked(trained: Trained, noise: float, outputs: Floats, labels: Floats, squares: Floats, eps: Floats) -> Floats:
    """Return the sum over inputs of their perturbed errors (E,), averaged over the noise of fresh labels."""
    size = np.sqrt(squares)
    if trained.network_of.readout.classes:
        pushed = eps[:, None] * size
        right, turned = labels * outputs < pushed, -labels * outputs < pushed
        return np.asarray((1 - trained.flip) * right.sum(axis=1) + trained.flip * turned.sum(axis=1))
    gap = labels - outputs
    far = folded_mean(gap, np.sqrt(noise)) if noise else np.abs(gap)
    alone = np.sum(gap**2 + noise)
    return np.asarray(alone + 2 * eps * np.sum(far * size) + eps**2 * np.sum(squares))


def measure_calibration(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Measure probabilities of classes, or intervals of regression, at fresh inputs."""
    network, rows = trained.network_of, int(settings.get("test_samples") or 1)
    fits = {(0, 0, 0): fitted_copy((trained,), (0, 0, 0), ridges)}
    seen = list(outputs_of((trained,), fits, rows, mover(trained, settings)))
    outputs = np.concatenate([part[0] for part, _ in seen])
    labels = np.asarray(network.target(np.concatenate([signal for _, signal in seen])))
    nothing, logits = np.full(len(ridges), np.nan), np.asarray(settings["logit"])
    if network.sign_direction is None:
        train = network.readout.fit(trained, ridges, trained.flip, 1)["train_error"]
        values = [_intervals(settings["shifted_noise"], train[b], gap) for b, gap in enumerate(outputs.T - labels)]
        none = {**dict.fromkeys(OF_CLASSES, nothing), "reliability": np.full((len(ridges), len(logits)), np.nan)}
        return {**none, "coverage": np.array(values)[:, 0], "honest_width": np.array(values)[:, 1]}
    positive = 0.5 * (1 + (1 - 2 * trained.flip) * labels)
    found = [_scores(output, positive, logits) for output in outputs.T]
    scores = {name: np.array([one[name] for one in found]) for name in found[0]}
    return {**scores, "coverage": nothing, "honest_width": nothing}


def _intervals(noise: float, train: float, gaps: Floats) -> tuple[float, float]:
    """Return the coverage of the naive interval and the honest half width, averaged over fresh label noise."""
    if not noise:  # a distribution of steps, whose quantile lies between two of them
        sizes = np.abs(gaps)
        return float(np.mean(sizes <= NAIVE * np.sqrt(train))), float(np.quantile(sizes, WANTED))
    even, variance = np.full(len(gaps), 1 / len(gaps)), np.full(len(gaps), noise)
    return coverage(NAIVE * np.sqrt(train), gaps, variance, even), honest_width(gaps, variance, even)


def _scores(outputs: Floats, positive: Floats, logits: Floats) -> dict[str, Any]:
    """Return what outputs (m,) are worth as logits; what needs a density is counted in cells of equal numbers."""
    cells = np.array_split(np.argsort(outputs), CELLS)
    said, share = (np.array([values[cell].mean() for cell in cells]) for values in (outputs, positive))

    def log_loss(b: float) -> float:
        return float(np.mean(np.logaddexp(0.0, -b * outputs) + (1 - positive) * b * outputs))

    def slope(b: float) -> float:
        return float(np.mean((expit(b * outputs) - positive) * outputs))

    sharpness = 0.0
    if slope(0.0) < 0:
        sharpness = float(brentq(slope, 0.0, SHARPEST)) if slope(SHARPEST) > 0 else SHARPEST
    edges = cell_edges(logits) if len(logits) > 1 else logits[0] + np.array([-0.25, 0.25])
    place = np.searchsorted(edges, outputs) - 1
    inside = (place >= 0) & (place < len(logits))
    counts, hits = (np.bincount(place[inside], w, len(logits)) for w in (None, positive[inside]))
    with np.errstate(invalid="ignore", divide="ignore"):
        reliability = np.where(counts >= LEAST_COUNT, hits / counts, np.nan)
    values = (
        *(log_loss(1.0), float(np.mean(positive + expit(outputs) ** 2 - 2 * positive * expit(outputs)))),
        *(float(np.mean(np.abs(share - expit(said)))), 1 / sharpness if sharpness else np.inf, log_loss(sharpness)),
        *(float(np.mean(np.abs(share - expit(sharpness * said)))), float(np.mean(entr(share) + entr(1 - share)))),
    )
    return {**dict(zip(OF_CLASSES, values)), "reliability": reliability}


MEASURES = {"sensitivity": measure_sensitivity, "calibration": measure_calibration}
"""Question -> what measures it."""
