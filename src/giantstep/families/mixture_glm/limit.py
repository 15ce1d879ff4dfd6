"""The limit d -> inf of convex learning on Gaussian mixtures: all points of a grid at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import InputError
from giantstep.families.mixture_glm.data_limit import OF_DATA, choose_theory, with_data
from giantstep.families.mixture_glm.fixed_point import SolvedBatch
from giantstep.families.mixture_glm.margins import margin_grid, margin_laws
from giantstep.families.mixture_glm.observables import Observables, observables
from giantstep.families.mixture_glm.problem import MixtureProblem
from giantstep.families.mixture_glm.scenario import REFERENCES, MixtureGLM
from giantstep.families.mixture_glm.solver import solve_points
from giantstep.families.mixture_glm.thresholds import thresholds
from giantstep.families.mixture_glm.tolerances import NO_MARGIN, VANISHING
from giantstep.family import Answer
from giantstep.types import Floats, Points

AT_ONCE = 4096
"""Clusters of points that are solved together: bounds the memory of a large grid (some 100 kB for each)."""


def limit(scenario: MixtureGLM, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer a question with the limit of the Gaussians; with data, squared errors from a theory of the dataset."""
    answers = {"errors": _errors, "universality": _universality, "thresholds": thresholds, "margins": _margins}
    theory = choose_theory(scenario, what, settings.get("theory"))
    size, most = len(points["samples_per_dim"]), max(1, AT_ONCE // scenario.clusters)
    pieces = [
        answers[what](scenario, {name: column[start : start + most] for name, column in points.items()}, settings)
        for start in range(0, max(size, 1), most)
    ]
    answer = pieces[0] if len(pieces) == 1 else _join(pieces)
    return with_data(scenario, points, answer, theory) if theory in OF_DATA else answer


def _join(pieces: list[Answer]) -> Answer:
    """Return the answers of consecutive points as one."""
    values = {name: np.concatenate([piece.values[name] for piece in pieces]) for name in pieces[0].values}
    columns = zip(*((piece.status, piece.residual, piece.iterations) for piece in pieces))
    status, residual, iterations = map(np.concatenate, columns)
    return Answer(values, status, residual, iterations, pieces[0].coords)


def prepare(scenario: MixtureGLM, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the margins of the ``margins`` question where they are left open; name the references of universality."""
    if what == "universality":
        return {**settings, "reference": list(REFERENCES)}
    if what == "margins" and settings.get("x") is None:
        return {**settings, "x": margin_grid(scenario, points)}
    return dict(settings)


def _answer(
    problem: MixtureProblem,
    solution: SolvedBatch,
    values: dict[str, Floats],
    settings: Mapping[str, Any],
    **coords: Any,
) -> Answer:
    """Return the values with what became of every point."""
    tolerance, status = float(settings.get("tolerance", 1e-10)), []
    for residual, q, norm in zip(solution.residual, solution.state.q.max(axis=1), solution.norms.squared):
        reason = "" if residual <= tolerance else f"the fixed point was not reached (residual {residual:.1e})"
        if problem.loss == "maxmargin" and (reason or norm > 1 / NO_MARGIN**2):
            reason = 'no margin was found: not separable with so many samples (what="thresholds" says up to how many)'
        elif reason and q < VANISHING:
            reason += ": the weights vanish"
        status.append(reason)
    return Answer(values, np.array(status, dtype=str), solution.residual, solution.iterations, coords)


def _errors(scenario: MixtureGLM, points: Points, settings: Mapping[str, Any]) -> Answer:
    problem = MixtureProblem.of(scenario, points)
    solution = solve_points(problem)
    test = problem.without_noise() if settings.get("test_labels", "noisy") == "clean" else problem
    with np.errstate(all="ignore"):
        observed = observables(problem, solution.state, test)
        values = {**_averages(scenario, observed), **_order_parameters(scenario, problem, solution, observed)}
    return _answer(problem, solution, values, settings)


def _averages(scenario: MixtureGLM, observed: Observables) -> dict[str, Floats]:
    """Return the observables averaged over the clusters: by their weights in training, or in the test."""
    values = {}
    for name, by_cluster in observed._asdict().items():
        p = scenario.p_test if name.startswith("test") else scenario.p
        values[name] = np.where(p > 0, by_cluster, 0.0) @ p
    return values


def _order_parameters(
    scenario: MixtureGLM, problem: MixtureProblem, solution: SolvedBatch, observed: Observables
) -> dict[str, Floats]:
    """Return order parameters, objective, cross-validation, and the observables of each cluster."""
    state, norms, p = solution.state, solution.norms, scenario.p
    values = {f"{name}_by_cluster": by_cluster for name, by_cluster in observed._asdict().items()}
    for name in ("train_loss_by_cluster", "train_error_by_cluster"):
        values[name] = values[name] * np.where(p > 0, 1.0, np.nan)
    penalty = 0.5 * problem.ridge * norms.squared + np.where(problem.l1 > 0, problem.l1 * norms.absolute, 0.0)
    weighted = np.where(p > 0, observed.train_loss, 0.0) @ (p * problem.omega)
    gcv = np.full(problem.size, np.nan)
    if scenario.loss == "square" and not np.any(problem.l1):
        strength = problem.strength(state.V)
        gcv = 2 * (observed.train_loss @ p) / (1 - (strength / (1 + strength)) @ p) ** 2
    norm = {"norm": norms.squared, "nonzero": norms.nonzero}
    return {"objective": weighted + penalty / problem.alpha, **state._asdict(), **norm, "gcv": gcv, **values}


def _universality(scenario: MixtureGLM, points: Points, settings: Mapping[str, Any]) -> Answer:
    problem = MixtureProblem.of(scenario, points)
    if scenario.labels == "cluster":
        raise InputError('One Gaussian has no clusters to take labels from: universality is not for labels="cluster".')
    if scenario.test_weights or scenario.loss_weights:
        raise InputError("One Gaussian has no clusters to weigh: leave test_weights and loss_weights out here.")
    ones, K = np.ones(1), problem.clusters
    means = problem.mixture.data.response(ones, np.ones((1, K)), ones).R[:, K:, K:]
    if np.any(problem.l1) and np.any(means):
        raise InputError("Field `l1` must be 0 where the means do not vanish: the matched Gaussian is not diagonal.")
    solution = solve_points(problem)
    with np.errstate(all="ignore"):
        own = _averages(scenario, observables(problem, solution.state, problem))
    residual, iterations = solution.residual, solution.iterations
    gaps: dict[str, list[Floats]] = {name: [] for name in own}
    for mixture in (problem.mixture.matched(), problem.mixture.within()):
        reference = problem.on_one_gaussian(mixture)
        other = solve_points(reference)
        residual, iterations = np.maximum(residual, other.residual), iterations + other.iterations
        with np.errstate(all="ignore"):
            observed = observables(reference, other.state, reference)
        for name, value in observed._asdict().items():
            gaps[name].append(own[name] - value[:, 0])
    values = {name: np.stack(pair, axis=1) for name, pair in gaps.items()}
    both = solution._replace(residual=residual, iterations=iterations)
    return _answer(problem, both, values, settings, reference=np.array(REFERENCES))


def _margins(scenario: MixtureGLM, points: Points, settings: Mapping[str, Any]) -> Answer:
    problem = MixtureProblem.of(scenario, points)
    solution = solve_points(problem)
    x = np.atleast_1d(np.asarray(settings["x"], dtype=float))
    with np.errstate(all="ignore"):
        values = margin_laws(scenario, problem, solution.state, x)
    return _answer(problem, solution, values, settings, x=x)
