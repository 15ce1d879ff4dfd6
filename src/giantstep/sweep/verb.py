"""The verb `sweep`: `simulate` or `predict` over a large grid, with a store, on one core or on a cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import batches, trials
from giantstep.checks import check_flag, check_whole
from giantstep.errors import InputError, bad_field
from giantstep.family import Answer
from giantstep.grid import Batch
from giantstep.padding import pad_stack
from giantstep.problems import Problems, warn
from giantstep.progress import ProgressOption
from giantstep.request import Experiment, Request
from giantstep.scenario import Scenario, dotted_names
from giantstep.sweep.adaptive import checked_refinement, checked_wishes, refined, trials_needed
from giantstep.sweep.keys import Point, asked, points_of
from giantstep.sweep.options import BackendOptions, EngineOption
from giantstep.sweep.runner import Held, Job, Runner
from giantstep.sweep.store import Store
from giantstep.sweep.tasks import Solve
from giantstep.types import Array, Floats, Indices

if TYPE_CHECKING:
    import xarray

_log = logging.getLogger("giantstep")

LIMIT_BATCH = 250
"""Points of a limit in one task, counted along the grid: a constant of the code, so that numbers are the same."""


@dataclass(frozen=True)
class Wishes:
    """How many trials: at least, at most, and until which standard error of which variable."""

    until: Mapping[str, float]
    most: int


def sweep(
    scenario: Scenario,
    grid: Mapping[str, Any] | None = None,
    /,
    *,
    store: str | Path | None = None,
    source: str = "experiment",
    engine: EngineOption = None,
    workers: int | None = None,
    scheduler: str | None = None,
    threads: int | None = None,
    memory: float | None = None,
    time_limit: float | None = None,
    retry: bool = False,
    until: Mapping[str, float] | None = None,
    most_trials: int | None = None,
    refine: Mapping[str, float] | None = None,
    most_points: int = 200,
    what: str | None = None,
    theory: str | None = None,
    dim: Any = None,
    tolerance: float = 1e-10,
    trials: int = 5,
    seed: int = 0,
    device: str = "cpu",
    keep_trials: bool = False,
    paired: bool = False,
    strict: bool = False,
    progress: ProgressOption = None,
    **fields: Any,
) -> xarray.Dataset:
    """Answer a scenario over a large grid: as `simulate` (or `predict`) would, and every result is kept in a store.

    What the store has is not computed again: an interrupted sweep goes on where it was, and more points or trials
    cost only themselves. Results are named by content (scenario, settings, seed, kind of device, formula version), not
    by engine, grid or order. What failed stays in the store with its reason, and is tried again where `retry` says so.

    Parameters
    ----------
    scenario, grid, what, strict, progress, **fields : as in `simulate` and `predict`.
    store : the SQLite file that keeps the results; in memory, for this call only, if left out.
    source : ``"experiment"`` or ``"limit"``.
    engine : ``"local"`` (this process), ``"processes"``, ``"dask"``, any `concurrent.futures.Executor`, or a Dask
        ``Client``. If left out: Dask where `scheduler` is given, processes where `workers` is above 1.
    workers : how many tasks run at once; as many as there are cores if left out.
    scheduler : address of a running Dask scheduler.
    threads : BLAS threads of each worker; if left out the cores are shared out evenly. The same number of threads
        gives the same numbers bit for bit, whatever the number of workers.
    memory : GiB a worker may take for a task (processes and local Dask clusters).
    time_limit : seconds a task may take.
    retry : compute failures of earlier runs again.
    until : variable -> standard error; points above it get more trials, up to `most_trials` (20 times
        `trials` if left out).
    refine : one field of the grid -> tolerance; adds points where the curve departs from a straight line by more than
        that part of its range, up to `most_points` values.
    theory, dim, tolerance, seed : as in `predict`.
    dim, trials, seed, device, keep_trials, paired : as in `simulate`.

    Returns
    -------
    xarray.Dataset
        As `simulate` (or `predict`) would return it; ``trials_done`` says how many trials each point has.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> r = gs.sweep(s, dim=30, trials=2, samples_per_dim=[0.5, 2.0], engine="local", progress=False)  # store="runs.db"
    >>> r.trials_done.values.tolist()
    [2, 2]
    """
    if source not in ("experiment", "limit"):
        raise bad_field("source", source, '"experiment" or "limit"')
    for name, flag in (("strict", strict), ("retry", retry)):
        check_flag(name, flag)
    whole = "a whole number at least 1"
    asking: dict[str, Any] = {"what": what, "dim": dim}
    if source == "limit":
        asking |= {"theory": theory, "tolerance": tolerance, "seed": seed}
    given = {**dotted_names(grid or {})} if isinstance(grid, Mapping | None) else grid
    request = Request(scenario, given, fields, **asking)
    experiment = Experiment(trials, seed, device, keep_trials, paired)
    wishes = Wishes(
        checked_wishes(until, request.question),
        20 * experiment.trials if most_trials is None else check_whole("most_trials", most_trials, whole, 1),
    )
    if source == "limit" and until is not None:
        raise InputError('`until` adds trials, which only an experiment has (source="experiment").')
    refinement = checked_refinement(refine, {**(given or {}), **dotted_names(fields), "dim": dim})
    most_points = check_whole("most_points", most_points, whole, 1)
    options = BackendOptions.from_input(engine, workers, scheduler, threads, memory, time_limit)
    with Store(store) as kept:
        runner = Runner(kept, options.open, retry, progress)
        try:
            while True:
                if source == "limit":
                    result, problems = _limit(request, runner)
                else:
                    result, problems = _experiment(request, experiment, wishes, runner, options)
                more = _more_points(result, refinement, request, source, most_points)
                if more is None:
                    break
                given, fields, asking = _with_values(given, fields, asking, *more)
                request = Request(scenario, given, fields, **asking)
        finally:
            runner.close()
    _log.info(
        "sweep of %s, %s: %d results computed, %d were stored, %d failed%s",
        request.grid.scenario.family,
        request.what,
        runner.computed,
        runner.found,
        runner.failures,
        f" (giantstep store show {store} --failures)" if runner.failures and store is not None else "",
    )
    problems.refuse(strict)
    warn(problems)
    return result


def _limit(request: Request, runner: Runner) -> tuple[xarray.Dataset, Problems]:
    settings = request.prepare()
    own = request.for_engine("limit", settings)
    ask = asked(request, settings, None)
    named = [(batch, tuple(points_of(ask, batch.scenario, batch.points))) for batch in request.grid.batches()]
    jobs = [_solve(batch, points, start, request.what, own) for batch, points in named for start in _starts(points)]
    held = runner.fill(ask, jobs)
    answers = [part for batch, points in named for part in _answers(batch, points, held)]
    return batches.collect_answers(answers, request, settings)


def _starts(points: Sequence[Point]) -> range:
    return range(0, len(points), LIMIT_BATCH)


def _solve(batch: Batch, points: tuple[Point, ...], start: int, what: str, settings: Mapping[str, Any]) -> Job:
    some = slice(start, start + LIMIT_BATCH)

    def make(rows: Indices) -> Solve:
        return Solve(batch.scenario, {n: v[some][rows] for n, v in batch.points.items()}, what, settings)

    return Job(points[some], 0, make)


def _answers(batch: Batch, points: Sequence[Point], held: Held) -> list[tuple[Indices, Answer]]:
    """Return the results of one batch as answers: one for each batch they were once computed in."""
    rows = [held[point.digest, 0] for point in points]
    together: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        together.setdefault(id(row.facts), []).append(place)
    answers = []
    for places in together.values():
        some = [rows[place] for place in places]
        values = _columns([row.values for row in some])
        blank = np.full(len(some), np.nan)
        facts = some[0].facts
        answer = Answer(
            values={name: column for name, column in values.items() if name not in ("residual", "iterations")},
            status=np.array([row.reason for row in some], dtype=object),
            residual=values.get("residual", blank),
            iterations=np.nan_to_num(values.get("iterations", blank)).astype(np.int64),
        )
        if facts is not None:
            answer.coords, answer.attrs = dict(facts.coords), dict(facts.attrs)
            answer.warnings = list(facts.warnings)
        answers.append((batch.index[places], answer))
    return answers


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: pad_stack([row.get(name) for row in rows]) for name in names}


def _experiment(
    request: Request, experiment: Experiment, wishes: Wishes, runner: Runner, options: BackendOptions
) -> tuple[xarray.Dataset, Problems]:
    groups = trials.group_points(request.grid)
    settings = request.prepare(device=experiment.device)
    trials.check_group_memory(groups, request, settings, experiment, options.trials_here(experiment.device))
    own = trials.experiment_settings(request, settings)
    ask = asked(request, settings, experiment)
    named = [(group, tuple(points_of(ask, group.scenario, group.points))) for group in groups]
    counts = {point.digest: experiment.trials for _, points in named for point in points}
    while True:
        jobs = _draws(named, counts, request.what, own, experiment)
        held = runner.fill(ask, jobs)
        more = _more_trials(request, counts, held, wishes)
        if more == counts:
            break
        counts = more
    most = max(counts.values())
    outcomes = [[_outcome(points, trial, counts, held) for trial in range(most)] for _, points in named]
    return trials.collect_outcomes(groups, outcomes, request, settings, replace(experiment, trials=most))


def _draws(
    named: Sequence[tuple[trials.Group, tuple[Point, ...]]],
    counts: Mapping[str, int],
    what: str,
    settings: Mapping[str, Any],
    experiment: Experiment,
) -> list[Job]:
    jobs = []
    for trial in range(max(counts.values())):
        for group, points in named:
            rows = [row for row, point in enumerate(points) if trial < counts[point.digest]]
            if rows:
                jobs.append(_draw(group, points, np.array(rows), trial, what, settings, experiment))
    return jobs


def _draw(
    group: trials.Group,
    points: Sequence[Point],
    rows: Indices,
    trial: int,
    what: str,
    settings: Mapping[str, Any],
    experiment: Experiment,
) -> Job:
    def make(some: Indices) -> trials.Draw:
        return group.draw(trial, what, settings, experiment, rows[some])

    return Job(tuple(points[row] for row in rows), trial, make)


def _outcome(points: Sequence[Point], trial: int, counts: Mapping[str, int], held: Held) -> trials.Outcome:
    rows = [held.get((point.digest, trial)) if trial < counts[point.digest] else None for point in points]
    asked_for = np.array([trial < counts[point.digest] for point in points])
    reasons = np.array(["" if row is None else row.reason for row in rows], dtype=object)
    values = _columns([{} if row is None else row.values for row in rows])
    return trials.Outcome(values, reasons, asked_for)


def _more_trials(request: Request, counts: Mapping[str, int], held: Held, wishes: Wishes) -> dict[str, int]:
    """Return how many trials each point should have, by the standard errors it has now."""
    if not wishes.until:
        return dict(counts)
    variables = {v.name: v for v in request.question.variables if v.name in wishes.until}
    more = {}
    for digest, done in counts.items():
        rows = [held[digest, trial] for trial in range(done)]
        errors = []
        for name, variable in variables.items():
            kept = [row.values.get(name) for row in rows]
            if all(array is not None for array in kept):
                stacked = pad_stack(kept)[:, None]
                error = trials.mean_and_error(stacked, variable, np.ones((done, 1), dtype=bool))[1]
                errors.append((float(np.max(error)), wishes.until[name]))
        failed = any(row.reason for row in rows)
        more[digest] = done if failed else trials_needed(done, wishes.most, errors)
    return more


def _more_points(
    result: xarray.Dataset, refinement: tuple[str, float] | None, request: Request, source: Any, most: int
) -> tuple[str, Floats] | None:
    """Return the field that is refined with its old and new values; None where the curve is fine."""
    if refinement is None:
        return None
    name, tolerance = refinement
    scenario = request.grid.scenario
    fields = scenario.numeric_fields()
    whole = name == "dim" or fields[name][1].annotation is int
    new = refined(result, name, tolerance, request.question, source, whole)
    old = result[name].values
    new = new[: max(most - len(old), 0)]
    return (name, np.sort(np.concatenate([old, new]))) if len(new) else None


def _with_values(
    given: Any, fields: Mapping[str, Any], asking: Mapping[str, Any], name: str, values: Floats
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Put the values of one field where it was given: in the grid, as a keyword, or as `dim`."""
    if name == "dim" and asking["dim"] is not None:
        return dict(given or {}), dict(fields), {**asking, "dim": values}
    if name in dotted_names(given or {}):
        return {**given, name: values}, dict(fields), dict(asking)
    keyword = next(field for field in fields if field.replace("__", ".") == name)
    return dict(given or {}), {**fields, keyword: values}, dict(asking)
