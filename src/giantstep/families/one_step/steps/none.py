"""No step: random features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from giantstep.families.one_step.second_layer import second_layer_law
from giantstep.families.one_step.steps.base import Moved, Start, Step
from giantstep.types import Points

if TYPE_CHECKING:
    from giantstep.families.one_step.model import SpikedModel
    from giantstep.families.one_step.regimes import Regime
    from giantstep.families.one_step.scenario import OneStep


class NoStep(Step):
    """No gradient step: random features.

    The rows w_j stay uniform on the unit sphere and independent of the target.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="relu", target="tanh(z)", width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1,
    ...                step=NoStep())
    >>> round(gs.predict(s).test_error.item(), 4)
    0.2291
    """

    copies: ClassVar[int] = 1

    kind: Literal["none"] = "none"

    def model(self, scenario: OneStep, points: Points, theory: str) -> SpikedModel:
        """Return the features of unit rows without a spike."""
        from giantstep.families.one_step.model import SpikedModel

        _, pi = second_layer_law(scenario)
        count = len(points["noise"])
        ones, zeros = np.ones((count, len(pi))), np.zeros((count, len(pi)))
        return SpikedModel(pi, zeros, ones, np.ones(count), points["noise"], ones, zeros)

    def regime(self, scenario: OneStep, dim: int) -> Regime:
        """Return that of random features."""
        from giantstep.families.one_step.regimes import Regime

        return Regime("random features", -math.inf, (), ("There is no step.",))

    def move(self, scenario: OneStep, point: Points, start: Start) -> Moved:
        """Leave the rows as they are."""
        return Moved(start.network.weights, start.network.weights)
