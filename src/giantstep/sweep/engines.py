"""Engines: where tasks run. In this process, in a pool of processes, on a Dask cluster, on any Executor.

An engine takes tasks from a function that returns the next one (None: none just now) and yields finished ones, as many
as are ready at a time. Losing a worker loses no task: it runs again, and fails only where it costs several workers.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import pickle
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from concurrent.futures import wait as wait_for
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from multiprocessing.connection import wait as wait_for_ends
from typing import Any, Protocol

from giantstep.errors import GiantstepError, InputError
from giantstep.sweep.tasks import Done, NotLoaded, Orders, Task, attempt, attempt_bytes, callables, pickled

_log = logging.getLogger("giantstep")

Source = Callable[[], Task | None]
Finished = list[tuple[Task, Done]]

MOST_DEATHS = 3
"""Workers a task may cost before it is given up."""
_A_WHILE = 2.0
"""Seconds after which futures are looked at again."""
_FETCH = 10.0
"""Seconds within which an answer arrives that a Dask worker has."""
_HEARTBEAT = 10.0
"""Seconds between two looks at workers that give nothing."""
_SAY_AGAIN = 60.0
"""Seconds after which it is said again that there are no workers."""
_NO_WORKERS = 300.0
"""Seconds after which a local cluster without workers is given up."""
_DASK_QUEUE = 100
"""Tasks in the hands of a Dask cluster, at least: one that grows by need (SLURM) has to see the need."""


class Engine(Protocol):
    """Where tasks run."""

    workers: int
    """How many run at once."""

    def finished(self, source: Source) -> Iterator[Finished]:
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

    workers = 1

    def __init__(self, orders: Orders) -> None:
        self.orders = orders

    def finished(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield each when it is done."""
        with _threads_here(self.orders.threads):
            while (task := source()) is not None:
                yield [(task, attempt(task, self.orders))]

    def close(self) -> None:
        """Do nothing: there are no workers."""


class OnExecutor:
    """Runs tasks on any `concurrent.futures.Executor`; it stays open, its owner closes it.

    Parameters
    ----------
    executor : where to submit.
    workers : tasks it runs at once; as many again wait in its queue.
    orders : how its workers compute.
    dumps : makes bytes of a task.
    """

    _ahead = 2
    """Tasks in its hands for each that runs."""

    def __init__(
        self, executor: Executor | None, workers: int, orders: Orders, dumps: Callable[[Any], bytes] = pickle.dumps
    ) -> None:
        self.workers, self.orders = workers, orders
        self._executor, self._dumps = executor, dumps
        self._waiting: dict[Any, Task] = {}

    def finished(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come.

        Where a cluster gives a task up because its workers died, others that waited there may be blamed with it;
        so each of them runs again, alone, before it is said to have failed.
        """
        with _threads_here(self.orders.threads if isinstance(self._executor, ThreadPoolExecutor) else None):
            yield from self._finished(source)

    def _finished(self, source: Source) -> Iterator[Finished]:
        suspects: list[Task] = []
        alone: Any = None
        while True:
            while len(self._waiting) < self._room() and (task := source()) is not None:
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
                    done.append((task, task.failed("its worker died every time (killed, or out of memory)")))
                else:
                    suspects.append(task)
            if done:
                yield done

    def _room(self) -> int:
        """Return how many tasks it may have in its hands."""
        return self._ahead * self.workers

    def _submit(self, task: Task) -> Any:
        assert self._executor is not None
        try:
            if isinstance(self._executor, ThreadPoolExecutor):  # nothing has to travel
                return self._executor.submit(attempt, task, self.orders)
            return self._executor.submit(attempt_bytes, sendable(task, self._dumps), self.orders)
        except (BrokenExecutor, RuntimeError) as error:
            raise _lost(error) from None

    def _ready(self) -> Iterable[Any]:
        return wait_for(self._waiting, return_when=FIRST_COMPLETED)[0]

    def _answer(self, future: Any) -> Any:
        return future.result()

    def _result(self, future: Any, task: Task) -> Done | None:
        """Return what a task gave; None where it cost its workers their lives."""
        try:
            return loaded(self._answer(future), task)
        except GiantstepError:
            raise
        except (BrokenExecutor, CancelledError, asyncio.CancelledError) as error:
            raise _lost(error) from None
        except Exception as error:  # all that happens inside a task is its answer, so this came from the cluster
            if type(error).__name__ in ("KilledWorker", "TimeoutError"):
                return None
            raise _lost(error) from None

    def close(self) -> None:
        """Cancel what has not begun."""
        for future in self._waiting:
            future.cancel()
        self._waiting.clear()


class Processes:
    """Runs tasks in worker processes, one executor of one process each: a death tells which task it was.

    Parameters
    ----------
    workers : how many.
    orders : how they compute.
    memory : bytes each may take beyond what it has after starting; None for all.
    """

    def __init__(self, workers: int, orders: Orders, memory: int | None = None) -> None:
        self.workers, self.orders = workers, orders
        self._memory = memory
        self._slots: dict[int, ProcessPoolExecutor] = {}
        self._signs_of_life: dict[int, Future[int]] = {}
        self._running: dict[Future[Any], tuple[int, Task]] = {}
        self._started: dict[Future[Any], float | None] = {}
        self._deaths: Counter[tuple[str, int]] = Counter()
        self._stillborn = 0
        self._silent: set[int] = set()

    def finished(self, source: Source) -> Iterator[Finished]:
        """Run tasks until there are none; yield those that are done, as they come."""
        again: list[Task] = []
        while True:
            self._occupy(again, source)
            if not self._running:
                return
            ready, _ = wait_for(self._running, timeout=self._patience(), return_when=FIRST_COMPLETED)
            done: Finished = []
            if not ready:
                self._look_after()
            for future in ready or self._stopped():
                slot, task = self._running.pop(future)
                late = self._started.pop(future) is None
                try:
                    done.append((task, loaded(future.result(), task)))
                except BrokenExecutor:
                    if late:
                        self._bury(slot)
                        done.append((task, task.failed(f"it took longer than {self.orders.time_limit:g} s")))
                    elif self._is_guilty(slot, task):
                        reason = f"its worker process died {MOST_DEATHS} times (killed, or out of memory)"
                        done.append((task, task.failed(reason)))
                    else:
                        again.append(task)
            if done:
                self._occupy(again, source)  # they work while results are stored
                yield done

    def _occupy(self, again: list[Task], source: Source) -> None:
        """Give every idle worker a task."""
        busy = {slot for slot, _ in self._running.values()}
        for slot in (slot for slot in range(self.workers) if slot not in busy):
            task = again.pop() if again else source()
            if task is None:
                break
            self._submit(slot, task)

    def _is_guilty(self, slot: int, task: Task) -> bool:
        """Bury the worker of a task; tell whether the task has cost too many of them."""
        if self._bury(slot).exception() is None:
            self._stillborn = 0
            name = task.points[0].digest, task.trial
            self._deaths[name] += 1
            return self._deaths[name] >= MOST_DEATHS
        self._stillborn += 1
        if self._stillborn >= MOST_DEATHS:
            raise GiantstepError(
                "The worker processes cannot be started; in a script, call the sweep below "
                '`if __name__ == "__main__":`, since every worker imports that script.'
            )
        return False

    def _bury(self, slot: int) -> Future[int]:
        self._slots.pop(slot).shutdown(wait=False)
        return self._signs_of_life.pop(slot)

    def _look_after(self) -> None:
        """Wake executors up whose worker is dead and which have not noticed.

        One that died while it wrote its answer leaves half of it in a pipe, and its executor would wait for the other
        half for ever, since it holds an end of that pipe itself.
        """
        busy = {slot: self._slots[slot]._processes for slot, _ in self._running.values()}
        ends = {
            slot: [process.sentinel for process in processes.values()] for slot, processes in busy.items() if processes
        }
        dead = {slot for slot, own in ends.items() if len(wait_for_ends(own, 0)) == len(own)}
        for slot in dead & self._silent:
            queue: Any = self._slots[slot]._result_queue
            queue._writer.close()
        self._silent = dead

    def _patience(self) -> float:
        """Return the seconds until the workers are looked at.

        A task that did not stop by itself (in compiled code) may have lost its worker by then.
        """
        if self.orders.time_limit is None:
            return _HEARTBEAT
        return max(0.0, min(_HEARTBEAT, *(self._seconds_left(future) for future in self._running)))

    def _seconds_left(self, future: Future[Any]) -> float:
        assert self.orders.time_limit is not None
        begun = self._signs_of_life[self._running[future][0]].done()
        spent = time.monotonic() - (self._started[future] or 0.0) if begun else 0.0
        if not begun:
            self._started[future] = time.monotonic()
        return 2 * self.orders.time_limit + _A_WHILE - spent

    def _stopped(self) -> list[Future[Any]]:
        """Kill the workers of tasks that have run for too long; return what they were to give."""
        if self.orders.time_limit is None:
            return []
        late = [future for future in self._running if self._seconds_left(future) <= 0]
        for future in late:
            self._kill(self._slots[self._running[future][0]])
            self._started[future] = None
        wait_for(late)
        return late

    @staticmethod
    def _kill(executor: ProcessPoolExecutor) -> None:
        for process in list((executor._processes or {}).values()):
            process.kill()

    def _submit(self, slot: int, task: Task) -> None:
        data = sendable(task, pickle.dumps)
        orders = replace(self.orders, slot=slot)
        if slot not in self._slots:
            self._start(slot)
        try:
            future = self._slots[slot].submit(attempt_bytes, data, orders)
        except BrokenExecutor:  # it died while it had nothing to do
            self._start(slot)
            future = self._slots[slot].submit(attempt_bytes, data, orders)
        self._running[future] = slot, task
        self._started[future] = time.monotonic()

    def _start(self, slot: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._slots[slot] = ProcessPoolExecutor(1, context, initializer=_begin_worker, initargs=(self._memory,))
        self._signs_of_life[slot] = self._slots[slot].submit(os.getpid)

    def close(self) -> None:
        """Stop the workers at once."""
        for executor in self._slots.values():
            self._kill(executor)
            executor.shutdown(wait=True, cancel_futures=True)
        self._slots.clear()
        self._running.clear()
        self._started.clear()


def _begin_worker(memory: int | None) -> None:
    """Prepare a worker process: Ctrl-C is for its parent, it dies with it, and it takes no more memory than it may."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    if memory is not None:
        import resource

        import scipy.linalg  # noqa: F401, what every task needs is loaded before its memory is counted

        limit = _data_bytes() + memory
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _data_bytes() -> int:
    """Return the bytes of private memory this process has asked for."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))


def dask_engine(
    workers: int, scheduler: str | None, orders: Orders, memory: int | None, timeout: float
) -> tuple[OnExecutor, Callable[[], None]]:
    """Return an engine on a Dask cluster (a local one where no `scheduler` is named) and what closes it."""
    try:
        import dask
        import distributed
    except ImportError:
        raise InputError('engine="dask" needs Dask distributed (install giantstep[dask]).') from None
    if scheduler is not None:
        try:
            client = distributed.Client(scheduler, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"Field `scheduler` must be the address of a running Dask scheduler, but {scheduler!r} did not answer "
                f"within {timeout:g} s ({type(error).__name__})."
            ) from None
        return OnDask(client, orders), client.close
    with dask.config.set({"distributed.scheduler.allowed-failures": MOST_DEATHS - 2}):
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory or "auto",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            preload="giantstep.sweep.dask_worker",
        )
    client = distributed.Client(cluster, set_as_default=False)

    def close() -> None:
        client.close()
        cluster.close()

    return OnDask(client, orders, _NO_WORKERS), close


class OnDask(OnExecutor):
    """Runs tasks on a Dask cluster, through its client, which stays open.

    The cluster is looked after while nothing comes: workers it gave up are asked for again, tasks that its scheduler
    has forgotten are sent again, and where there are no workers at all that is said, again and again.

    Parameters
    ----------
    client : of the cluster.
    orders : how its workers compute.
    patience : seconds without a single worker after which the sweep ends; None waits as long as it takes.
    """

    def __init__(self, client: Any, orders: Orders, patience: float | None = None) -> None:
        from distributed.protocol.pickle import dumps

        super().__init__(None, _threads_of(client), orders, dumps)
        self._client, self._patience = client, patience
        self._looked = self._seen = self._said = time.monotonic()
        self._missed: set[str] = set()
        self._answers: dict[str, Any] = {}

    def _room(self) -> int:
        return max(_DASK_QUEUE, 2 * self._ahead * self.workers)

    def _submit(self, task: Task) -> Any:
        return self._client.submit(attempt_on_dask, sendable(task, self._dumps), self.orders, pure=False)

    def _ready(self) -> Iterable[Any]:
        from distributed import wait

        while not (ready := [future for future in self._waiting if future.done() and self._arrived(future)]):
            self._look_after()
            with suppress(TimeoutError, CancelledError, asyncio.CancelledError), self._client.as_current():
                wait(list(self._waiting), timeout=_A_WHILE, return_when="FIRST_COMPLETED")
        return ready

    def _arrived(self, future: Any) -> bool:
        """Fetch an answer; tell whether it came, or an error in its place.

        Where the worker that has it is gone, Dask computes it again, and the future waits once more.
        """
        if future.status == "finished":
            try:
                self._answers[future.key] = future.result(_FETCH)
            except TimeoutError:
                _log.info("an answer of a Dask worker did not arrive within %g s; it is asked for again", _FETCH)
                return False
            except (Exception, asyncio.CancelledError) as error:
                _log.debug("an answer of a Dask worker did not arrive (%s)", type(error).__name__)
        return bool(future.done())

    def _answer(self, future: Any) -> Any:
        return self._answers.pop(future.key) if future.key in self._answers else future.result(_FETCH)

    def _look_after(self) -> None:
        """Count the workers, bring back those that were given up, and send again what the scheduler has forgotten."""
        now = time.monotonic()
        if now - self._looked < _HEARTBEAT:
            return
        self._looked = now
        states: dict[str, str | None] = {}
        try:
            self.workers = _threads_of(self._client)
            states = self._client.run_on_scheduler(_states_question([future.key for future in self._waiting]))
        except Exception as error:  # it may answer the next time; if it never does, the client cancels its futures
            _log.debug("the Dask scheduler did not answer (%s)", type(error).__name__)
        self._call_workers_back()
        if self.workers:
            self._seen = now
        elif self._patience is not None and now - self._seen > self._patience:
            raise _lost(RuntimeError(f"no worker could be started for {self._patience:g} s"))
        elif now - self._said > _SAY_AGAIN:
            self._said = now
            _log.warning(
                "no Dask worker is there; %d tasks have waited for %.0f s", len(self._waiting), now - self._seen
            )
        self._send_again({key for key, state in states.items() if state in (None, "memory", "erred", "forgotten")})

    def _call_workers_back(self) -> None:
        """Ask a cluster of this program for workers that it gave up, as Dask does where one takes long to restart."""
        cluster: Any = getattr(self._client, "cluster", None)
        if hasattr(cluster, "worker_spec") and getattr(cluster, "_adaptive", None) is None:
            cluster.scale(len(cluster.worker_spec))

    def _send_again(self, odd: set[str]) -> None:
        """Send tasks again that are over or unknown there and wait here, for the second time."""
        for future in [future for future in self._waiting if future.key in odd & self._missed and not future.done()]:
            task = self._waiting.pop(future)
            _log.warning("the Dask cluster has lost a task (trial %d); it is sent again", task.trial)
            future.cancel()
            self._waiting[self._submit(task)] = task
        self._missed = odd


def _threads_of(client: Any) -> int:
    """Return how many tasks a cluster runs at once."""
    return int(sum(client.nthreads().values()))


def _states_question(keys: list[str]) -> Callable[..., dict[str, str | None]]:
    """Return a function that tells the states of some tasks in a scheduler, which need not have this package."""

    def states(dask_scheduler: Any) -> dict[str, str | None]:
        found = {key: dask_scheduler.tasks.get(key) for key in keys}
        return {key: None if task is None else task.state for key, task in found.items()}

    return states


def attempt_on_dask(data: bytes, orders: Orders) -> Done | NotLoaded:
    """Run a pickled task in a Dask worker; the number at the end of its name chooses its GPU."""
    import distributed

    number = re.search(r"\d+$", str(distributed.get_worker().name))
    return attempt_bytes(data, replace(orders, slot=int(number[0]) if number else 0))


def sendable(task: Task, dumps: Callable[[Any], bytes]) -> bytes:
    """Return a task as bytes; a scenario that cannot be sent is refused with a sentence."""
    data = pickled(task, dumps)
    if isinstance(data, NotLoaded):
        raise _refused(data, [task])
    return data


def loaded(answer: Done | NotLoaded, task: Task) -> Done:
    """Return what a worker gave; where it could not load the scenario, say so in a sentence."""
    if isinstance(answer, NotLoaded):
        raise _refused(answer, [task])
    return answer


def _refused(found: NotLoaded, tasks: Sequence[Task]) -> InputError:
    names = callables(tasks)
    if names:
        return InputError(
            f"The Python callable in {', '.join(names)} cannot be loaded by a worker ({found.reason}); write it as an "
            'expression, put it into a module that the workers can import, or use engine="local".'
        )
    return InputError(
        f"A worker cannot load the scenario ({found.reason}); the same packages must be installed where it runs."
    )


def _lost(error: BaseException) -> GiantstepError:
    reason = " ".join(str(error).split()) or "no reason given"
    return GiantstepError(
        f"The workers are lost ({type(error).__name__}: {reason}); everything reported as done is stored: run the same "
        "sweep again."
    )
