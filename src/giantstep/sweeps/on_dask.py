"""Tasks on a Dask cluster, through its own Executor: Dask moves the tasks of lost workers, and starts workers again."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import Any

from giantstep.errors import InputError
from giantstep.sweeps.backends import OnExecutor, lost_workers_error
from giantstep.sweeps.tasks import Done, NotLoaded, Orders, attempt_bytes

_SCHEDULER_TIMEOUT = 10.0
"""Seconds within which a scheduler has to answer."""


def on_client(client: Any, orders: Orders, workers: int | None = None, owned: tuple[Any, ...] = ()) -> OnExecutor:
    """Return a backend on the cluster of a client; `workers` as many as there are now, if left out."""
    distributed = load_distributed()
    from distributed.protocol.pickle import dumps

    count = sum(client.nthreads().values()) if workers is None else workers
    executor = client.get_executor(pure=False)
    return OnExecutor(executor, count, orders, dumps, attempt_on_dask, (distributed.KilledWorker,), owned)


def connect(scheduler: str, orders: Orders) -> OnExecutor:
    """Return a backend on the cluster of a running scheduler."""
    distributed = load_distributed()
    try:
        client = distributed.Client(scheduler, timeout=_SCHEDULER_TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"Field `scheduler` must be the address of a running Dask scheduler, but {scheduler!r} did not answer "
            f"within {_SCHEDULER_TIMEOUT:g} s ({type(error).__name__})."
        ) from None
    return on_client(client, orders, owned=(client,))


def start_cluster(workers: int, orders: Orders, memory: int | None) -> OnExecutor:
    """Return a backend on a new cluster of this machine, which Dask keeps at so many workers."""
    distributed = load_distributed()
    try:
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory or "auto",
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            preload=__name__,
        )
    except Exception as error:  # Dask says nothing more exact than RuntimeError, of this and that cause
        raise lost_workers_error(error) from None
    cluster.adapt(minimum=workers, maximum=workers)
    client = distributed.Client(cluster, set_as_default=False)
    return on_client(client, orders, workers, owned=(client, cluster))


def load_distributed(extra: str = "dask") -> Any:
    """Return the module `distributed`, which `extra` of this package brings."""
    try:
        import distributed
    except ImportError:
        raise InputError(f'engine="{extra}" needs Dask distributed (install giantstep[{extra}]).') from None
    return distributed


def attempt_on_dask(data: bytes, orders: Orders) -> Done | NotLoaded:
    """Run a pickled task in a Dask worker; the number at the end of its name chooses its GPU."""
    number = re.search(r"\d+$", str(load_distributed().get_worker().name))
    return attempt_bytes(data, replace(orders, slot=int(number[0]) if number else 0))


def dask_setup(worker: Any) -> None:
    """Let Ctrl-C pass in a worker of a local cluster: it is for the program that sweeps, and stops them all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
