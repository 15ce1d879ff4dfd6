"""Laws of the margins y omega (real labels: of the residuals y - omega) of fresh and of
training samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from giantstep.core.base.types import Floats, Points
from giantstep.core.maths.gaussian import normal_density
from giantstep.core.readout.losses.channel import Margins, quadrature, sum_rows
from giantstep.problems.mixture_glm.fixed_point import Residuals
from giantstep.problems.mixture_glm.problem import MixtureProblem, State
from giantstep.problems.mixture_glm.solver import solve_points

if TYPE_CHECKING:
    from giantstep.problems.mixture_glm.scenario import MixtureGLM

_COUNT = 161
"""Margins of a grid that is chosen here: a curve on a screen."""
_RARE = 1e-4
"""Probability beyond both ends of such a grid."""

Law = Callable[[Floats], tuple[Floats, Floats]]
"""Margins (rows, n), increasing along each row -> the distribution function and the
density there, row by row.
"""


def margin_grid(scenario: MixtureGLM, points: Points) -> Floats:
    """Return evenly spaced margins that hold nearly all samples of all points."""
    problem = MixtureProblem.of(scenario, points)
    state = solve_points(problem).state
    if problem.binary:
        centre = np.concatenate([state.mean, -state.mean])
        width = np.sqrt(np.tile(state.q, (2, 1)))
        high = 2.0
    else:
        y = problem.moments()
        centre = y.y0 - state.mean
        width = np.sqrt(np.maximum(y.squared_error(state), 0.0))
        high = 0.0
    low = np.nanmin(centre - 4 * width, initial=0.0)
    high = np.nanmax(centre + 4 * width, initial=high)
    x = np.linspace(float(low), float(high), _COUNT)
    with np.errstate(all="ignore"):
        laws = margin_laws(scenario, problem, state, x)
    both = np.concatenate([laws["test_cdf"], laws["train_cdf"]])
    inside = np.any((both > _RARE) & (both < 1 - _RARE), axis=0)
    if inside.sum() > 1:
        return np.linspace(x[inside][0], x[inside][-1], _COUNT)
    return x


def margin_laws(
    scenario: MixtureGLM, problem: MixtureProblem, state: State, x: Floats
) -> dict[str, Floats]:
    """Return distribution functions and densities at x, the mass on the margin and the
    fraction that pulls.

    A training margin at or below u comes from a fresh one at or below the origin of u
    under the proximal map.
    """
    order = np.argsort(x)
    copies = 2 if problem.binary else 1
    V = np.tile((problem.omega * state.V).ravel(), copies)
    loss = problem.margin_loss
    law = _law(problem, state)
    margins = np.broadcast_to(x[order], (len(V), len(x)))
    test_cdf, test_density = law(margins)
    whole = law(np.full((len(V), 1), np.inf))[0]
    on_margin = np.zeros((len(V), 1))
    atom = loss.atom(V)
    pulled_below = np.full(len(V), np.inf) if atom is None else atom[1]
    if problem.loss == "interpolate":
        train_cdf = (margins >= copies - 1) * whole
        train_density = np.zeros(margins.shape)
        on_margin = whole
    else:
        row = np.repeat(np.arange(len(V)), len(x))
        # a residual r is that of u = 1 - r
        u = margins.ravel() if problem.binary else 1 - margins.ravel()
        origin, stretch = (
            part.reshape(margins.shape)
            for part in loss.at(row % state.V.size).origin(u, V[row])
        )
        train_cdf, density = law(origin if problem.binary else 1 - origin)
        train_density = np.where(stretch > 0, density * stretch, 0.0)
        if atom is not None:
            on_margin = np.diff(law(np.stack(atom, axis=1))[0])
    back = np.argsort(order)
    p = scenario.p
    p_test = scenario.p_test
    laws = {
        "test_cdf": test_cdf,
        "train_cdf": train_cdf,
        "test_density": test_density,
        "train_density": train_density,
    }
    return {
        **{
            name: _average(problem, rows, p_test if "test" in name else p)[:, back]
            for name, rows in laws.items()
        },
        "on_margin": _average(problem, on_margin, p)[:, 0],
        "support_vectors": _average(problem, law(pulled_below[:, None])[0], p)[:, 0],
    }


def fresh_margins(
    problem: MixtureProblem, state: State, p: Floats, x: Floats
) -> Floats:
    """Return the distribution function at x of the margins of fresh samples, with
    cluster c in a share p[c] of them.
    """
    order = np.argsort(x)
    rows = state.q.size * (2 if problem.binary else 1)
    cdf, _ = _law(problem, state)(np.broadcast_to(x[order], (rows, len(x))))
    return _average(problem, cdf, p)[:, np.argsort(order)]


def _average(problem: MixtureProblem, values: Floats, p: Floats) -> Floats:
    """Return the average over clusters (and the sum over labels) of values at rows, (B,
    n).
    """
    return np.einsum(
        "ybcx,c->bx", values.reshape(-1, problem.size, len(p), values.shape[1]), p
    )


def _law(problem: MixtureProblem, state: State) -> Law:
    """Return the law P(label, s <= margin) of rows (label, point, cluster); for real
    labels that of residuals.
    """
    if not problem.binary:
        return _residual_law(problem, state)
    rows = problem.margin_laws(state).with_mirrored()
    labels = problem.label_law

    def law(margins: Floats) -> tuple[Floats, Floats]:
        nodes = quadrature(rows, labels, margins)
        size, count = margins.shape
        row = nodes.nodes.row
        bins = np.empty(len(nodes.s), dtype=np.intp)
        ends = np.searchsorted(row, np.arange(size + 1))
        for number, (low, high) in enumerate(zip(ends[:-1], ends[1:])):
            bins[low:high] = np.searchsorted(
                margins[number], nodes.s[low:high], side="left"
            )
        mass = sum_rows(
            row * (count + 1) + bins,
            nodes.nodes.weights * nodes.chance,
            size * (count + 1),
        )
        cdf = np.cumsum(mass.reshape(size, count + 1), axis=1)[:, :count]
        xi = (margins - rows.mean[:, None]) / rows.scale[:, None]
        field = rows.tau[:, None] + rows.slope[:, None] * np.where(
            np.isfinite(xi), xi, 0.0
        )
        chance, _ = labels.positive(field, rows.variance[:, None], rows.flip[:, None])
        return cdf, np.where(
            np.isfinite(xi), normal_density(xi) / rows.scale[:, None] * chance, 0.0
        )

    return law


def _residual_law(problem: MixtureProblem, state: State) -> Law:
    """Return the law of y - omega of rows (point, cluster)."""
    residuals = Residuals.of(problem, state)

    def law(margins: Floats) -> tuple[Floats, Floats]:
        cdf = np.empty(margins.shape)
        density = np.empty(margins.shape)
        for j in range(margins.shape[1]):
            z = (margins[residuals.nodes.row, j] - residuals.mean) / residuals.scale
            cdf[:, j] = residuals.average(ndtr(z)).ravel()
            density[:, j] = residuals.average(
                normal_density(z) / residuals.scale
            ).ravel()
        return cdf, density

    return law


# -- Errors and losses of fresh and of training samples --------------------------------


class Observables(NamedTuple):
    """Per point and cluster, (B, K)."""

    test_error: Floats
    test_mse: Floats
    test_loss: Floats
    train_loss: Floats
    train_error: Floats


def observables(
    problem: MixtureProblem, state: State, test: MixtureProblem
) -> Observables:
    """Return the observables of every cluster; `test` is the problem with the labels of
    the test samples.
    """
    shared = None
    if (
        problem.binary and test is problem
    ):  # both kinds of samples have the same margins
        shared = _both_labels(
            problem,
            state,
            np.concatenate([_kinks(problem, state, V) for V in (0.0, 1.0)], axis=1),
        )
    return Observables(
        *fresh_errors(test, state, shared), *training_errors(problem, state, shared)
    )


def fresh_errors(
    problem: MixtureProblem, state: State, margins: Margins | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return error, squared error and loss of fresh samples, which see q, m, h and b of
    the weights only.
    """
    mse = problem.moments().squared_error(state)
    if not problem.binary and problem.loss != "huber":
        return mse, mse, 0.5 * mse
    loss, error = _errors(problem, state, 0.0, margins)
    return error if problem.binary else mse, mse, loss


def training_errors(
    problem: MixtureProblem, state: State, margins: Margins | None = None
) -> tuple[Floats, Floats]:
    """Return loss and error of the training samples."""
    if problem.loss in ("interpolate", "maxmargin"):
        return np.zeros(state.V.shape), np.zeros(state.V.shape)
    return _errors(problem, state, 1.0, margins)


def _errors(
    problem: MixtureProblem, state: State, share: float, margins: Margins | None
) -> tuple[Floats, Floats]:
    """Return loss and error after a fit (share 1), or of fresh samples, on which
    nothing pulls (share 0).
    """
    V = share * problem.omega * state.V
    shape = state.V.shape
    if problem.binary:
        margins = margins or _both_labels(problem, state, _kinks(problem, state, share))
        row = margins.nodes.row % V.size
        loss = problem.margin_loss.at(row)
        strength = V.ravel()[row]
        u = loss.pull(margins.s, strength).u if share else margins.s
        sides: Any = 0.0
        if share:
            sides = problem.margin_loss.turning_point(V.ravel())[row]
        both = margins.expect(loss.value(u), (margins.s < sides).astype(float))
        # over both labels
        of_loss, error = (part.reshape(2, *shape).sum(axis=0) for part in both)
        return of_loss, error
    if problem.loss != "huber":
        left = problem.moments().squared_error(state) / (1 + V) ** 2
        return 0.5 * left, left
    # Huber's loss of real labels, E clip(r)^2/2 + delta E(|r| - delta)_+: training
    # residuals are r/(1 + V)
    delta = problem.huber[:, None]
    residuals = Residuals.of(problem, state)
    moments = residuals.clip(delta * (1 + V))
    inner = 0.5 * residuals.average(moments.second) / (1 + V) ** 2
    tail = delta * residuals.average(moments.rest_size)
    return inner + tail, 2 * inner + 2 * tail + residuals.average(moments.rest_squared)


def _kinks(problem: MixtureProblem, state: State, share: float) -> Floats:
    """Return where the loss bends or predictions change sides, after a fit (share 1)
    and on fresh samples (share 0).
    """
    V = share * (problem.omega * state.V).ravel()
    loss = problem.margin_loss
    sides = loss.turning_point(V) if share else np.zeros(V.shape)
    return np.concatenate([loss.kinks(V), sides[:, None]], axis=1)


def _both_labels(problem: MixtureProblem, state: State, kinks: Floats) -> Margins:
    """Return nodes for the margins of label 1, then of label -1, in all clusters of all
    points.
    """
    return quadrature(
        problem.margin_laws(state).with_mirrored(),
        problem.label_law,
        np.tile(kinks, (2, 1)),
    )
