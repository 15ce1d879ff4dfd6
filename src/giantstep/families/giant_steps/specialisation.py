"""Orientation of the first gradients: one direction for n of order d, many for n of order d^l.

G_i = (1/n) sum y s'(w_i.x) x at random weights, with omega_i = sqrt(d) W* w_i ~ N(0, I_k). At n = alpha d^l the signal
(c_l/(l-1)!) C_l(omega^(l-1), .) and the noise E[y^2] E[s'^2]/alpha are of the same order, once the Hermite components
of the labels below order l are taken away, gradient_dynamics section 5.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from giantstep.errors import InputError
from giantstep.gaussian import Function, Target
from giantstep.gaussian.grids import hermite_rule, product_grid
from giantstep.gaussian.hermite import hermite_products, multi_indices, root_factorials
from giantstep.learnability.prepared import rules
from giantstep.types import Floats

_NODES = {1: 80, 2: 60, 3: 30, 4: 20, 5: 12, 6: 10}
"""Gauss-Hermite nodes of an axis of omega, by the number of directions."""


@dataclass(frozen=True)
class Statistics:
    """What the orientation depends on."""

    directions: int  # k
    tensors: tuple[Floats, ...]  # by order, the normalised coefficients E[h h_b] of the target, b as in `multi_indices`
    second: float  # E h^2
    c: Floats  # c_0, c_1, ... of the activation
    slope_second: float  # E s'^2

    def energy(self, order: int) -> float:
        """E of the squared Hermite component of one order."""
        return float(self.tensors[order] @ self.tensors[order])


def statistics(target: Target, activation: Function, highest: int) -> Statistics:
    """Return the Hermite components of the target up to an order, and those of the activation."""
    fine, _ = rules(target, target.axis_degree)
    y = np.asarray(target(fine.points), dtype=float)
    indices = (multi_indices(target.directions, order) for order in range(highest + 1))
    tensors = tuple(hermite_products(fine.points, of_order) @ (fine.weights * y) for of_order in indices)
    c = activation.hermite(highest + 1) * root_factorials(highest + 1)
    slope = Function(activation.derivative, kinks=activation.kinks)
    return Statistics(
        target.directions, tensors, float(fine.weights @ (y * y)), c, float(slope.second_moment(0.0, 1.0))
    )


def spread_of(matrix: Floats) -> float:
    """Return (tr C)^2/tr C^2: 1 where all gradients point one way, k where they spread evenly."""
    trace, size = float(np.trace(matrix)), float(np.sum(matrix**2))
    return trace**2 / size if size > 0 else 0.0


def orientation(
    hermite: Statistics, order: float, alpha: float, noise: float, cleaned: bool, dim: float
) -> tuple[Floats, float]:
    """Return E cos^2 as a matrix (k, k) over the target space and the cosine of the spike at n = alpha d^order.

    A finite ``dim`` adds (1 - cos^2)/d in every direction.

    Cleaned labels lose their Hermite parts below the order as fitted on the batch itself. That takes away the noise
    of those parts too: E[s'^2] becomes E[s'^2] - sum_{j <= order-2} c_{j+1}^2/j!. Raw labels show their lowest part.
    """
    level, size, k = round(order), hermite.second + noise, hermite.directions
    if cleaned:
        size -= sum(hermite.energy(below) for below in range(level))
        slope = hermite.slope_second - sum(hermite.c[j + 1] ** 2 / math.factorial(j) for j in range(level - 1))
        seen, noise_size = level, size * slope / alpha
    else:
        seen = next((m for m in range(1, level) if _dominates(hermite, m)), level)
        noise_size = size * hermite.slope_second / alpha if seen == level else 0.0
    if seen == 1:
        C1, C0 = hermite.tensors[1], 0.0 if cleaned else float(hermite.tensors[0][0])
        linear, effective = hermite.c[1] * C1, alpha if level == 1 else math.inf
        total = float(linear @ linear) + hermite.c[2] ** 2 * C0**2 + noise_size
        matrix = np.outer(linear, linear) / total if total > 0 else np.zeros((k, k))
        spread = float(C1 @ C1) + size / effective
        spike = math.sqrt(float(C1 @ C1) / spread) if spread > 0 else 0.0
    else:
        matrix, spike = _random_orientation(hermite, seen, noise_size), 0.0
    if math.isfinite(dim):
        matrix = matrix + (1 - np.trace(matrix)) / dim * np.eye(k)
    return matrix, spike


def _dominates(hermite: Statistics, order: int) -> bool:
    """Tell whether a part of the labels below order l dominates the gradient: C_1 or C_0 c_2, then C_2, ..."""
    floor = 1e-14 * hermite.second
    if order == 1 and (hermite.c[2] * hermite.tensors[0][0]) ** 2 > floor:
        return True
    return hermite.energy(order) * hermite.c[order] ** 2 > floor


def _random_orientation(hermite: Statistics, level: int, noise: float) -> Floats:
    """Return E[v v^T/(|v|^2 + noise)] for v = (c_l/(l-1)!) C_l(omega^(l-1), .), omega ~ N(0, I_k)."""
    k = hermite.directions
    grid = product_grid(k, (), hermite_rule(_NODES[k]), 8)
    v = np.zeros_like(grid.points)
    for index, value in zip(multi_indices(k, level), hermite.tensors[level]):
        # C_l(omega^(l-1), .)/(l-1)! is the gradient of the polynomial sum_b C_b omega^b/b!, C_b = sqrt(b!) E[h h_b]
        scale = value / math.sqrt(math.prod(math.factorial(n) for n in index))
        for axis, power in enumerate(index):
            if power:
                lowered = [n - (other == axis) for other, n in enumerate(index)]
                v[:, axis] += scale * power * np.prod(grid.points**lowered, axis=1)
    v *= hermite.c[level]
    total = np.sum(v * v, axis=1) + noise
    if np.all(total == 0):
        return np.zeros((k, k))
    unit = v / np.sqrt(np.where(total > 0, total, 1.0))[:, None]
    return (unit.T * grid.weights) @ unit


def check_order(order: float) -> None:
    """Refuse a batch exponent that is not whole: between whole ones nothing new is seen."""
    if order != round(order):
        raise InputError(
            f'Field `batch_exponent` must be whole where what="specialisation", but is batch_exponent={order!r}.'
        )
