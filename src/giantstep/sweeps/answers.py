"""A limit or an experiment through a store: a request becomes tasks, their results become the table of the verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import batches, trials
from giantstep.family import Answer, Variable
from giantstep.grid import Batch
from giantstep.padding import pad_stack
from giantstep.problems import Problems
from giantstep.request import ExperimentSettings, Request
from giantstep.sweeps.adaptive import TrialGoal, trials_needed
from giantstep.sweeps.keys import Point, ask_for, name_points
from giantstep.sweeps.runner import Results, Runner
from giantstep.sweeps.store import Facts, Row
from giantstep.sweeps.tasks import Solve, Task
from giantstep.types import Array, Indices

if TYPE_CHECKING:
    import xarray

LIMIT_BATCH = 250
"""Points of a limit in one task, counted along the grid: a constant of the code, so that numbers are the same."""


def fill_limit(request: Request, runner: Runner) -> tuple[xarray.Dataset, Problems]:
    """Return what `giantstep.predict` would, from the store and from what is computed."""
    settings = request.prepare()
    own = request.for_engine("limit", settings)
    ask = ask_for(request, settings)
    tasks: list[Task] = []
    named: list[tuple[Batch, list[Point]]] = []
    for batch in request.grid.batches():
        points = name_points(ask, batch.scenario, batch.points)
        named.append((batch, points))
        work = Solve(batch.scenario, batch.points, request.what, own)
        whole, starts = Task(work, tuple(points)), range(0, len(points), LIMIT_BATCH)
        tasks += [whole.at(range(start, min(start + LIMIT_BATCH, len(points)))) for start in starts]
    results = runner.fill(ask, tasks)
    answers = [answer for batch, points in named for answer in _answers(batch, points, results)]
    return batches.collect_answers(answers, request, settings)


def _answers(batch: Batch, points: Sequence[Point], results: Results) -> list[tuple[Indices, Answer]]:
    """Return the results of one batch as answers: one for each batch they were once computed in."""
    rows = [results[point.digest, 0] for point in points]
    together: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        together.setdefault(id(row.facts), []).append(index)
    return [(batch.index[same], _answer([rows[index] for index in same])) for same in together.values()]


def _answer(rows: Sequence[Row]) -> Answer:
    values = _columns([row.values for row in rows])
    blank = np.full(len(rows), np.nan)
    residual, iterations = (values.pop(name, blank) for name in ("residual", "iterations"))
    facts = rows[0].facts or Facts()
    attrs = dict(facts.attrs)
    return Answer(
        values=values,
        status=np.array([row.reason for row in rows], dtype=object),
        residual=residual,
        iterations=np.nan_to_num(iterations).astype(np.int64),
        coords=dict(facts.coords),
        warnings=list(facts.warnings),
        approximations=attrs.pop("approximations", {}),
        attrs=attrs,
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: pad_stack([row.get(name) for row in rows]) for name in names}


def fill_experiment(
    request: Request, runner: Runner, experiment: ExperimentSettings, goal: TrialGoal, at_once: int
) -> tuple[xarray.Dataset, Problems]:
    """Return what `giantstep.simulate` would, from the store and from what is computed.

    Parameters
    ----------
    goal : where more trials are needed.
    at_once : trials that share the memory of the device.
    """
    plan = trials.TrialPlan(request, experiment, at_once=at_once)
    ask = ask_for(request, plan.settings, experiment)
    named = [(group, name_points(ask, group.scenario, group.points)) for group in plan.groups]
    counts = {point.digest: experiment.trials for _, points in named for point in points}
    while True:
        tasks = []
        for trial in range(max(counts.values())):
            for group, points in named:
                rows = [row for row, point in enumerate(points) if trial < counts[point.digest]]
                if rows:
                    tasks.append(Task(plan.draw(group, trial), tuple(points), trial).at(rows))
        results = runner.fill(ask, tasks)
        more = _more_trials(counts, results, goal, request.question.variables)
        if more == counts:
            break
        counts = more
    most = max(counts.values())
    outcomes = [[_outcome(points, trial, counts, results) for trial in range(most)] for _, points in named]
    return plan.collect(outcomes, most)


def _outcome(points: Sequence[Point], trial: int, counts: Mapping[str, int], results: Results) -> trials.Outcome:
    asked = np.array([trial < counts[point.digest] for point in points])
    rows = [results[point.digest, trial] if wanted else None for point, wanted in zip(points, asked)]
    reasons = np.array(["" if row is None else row.reason for row in rows], dtype=object)
    return trials.Outcome(_columns([{} if row is None else row.values for row in rows]), reasons, asked)


def _more_trials(
    counts: Mapping[str, int], results: Results, goal: TrialGoal, variables: Sequence[Variable]
) -> dict[str, int]:
    """Return how many trials each point should have, by the standard errors it has now."""
    more = dict(counts)
    for digest, done in counts.items():
        rows = [results[digest, trial] for trial in range(done)]
        if goal.errors and not any(row.reason for row in rows):
            errors = [(_error(rows, v), goal.errors[v.name]) for v in variables if v.name in goal.errors]
            more[digest] = trials_needed(done, goal.most, errors)
    return more


def _error(rows: Sequence[Row], variable: Variable) -> float:
    """Return the standard error of a variable over trials; 0 where one has none."""
    kept = [row.values.get(variable.name) for row in rows]
    if any(array is None for array in kept):
        return 0.0
    return float(np.max(trials.mean_and_error(pad_stack(kept)[:, None], variable, np.ones((len(rows), 1), bool))[1]))
