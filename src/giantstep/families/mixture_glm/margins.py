"""Laws of the margins y omega (real labels: of the residuals y - omega) of fresh and of training samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from giantstep.families.mixture_glm.channel import Residuals
from giantstep.families.mixture_glm.problem import MixtureProblem, State
from giantstep.families.mixture_glm.solver import solve_points
from giantstep.gaussian import normal_density
from giantstep.risk import quadrature, sum_rows
from giantstep.types import Floats, Points

if TYPE_CHECKING:
    from giantstep.families.mixture_glm.scenario import MixtureGLM

_COUNT = 161
"""Margins of a grid that is chosen here: a curve on a screen."""
_RARE = 1e-4
"""Probability beyond both ends of such a grid."""

Law = Callable[[Floats], tuple[Floats, Floats]]
"""Margins (rows, n), increasing along each row -> the distribution function and the density there, row by row."""


def margin_grid(scenario: MixtureGLM, points: Points) -> Floats:
    """Return evenly spaced margins that hold nearly all samples of all points."""
    problem = MixtureProblem.of(scenario, points)
    state = solve_points(problem).state
    if problem.binary:
        centre, width, high = np.concatenate([state.mean, -state.mean]), np.sqrt(np.tile(state.q, (2, 1))), 2.0
    else:
        y = problem.moments()
        centre, width, high = y.y0 - state.mean, np.sqrt(np.maximum(y.squared_error(state), 0.0)), 0.0
    low, high = np.nanmin(centre - 4 * width, initial=0.0), np.nanmax(centre + 4 * width, initial=high)
    x = np.linspace(float(low), float(high), _COUNT)
    with np.errstate(all="ignore"):
        laws = margin_laws(scenario, problem, state, x)
    both = np.concatenate([laws["test_cdf"], laws["train_cdf"]])
    inside = np.any((both > _RARE) & (both < 1 - _RARE), axis=0)
    return np.linspace(x[inside][0], x[inside][-1], _COUNT) if inside.sum() > 1 else x


def margin_laws(scenario: MixtureGLM, problem: MixtureProblem, state: State, x: Floats) -> dict[str, Floats]:
    """Return distribution functions and densities at x, the mass on the margin and the fraction that pulls.

    A training margin at or below u comes from a fresh one at or below the origin of u under the proximal map.
    """
    order = np.argsort(x)
    copies = 2 if problem.binary else 1
    V, loss, law = np.tile(problem.strength(state.V).ravel(), copies), problem.margin_loss, _law(problem, state)
    margins = np.broadcast_to(x[order], (len(V), len(x)))
    test_cdf, test_density = law(margins)
    whole = law(np.full((len(V), 1), np.inf))[0]
    on_margin, atom = np.zeros((len(V), 1)), loss.atom(V)
    if problem.loss == "interpolate":
        train_cdf, train_density, on_margin = (margins >= copies - 1) * whole, np.zeros(margins.shape), whole
    else:
        origin, stretch = _origin(problem, margins, V[:, None])
        train_cdf, density = law(origin)
        train_density = np.where(stretch > 0, density * stretch, 0.0)
        if atom is not None:
            on_margin = np.diff(law(np.stack(atom, axis=1))[0])
    back, p, p_test = np.argsort(order), scenario.p, scenario.p_test
    return {
        "test_cdf": _average(problem, test_cdf, p_test)[:, back],
        "train_cdf": _average(problem, train_cdf, p)[:, back],
        "test_density": _average(problem, test_density, p_test)[:, back],
        "train_density": _average(problem, train_density, p)[:, back],
        "on_margin": _average(problem, on_margin, p)[:, 0],
        "support_vectors": _average(problem, law(loss.idle_above(V)[:, None])[0], p)[:, 0],
    }


def fresh_margins(problem: MixtureProblem, state: State, p: Floats, x: Floats) -> Floats:
    """Return the distribution function at x of the margins of fresh samples, with cluster c in a share p[c] of them."""
    order, rows = np.argsort(x), state.q.size * (2 if problem.binary else 1)
    cdf = _law(problem, state)(np.broadcast_to(x[order], (rows, len(x))))[0]
    return _average(problem, cdf, p)[:, np.argsort(order)]


def _average(problem: MixtureProblem, values: Floats, p: Floats) -> Floats:
    """Return the average over clusters (and the sum over labels) of values at rows, (B, n)."""
    return np.einsum("ybcx,c->bx", values.reshape(-1, problem.size, len(p), values.shape[1]), p)


def _law(problem: MixtureProblem, state: State) -> Law:
    return _binary_law(problem, state) if problem.binary else _residual_law(problem, state)


def _origin(problem: MixtureProblem, margins: Floats, V: Floats) -> tuple[Floats, Floats]:
    """Return what the proximal map takes to these margins (residuals), and the derivative."""
    if problem.binary:
        rows = np.repeat(np.arange(len(margins)), margins.shape[1])
        origin, stretch = problem.margin_loss.at(rows % (problem.size * problem.clusters)).origin(
            margins.ravel(), np.broadcast_to(V, margins.shape).ravel()
        )
        return origin.reshape(margins.shape), stretch.reshape(margins.shape)
    threshold = np.repeat(problem.huber, problem.clusters)[:, None] if problem.loss == "huber" else np.inf
    return margins + V * np.clip(margins, -threshold, threshold), np.where(np.abs(margins) < threshold, 1 + V, 1.0)


def _binary_law(problem: MixtureProblem, state: State) -> Law:
    """Return the law P(label, s <= margin) of rows (label, point, cluster)."""
    rows, labels = problem.margin_laws(state).with_mirrored(), problem.label_law

    def law(margins: Floats) -> tuple[Floats, Floats]:
        nodes = quadrature(rows, labels, margins)
        size, count = margins.shape
        row, bins = nodes.nodes.row, np.empty(len(nodes.s), dtype=np.intp)
        ends = np.searchsorted(row, np.arange(size + 1))
        for number, (low, high) in enumerate(zip(ends[:-1], ends[1:])):
            bins[low:high] = np.searchsorted(margins[number], nodes.s[low:high], side="left")
        mass = sum_rows(row * (count + 1) + bins, nodes.nodes.weights * nodes.chance, size * (count + 1))
        cdf = np.cumsum(mass.reshape(size, count + 1), axis=1)[:, :count]
        xi = (margins - rows.mean[:, None]) / rows.scale[:, None]
        finite = np.where(np.isfinite(xi), xi, 0.0)
        chance, _ = labels.positive(
            (rows.tau[:, None] + rows.slope[:, None] * finite).ravel(),
            np.repeat(rows.variance, count),
            np.repeat(rows.flip, count),
        )
        density = normal_density(xi) / rows.scale[:, None] * chance.reshape(xi.shape)
        return cdf, np.where(np.isfinite(xi), density, 0.0)

    return law


def _residual_law(problem: MixtureProblem, state: State) -> Law:
    """Return the law of y - omega of rows (point, cluster)."""
    residuals = Residuals.of(problem, state)

    def law(margins: Floats) -> tuple[Floats, Floats]:
        cdf, density = np.empty(margins.shape), np.empty(margins.shape)
        for j in range(margins.shape[1]):
            z = (margins[residuals.row, j] - residuals.mean) / residuals.scale
            cdf[:, j] = residuals.average(ndtr(z)).ravel()
            density[:, j] = residuals.average(normal_density(z) / residuals.scale).ravel()
        return cdf, density

    return law
