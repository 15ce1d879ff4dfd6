"""No step: random features."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from giantstep.families.network.steps.base import Step
from giantstep.types import Points

if TYPE_CHECKING:
    from giantstep.families.network.layer import Layer
    from giantstep.families.network.problem import Problem
    from giantstep.families.network.trained import Trained


class NoStep(Step):
    """No gradient step: random features.

    The rows w_j stay uniform on the unit sphere and independent of the target.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="relu", target="tanh(z)", width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1,
    ...                second_layer=gs.Vocabulary([1]), step=NoStep())
    >>> round(gs.predict(s).test_error.item(), 4)
    0.2291
    """

    learns: ClassVar[bool] = False
    strong: ClassVar[bool] = False

    kind: Literal["none"] = "none"

    def advance(self, problem: Problem, layer: Layer, number: int, theory: str) -> Layer:
        """Leave the layer as it is."""
        return layer

    def train(self, trained: Trained, number: int, point: Points) -> Trained:
        """Leave the rows as they are."""
        return trained
