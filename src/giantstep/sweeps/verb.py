"""The verb `sweep`: `simulate` or `predict` over a large grid, with a store, on one core or on a cluster."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep import batches, trials
from giantstep.checks import check_flags, check_number, check_whole
from giantstep.errors import bad_field
from giantstep.family import Answer
from giantstep.grid import Batch
from giantstep.notes import Problems, warn
from giantstep.padding import pad_stack
from giantstep.progress import ProgressOption
from giantstep.request import ExperimentSettings, Request
from giantstep.scenario import Scenario
from giantstep.sweeps import clusters
from giantstep.sweeps.backends import Backend, InProcess, Orders, Processes, Solve, Task
from giantstep.sweeps.clusters import Slurm
from giantstep.sweeps.runner import Results, Runner
from giantstep.sweeps.store import Ask, Point, Row, Store, decode_array, name_points
from giantstep.types import Array, Indices
from giantstep.workers import usable_cores

if TYPE_CHECKING:
    import xarray

_log = logging.getLogger("giantstep")


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
        `giantstep.sweeps.verb.BackendOptions`.
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
    own = ("store", "source", "engine", "workers", "threads")
    request = Request(scenario, grid, fields, what=what, dim=dim, **limit, also=own)
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


# -- Where a sweep runs: the options of a backend, checked, and the backend they open ---------------------


EngineOption = str | Slurm | Any | None
"""A name, a `Slurm`, a Dask client, or None to choose by the other options."""

BACKENDS = ("local", "processes", "slurm")


def thread_share(workers: int) -> int:
    """Return the BLAS threads of each of so many workers, so that together they use what this process may use."""
    import scipy.linalg  # noqa: F401, loads the libraries
    from threadpoolctl import threadpool_info

    threads = max((lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"), default=1)
    return max(1, threads // workers)


@dataclass(frozen=True)
class BackendOptions:
    """Checked options of a backend: ``"local"``, ``"processes"``, a `Slurm`, a Dask client or a scheduler's address."""

    backend: Any
    workers: int
    orders: Orders
    memory: int | None

    @classmethod
    def from_input(
        cls,
        engine: EngineOption,
        workers: int | None,
        scheduler: str | None,
        threads: int | None,
        memory: float | None,
        time_limit: float | None,
    ) -> BackendOptions:
        """Return the options, checked.

        Parameters
        ----------
        engine : ``"local"`` (this process), ``"processes"``, ``"slurm"`` or a `giantstep.Slurm`, or a Dask ``Client``.
            If left out: processes where `workers` is above 1.
        workers : how many tasks run at once; as many as there are cores if left out.
        scheduler : address of a running Dask scheduler.
        threads : BLAS threads of each worker; if left out the cores are shared out evenly. The same number of threads
            gives the same numbers bit for bit, whatever the number of workers.
        memory : GiB a worker may take for a task (processes, SLURM jobs).
        time_limit : seconds a task may take.
        """
        whole, above = "a whole number at least 1", "a number above 0"
        wanted = None if workers is None else check_whole("workers", workers, whole, 1)
        backend = engine
        if scheduler is not None:
            if engine is not None or not isinstance(scheduler, str) or scheduler in BACKENDS:
                raise bad_field("scheduler", scheduler, 'an address such as "tcp://127.0.0.1:8786", without `engine`')
            backend = scheduler
        elif engine is None:
            backend = "processes" if (wanted or 1) > 1 else "local"
        elif engine == "slurm":
            backend = Slurm()
        elif engine not in BACKENDS and not isinstance(engine, Slurm):
            is_client = hasattr(engine, "get_executor") and hasattr(engine, "nthreads")
            if not is_client:
                raise bad_field("engine", engine, f"one of {', '.join(BACKENDS)}, a gs.Slurm or a Dask client")
        here = backend in ("local", "processes")
        if wanted is not None and not here:
            raise bad_field("workers", workers, "left out on a cluster, which has its own (`jobs` of SLURM)")
        if backend == "local" and (wanted or 1) > 1:
            raise bad_field("workers", workers, '1 with engine="local"; take engine="processes" for more')
        count = wanted or (1 if backend == "local" else usable_cores())
        if threads is not None:
            threads = check_whole("threads", threads, whole, 1)
        elif backend != "local":
            threads = thread_share(count) if here else 1
        if memory is not None:
            memory = 2**30 * check_number("memory", memory, above, lambda value: 0 < value < math.inf)
            if not (backend == "processes" or isinstance(backend, Slurm)):
                raise bad_field("memory", memory, "left out but for worker processes and SLURM jobs")
        if time_limit is not None:
            time_limit = check_number("time_limit", time_limit, above, lambda value: 0 < value < math.inf)
        return cls(backend, count, Orders(threads, time_limit), None if memory is None else int(memory))

    def trials_here(self, device: str) -> int:
        """Return how many trials share the memory of this machine (or of one GPU); none where they run elsewhere."""
        return 0 if self.backend not in ("local", "processes") else self.workers if device == "cpu" else 1

    def open(self) -> Backend:
        """Start the backend."""
        if self.backend == "local":
            return InProcess(self.orders)
        if self.backend == "processes":
            return Processes(self.workers, self.orders, self.memory)
        if isinstance(self.backend, Slurm):
            return self.backend.open(self.orders, self.memory)
        if isinstance(self.backend, str):
            return clusters.connect(self.backend, self.orders)
        return clusters.OnDask(self.backend, self.orders)


# -- A limit or an experiment through a store: a request becomes tasks ------------------------------------


LIMIT_BATCH = 250
"""Points of a limit in one task, counted along the grid: a constant of the code, so that numbers are the same."""


def fill_limit(request: Request, runner: Runner) -> tuple[xarray.Dataset, Problems]:
    """Return what `giantstep.predict` would, from the store and from what is computed."""
    settings = request.prepare()
    own = request.for_engine("limit", settings)
    scenario = request.grid.scenario
    ask = Ask(scenario.family, request.what, "limit", scenario.formula_version, own)
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
    together: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        together.setdefault(results[point.digest, 0].facts, []).append(index)
    return [(batch.index[i], _answer([results[points[row].digest, 0] for row in i])) for i in together.values()]


def _answer(rows: Sequence[Row]) -> Answer:
    values, blank = _columns([row.values for row in rows]), np.full(len(rows), np.nan)
    residual, iterations = (values.pop(name, blank) for name in ("residual", "iterations"))
    status = np.array([row.reason for row in rows], dtype=object)
    iterations = np.nan_to_num(iterations).astype(np.int64)
    coords, warnings, approximations, attrs = json.loads(rows[0].facts or "[{}, [], {}, {}]")
    places = {name: decode_array(array) for name, array in coords.items()}
    return Answer(values, status, residual, iterations, places, warnings, attrs, approximations)


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
    scenario, kind = request.grid.scenario, experiment.device.partition(":")[0]
    own = request.for_engine("experiment", plan.settings)
    own |= {"seed": experiment.seed, "paired": experiment.paired, "device": kind}
    ask = Ask(scenario.family, request.what, "experiment", scenario.formula_version, own)
    named = [(group, name_points(ask, group.scenario, group.points)) for group in plan.groups]
    numbers = range(experiment.trials)
    tasks = [Task(plan.draw(group, trial), tuple(points), trial) for trial in numbers for group, points in named]
    results = runner.fill(ask, tasks)

    def outcome(points: Sequence[Point], trial: int) -> trials.Outcome:
        rows = [results[point.digest, trial] for point in points]
        return trials.Outcome(_columns([row.values for row in rows]), np.array([row.reason for row in rows], object))

    return plan.collect([[outcome(points, trial) for trial in numbers] for _, points in named])
