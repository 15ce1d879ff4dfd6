"""The first two steps in closed form, where they are known: a second route to the
limit, without any recursion.

All start from M = 0, Q = I, on one reused batch, without momentum, constraint or
training of the second layer. With c1 = E[y h*], ybar = E y and s2 = E y^2 (labels with
noise), batch_reuse_dmft (4.1) is

    M^1_j = eta alpha a_j E[sigma'] c1 , P^1 = (1 - eta decay) I - eta Lam , Q^1 = P^1
    P^1T + eta^2 Cl + M^1 M^1T ,

and h^1 = M^1 h* + P^1 u + eta Cl^{1/2} xi - eta F(u, y) with u, xi standard normals:
M^2 is one more Gaussian average.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial as power_basis
from scipy import special

from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.gaussian import (
    Target,
    gauss_legendre_panels,
    normal_density,
    trapezoid_rule,
)
from giantstep.core.maths.gaussian.grids import hermite_rule, product_grid
from giantstep.problems.batch_reuse.points import Layout, sobol_points
from giantstep.problems.batch_reuse.population import line_rule
from giantstep.problems.batch_reuse.scenario import BatchReuse

_PHI0 = 1 / math.sqrt(2 * math.pi)
_MOST_NODES = 2**18
_STEP = 0.02
"""Nodes at most over several directions of a target, and the spacing of the rule over
two, in standard deviations.
"""
_NOISE_NODES = 24
"""Gauss-Hermite nodes of the label noise: exact up to its 47th power."""


@dataclass(frozen=True)
class TwoSteps:
    """What is known in closed form: M (3, p, k) and Q (3, p, p), NaN where not."""

    M: Floats
    Q: Floats


def hermite_product(dimensions: int, count: int) -> tuple[Floats, Floats]:
    """Return the tensor product of Gauss-Hermite rules: nodes (dimensions, n) and
    weights, without negligible ones.
    """
    grid = product_grid(dimensions, (), hermite_rule(count), count)
    return np.ascontiguousarray(grid.points.T), grid.weights


def two_steps(scenario: BatchReuse) -> TwoSteps | None:
    """Return the closed form that fits a scenario, or None."""
    overlap, gram = scenario.start
    plain = (
        scenario.constraint == "none"
        and not scenario.momentum
        and not scenario.second_layer_rate
    )
    single = scenario.data == "reused" or (
        scenario.data in ("cycle", "replacement") and scenario.batches == 1
    )
    if not (
        plain
        and single
        and not np.any(overlap)
        and np.array_equal(gram, np.eye(scenario.neurons))
    ):
        return None
    if scenario.activation.expression == "relu(z)":
        return _relu(scenario)
    if scenario.activation.polynomial is None or scenario.loss != "correlation":
        return None
    slopes = power_basis.polyder(scenario.activation.polynomial)
    if len(slopes) <= 2:
        return _linear_derivative(scenario, slopes)
    return _polynomial(scenario, slopes)


class LabelMoments:
    """Averages over (h*, y): weights, nodes (k, n) and labels (n,) with the noise
    integrated.
    """

    def __init__(self, scenario: BatchReuse) -> None:
        nodes, weights = _target_nodes(scenario.target)
        labels = np.asarray(scenario.target(nodes.T), dtype=np.float64)
        if scenario.noise:
            zeta, factors = hermite_rule(_NOISE_NODES)
            labels = (labels[:, None] + math.sqrt(scenario.noise) * zeta).ravel()
            nodes = np.repeat(nodes, _NOISE_NODES, axis=1)
            weights = np.outer(weights, factors).ravel()
        self.nodes = nodes
        self.weights = weights
        self.labels = labels

    def mean(self, values: Floats) -> float:
        """Return E of values at the nodes."""
        return float(self.weights @ values)

    def with_target(self, values: Floats) -> Floats:
        """Return E[values h*], (k,)."""
        vector: Floats = self.nodes @ (self.weights * values)
        return vector


def _target_nodes(target: Target) -> tuple[Floats, Floats]:
    """Return nodes and weights for E over h*: exact for polynomials up to the power of
    y that is needed.
    """
    k = target.directions
    degree = target.degree
    if k == 1:
        rule = line_rule(target)
        return rule.nodes, rule.weights
    if degree is not None and (2 * degree + 2) ** k <= _MOST_NODES:
        return hermite_product(k, 2 * degree + 2)
    if k == 2:
        line, factors = trapezoid_rule(_STEP, 9.0)
        nodes = np.stack(
            [axis.ravel() for axis in np.meshgrid(line, line, indexing="ij")]
        )
        return nodes, np.outer(factors, factors).ravel()
    points = sobol_points(Layout(k, False, 0), _MOST_NODES, 0, 0)
    return points.target, points.weights


def _assemble(
    scenario: BatchReuse,
    M1: Floats,
    lam: Floats,
    cl: Floats,
    second: Callable[[Floats], Floats] | None,
) -> TwoSteps:
    """Return the first step (4.1) from M^1, Lam and Cl, and the second, M^2 as a
    function of P^1, where it is known.
    """
    eta, (p, k) = float(scenario.rates()[0]), M1.shape
    P = (1 - eta * scenario.decay) * np.eye(p) - eta * lam
    M = np.full((3, p, k), np.nan)
    Q = np.full((3, p, p), np.nan)
    M[0], Q[0] = 0.0, np.eye(p)
    M[1], Q[1] = M1, P @ P.T + eta**2 * cl + M1 @ M1.T
    if second is not None and scenario.steps > 1:
        M[2] = second(P)
    return TwoSteps(M, Q)


# -- ReLU ------------------------------------------------------------------------------


def _relu(scenario: BatchReuse) -> TwoSteps:
    """Return the case of ReLU: the first step for any width, the second for one neuron
    and one direction.

    E[f0 sigma''_j] and E[f0^2 sigma'_j sigma'_m] are averages over u_j = 0 and over
    independent half-normals.
    """
    moments, a = LabelMoments(scenario), np.array(scenario.second_layer)
    eta = float(scenario.rates()[0])
    alpha = scenario.samples_per_dim
    q = float(scenario.loss == "square")
    c1 = moments.with_target(moments.labels)
    ybar = moments.mean(moments.labels)
    s2 = moments.mean(moments.labels**2)
    others = a.sum() - a
    squares = (a**2).sum() - a**2
    lam = q * alpha * np.outer(a, a) / 4
    np.fill_diagonal(
        lam, alpha * (q * a**2 / 2 + a * _PHI0 * (q * _PHI0 * others - ybar))
    )
    own = a**2 / 2 + 2 * a * _PHI0**2 * others + _second_moment(others, squares) / 2
    diagonal = (
        alpha * a**2 * (q * own - 2 * q * ybar * _PHI0 * (a + others / 2) + s2 / 2)
    )
    # of two neurons j and m, beside the rest of them
    both, product = (
        a[:, None] + a,
        np.outer(a, a),
    )
    rest = a.sum() - both
    rest_squares = (a**2).sum() - (a[:, None] ** 2 + a**2)
    pair = (a[:, None] ** 2 + a**2) / 4 + 2 * product * _PHI0**2
    with_rest = _PHI0**2 * rest * both + _second_moment(rest, rest_squares) / 4
    mean = both * _PHI0 / 2 + rest * _PHI0 / 4
    cl = alpha * product * (q * (pair + with_rest) - 2 * q * ybar * mean + s2 / 4)
    np.fill_diagonal(cl, diagonal)
    M1 = 0.5 * eta * alpha * np.outer(a, c1)
    single = len(a) == 1 and scenario.target.directions == 1
    return _assemble(
        scenario,
        M1,
        lam,
        cl,
        (lambda P: _relu_second(scenario, moments, P, cl, M1, q)) if single else None,
    )


def _second_moment(total: Floats, squares: Floats) -> Floats:
    """Return E (sum_i a_i relu(u_i))^2 of neurons with sum a_i = total and sum a_i^2 =
    squares.
    """
    return squares / 2 + _PHI0**2 * (total**2 - squares)


def _relu_second(
    scenario: BatchReuse,
    moments: LabelMoments,
    P: Floats,
    cl: Floats,
    M1: Floats,
    q: float,
) -> Floats:
    """Return M^2: the noise of step one is integrated exactly, u piecewise around its
    kink at 0.
    """
    eta, eta2 = scenario.rates()[:2]
    a = scenario.second_layer[0]
    s = float(eta) * math.sqrt(cl.item())
    u, weights = gauss_legendre_panels(np.linspace(-10.0, 10.0, 41), 12)  # 0 is an edge
    weights = weights * normal_density(u)
    h = moments.nodes[0][:, None]
    y = moments.labels[:, None]
    shift = M1.item() * h + P.item() * u - eta * a * (q * a * u - y) * (u > 0)
    ratio = shift / s
    cdf = special.ndtr(ratio)
    hidden = shift * cdf + s * normal_density(ratio)
    pull = moments.with_target((a * (q * a * hidden - y * cdf)) @ weights)
    return (1 - eta2 * scenario.decay) * M1 - eta2 * scenario.samples_per_dim * pull


# -- polynomials with the correlation loss ---------------------------------------------


def _linear_derivative(scenario: BatchReuse, slopes: Floats) -> TwoSteps:
    """Return the case sigma' = s0 + s1 z, any target and width: batch_reuse_dmft (4.2),
    a polynomial in eta.
    """
    s0, s1 = (*slopes, 0.0)[:2]
    moments, a = LabelMoments(scenario), np.array(scenario.second_layer)
    alpha, rates = scenario.samples_per_dim, scenario.rates()
    y = moments.labels
    c1, square = moments.with_target(y), moments.with_target(y**2)
    M1 = rates[0] * alpha * s0 * np.outer(a, c1)
    lam = np.diag(-alpha * a * moments.mean(y) * s1)
    cl = alpha * np.outer(a, a) * moments.mean(y**2) * (s0**2 + s1**2 * np.eye(len(a)))

    def second(P: Floats) -> Floats:
        matrix = (moments.nodes * (moments.weights * y)) @ moments.nodes.T
        inner = s0 * c1 + s1 * (M1 @ matrix + rates[0] * s0 * a[:, None] * square)
        return np.asarray(
            (1 - rates[1] * scenario.decay) * M1 + rates[1] * alpha * a[:, None] * inner
        )

    return _assemble(scenario, M1, lam, cl, second)


def _polynomial(scenario: BatchReuse, slopes: Floats) -> TwoSteps | None:
    """Return the case of one neuron and E y = 0 = E[y h*] E sigma': a finite sum,
    batch_reuse_dmft section 4.
    """
    if scenario.neurons != 1:
        return None
    moments = LabelMoments(scenario)
    a = scenario.second_layer[0]
    nodes, weights = hermite_rule(8 * len(slopes))
    slope_mean = float(weights @ power_basis.polyval(nodes, slopes))
    y = moments.labels
    if (
        abs(moments.mean(y)) > 1e-10
        or np.abs(moments.with_target(y) * slope_mean).max() > 1e-10
    ):
        return None
    slope_square = float(weights @ power_basis.polyval(nodes, slopes) ** 2)
    cl = scenario.samples_per_dim * a**2 * moments.mean(y**2) * slope_square
    M1 = np.zeros((1, scenario.target.directions))
    return _assemble(
        scenario,
        M1,
        np.zeros((1, 1)),
        np.array([[cl]]),
        lambda P: _series(scenario, moments, slopes, P.item(), cl),
    )


def _series(
    scenario: BatchReuse, moments: LabelMoments, slopes: Floats, P: float, cl: float
) -> Floats:
    """Return M^2 = eta alpha a sum_m (eta a)^m/m! E[y^{m+1} h*] E[sigma'(u)^m
    sigma^{(m+1)}(w)].

    Here w = P u + eta Cl^{1/2} xi is the pre-activation after one step without what the
    sample itself added.
    """
    eta = float(scenario.rates()[0])
    a = scenario.second_layer[0]
    grid, weights = hermite_product(2, 8 * len(slopes))
    u = grid[0]
    w = P * grid[0] + eta * math.sqrt(cl) * grid[1]
    at_u = power_basis.polyval(u, slopes)
    derivative: Array = slopes
    total = np.zeros(scenario.target.directions)
    for m in range(len(slopes)):
        inner = float(weights @ (at_u**m * power_basis.polyval(w, derivative)))
        total += (
            (eta * a) ** m
            / math.factorial(m)
            * inner
            * moments.with_target(moments.labels ** (m + 1))
        )
        derivative = power_basis.polyder(derivative)
    return float(scenario.rates()[1]) * scenario.samples_per_dim * a * total
