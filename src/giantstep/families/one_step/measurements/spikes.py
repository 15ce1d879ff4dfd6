"""Spikes of a finite network: leading singular vectors of its updated weights and of its features."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np

from giantstep.families.one_step.answers.spikes import SPIKE_ROOM, spike_degrees
from giantstep.families.one_step.network import Trained
from giantstep.lab import Draws, Rows, accumulate, to_numpy
from giantstep.lab.algebra import add_gram, leading_eigenvectors, outer_gram
from giantstep.types import DeviceArray, Floats, Integers


def measure_weights(trained: Trained, draws: Draws) -> dict[str, Floats]:
    """Return the largest and the smallest singular value of the weights and where their vectors point.

    They are the same for all points. The target direction is e_1; the vectors are those of the extreme singular values,
    inside the bulk or not.
    """
    xp, weights, second_layer = draws.xp, trained.network.weights, trained.second_layer
    p, d = weights.shape
    if p <= d:
        gram = outer_gram(weights, xp)
    else:
        gram = xp.zeros((d, d), order="F")
        add_gram(gram, weights, xp)
    values = {}
    for end, sign in (("top", 1.0), ("bottom", -1.0)):
        powers, vectors = leading_eigenvectors(sign * gram, 1, xp)
        left, right = (vectors[:, 0], vectors[:, 0] @ weights) if p <= d else (weights @ vectors[:, 0], vectors[:, 0])
        prefix = "" if end == "top" else "bottom_"
        values[f"{end}_singular_value"] = max(0.0, sign * float(powers[0])) ** 0.5
        squared_left = (left @ second_layer) ** 2 / ((left @ left) * (second_layer @ second_layer))
        values[f"{prefix}left_alignment"] = float(squared_left)
        values[f"{prefix}right_alignment"] = float(right[0] ** 2 / (right @ right))
    return {name: np.full(len(trained.samples), value) for name, value in values.items()}


def measure_spikes(trained: Trained, degrees: Integers, draws: Draws) -> dict[str, Floats]:
    """Return the largest singular values of F/sqrt(n) on the fit sample, and their left vectors' overlaps.

    `degrees` are those of the functions h_j(kappa), kappa = <x, beta>/|beta| with beta as the gradient drew it.
    """
    xp, p, samples = draws.xp, trained.network.width, trained.samples
    count, beside = len(samples), len(degrees) + 1
    values = np.full((count, SPIKE_ROOM), np.nan)
    overlaps = np.full((count, SPIKE_ROOM, beside), np.nan)
    blocks = _features_and_functions(trained, degrees, draws)
    for stage in accumulate(blocks, p + beside, samples.tolist(), xp, keep_rows=False):
        assert not isinstance(stage, Rows)
        points, shown = samples == stage.size, min(SPIKE_ROOM, p, stage.size)
        powers, vectors = leading_eigenvectors(stage.matrix[:p, :p], shown, xp)
        projected = to_numpy(stage.matrix[p:, :p] @ vectors)
        powers, lengths = to_numpy(powers), to_numpy(stage.matrix.diagonal()[p:])
        values[points, :shown] = np.sqrt(powers / stage.size)
        overlaps[points, :shown] = (projected**2 / (powers * lengths[:, None])).T
    alignment, norm_alignment = overlaps[:, :, :-1], overlaps[:, :, -1]
    return {
        "singular_values": values,
        "alignment": alignment,
        "norm_alignment": norm_alignment,
        "spike_degree": spike_degrees(alignment, norm_alignment, degrees),
    }


def _features_and_functions(
    trained: Trained, degrees: Integers, draws: Draws
) -> Iterator[tuple[DeviceArray, DeviceArray]]:
    """Yield [F, h_j(kappa), chi] (m, p + J + 1), whose Gram matrix holds all that is wanted, and no labels."""
    xp, (p, d), rows = draws.xp, trained.network.weights.shape, int(trained.samples.max())
    buffer = xp.empty((min(draws.chunk, rows), p + len(degrees) + 1))
    nothing = xp.zeros(len(buffer))
    for features, _, inputs in trained.network.samples("train", rows, draws):
        block = buffer[: len(features)]
        block[:, :p] = features
        functions = _hermite_polynomials(inputs @ trained.directions[:, 0], degrees, xp)
        functions.append((xp.sum(inputs * inputs, axis=1) - d) / (2 * d) ** 0.5)
        block[:, p:] = xp.stack(functions, axis=1)
        yield block, nothing[: len(block)]


def _hermite_polynomials(x: DeviceArray, degrees: Integers, xp: ModuleType) -> list[DeviceArray]:
    """Return h_j(x) = He_j(x)/sqrt(j!) for the given degrees."""
    table = [xp.ones_like(x), x]
    for j in range(1, int(max(degrees))):
        table.append((x * table[j] - np.sqrt(j) * table[j - 1]) / np.sqrt(j + 1))
    return [table[j] for j in degrees]
