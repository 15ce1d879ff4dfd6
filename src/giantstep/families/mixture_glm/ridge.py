"""The square loss without iteration in q, m, h: K scalar equations for V, then two linear systems."""

from __future__ import annotations

import numpy as np

from giantstep.families.mixture_glm.fixed_point import Quadratic, Solution
from giantstep.families.mixture_glm.hats import Hats
from giantstep.families.mixture_glm.problem import Problem, State
from giantstep.risk import implicit_mean_step
from giantstep.solve import solve_each, solve_fixed_point
from giantstep.types import Floats, Indices, Integers


def gain(problem: Problem, V: Floats) -> Floats:
    """Return k_c = omega_c/(1 + omega_c V_c), the pull per residual; 1/V_c where the data are interpolated."""
    return 1 / V if problem.loss == "interpolate" else problem.omega / (1 + problem.omega * V)


def solve_ridge(problem: Problem) -> Solution:
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
        found = solve_fixed_point(step, np.log(problem.start().V), goal=1e-14, good_enough=1e-11, max_steps=400)
        return _linear_part(problem, np.exp(found.x), found.residual, found.iterations)


def _linear_part(problem: Problem, V: Floats, residual: Floats, iterations: Integers) -> Solution:
    K = problem.clusters
    y = problem.moments()
    k = gain(problem, V)
    response = problem.mixture.data.response(problem.ridge, problem.samples * k, problem.teacher_norm)
    R = response.R
    weights = problem.samples * k
    m_hat = weights * y.y1
    drift = (R[:, K:, :K] @ m_hat[..., None])[..., 0] - y.y0
    h_hat, b = implicit_mean_step(np.zeros_like(V), drift, R[:, K:, K:], weights, problem.intercept)
    beta = np.concatenate([m_hat, h_hat], axis=1)
    mh = (R @ beta[..., None])[..., 0]
    m, h = mh[:, :K], mh[:, K:]
    mean = h + b[:, None]
    rest = y.y2 - 2 * mean * y.y0 - 2 * m * y.y1 + mean**2
    noise = problem.samples * k**2
    bias = np.einsum("bi,bcij,bj->bc", beta, response.Q, beta, optimize=True)
    right = bias + (response.T @ (noise * rest)[..., None])[..., 0]
    q = solve_each(np.eye(K) - response.T * noise[:, None, :], right[..., None])[..., 0]
    state = State(V, q, m, h, b)
    hat = Hats(weights, noise * (rest + q), m_hat, h_hat)
    good = np.isfinite(q).all(axis=1) & (q >= 0).all(axis=1)
    return Solution(state, Quadratic().norms(problem, state, hat), np.where(good, residual, np.inf), iterations)
