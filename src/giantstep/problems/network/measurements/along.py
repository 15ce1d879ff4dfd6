"""Error and output along the leading learnt direction, and which direction that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from giantstep.core.base.types import Array, DeviceArray, Floats
from giantstep.core.lab import to_numpy
from giantstep.core.lab.feature_spectra import cell_edges
from giantstep.problems.network.trained import ONLY, Trained, outputs_of

Coordinate = Callable[[DeviceArray], Floats]
"""Inputs (m, d) -> their coordinate along one direction (m,)."""


def measure_along(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Sort fresh samples by the leading learnt direction into cells around the
    positions; average error and output.
    """
    network = trained.network
    kappa = np.asarray(settings["kappa"], dtype=float)
    edges = cell_edges(kappa)
    coordinate = leading_coordinate(trained)
    fit = trained.fitted(ridges)
    counts = np.zeros(len(kappa))
    squares = np.zeros((len(ridges), len(kappa)))
    sums = np.zeros((len(ridges), len(kappa)))
    for outputs, signal, inputs in outputs_of(
        (trained,), {ONLY: fit.weights}, int(settings["test_samples"])
    ):
        labels = np.asarray(network.target(signal))
        cell_of_sample = np.searchsorted(edges, coordinate(inputs)) - 1
        # samples before the first edge and after the last belong to no cell
        in_some_cell = (cell_of_sample >= 0) & (cell_of_sample < len(kappa))
        kept = np.flatnonzero(in_some_cell)
        cell_of_kept = cell_of_sample[kept]
        counts += np.bincount(cell_of_kept, minlength=len(kappa))
        for point, output in enumerate(outputs[0].T):
            errors = (labels - output)[kept] ** 2
            squares[point] += np.bincount(cell_of_kept, errors, len(kappa))
            sums[point] += np.bincount(cell_of_kept, output[kept], len(kappa))
    # an empty cell is not measured
    with np.errstate(invalid="ignore"):
        return {
            # the test has no label noise, which adds its variance in every cell
            "error_along": squares / counts + network.noise,
            "mean_along": sums / counts,
        }


def leading_coordinate(trained: Trained) -> Coordinate:
    """Return what gives the place of inputs along the leading direction: the spike, or
    where the blocks moved most.
    """
    if _has_one_spike(trained):
        spike = trained.draws.xp.asarray(trained.spike_axes[:, 0])
        return lambda inputs: to_numpy(inputs @ spike)
    return _along_the_means(trained)


def _has_one_spike(trained: Trained) -> bool:
    """Tell whether all rows moved along one direction, which is known."""
    inputs = trained.inputs
    if inputs.root is not None or trained.network_of.target.directions > 1:
        return False
    # without a frame and without the noise of a batch the spike is w*, the first axis
    is_target = inputs.frame is None and not trained.on_batch
    return trained.directions is not None or is_target


def _along_the_means(trained: Trained) -> Coordinate:
    """Return the coordinate along which the means of the blocks are largest."""
    inputs = trained.inputs
    xp = trained.draws.xp
    # the noise of a batch has directions of its own, anywhere in the space of inputs;
    # rows that moved on the population are looked at where the target lies only
    everywhere = trained.on_batch and inputs.root is None

    def view(rows: DeviceArray) -> DeviceArray:
        return rows if everywhere else inputs.along(rows, xp)

    rows = to_numpy(view(trained.network.weights))
    U = []
    for block in trained.blocks:
        # a block counts by its neurons: U^T U is then W^T W with rows at their means
        size = block.stop - block.start
        U.append(np.sqrt(size) * rows[block].mean(axis=0))
    leading: Floats = np.linalg.svd(np.stack(U), full_matrices=False)[2][0]
    if everywhere:
        on_target = to_numpy(inputs.along(xp.asarray(leading[None]), xp))[0]
    else:
        on_target = leading
    # a singular vector has no sign: its largest component on the target gets +
    leading = leading * np.sign(on_target[np.argmax(np.abs(on_target))])
    return lambda rows: to_numpy(view(rows) @ xp.asarray(leading))
