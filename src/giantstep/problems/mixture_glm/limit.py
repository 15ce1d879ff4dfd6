"""The limit d -> inf of convex learning on Gaussian mixtures: all points of a grid at
once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats, Points
from giantstep.core.scenario.answer import Answer
from giantstep.problems.mixture_glm.fixed_point import SolvedBatch, solve
from giantstep.problems.mixture_glm.margins import (
    Observables,
    margin_grid,
    margin_laws,
    observables,
)
from giantstep.problems.mixture_glm.problem import MixtureProblem
from giantstep.problems.mixture_glm.ridge_curve import NO_PREDICTION, RidgeCurve
from giantstep.problems.mixture_glm.scenario import (
    ASK_INSTEAD,
    OF_DATA,
    REFERENCES,
    MixtureGLM,
)
from giantstep.problems.mixture_glm.separability import (
    MarginStart,
    closed_threshold,
    critical,
)
from giantstep.problems.mixture_glm.solver import solve_points
from giantstep.problems.mixture_glm.tolerances import (
    MOST_THRESHOLD_STEPS,
    NO_MARGIN,
    SOLVED,
    THRESHOLD_NEAR,
    THRESHOLD_PATH_START,
    VANISHING,
)

AT_ONCE = 4096
"""Clusters of points that are solved together: bounds the memory of a large grid (some
100 kB for each).
"""


def limit(
    scenario: MixtureGLM, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Answer a question with the limit of the Gaussians; with data, squared errors from
    a theory of the dataset.
    """
    answers = {
        "errors": _errors,
        "universality": _universality,
        "thresholds": _thresholds,
        "margins": _margins,
    }
    theory = choose_theory(scenario, what, settings.get("theory"))
    size = len(points["samples_per_dim"])
    most = max(1, AT_ONCE // scenario.clusters)
    pieces = [
        answers[what](
            scenario,
            {name: column[start : start + most] for name, column in points.items()},
            settings,
        )
        for start in range(0, max(size, 1), most)
    ]
    values = {
        name: np.concatenate([piece.values[name] for piece in pieces])
        for name in pieces[0].values
    }
    columns = zip(
        *((piece.status, piece.residual, piece.iterations) for piece in pieces)
    )
    status, residual, iterations = map(np.concatenate, columns)
    answer = Answer(values, status, residual, iterations, pieces[0].coords)
    if theory in OF_DATA:
        return with_data(scenario, points, answer, theory)
    return answer


def prepare(
    scenario: MixtureGLM, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Choose the margins of the ``margins`` question where they are left open; name the
    references of universality.
    """
    if what == "universality" and scenario.labels == "cluster":
        instead = f"; {ASK_INSTEAD}" if scenario.data is not None else ""
        words = (
            "One Gaussian has no clusters to take labels from: universality is not for"
            ' labels="cluster"'
        )
        raise InputError(f"{words}{instead}.")
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
    tolerance = float(settings.get("tolerance", 1e-10))
    status = []
    for residual, q, norm in zip(
        solution.residual, solution.state.q.max(axis=1), solution.norms.squared
    ):
        if residual <= tolerance:
            reason = ""
        else:
            reason = f"the fixed point was not reached (residual {residual:.1e})"
        if problem.loss == "maxmargin" and (reason or norm > 1 / NO_MARGIN**2):
            reason = (
                "no margin was found: not separable with so many samples"
                ' (what="thresholds" says up to how many)'
            )
        elif reason and q < VANISHING:
            reason += ": the weights vanish"
        status.append(reason)
    return Answer(
        values,
        np.array(status, dtype=str),
        solution.residual,
        solution.iterations,
        coords,
    )


def _errors(
    scenario: MixtureGLM, points: Points, settings: Mapping[str, Any]
) -> Answer:
    problem = MixtureProblem.of(scenario, points)
    solution = solve_points(problem)
    if settings.get("test_labels", "noisy") == "clean":
        test = problem.without_noise()
    else:
        test = problem
    state = solution.state
    norms = solution.norms
    p = scenario.p
    with np.errstate(all="ignore"):
        observed = observables(problem, state, test)
        by_cluster = {
            f"{name}_by_cluster": column for name, column in observed._asdict().items()
        }
        for name in ("train_loss_by_cluster", "train_error_by_cluster"):
            by_cluster[name] = by_cluster[name] * np.where(p > 0, 1.0, np.nan)
        penalty = 0.5 * problem.ridge * norms.squared + np.where(
            problem.l1 > 0, problem.l1 * norms.absolute, 0.0
        )
        weighted = np.where(p > 0, observed.train_loss, 0.0) @ (p * problem.omega)
        gcv = np.full(problem.size, np.nan)
        if scenario.loss == "square" and not np.any(problem.l1):
            strength = problem.omega * state.V
            gcv = (
                2
                * (observed.train_loss @ p)
                / (1 - (strength / (1 + strength)) @ p) ** 2
            )
    own = {
        "norm": norms.squared,
        "nonzero": norms.nonzero,
        "objective": weighted + penalty / problem.alpha,
        "gcv": gcv,
    }
    values = {**_averages(scenario, observed), **state._asdict(), **own, **by_cluster}
    return _answer(problem, solution, values, settings)


def _averages(scenario: MixtureGLM, observed: Observables) -> dict[str, Floats]:
    """Return the observables averaged over the clusters: by their weights in training,
    or in the test.
    """
    values = {}
    for name, by_cluster in observed._asdict().items():
        p = scenario.p_test if name.startswith("test") else scenario.p
        values[name] = np.where(p > 0, by_cluster, 0.0) @ p
    return values


def _universality(
    scenario: MixtureGLM, points: Points, settings: Mapping[str, Any]
) -> Answer:
    problem = MixtureProblem.of(scenario, points)
    if scenario.test_weights or scenario.loss_weights:
        raise InputError(
            "One Gaussian has no clusters to weigh: leave test_weights and loss_weights"
            " out here."
        )
    ones = np.ones(1)
    K = problem.clusters
    means = problem.mixture.data.response(ones, np.ones((1, K)), ones).R[:, K:, K:]
    if np.any(problem.l1) and np.any(means):
        raise InputError(
            "Field `l1` must be 0 where the means do not vanish: the matched Gaussian"
            " is not diagonal."
        )
    mixtures = (problem.mixture.matched(), problem.mixture.within())
    problems = [problem, *map(problem.on_one_gaussian, mixtures)]
    solutions = [solve_points(one) for one in problems]
    with np.errstate(all="ignore"):
        own, *others = (
            observables(one, solution.state, one)
            for one, solution in zip(problems, solutions)
        )
    average = _averages(scenario, own)
    gaps = {
        name: np.stack([mean - getattr(o, name)[:, 0] for o in others], axis=1)
        for name, mean in average.items()
    }
    residual = np.max([solution.residual for solution in solutions], axis=0)
    iterations = np.sum([solution.iterations for solution in solutions], axis=0)
    all_three = solutions[0]._replace(residual=residual, iterations=iterations)
    return _answer(problem, all_three, gaps, settings, reference=np.array(REFERENCES))


def _margins(
    scenario: MixtureGLM, points: Points, settings: Mapping[str, Any]
) -> Answer:
    problem = MixtureProblem.of(scenario, points)
    solution = solve_points(problem)
    x = np.atleast_1d(np.asarray(settings["x"], dtype=float))
    with np.errstate(all="ignore"):
        values = margin_laws(scenario, problem, solution.state, x)
    return _answer(problem, solution, values, settings, x=x)


# -- The limit of a dataset: squared errors of the ridge fit from its own cross-validati


def choose_theory(scenario: MixtureGLM, what: str, asked: str | None) -> str:
    """Return the theory that answers; one that does not apply is refused where it was
    asked for by name.
    """
    applies = (
        scenario.data is not None
        and what == "errors"
        and not scenario.l1
        and not scenario.loss_weights
    )
    applies = (
        applies
        and scenario.loss in ("square", "interpolate")
        and not scenario.test_weights
    )
    if asked is None:
        return "gcv" if applies else "exact"
    if asked in OF_DATA and not applies:
        raise bad_field(
            "theory",
            asked,
            '"exact" unless the scenario has data and asks for errors of the square'
            " loss without l1",
        )
    return asked


def with_data(
    scenario: MixtureGLM, points: Points, answer: Answer, theory: str
) -> Answer:
    """Replace the squared errors, the norm and the objective of an answer by those of a
    theory of the dataset.
    """
    data = scenario.data
    alphas = points["samples_per_dim"]
    ridges = points["ridge"]
    assert data is not None
    labels = np.asarray(data.labels)
    curve = RidgeCurve(
        data.singular_rows, labels - labels.mean() if scenario.intercept else labels
    )
    predict = curve.transport if theory == "gcv" else curve.plug_in
    status = np.asarray(answer.status).astype(object)
    predictions = []
    for index, (alpha, ridge) in enumerate(zip(alphas.tolist(), ridges.tolist())):
        n = max(1, round(alpha * data.dim))
        if ridge == 0 and n == data.dim:
            status[index] = (
                f"n = {n} rows for as many columns and no ridge: the error diverges"
            )
            predictions.append(NO_PREDICTION)
        else:
            predictions.append(predict(n, ridge))
    mse, train, norm = np.array(predictions).reshape(-1, 3).T
    penalty = np.where(
        ridges > 0, ridges, 1.0 if scenario.loss == "interpolate" else 0.0
    )
    values = {
        **answer.values,
        "test_mse": mse,
        "test_loss": 0.5 * mse,
        "train_loss": train,
        "norm": norm,
        "objective": train + 0.5 * penalty * norm / alphas,
        "gcv": np.where(train > 0, mse, np.nan),
    }
    if not scenario.binary:
        values |= {"test_error": mse, "train_error": 2 * train}
        names = ("test_error", "test_mse", "test_loss", "train_loss", "train_error")
        values |= {f"{name}_by_cluster": values[name][:, None] for name in names}
    return replace(
        answer,
        values=values,
        status=status.astype(str),
        attrs={**answer.attrs, "theory": theory},
    )


# -- Separability of a batch of points: the threshold alpha_c and the largest margin ---


def _thresholds(
    scenario: MixtureGLM, points: Points, settings: Mapping[str, Any]
) -> Answer:
    """Return alpha_c and, below it, the margin kappa = 1/sqrt(|w|^2/d) of the
    max-margin weights.
    """
    if not scenario.binary:
        raise bad_field(
            "labels",
            str(scenario.labels),
            "sign, logit, cluster or random where thresholds are asked for",
        )
    problem = hard_margin(MixtureProblem.of(scenario, points))
    alpha_c = np.empty(problem.size)
    for index in problem.kinds():  # points that differ in the sample size only share it
        point = problem.take(index[:1])
        closed = closed_threshold(point)
        alpha_c[index] = from_margins(point) if closed is None else closed
    kappa = np.zeros(problem.size)
    residual = np.zeros(problem.size)
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
    return replace(
        problem,
        loss="maxmargin",
        ridge=ones,
        l1=0 * ones,
        omega=np.ones(problem.clusters),
    )


def from_margins(problem: MixtureProblem) -> float:
    """Return the zero of the max-margin kappa(alpha) of one point, approached from
    below; NaN where the path is lost.

    kappa falls smoothly, linearly to zero: the polynomial alpha(kappa) through the last
    points extrapolates to it.
    """
    start = MarginStart(problem)
    if start.geometry.certain:
        return math.inf
    alpha = THRESHOLD_PATH_START * critical(start.geometry)
    path: list[tuple[float, float]] = []
    state = start.state(np.array([alpha]))
    for _ in range(MOST_THRESHOLD_STEPS):
        check_time()
        solution = solve(replace(problem, alpha=np.array([alpha])), state)
        kappa = float(1 / np.sqrt(solution.norms.squared[0]))
        if not (solution.residual[0] < SOLVED and kappa > NO_MARGIN):
            alpha = 0.5 * (alpha + (path[-1][0] if path else 0.0))
            state = state if path else start.state(np.array([alpha]))
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
