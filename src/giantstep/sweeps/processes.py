"""Tasks in worker processes of this machine: one that kills its worker runs again, and fails alone."""

from __future__ import annotations

import math
import pickle
import queue
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from giantstep.errors import GiantstepError
from giantstep.sweeps.backends import MOST_DEATHS, Finished, Source, check_answer, pickle_task
from giantstep.sweeps.tasks import Orders, Task, attempt_bytes
from giantstep.workers import Plan, Sign, Tell, Worker

HEARTBEAT = 10.0
"""Seconds of silence after which the workers are looked at."""
_GRACE = 2.0
"""Seconds beyond twice its time limit after which the worker of a task is killed."""


class _SweepWorker(Worker):
    """A worker, the task it has (None: it is idle), and since when it works on it (infinite before)."""

    def __init__(self, plan: Plan, slot: int, news: queue.SimpleQueue[tuple[_SweepWorker, Any]]) -> None:
        self.slot, self.ready = slot, False
        self.task: Task | None = None
        self.message: Any = None
        self.since = math.inf
        super().__init__(plan, lambda message: news.put((self, message)))

    def begin(self) -> None:
        """Send the task, once the worker has started: only then does its time count."""
        if self.ready:
            self.since = time.monotonic()
            with suppress(OSError):  # it is gone, and that is told
                self.send(self.message)


class Processes:
    """Runs tasks in worker processes.

    Parameters
    ----------
    workers : how many.
    orders : how they compute.
    memory : bytes each may take beyond what it has after starting; None for all.
    """

    def __init__(self, workers: int, orders: Orders, memory: int | None = None) -> None:
        self._count, self._orders = workers, orders
        self._plan = Plan(_answer, partial(_bound_memory, memory), orders.threads)
        self._news: queue.SimpleQueue[tuple[_SweepWorker, Any]] = queue.SimpleQueue()
        self._workers: dict[int, _SweepWorker] = {}
        self._again: list[Task] = []
        self._deaths: Counter[tuple[str, int]] = Counter()
        self._failed_starts = 0

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come."""
        while True:
            self._occupy(source)
            if not self._busy():
                return
            done = [result for worker, message in self._listen() for result in self._results(worker, message)]
            done += [result for worker in self._busy() for result in self._stop_late(worker)]
            if done:
                self._occupy(source)  # they work while results are stored
                yield done

    def _busy(self) -> list[_SweepWorker]:
        return [worker for worker in self._workers.values() if worker.task is not None]

    def _occupy(self, source: Source) -> None:
        """Give every idle worker a task, and start those that are missing."""
        busy = {worker.slot for worker in self._busy()}
        for slot in (slot for slot in range(self._count) if slot not in busy):
            task = self._again.pop() if self._again else source()
            if task is None:
                return
            message = pickle_task(task, pickle.dumps), replace(self._orders, slot=slot)
            if slot not in self._workers:
                self._workers[slot] = _SweepWorker(self._plan, slot, self._news)
            worker = self._workers[slot]
            worker.task, worker.message = task, message
            worker.begin()

    def _listen(self) -> list[tuple[_SweepWorker, Any]]:
        """Return what workers have told; where all are silent for long, which of them are dead.

        A process that a task has started can keep the pipe of its dead worker open.
        """
        try:
            news = [self._news.get(timeout=min(HEARTBEAT, *map(self._seconds_left, self._busy())))]
        except queue.Empty:
            return [(worker, Sign.GONE) for worker in self._busy() if not worker.process.is_alive()]
        while not self._news.empty():
            news.append(self._news.get())
        return news

    def _results(self, worker: _SweepWorker, message: Any) -> Finished:
        """Return what a message finishes: the task of the worker, or nothing."""
        if self._workers.get(worker.slot) is not worker:  # it was given up
            return []
        if message is Sign.READY:
            worker.ready = True
            worker.begin()
            return []
        task, worker.task, worker.since = worker.task, None, math.inf
        if message is Sign.GONE:
            del self._workers[worker.slot]
            return self._replace_dead(worker, task)
        assert task is not None
        return [(task, check_answer(message, task))]

    def _replace_dead(self, worker: _SweepWorker, task: Task | None) -> Finished:
        """Run the task of a dead worker again, or give it up where it has cost too many of them."""
        self._failed_starts = 0 if worker.ready else self._failed_starts + 1
        if self._failed_starts >= MOST_DEATHS:
            raise GiantstepError(
                "The worker processes cannot be started; in a script, call the sweep below "
                '`if __name__ == "__main__":`, since every worker imports that script.'
            )
        if task is None:
            return []
        name = task.points[0].digest, task.trial
        self._deaths[name] += worker.ready
        if self._deaths[name] >= MOST_DEATHS:
            return [(task, task.failure(f"its worker process died {MOST_DEATHS} times (killed, or out of memory)"))]
        self._again.append(task)
        return []

    def _seconds_left(self, worker: _SweepWorker) -> float:
        """Return the seconds after which a worker is killed whose task did not stop by itself (in compiled code)."""
        if self._orders.time_limit is None:
            return math.inf
        return max(worker.since + 2 * self._orders.time_limit + _GRACE - time.monotonic(), 0.0)

    def _stop_late(self, worker: _SweepWorker) -> Finished:
        if self._seconds_left(worker) > 0:
            return []
        worker.kill()
        del self._workers[worker.slot]
        assert worker.task is not None
        return [(worker.task, worker.task.failure(f"it took longer than {self._orders.time_limit:g} s"))]

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
