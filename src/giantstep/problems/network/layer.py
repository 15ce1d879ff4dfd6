"""The first layer between two steps: where the blocks of neurons are, and how their
rows spread.

few_steps_readout (3.1)-(3.5) and, for inputs with a covariance, structured_inputs
(3.1)-(3.7), of which isotropic inputs are one atom. After t steps neuron i of block q
has the row Sigma^1/2 w_i = Sigma^1/2 B_i(Sigma) b_i + U_i in whitened coordinates. U_q
is the mean over the block, `Layer.means`. What single rows have beside it is their law,
`Layer.rows`: it shifts every feature by a term of the size of the bulk, so that the
read-out needs it.

All of it is followed for M parameter sets at once (other rates, batches, ...), which
differ in numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Floats, Strings
from giantstep.core.maths.gaussian.subspaces import LEARNT
from giantstep.core.maths.stacked import Stacked
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.rows.motion import Motion
from giantstep.problems.network.rows.protocol import Rows
from giantstep.problems.network.tolerances import (
    CANCELLED,
    DIVERGED,
    MOST_LEARNT,
    WEAKEST,
)

TOO_MANY = f"more than {MOST_LEARNT} learnt directions"
DIVERGES = "the weights grow without bound (|w|^2 above 1e8)"
CANCELS = "the step cancels the initial weights of a block (bulk scale s = 0)"


@dataclass(frozen=True, eq=False)
class Layer(Stacked):
    """The first layer after some steps.

    Directions of batch noise are further coordinates on which the target does not
    depend: columns of zeros of `frame`.
    """

    means: Floats  # U (M, k, R)
    frame: Floats  # (M, r, R): the target's directions
    rows: Rows
    # what momentum carries on; None before the first step that has one
    velocity: Motion | None = None

    def __len__(self) -> int:
        return len(self.means)

    def scale(self, problem: Problem) -> Floats:
        """Return the length s_q of the rows without their means (M, k)."""
        return self.rows.scale(problem)

    def squared_length(self, problem: Problem) -> Floats:
        """Return |w|^2 of the rows of every block (M, k)."""
        return np.sum(self.means**2, axis=2) + self.scale(problem) ** 2


def least_spike(problem: Problem, layer: Layer) -> Floats:
    """Return the strength (M,) of the weakest direction that the rows have learnt, in
    units of their bulk; inf: none.

    Without a limit on the dimension a fit finds a spike of any strength, so that the
    limit jumps where it vanishes.
    """
    in_units = layer.means / layer.scale(problem)[..., None]
    relative = in_units * np.sqrt(problem.pi)[..., None]
    # a set that diverges would make the whole stack fail
    broken = ~np.isfinite(relative).all(axis=(1, 2), keepdims=True)
    strengths = np.linalg.svd(np.where(broken, 0.0, relative), compute_uv=False)
    beyond_rounding = strengths > WEAKEST * np.maximum(strengths[:, :1], 1.0)
    spikes = np.where(beyond_rounding, strengths, np.inf)
    return np.min(spikes, axis=1, initial=np.inf)


def trouble(problem: Problem, layer: Layer) -> Strings:
    """Return why each parameter set cannot be used further, or nothing."""
    means = layer.means
    reasons = np.full(len(layer), "", dtype=object)
    if min(means.shape[1:]) > MOST_LEARNT:
        finite = np.where(np.isfinite(means), means, 0.0)
        values = np.linalg.svd(finite, compute_uv=False)
        rounding = LEARNT * np.maximum(1.0, values.max(axis=1, initial=0.0))
        learnt = np.sum(values > rounding[:, None], axis=1)
        reasons[learnt > MOST_LEARNT] = TOO_MANY
    # the last reason that holds is the one that is given: what diverges is also NaN
    # elsewhere
    reasons[np.min(layer.scale(problem), axis=1) < CANCELLED] = CANCELS
    norm = layer.squared_length(problem)
    reasons[~np.all(norm < DIVERGED, axis=1)] = DIVERGES
    return reasons
