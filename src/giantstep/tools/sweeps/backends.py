"""Backends: where tasks run. In this process, in worker processes, on a Dask cluster
(`clusters.py`).

A backend takes tasks from a function that returns the next one (None: none just now)
and yields finished ones, as many as are ready at a time. Losing a worker loses no task:
it runs again, and fails only where it costs several workers.
"""

from __future__ import annotations

import json
import pickle
import queue
import time
import traceback
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import giantstep.core.lab.seeds  # noqa: F401, what every task needs is loaded before its time is counted
from giantstep.core.base.deadline import TimeUp, deadline
from giantstep.core.base.errors import GiantstepError, InputError
from giantstep.core.base.jsondata import LONGEST, json_data
from giantstep.core.base.types import Points
from giantstep.core.lab.devices import namespace
from giantstep.core.lab.threads import blas_threads
from giantstep.core.run.returns import answer_of
from giantstep.core.run.trials import Outcome, TrialDraw
from giantstep.core.scenario.model import Scenario
from giantstep.tools.sweeps.store import Name, Point, Row, encode_array
from giantstep.tools.sweeps.workers import Plan, Sign, Tell, Worker

_LONGEST_DETAIL = 4000
"""Characters of a traceback that are stored: its end, where the error is."""


@dataclass(frozen=True)
class Solve:
    """A batch of points for the limit."""

    scenario: Scenario
    points: Points
    what: str
    settings: Mapping[str, Any]

    def at(self, rows: Any) -> Solve:
        """Return the batch at some of its points."""
        return replace(
            self, points={name: values[rows] for name, values in self.points.items()}
        )


@dataclass(frozen=True)
class Done(Outcome):
    """What a task gave.

    `facts` is what the whole batch of a limit says, as JSON text: coordinates of own
    dimensions, warnings, approximations, attributes.
    """

    seconds: float = 0.0
    facts: str = ""
    detail: str = ""
    raised: bool = False


@dataclass(frozen=True)
class Task:
    """One draw, or one batch of a limit, and the points it answers."""

    work: TrialDraw | Solve
    points: tuple[Point, ...]
    trial: int = 0

    def names(self) -> dict[Name, int]:
        """Return the results by name, with the row of each; a point that is there twice
        has its first.
        """
        return {
            (self.points[row].digest, self.trial): row
            for row in reversed(range(len(self.points)))
        }

    def at(self, rows: Sequence[int]) -> Task:
        """Return the task for some of its points."""
        return Task(
            self.work.at(np.asarray(rows)),
            tuple(self.points[row] for row in rows),
            self.trial,
        )

    def without(self, known: Container[Name]) -> Task | None:
        """Return the task for the points whose results are not known; None where all
        are.
        """
        rows = sorted(row for name, row in self.names().items() if name not in known)
        if len(rows) == len(self.points):
            return self
        if rows:
            return self.at(rows)
        return None

    def rows(self, done: Done) -> list[Row]:
        """Return what goes into the store."""
        values = [
            {name: column[row] for name, column in done.values.items()}
            for row in range(len(self.points))
        ]
        share = done.seconds / len(self.points)
        more = zip(self.points, values, done.reasons)
        return [
            Row(at, self.trial, its, str(why), done.detail, share, done.facts)
            for at, its, why in more
        ]

    def failure(self, reason: str, detail: str = "") -> Done:
        """Return that there are no numbers, and why."""
        if isinstance(self.work, TrialDraw):
            text = f"trial {self.trial}: {reason}"
        else:
            text = reason
        reasons = np.full(len(self.points), text, dtype=object)
        return Done({}, reasons, detail=detail[-_LONGEST_DETAIL:], raised=True)

    def halves(self) -> list[Task]:
        """Return the task in two, to find the point that makes it fail; a draw is one
        and stays so.
        """
        middle = len(self.points) // 2
        size = len(self.points)
        if middle and isinstance(self.work, Solve):
            return [self.at(range(middle)), self.at(range(middle, size))]
        return []


@dataclass(frozen=True)
class Orders:
    """How a worker computes: BLAS threads (None: as they are), seconds a task may take,
    and a number for its GPU.
    """

    threads: int | None = None
    time_limit: float | None = None
    slot: int | None = None


def attempt_bytes(data: bytes, orders: Orders) -> Done | str:
    """Run a pickled task in a worker, or say why it cannot be loaded; only a lost
    worker escapes as an error.
    """
    try:
        task: Task = pickle.loads(data)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    with threads_here(orders.threads):
        return attempt(task, orders)


def attempt(task: Task, orders: Orders) -> Done:
    """Run a task; whatever goes wrong is the answer."""
    start = time.perf_counter()
    try:
        with deadline(orders.time_limit):
            if isinstance(task.work, TrialDraw):
                outcome = task.work.run(
                    worker_device(task.work.experiment.device, orders.slot)
                )
                done = Done(outcome.values, outcome.reasons)
            else:
                done = _solve(task.work)
    except TimeUp:
        done = task.failure(f"it took longer than {orders.time_limit:g} s")
    except MemoryError as error:
        done = task.failure(
            f"out of memory ({error})" if str(error) else "out of memory"
        )
    except Exception as error:
        done = task.failure(f"{type(error).__name__}: {error}", traceback.format_exc())
    return replace(done, seconds=time.perf_counter() - start)


def _solve(work: Solve) -> Done:
    answer = answer_of(work.scenario, work.points, work.what, work.settings)
    values = {name: np.asarray(value) for name, value in answer.values.items()}
    values["residual"] = np.asarray(answer.residual, dtype=np.float64)
    values["iterations"] = np.asarray(answer.iterations, dtype=np.int64)
    coords = {name: encode_array(value) for name, value in answer.coords.items()}
    facts = [
        coords,
        answer.warnings,
        json_data(answer.approximations),
        json_data(answer.attrs, LONGEST),
    ]
    return Done(
        values, np.asarray(answer.status).astype(object), facts=json.dumps(facts)
    )


def worker_device(device: str, slot: int | None) -> str:
    """Return the device a worker computes on: each takes the next GPU, where only
    ``"cuda"`` was asked for.
    """
    if device != "cuda" or slot is None:
        return device

    return f"cuda:{slot % namespace('cuda').cuda.runtime.getDeviceCount()}"


def threads_here(threads: int | None) -> AbstractContextManager[Any]:
    """Return a context in which this process has so many BLAS threads; None leaves them
    as they are.
    """
    return nullcontext() if threads is None else blas_threads(threads)


Source = Callable[[], Task | None]
Finished = list[tuple[Task, Done]]

TOGETHER = 0.1
"""Seconds of work of this process that are stored together, and may be lost where it is
killed.
"""


class InProcess:
    """Runs tasks here, one after the other."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; short ones are yielded together, as storing
        takes its time.
        """
        done: Finished = []
        since = time.monotonic()
        with threads_here(self._orders.threads):
            while (task := source()) is not None or done:
                try:
                    if task is None:
                        done += []
                    else:
                        done += [(task, attempt(task, self._orders))]
                except KeyboardInterrupt:
                    yield done  # Ctrl-C loses nothing that is done
                    raise
                if task is None or time.monotonic() - since >= TOGETHER:
                    yield done  # what is stored may bring new tasks
                    done = []
                    since = time.monotonic()

    def close(self) -> None:
        """Do nothing: there are no workers."""


class Pool:
    """Hands tasks to workers, `most` of them at a time, and has a future for each."""

    def __init__(self, orders: Orders, most: int) -> None:
        self._orders = orders
        self._most = most
        self._waiting: dict[Future[Done | str], Task] = {}

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come.

        Where a cluster gives a task up because its workers died, others that waited
        there may be blamed with it; so each of them runs again, alone, before it is
        said to have failed.
        """
        done: Finished = []
        suspects: list[Task] = []
        alone: Future[Done | str] | None = None
        while True:
            while len(self._waiting) < self._most and (task := source()) is not None:
                self._submit(task)
            if done:
                yield done  # they work while it is stored, which may bring new tasks
                done = []
                continue
            if not self._waiting and suspects:
                alone = self._submit(suspects.pop())
            if not self._waiting:
                return
            for future in wait(self._waiting, return_when=FIRST_COMPLETED)[0]:
                task = self._waiting.pop(future)
                answer = self._answer(future)
                if answer is None and future is not alone:
                    suspects.append(task)
                elif answer is None:
                    done.append(
                        (
                            task,
                            task.failure(
                                "its worker died every time (killed, or out of memory)"
                            ),
                        )
                    )
                elif isinstance(answer, str):
                    raise _not_loadable(answer, task)
                else:
                    done.append((task, answer))

    def _submit(self, task: Task) -> Future[Done | str]:
        raise NotImplementedError

    def _answer(self, future: Future[Done | str]) -> Done | str | None:
        """Return what a task gave, or why a worker could not load it; None where it
        cost its workers their lives.
        """
        return future.result()

    def close(self) -> None:
        """Stop the workers, whatever they are at."""
        raise NotImplementedError


Backend = InProcess | Pool


def pickle_task(task: Task, dumps: Callable[[Any], bytes]) -> bytes:
    """Return a task as bytes; a scenario that cannot be sent is refused with a
    sentence.
    """
    try:
        return dumps(task)
    except Exception as error:
        raise _not_loadable(f"{type(error).__name__}: {error}", task) from None


def _not_loadable(reason: str, task: Task) -> InputError:
    fields = task.work.scenario.leaves
    names = [
        f"`{name}` ({value.name!r})"
        for name, value in fields
        if getattr(value, "expression", "") is None
    ]
    if names:
        return InputError(
            f"The Python callable in {', '.join(names)} cannot be loaded by a worker"
            f" ({reason}); write it as an expression, put it into a module that the"
            ' workers can import, or use engine="local".'
        )
    return InputError(
        f"A worker cannot load the scenario ({reason}); the same packages must be"
        " installed where it runs."
    )


# -- Tasks in worker processes of this machine: one that kills its worker runs again, an


_MOST_DEATHS = 3
"""Workers a task may cost before it is given up, and starts of one that may fail in a
row.
"""
_GRACE = 2.0
"""Seconds beyond its time limit after which the worker of a task is killed: it did not
look at its deadline.
"""


class _SweepWorker(Worker):
    """A worker, and what it has told since it was asked."""

    def __init__(self, plan: Plan) -> None:
        self.news: queue.SimpleQueue[Any] = queue.SimpleQueue()
        super().__init__(plan, self.news.put)

    def kill(self) -> None:
        """End the process now, and wait until it is gone."""
        super().kill()
        self.process.join()


class Processes(Pool):
    """Runs tasks in worker processes, each of which may take so many bytes beyond what
    it has after starting.

    A thread waits for the answer to each task, and goes to a new worker where one dies.
    """

    def __init__(self, workers: int, orders: Orders, memory: int | None = None) -> None:
        super().__init__(orders, workers)
        self._plan = Plan(_answer, partial(_bound_memory, memory), orders.threads)
        self._threads = ThreadPoolExecutor(workers)
        self._idle = [*reversed(range(workers))]
        self._closed = False
        self._workers: dict[int, _SweepWorker] = {}

    def _submit(self, task: Task) -> Future[Done | str]:
        future = self._threads.submit(
            self._attempt, task, pickle_task(task, pickle.dumps)
        )
        self._waiting[future] = task
        return future

    def _end(self, slot: int) -> None:
        """End the worker of a slot; the next one is another, whatever the system still
        says of this one.
        """
        self._workers.pop(slot).kill()

    def _attempt(self, task: Task, data: bytes) -> Done | str:
        """Return what a worker answers; give a task up where it has cost too many of
        them or takes too long.
        """
        slot = self._idle.pop()
        limit = self._orders.time_limit
        deaths = 0
        failed_starts = 0
        try:
            while max(deaths, failed_starts) < _MOST_DEATHS and not self._closed:
                worker = self._workers.get(slot)
                if worker is None or not worker.process.is_alive():
                    worker = self._workers[slot] = _SweepWorker(self._plan)
                    if self._closed or worker.news.get() is Sign.GONE:
                        self._end(slot)
                        failed_starts += 1
                        continue
                    failed_starts = 0
                with suppress(OSError):  # it is gone, and that is told
                    worker.send((data, replace(self._orders, slot=slot)))
                try:
                    answer = worker.news.get(
                        timeout=None if limit is None else limit + _GRACE
                    )
                except queue.Empty:
                    self._end(slot)
                    return task.failure(f"it took longer than {limit:g} s")
                if answer is not Sign.GONE:
                    return answer
                self._end(slot)
                deaths += 1
        finally:
            self._idle.append(slot)
        if failed_starts == _MOST_DEATHS:
            raise GiantstepError(
                "The worker processes cannot be started; in a script, call the sweep"
                ' below `if __name__ == "__main__":`, since every worker imports that'
                " script."
            )
        return task.failure(
            f"its worker process died {_MOST_DEATHS} times (killed, or out of memory)"
        )

    def close(self) -> None:
        """Stop the workers at once."""
        self._closed = True
        for worker in list(self._workers.values()):
            worker.kill()
        self._threads.shutdown(cancel_futures=True)


def _answer(message: tuple[bytes, Orders], tell: Tell) -> None:
    tell(attempt_bytes(*message))


def _bound_memory(memory: int | None) -> None:
    """Let this process take no more than so many bytes beyond what it has now."""
    if memory is not None:
        import resource

        import scipy.linalg  # noqa: F401, what every task needs is loaded before its memory is counted

        with open("/proc/self/status") as status:
            data = next(
                int(line.split()[1]) * 1024
                for line in status
                if line.startswith("VmData")
            )
        resource.setrlimit(resource.RLIMIT_DATA, (data + memory, data + memory))
