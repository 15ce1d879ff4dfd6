"""The soft threshold of a Gaussian: what an l1 penalty makes of a weight whose field is N(mean, variance)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from giantstep.gaussian import normal_density
from giantstep.types import Floats


class SoftThreshold(NamedTuple):
    """Moments of S(x) = sign(x) (|x| - threshold)_+ for x ~ N(mean, variance).

    active : P(S != 0); first : E S; second : E S^2; absolute : E |S|.
    """

    active: Floats
    first: Floats
    second: Floats
    absolute: Floats


def soft_threshold(mean: Floats, variance: Floats, threshold: Floats) -> SoftThreshold:
    """Return the moments of the soft threshold; a threshold of 0 leaves the Gaussian as it is.

    >>> moments = soft_threshold(np.array([0.5]), np.array([2.0]), np.array([0.0]))
    >>> [round(float(part[0]), 12) for part in moments[:3]]
    [1.0, 0.5, 2.25]
    """
    root = np.sqrt(np.maximum(variance, 1e-300))
    sides = [(threshold - mean) / root, (threshold + mean) / root]
    beyond = [ndtr(-u) for u in sides]
    first = [root * (normal_density(u) - u * p) for u, p in zip(sides, beyond)]
    second = [root**2 * ((1 + u**2) * p - u * normal_density(u)) for u, p in zip(sides, beyond)]
    return SoftThreshold(beyond[0] + beyond[1], first[0] - first[1], second[0] + second[1], first[0] + first[1])
