"""The growing step: spikes of one degree of the learnt direction after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.families.one_step.steps.weak import WeakStep
from giantstep.scenario import Integer, Number, field
from giantstep.types import Floats, Integers, Points


class GrowingStep(WeakStep):
    """One gradient step of size eta_raw = rate * n0^exponent * sqrt(p): polynomial spikes appear one after the other.

    As `SmallStep`, with rate * n0^exponent in place of rate. Degree k of the learnt direction is fitted once the
    exponent passes (k-1)/(2k).

    >>> import giantstep as gs
    >>> step = GrowingStep(rate=1.0, exponent=0.3, batch_per_dim=4.0, update="rank-one")
    >>> s = gs.OneStep(activation="relu(z) - 1/sqrt(2*pi)", target="h1(z) + h2(z)/sqrt(2)", width_per_dim=2.0,
    ...                samples_per_dim=4.0, ridge=0.2, second_layer="gaussian", step=step)
    >>> gs.predict(s, step__exponent=[0.1, 0.3, 0.38]).test_error.values.round(3)  # the plateaus of the stairs
    array([1.34 , 0.976, 0.94 ])
    """

    if TYPE_CHECKING:

        def __init__(
            self, rate: float, exponent: float, batch_per_dim: float, update: str = ..., initial_output: int = ...
        ) -> None: ...

    kind: Literal["growing"] = "growing"
    rate: Number = field("eta/n0^alpha", "step size: eta_raw = rate * n0^exponent * sqrt(p)")
    exponent: Number = field("alpha", "growth of the step with the batch", ge=0, lt=0.5)
    batch_per_dim: Number = field("n0/d", "samples of the gradient per dimension", gt=0)
    update: Literal["exact", "rank-one"] = field("update", "the whole gradient, or its rank-one part", default="exact")
    initial_output: Integer = field(
        "f0", "0: the output starts at a constant; 1: at a.sigma(Wx)", default=0, ge=0, le=1
    )

    def check_dimension(self, points: Points, what: str) -> None:
        """Refuse questions about the spikes where no dimension is given."""
        super().check_dimension(points, what)
        if what in ("weights", "spikes") and np.any(np.isinf(points["dim"])):
            raise InputError(
                f'Field `dim` must be given for what="{what}" after a GrowingStep: its spikes grow with the dimension.'
            )

    def size(self, points: Points) -> Floats:
        """Return eta = rate n0^exponent."""
        return points["step.rate"] * (points["step.batch_per_dim"] * points["dim"]) ** points["step.exponent"]

    def spike_degrees(self, points: Points) -> Integers:
        """Return l with (l-1)/(2l) < exponent < l/(2l+2): step_size_regimes section 7."""
        exponent = points["step.exponent"]
        stairs = 1 / (1 - 2 * exponent)
        boundary = np.abs(stairs - np.round(stairs)) < 1e-9
        if boundary.any():
            allowed = "off the boundaries (l-1)/(2l) of the regimes (0 is a SmallStep), unless dim is given"
            raise bad_field("step.exponent", exponent[boundary][0], allowed)
        return np.floor(stairs).astype(np.int64)
