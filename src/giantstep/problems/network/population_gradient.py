"""The exact gradient on the population at a finite dimension: few_steps_readout,
section 10.

With tau_i = |w_i| and a_n(i) = E[h_n(t) sigma(tau_i t)], h_n the normalised Hermite
polynomials,

    E[g sigma'(w_i.x) x]   = sum over the Hermite tensor of g of products of w_i along the target directions and a_n(i)
    E[f sigma'(w_i.x) x]   = (1/p) sum_j zeta_j {B_ij w_j + C_ij w_i},
    B_ij = sum_n (n+1) a_{n+1}(i) a_{n+1}(j) r_ij^n/(tau_i tau_j),   r_ij = w_i.w_j/(tau_i tau_j),
    C_ij = sum_n sqrt((n+1)(n+2)) a_{n+2}(i) a_n(j) r_ij^n/tau_i^2

for i != j (Stein's lemma takes every derivative). A neuron acts on itself by w_i E[t
sigma sigma'(tau_i t)]/tau_i. Inputs with a covariance are whitened first.
"""  # noqa: E501

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.errors import InputError
from giantstep.core.base.types import DeviceArray, Floats
from giantstep.core.lab.algebra import multiply
from giantstep.core.lab.devices import to_numpy
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.gaussian.grids import hermite_rule, product_grid
from giantstep.core.maths.gaussian.hermite import hermite_functions, hermite_values
from giantstep.core.maths.gaussian.quadrature import (
    gauss_legendre_panels,
    normal_density,
)
from giantstep.core.maths.gaussian.resolution import HERMITE_STEP
from giantstep.core.maths.gaussian.target import Target
from giantstep.problems.network.whitened import Whitened

TRUNCATION = 1e-9
"""What a truncated series may leave out, relative to the size of the gradient."""
MOST_TERMS = 400
"""Terms of a series over powers of a cosine at most: cosines up to 0.95 need fewer."""
MOST_DEGREE = 60
"""Degree of the Hermite expansion of a target of one direction that is no
polynomial.
"""
_ROWS = 512
"""Neurons whose products with all others are held at a time."""
_INTERPOLATION = 24
"""Chebyshev nodes over the range of the lengths of the rows, a short one: they start at
1 and grow together.
"""


Expansion = tuple[Floats, Floats]
"""Powers (A, r) and coefficients (A,) of a target sum_a coefficients_a prod_j
h_{a_j}(z_j), normalised.
"""


def hermite_tensor(target: Target) -> Expansion:
    """Return the Hermite expansion of a target, exact for a polynomial, else to total
    degree 60 (r = 1) or 40.
    """
    r = target.directions
    exact = target.degree
    if exact is None:
        degree = {1: MOST_DEGREE, 2: 40}.get(r, 16)
    else:
        degree = exact
    smooth = hermite_rule(2 * degree + 24 if exact is None else exact + 1)
    grid = product_grid(
        r, target.planes, smooth, degree + 24, target.narrow_places(HERMITE_STEP)
    )
    values = target(grid.points) * grid.weights
    tables = [hermite_values(grid.points[:, j], degree) for j in range(r)]
    powers = [
        a for a in itertools.product(range(degree + 1), repeat=r) if sum(a) <= degree
    ]
    coefficients = np.array(
        [values @ math.prod(tables[j][n] for j, n in enumerate(a)) for a in powers]
    )
    kept = np.abs(coefficients) > 1e-15 * np.abs(coefficients).max()
    kept[0] |= not kept.any()  # the target 0
    return np.array(powers)[kept], coefficients[kept]


def _axis_rule(
    activation: Function, scale: float, bound: float
) -> tuple[Floats, Floats]:
    """Return nodes t and weights for dt up to a bound, for functions of
    activation(scale t).
    """
    breaks = [kink / scale for kink in activation.kinks if abs(kink) < bound * scale]
    panels = np.linspace(-bound, bound, int(2 * bound * max(1.0, scale)) + 1)
    return gauss_legendre_panels(np.unique([*panels, *breaks]), 24)


def scaled_hermite(activation: Function, tau: Floats, order: int) -> Floats:
    """Return a_n = E[h_n(t) sigma(tau t)] for n = 0..order at each tau, shape
    (len(tau), order + 1).
    """
    out = np.empty((len(tau), order + 1))
    for row, scale in enumerate(tau):
        t, weights = _axis_rule(activation, scale, 2 * math.sqrt(order) + 12)
        with np.errstate(all="ignore"):
            out[row] = hermite_functions(t, order) @ (
                activation(scale * t) * np.sqrt(normal_density(t)) * weights
            )
    return out


def interpolated(values: Callable[[Floats], Floats], tau: Floats) -> Floats:
    """Return functions (N, ...) of the lengths tau (N,), by Chebyshev interpolation
    over their range.
    """
    low = float(tau.min())
    high = float(tau.max())
    if high - low < 1e-12 * high:
        return np.repeat(values(tau[:1]), len(tau), axis=0)
    x = np.cos(np.pi * (np.arange(_INTERPOLATION) + 0.5) / _INTERPOLATION)
    table = values(0.5 * (low + high) + 0.5 * (high - low) * x)
    coefficients = np.linalg.solve(chebvander(x, _INTERPOLATION - 1), table)
    return (
        chebvander((2 * tau - low - high) / (high - low), _INTERPOLATION - 1)
        @ coefficients
    )


def population_gradient(
    activation: Function,
    target: tuple[Expansion, Whitened],
    weights: DeviceArray,
    zeta: DeviceArray,
    xp: Any,
    kept: float = 1.0,
    offset: float = 0.0,
) -> DeviceArray:
    """Return E[(y - f(x)) sigma'(w_i.x) x] (p, d), f = offset + sum_j zeta_j
    sigma(w_j.x)/p, E[y|x] = kept g.

    `target` is its expansion and where its directions lie; x and w_i are whitened.
    """
    tau = to_numpy(xp.linalg.norm(weights, axis=1))
    output = bool((zeta != 0).any())
    if output:
        terms = _terms(
            activation, float(tau.max()), weights / xp.asarray(tau)[:, None], xp
        )
    else:
        terms = 2
    order = max(terms, int(target[0][0].sum(axis=1).max())) + 2
    coefficients = interpolated(
        lambda lengths: scaled_hermite(activation, lengths, order), tau
    )
    gradient = _target_gradient(*target, weights, tau, coefficients, xp)
    gradient *= kept
    if output:
        _subtract_output(
            gradient, activation, weights, zeta, tau, coefficients[:, : terms + 3], xp
        )
    if offset:
        gradient -= (
            xp.asarray(offset * math.sqrt(2) * coefficients[:, 2] / tau**2)[:, None]
            * weights
        )
    return gradient


def gradient_memory(width: int) -> int:
    """Return how many numbers `population_gradient` needs at most beside weights, unit
    rows and the gradient itself.
    """
    return 4 * min(_ROWS, width) * width + 5 * width * MOST_TERMS


def _target_gradient(
    tensor: Expansion,
    inputs: Whitened,
    weights: DeviceArray,
    tau: Floats,
    coefficients: Floats,
    xp: Any,
) -> DeviceArray:
    """Return E[g sigma'(w_i.x) x]: a combination of the target directions and of w_i
    itself.
    """
    powers, values = tensor
    r = powers.shape[1]
    cosines = to_numpy(inputs.signal(weights, xp)) / tau[:, None]
    top = int(powers.max())
    table = np.stack([cosines**n for n in range(top + 1)])  # (n, p, r)
    along = np.zeros((len(tau), r))
    itself = np.zeros(len(tau))
    for power, value in zip(powers, values):
        n = int(power.sum())
        size = value * math.exp(
            0.5 * (math.lgamma(n + 1) - sum(math.lgamma(a + 1) for a in power))
        )
        factors = [table[a, :, j] for j, a in enumerate(power)]
        for j in np.flatnonzero(power):
            lowered = [
                table[power[j] - 1, :, j] if i == j else factor
                for i, factor in enumerate(factors)
            ]
            along[:, j] += (
                size * power[j] * math.prod(lowered) * coefficients[:, n] / tau
            )
        itself += (
            size
            * math.sqrt((n + 1) * (n + 2))
            * math.prod(factors)
            * coefficients[:, n + 2]
            / tau**2
        )
    gradient = xp.asarray(itself)[:, None] * weights
    inputs.add_along(gradient, xp.asarray(along), xp)
    return gradient


def _terms(activation: Function, tau: float, unit: DeviceArray, xp: Any) -> int:
    """Return how many terms the pair series need at the largest cosine between two
    neurons, of unit rows.
    """
    largest = 0.0
    for rows in split_rows(len(unit), 1, _ROWS):
        cosines = xp.abs(multiply(unit[rows], unit.T, xp))
        diagonal = xp.arange(len(cosines))
        cosines[diagonal, diagonal + rows.start] = 0.0
        largest = min(max(largest, float(xp.max(cosines))), 1.0)
    coefficients = scaled_hermite(activation, np.array([tau]), MOST_TERMS + 2)[0]
    n = np.arange(MOST_TERMS + 1)
    sizes = (n + 1) * coefficients[1:-1] ** 2 * largest**n
    tail = np.cumsum(sizes[::-1])[::-1]
    enough = np.flatnonzero(tail < TRUNCATION * sizes.sum())
    if not enough.size:
        raise InputError(
            "Field `batch_per_dim` must be finite here (1000 is a large batch), but is"
            f" inf: neurons have cosines up to {largest:.4f}, for which the exact"
            f" gradient of {activation.name} would need too long a series."
        )
    return int(enough[0]) + 1


def _subtract_output(
    gradient: DeviceArray,
    activation: Function,
    weights: DeviceArray,
    zeta: DeviceArray,
    tau: Floats,
    a: Floats,
    xp: Any,
) -> None:
    """Take E[f sigma'(w_i.x) x] from the gradient, block of rows by block of rows."""
    p = len(weights)
    order = a.shape[1] - 3
    n = np.arange(order + 1)
    # sqrt(n+1) a_{n+1}/tau
    slope = xp.asarray(a[:, 1:-1] * np.sqrt(n + 1) / tau[:, None])
    bend = xp.asarray(a[:, 2:] * np.sqrt((n + 1) * (n + 2)) / tau[:, None] ** 2)
    value = xp.asarray(a[:, :-2])
    unit = weights / xp.asarray(tau)[:, None]
    own = xp.asarray(interpolated(lambda lengths: _own_term(activation, lengths), tau))
    for rows in split_rows(p, 1, _ROWS):
        diagonal = xp.arange(rows.stop - rows.start)
        cosines = multiply(unit[rows], unit.T, xp)
        outward = xp.zeros(cosines.shape)
        inward = xp.zeros(cosines.shape)
        for m in range(order, -1, -1):
            outward *= cosines
            outward += slope[rows, m, None] * slope[None, :, m]
            inward *= cosines
            inward += bend[rows, m, None] * value[None, :, m]
        outward[diagonal, diagonal + rows.start] = 0.0
        inward[diagonal, diagonal + rows.start] = 0.0
        outward *= zeta / -p
        gradient[rows] -= ((inward @ zeta + own[rows] * zeta[rows]) / p)[
            :, None
        ] * weights[rows]
        multiply(outward, weights, xp, out=gradient[rows], add=True)


def _own_term(activation: Function, tau: Floats) -> Floats:
    """Return E[t sigma(tau t) sigma'(tau t)]/tau at every tau."""
    out = np.empty(len(tau))
    for row, scale in enumerate(tau):
        t, weights = _axis_rule(activation, scale, 12.0)
        x = scale * t
        out[row] = (
            np.sum(
                t
                * activation(x)
                * activation.derivative(x)
                * weights
                * normal_density(t)
            )
            / scale
        )
    return out
