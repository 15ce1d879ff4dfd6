"""Tasks on a Dask cluster, which is looked after while nothing comes: Dask gives up workers and forgets tasks.

The workers of a local cluster load this module when they start, for `dask_setup`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from typing import Any

from giantstep.errors import InputError
from giantstep.sweeps.backends import MOST_DEATHS, OnFutures, lost_workers_error, pickle_task
from giantstep.sweeps.tasks import Done, NotLoaded, Orders, Task, attempt_bytes

_log = logging.getLogger("giantstep")

_SCHEDULER_TIMEOUT = 10.0
"""Seconds within which a scheduler has to answer."""
_HEARTBEAT = 10.0
"""Seconds between two looks at workers that give nothing."""
_A_WHILE = 2.0
"""Seconds after which futures are looked at again."""
_FETCH = 10.0
"""Seconds within which an answer arrives that a worker has."""
_SAY_AGAIN = 60.0
"""Seconds after which it is said again that there are no workers."""
_NO_WORKERS = 300.0
"""Seconds after which a local cluster without workers is given up."""
_STARTS = 3
"""Times a local cluster is started before the sweep ends."""
_QUEUE = 100
"""Tasks in the hands of a cluster, at least: one that grows by need (SLURM) has to see the need."""


class OnDask(OnFutures):
    """Runs tasks on a Dask cluster.

    Tasks that its scheduler has forgotten are sent again, and where there are no workers at all that is said, again
    and again.

    Parameters
    ----------
    client : of the cluster.
    orders : how its workers compute.
    patience : seconds without a single worker after which the sweep ends; None waits as long as it takes.
    owned : what is closed at the end, in this order.
    revive : asks for workers that the cluster gave up, as Dask does where one takes long to restart.
    """

    def __init__(
        self,
        client: Any,
        orders: Orders,
        patience: float | None = None,
        owned: tuple[Any, ...] = (),
        revive: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(orders)
        self._client, self._patience, self._owned, self._revive = client, patience, owned, revive
        self._workers = _threads_of(client)
        self._looked = self._seen = self._said = time.monotonic()
        self._missed: set[str] = set()
        self._answers: dict[str, Any] = {}

    def _wants_more(self) -> bool:
        return len(self._waiting) < max(_QUEUE, 4 * self._workers)

    def _submit(self, task: Task) -> Any:
        from distributed.protocol.pickle import dumps

        return self._client.submit(attempt_on_dask, pickle_task(task, dumps), self.orders, pure=False)

    def _ready(self) -> Iterable[Any]:
        from distributed import wait

        while not (ready := [future for future in self._waiting if future.done() and self._fetch(future)]):
            self._look_after()
            with suppress(TimeoutError, CancelledError, asyncio.CancelledError), self._client.as_current():
                wait(list(self._waiting), timeout=_A_WHILE, return_when="FIRST_COMPLETED")
        return ready

    def _fetch(self, future: Any) -> bool:
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
            self._workers = _threads_of(self._client)
            states = self._client.run_on_scheduler(_states_question([future.key for future in self._waiting]))
        except Exception as error:  # it may answer the next time; if it never does, the client cancels its futures
            _log.debug("the Dask scheduler did not answer (%s)", type(error).__name__)
        self._revive()
        if self._workers:
            self._seen = now
        elif self._patience is not None and now - self._seen > self._patience:
            raise lost_workers_error(RuntimeError(f"no worker could be started for {self._patience:g} s"))
        elif now - self._said > _SAY_AGAIN:
            self._said = now
            _log.warning(
                "no Dask worker is there; %d tasks have waited for %.0f s", len(self._waiting), now - self._seen
            )
        self._send_again({key for key, state in states.items() if state in (None, "memory", "erred", "forgotten")})

    def _send_again(self, odd: set[str]) -> None:
        """Send tasks again that are over or unknown there and wait here, for the second time."""
        for future in [future for future in self._waiting if future.key in odd & self._missed and not future.done()]:
            task = self._waiting.pop(future)
            _log.warning("the Dask cluster has lost a task (trial %d); it is sent again", task.trial)
            future.cancel()
            self._waiting[self._submit(task)] = task
        self._missed = odd

    def close(self) -> None:
        """Cancel what has not begun, and close what was opened for it."""
        super().close()
        for owned in self._owned:
            owned.close()


def connect(scheduler: str, orders: Orders) -> OnDask:
    """Return a backend on the cluster of a running scheduler."""
    distributed = load_distributed()
    try:
        client = distributed.Client(scheduler, timeout=_SCHEDULER_TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"Field `scheduler` must be the address of a running Dask scheduler, but {scheduler!r} did not answer "
            f"within {_SCHEDULER_TIMEOUT:g} s ({type(error).__name__})."
        ) from None
    return OnDask(client, orders, owned=(client,))


def start_cluster(workers: int, orders: Orders, memory: int | None) -> OnDask:
    """Return a backend on a new cluster of this machine; where a worker dies as it starts, the cluster starts anew."""
    distributed = load_distributed()
    for attempts_left in reversed(range(_STARTS)):
        try:
            cluster = _local_cluster(distributed, workers, memory)
            break
        except Exception as error:  # Dask says nothing more exact than RuntimeError, of this and that cause
            if not attempts_left:
                raise lost_workers_error(error) from None
            _log.warning("the Dask cluster could not start (%s); it is tried again", " ".join(str(error).split()))
    client = distributed.Client(cluster, set_as_default=False)
    revive = lambda: cluster.scale(len(cluster.worker_spec))  # noqa: E731
    return OnDask(client, orders, _NO_WORKERS, owned=(client, cluster), revive=revive)


def _local_cluster(distributed: Any, workers: int, memory: int | None) -> Any:
    import dask

    with dask.config.set({"distributed.scheduler.allowed-failures": MOST_DEATHS - 2}):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory or "auto",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            preload=__name__,
        )


def load_distributed(extra: str = "dask") -> Any:
    """Return the module `distributed`, which `extra` of this package brings."""
    try:
        import distributed
    except ImportError:
        raise InputError(f'engine="{extra}" needs Dask distributed (install giantstep[{extra}]).') from None
    return distributed


def _threads_of(client: Any) -> int:
    """Return how many tasks a cluster runs at once."""
    return int(sum(client.nthreads().values()))


def _states_question(keys: list[str]) -> Callable[..., dict[str, str | None]]:
    """Return a function that tells the states of tasks in a scheduler, which need not have this package."""

    def states(dask_scheduler: Any) -> dict[str, str | None]:
        tasks = {key: dask_scheduler.tasks.get(key) for key in keys}
        return {key: None if task is None else task.state for key, task in tasks.items()}

    return states


def attempt_on_dask(data: bytes, orders: Orders) -> Done | NotLoaded:
    """Run a pickled task in a Dask worker; the number at the end of its name chooses its GPU."""
    import distributed

    number = re.search(r"\d+$", str(distributed.get_worker().name))
    return attempt_bytes(data, replace(orders, slot=int(number[0]) if number else 0))


def dask_setup(worker: Any) -> None:
    """Let Ctrl-C pass in a worker of a local cluster: it is for the program that sweeps, and stops them all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
