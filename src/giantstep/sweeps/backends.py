"""Backends: where tasks run. In this process, in worker processes, on any Executor, on a Dask cluster.

A backend takes tasks from a function that returns the next one (None: none just now) and yields finished ones, as many
as are ready at a time. Losing a worker loses no task: it runs again, and fails only where it costs several workers.
"""

from __future__ import annotations

import asyncio
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from giantstep.errors import GiantstepError, InputError
from giantstep.sweeps.tasks import Done, NotLoaded, Orders, Task, attempt, attempt_bytes

Source = Callable[[], Task | None]
Finished = list[tuple[Task, Done]]

MOST_DEATHS = 3
"""Workers a task may cost before it is given up."""


class Backend(Protocol):
    """Where tasks run."""

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come."""

    def close(self) -> None:
        """Stop the workers, whatever they are at."""


def _threads_here(threads: int | None) -> AbstractContextManager[Any]:
    """Return a context in which this process has so many BLAS threads."""
    if threads is None:
        return nullcontext()
    from giantstep.lab.threads import blas_threads

    return blas_threads(threads)


class InProcess:
    """Runs tasks here, one after the other."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield each when it is done."""
        with _threads_here(self._orders.threads):
            while (task := source()) is not None:
                yield [(task, attempt(task, self._orders))]

    def close(self) -> None:
        """Do nothing: there are no workers."""


class OnFutures(ABC):
    """Runs tasks where each is a future: the loop that an Executor and a Dask cluster share."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self._waiting: dict[Any, Task] = {}

    @abstractmethod
    def _wants_more(self) -> bool:
        """Tell whether another task may be submitted before one has ended."""

    @abstractmethod
    def _submit(self, task: Task) -> Any:
        """Return the future of a task."""

    @abstractmethod
    def _ready(self) -> Iterable[Any]:
        """Wait for futures that are done."""

    @abstractmethod
    def _answer(self, future: Any) -> Any:
        """Return what a future gave, or raise what happened to it."""

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come.

        Where a cluster gives a task up because its workers died, others that waited there may be blamed with it;
        so each of them runs again, alone, before it is said to have failed.
        """
        suspects: list[Task] = []
        alone: Any = None
        while True:
            while self._wants_more() and (task := source()) is not None:
                self._waiting[self._submit(task)] = task
            if not self._waiting and suspects:
                task = suspects.pop()
                alone = self._submit(task)
                self._waiting[alone] = task
            if not self._waiting:
                return
            done: Finished = []
            for future in self._ready():
                task = self._waiting.pop(future)
                answer = self._result(future, task)
                if answer is not None:
                    done.append((task, answer))
                elif future is alone:
                    done.append((task, task.failure("its worker died every time (killed, or out of memory)")))
                else:
                    suspects.append(task)
            if done:
                yield done

    def _result(self, future: Any, task: Task) -> Done | None:
        """Return what a task gave; None where it cost its workers their lives."""
        try:
            return check_answer(self._answer(future), task)
        except GiantstepError:
            raise
        except (BrokenExecutor, CancelledError, asyncio.CancelledError) as error:
            raise lost_workers_error(error) from None
        except Exception as error:  # all that happens inside a task is its answer, so this came from the cluster
            if type(error).__name__ in ("KilledWorker", "TimeoutError"):
                return None
            raise lost_workers_error(error) from None

    def close(self) -> None:
        """Cancel what has not begun."""
        for future in self._waiting:
            future.cancel()
        self._waiting.clear()


class OnExecutor(OnFutures):
    """Runs tasks on any `concurrent.futures.Executor`; it stays open, its owner closes it.

    Parameters
    ----------
    executor : where to submit.
    queued : tasks submitted beyond those that run.
    orders : how its workers compute.
    """

    def __init__(self, executor: Executor, queued: int, orders: Orders) -> None:
        super().__init__(orders)
        self._executor, self._queued = executor, queued

    def run(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; threads share the BLAS threads of this process."""
        with _threads_here(self.orders.threads if isinstance(self._executor, ThreadPoolExecutor) else None):
            yield from super().run(source)

    def _wants_more(self) -> bool:
        return sum(not future.running() for future in self._waiting) < self._queued

    def _submit(self, task: Task) -> Any:
        try:
            if isinstance(self._executor, ThreadPoolExecutor):  # nothing has to travel
                return self._executor.submit(attempt, task, self.orders)
            return self._executor.submit(attempt_bytes, pickle_task(task, pickle.dumps), self.orders)
        except (BrokenExecutor, RuntimeError) as error:
            raise lost_workers_error(error) from None

    def _ready(self) -> Iterable[Any]:
        return wait(self._waiting, return_when=FIRST_COMPLETED)[0]

    def _answer(self, future: Any) -> Any:
        return future.result()


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
