"""What an experiment measures of a real network beyond its mean error: gradients and perturbed inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.network.measure_pairs import fitted_copy
from giantstep.families.network.trained import Trained
from giantstep.lab import to_numpy
from giantstep.lab.algebra import multiply
from giantstep.lab.network import apply_by_rows
from giantstep.readout.sensitivity import folded_mean
from giantstep.types import Array, Floats


def measure_sensitivity(trained: Trained, ridges: Floats, settings: Mapping[str, Any]) -> dict[str, Array]:
    """Measure the gradient of every fit at fresh inputs, and its errors to first order in the perturbation."""
    if trained.network_of.inputs is not None:
        raise bad_field("inputs", type(trained.network_of.inputs).__name__, 'left out where what="sensitivity"')
    network, draws, xp = trained.network, trained.draws, trained.draws.xp
    fitted, eps = fitted_copy((trained,), (0, 0, 0), ridges), np.asarray(settings["eps"])
    rows, (p, d) = int(settings.get("test_samples") or 1), network.weights.shape
    norm, along, attacked = np.zeros(len(ridges)), np.zeros(len(ridges)), np.zeros((len(ridges), len(eps)))
    before, values = xp.empty((min(draws.chunk, rows), p)), xp.empty((min(draws.chunk, rows), p))
    for start, stop, inputs in draws.chunks("test", rows, d):
        z, f = before[: stop - start], values[: stop - start]
        multiply(inputs, network.weights.T, xp, out=z)
        apply_by_rows(network.activation, z, f, xp)
        outputs, labels = to_numpy(multiply(f, fitted, xp)), to_numpy(network.target(network.signal(inputs)))
        apply_by_rows(network.activation.derivative, z, f, xp)
        for point in range(len(ridges)):
            gradient = multiply(f * fitted[:, point], network.weights, xp)
            squares = to_numpy(xp.sum(gradient**2, axis=1))
            norm[point] += squares.sum() / rows
            along[point] += float(xp.sum(trained.inputs.signal(gradient, xp) ** 2)) / rows
            attacked[point] += _attacked(trained, outputs[:, point], labels, squares, eps) / rows
    return {
        "gradient_norm2": norm,
        "gradient_learnt": along,
        "gradient_rest": norm - along,
        "attacked_error": attacked,
    }


def _attacked(trained: Trained, outputs: Floats, labels: Floats, squares: Floats, eps: Floats) -> Floats:
    """Return the sum over inputs of their perturbed errors (E,), averaged over the noise of fresh labels."""
    size = np.sqrt(squares)
    if trained.network_of.readout.classes:
        pushed = eps[:, None] * size
        right, turned = labels * outputs < pushed, -labels * outputs < pushed
        return np.asarray((1 - trained.flip) * right.sum(axis=1) + trained.flip * turned.sum(axis=1))
    noise, gap = trained.network.noise, labels - outputs
    far = folded_mean(gap, np.sqrt(noise)) if noise else np.abs(gap)
    alone = np.sum(gap**2 + noise)
    return np.asarray(alone + 2 * eps * np.sum(far * size) + eps**2 * np.sum(squares))


MEASURES = {"sensitivity": measure_sensitivity}
"""Question -> what measures it."""
