"""A Gaussian clipped to an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import normal_density


class Clipped(NamedTuple):
    """Moments of x ~ N(mean, scale^2) clipped to [-D, D], and of the rest S = x -
    clip(x).

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
    # the ends in standard deviations, infinite ones with density and mass zero
    low = np.where(finite, (-D - mean) / scale, -np.inf)
    high = np.where(finite, (D - mean) / scale, np.inf)
    below = scipy.special.ndtr(low)
    above = scipy.special.ndtr(-high)
    at_low = normal_density(low)
    at_high = normal_density(high)
    # from here on they stand in products with those: 0 in place of inf * 0
    low = np.where(finite, low, 0.0)
    high = np.where(finite, high, 0.0)
    inside = 1 - below - above
    first = D * (above - below) + mean * inside + scale * (at_low - at_high)
    spread = scale**2 * (inside + low * at_low - high * at_high)
    second = (
        D**2 * (above + below)
        + mean**2 * inside
        + 2 * mean * scale * (at_low - at_high)
        + spread
    )
    # what is cut off above and below, E (x - D)_+ and E (-D - x)_+
    over = scale * (at_high - high * above)
    under = scale * (at_low + low * below)
    squared = scale**2 * (
        (1 + high**2) * above - high * at_high + (1 + low**2) * below + low * at_low
    )
    # far tails cancel to less than nothing by rounding
    return Clipped(
        inside=inside,
        first=first,
        second=second,
        outside=below + above,
        rest=over - under,
        rest_size=np.maximum(over + under, 0.0),
        rest_squared=np.maximum(squared, 0.0),
    )
