"""The square loss without iteration in q, m, h: K scalar equations for V, then two linear systems.

These are the steps (i) to (iii) of mixture_glm section 3.
"""

from __future__ import annotations

import numpy as np

from giantstep.families.mixture_glm.channel import Hats
from giantstep.families.mixture_glm.fixed_point import Quadratic, SolvedBatch
from giantstep.families.mixture_glm.problem import MixtureProblem, State
from giantstep.risk import implicit_mean_step
from giantstep.solve import solve_each, solve_fixed_point
from giantstep.types import Floats, Indices


def gain(problem: MixtureProblem, V: Floats) -> Floats:
    """Return k_c = omega_c/(1 + omega_c V_c), the pull per residual; 1/V_c where the data are interpolated."""
    return 1 / V if problem.loss == "interpolate" else problem.omega / (1 + problem.omega * V)


def solve_ridge(problem: MixtureProblem) -> SolvedBatch:
    """Solve the square loss (or its interpolating limit) at all points."""

    def step(x: Floats, active: Indices) -> tuple[Floats, Floats, Floats]:
        part = problem.take(active)
        V = np.exp(x)
        k = gain(part, V)
        response = part.mixture.data.response(part.ridge, part.samples * k, part.teacher_norm)
        plain = np.log(response.V)
        slope = response.T * (part.samples * k**2 * V)[:, None, :] / response.V[:, :, None]
        newton = x + solve_each(np.eye(part.clusters) - slope, (plain - x)[..., None])[..., 0]
        newton[np.abs(newton - x).max(axis=1) > 3] = np.nan
        return plain, newton, np.abs(plain - x).max(axis=1)

    with np.errstate(all="ignore"):
        point = solve_fixed_point(step, np.log(problem.start().V), goal=1e-14, good_enough=1e-11, max_steps=400)
        state, hat = _solve_linear(problem, np.exp(point.x))
        good = np.isfinite(state.q).all(axis=1) & (state.q >= 0).all(axis=1)
        norms = Quadratic().norms(problem, hat)
    return SolvedBatch(state, norms, np.where(good, point.residual, np.inf), point.iterations)


def _solve_linear(problem: MixtureProblem, V: Floats) -> tuple[State, Hats]:
    """Return m, h and b from one linear system, q from another, at the V found before."""
    K, y, k = problem.clusters, problem.moments(), gain(problem, V)
    weights, noise = problem.samples * k, problem.samples * k**2
    response = problem.mixture.data.response(problem.ridge, weights, problem.teacher_norm)
    R, T = response.R, response.T
    m_hat = weights * y.y1
    drift = (R[:, K:, :K] @ m_hat[..., None])[..., 0] - y.y0
    h_hat, b = implicit_mean_step(weights * drift, np.zeros(len(V)), R[:, K:, K:], weights, problem.intercept)
    beta = np.concatenate([m_hat, h_hat], axis=1)
    m, h = np.split((R @ beta[..., None])[..., 0], 2, axis=1)
    rest = y.squared_error(State(V, np.zeros_like(V), m, h, b))
    right = response.bias(beta) + (T @ (noise * rest)[..., None])[..., 0]
    q = solve_each(np.eye(K) - T * noise[:, None, :], right[..., None])[..., 0]
    return State(V, q, m, h, b), Hats(weights, noise * (rest + q), m_hat, h_hat)
