"""The verb `sweep`: `simulate` or `predict` over a large grid, with a store, on one core or on a cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giantstep.checks import check_flags
from giantstep.errors import InputError, bad_field
from giantstep.problems import Problems, warn
from giantstep.progress import ProgressOption
from giantstep.request import Experiment, Request
from giantstep.scenario import Scenario, dotted_names
from giantstep.sweeps.adaptive import Sampling, TrialGoal
from giantstep.sweeps.answers import fill_experiment, fill_limit
from giantstep.sweeps.options import BackendOptions, EngineOption, gpu_workers
from giantstep.sweeps.runner import Runner
from giantstep.sweeps.store import Store
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
        return Request(self.scenario, self.grid, self.fields, **self.settings, also=_OWN_KEYWORDS)

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
    """The settings of a sweep."""

    source: str
    inputs: Inputs
    experiment: Experiment
    sampling: Sampling
    options: BackendOptions
    retry: bool
    strict: bool

    def run(self, store: str | Path | None, progress: ProgressOption) -> tuple[xarray.Dataset, Problems]:
        """Check everything, then return the table over the whole grid, refined, and what went wrong."""
        if self.source not in ("experiment", "limit"):
            raise bad_field("source", self.source, '"experiment" or "limit"')
        check_flags(strict=self.strict, retry=self.retry)
        request = self.inputs.request()
        goal = self.sampling.trial_goal(request.question, self.experiment.trials)
        refinement = self.sampling.refinement(self.inputs.varying())
        if self.source == "limit" and self.sampling.until is not None:
            raise InputError('`until` adds trials, which only an experiment has (source="experiment").')
        with Store(store) as results, Runner(results, self.options.open, self.retry, progress) as runner:
            result, problems = self._fill(request, runner, goal)
            inputs = self.inputs
            while refinement is not None and (values := refinement.values(result, request)) is not None:
                inputs = inputs.with_values(refinement.name, values)
                request = inputs.request()
                result, problems = self._fill(request, runner, goal)
            _log.info("sweep of %s, %s: %s", request.grid.scenario.family, request.what, runner.summary())
        problems.refuse(self.strict)
        return result, problems

    def _fill(self, request: Request, runner: Runner, goal: TrialGoal) -> tuple[xarray.Dataset, Problems]:
        if self.source == "limit":
            return fill_limit(request, runner)
        at_once = self.options.trials_here(self.experiment.device)
        return fill_experiment(request, runner, self.experiment, goal, at_once)


_OWN_KEYWORDS = ("store", "source", "engine", "workers", "threads", "until", "most_trials", "refine", "most_points")


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
    """Answer a scenario over a large grid as `simulate` (or `predict`) would, and keep every result in a store.

    What the store has is not computed again: an interrupted sweep goes on where it was.

    Parameters
    ----------
    store : the SQLite file that keeps the results; in memory, for this call only, if left out.
    source, retry : ``"experiment"`` or ``"limit"``; compute failures of earlier runs again.
    engine, workers, scheduler, threads, memory, time_limit : where tasks run, as in
        `giantstep.sweeps.options.BackendOptions`.
    until, most_trials, refine, most_points : more trials and points: `giantstep.sweeps.adaptive.Sampling`.
    scenario, grid, what, theory, dim, **fields and the others : as in `simulate` and `predict`.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> gs.sweep(s, dim=30, trials=2, samples_per_dim=[0.5, 2.0], progress=False).trials_done.values.tolist()
    [2, 2]
    """
    limit = {"theory": theory, "tolerance": tolerance, "seed": seed} if source == "limit" else {}
    inputs = Inputs(scenario, grid, fields, {"what": what, "dim": dim, **limit})
    experiment = Experiment(trials, seed, device, keep_trials, paired)
    sampling = Sampling(until, most_trials, refine, most_points)
    if engine is None and scheduler is None and workers is None and source == "experiment":
        workers = gpu_workers(device)
    options = BackendOptions.from_input(engine, workers, scheduler, threads, memory, time_limit)
    result, problems = Sweep(source, inputs, experiment, sampling, options, retry, strict).run(store, progress)
    warn(problems)
    return result
