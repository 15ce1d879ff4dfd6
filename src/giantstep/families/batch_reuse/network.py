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
    """One evaluation at pre-activations h.

    Attributes
    ----------
    loss : (N,) loss of every sample, (f - y)^2/2 or -y f.
    gradient : (p, N), F_j = d loss/d h_j.
    second_layer_gradient : (p, N), d loss/d a_j.
    """

    loss: DeviceArray
    gradient: DeviceArray
    second_layer_gradient: DeviceArray


def forward(activation: Function, loss: Loss, a: DeviceArray, h: DeviceArray, y: DeviceArray) -> Forward:
    """Evaluate the network with second layer `a` (p,) at pre-activations h (p, N) and labels y (N,)."""
    hidden = activation(h)
    output = a @ hidden
    error = output - y if loss == "square" else -y
    values = 0.5 * error**2 if loss == "square" else error * output
    return Forward(values, error * (a[:, None] * activation.derivative(h)), error * hidden)


def losses(activation: Function, loss: Loss, a: DeviceArray, h: DeviceArray, y: DeviceArray) -> DeviceArray:
    """Return the (N,) losses alone."""
    output = a @ activation(h)
    return 0.5 * (output - y) ** 2 if loss == "square" else -y * output


def hessian(activation: Function, loss: Loss, a: DeviceArray, h: DeviceArray, y: DeviceArray) -> DeviceArray:
    """Return H = dF/dh, (p, p, N), for an activation with two derivatives."""
    slope, curvature = activation.derivative(h), _second_derivative(activation, h)
    error = a @ activation(h) - y if loss == "square" else -y
    weighted = a[:, None] * slope
    p = len(a)
    matrix = weighted[:, None, :] * weighted[None, :, :] if loss == "square" else 0 * weighted[:, None] * weighted[None]
    for j in range(p):
        matrix[j, j] += a[j] * error * curvature[j]
    return matrix


_STEP = 2e-3
"""Spacing of the differences, in units of a pre-activation: rounding and the seventh derivative leave 1e-12."""


def _second_derivative(activation: Function, h: DeviceArray) -> DeviceArray:
    """Return sigma'' from the exact sigma' by central differences of sixth order (relative error about 1e-12)."""
    total = 0.0 * h
    for offset, weight in ((1, 45.0), (2, -9.0), (3, 1.0)):
        shift = offset * _STEP
        total = total + weight * (activation.derivative(h + shift) - activation.derivative(h - shift))
    return total / (60 * _STEP)
