"""Eigenvalues of the feature covariance counted one by one: what a few directions
change at a finite dimension.

The means of the blocks and the learnt directions are of finite rank. They change no
density of the limit, but they move eigenvalues: k outliers above the bulk are k of the
p eigenvalues, and the bulk has so many fewer. How many eigenvalues below x they take
away is the phase of the determinant whose zeros are the outliers (Krein's spectral
shift function): with A' = A + a perturbation of finite rank

    det(A' - z)/det(A - z) = prod_j (l'_j - z)/(l_j - z), N'(x) - N(x) = -arg(.)/pi at
    z = x + i0.

It is 0 below the bulk and minus the number of outliers just above it.
"""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.solve import solve_each
from giantstep.core.readout.finite_size import FiniteSize, mean_penalty
from giantstep.core.readout.first_order import FirstOrder
from giantstep.core.readout.signal import direction_error
from giantstep.core.readout.spectrum import Spectrum

EDGE_ROOM = 4.0
"""Widths p^(-2/3) of the edge, relative to it, within which the largest eigenvalue of
the bulk of a network lies.
"""


def shift_of_counts(spectrum: Spectrum, size: FiniteSize, x: Floats) -> Floats:
    """Return by how many eigenvalues up to x the means and the learnt directions change
    the count of the bulk.

    It is mostly negative, and NaN where the equations of the channels are singular.
    Spiked_features (7.4) at z = x + i0, over the same without them. The direction of a
    channel is taken out of the bulk, which counts it among the d directions of the
    rows.
    """
    first = spectrum.density(x)[1]
    phase = _phase(_with_directions(first, size)) - _phase_without(first)
    return np.asarray(-phase / np.pi)


def _with_directions(first: FirstOrder, size: FiniteSize) -> Array:
    """Return the matrix of (7.4) for the means of the blocks and the channels (B, k +
    X, k + X).
    """
    features = first.equations.features
    response = first.response
    k = len(features.pi)
    functions = np.concatenate([features.mu0[0], features.T0[0]])
    matrix = np.einsum(
        "an,bn,cn->bac", functions, first.node_weights, functions, optimize=True
    )
    prior, absorbed = first.equations.bulk.covariance(response, features.omega)
    matrix[:, :k, :k] += mean_penalty(
        first.equations.bulk, features, response, first.node_weights, size
    )
    matrix[:, k:, k:] += (
        _inverse(prior) - absorbed + direction_error(first.equations, response)
    )
    return matrix


def _phase_without(first: FirstOrder) -> Floats:
    """Return the phase of what the bulk alone has in place of the matrix of
    `_with_directions` (B,).
    """
    features = first.equations.features
    response = first.response
    prior, absorbed = first.equations.bulk.covariance(response, features.omega)
    phase = _phase(_diagonal(1 / response.R)) + _phase(_inverse(prior))
    if np.any(
        absorbed
    ):  # such a prior knows the bulk along the directions of the channels
        return phase
    directions = features.Jp.shape[1] + (
        0 if features.kappa is None else features.kappa.shape[1]
    )
    along_one = _phase(_diagonal(1 / response.R) + response.Vh1) - _phase(
        _diagonal(1 / response.R)
    )
    return np.asarray(phase + directions * along_one)


def _phase(matrices: Array) -> Floats:
    """Return the phase of the determinant of matrices (B, m, m), whose imaginary part
    is negative: in (-m pi, 0].

    Their eigenvalues lie in the lower half-plane, so that each has a phase of its own,
    without turns.
    """
    sound = np.asarray(np.isfinite(matrices).all(axis=(1, 2)))
    phases = np.angle(np.linalg.eigvals(np.where(sound[:, None, None], matrices, 0.0)))
    # -x + 0i by rounding
    phases = np.where(phases > np.pi / 2, phases - 2 * np.pi, phases)
    return np.where(sound, phases.sum(axis=1), np.nan)


def _inverse(matrices: Array) -> Array:
    return solve_each(
        matrices, np.broadcast_to(np.eye(matrices.shape[1]), matrices.shape)
    )


def _diagonal(values: Array) -> Array:
    return values[:, :, None] * np.eye(values.shape[1])


# -- what is left open at a finite dimension -------------------------------------------


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
    return (1 + spectrum.width + 1 / spectrum.ratio) / neurons_of(spectrum, size)


def count_resolution(
    spectrum: Spectrum, size: FiniteSize, x: Floats, density: Floats
) -> Floats:
    """Return what is left open of the distribution function at x: one eigenvalue, and
    `one_more_of_each`.

    Eigenvalues that all move by a relative e move the distribution function by e x
    density(x).
    """
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
        nearness = np.maximum(1.0, finite / np.where(distance > 0, distance, 1.0))
    return np.asarray(one_more_of_each(spectrum, size) * nearness * finite)


def line_of_outliers(edge: float, outliers: Floats, neurons: float) -> float:
    """Return the line above which eigenvalues are outliers, as limit and network count
    them; NaN if there is none.

    It lies clear of what the edge of the bulk of a network does at so many neurons.
    Where an outlier is about as near to the edge, or where the bulk has no edge, no
    line parts them.
    """
    room = EDGE_ROOM * neurons ** (-2 / 3)
    if not np.isfinite(edge) or np.any(
        (outliers > edge) & (outliers < edge * (1 + 2 * room))
    ):
        return float(np.nan)
    return edge * (1 + room)
