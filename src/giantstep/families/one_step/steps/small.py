"""The small step: one spike of finite strength."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from giantstep.families.one_step.steps.weak import WeakStep
from giantstep.scenario import Integer, Number, field
from giantstep.types import Floats, Integers, Points


class SmallStep(WeakStep):
    """One gradient step of size eta_raw = rate * sqrt(p): a finite spike, nothing non-linear is learnt.

    w_i = w0_i + (rate/sqrt(p)) zeta_i (1/n0) sum_mu r_mu sigma'(<w0_i, x_mu>) x_mu. The residual r is y - m with
    ``initial_output=0`` (the output starts at the constant m) and y - sum_j zeta_j sigma(<w_j, x>)/sqrt(p) with 1.
    ``update="rank-one"`` keeps the part c1 zeta_i X0^T r/n0 of the gradient only.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="relu(z) - 1/sqrt(2*pi)", target="z", width_per_dim=2.0, samples_per_dim=4.0,
    ...                ridge=0.2, second_layer="gaussian", step=SmallStep(rate=1.0, batch_per_dim=4.0))
    >>> bool(gs.predict(s).test_error < gs.predict(s, step__rate=0.0).test_error)
    True
    """

    if TYPE_CHECKING:

        def __init__(
            self, rate: float, batch_per_dim: float = ..., update: str = ..., initial_output: int = ...
        ) -> None: ...

    kind: Literal["small"] = "small"
    rate: Number = field("eta", "step size over the root of the width: eta_raw = rate * sqrt(p)")
    batch_per_dim: Number = field(
        "n0/d", "samples of the gradient per dimension", default=math.inf, gt=0, infinite=True
    )
    update: Literal["exact", "rank-one"] = field("update", "the whole gradient, or its rank-one part", default="exact")
    initial_output: Integer = field(
        "f0", "0: the output starts at a constant; 1: at a.sigma(Wx)", default=0, ge=0, le=1
    )

    def size(self, points: Points) -> Floats:
        """Return eta = rate."""
        return points["step.rate"]

    def spike_degrees(self, points: Points) -> Integers:
        """Return 0: no spike of the features diverges."""
        return np.zeros(len(points["ridge"]), dtype=np.int64)
