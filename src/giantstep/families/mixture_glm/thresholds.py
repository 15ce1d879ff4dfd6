"""Separability of a batch of points: the threshold alpha_c and the largest margin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.mixture_glm.fixed_point import Quadratic, Solution, solve
from giantstep.families.mixture_glm.problem import Problem
from giantstep.families.mixture_glm.separability import MarginStart, closed_threshold, critical, proxy
from giantstep.families.mixture_glm.solver import GOOD, solve_points
from giantstep.family import Answer
from giantstep.types import Floats

if TYPE_CHECKING:
    from giantstep.families.mixture_glm.scenario import MixtureGLM


_FROM, _CLOSE, _OPEN = 0.37, 3e-4, 1e-6
_STEPS = 80


def thresholds(scenario: MixtureGLM, points: Mapping[str, Floats], settings: Mapping[str, Any]) -> Answer:
    """Return alpha_c and, below it, the margin kappa = 1/sqrt(|w|^2/d) of the max-margin weights."""
    if not scenario.binary:
        raise bad_field("labels", str(scenario.labels), "sign, logit, cluster or random where thresholds are asked for")
    size = len(points["samples_per_dim"])
    problem = hard_margin(Problem.of(scenario, points))
    alpha_c = _thresholds(scenario, problem)
    kappa, residual, iterations = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)
    below = np.flatnonzero(problem.alpha < alpha_c)
    if below.size:
        solution = solve_points(problem.take(below))
        kappa[below] = 1 / np.sqrt(solution.norms.squared)
        residual[below], iterations[below] = solution.residual, solution.iterations
    tolerance = float(settings.get("tolerance", 1e-10))
    status = [
        "the threshold was not found"
        if math.isnan(threshold)
        else ""
        if left <= tolerance
        else "the margin was not found"
        for threshold, left in zip(alpha_c, residual)
    ]
    return Answer({"alpha_c": alpha_c, "kappa": kappa}, np.array(status, dtype=str), residual, iterations)


def hard_margin(problem: Problem) -> Problem:
    """Return the max-margin problem on the same data."""
    one = np.ones(problem.size)
    return replace(problem, loss="maxmargin", ridge=one, l1=0 * one, omega=np.ones(problem.clusters))


def _thresholds(scenario: MixtureGLM, problem: Problem) -> Floats:
    """Return alpha_c of every point; points that differ in the sample size only share it."""
    keys = np.stack([problem.noise, problem.flip, problem.teacher_norm], axis=1)
    kinds, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    found = np.empty(len(kinds))
    for number, (numbers, place) in enumerate(zip(kinds.tolist(), first)):
        closed = closed_threshold(scenario, *numbers)
        found[number] = from_margins(problem.take(np.array([place]))) if closed is None else closed
    return found[kind.reshape(-1)]


def from_margins(problem: Problem) -> float:
    """Return the zero of the max-margin kappa(alpha), approached from below; NaN where the path is lost.

    kappa is smooth in alpha and falls linearly to zero, so the last points extrapolate to it.
    """
    geometry = proxy(problem)
    if geometry.certain:
        return math.inf
    start = MarginStart(problem)
    alpha = _FROM * critical(geometry)
    found: list[tuple[float, float]] = []
    state = start.state(np.array([alpha]))
    for _ in range(_STEPS):
        solution = _at(problem, alpha, state)
        kappa = float(1 / np.sqrt(solution.norms.squared[0]))
        if not (solution.residual[0] < GOOD and kappa > _OPEN):
            if not found:
                alpha *= 0.5
                state = start.state(np.array([alpha]))
                continue
            alpha = 0.5 * (alpha + found[-1][0])
            continue
        state = solution.state
        found.append((alpha, kappa))
        if len(found) < 2:
            alpha *= 1.05
            continue
        (a0, k0), (a1, k1) = found[-2:]
        if not (a1 > a0 and k1 < k0):
            break
        zero = a1 + k1 * (a1 - a0) / (k0 - k1)
        if (zero - a1) < _CLOSE * a1 and len(found) >= 4:
            return _extrapolated(found[-4:])
        alpha = a1 + min(0.8 * (zero - a1), 0.08 * a1)
    return math.nan


def _at(problem: Problem, alpha: float, state: Any) -> Solution:
    return solve(replace(problem, alpha=np.array([alpha])), Quadratic(), state)


def _extrapolated(points: list[tuple[float, float]]) -> float:
    """Return alpha at kappa = 0 by the polynomial alpha(kappa) through the last points."""
    alphas, kappas = (np.array(part) for part in zip(*points))
    total = 0.0
    for j, alpha in enumerate(alphas):
        others = np.delete(kappas, j)
        total += alpha * np.prod(-others / (kappas[j] - others))
    return float(total)
