"""Where a sweep runs: the options of a backend, checked, and the backend they open."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from giantstep.checks import check_number, check_whole
from giantstep.errors import bad_field
from giantstep.sweeps import clusters
from giantstep.sweeps.backends import Backend, InProcess, OnExecutor
from giantstep.sweeps.clusters import Slurm
from giantstep.sweeps.processes import Processes
from giantstep.sweeps.tasks import Orders
from giantstep.workers import usable_cores

EngineOption = str | Executor | Any | None
"""A name, a `Slurm`, an Executor, a Dask client, or None to choose by the other options."""

BACKENDS = ("local", "processes", "dask", "slurm")


def gpu_workers(device: str) -> int | None:
    """Return how many workers a sweep starts where nothing was said: one for each GPU, where there are several."""
    if device != "cuda":
        return None
    from giantstep.lab.devices import namespace

    count = int(namespace(device).cuda.runtime.getDeviceCount())
    return count if count > 1 else None


def thread_share(workers: int) -> int:
    """Return the BLAS threads of each of so many workers, so that together they use what this process may use."""
    import scipy.linalg  # noqa: F401, loads the libraries
    from threadpoolctl import threadpool_info

    threads = max((lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"), default=1)
    return max(1, threads // workers)


@dataclass(frozen=True)
class BackendOptions:
    """Checked options of a backend.

    Attributes
    ----------
    backend : a name of `BACKENDS`, a `Slurm`, an Executor or a Dask client.
    workers : tasks at once; a cluster has its own.
    """

    backend: Any
    workers: int
    scheduler: str | None
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
        engine : ``"local"`` (this process), ``"processes"``, ``"dask"``, ``"slurm"`` or a `giantstep.Slurm`, any
            `concurrent.futures.Executor`, or a Dask ``Client``. If left out: Dask where `scheduler` is given, processes
            where `workers` is above 1.
        workers : how many tasks run at once; as many as there are cores if left out.
        scheduler : address of a running Dask scheduler.
        threads : BLAS threads of each worker; if left out the cores are shared out evenly. The same number of threads
            gives the same numbers bit for bit, whatever the number of workers.
        memory : GiB a worker may take for a task (processes, local Dask clusters, SLURM jobs).
        time_limit : seconds a task may take.
        """
        whole = "a whole number at least 1"
        wanted = None if workers is None else check_whole("workers", workers, whole, 1)
        if engine is None:
            engine = "dask" if scheduler is not None else "processes" if (wanted or 1) > 1 else "local"
        if engine == "slurm":
            engine = Slurm()
        named, queued = isinstance(engine, str), isinstance(engine, Slurm)
        given = queued or isinstance(engine, Executor) or _is_client(engine)
        if engine not in BACKENDS if named else not given:
            allowed = f"one of {', '.join(BACKENDS)}, a gs.Slurm, an Executor or a Dask client"
            raise bad_field("engine", engine, allowed)
        if queued and wanted is not None:
            raise bad_field("workers", workers, "left out where workers are SLURM jobs: `jobs` says how many")
        if scheduler is not None and engine != "dask":
            raise bad_field("scheduler", scheduler, 'left out, or used with engine="dask"')
        if scheduler is not None and not isinstance(scheduler, str):
            raise bad_field("scheduler", scheduler, 'an address such as "tcp://127.0.0.1:8786"')
        if scheduler is not None and wanted is not None:
            raise bad_field("workers", workers, "left out where `scheduler` is given: that cluster has its own")
        if engine == "local" and (wanted or 1) > 1:
            raise bad_field("workers", workers, '1 with engine="local"; take engine="processes" or "dask" for more')
        count = wanted or (1 if engine == "local" else usable_cores())
        elsewhere = scheduler is not None or not named
        if threads is not None:
            threads = check_whole("threads", threads, whole, 1)
        elif engine != "local":
            threads = 1 if elsewhere else thread_share(count)
        above = "a number above 0"
        if memory is not None:
            memory = 2**30 * check_number("memory", memory, above, lambda value: 0 < value < math.inf)
            if engine == "local" or (elsewhere and not queued):
                allowed = "left out but for worker processes, local Dask clusters and SLURM jobs"
                raise bad_field("memory", memory, allowed)
        if time_limit is not None:
            time_limit = check_number("time_limit", time_limit, above, lambda value: 0 < value < math.inf)
        return cls(engine, count, scheduler, Orders(threads, time_limit), None if memory is None else int(memory))

    def trials_here(self, device: str) -> int:
        """Return how many trials share the memory of this machine (or of one GPU); none where they run elsewhere."""
        if self.scheduler is not None or isinstance(self.backend, Slurm) or _is_client(self.backend):
            return 0
        return self.workers if device == "cpu" else 1

    def open(self) -> Backend:
        """Start the backend."""
        if self.backend == "local":
            return InProcess(self.orders)
        if self.backend == "processes":
            return Processes(self.workers, self.orders, self.memory)
        if self.scheduler is not None:
            return clusters.connect(self.scheduler, self.orders)
        if self.backend == "dask":
            return clusters.start_cluster(self.workers, self.orders, self.memory)
        if isinstance(self.backend, Slurm):
            return self.backend.open(self.orders, self.memory)
        if isinstance(self.backend, Executor):
            return OnExecutor(self.backend, self.workers, self.orders)
        return clusters.on_client(self.backend, self.orders)


def _is_client(backend: Any) -> bool:
    return hasattr(backend, "get_executor") and hasattr(backend, "nthreads")
