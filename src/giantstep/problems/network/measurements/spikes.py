"""Spikes of the feature matrix, named by their degree in the learnt feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from giantstep.core.base.types import Array, DeviceArray, Floats, Integers
from giantstep.core.lab.feature_spectra import leading_singular_values
from giantstep.core.maths.gaussian import hermite_values
from giantstep.core.readout.feature_spikes import (
    SPIKE_ROOM,
    check_degrees,
    spike_degrees,
)
from giantstep.problems.network.measurements.along import leading_coordinate
from giantstep.problems.network.trained import Trained


def measure_spikes(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the largest singular values of F/sqrt(n) on the fit sample, and their
    overlaps with h_j(kappa).
    """
    degrees = check_degrees(settings.get("degree"))
    values, overlaps = leading_singular_values(
        _features_and_functions(trained, degrees),
        width=trained.network.width,
        beside=len(degrees) + 1,
        samples=trained.samples,
        room=SPIKE_ROOM,
        xp=trained.draws.xp,
    )
    # the last function is chi, what |x|^2 has beyond its mean
    alignment = overlaps[:, :, :-1]
    norm_alignment = overlaps[:, :, -1]
    return {
        "singular_values": values,
        "alignment": alignment,
        "norm_alignment": norm_alignment,
        "spike_degree": spike_degrees(alignment, norm_alignment, degrees),
    }


def _features_and_functions(
    trained: Trained, degrees: Integers
) -> Iterator[tuple[DeviceArray, DeviceArray]]:
    """Yield [F, h_j(kappa), chi] (m, p + J + 1), whose Gram matrix holds all that is
    wanted, and no labels.
    """
    draws = trained.draws
    xp = draws.xp
    p, d = trained.network.weights.shape
    rows = int(trained.samples.max())
    # features and functions side by side: one Gram matrix has norms and overlaps
    buffer = xp.empty((min(draws.chunk, rows), p + len(degrees) + 1))
    no_labels = xp.zeros(len(buffer))
    coordinate = leading_coordinate(trained)
    # the functions need the inputs, which `Trained.training` does not yield
    for features, _, inputs in trained.network.samples("train", rows, draws):
        chunk = buffer[: len(features)]
        chunk[:, :p] = features
        # the recursion gives all degrees up to the largest; those that are wanted
        hermite = hermite_values(coordinate(inputs), int(degrees.max()))[degrees]
        chunk[:, p:-1] = xp.asarray(hermite.T)
        # chi = (|x|^2 - d)/sqrt(2 d), of mean 0 and variance 1
        chunk[:, -1] = (xp.sum(inputs * inputs, axis=1) - d) / (2 * d) ** 0.5
        yield chunk, no_labels[: len(chunk)]
