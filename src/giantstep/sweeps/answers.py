"""A limit or an experiment through a store: a request becomes tasks, their results become the table of the verb."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import batches, trials
from giantstep.family import Answer
from giantstep.grid import Batch
from giantstep.padding import pad_stack
from giantstep.problems import Problems
from giantstep.request import ExperimentSettings, Request
from giantstep.sweeps.keys import Point, ask_for, name_points
from giantstep.sweeps.runner import Results, Runner
from giantstep.sweeps.store import Row, decode_array
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
    """Return the results of one batch as answers: one for all that say the same of themselves."""
    rows = [results[point.digest, 0] for point in points]
    together: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        together.setdefault(row.facts, []).append(index)
    return [(batch.index[same], _answer([rows[index] for index in same])) for same in together.values()]


def _answer(rows: Sequence[Row]) -> Answer:
    values = _columns([row.values for row in rows])
    blank = np.full(len(rows), np.nan)
    residual, iterations = (values.pop(name, blank) for name in ("residual", "iterations"))
    coords, warnings, approximations, attrs = json.loads(rows[0].facts or "[{}, [], {}, {}]")
    return Answer(
        values=values,
        status=np.array([row.reason for row in rows], dtype=object),
        residual=residual,
        iterations=np.nan_to_num(iterations).astype(np.int64),
        coords={name: decode_array(array) for name, array in coords.items()},
        warnings=warnings,
        approximations=approximations,
        attrs=attrs,
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: pad_stack([row.get(name) for row in rows]) for name in names}


def fill_experiment(
    request: Request, runner: Runner, experiment: ExperimentSettings, at_once: int
) -> tuple[xarray.Dataset, Problems]:
    """Return what `giantstep.simulate` would, from the store and from what is computed.

    `at_once` trials share the memory of the device.
    """
    plan = trials.TrialPlan(request, experiment, at_once=at_once)
    ask = ask_for(request, plan.settings, experiment)
    named = [(group, name_points(ask, group.scenario, group.points)) for group in plan.groups]
    numbers = range(experiment.trials)
    tasks = [Task(plan.draw(group, trial), tuple(points), trial) for trial in numbers for group, points in named]
    results = runner.fill(ask, tasks)
    return plan.collect([[_outcome(points, trial, results) for trial in numbers] for _, points in named])


def _outcome(points: Sequence[Point], trial: int, results: Results) -> trials.Outcome:
    rows = [results[point.digest, trial] for point in points]
    return trials.Outcome(_columns([row.values for row in rows]), np.array([row.reason for row in rows], dtype=object))
