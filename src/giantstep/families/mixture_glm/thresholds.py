"""Separability of a batch of points: the threshold alpha_c and the largest margin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from giantstep.deadline import check_time
from giantstep.errors import bad_field
from giantstep.families.mixture_glm.fixed_point import Quadratic, solve
from giantstep.families.mixture_glm.problem import MixtureProblem
from giantstep.families.mixture_glm.scenario import MixtureGLM
from giantstep.families.mixture_glm.separability import MarginStart, closed_threshold, critical, isotropic_proxy
from giantstep.families.mixture_glm.solver import solve_points
from giantstep.families.mixture_glm.tolerances import (
    MOST_THRESHOLD_STEPS,
    NO_MARGIN,
    SOLVED,
    THRESHOLD_NEAR,
    THRESHOLD_PATH_START,
)
from giantstep.family import Answer
from giantstep.types import Floats, Points


def thresholds(scenario: MixtureGLM, points: Points, settings: Mapping[str, Any]) -> Answer:
    """Return alpha_c and, below it, the margin kappa = 1/sqrt(|w|^2/d) of the max-margin weights."""
    if not scenario.binary:
        raise bad_field("labels", str(scenario.labels), "sign, logit, cluster or random where thresholds are asked for")
    problem = hard_margin(MixtureProblem.of(scenario, points))
    alpha_c = _thresholds(problem)
    kappa, residual = np.zeros(problem.size), np.zeros(problem.size)
    iterations = np.zeros(problem.size, dtype=np.int64)
    below = np.flatnonzero(problem.alpha < alpha_c)
    if below.size:
        solution = solve_points(problem.take(below))
        kappa[below] = 1 / np.sqrt(solution.norms.squared)
        residual[below], iterations[below] = solution.residual, solution.iterations
    unsolved = ~(residual <= float(settings.get("tolerance", 1e-10)))
    status = np.where(unsolved, "the margin was not found", "")
    status = np.where(np.isnan(alpha_c), "the threshold was not found", status)
    return Answer({"alpha_c": alpha_c, "kappa": kappa}, status, residual, iterations)


def hard_margin(problem: MixtureProblem) -> MixtureProblem:
    """Return the max-margin problem on the same data."""
    ones = np.ones(problem.size)
    return replace(problem, loss="maxmargin", ridge=ones, l1=0 * ones, omega=np.ones(problem.clusters))


def _thresholds(problem: MixtureProblem) -> Floats:
    """Return alpha_c of every point; points that differ in the sample size only share it."""
    alpha_c = np.empty(problem.size)
    for index in problem.kinds():
        point = problem.take(index[:1])
        closed = closed_threshold(point)
        alpha_c[index] = from_margins(point) if closed is None else closed
    return alpha_c


def from_margins(problem: MixtureProblem) -> float:
    """Return the zero of the max-margin kappa(alpha) of one point, approached from below; NaN where the path is lost.

    kappa is smooth in alpha and falls linearly to zero, so the polynomial alpha(kappa) through the last points
    extrapolates to it.
    """
    geometry = isotropic_proxy(problem)
    if geometry.certain:
        return math.inf
    start = MarginStart(problem)
    alpha = THRESHOLD_PATH_START * critical(geometry)
    path: list[tuple[float, float]] = []
    state = start.state(np.array([alpha]))
    for _ in range(MOST_THRESHOLD_STEPS):
        check_time()
        solution = solve(replace(problem, alpha=np.array([alpha])), Quadratic(), state)
        kappa = float(1 / np.sqrt(solution.norms.squared[0]))
        if not (solution.residual[0] < SOLVED and kappa > NO_MARGIN):
            if path:
                alpha = 0.5 * (alpha + path[-1][0])
            else:
                alpha *= 0.5
                state = start.state(np.array([alpha]))
            continue
        state = solution.state
        path.append((alpha, kappa))
        if len(path) < 2:
            alpha *= 1.05
            continue
        (a0, k0), (a1, k1) = path[-2:]
        if not (a1 > a0 and k1 < k0):
            break
        zero = a1 + k1 * (a1 - a0) / (k0 - k1)
        if (zero - a1) < THRESHOLD_NEAR * a1 and len(path) >= 4:
            alphas, kappas = np.array(path[-4:]).T
            return float(scipy.interpolate.BarycentricInterpolator(kappas, alphas)(0.0))
        alpha = a1 + min(0.8 * (zero - a1), 0.08 * a1)
    return math.nan
