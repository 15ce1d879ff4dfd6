"""The spike that a small step leaves in the first layer: top singular value and vectors of the updated weights.

W1 = W0 + eta c1 a beta^T up to a vanishing remainder, with beta = X0^T r/n0 (section 4 of the notes on step sizes). With
c = p/d, b0^2 = g1^2 + E r^2 d/n0, f0 the initial output (0 or 1) and eta in units of |a| = sqrt(E zeta^2),

    ell = (1 - f0 eta c1^2)^2 + eta^2 c1^2 b0^2

is the squared length of W1^T a/|a|. The bulk of singular values is that of W0, |1 -+ sqrt(c)|. A singular value leaves it at
the top where ell > 1 + sqrt(c) (Baik, Ben Arous, Peche), and then

    s^2 = ell + c ell/(ell - 1),   (left . a)^2/|a|^2 = (1 - c/(ell - 1)^2)/(1 + c/(ell - 1)),
    (right . w*)^2 = (eta c1 g1)^2/ell (1 - c/(ell - 1)^2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.steps import Points, residual_power, second_layer_law, step_size
from giantstep.family import Answer

Array = NDArray[np.float64]


def weights(scenario: OneStep, points: Points, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="weights"`` at every point; a growing step needs a finite ``points["dim"]``."""
    zeta, pi = second_layer_law(scenario)
    c1, g1 = scenario.activation.hermite(1)[1], scenario.target.hermite(1)[1]
    eta = step_size(scenario, points) * np.sqrt(np.sum(pi * zeta**2))
    length = g1**2 + residual_power(scenario, points) / points["step.batch_per_dim"]
    c = points["width_per_dim"]
    ell = (1 - points["step.initial_output"] * eta * c1**2) ** 2 + (eta * c1) ** 2 * length
    upper, threshold = 1 + np.sqrt(c), 1 + np.sqrt(c)
    outlier = ell > threshold
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(outlier, 1 - c / (ell - 1) ** 2, np.nan)
        top = np.where(outlier, np.sqrt(ell + c * ell / (ell - 1)), upper)
        left = kept / (1 + c / (ell - 1))
        right = (eta * c1 * g1) ** 2 / ell * kept
    values = {
        "top_singular_value": top,
        "left_alignment": left,
        "right_alignment": right,
        "bulk_lower": np.abs(1 - np.sqrt(c)),
        "bulk_upper": upper,
        "spike_strength": ell,
        "threshold": threshold,
    }
    count = len(c)
    return Answer(values, np.full(count, "", dtype="U1"), np.zeros(count), np.zeros(count, dtype=np.int64))
