"""Where the first gradients point at a finite dimension: terms of order 1/d,
gradient_dynamics (5.2c).

The gradient of a neuron is its mean over batches, known at any d from Hermite
coefficients, and noise. The squared cosine is expanded to the second order of the
noise: along the k directions of the target and along the neuron itself (k + 1
coordinates), and of the squared length over all other directions.

One sample adds a x to the gradient, a = y s'(t). Cleaned labels lose their parts below
an order, fitted on the batch: so do y and what multiplies it, s' and, along the neuron,
s' t. Labels and t are independent as d grows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function, Plane, Target
from giantstep.core.maths.gaussian.grids import even_rule, hermite_rule, product_grid
from giantstep.core.maths.gaussian.hermite import (
    hermite_products,
    hermite_values,
    multi_indices,
    root_factorials,
)
from giantstep.problems.learnability.prepared import rules

NODES = {1: 80, 2: 60, 3: 30, 4: 20, 5: 12, 6: 10}
"""Gauss-Hermite nodes of an axis of omega, by the number of directions."""
_LINE = (1 / 64, 64)
"""Spacing of a smooth line in standard deviations, and nodes between two kinks."""


class _Noise(NamedTuple):
    """One sample's part of the gradient, a x and a t: mean, covariance, E[a^2 .], each
    (k + 1,); E a^2 and E a^4.
    """

    mean: Floats
    covariance: Floats
    skew: Floats
    second: float
    fourth: float
    # (k,), the slope of E[a^2 | w] along omega/sqrt(d), and (k, k), half of its
    # curvature
    tilt: Floats
    bend: Floats


def finite_orientation(
    target: Target,
    activation: Function,
    order: int,
    alpha: float,
    noise: float,
    cleaned: bool,
    dim: float,
) -> Floats:
    """Return E cos^2 as a matrix (k, k) over the target space at n = alpha d^order, for
    weights N(0, I/d).
    """
    below = order if cleaned else 0
    grid, _ = rules(target, target.axis_degree)
    y = np.asarray(target(grid.points), dtype=float)
    tensors = []
    for j in range(order + 4):
        products = hermite_products(grid.points, multi_indices(target.directions, j))
        tensor = products @ (grid.weights * y)
        tensors.append(tensor if j >= below else 0 * tensor)
        if j < below:
            y = y - tensor @ products
    # three nodes have the first five moments of the label noise
    nodes, shares = hermite_rule(3)
    z = np.tile(grid.points, (3, 1))
    law = np.concatenate([share * grid.weights for share in shares])
    y = np.concatenate([y + math.sqrt(noise) * node for node in nodes])
    # |w| has mean 1 - 1/4d and variance 1/2d, whatever the direction of w: two lengths have both  # noqa: E501
    matrices = []
    for length in (
        1 - 1 / (4 * dim) - 1 / math.sqrt(2 * dim),
        1 - 1 / (4 * dim) + 1 / math.sqrt(2 * dim),
    ):
        planes = [Plane((1.0,), -kink / length) for kink in activation.kinks]
        line = product_grid(1, planes, even_rule(_LINE[0]), _LINE[1])
        t = line.points[:, 0]
        share = line.weights
        s = np.asarray(activation.derivative(length * t), dtype=float)
        h = hermite_values(t, order + 3)
        # c_0 is not needed
        c = np.append(0.0, (h @ (share * s)) * root_factorials(order + 3))
        u = s * t - (h[:below] @ (share * s * t)) @ h[:below]
        s = s - (h[: max(below - 1, 0)] @ (share * s)) @ h[: max(below - 1, 0)]
        matrices.append(
            _mean_cosines(
                tensors,
                c,
                _noise(z, y, law, t, s, u, share),
                order,
                alpha,
                dim,
                cleaned,
            )
        )
    return (matrices[0] + matrices[1]) / 2


def _noise(
    z: Floats, y: Floats, law: Floats, t: Floats, s: Floats, u: Floats, share: Floats
) -> _Noise:
    k = z.shape[1]
    label = [float(law @ y**n) for n in range(5)]
    label_z = [(law * y**n) @ z for n in range(4)]
    label_zz = (z.T * (law * y * y)) @ z
    slope = [float(share @ s**n) for n in range(5)]
    mean = np.append(label_z[1] * slope[1], label[1] * float(share @ u))
    K = np.zeros((k + 1, k + 1))
    K[:k, :k], K[k, k] = slope[2] * label_zz, label[2] * float(share @ u**2)
    K[:k, k] = K[k, :k] = label_z[2] * float(share @ (s * u))
    skew = np.append(label_z[3] * slope[3], label[3] * float(share @ (s * s * u)))
    tilt = label_z[2] * float(share @ (s * s * t))
    bend = (label_zz - label[2] * np.eye(k)) * float(share @ (s * s * (t * t - 1))) / 2
    return _Noise(
        mean,
        K - np.outer(mean, mean),
        skew,
        label[2] * slope[2],
        label[4] * slope[4],
        tilt,
        bend,
    )


def _mean_cosines(
    tensors: list[Floats],
    c: Floats,
    sample: _Noise,
    order: int,
    alpha: float,
    dim: float,
    cleaned: bool,
) -> Floats:
    """Return the mean over neurons, omega = sqrt(d) W* w/|w|."""
    k = len(sample.tilt)
    samples = alpha * dim**order
    scale = dim ** (-np.arange(order + 2) / 2)
    rest = sample.second
    if rest == 0:
        return np.zeros((k, k))
    neurons = product_grid(k, (), hermite_rule(NODES[k]), 8)
    omega = neurons.points
    squared = np.sum(neurons.points**2, axis=1)
    # omega, a part of a unit vector, is not quite normal
    weights = neurons.weights * (
        1 + ((k + 2) * (2 * squared - k) - squared**2) / (4 * dim)
    )
    gradients = [
        polynomial_gradient(omega, j, tensor) for j, tensor in enumerate(tensors)
    ]
    parts = [
        tensors[0][0],
        *(np.sum(omega * gradients[j], axis=1) / j for j in range(1, order + 1)),
    ]
    own = sum(c[j + 2] * scale[j] * part for j, part in enumerate(parts)) * np.ones(
        len(omega)
    )
    signal = (
        sum(c[j + 1] * scale[j] * gradients[j + 1] for j in range(order + 2))
        + omega * own[:, None] * scale[1]
    )
    V = np.concatenate(
        [signal, (own * np.sqrt(np.maximum(1 - squared / dim, 0)))[:, None]], axis=1
    )
    lopsided = (omega @ sample.tilt) * scale[1] + np.sum(
        (omega @ sample.bend) * omega, axis=1
    ) / dim
    P = (dim - k - 1) / samples * (rest + lopsided)
    # the fit takes a part of the batch's own freedom away, from mean and noise alike
    if cleaned:
        left = 1 - 1 / (math.factorial(order - 1) * alpha * dim)
        if left <= 0:  # it takes all of it
            return np.full((k, k), np.nan)
        V = left * V
        P = left * P

    K = sample.covariance / samples
    T = np.sum(V * V, axis=1) + P
    KV = V @ K
    KP = P[:, None] * (sample.skew / rest - sample.mean) / samples
    spread = P**2 * (2 / dim + (sample.fourth / rest**2 - 1) / samples)
    square = (
        1 / T - np.trace(K) / T**2 + (4 * np.sum(V * (KV + KP), axis=1) + spread) / T**3
    )
    mixed = (V.T * (weights / T**2)) @ (2 * KV + KP)
    found: Floats = (
        (V.T * (weights * square)) @ V
        - mixed
        - mixed.T
        + K * float(np.sum(weights / T))
    )
    return found[:k, :k]


def polynomial_gradient(omega: Floats, order: int, tensor: Floats) -> Floats:
    """Return C_l(omega^(l-1), .)/(l-1)!, the gradient of sum_b E[h h_b]
    omega^b/sqrt(b!) over |b| = l.
    """
    gradient = np.zeros_like(omega)
    for index, value in zip(multi_indices(omega.shape[1], order), tensor):
        scale = value / math.sqrt(math.prod(math.factorial(power) for power in index))
        for axis, power in enumerate(index):
            if (
                power and abs(value) > 1e-14
            ):  # most coefficients of a target of many directions are rounding
                lowered = [n - (other == axis) for other, n in enumerate(index)]
                gradient[:, axis] += scale * power * np.prod(omega**lowered, axis=1)
    return gradient
