"""Which solver answers a batch: direct for the square loss, iterated otherwise, from a good start near separability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

import numpy as np

from giantstep.families.mixture_glm.elastic_net import ElasticNet
from giantstep.families.mixture_glm.fixed_point import Norms, Prior, Quadratic, Solution, solve
from giantstep.families.mixture_glm.problem import Problem, State
from giantstep.families.mixture_glm.ridge import solve_ridge
from giantstep.families.mixture_glm.separability import MarginStart
from giantstep.types import Array, Booleans, Indices

GOOD = 1e-9
_PATH_START, _FIRST_STEP, _LEAST_STEP, _LEAST_FALL, _MOST_STEPS = 0.4, 0.2, 1e-3, 0.3, 40


def solve_points(problem: Problem) -> Solution:
    """Solve all points of a batch; the residual of a point that was not solved stays large."""
    sparse = problem.l1 > 0
    groups: list[tuple[Booleans, Callable[[Problem], Solution]]] = [
        (~sparse, _without_l1),
        (sparse, lambda part: solve(part, ElasticNet())),
    ]
    return _each_group(problem, groups)


def _without_l1(problem: Problem) -> Solution:
    if problem.loss in ("square", "interpolate"):
        return solve_ridge(problem)
    if problem.loss == "maxmargin":
        keys = np.stack([problem.noise, problem.flip, problem.teacher_norm], axis=1)
        _, kind = np.unique(keys, axis=0, return_inverse=True)
        kind = kind.reshape(-1)
        return _each_group(problem, [(kind == number, _max_margin) for number in range(kind.max(initial=-1) + 1)])
    return solve(problem, Quadratic())


def _max_margin(problem: Problem) -> Solution:
    """Solve points that share their labels: from the isotropic stand-in, else along a path of sample sizes."""
    start = MarginStart(problem.take(np.zeros(1, dtype=np.intp)))
    prior = Quadratic()
    first = solve(problem, prior, start.state(problem.alpha), patient=False)
    failed = np.flatnonzero(~(first.residual < GOOD))
    if not failed.size:
        return first
    parts = [(np.setdiff1d(np.arange(problem.size), failed), first)]
    parts += [(failed[[k]], _along_path(problem.take(failed[[k]]), prior, start)) for k in range(len(failed))]
    return _placed(problem.size, parts)


def _along_path(problem: Problem, prior: Prior, start: MarginStart) -> Solution:
    """Solve one point by following the solution from fewer samples, in steps that adapt."""
    target = float(problem.alpha[0])
    at, step = _PATH_START * target, _FIRST_STEP * target
    solution = solve(replace(problem, alpha=np.array([at])), prior, start.state(np.array([at])))
    behind = (at, solution.state)
    for _ in range(_MOST_STEPS):
        if at >= target or step < _LEAST_STEP * target or not solution.residual[0] < GOOD:
            break
        ahead = min(at + step, target)
        guess = _ahead(behind, (at, solution.state), ahead)
        trial = solve(replace(problem, alpha=np.array([ahead])), prior, guess, patient=False)
        if trial.residual[0] < GOOD:
            behind, at, solution, step = (at, solution.state), ahead, trial, 1.5 * step
        else:
            step *= 0.4
    return solution if at >= target else solution._replace(residual=np.array([np.inf]))


def _ahead(behind: tuple[float, State], here: tuple[float, State], alpha: float) -> State:
    """Extrapolate: V and 1/sqrt(q) fall about linearly towards the end of separability, fields scale with sqrt(q)."""
    (a0, old), (a1, new) = behind, here
    if a1 == a0:
        return new
    fraction = (alpha - a1) / (a1 - a0)
    closing = np.maximum(1 + fraction * (1 - np.sqrt(new.q / old.q)), _LEAST_FALL)  # sqrt(q_new/q_ahead)
    V = new.V * np.maximum(1 + fraction * (1 - old.V / new.V), _LEAST_FALL)
    scale = 1 / closing
    return State(V, new.q * scale**2, new.m * scale, new.h * scale, new.b * scale.mean(axis=1))


def _each_group(problem: Problem, groups: list[tuple[Booleans, Callable[[Problem], Solution]]]) -> Solution:
    parts = []
    for chosen, solver in groups:
        places = np.flatnonzero(chosen)
        if places.size == problem.size:
            return solver(problem)
        if places.size:
            parts.append((places, solver(problem.take(places))))
    return _placed(problem.size, parts)


def _placed(size: int, parts: list[tuple[Indices, Solution]]) -> Solution:
    """Put the solutions of groups of points in their places."""

    def column(pick: Callable[[Solution], Array]) -> Array:
        first = pick(parts[0][1])
        out = np.empty((size, *first.shape[1:]), dtype=first.dtype)
        for places, solution in parts:
            part = pick(solution)
            out[places] = part[places] if len(part) == size else part
        return out

    state = State(*(column(attrgetter(f"state.{name}")) for name in ("V", "q", "m", "h", "b")))
    norms = Norms(*(column(attrgetter(f"norms.{name}")) for name in Norms._fields))
    return Solution(state, norms, column(attrgetter("residual")), column(attrgetter("iterations")))
