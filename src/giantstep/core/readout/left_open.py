"""What a theory at a finite dimension leaves open of a spectrum."""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.readout.finite_size import FiniteSize
from giantstep.core.readout.spectrum import Spectrum

EDGE_ROOM = 4.0
"""Widths p^(-2/3) of the edge, relative to it, within which the largest eigenvalue of
the bulk of a network lies.
"""


def neurons_of(spectrum: Spectrum, size: FiniteSize) -> float:
    """Return the number of neurons p, inf in the limit."""
    if size.in_limit:
        return np.inf
    return spectrum.width / float(size.inverse_dim[0])


def one_more_of_each(spectrum: Spectrum, size: FiniteSize) -> float:
    """Return the relative size 1/n + 1/p + 1/d of one sample, one neuron and one
    dimension more or less.

    The theory at d does not know the sizes better than that: which of the directions
    the rows or the samples spend elsewhere, and what the features have beyond a
    Gaussian law, counts like a few of them.
    """
    # in units of p: n = ratio p and d = p/width
    return (1 + spectrum.width + 1 / spectrum.ratio) / neurons_of(spectrum, size)


def count_resolution(
    spectrum: Spectrum, size: FiniteSize, x: Floats, density: Floats
) -> Floats:
    """Return what is left open of the distribution function at x: one eigenvalue, and
    `one_more_of_each`.

    Eigenvalues that all move by a relative e move the distribution function by e x
    density(x).
    """
    # a density that was not solved adds nothing
    moved = one_more_of_each(spectrum, size) * x * np.nan_to_num(density)
    return np.asarray(1 / neurons_of(spectrum, size) + moved)


def outlier_resolution(
    spectrum: Spectrum, size: FiniteSize, outliers: Floats, edge: float
) -> Floats:
    """Return what is left open of the positions of outliers: `one_more_of_each`, and
    more near the edge.

    There an outlier moves as the edge and its distance to it together: by z/(z - edge)
    times as much.
    """
    finite = np.where(np.isfinite(outliers), outliers, 0.0)
    nearness = np.ones(len(finite))
    if np.isfinite(edge):
        distance = np.abs(finite - edge)
        # an outlier at the edge itself counts as one that is far
        nearness = finite / np.where(distance > 0, distance, 1.0)
        nearness = np.maximum(1.0, nearness)
    return np.asarray(one_more_of_each(spectrum, size) * nearness * finite)


def line_of_outliers(edge: float, outliers: Floats, neurons: float) -> float:
    """Return the line above which eigenvalues are outliers, as limit and network count
    them; NaN if there is none.

    It lies clear of what the edge of the bulk of a network does at so many neurons.
    Where an outlier is about as near to the edge, or where the bulk has no edge, no
    line parts them.
    """
    if not np.isfinite(edge):
        return float(np.nan)
    # the largest eigenvalue of a bulk fluctuates on the scale p^(-2/3)
    room = EDGE_ROOM * neurons ** (-2 / 3)
    near = (outliers > edge) & (outliers < edge * (1 + 2 * room))
    if np.any(near):
        return float(np.nan)
    return edge * (1 + room)
