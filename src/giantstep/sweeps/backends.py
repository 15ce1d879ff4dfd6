"""Backends: where tasks run. In this process, in worker processes, on a Dask cluster (`clusters.py`).

A backend takes tasks from a function that returns the next one (None: none just now) and yields finished ones, as many
as are ready at a time. Losing a worker loses no task: it runs again, and fails only where it costs several workers.
"""

from __future__ import annotations

import math
import pickle
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from giantstep.errors import GiantstepError, InputError
from giantstep.scenario import walk_values
from giantstep.sweeps.tasks import Done, Orders, Task, attempt, attempt_bytes, threads_here
from giantstep.workers import Plan, Sign, Tell, Worker

Source = Callable[[], Task | None]
Finished = list[tuple[Task, Done]]

TOGETHER = 0.1
"""Seconds of work of this process that are stored together, and may be lost where it is killed."""


class Backend(Protocol):
    """Where tasks run."""

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come."""

    def close(self) -> None:
        """Stop the workers, whatever they are at."""


class InProcess:
    """Runs tasks here, one after the other."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; short ones are yielded together, as storing takes its time."""
        done: Finished = []
        since = time.monotonic()
        with threads_here(self._orders.threads):
            while (task := source()) is not None or done:
                try:
                    done += [] if task is None else [(task, attempt(task, self._orders))]
                except KeyboardInterrupt:
                    yield done  # Ctrl-C loses nothing that is done
                    raise
                if task is None or time.monotonic() - since >= TOGETHER:
                    yield done  # what is stored may bring new tasks
                    done, since = [], time.monotonic()

    def close(self) -> None:
        """Do nothing: there are no workers."""


def pickle_task(task: Task, dumps: Callable[[Any], bytes]) -> bytes:
    """Return a task as bytes; a scenario that cannot be sent is refused with a sentence."""
    try:
        return dumps(task)
    except Exception as error:
        raise _not_loadable(f"{type(error).__name__}: {error}", task) from None


def check_answer(answer: Done | str, task: Task) -> Done:
    """Return what a worker gave; where it could not load the scenario, say so in a sentence."""
    if isinstance(answer, str):
        raise _not_loadable(answer, task)
    return answer


def _not_loadable(reason: str, task: Task) -> InputError:
    fields = walk_values(task.work.scenario)
    names = [f"`{name}` ({value.name!r})" for name, value in fields if getattr(value, "expression", "") is None]
    if names:
        return InputError(
            f"The Python callable in {', '.join(names)} cannot be loaded by a worker ({reason}); write it as an "
            'expression, put it into a module that the workers can import, or use engine="local".'
        )
    return InputError(
        f"A worker cannot load the scenario ({reason}); the same packages must be installed where it runs."
    )


# -- Tasks in worker processes of this machine: one that kills its worker runs again, and fails alone -----


_MOST_DEATHS = 3
"""Workers a task may cost before it is given up, and starts of a worker that may fail in a row."""
_GRACE = 2.0
"""Seconds beyond its time limit after which the worker of a task is killed: it did not look at its deadline."""


class _SweepWorker(Worker):
    """A worker, the task it has (None: it is idle), when it is killed, and whether it was."""

    def __init__(self, plan: Plan, slot: int, news: queue.SimpleQueue[tuple[_SweepWorker, Any]]) -> None:
        self.slot, self.ready, self.late, self.end = slot, False, False, math.inf
        self.task: Task | None = None
        super().__init__(plan, lambda message: news.put((self, message)))


class Processes:
    """Runs tasks in worker processes, each of which may take so many bytes beyond what it has after starting."""

    def __init__(self, workers: int, orders: Orders, memory: int | None = None) -> None:
        self._count, self._orders = workers, orders
        self._plan = Plan(_answer, partial(_bound_memory, memory), orders.threads)
        self._news: queue.SimpleQueue[tuple[_SweepWorker, Any]] = queue.SimpleQueue()
        self._workers: dict[int, _SweepWorker] = {}
        self._again: list[Task] = []
        self._deaths: Counter[tuple[str, int]] = Counter()
        self._failed_starts = 0

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield each when it is done."""
        while True:
            self._occupy(source)
            busy = [worker for worker in self._workers.values() if worker.task is not None]
            if not busy:
                return
            left = min(worker.end for worker in busy) - time.monotonic()
            try:
                done = self._hear(*self._news.get(timeout=None if math.isinf(left) else max(left, 0.0)))
            except queue.Empty:
                for worker in busy:
                    if worker.end <= time.monotonic():
                        worker.late, worker.end = True, math.inf
                        worker.kill()  # its death is told
                continue
            while not self._news.empty():  # answers that came while others were stored
                done += self._hear(*self._news.get())
            if done:
                self._occupy(source)  # they work while results are stored
                yield done

    def _occupy(self, source: Source) -> None:
        """Give every idle worker a task, and start those that are missing."""
        for slot in range(self._count):
            worker = self._workers.get(slot)
            if worker is not None and worker.task is not None:
                continue
            task = self._again.pop() if self._again else source()
            if task is None:
                return
            message = pickle_task(task, pickle.dumps), replace(self._orders, slot=slot)
            if worker is None:
                worker = self._workers[slot] = _SweepWorker(self._plan, slot, self._news)
            worker.task = task
            self._start_clock(worker)
            with suppress(OSError):  # it is gone, and that is told
                worker.send(message)

    def _start_clock(self, worker: _SweepWorker) -> None:
        """Let the time of a task begin, once its worker has started."""
        if worker.ready and self._orders.time_limit is not None:
            worker.end = time.monotonic() + self._orders.time_limit + _GRACE

    def _hear(self, worker: _SweepWorker, message: Any) -> Finished:
        """Return what a message finishes: the task of the worker, or nothing."""
        if message is Sign.READY:
            worker.ready, self._failed_starts = True, 0
            self._start_clock(worker)
            return []
        task, worker.task = worker.task, None
        if message is Sign.GONE:
            del self._workers[worker.slot]
            return self._bury(worker, task)
        assert task is not None
        return [(task, check_answer(message, task))]

    def _bury(self, worker: _SweepWorker, task: Task | None) -> Finished:
        """Run the task of a dead worker again, or give it up where it has cost too many of them or took too long."""
        self._failed_starts += not worker.ready
        if self._failed_starts >= _MOST_DEATHS:
            raise GiantstepError(
                "The worker processes cannot be started; in a script, call the sweep below "
                '`if __name__ == "__main__":`, since every worker imports that script.'
            )
        if task is None:
            return []
        if worker.late:
            return [(task, task.failure(f"it took longer than {self._orders.time_limit:g} s"))]
        name = task.points[0].digest, task.trial
        self._deaths[name] += worker.ready
        if self._deaths[name] >= _MOST_DEATHS:
            return [(task, task.failure(f"its worker process died {_MOST_DEATHS} times (killed, or out of memory)"))]
        self._again.append(task)
        return []

    def close(self) -> None:
        """Stop the workers at once."""
        for worker in self._workers.values():
            worker.kill()
            worker.process.join()
        self._workers.clear()


def _answer(message: tuple[bytes, Orders], tell: Tell) -> None:
    tell(attempt_bytes(*message))


def _bound_memory(memory: int | None) -> None:
    """Let this process take no more than so many bytes beyond what it has now."""
    if memory is not None:
        import resource

        import scipy.linalg  # noqa: F401, what every task needs is loaded before its memory is counted

        with open("/proc/self/status") as status:
            data = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
        resource.setrlimit(resource.RLIMIT_DATA, (data + memory, data + memory))
