"""The limit: branches of state evolution, their errors and free entropies, thresholds, the curve of fixed points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from giantstep.checks import check_number, every_time
from giantstep.errors import bad_field
from giantstep.families.bayes_limit.jumps import jump_thresholds
from giantstep.families.bayes_limit.many import ManyDirections
from giantstep.families.bayes_limit.matrix import SeveralDirections
from giantstep.families.bayes_limit.problem import BayesProblem, problem_of
from giantstep.families.bayes_limit.scenario import BRANCHES, PHASES, BayesLimit
from giantstep.families.bayes_limit.tolerances import SAME_BRANCH, TOLD
from giantstep.family import Answer
from giantstep.progress import point_done
from giantstep.types import Array, Floats, Points

_START = 0.05
"""Overlap at which a trajectory starts if none is given."""


def prepare(scenario: BayesLimit, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Check the overlap of a start or of a curve, and say which branch and which times the experiment answers with."""
    settings = dict(settings)
    if what == "errors":
        settings["overlap"] = check_number("overlap", settings["overlap"], "above 0 and below 1", lambda q: 0 < q < 1)
        settings["branch"] = ["informed" if settings["start"] == "seed" else "uninformed"]
        if settings["start"] == "spectral" and scenario.reading.rank > 1:
            raise bad_field("start", "spectral", '"random" or "seed" for targets of several directions')
    if what == "trajectory":
        settings["time"] = every_time(settings["steps"])
        settings["overlap"] = starting_overlap(settings["overlap"], scenario)
    if what == "thresholds" and settings["search"] == "jumps":
        _check_jumps(scenario, points)
    if what == "branches":
        given = settings["overlap"]
        overlap = np.linspace(0.01, 0.99, 99) if given is None else np.atleast_1d(np.asarray(given, dtype=float))
        if np.any((overlap <= 0) | (overlap >= 1)):
            raise bad_field("overlap", overlap.tolist(), "above 0 and below 1")
        settings["overlap"] = overlap
    return settings


def _check_jumps(scenario: BayesLimit, points: Points) -> None:
    """Refuse three and more directions without symmetry: bayes_multi_index section 10."""
    for noise, flip in zip(points["noise"], points["flip"]):
        if isinstance(problem_of(scenario.target, float(noise), float(flip)), ManyDirections):
            raise bad_field(
                "search",
                "jumps",
                '"stages" for three or more directions without symmetry: their overlaps are sampled, with error bars '
                'too large for first-order transitions (what="errors" shows both branches)',
            )


def starting_overlap(given: Any, scenario: BayesLimit) -> Floats:
    """Return the overlap matrix (r, r) of a start, in the coordinates of the target's subspace."""
    reading, k = scenario.reading, scenario.target.directions
    entries = np.atleast_1d(np.asarray(_START if given is None else given, dtype=float))
    if entries.size == 1:
        M = float(entries[0]) * np.eye(k)
    elif entries.size == k:
        M = np.diag(entries)
    elif entries.size == k * k:
        M = entries.reshape(k, k)
    else:
        raise bad_field("overlap", entries.tolist(), f"one number, {k} or {k * k} of them (row by row)")
    sizes = np.linalg.eigvalsh(0.5 * (M + M.T))
    if not np.allclose(M, M.T) or sizes.min() < 0 or sizes.max() >= 1:
        raise bad_field("overlap", entries.tolist(), "a symmetric matrix with eigenvalues from 0 to below 1")
    return reading.basis @ M @ reading.basis.T


def limit(scenario: BayesLimit, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
    """Answer all points; those with the same noise and flips share one curve."""
    size = len(points["samples_per_dim"])
    answer = Answer.blank(size)
    for index in range(size):
        problem = problem_of(scenario.target, float(points["noise"][index]), float(points["flip"][index]))
        row, answer.status[index] = _ANSWERS[what](problem, float(points["samples_per_dim"][index]), settings)
        answer.put(index, row)
        point_done()
    answer.coords = _coords(what, settings)
    return answer


def _coords(what: str, settings: Mapping[str, Any]) -> dict[str, Array]:
    if what == "errors":
        return {"branch": np.array(BRANCHES)}
    name = {"trajectory": "time", "branches": "overlap"}.get(what)
    return {name: settings[name]} if name else {}


def _rows(problem: BayesProblem, matrices: Floats) -> dict[str, Any]:
    """Return overlaps and errors at matrices (N, r, r) of the subspace, in the coordinates of the target."""
    known: dict[bytes, tuple[float, float]] = {}  # branches often coincide
    for M in matrices:
        if M.tobytes() not in known:
            known[M.tobytes()] = problem.errors(M)
    return _measured(problem, matrices[None], np.array([[known[M.tobytes()] for M in matrices]]))


def _sampled_rows(problem: ManyDirections, matrices: Floats, seed: int) -> dict[str, Any]:
    """Return the same at matrices (S, N, r, r) of the scrambles, with standard errors."""
    errors = [[channel.errors(M) for M in path] for channel, path in zip(problem.samples(seed), matrices)]
    return _measured(problem, matrices, np.array(errors))


def _measured(problem: BayesProblem, M: Floats, errors: Floats) -> dict[str, Any]:
    """Return means over runs (S, N, r, r), and standard errors where there are several."""
    basis, r = problem.reading.basis, problem.reading.rank
    whole = np.einsum("ai,snab,bj->snij", basis, M, basis)
    runs = {"q": np.trace(M, axis1=2, axis2=3) / r, "M": whole, "mse": errors[..., 0], "error": errors[..., 1]}
    row = {name: run.mean(axis=0) for name, run in runs.items()}
    if len(M) > 1:
        row |= {f"{name}_stderr": run.std(axis=0, ddof=1) / np.sqrt(len(M)) for name, run in runs.items()}
    return row


def _sampled_errors(problem: ManyDirections, alpha: float, seed: int) -> tuple[dict[str, Any], str]:
    """Return both branches and the better one: that of the larger free entropy, where the samples tell which it is."""
    found = problem.solve_samples(alpha, seed)
    if found.status:
        return {}, found.status
    row = _sampled_rows(problem, found.M, seed)
    phi, moved = problem.entropies(found.M[:, :1] if found.same else found.M, alpha, seed)
    means, errors = _with_bias(phi, moved)
    both = np.zeros(2, dtype=int) if found.same else np.arange(2)
    row |= {"phi": means[both], "phi_stderr": errors[both]}
    gain, doubt = (x[0] for x in _with_bias(np.diff(phi[:, both], axis=1), np.diff(moved[:, both], axis=1)))
    told = found.same or abs(gain) > TOLD * doubt
    better = 1 if gain > 0 else 0
    best = {n: v[better : better + 1] if told else np.full_like(v[:1], np.nan) for n, v in row.items()}
    row = {name: np.concatenate([values, best[name]]) for name, values in row.items()}
    phase = "" if not told else PHASES[0] if row["q"][2] <= 0 else PHASES[1 if better else 2]
    return {**row, "phase": phase}, ""


def _with_bias(runs: Floats, moved: Floats) -> tuple[Floats, Floats]:
    """Return means over scrambles (S, N) and their errors: the standard error, and a bias (S, N, parts) they share."""
    spread = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return runs.mean(axis=0), np.hypot(spread, np.abs(moved.mean(axis=0)).sum(axis=1))


def _errors(problem: BayesProblem, alpha: float, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    if isinstance(problem, ManyDirections):
        return _sampled_errors(problem, alpha, int(settings.get("seed") or 0))
    solution = problem.solve(alpha)
    if solution.status:
        missing = np.full(len(BRANCHES), np.nan)
        M = np.full((len(BRANCHES), *2 * problem.reading.basis.shape[1:]), np.nan)
        empty = {"q": missing, "M": M, "mse": missing, "error": missing, "phi": missing}
        return {**empty, "phase": ""}, solution.status
    row = _rows(problem, solution.M)
    return {**row, "phi": solution.phi, "phase": _phase(row["q"])}, ""


def _phase(q: Floats) -> str:
    if q[2] <= 0:
        return PHASES[0]
    return PHASES[1] if q[0] < q[2] - SAME_BRANCH else PHASES[2]


def _trajectory(problem: BayesProblem, alpha: float, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    if isinstance(problem, ManyDirections):
        seed = int(settings.get("seed") or 0)
        paths = [[settings["overlap"]] for _ in problem.samples(seed)]
        for path, channel in zip(paths, problem.samples(seed)):
            for _ in settings["time"][1:]:
                path.append(channel.step(path[-1], alpha))
        return _sampled_rows(problem, np.array(paths), seed), ""
    path = [settings["overlap"]]
    for _ in settings["time"][1:]:
        path.append(problem.step(path[-1], alpha))
    return _rows(problem, np.array(path)), ""


def _thresholds(problem: BayesProblem, alpha: float, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    if settings.get("search") == "jumps" and isinstance(problem, SeveralDirections):
        table = jump_thresholds(problem)._asdict()
    else:
        table = problem.thresholds()._asdict()
    status, basis = table.pop("status"), problem.reading.basis
    r, k = basis.shape
    vector = np.eye(k)
    vector[:r] = table["vector"] @ basis
    if r < k:  # what the target does not depend on is never learnt
        vector[r:] = np.linalg.svd(vector[:r])[2][r:]
    table["vector"] = vector
    table["alpha_direction"] = np.concatenate([table["alpha_direction"], np.full(k - r, np.inf)])
    return table, str(status)


def _branches(problem: BayesProblem, alpha: float, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    q = settings["overlap"]
    if problem.curve is None:
        empty = dict.fromkeys(("alpha", "phi", "stable"), np.full(len(q), np.nan))
        return empty, "no single overlap describes the fixed points of this target: ask for errors or thresholds"
    curve = problem.curve
    turns = np.array([turn.q for turn in curve.turns])
    first = curve.turns[0].is_maximum if curve.turns else curve.alpha(float(q[-1])) >= curve.alpha(float(q[0]))
    rising = (np.searchsorted(turns, q) % 2 == 0) == first
    return {
        "alpha": np.array([curve.alpha(float(x)) for x in q]),
        "phi": np.array([curve.entropy(float(x), alpha) for x in q]),
        "stable": rising.astype(float),
    }, ""


_ANSWERS: dict[str, Callable[[BayesProblem, float, Mapping[str, Any]], tuple[dict[str, Any], str]]] = {
    "errors": _errors,
    "trajectory": _trajectory,
    "thresholds": _thresholds,
    "branches": _branches,
}
