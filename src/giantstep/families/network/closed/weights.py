"""The spike that a small step leaves in the first layer: top singular value and vectors of the updated weights.

W1 = W0 + eta c1 a beta^T up to a vanishing remainder, with beta = X0^T r/n0 (step_size_regimes section 4).
With c = p/d, b0^2 = g1^2 + E r^2 d/n0, f0 the initial output (0 or 1) and eta in units of |a| = sqrt(E zeta^2),

    ell = (1 - f0 eta c1^2)^2 + eta^2 c1^2 b0^2

is the squared length of W1^T a/|a|. The bulk of singular values is that of W0, |1 -+ sqrt(c)|. A singular value leaves
it at the top where ell > 1 + sqrt(c) (Baik, Ben Arous, Peche), and then, step_size_regimes (4a),

    s^2 = ell + c ell/(ell - 1),   (left . a)^2/|a|^2 = (1 - c/(ell - 1)^2)/(1 + c/(ell - 1)),
    (right . w*)^2 = (eta c1 g1)^2/ell (1 - c/(ell - 1)^2).

With f0 = 1 and c < 1 one leaves it at the bottom where ell < 1 - sqrt(c), with the same formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.network.problem import second_layer_law
from giantstep.families.network.scenario import Network
from giantstep.families.network.steps.gradient import slope_variance
from giantstep.families.network.steps.weak import WeakStep, residual_power
from giantstep.family import Answer
from giantstep.types import Floats, Points

LEFT_OUT = 0.02
"""What the rest of the gradient may add to the squared length of the rows before the limit warns."""


def answer_weights(step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="weights"`` at every point; a growing step needs a finite ``points["dim"]``."""
    if settings.get("theory") not in (None, "exact"):
        raise bad_field("theory", settings["theory"], '"exact" for what="weights"')
    zeta, pi = second_layer_law(network, whole=True)
    warnings, approximations = list[str](), dict[str, str]()
    added = np.max(remainder(step, network, points)) * np.sum(pi * zeta**2)
    if added > LEFT_OUT:
        left_out = f"which adds {added:.0%} to the squared length of the rows"
        approximations["all but the rank-one part of the gradient is left out"] = left_out
        warnings.append(
            f"The limit leaves out all but the rank-one part of the gradient, {left_out}; "
            'step.update="rank-one" is the experiment it describes.'
        )
    c1, g1 = network.activation.hermite(1)[1], network.label.hermite(1)[1]
    eta = step.size(points) * np.sqrt(np.sum(pi * zeta**2))
    length = g1**2 + residual_power(network, points) / points["steps.0.batch_per_dim"]
    c = points["width_per_dim"]
    ell = (1 - points["steps.0.initial_output"] * eta * c1**2) ** 2 + (eta * c1) ** 2 * length
    root = np.sqrt(c)
    top, bottom = ell > 1 + root, ell < 1 - root
    outlier = top | bottom
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(outlier, 1 - c / (ell - 1) ** 2, np.nan)
        value = np.sqrt(ell + c * ell / (ell - 1))
        left = kept / (1 + c / (ell - 1))
        right = (eta * c1 * g1) ** 2 / ell * kept
    lower, upper = np.abs(1 - root), 1 + root
    values = {"bulk_lower": lower, "bulk_upper": upper, "spike_strength": ell, "threshold": upper}
    for end, prefix, there, edge in (("top", "", top, upper), ("bottom", "bottom_", bottom, lower)):
        values[f"{end}_singular_value"] = np.where(there, value, edge)
        values[f"{prefix}left_alignment"] = np.where(there, left, np.nan)
        values[f"{prefix}right_alignment"] = np.where(there, right, np.nan)
    return Answer.closed(values, warnings=warnings, attrs={"theory": "exact"}, approximations=approximations)


def remainder(step: WeakStep, network: Network, points: Points) -> Floats:
    """Return epsilon^2: all but the rank-one part of the gradient adds epsilon^2 zeta_i^2 to |w_i|^2."""
    eta = step.size(points)
    if step.update == "rank-one":
        return np.zeros_like(eta)
    fluctuation = residual_power(network, points) / points["steps.0.batch_per_dim"]
    power = fluctuation * slope_variance(network.activation)
    return np.asarray(eta**2 * power / (points["width_per_dim"] * points["dim"]))
