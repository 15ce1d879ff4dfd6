"""Extreme singular values of the weights, and where their vectors point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.lab import to_numpy
from giantstep.core.lab.feature_spectra import extreme_singular_vectors
from giantstep.problems.network.trained import Trained


def measure_weights(
    trained: Trained, ridges: Floats, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the extreme singular values of the weights and where their vectors point,
    the same for all points.
    """
    xp = trained.draws.xp
    second_layer = trained.second_layer
    ends = ("top", "bottom")
    prefixes = ("", "bottom_")
    vectors = extreme_singular_vectors(trained.network.weights, xp)
    values = {}
    for end, prefix, (value, left, right) in zip(ends, prefixes, vectors):
        values[f"{end}_singular_value"] = value
        # squared: a singular vector has no sign; the vectors may have any length
        lengths = (left @ left) * (second_layer @ second_layer)
        alignment = (left @ second_layer) ** 2 / lengths
        values[f"{prefix}left_alignment"] = float(alignment)
        # the target has one direction or several: their squares add up
        overlaps = to_numpy(trained.inputs.signal(right[None], xp))[0]
        length = float(right @ right)
        values[f"{prefix}right_alignment"] = float(overlaps @ overlaps / length)
    # the weights do not depend on the fit: all points have the same answer
    return {
        name: np.full(len(trained.samples), value) for name, value in values.items()
    }
