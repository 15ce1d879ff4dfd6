"""By how much rows move in a step: the means of the blocks and the law around them,
together.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.chunks import with_zeros
from giantstep.core.base.types import Floats
from giantstep.core.maths.stacked import Stacked


@dataclass(frozen=True, eq=False)
class Motion(Stacked):
    """The rows of k blocks in R whitened coordinates, with K atoms, for M parameter
    sets; or by how much they move.

    Neuron i of block q has (U_i, B_i) = (U_q, B_q) + (JU_q, JB_q) eps_i/sqrt(d), with C
    variables eps_i.
    """

    U: Floats  # (M, k, R)
    B: Floats  # (M, k, K)
    JU: Floats  # (M, k, R, C)
    JB: Floats  # (M, k, K, C)
    # (M, K, k, C'): F of finite_size_steps (2.2), what became of the mean rows of the
    # blocks
    feedback: Floats

    def plus(self, rate: Floats, change: Motion, keep: Floats) -> Motion:
        """Return keep rows + rate change, `keep` and `rate` (M,)."""
        arrays = {}
        for name in (field.name for field in dataclasses.fields(Motion)):
            before = getattr(self, name)
            more = getattr(change, name)
            per_set = (-1, *(1,) * (before.ndim - 1))
            # coordinates and variables that the rows have gained since did not change
            if before.shape != more.shape:
                more = with_zeros(more, before.shape)
            arrays[name] = keep.reshape(per_set) * before + rate.reshape(per_set) * more
        return Motion(**arrays)

    def length(self, weights: Floats) -> Floats:
        """Return s of the rows (M, k), for the weights lambda dmu of the atoms (K,)."""
        return np.sqrt(self.B**2 @ weights)
