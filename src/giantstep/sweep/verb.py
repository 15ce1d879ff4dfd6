"""The verb `sweep`: `simulate` or `predict` over a large grid, with a store, on one core or on a cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giantstep.checks import check_flags
from giantstep.errors import InputError, bad_field
from giantstep.family import Engine
from giantstep.problems import Problems, warn
from giantstep.progress import ProgressOption
from giantstep.request import Experiment, Request
from giantstep.scenario import Scenario, dotted_names
from giantstep.sweep.adaptive import Refinement, TrialGoal
from giantstep.sweep.answers import fill_experiment, fill_limit
from giantstep.sweep.options import BackendOptions, EngineOption
from giantstep.sweep.runner import Runner
from giantstep.sweep.store import Store
from giantstep.types import Floats

if TYPE_CHECKING:
    import xarray

_log = logging.getLogger("giantstep")


@dataclass(frozen=True)
class Inputs:
    """What a sweep was asked; it is asked again with more values of a field that is refined.

    Attributes
    ----------
    grid, fields : as the verb takes them.
    settings : the keywords of `Request`.
    """

    scenario: Scenario
    grid: Any
    fields: Mapping[str, Any]
    settings: Mapping[str, Any]

    def request(self) -> Request:
        """Return what is asked, checked."""
        return Request(self.scenario, self.grid, self.fields, **self.settings)

    def varying(self) -> dict[str, Any]:
        """Return the values of every field, wherever they were given."""
        own_dim = {} if self.settings["dim"] is None else {"dim": self.settings["dim"]}
        return {**dotted_names(self.grid or {}), **dotted_names(self.fields), **own_dim}

    def with_values(self, name: str, values: Floats) -> Inputs:
        """Return the same with other values of a field."""

        def change(table: Mapping[str, Any]) -> dict[str, Any]:
            given = {key for key, value in table.items() if key.replace("__", ".") == name and value is not None}
            return {key: values if key in given else value for key, value in table.items()}

        return replace(self, grid=change(self.grid or {}), fields=change(self.fields), settings=change(self.settings))


@dataclass(frozen=True)
class Sweep:
    """The checked settings of a sweep."""

    source: Engine
    inputs: Inputs
    experiment: Experiment
    goal: TrialGoal
    refinement: Refinement | None
    options: BackendOptions

    def run(self, runner: Runner) -> tuple[xarray.Dataset, Problems]:
        """Return the table over the whole grid, refined where that is asked for, and what went wrong."""
        inputs = self.inputs
        while True:
            request = inputs.request()
            result, problems = self._fill(request, runner)
            values = None if self.refinement is None else self.refinement.values(result, request, self.source)
            if self.refinement is None or values is None:
                _log.info("sweep of %s, %s: %s", request.grid.scenario.family, request.what, runner.summary())
                return result, problems
            inputs = inputs.with_values(self.refinement.name, values)

    def _fill(self, request: Request, runner: Runner) -> tuple[xarray.Dataset, Problems]:
        if self.source == "limit":
            return fill_limit(request, runner)
        at_once = self.options.trials_here(self.experiment.device)
        return fill_experiment(request, runner, self.experiment, self.goal, at_once)


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
    by backend, grid or order. What failed stays in the store with its reason, and is tried again where `retry` says so.

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
    check_flags(strict=strict, retry=retry)
    limit = {"theory": theory, "tolerance": tolerance, "seed": seed} if source == "limit" else {}
    inputs = Inputs(scenario, grid, fields, {"what": what, "dim": dim, **limit})
    question = inputs.request().question
    experiment = Experiment(trials, seed, device, keep_trials, paired)
    goal = TrialGoal.from_input(until, most_trials, experiment.trials, question)
    if limit and until is not None:
        raise InputError('`until` adds trials, which only an experiment has (source="experiment").')
    refinement = Refinement.from_input(refine, most_points, inputs.varying())
    options = BackendOptions.from_input(engine, workers, scheduler, threads, memory, time_limit)
    with Store(store) as results, Runner(results, options.open, retry, progress) as runner:
        side: Engine = "limit" if limit else "experiment"
        result, problems = Sweep(side, inputs, experiment, goal, refinement, options).run(runner)
    problems.refuse(strict)
    warn(problems)
    return result
