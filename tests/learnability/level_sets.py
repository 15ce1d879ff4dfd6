"""The generative exponent of a function of one variable, exactly, from the ends of its
level sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.hermite import hermite_values, root_factorials
from giantstep.core.maths.gaussian.quadrature import normal_density

THRESHOLD = 1e-8
"""Root mean square of A_k over the levels below which it counts as zero; ends of level
sets are known to rounding.
"""
_LEVELS = 97
"""Thresholds of the label at which level sets are taken, at even quantiles."""
_REACH = 8.5
_STEP = 1 / 400
"""Range of z, in standard deviations, and the grid on which ends of level sets are
looked for.
"""


def level_coefficients(
    h: Callable[[Floats], Floats],
    highest: int,
    kinks: Iterable[float] = (),
    levels: int = _LEVELS,
) -> Floats:
    """Return A_k(t) = E[1{h <= t} He_k]/sqrt(k!) for k = 1..highest at thresholds t: an
    array (highest, levels).

    With e_j = -1 where the set lies left of its end u_j and +1 where it lies right,
    A_k = sum_j e_j He_{k-1}(u_j) phi(u_j), gradient_dynamics (1.1a). The ends are
    bisected on the indicator itself: right at jumps and on flat pieces.
    """
    from scipy.special import ndtri

    quantiles = ndtri((np.arange(8 * levels) + 0.5) / (8 * levels))
    thresholds = np.quantile(h(quantiles), (np.arange(levels) + 0.5) / levels)
    grid = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    around = [kink + shift for kink in kinks for shift in (-1e-9, 1e-9)]
    grid = np.unique(np.concatenate([grid, around]))
    inside = h(grid)[None, :] <= thresholds[:, None]
    row, cell = np.nonzero(inside[:, 1:] != inside[:, :-1])
    low = grid[cell]
    high = grid[cell + 1]
    first = inside[row, cell]
    level = thresholds[row]
    for _ in range(60):
        middle = 0.5 * (low + high)
        same = (h(middle) <= level) == first
        low = np.where(same, middle, low)
        high = np.where(same, high, middle)
    ends = 0.5 * (low + high)
    weight = np.where(first, -1.0, 1.0) * normal_density(ends)
    values = (
        hermite_values(ends, highest - 1)
        * root_factorials(highest - 1)[:, None]
        * weight
    )
    total = np.zeros((highest, levels))
    for k in range(highest):
        np.add.at(total[k], row, values[k])
    return total / root_factorials(highest)[1:, None]


def generative_exponent(
    h: Callable[[Floats], Floats], highest: int, kinks: Iterable[float] = ()
) -> tuple[float, Floats]:
    """Return the first k with E[He_k(z)|h(z)] not identically 0 (inf if none is found),
    and rms_t |A_k| for all k.

    >>> (
    ...     generative_exponent(lambda z: z**3 - 3 * z, 6)[0],
    ...     generative_exponent(lambda z: z**2 * np.exp(-(z**2)), 6)[0],
    ... )
    (1.0, 4.0)
    """
    sizes = np.sqrt(np.mean(level_coefficients(h, highest, kinks) ** 2, axis=1))
    seen = np.flatnonzero(sizes > THRESHOLD)
    return (float(seen[0] + 1) if len(seen) else math.inf), sizes
