"""What gradient steps of every size share: conditions, regime, the directions that a batch gives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.errors import InputError
from giantstep.families.one_step.steps.base import Step
from giantstep.gaussian import Function, expectation
from giantstep.types import DeviceArray, Floats, Points

if TYPE_CHECKING:
    from giantstep.families.one_step.regimes import Regime
    from giantstep.families.one_step.scenario import OneStep


class GradientStep(Step):
    """A step along the gradient on a batch of `batch_per_dim` * d samples, of a size proportional to `rate`."""

    if TYPE_CHECKING:
        rate: float
        batch_per_dim: float

    def check_scenario(self, scenario: OneStep) -> None:
        """Refuse an activation without a derivative."""
        super().check_scenario(scenario)
        if scenario.activation.jumps:
            raise InputError(
                f"Field `activation` must have a derivative for a gradient step, but {scenario.activation.name} jumps "
                f"at {scenario.activation.jumps[0]:g}."
            )

    def size(self, points: Points) -> Floats:
        """Return eta of every point, in the normalisation eta_raw = eta sqrt(p)."""
        raise NotImplementedError

    def regime(self, scenario: OneStep, dim: int) -> Regime:
        """Tell the regime from eta as a power of the size of the batch."""
        from giantstep.families.one_step.regimes import Regime, regime_of_size

        if self.rate == 0:
            return Regime("random features", -math.inf, (), ("The rate is 0.",))
        points = {name: np.array([value]) for name, (value, _) in scenario.numeric_fields().items()}
        eta = float(self.size({**points, "dim": np.array([float(dim)])})[0])
        batch = self.batch_per_dim if math.isfinite(self.batch_per_dim) else scenario.samples_per_dim
        samples, width = max(2, round(batch * dim)), max(1, round(scenario.width_per_dim * dim))
        return regime_of_size(scenario, abs(eta), samples, width)

    def memory(self, point: Points, width: int, dim: int, chunk: int) -> int:
        """Return how many numbers the gradient needs beside the weights before and after it."""
        from giantstep.lab.network import ROW_BLOCK

        if math.isinf(float(point["step.batch_per_dim"][0])):
            return 5 * ROW_BLOCK * width
        return chunk * (2 * width + dim) + 4 * ROW_BLOCK * width


def slope_variance(activation: Function) -> float:
    """Return Var sigma'(z), what the rank-one part of the gradient leaves out."""
    square = expectation(lambda z: activation.derivative(z) ** 2, kinks=activation.kinks)[0]
    return square - activation.hermite(1)[1] ** 2


def spike_directions(spike: DeviceArray, xp: Any) -> DeviceArray:
    """Return v along the spike and v_perp, the part of w* = e_1 across it, as orthonormal columns."""
    v = spike / xp.linalg.norm(spike)
    across = -v[0] * v
    across[0] += 1.0
    return xp.stack([v, across / xp.linalg.norm(across)], axis=1)
