"""The verb `sweep`: `simulate` or `predict` over a large grid, with a store, on one core or on a cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giantstep.checks import check_flags
from giantstep.errors import bad_field
from giantstep.problems import warn
from giantstep.progress import ProgressOption
from giantstep.request import ExperimentSettings, Request
from giantstep.scenario import Scenario
from giantstep.sweeps.answers import fill_experiment, fill_limit
from giantstep.sweeps.options import BackendOptions, EngineOption
from giantstep.sweeps.runner import Runner
from giantstep.sweeps.store import Store

if TYPE_CHECKING:
    import xarray

_log = logging.getLogger("giantstep")

_OWN_KEYWORDS = ("store", "source", "engine", "workers", "threads")


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
    scenario, grid, what, theory, dim, **fields and the others : as in `simulate` and `predict`.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> gs.sweep(s, dim=30, trials=2, samples_per_dim=[0.5, 2.0], progress=False).trials_done.values.tolist()
    [2, 2]
    """
    if source not in ("experiment", "limit"):
        raise bad_field("source", source, '"experiment" or "limit"')
    check_flags(strict=strict, retry=retry)
    limit: dict[str, Any] = {"theory": theory, "tolerance": tolerance, "seed": seed} if source == "limit" else {}
    request = Request(scenario, grid, fields, what=what, dim=dim, **limit, also=_OWN_KEYWORDS)
    experiment = ExperimentSettings(trials, seed, device, keep_trials, paired)
    options = BackendOptions.from_input(engine, workers, scheduler, threads, memory, time_limit)
    with Store(store) as results, Runner(results, options.open, retry, progress) as runner:
        if source == "limit":
            result, problems = fill_limit(request, runner)
        else:
            result, problems = fill_experiment(request, runner, experiment, options.trials_here(device))
        _log.info("sweep of %s, %s: %s", request.grid.scenario.family, request.what, runner.summary())
    problems.refuse(strict)
    warn(problems)
    return result
