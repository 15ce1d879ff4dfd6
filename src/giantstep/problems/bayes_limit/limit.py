"""The limit: branches of state evolution, their errors and free entropies, thresholds,
the curve of fixed points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.progress import point_done
from giantstep.core.base.types import Floats, Points
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.checks import check_number, every_time
from giantstep.problems.bayes_limit.problem import BayesProblem, RunChannel, problem_of
from giantstep.problems.bayes_limit.scenario import BRANCHES, PHASES, BayesLimit
from giantstep.problems.bayes_limit.tolerances import SAME_BRANCH

_START = 0.05
"""Overlap at which a trajectory starts if none is given."""


def prepare(
    scenario: BayesLimit, points: Points, what: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Check the overlap of a start or of a curve, and say which branch and which times
    the experiment answers with.
    """
    settings = dict(settings)
    if what == "errors":
        settings["overlap"] = check_number(
            "overlap", settings["overlap"], "above 0 and below 1", lambda q: 0 < q < 1
        )
        settings["branch"] = [
            "informed" if settings["start"] == "seed" else "uninformed"
        ]
        if settings["start"] == "spectral" and scenario.reading.rank > 1:
            raise bad_field(
                "start",
                "spectral",
                '"random" or "seed" for targets of several directions',
            )
    if what == "trajectory":
        settings["time"] = every_time(settings["steps"])
        settings["overlap"] = starting_overlap(settings["overlap"], scenario)
    if what == "branches":
        given = settings["overlap"]
        if given is None:
            overlap = np.linspace(0.01, 0.99, 99)
        else:
            overlap = np.atleast_1d(np.asarray(given, dtype=float))
        if np.any((overlap <= 0) | (overlap >= 1)):
            raise bad_field("overlap", overlap.tolist(), "above 0 and below 1")
        settings["overlap"] = overlap
    return settings


def starting_overlap(given: Any, scenario: BayesLimit) -> Floats:
    """Return the overlap matrix (r, r) of a start, in the coordinates of the target's
    subspace.
    """
    reading = scenario.reading
    k = scenario.target.directions
    entries = np.atleast_1d(np.asarray(_START if given is None else given, dtype=float))
    if entries.size in (1, k):
        M = np.diag(np.broadcast_to(entries.ravel(), k))
    elif entries.size == k * k:
        M = entries.reshape(k, k)
    else:
        raise bad_field(
            "overlap",
            entries.tolist(),
            f"one number, {k} or {k * k} of them (row by row)",
        )
    sizes = np.linalg.eigvalsh(0.5 * (M + M.T))
    if not np.allclose(M, M.T) or sizes.min() < 0 or sizes.max() >= 1:
        raise bad_field(
            "overlap",
            entries.tolist(),
            "a symmetric matrix with eigenvalues from 0 to below 1",
        )
    return reading.basis @ M @ reading.basis.T


def limit(
    scenario: BayesLimit, points: Points, what: str, settings: Mapping[str, Any]
) -> Answer:
    """Answer all points; those with the same noise and flips share one curve."""
    size = len(points["samples_per_dim"])
    answer = Answer.blank(size)
    for index in range(size):
        problem = problem_of(
            scenario.target, float(points["noise"][index]), float(points["flip"][index])
        )
        row, answer.status[index] = _ANSWERS[what](
            problem, float(points["samples_per_dim"][index]), settings
        )
        answer.put(index, row)
        point_done()
    if what == "errors":
        answer.coords = {"branch": np.array(BRANCHES)}
    elif what != "thresholds":
        along = "time" if what == "trajectory" else "overlap"
        answer.coords = {along: settings[along]}
    return answer


def _rows(problem: BayesProblem, M: Floats, seed: int) -> dict[str, Any]:
    """Return overlaps and errors at matrices (S, N, r, r) of S runs, with standard
    errors where there are several.
    """
    basis = problem.reading.basis
    r = problem.reading.rank
    channels: Sequence[RunChannel] = problem.channels(seed)
    errors = np.full((*M.shape[:2], 2), np.nan)
    for run, (channel, path) in enumerate(
        zip(channels, M)
    ):  # some matrices coincide, some are not known
        different = {x.tobytes(): x for x in path if not np.isnan(x).any()}
        known = {key: channel.errors(x) for key, x in different.items()}
        errors[run] = [known.get(x.tobytes(), (np.nan, np.nan)) for x in path]
    whole = np.einsum("ai,snab,bj->snij", basis, M, basis)
    runs = {
        "q": np.trace(M, axis1=2, axis2=3) / r,
        "M": whole,
        "mse": errors[..., 0],
        "error": errors[..., 1],
    }
    row = {name: run.mean(axis=0) for name, run in runs.items()}
    if len(M) > 1:
        row |= {
            f"{name}_stderr": run.std(axis=0, ddof=1) / np.sqrt(len(M))
            for name, run in runs.items()
        }
    return row


def _errors(
    problem: BayesProblem, alpha: float, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    seed = int(settings.get("seed") or 0)
    solution = problem.solve(alpha, seed)
    if solution.status:
        missing = np.full(len(BRANCHES), np.nan)
        M = np.full((len(BRANCHES), *2 * problem.reading.basis.shape[1:]), np.nan)
        return {
            "q": missing,
            "M": M,
            "mse": missing,
            "error": missing,
            "phi": missing,
            "phase": "",
        }, solution.status
    row = _rows(problem, solution.M, seed) | {"phi": solution.phi}
    if solution.phi_error is not None:
        row["phi_stderr"] = solution.phi_error
    q = row["q"]
    if q[2] <= 0:
        phase = PHASES[0]
    elif q[0] < q[2] - SAME_BRANCH:
        phase = PHASES[1]
    else:
        phase = PHASES[2]
    return {**row, "phase": "" if np.isnan(q[2]) else phase}, ""


def _trajectory(
    problem: BayesProblem, alpha: float, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    seed = int(settings.get("seed") or 0)
    channels: Sequence[RunChannel] = problem.channels(seed)
    paths = [[settings["overlap"]] for _ in channels]
    for path, channel in zip(paths, channels):
        for _ in settings["time"][1:]:
            path.append(channel.step(path[-1], alpha))
    return _rows(problem, np.array(paths), seed), ""


def _thresholds(
    problem: BayesProblem, alpha: float, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    (table, status), (alphas, rows) = problem.thresholds(), problem.first_learnt()
    r, k = problem.reading.basis.shape
    vector = np.eye(k)
    vector[:r] = rows @ problem.reading.basis
    if r < k:  # what the target does not depend on is never learnt
        vector[r:] = np.linalg.svd(vector[:r])[2][r:]
    return {
        **table,
        "vector": vector,
        "alpha_direction": np.append(alphas, np.full(k - r, np.inf)),
    }, status


def _branches(
    problem: BayesProblem, alpha: float, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    q = settings["overlap"]
    if problem.curve is None:
        empty = dict.fromkeys(("alpha", "phi", "stable"), np.full(len(q), np.nan))
        return (
            empty,
            (
                "no single overlap describes the fixed points of this target: ask for"
                " errors or thresholds"
            ),
        )
    curve = problem.curve
    turns = np.array([turn.q for turn in curve.turns])
    if curve.turns:
        first = curve.turns[0].is_maximum
    else:
        first = curve.alpha(float(q[-1])) >= curve.alpha(float(q[0]))
    rising = (np.searchsorted(turns, q) % 2 == 0) == first
    return {
        "alpha": np.array([curve.alpha(float(x)) for x in q]),
        "phi": np.array([curve.entropy(float(x), alpha) for x in q]),
        "stable": rising.astype(float),
    }, ""


_ANSWERS: dict[
    str, Callable[[BayesProblem, float, Mapping[str, Any]], tuple[dict[str, Any], str]]
] = {
    "errors": _errors,
    "trajectory": _trajectory,
    "thresholds": _thresholds,
    "branches": _branches,
}
