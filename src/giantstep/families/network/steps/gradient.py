"""What gradient steps of every size share: conditions, regime, memory, the directions that a batch gives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from giantstep.errors import InputError
from giantstep.families.network.steps.base import Place, Step
from giantstep.gaussian import Function, expectation
from giantstep.types import DeviceArray, Floats, Points


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


def spike_directions(spike: DeviceArray, xp: Any) -> DeviceArray:
    """Return v along the spike and v_perp, the part of w* = e_1 across it, as orthonormal columns.

    Where nothing is across, v_perp is the second axis.
    """
    v = spike / xp.linalg.norm(spike)
    across = -v[0] * v
    across[0] += 1.0
    if float(xp.linalg.norm(across)) < 1e-12:
        return xp.eye(len(v), 2)
    return xp.stack([v, across / xp.linalg.norm(across)], axis=1)
