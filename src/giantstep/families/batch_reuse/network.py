"""The two-layer network of finite width on one sample: output, losses, and their gradient F in the pre-activations.

f(h) = sum_j a_j sigma(h_j). Arrays have the samples along the last axis, NumPy or CuPy; nothing here knows the theory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from giantstep.gaussian import Function
from giantstep.types import DeviceArray

Loss = Literal["square", "correlation"]


@dataclass(frozen=True)
class Forward:
    """One evaluation at pre-activations h."""

    loss: DeviceArray  # (N,) loss of every sample, (f - y)^2/2 or -y f
    gradient: DeviceArray  # (p, N), F_j = d loss/d h_j
    second_layer_gradient: DeviceArray  # (p, N), d loss/d a_j


def forward(activation: Function, loss: Loss, a: DeviceArray, h: DeviceArray, y: DeviceArray) -> Forward:
    """Evaluate the network with second layer `a` (p,) at pre-activations h (p, N) and labels y (N,)."""
    hidden = activation(h)
    output = a @ hidden
    error = output - y if loss == "square" else -y
    values = 0.5 * error**2 if loss == "square" else error * output
    return Forward(values, error * (a[:, None] * activation.derivative(h)), error * hidden)
