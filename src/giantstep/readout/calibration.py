"""How far outputs can be trusted: probabilities of classes, and intervals of regression.

beyond_the_error section 3, at inputs of a rule where the output is Gaussian with a given mean and variance. Whoever
makes the rule sees to it that it resolves where the output changes its sign.
"""

from __future__ import annotations

import numpy as np

from giantstep.gaussian import normal_distribution
from giantstep.types import Floats


def wrong_signs(mean: Floats, variance: Floats, positive: Floats, weights: Floats) -> float:
    """Return how often the sign of the output is not the label, P(y = 1|z) = positive (N,): (3.5)."""
    up = normal_distribution(-mean / np.sqrt(np.maximum(variance, 1e-300)))
    return float(weights @ (positive * up + (1 - positive) * (1 - up)))
