"""Gaussian residuals under Huber's loss: clipped moments and tails in closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from giantstep.gaussian import normal_density
from giantstep.types import Floats


class Clipped(NamedTuple):
    """Moments of r ~ N(mean, scale^2) clipped to [-reach, reach], and of what is cut off."""

    inside: Floats
    first: Floats
    second: Floats
    excess: Floats
    excess_squared: Floats


def clipped_moments(mean: Floats, scale: Floats, reach: Floats) -> Clipped:
    """Return P(|r| < D), E clip(r), E clip(r)^2, E(|r| - D)_+ and E(|r| - D)_+^2, D = reach (may be infinite).

    >>> moments = clipped_moments(np.array([0.0]), np.array([1.0]), np.array([np.inf]))
    >>> float(moments.inside[0]), float(moments.second[0])
    (1.0, 1.0)
    """
    finite = np.isfinite(reach)
    D = np.where(finite, reach, 0.0)
    low = np.where(finite, (-D - mean) / scale, -np.inf)
    high = np.where(finite, (D - mean) / scale, np.inf)
    below, above = ndtr(low), ndtr(-high)
    at_low, at_high = normal_density(low), normal_density(high)
    low, high = np.where(finite, low, 0.0), np.where(finite, high, 0.0)
    inside = 1 - below - above
    first = D * (above - below) + mean * inside + scale * (at_low - at_high)
    spread = scale**2 * (inside + low * at_low - high * at_high)
    second = D**2 * (above + below) + mean**2 * inside + 2 * mean * scale * (at_low - at_high) + spread
    excess = scale * (at_high - high * above + at_low + low * below)
    squared = scale**2 * ((1 + high**2) * above - high * at_high + (1 + low**2) * below + low * at_low)
    return Clipped(inside, first, second, np.maximum(excess, 0.0), np.maximum(squared, 0.0))
