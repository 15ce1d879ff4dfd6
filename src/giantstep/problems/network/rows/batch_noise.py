"""The noise of a finite batch as a part of every row, an approximation.

few_steps_readout (6.1)-(6.3), structured_inputs (7.1)-(7.2). What all neurons share of
it are further directions of their means; what each has for itself widens the bulk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.problems.network.rows.protocol import Descent
from giantstep.problems.network.tolerances import RANK

if TYPE_CHECKING:
    from giantstep.problems.network.gradient import Gradient
    from giantstep.problems.network.problem import Problem
    from giantstep.problems.network.rows.followed import FollowedRows


class BatchNoise(NamedTuple):
    """The noise that a batch has added to rows, for M parameter sets."""

    shared: Floats  # (M, k, k): covariance of what all neurons share
    common: Floats  # (M, k): its diagonal
    tau: Floats  # (M, k): standard deviation of what each neuron has for itself
    B: Floats  # (M, k, K): the bulk rows, wider by that
    shrinks: Floats  # (M, k): what is left of the earlier spread of the lengths
    own_length: Floats  # (M, k): spread of the lengths by a neuron's own noise


def noise_of(
    problem: Problem, rows: FollowedRows, gradient: Gradient, descent: Descent
) -> BatchNoise:
    """Return the noise of the batch of a step on these rows, as they are after the step
    without it.
    """
    inputs = problem.inputs
    lam = inputs.eigenvalues
    samples = descent.samples[:, None]
    shared = gradient.common / samples[..., None]
    common = np.diagonal(shared, axis1=1, axis2=2)
    alone = gradient.total / samples - common
    # rounding may leave less than nothing
    own = np.maximum(descent.strength**2 * alone, 0.0)
    B = np.sqrt(rows.B**2 + own[..., None] * lam)
    s = np.sqrt(inputs.average(lam * B**2))
    # s^2 = |w + xi|^2: the cross term and the square of the noise, independent of each
    # other
    cross = inputs.average(lam**3 * rows.B**2)
    square = inputs.average(lam**4)
    return BatchNoise(
        shared=shared,
        common=common,
        tau=np.sqrt(own),
        B=B,
        shrinks=rows.scale(problem) / s,
        own_length=np.sqrt(4 * own * cross + 2 * own**2 * square) / (2 * s),
    )


def shared_directions(noise: BatchNoise, strength: Floats) -> Floats:
    """Return what the noise that all neurons share adds to the means (M, k, F), along
    orthogonal directions.
    """
    values, vectors = np.linalg.eigh(noise.shared)
    rounding = RANK * values.max(axis=1, keepdims=True)
    # as many directions for every set
    kept = np.any(values > rounding, axis=0)
    sizes = np.sqrt(np.maximum(values[:, None, kept], 0.0))
    directions: Floats = strength[..., None] * sizes * vectors[..., kept]
    return directions


def feedback_with_noise(
    problem: Problem, rows: FollowedRows, noise: BatchNoise
) -> Floats:
    """Return the feedback (M, K, k, C') with the mean of the noise of every block:
    finite_size_steps (2.7).
    """
    lam = problem.inputs.eigenvalues
    tau = noise.tau[:, None, :, None]
    means = np.sqrt(lam)[:, None, None] * tau * np.eye(tau.shape[2])
    return np.concatenate([rows.feedback, means], axis=3)
