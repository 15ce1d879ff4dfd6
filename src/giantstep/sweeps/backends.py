"""Backends: where tasks run. In this process, in worker processes (`processes.py`), on any Executor, Dask's included.

A backend takes tasks from a function that returns the next one (None: none just now) and yields finished ones, as many
as are ready at a time. Losing a worker loses no task: it runs again, and fails only where it costs several workers.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from giantstep.errors import GiantstepError, InputError
from giantstep.sweeps.tasks import Done, NotLoaded, Orders, Task, attempt, attempt_bytes, threads_here

Source = Callable[[], Task | None]
Finished = list[tuple[Task, Done]]

TOGETHER = 0.1
"""Seconds of work of this process that are stored together, and may be lost where it is killed."""
_QUEUE = 100
"""Tasks in the hands of an executor, at least: a cluster that grows by need (SLURM) has to see the need."""


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


class OnExecutor:
    """Runs tasks on any `concurrent.futures.Executor`, which stays open.

    Parameters
    ----------
    executor : where to submit.
    workers : how many tasks it may run at once; four times as many are submitted.
    orders : how its workers compute.
    dumps, work : make bytes of a task, and run them in a worker.
    lost : what a future raises where its task was given up because it cost too many workers.
    owned : what is closed at the end, in this order.
    """

    def __init__(
        self,
        executor: Executor,
        workers: int,
        orders: Orders,
        dumps: Callable[[Any], bytes] = pickle.dumps,
        work: Callable[[bytes, Orders], Done | NotLoaded] = attempt_bytes,
        lost: tuple[type[Exception], ...] = (),
        owned: tuple[Any, ...] = (),
    ) -> None:
        self._executor, self._most, self._orders = executor, max(4 * workers, _QUEUE), orders
        self._dumps, self._work, self._lost, self._owned = dumps, work, lost, owned
        self._here = isinstance(executor, ThreadPoolExecutor)
        self._waiting: dict[Future[Done | NotLoaded], Task] = {}

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come.

        Where a cluster gives a task up because its workers died, others that waited there may be blamed with it;
        so each of them runs again, alone, before it is said to have failed.
        """
        suspects: list[Task] = []
        alone: Future[Done | NotLoaded] | None = None
        with threads_here(self._orders.threads if self._here else None):
            while True:
                while len(self._waiting) < self._most and (task := source()) is not None:
                    self._submit(task)
                if not self._waiting and suspects:
                    alone = self._submit(suspects.pop())
                if not self._waiting:
                    return
                done: Finished = []
                for future in wait(self._waiting, return_when=FIRST_COMPLETED)[0]:
                    task = self._waiting.pop(future)
                    answer = self._answer(future, task)
                    if answer is None and future is not alone:
                        suspects.append(task)
                        continue
                    done.append((task, answer or task.failure("its worker died every time (killed, or out of memory)")))
                if done:
                    yield done

    def _submit(self, task: Task) -> Future[Done | NotLoaded]:
        message = None if self._here else pickle_task(task, self._dumps)
        future: Future[Done | NotLoaded]
        try:
            if message is None:  # nothing has to travel
                future = self._executor.submit(attempt, task, self._orders)
            else:
                future = self._executor.submit(self._work, message, self._orders)
        except RuntimeError as error:  # it is closed, or broken
            raise lost_workers_error(error) from None
        self._waiting[future] = task
        return future

    def _answer(self, future: Future[Done | NotLoaded], task: Task) -> Done | None:
        """Return what a task gave; None where it cost its workers their lives."""
        try:
            answer = future.result()
        except self._lost:
            return None
        except BaseException as error:  # all that happens inside a task is its answer, so this came from the executor
            if isinstance(error, KeyboardInterrupt):
                raise
            raise lost_workers_error(error) from None
        return check_answer(answer, task)

    def close(self) -> None:
        """Cancel what has not begun, and close what was opened for it."""
        for future in self._waiting:
            future.cancel()
        for owned in self._owned:
            owned.close()


def pickle_task(task: Task, dumps: Callable[[Any], bytes]) -> bytes:
    """Return a task as bytes; a scenario that cannot be sent is refused with a sentence."""
    try:
        return dumps(task)
    except Exception as error:
        raise _not_loadable(f"{type(error).__name__}: {error}", task) from None


def check_answer(answer: Done | NotLoaded, task: Task) -> Done:
    """Return what a worker gave; where it could not load the scenario, say so in a sentence."""
    if isinstance(answer, NotLoaded):
        raise _not_loadable(answer.reason, task)
    return answer


def _not_loadable(reason: str, task: Task) -> InputError:
    names = task.callables()
    if names:
        return InputError(
            f"The Python callable in {', '.join(names)} cannot be loaded by a worker ({reason}); write it as an "
            'expression, put it into a module that the workers can import, or use engine="local".'
        )
    return InputError(
        f"A worker cannot load the scenario ({reason}); the same packages must be installed where it runs."
    )


def lost_workers_error(error: BaseException) -> GiantstepError:
    """Return that a sweep cannot go on, because of an error of its workers."""
    reason = " ".join(str(error).split()) or "no reason given"
    return GiantstepError(
        f"The workers are lost ({type(error).__name__}: {reason}); everything reported as done is stored: run the same "
        "sweep again."
    )
