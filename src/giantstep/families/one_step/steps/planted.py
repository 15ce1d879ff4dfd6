"""A spike planted by hand: the spiked random-features model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.families.one_step.second_layer import second_layer_law, warn_of_gaussian
from giantstep.families.one_step.steps.base import Moved, Start, Step
from giantstep.scenario import Number, Numbers, field
from giantstep.types import DeviceArray, Points

if TYPE_CHECKING:
    from giantstep.families.one_step.model import SpikedModel
    from giantstep.families.one_step.regimes import Regime
    from giantstep.families.one_step.scenario import OneStep


class PlantedSpike(Step):
    """The spiked random-features model: w_i = s_q w0_i + u_q v, with |v| = 1 and <v, w*> = gamma, planted by hand.

    A single number as `strength` multiplies the values of the vocabulary; a list gives u_q block by block. `bulk` is
    s_q, one number for all blocks or a list.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="relu", target="tanh(z)", width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1,
    ...                second_layer=gs.Vocabulary([1, -1]), step=PlantedSpike(strength=1.0, alignment=0.5))
    >>> gs.predict(s, step__alignment=[0.0, 0.5, 1.0]).test_error.values.round(3)
    array([0.257, 0.202, 0.041])
    """

    if TYPE_CHECKING:

        def __init__(
            self, strength: float | Sequence[float] = ..., bulk: float | Sequence[float] = ..., alignment: float = ...
        ) -> None: ...

    copies: ClassVar[int] = 2

    kind: Literal["planted"] = "planted"
    strength: Number | Numbers = field(
        "u_q", "size of the spike in each block (a number multiplies the vocabulary)", default=1.0
    )
    bulk: Number | Numbers = field("s_q", "scale of the initial weights in each block", default=1.0)
    alignment: Number = field("gamma", "cosine between the spike and the target direction", default=1.0, ge=-1, le=1)

    def check_scenario(self, scenario: OneStep) -> None:
        """Refuse lists that do not have one number for each block, and blocks without initial weights."""
        super().check_scenario(scenario)
        if scenario.second_layer == "gaussian" and not isinstance(self.strength, float):
            raise bad_field("step.strength", list(self.strength), 'one number where second_layer="gaussian"')
        for name, value in (("strength", self.strength), ("bulk", self.bulk)):
            if not isinstance(value, float) and len(value) != scenario.blocks:
                allowed = f"one number or a list of {scenario.blocks}, one per block"
                raise bad_field(f"step.{name}", list(value), allowed)
        if np.any(np.atleast_1d(self.bulk) == 0):
            raise bad_field("step.bulk", self.bulk, "different from 0")

    def warnings(self, scenario: OneStep, points: Points) -> list[str]:
        """Warn of a continuous second layer without a dimension."""
        return warn_of_gaussian(scenario, points)

    def model(self, scenario: OneStep, points: Points, theory: str) -> SpikedModel:
        """Return the features as they were planted."""
        from giantstep.families.one_step.model import SpikedModel

        zeta, pi = second_layer_law(scenario)
        ones = np.ones((len(points["noise"]), len(pi)))
        if "step.strength" in points:
            strength = points["step.strength"][:, None] * zeta
        else:
            strength = np.array(self.strength) * ones
        bulk = points["step.bulk"][:, None] * ones if "step.bulk" in points else np.array(self.bulk) * ones
        return SpikedModel(pi, strength, bulk, points["step.alignment"], points["noise"], ones, 0 * ones)

    def regime(self, scenario: OneStep, dim: int) -> Regime:
        """Refuse: what is planted has no step size."""
        raise InputError("A regime belongs to a gradient step, but this spike is planted.")

    def move(self, scenario: OneStep, point: Points, start: Start) -> Moved:
        """Plant the spike along e_1, with w* = gamma e_1 + sqrt(1 - gamma^2) e_2 (spiked_features section 8)."""
        rows, gamma = start.network.weights, float(point["step.alignment"][0])
        strength = _by_neuron("step.strength", self.strength, point, start)
        weights = rows * _by_neuron("step.bulk", self.bulk, point, start)[:, None]
        weights[:, 0] += strength * start.second_layer if isinstance(self.strength, float) else strength
        return Moved(weights, rows, aim=(gamma, math.sqrt(max(1 - gamma * gamma, 0.0))))


def _by_neuron(name: str, value: float | tuple[float, ...], point: Points, start: Start) -> DeviceArray:
    values = np.broadcast_to(float(point[name][0]) if isinstance(value, float) else value, len(start.blocks))
    return start.draws.xp.asarray(np.repeat(values, [block.stop - block.start for block in start.blocks]))
