"""Which solver answers a batch: direct for the square loss, iterated otherwise, from a
good start near separability.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats, Indices
from giantstep.core.maths.solve import solve_each, solve_fixed_point
from giantstep.core.readout.losses.mean_step import implicit_mean_step
from giantstep.problems.mixture_glm.fixed_point import (
    Hats,
    Norms,
    SolvedBatch,
    norms_of,
    solve,
)
from giantstep.problems.mixture_glm.problem import MixtureProblem, State
from giantstep.problems.mixture_glm.separability import MarginStart
from giantstep.problems.mixture_glm.tolerances import (
    FIRST_STEP,
    LEAST_STEP,
    MOST_PATH_STEPS,
    PATH_START,
    SOLVED,
)


def solve_points(problem: MixtureProblem) -> SolvedBatch:
    """Solve all points of a batch; the residual of a point that was not solved stays
    large.
    """
    groups: list[tuple[Indices, Callable[[MixtureProblem], SolvedBatch]]]
    if problem.loss == "maxmargin":
        groups = [(index, _solve_max_margin) for index in problem.kinds()]
    else:
        if problem.loss in ("square", "interpolate"):
            direct = solve_ridge
        else:
            direct = solve
        groups = [
            (np.flatnonzero(problem.l1 == 0), direct),
            (np.flatnonzero(problem.l1), solve),
        ]
    parts = []
    for index, solver in groups:
        if index.size == problem.size:
            return solver(problem)
        if index.size:
            parts.append((index, solver(problem.take(index))))
    return _merge(problem.size, parts)


def gain(problem: MixtureProblem, V: Floats) -> Floats:
    """Return k_c = omega_c/(1 + omega_c V_c), the pull per residual; 1/V_c where the
    data are interpolated.
    """
    if problem.loss == "interpolate":
        return 1 / V
    return problem.omega / (1 + problem.omega * V)


def solve_ridge(problem: MixtureProblem) -> SolvedBatch:
    """Solve the square loss (or its interpolating limit): K equations for V, two linear
    systems.
    """

    def step(x: Floats, active: Indices) -> tuple[Floats, Floats, Floats]:
        part = problem.take(active)
        V = np.exp(x)
        k = gain(part, V)
        response = part.mixture.data.response(
            part.ridge, part.samples * k, part.teacher_norm
        )
        plain = np.log(response.V)
        slope = (
            response.T * (part.samples * k**2 * V)[:, None, :] / response.V[:, :, None]
        )
        newton = (
            x
            + solve_each(np.eye(part.clusters) - slope, (plain - x)[..., None])[..., 0]
        )
        newton[np.abs(newton - x).max(axis=1) > 3] = np.nan
        return plain, newton, np.abs(plain - x).max(axis=1)

    with np.errstate(all="ignore"):
        point = solve_fixed_point(
            step,
            np.log(problem.start().V),
            goal=1e-14,
            good_enough=1e-11,
            max_steps=400,
        )
        state, hat = _solve_linear(problem, np.exp(point.x))
        good = np.isfinite(state.q).all(axis=1) & (state.q >= 0).all(axis=1)
        norms = norms_of(problem, hat)
    return SolvedBatch(
        state, norms, np.where(good, point.residual, np.inf), point.iterations
    )


def _solve_linear(problem: MixtureProblem, V: Floats) -> tuple[State, Hats]:
    """Return m, h and b from one linear system, q from another, at the V found
    before.
    """
    K = problem.clusters
    y = problem.moments()
    k = gain(problem, V)
    weights = problem.samples * k
    noise = problem.samples * k**2
    response = problem.mixture.data.response(
        problem.ridge, weights, problem.teacher_norm
    )
    R = response.R
    T = response.T
    m_hat = weights * y.y1
    drift = (R[:, K:, :K] @ m_hat[..., None])[..., 0] - y.y0
    h_hat, b = implicit_mean_step(
        weights * drift, np.zeros(len(V)), R[:, K:, K:], weights, problem.intercept
    )
    beta = np.concatenate([m_hat, h_hat], axis=1)
    m, h = np.split((R @ beta[..., None])[..., 0], 2, axis=1)
    rest = y.squared_error(State(V, np.zeros_like(V), m, h, b))
    right = response.bias(beta) + (T @ (noise * rest)[..., None])[..., 0]
    q = solve_each(np.eye(K) - T * noise[:, None, :], right[..., None])[..., 0]
    return State(V, q, m, h, b), Hats(weights, noise * (rest + q), m_hat, h_hat)


def _solve_max_margin(problem: MixtureProblem) -> SolvedBatch:
    """Solve points that share their labels: from the isotropic stand-in, else along a
    path of sample sizes.
    """
    start = MarginStart(problem.take(np.zeros(1, dtype=np.intp)))
    first = solve(problem, start.state(problem.alpha), patient=False)
    failed = np.flatnonzero(~(first.residual < SOLVED))
    if not failed.size:
        return first
    paths = [
        (failed[[k]], _follow_path(problem.take(failed[[k]]), start))
        for k in range(len(failed))
    ]
    return _merge(problem.size, [(np.arange(problem.size), first), *paths])


def _follow_path(problem: MixtureProblem, start: MarginStart) -> SolvedBatch:
    """Solve one point by following the solution from fewer samples, in steps that
    adapt.
    """
    target = float(problem.alpha[0])
    alpha = PATH_START * target
    step = FIRST_STEP * target
    solution = solve(
        replace(problem, alpha=np.array([alpha])), start.state(np.array([alpha]))
    )
    for _ in range(MOST_PATH_STEPS):
        check_time()
        if (
            alpha >= target
            or step < LEAST_STEP * target
            or not solution.residual[0] < SOLVED
        ):
            break
        ahead = min(alpha + step, target)
        trial = solve(
            replace(problem, alpha=np.array([ahead])), solution.state, patient=False
        )
        if trial.residual[0] < SOLVED:
            alpha = ahead
            solution = trial
            step = 1.5 * step
        else:
            step *= 0.4
    if alpha >= target:
        return solution
    return solution._replace(residual=np.array([np.inf]))


def _merge(size: int, parts: list[tuple[Indices, SolvedBatch]]) -> SolvedBatch:
    """Return the solutions of some of the points each as one; later ones replace
    earlier ones.
    """
    columns = [
        [*solved.state, *solved.norms, solved.residual, solved.iterations]
        for _, solved in parts
    ]
    wholes = [
        np.empty((size, *column.shape[1:]), dtype=column.dtype) for column in columns[0]
    ]
    for (index, _), pieces in zip(parts, columns):
        for whole, piece in zip(wholes, pieces):
            whole[index] = piece
    return SolvedBatch(State(*wholes[:5]), Norms(*wholes[5:8]), *wholes[8:])
