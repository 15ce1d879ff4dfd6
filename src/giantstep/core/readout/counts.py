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


def shift_of_counts(spectrum: Spectrum, size: FiniteSize, x: Floats) -> Floats:
    """Return by how many eigenvalues up to x the means and the learnt directions change
    the count of the bulk.

    It is mostly negative, and NaN where the equations of the channels are singular.
    Spiked_features (7.4) at z = x + i0, over the same without them. The direction of a
    channel is taken out of the bulk, which counts it among the d directions of the
    rows.
    """
    _, first = spectrum.density(x)
    phase = _phase(_with_directions(first, size)) - _phase_without(first)
    return np.asarray(-phase / np.pi)


def _with_directions(first: FirstOrder, size: FiniteSize) -> Array:
    """Return the matrix of (7.4) for the means of the blocks and the channels (B, k +
    X, k + X).
    """
    equations = first.equations
    features = equations.features
    response = first.response
    k = len(features.pi)
    # one set of features, many x
    functions = np.concatenate([features.mu0[0], features.T0[0]])
    matrix = np.einsum(
        "an,bn,cn->bac", functions, first.node_weights, functions, optimize=True
    )
    matrix[:, :k, :k] += mean_penalty(
        equations.bulk, features, response, first.node_weights, size
    )
    # along the directions of the channels: the prior, less what the bulk knows of it
    prior, absorbed = equations.bulk.covariance(response, features.omega)
    of_prior = _inverse(prior) - absorbed
    matrix[:, k:, k:] += of_prior + direction_error(equations, response)
    return matrix


def _phase_without(first: FirstOrder) -> Floats:
    """Return the phase of what the bulk alone has in place of the matrix of
    `_with_directions` (B,).
    """
    features = first.equations.features
    response = first.response
    prior, absorbed = first.equations.bulk.covariance(response, features.omega)
    of_rows = _phase(_diagonal(1 / response.R))
    phase = of_rows + _phase(_inverse(prior))
    # such a prior knows the bulk along the directions of the channels
    if np.any(absorbed):
        return phase
    directions = features.Jp.shape[1]
    if features.kappa is not None:
        directions += features.kappa.shape[1]
    # every direction of its own was one of the d that the rows have in the bulk
    along_one = _phase(_diagonal(1 / response.R) + response.Vh1) - of_rows
    return np.asarray(phase + directions * along_one)


def _phase(matrices: Array) -> Floats:
    """Return the phase of the determinant of matrices (B, m, m), whose imaginary part
    is negative: in (-m pi, 0].

    Their eigenvalues lie in the lower half-plane, so that each has a phase of its own,
    without turns.
    """
    # LAPACK refuses a whole stack for one matrix that is not finite
    sound = np.asarray(np.isfinite(matrices).all(axis=(1, 2)))
    phases = np.angle(np.linalg.eigvals(np.where(sound[:, None, None], matrices, 0.0)))
    # -x + 0i by rounding
    phases = np.where(phases > np.pi / 2, phases - 2 * np.pi, phases)
    return np.where(sound, phases.sum(axis=1), np.nan)


def _inverse(matrices: Array) -> Array:
    identity = np.broadcast_to(np.eye(matrices.shape[1]), matrices.shape)
    return solve_each(matrices, identity)


def _diagonal(values: Array) -> Array:
    return values[:, :, None] * np.eye(values.shape[1])
