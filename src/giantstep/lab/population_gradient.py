"""The gradient of a two-layer network on the population, exact at a finite dimension: one step from unit rows."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from giantstep.gaussian import Function, expectation
from giantstep.lab.algebra import multiply
from giantstep.lab.network import ROW_BLOCK
from giantstep.types import DeviceArray, Floats

_SERIES_LIMIT = 100


def population_gradient(
    activation: Function,
    target: Function,
    weights: DeviceArray,
    second_layer: DeviceArray,
    xp: ModuleType,
    kept: float = 1.0,
) -> DeviceArray:
    """Return E[(y - f0(x)) sigma'(<w_i,x>) x], (p, d): `batch_gradient` of an infinite batch with E[y|x] = kept g(x_1).

    By Stein's lemma E[f(<a,x>) sigma'(<b,x>) x] is a E[f' sigma'] + b E[f sigma'']; for unit vectors both are power
    series in <a,b> whose coefficients are products of Hermite coefficients, so that no derivative is taken. Different
    rows are nearly orthogonal and the series short; the term of a neuron with itself is w_i E[z sigma sigma'].
    """
    p, d = weights.shape
    order = _series_order(p, d)
    own, teacher = activation.hermite(order + 2), kept * target.hermite(order + 2)
    along_target, along_self = _pair_series(teacher, own, weights[:, 0], xp)
    itself, _ = expectation(lambda z: z * activation(z) * activation.derivative(z), activation.kinks)
    gradient = xp.empty((p, d))
    for start in range(0, p, ROW_BLOCK):
        rows = slice(start, min(start + ROW_BLOCK, p))
        diagonal = xp.arange(rows.stop - start)
        overlaps = multiply(weights[rows], weights.T, xp)
        overlaps[diagonal, diagonal + start] = 0.0
        outward, inward = _pair_series(own, own, overlaps, xp)
        outward[diagonal, diagonal + start] = 0.0
        inward[diagonal, diagonal + start] = 0.0
        outward *= second_layer / -p
        scale = along_self[rows] - (inward @ second_layer + itself * second_layer[rows]) / p
        gradient[rows] = scale[:, None] * weights[rows]
        multiply(outward, weights, xp, out=gradient[rows], add=True)
    gradient[:, 0] += along_target
    return gradient


def _pair_series(outer: Floats, inner: Floats, overlap: DeviceArray, xp: ModuleType) -> tuple[DeviceArray, DeviceArray]:
    """Return E[f' sigma'] and E[f sigma''] at given overlaps, from Hermite coefficients of f and sigma."""
    j = np.arange(len(inner) - 2)
    slopes = (j + 1) * outer[1:-1] * inner[1:-1]
    curvatures = np.sqrt((j + 1) * (j + 2)) * outer[:-2] * inner[2:]
    return _polynomial(slopes, overlap, xp), _polynomial(curvatures, overlap, xp)


def _polynomial(coefficients: Floats, x: DeviceArray, xp: ModuleType) -> DeviceArray:
    total = xp.full(x.shape, float(coefficients[-1]))
    for coefficient in coefficients[-2::-1]:
        total *= x
        total += float(coefficient)
    return total


def _series_order(p: int, d: int) -> int:
    """Return the power at which overlaps of p random unit vectors are rounding (but for one draw in 1e6)."""
    largest = math.sqrt(-math.expm1(2 * math.log(1e-6 / (p + 1) ** 2) / (d - 1)))
    return min(math.ceil(-37 / math.log(largest)), _SERIES_LIMIT) if largest < 1 else _SERIES_LIMIT
