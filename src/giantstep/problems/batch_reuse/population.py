"""Loss on fresh samples as a function of the order parameters (M, Q, a),
batch_reuse_dmft section 2.

With (h, h*) ~ N(0, [[Q, M], [M^T, I]]) the square loss is

    E(f - y)^2/2 = (E g^2 + noise)/2 - sum_j a_j E[g(h*) E[sigma(h_j)|h*]] + sum_ij a_i
    a_j E[sigma(h_i) sigma(h_j)]/2

and the correlation loss -E[y f] its middle sum. Given h*, h_j is N(M_j.h*, Q_jj -
|M_j|^2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import (
    Function,
    Target,
    expectation,
    gauss_legendre_panels,
    normal_density,
    trapezoid_rule,
)
from giantstep.core.maths.gaussian.grids import hermite_rule, product_grid
from giantstep.core.maths.gaussian.resolution import HERMITE_STEP
from giantstep.core.maths.solve.roots import require_finite
from giantstep.problems.batch_reuse.points import Layout, sobol_points
from giantstep.problems.batch_reuse.scenario import BatchReuse, Loss
from giantstep.problems.batch_reuse.tolerances import KNOWN_EXACTLY

_PANELS = 160
"""Panels of the one-dimensional rule over [-16, 16]: polynomial targets of high degree
reach far out.
"""
_TABLE_STEP = 0.125
_TABLE_LEAST = 129
_TABLE_MOST = 20001
"""Spacing of a table, in units of the spread that smooths the activation, and bounds of
its length.
"""
_STEEP = 9.0
"""Variance from which a smooth activation is too steep a function of a unit normal for
a rule of fixed step.
"""


@dataclass(frozen=True)
class TargetRule:
    """A rule for E over h*: nodes (k, n), weights (n,) of sum one, weights times the
    target, and E g^2.
    """

    nodes: Floats
    weights: Floats
    weighted: Floats
    power: float


def target_rule(target: Target, nodes: Floats, weights: Floats) -> TargetRule:
    """Return the rule for a target: one-dimensional quadrature for k = 1, else the
    weighted points given.
    """
    if target.directions == 1:
        return line_rule(target)
    # E g, E[g h*] and E g^2 by tensor Gauss-Hermite rules, where two of them agree
    # (polynomials)
    moments = []
    for count in (11, 13) if target.directions <= 4 else (6, 7):
        grid, mass = product_grid(target.directions, (), hermite_rule(count), count)
        values = np.asarray(target(grid), dtype=np.float64)
        moments.append(
            (float(mass @ values), (mass * values) @ grid, float(mass @ values**2))
        )
    mean, slopes, power = moments[1]
    values = np.asarray(target(nodes.T), dtype=np.float64)
    if not abs(power - moments[0][2]) <= KNOWN_EXACTLY * abs(power):
        return TargetRule(nodes, weights, weights * values, float(weights @ values**2))
    # the points have exact second moments, so a linear correction gives these exactly
    values = (
        values
        + (mean - weights @ values)
        + (slopes - nodes @ (weights * values)) @ nodes
    )
    return TargetRule(nodes, weights, weights * values, power)


def own_rule(target: Target, nodes: int, seed: int) -> TargetRule:
    """Return a rule with points of its own."""
    if target.directions == 1:
        return line_rule(target)
    drawn = sobol_points(Layout(target.directions, False, 0), nodes, seed, 0)
    return target_rule(target, drawn.target, drawn.weights)


def line_rule(target: Target) -> TargetRule:
    """Return Gauss-Legendre panels on a line, with edges where the target is not
    smooth.
    """
    breaks = (*target.planes, *target.narrow_places(HERMITE_STEP))
    kinks = [-plane.offset * np.sign(plane.normal[0]) for plane in breaks]
    edges = np.unique(
        np.concatenate(
            [np.linspace(-16.0, 16.0, _PANELS + 1), [k for k in kinks if abs(k) < 16]]
        )
    )
    nodes, weights = gauss_legendre_panels(edges, 8)
    weights = weights * normal_density(nodes)
    values = target(nodes[:, None])
    return TargetRule(
        nodes[None], weights, weights * values, float(weights @ values**2)
    )


def trajectory_variables(
    scenario: BatchReuse,
    rule: TargetRule,
    M: Floats,
    Q: Floats,
    a: Floats,
    train_loss: Floats,
) -> dict[str, Floats]:
    """Return the variables of a trajectory from its order parameters and training loss
    at times 0..T.
    """
    network = scenario.activation, scenario.loss, rule, scenario.noise
    population = np.array(
        [population_loss(*network, *at_time) for at_time in zip(a, M, Q)]
    )
    return {
        "M": M,
        "Q": Q,
        "cosine": M / np.sqrt(np.diagonal(Q, axis1=1, axis2=2))[:, :, None],
        "train_loss": train_loss,
        "population_loss": population,
        "generalisation": population - train_loss,
        "a": a,
    }


def population_loss(
    activation: Function,
    loss: Loss,
    rule: TargetRule,
    noise: float,
    a: Floats,
    M: Floats,
    Q: Floats,
) -> float:
    """Return the loss on fresh samples at one time; NaN where the order parameters
    are.
    """
    if not (np.isfinite(M).all() and np.isfinite(Q).all()):
        return np.nan
    p = len(a)
    cross = sum(
        a[j] * _with_target(activation, rule, M[j], Q[j, j]) for j in range(p) if a[j]
    )
    if loss == "correlation":
        return -float(cross)
    pairs = sum(
        (1 if i == j else 2)
        * a[i]
        * a[j]
        * pair_moment(activation, Q[i, i], Q[j, j], Q[i, j])
        for i in range(p)
        for j in range(i, p)
    )
    return float(0.5 * (rule.power + noise) - cross + 0.5 * pairs)


def _with_target(activation: Function, rule: TargetRule, m: Floats, q: float) -> float:
    """Return E[g(h*) sigma(h_j)]: the inner mean is a smooth function of m.h*, so it is
    tabulated.
    """
    mean: Floats = m @ rule.nodes
    spread = float(np.sqrt(max(float(q - m @ m), 0.0)))
    require_finite("an overlap", mean, spread)
    low = float(mean.min())
    high = float(mean.max())
    if high - low < 1e-12:
        return float(activation.moments(low, spread).mean * rule.weighted.sum())
    needed = (high - low) / (_TABLE_STEP * max(min(spread, 1.0), 1e-12))
    count = int(min(max(needed, _TABLE_LEAST), _TABLE_MOST))
    if spread == 0.0 or count >= len(mean):
        inner = activation.moments(mean, spread).mean
    else:
        table = np.linspace(low, high, count)
        smooth = activation.moments(table, spread).mean
        require_finite("a moment of the activation", smooth)
        inner = scipy.interpolate.CubicSpline(table, smooth)(mean)
    return float(rule.weighted @ inner)


def pair_moment(activation: Function, q1: float, q2: float, c: float) -> float:
    """Return E[sigma(u) sigma(v)] for centred Gaussians with variances q1, q2 and
    covariance c.
    """
    if activation.expression == "relu(z)":
        size = np.sqrt(q1 * q2)
        r = np.clip(c / size, -1.0, 1.0)
        return float(
            size / (2 * np.pi) * (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r)))
        )
    slope, rest = c / q1, float(np.sqrt(max(q2 - c * c / q1, 0.0)))
    root = float(np.sqrt(q1))
    if activation.kinks or max(q1, q2) > _STEEP:
        value, _ = expectation(
            lambda z: (
                activation(root * z) * activation.moments(slope * root * z, rest).mean
            ),
            [kink / root for kink in activation.kinks],
        )
        return float(value)
    nodes, weights = trapezoid_rule(0.2, 12.0)
    u = root * nodes[:, None]
    v = slope * root * nodes[:, None] + rest * nodes
    return float(weights @ (activation(u)[:, 0] * (activation(v) @ weights)))
