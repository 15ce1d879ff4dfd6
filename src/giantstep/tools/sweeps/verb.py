"""The verb `sweep`: `simulate` or `predict` over a large grid, with a store, on one
core or on a cluster.

Several sweeps may fill one store at once. Each goes through its tasks in an order of
its own and looks into the store before each; where two compute the same result all the
same, the first one stored stays. A line with the time left says how far it is where
somebody watches, now and then one in the log elsewhere.
"""

from __future__ import annotations

import json
import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.progress import Progress, ProgressOption, duration
from giantstep.core.base.types import Array, Indices
from giantstep.core.run import limit, trials
from giantstep.core.run.problems import Problems, warn
from giantstep.core.run.request import ExperimentSettings, Request
from giantstep.core.scenario.answer import Answer, pad_stack
from giantstep.core.scenario.checks import check_flags, check_number, check_whole
from giantstep.core.scenario.grid import Batch
from giantstep.core.scenario.model import Scenario
from giantstep.tools.sweeps import clusters
from giantstep.tools.sweeps.backends import (
    Backend,
    InProcess,
    Orders,
    Processes,
    Solve,
    Task,
)
from giantstep.tools.sweeps.clusters import Slurm
from giantstep.tools.sweeps.store import (
    Ask,
    Name,
    Point,
    Row,
    Store,
    decode_array,
    name_points,
)
from giantstep.tools.sweeps.workers import usable_cores

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
    """Answer a scenario over a large grid as `simulate` (or `predict`) would, and keep
    every result in a store.

    What the store has is not computed again: an interrupted sweep goes on where it was.

    Parameters
    ----------
    store : the SQLite file that keeps the results; in memory, for this call only, if
        left out.
    source, retry : ``"experiment"`` or ``"limit"``; compute failures of earlier runs
        again.
    engine, workers, scheduler, threads, memory, time_limit : where tasks run, as in
        `giantstep.tools.sweeps.verb.BackendOptions`.
    scenario, grid, what, theory, dim, **fields and the others : as in `simulate` and
        `predict`.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> gs.sweep(
    ...     s, dim=30, trials=2, samples_per_dim=[0.5, 2.0], progress=False
    ... ).trials_done.values.tolist()
    [2, 2]
    """
    if source not in ("experiment", "limit"):
        raise bad_field("source", source, '"experiment" or "limit"')
    check_flags(strict=strict, retry=retry)
    limit: dict[str, Any]
    if source == "limit":
        limit = {"theory": theory, "tolerance": tolerance, "seed": seed}
    else:
        limit = {}
    own = ("store", "source", "engine", "workers", "threads")
    request = Request(scenario, grid, fields, what=what, dim=dim, **limit, also=own)
    experiment = ExperimentSettings(trials, seed, device, keep_trials, paired)
    options = BackendOptions.from_input(
        engine, workers, scheduler, threads, memory, time_limit
    )
    with (
        Store(store) as results,
        Runner(results, options.open, retry, progress) as runner,
    ):
        if source == "limit":
            result, problems = fill_limit(request, runner)
        else:
            at_once = 0
            if (
                options.backend in HERE
            ):  # trials share the memory of this machine, or of a GPU
                at_once = options.workers if device == "cpu" else 1
            result, problems = fill_experiment(request, runner, experiment, at_once)
        _log.info(
            "sweep of %s, %s: %s",
            request.grid.scenario.family,
            request.what,
            runner.summary(),
        )
    problems.refuse(strict)
    warn(problems)
    return result


# -- Where a sweep runs: the options of a backend, checked, and the backend they open --


EngineOption = str | Slurm | Any | None
"""A name, a `Slurm`, a Dask client, or None to choose by the other options."""

HERE = ("local", "processes", "dask")
"""Names of backends on this machine."""
BACKENDS = (*HERE, "slurm")


def thread_share(workers: int) -> int:
    """Return the BLAS threads of each of so many workers, so that together they use
    what this process may use.
    """
    import scipy.linalg  # noqa: F401, loads the libraries
    from threadpoolctl import threadpool_info

    threads = max(
        (lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"),
        default=1,
    )
    return max(1, threads // workers)


@dataclass(frozen=True)
class BackendOptions:
    """Checked options of a backend: a name among `BACKENDS`, a `Slurm`, a Dask client
    or a scheduler's address.
    """

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
        engine : ``"local"`` (this process), ``"processes"``, ``"dask"`` (a Dask cluster
            of this machine, started for this sweep), ``"slurm"`` or a
            `giantstep.Slurm`, or a Dask ``Client``. If left out: processes where
            `workers` is above 1.
        workers : how many tasks run at once; as many as there are cores if left out.
        scheduler : address of a running Dask scheduler.
        threads : BLAS threads of each worker; if left out the cores are shared out
            evenly. The same number of threads gives the same numbers bit for bit,
            whatever the number of workers.
        memory : GiB a worker may take for a task (processes, a Dask cluster of this
            machine, SLURM jobs).
        time_limit : seconds a task may take.
        """
        whole = "a whole number at least 1"
        above = "a number above 0"
        if workers is None:
            wanted = None
        else:
            wanted = check_whole("workers", workers, whole, 1)
        backend = engine
        if scheduler is not None:
            if (
                engine not in (None, "dask")
                or not isinstance(scheduler, str)
                or scheduler in BACKENDS
            ):
                raise bad_field(
                    "scheduler",
                    scheduler,
                    'an address such as "tcp://127.0.0.1:8786", without `engine`',
                )
            backend = scheduler
        elif engine is None:
            backend = "processes" if (wanted or 1) > 1 else "local"
        elif engine == "slurm":
            backend = Slurm()
        elif engine not in BACKENDS and not isinstance(engine, Slurm):
            is_client = hasattr(engine, "get_executor") and hasattr(engine, "nthreads")
            if not is_client:
                raise bad_field(
                    "engine",
                    engine,
                    f"one of {', '.join(BACKENDS)}, a gs.Slurm or a Dask client",
                )
        here = backend in HERE
        if wanted is not None and not here:
            raise bad_field(
                "workers",
                workers,
                "left out on a cluster, which has its own (`jobs` of SLURM)",
            )
        if backend == "local" and (wanted or 1) > 1:
            raise bad_field(
                "workers",
                workers,
                '1 with engine="local"; take engine="processes" for more',
            )
        count = wanted or (1 if backend == "local" else usable_cores())
        if threads is not None:
            threads = check_whole("threads", threads, whole, 1)
        elif backend != "local":
            threads = thread_share(count) if here else 1
        if memory is not None:
            memory = 2**30 * check_number(
                "memory", memory, above, lambda value: 0 < value < math.inf
            )
            if not (backend in ("processes", "dask") or isinstance(backend, Slurm)):
                raise bad_field(
                    "memory", memory, "left out but for worker processes and SLURM jobs"
                )
        if time_limit is not None:
            time_limit = check_number(
                "time_limit", time_limit, above, lambda value: 0 < value < math.inf
            )
        return cls(
            backend,
            count,
            Orders(threads, time_limit),
            None if memory is None else int(memory),
        )

    def open(self) -> Backend:
        """Start the backend."""
        if self.backend == "local":
            return InProcess(self.orders)
        if self.backend == "processes":
            return Processes(self.workers, self.orders, self.memory)
        if self.backend == "dask":
            return clusters.start_cluster(self.workers, self.orders, self.memory)
        if isinstance(self.backend, Slurm):
            return self.backend.open(self.orders, self.memory)
        if isinstance(self.backend, str):
            return clusters.connect(self.backend, self.orders)
        return clusters.OnDask(self.backend, self.orders)


# -- A limit or an experiment through a store: a request becomes tasks -----------------


LIMIT_BATCH = 250
"""Points of a limit in one task, counted along the grid: a constant of the code, so
that numbers are the same.
"""


def fill_limit(request: Request, runner: Runner) -> tuple[xarray.Dataset, Problems]:
    """Return what `giantstep.predict` would, from the store and from what is
    computed.
    """
    request.refuse_limit()
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
        whole = Task(work, tuple(points))
        starts = range(0, len(points), LIMIT_BATCH)
        tasks += [
            whole.at(range(start, min(start + LIMIT_BATCH, len(points))))
            for start in starts
        ]
    results = runner.fill(ask, tasks)
    answers = [
        answer for batch, points in named for answer in _answers(batch, points, results)
    ]
    return limit.collect_answers(answers, request, settings)


def _answers(
    batch: Batch, points: Sequence[Point], results: Results
) -> list[tuple[Indices, Answer]]:
    """Return the results of one batch as answers: one for all that say the same of
    themselves.
    """
    together: dict[str, list[int]] = {}
    for index, point in enumerate(points):
        together.setdefault(results[point.digest, 0].facts, []).append(index)
    return [
        (batch.index[i], _answer([results[points[row].digest, 0] for row in i]))
        for i in together.values()
    ]


def _answer(rows: Sequence[Row]) -> Answer:
    values = _columns([row.values for row in rows])
    blank = np.full(len(rows), np.nan)
    residual, iterations = (
        values.pop(name, blank) for name in ("residual", "iterations")
    )
    status = np.array([row.reason for row in rows], dtype=object)
    iterations = np.nan_to_num(iterations).astype(np.int64)
    coords, warnings, approximations, attrs = json.loads(
        rows[0].facts or "[{}, [], {}, {}]"
    )
    places = {name: decode_array(array) for name, array in coords.items()}
    return Answer(
        values, status, residual, iterations, places, warnings, attrs, approximations
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
    scenario = request.grid.scenario
    kind = experiment.device.partition(":")[0]
    own = request.for_engine("experiment", plan.settings)
    own |= {"seed": experiment.seed, "paired": experiment.paired, "device": kind}
    ask = Ask(
        scenario.family, request.what, "experiment", scenario.formula_version, own
    )
    named = [
        (group, name_points(ask, group.scenario, group.points)) for group in plan.groups
    ]
    numbers = range(experiment.trials)
    tasks = [
        Task(plan.draw(group, trial), tuple(points), trial)
        for trial in numbers
        for group, points in named
    ]
    results = runner.fill(ask, tasks)

    def outcome(points: Sequence[Point], trial: int) -> trials.Outcome:
        rows = [results[point.digest, trial] for point in points]
        return trials.Outcome(
            _columns([row.values for row in rows]),
            np.array([row.reason for row in rows], object),
        )

    return plan.collect(
        [[outcome(points, trial) for trial in numbers] for _, points in named]
    )


# -- Filling the store: what is there is taken, the rest runs, and is kept as soon as it


_EVERY = 10.0
"""Seconds between lines of the log."""


class SweepProgress(Progress):
    """Counts results of a sweep, of which some were stored before; where nobody
    watches, lines go to the log.
    """

    def __init__(
        self, option: ProgressOption, total: int, stored: int, unit: str = "points"
    ) -> None:
        super().__init__(option, total, "")
        self.stored = self.done = stored
        self.unit = unit
        self._logs = option is None and not self._shows_line
        self._said = -math.inf

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self._logs and self.done > self.stored:
            _log.info(self.line())

    def _tell(self) -> None:
        self.text = self.line()
        super()._tell()
        now = time.monotonic()
        if self._logs and now - self._said > _EVERY:
            self._said = now
            _log.info(self.text)

    def line(self) -> str:
        """Say how far the sweep is, and how long the rest takes."""
        new = self.done - self.stored
        seconds = time.monotonic() - self._start
        if new:
            left = f", {duration(seconds * (self.total - self.done) / new)} left"
        else:
            left = ""
        return f"{self.done} of {self.total} {self.unit} done{left}"


Results = dict[Name, Row]


class Interrupted(KeyboardInterrupt):
    """The sweep was stopped; its message says how to go on."""


class Runner(AbstractContextManager["Runner"]):
    """Fills a store; use as a context manager, which stops the workers at its end.

    `start` is called only where something is missing; `retry` computes failures of
    earlier sweeps again.
    """

    def __init__(
        self,
        store: Store,
        start: Callable[[], Backend],
        retry: bool,
        progress: ProgressOption,
    ) -> None:
        self.store = store
        self.retry = retry
        self.progress = progress
        self._start = start
        self._backend: Backend | None = None
        self._computed: set[Name] = set()
        self._failed: dict[Name, bool] = {}

    def __exit__(self, *error: object) -> None:
        if self._backend is not None:
            self._backend.close()

    def summary(self) -> str:
        """Say how many results were computed, taken from the store, and failed."""
        computed = len(self._computed)
        failed = sum(self._failed.values())
        if failed and self.store.path:
            hint = f" (giantstep store show {self.store.path} --failures)"
        else:
            hint = ""
        return (
            f"{computed} results computed, {len(self._failed) - computed} were stored,"
            f" {failed} failed{hint}"
        )

    def fill(self, ask: Ask, tasks: Sequence[Task]) -> Results:
        """Return every result of the tasks, computing those that are not in the
        store.
        """
        results = self._read(tasks)
        wanted = {name for task in tasks for name in task.names()}
        missing = len(wanted - results.keys())
        points = len({digest for digest, _ in wanted})
        if points == len(wanted):
            unit = "points"
        else:
            unit = f"trials at {points} points"
        with SweepProgress(
            self.progress, len(wanted), len(wanted) - missing, unit
        ) as bar:
            if missing:
                self._run(ask, tasks, results, bar)
        self._failed.update({name: bool(results[name].reason) for name in wanted})
        return results

    def _read(self, tasks: Iterable[Task], trial: int | None = None) -> Results:
        """Return what the store has of the points of these tasks, without failures that
        are computed again.
        """
        points = {point.digest: point for task in tasks for point in task.points}
        results, damaged = self.store.get(list(points.values()), trial)
        if damaged:
            _log.warning(
                "%d results in %s are damaged and are computed again",
                len(damaged),
                self.store.name,
            )
            self.store.remove_results(damaged)
        tried = self._computed if self.retry else results.keys()
        return {
            name: row
            for name, row in results.items()
            if not row.reason or name in tried
        }

    def _run(
        self, ask: Ask, tasks: Sequence[Task], results: Results, bar: SweepProgress
    ) -> None:
        """Compute what is missing in `results`, and add it there."""
        queue, wanted = deque[Task](), set(results)
        for task in (
            tasks
            if self.store.path is None
            else random.Random().sample(tasks, len(tasks))
        ):
            left = task.without(wanted)
            if left is not None:
                queue.append(left)
                wanted.update(left.names())

        def add(new: Results) -> None:
            results.update(new)
            bar.advance(len(new))

        def next_task() -> Task | None:
            while queue:
                task = queue.popleft()
                # of another sweep that is at work on this store
                found = self._read([task], task.trial)
                if found:
                    add(found)
                left = task.without(found)
                if left is not None:
                    return left
            return None

        try:
            self.store.check_writable()
            if self._backend is None:
                self._backend = self._start()
            for finished in self._backend.run(next_task):
                rows: list[Row] = []
                for task, done in finished:
                    # to find the point that raises
                    halves = task.halves() if done.raised else []
                    queue.extendleft(halves)
                    rows += [] if halves else task.rows(done)
                if rows:
                    self.store.put(ask, rows)
                    new = {(row.point.digest, row.trial): row for row in rows}
                    self._computed.update(new)
                    add(new)
        except KeyboardInterrupt:
            how_far = f"{bar.done} of {bar.total} {bar.unit}"
            if self.store.path is None:
                raise Interrupted(
                    f"Stopped after {how_far}; without a store nothing is kept."
                ) from None
            stored = f"{how_far} are stored in {self.store.name}"
            raise Interrupted(
                f"Stopped: {stored}; run the same sweep again to go on from there."
            ) from None
