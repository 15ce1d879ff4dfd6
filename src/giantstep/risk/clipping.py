"""A Gaussian clipped to an interval, and the rest of it: Huber's loss of residuals, the soft threshold of l1 penalties.

With clip(x) in [-D, D] the rest x - clip(x) = sign(x) (|x| - D)_+ is the soft threshold of x: mixture_glm section 2.2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from giantstep.gaussian import normal_density
from giantstep.types import Floats


class Clipped(NamedTuple):
    """Moments of x ~ N(mean, scale^2) clipped to [-D, D], and of the rest S = x - clip(x).

    inside : P(|x| < D); first : E clip(x); second : E clip(x)^2.
    outside : P(S != 0); rest : E S; rest_size : E |S|; rest_squared : E S^2.
    """

    inside: Floats
    first: Floats
    second: Floats
    outside: Floats
    rest: Floats
    rest_size: Floats
    rest_squared: Floats


def clipped_moments(mean: Floats, scale: Floats, reach: Floats) -> Clipped:
    """Return the moments for D = reach, which may be infinite.

    >>> moments = clipped_moments(np.array([0.0]), np.array([1.0]), np.array([np.inf]))
    >>> float(moments.inside[0]), float(moments.second[0])
    (1.0, 1.0)
    """
    finite = np.isfinite(reach)
    D = np.where(finite, reach, 0.0)
    low = np.where(finite, (-D - mean) / scale, -np.inf)
    high = np.where(finite, (D - mean) / scale, np.inf)
    below, above = scipy.special.ndtr(low), scipy.special.ndtr(-high)
    at_low, at_high = normal_density(low), normal_density(high)
    low, high = np.where(finite, low, 0.0), np.where(finite, high, 0.0)
    inside = 1 - below - above
    first = D * (above - below) + mean * inside + scale * (at_low - at_high)
    spread = scale**2 * (inside + low * at_low - high * at_high)
    second = D**2 * (above + below) + mean**2 * inside + 2 * mean * scale * (at_low - at_high) + spread
    over, under = scale * (at_high - high * above), scale * (at_low + low * below)
    squared = scale**2 * ((1 + high**2) * above - high * at_high + (1 + low**2) * below + low * at_low)
    return Clipped(
        inside, first, second, below + above, over - under, np.maximum(over + under, 0.0), np.maximum(squared, 0.0)
    )
