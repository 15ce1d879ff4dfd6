"""What gradient steps of every size share: conditions, regime, memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from giantstep.errors import InputError
from giantstep.families.network.steps.base import Place, Step
from giantstep.gaussian import Function, expectation
from giantstep.types import Floats, Points


class GradientStep(Step):
    """A step along the gradient on a batch of `batch_per_dim` * d samples, of a size proportional to `rate`."""

    if TYPE_CHECKING:
        rate: float
        batch_per_dim: float

    def check_place(self, place: Place) -> None:
        """Refuse an activation without a derivative."""
        activation = place.network.activation
        if activation.jumps:
            raise InputError(
                f"Field `activation` must have a derivative for a gradient step, but {activation.name} jumps at "
                f"{activation.jumps[0]:g}; take a smooth one such as tanh(5*z), or no gradient step."
            )

    def size(self, points: Points, number: int = 0) -> Floats:
        """Return eta of every point, in the normalisation eta_raw = eta sqrt(p)."""
        raise NotImplementedError

    def samples(self, place: Place, point: Points, dim: int) -> float:
        """Return the size of the batch."""
        batch = float(point[place.field("batch_per_dim")][0]) * dim
        return max(1, round(batch)) if math.isfinite(batch) else math.inf

    def memory(self, place: Place, point: Points, width: int, dim: int, chunk: int) -> int:
        """Return how many numbers the gradient needs beside the weights before and after it."""
        from giantstep.lab.network import ROW_BLOCK
        from giantstep.lab.population_gradient import gradient_memory

        if math.isinf(float(point[place.field("batch_per_dim")][0])):
            return gradient_memory(width)
        return chunk * (2 * width + dim) + 4 * ROW_BLOCK * width


def slope_variance(activation: Function) -> float:
    """Return Var sigma'(z), what the rank-one part of the gradient leaves out."""
    square = expectation(lambda z: activation.derivative(z) ** 2, kinks=activation.kinks)[0]
    return square - activation.hermite(1)[1] ** 2
