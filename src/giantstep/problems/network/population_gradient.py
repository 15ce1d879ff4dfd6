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
from giantstep.core.base.types import DeviceArray, Floats, Integers
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
_DEGREES = {1: 60, 2: 40}
"""Directions -> total degree of the Hermite expansion of a target that is no
polynomial.
"""
_DEGREE_OF_MORE = 16
"""The same of three directions and more."""
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
    if target.degree is None:
        degree = _DEGREES.get(r, _DEGREE_OF_MORE)
        nodes = 2 * degree + 24
    else:
        # so many nodes integrate the target times a polynomial of its degree exactly
        degree = target.degree
        nodes = degree + 1
    grid = product_grid(
        r,
        target.planes,
        hermite_rule(nodes),
        degree + 24,
        target.narrow_places(HERMITE_STEP),
    )
    values = target(grid.points) * grid.weights
    polynomials = [hermite_values(grid.points[:, j], degree) for j in range(r)]
    powers = [
        power
        for power in itertools.product(range(degree + 1), repeat=r)
        if sum(power) <= degree
    ]
    coefficients = np.empty(len(powers))
    for number, power in enumerate(powers):
        factors = [polynomials[j][n] for j, n in enumerate(power)]
        coefficients[number] = values @ math.prod(factors)
    kept = np.abs(coefficients) > 1e-15 * np.abs(coefficients).max()
    # of the target 0 the constant is kept, so that there is one power
    kept[0] |= not kept.any()
    return np.array(powers)[kept], coefficients[kept]


def _axis_rule(
    activation: Function, scale: float, bound: float
) -> tuple[Floats, Floats]:
    """Return nodes t and weights for dt up to a bound, for functions of
    activation(scale t).
    """
    breaks = [kink / scale for kink in activation.kinks if abs(kink) < bound * scale]
    # panels of length 1 in the argument of the activation, or shorter
    panels = np.linspace(-bound, bound, int(2 * bound * max(1.0, scale)) + 1)
    return gauss_legendre_panels(np.unique([*panels, *breaks]), 24)


def scaled_hermite(activation: Function, tau: Floats, order: int) -> Floats:
    """Return a_n = E[h_n(t) sigma(tau t)] for n = 0..order at each tau, shape
    (len(tau), order + 1).
    """
    coefficients = np.empty((len(tau), order + 1))
    for row, scale in enumerate(tau):
        # h_n sqrt(density) oscillates up to 2 sqrt(n) and falls off beyond
        t, weights = _axis_rule(activation, scale, 2 * math.sqrt(order) + 12)
        with np.errstate(all="ignore"):
            # Hermite functions have one sqrt(density) already: no overflow at high n
            values = activation(scale * t) * np.sqrt(normal_density(t)) * weights
            coefficients[row] = hermite_functions(t, order) @ values
    return coefficients


def interpolated(values: Callable[[Floats], Floats], tau: Floats) -> Floats:
    """Return functions (N, ...) of the lengths tau (N,), by Chebyshev interpolation
    over their range.
    """
    low = float(tau.min())
    high = float(tau.max())
    if high - low < 1e-12 * high:
        # rows of one length, as at the start
        return np.repeat(values(tau[:1]), len(tau), axis=0)
    nodes = np.cos(np.pi * (np.arange(_INTERPOLATION) + 0.5) / _INTERPOLATION)
    table = values(0.5 * (low + high) + 0.5 * (high - low) * nodes)
    degree = _INTERPOLATION - 1
    coefficients = np.linalg.solve(chebvander(nodes, degree), table)
    places = (2 * tau - low - high) / (high - low)
    return chebvander(places, degree) @ coefficients


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
    expansion, inputs = target
    tau = to_numpy(xp.linalg.norm(weights, axis=1))
    has_output = bool((zeta != 0).any())
    if has_output:
        unit = weights / xp.asarray(tau)[:, None]
        terms = _terms(activation, float(tau.max()), unit, xp)
    else:
        terms = 2
    # both derivatives raise the degree: that of the target, and of the last term
    order = max(terms, int(expansion[0].sum(axis=1).max())) + 2
    coefficients = interpolated(
        lambda lengths: scaled_hermite(activation, lengths, order), tau
    )
    gradient = _target_gradient(expansion, inputs, weights, tau, coefficients, xp)
    gradient *= kept
    if has_output:
        _subtract_output(
            gradient,
            activation=activation,
            weights=weights,
            zeta=zeta,
            tau=tau,
            a=coefficients[:, : terms + 3],
            xp=xp,
        )
    if offset:
        # E[sigma'(w.x) x] = E[sigma''] w, and E sigma'' = sqrt(2) a_2/tau^2
        along_row = offset * math.sqrt(2) * coefficients[:, 2] / tau**2
        gradient -= xp.asarray(along_row)[:, None] * weights
    return gradient


def gradient_memory(width: int) -> int:
    """Return how many numbers `population_gradient` needs at most beside weights, unit
    rows and the gradient itself.
    """
    return 4 * min(_ROWS, width) * width + 5 * width * MOST_TERMS


def _target_gradient(
    expansion: Expansion,
    inputs: Whitened,
    weights: DeviceArray,
    tau: Floats,
    coefficients: Floats,
    xp: Any,
) -> DeviceArray:
    """Return E[g sigma'(w_i.x) x]: a combination of the target directions and of w_i
    itself.
    """
    powers, values = expansion
    r = powers.shape[1]
    # of the row and every target direction (p, r)
    cosines = to_numpy(inputs.signal(weights, xp)) / tau[:, None]
    power_of_cosine = np.stack([cosines**n for n in range(int(powers.max()) + 1)])
    along = np.zeros((len(tau), r))
    itself = np.zeros(len(tau))
    for power, value in zip(powers, values):
        n = int(power.sum())
        size = value * _multinomial_root(power)
        # cosine_j^(power_j) for every direction
        factors = [power_of_cosine[a, :, j] for j, a in enumerate(power)]
        # the derivative of g: one power of a direction less
        for j in np.flatnonzero(power):
            lowered = list(factors)
            lowered[j] = power_of_cosine[power[j] - 1, :, j]
            product = math.prod(lowered)
            along[:, j] += size * power[j] * product * coefficients[:, n] / tau
        # the derivative of sigma': two degrees more, along the row
        raised = size * math.sqrt((n + 1) * (n + 2))
        itself += raised * math.prod(factors) * coefficients[:, n + 2] / tau**2
    gradient = xp.asarray(itself)[:, None] * weights
    inputs.add_along(gradient, xp.asarray(along), xp)
    return gradient


def _multinomial_root(power: Integers) -> float:
    """Return sqrt(n!/prod_j power_j!), n the sum: it turns prod_j h_{power_j}(z_j) on a
    unit vector's coordinates into powers of its cosines.
    """
    n = int(power.sum())
    return math.exp(0.5 * (math.lgamma(n + 1) - sum(math.lgamma(a + 1) for a in power)))


def _terms(activation: Function, tau: float, unit: DeviceArray, xp: Any) -> int:
    """Return how many terms the pair series need at the largest cosine between two
    neurons, of unit rows.
    """
    largest = 0.0
    for rows in split_rows(len(unit), 1, _ROWS):
        cosines = xp.abs(multiply(unit[rows], unit.T, xp))
        _clear_diagonal(cosines, rows, xp)
        # rounding can make a cosine larger than 1
        largest = min(max(largest, float(xp.max(cosines))), 1.0)
    # the longest row has the series that falls off most slowly
    coefficients = scaled_hermite(activation, np.array([tau]), MOST_TERMS + 2)[0]
    n = np.arange(MOST_TERMS + 1)
    # terms of B at the largest cosine; those of C are of the same order
    sizes = (n + 1) * coefficients[1:-1] ** 2 * largest**n
    # what is left out by a series that ends before n
    tail = np.cumsum(sizes[::-1])[::-1]
    enough = np.flatnonzero(tail < TRUNCATION * sizes.sum())
    if not enough.size:
        raise InputError(
            "Field `batch_per_dim` must be finite here (1000 is a large batch), but is"
            f" inf: neurons have cosines up to {largest:.4f}, for which the exact"
            f" gradient of {activation.name} would need too long a series."
        )
    return int(enough[0]) + 1


def _clear_diagonal(matrix: DeviceArray, rows: slice, xp: Any) -> None:
    """Set to zero what neurons of a block of rows have with themselves."""
    diagonal = xp.arange(len(matrix))
    matrix[diagonal, diagonal + rows.start] = 0.0


class _PairSeries:
    """The series B_ij and C_ij of the head of this file, over powers of the cosines."""

    def __init__(self, tau: Floats, a: Floats, xp: Any) -> None:
        self.order = a.shape[1] - 3
        n = np.arange(self.order + 1)
        slope = a[:, 1:-1] * np.sqrt(n + 1) / tau[:, None]
        bend = a[:, 2:] * np.sqrt((n + 1) * (n + 2)) / tau[:, None] ** 2
        self.slope = xp.asarray(slope)  # (p, n): sqrt(n+1) a_{n+1}/tau
        self.bend = xp.asarray(bend)  # (p, n): sqrt((n+1)(n+2)) a_{n+2}/tau^2
        self.value = xp.asarray(a[:, :-2])  # (p, n): a_n
        self.xp = xp

    def of_rows(
        self, rows: slice, cosines: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray]:
        """Return B and C between a block of rows and all rows, whose cosines these
        are; 0 between a row and itself.
        """
        B = self.xp.zeros(cosines.shape)
        C = self.xp.zeros(cosines.shape)
        # Horner's scheme, from the highest power down
        for m in range(self.order, -1, -1):
            B *= cosines
            B += self.slope[rows, m, None] * self.slope[None, :, m]
            C *= cosines
            C += self.bend[rows, m, None] * self.value[None, :, m]
        _clear_diagonal(B, rows, self.xp)
        _clear_diagonal(C, rows, self.xp)
        return B, C


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
    series = _PairSeries(tau, a, xp)
    unit = weights / xp.asarray(tau)[:, None]
    of_itself = xp.asarray(
        interpolated(lambda lengths: _term_of_itself(activation, lengths), tau)
    )
    for rows in split_rows(p, 1, _ROWS):
        cosines = multiply(unit[rows], unit.T, xp)
        B, C = series.of_rows(rows, cosines)
        along_row = (C @ zeta + of_itself[rows] * zeta[rows]) / p
        gradient[rows] -= along_row[:, None] * weights[rows]
        # zeta_j, 1/p and the sign go into B: the product is then added in place
        B *= zeta / -p
        multiply(B, weights, xp, out=gradient[rows], add=True)


def _term_of_itself(activation: Function, tau: Floats) -> Floats:
    """Return E[t sigma(tau t) sigma'(tau t)]/tau at every tau."""
    terms = np.empty(len(tau))
    for row, scale in enumerate(tau):
        # the normal density is 1e-32 there
        t, weights = _axis_rule(activation, scale, 12.0)
        x = scale * t
        product = t * activation(x) * activation.derivative(x)
        terms[row] = np.sum(product * weights * normal_density(t)) / scale
    return terms
