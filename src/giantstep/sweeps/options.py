"""Where a sweep runs: the options of a backend, checked, and the backend they open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from giantstep.checks import check_number, check_whole
from giantstep.errors import bad_field
from giantstep.sweeps import clusters
from giantstep.sweeps.backends import Backend, InProcess
from giantstep.sweeps.clusters import Slurm
from giantstep.sweeps.processes import Processes
from giantstep.sweeps.tasks import Orders
from giantstep.workers import usable_cores

EngineOption = str | Slurm | Any | None
"""A name, a `Slurm`, a Dask client, or None to choose by the other options."""

BACKENDS = ("local", "processes", "slurm")


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
    backend : ``"local"`` or ``"processes"``, a `Slurm`, a Dask client, or the address of a Dask scheduler.
    workers : tasks at once; a cluster has its own.
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
        engine : ``"local"`` (this process), ``"processes"``, ``"slurm"`` or a `giantstep.Slurm`, or a Dask ``Client``.
            If left out: processes where `workers` is above 1.
        workers : how many tasks run at once; as many as there are cores if left out.
        scheduler : address of a running Dask scheduler.
        threads : BLAS threads of each worker; if left out the cores are shared out evenly. The same number of threads
            gives the same numbers bit for bit, whatever the number of workers.
        memory : GiB a worker may take for a task (processes, SLURM jobs).
        time_limit : seconds a task may take.
        """
        whole, above = "a whole number at least 1", "a number above 0"
        wanted = None if workers is None else check_whole("workers", workers, whole, 1)
        backend = engine
        if scheduler is not None:
            if engine is not None or not isinstance(scheduler, str) or scheduler in BACKENDS:
                raise bad_field("scheduler", scheduler, 'an address such as "tcp://127.0.0.1:8786", without `engine`')
            backend = scheduler
        elif engine is None:
            backend = "processes" if (wanted or 1) > 1 else "local"
        elif engine == "slurm":
            backend = Slurm()
        elif engine not in BACKENDS and not isinstance(engine, Slurm):
            is_client = hasattr(engine, "get_executor") and hasattr(engine, "nthreads")
            if not is_client:
                raise bad_field("engine", engine, f"one of {', '.join(BACKENDS)}, a gs.Slurm or a Dask client")
        here = backend in ("local", "processes")
        if wanted is not None and not here:
            raise bad_field("workers", workers, "left out on a cluster, which has its own (`jobs` of SLURM)")
        if backend == "local" and (wanted or 1) > 1:
            raise bad_field("workers", workers, '1 with engine="local"; take engine="processes" for more')
        count = wanted or (1 if backend == "local" else usable_cores())
        if threads is not None:
            threads = check_whole("threads", threads, whole, 1)
        elif backend != "local":
            threads = thread_share(count) if here else 1
        if memory is not None:
            memory = 2**30 * check_number("memory", memory, above, lambda value: 0 < value < math.inf)
            if not (backend == "processes" or isinstance(backend, Slurm)):
                raise bad_field("memory", memory, "left out but for worker processes and SLURM jobs")
        if time_limit is not None:
            time_limit = check_number("time_limit", time_limit, above, lambda value: 0 < value < math.inf)
        return cls(backend, count, Orders(threads, time_limit), None if memory is None else int(memory))

    def trials_here(self, device: str) -> int:
        """Return how many trials share the memory of this machine (or of one GPU); none where they run elsewhere."""
        if self.backend not in ("local", "processes"):
            return 0
        return self.workers if device == "cpu" else 1

    def open(self) -> Backend:
        """Start the backend."""
        if self.backend == "local":
            return InProcess(self.orders)
        if self.backend == "processes":
            return Processes(self.workers, self.orders, self.memory)
        if isinstance(self.backend, Slurm):
            return self.backend.open(self.orders, self.memory)
        if isinstance(self.backend, str):
            return clusters.connect(self.backend, self.orders)
        return clusters.OnDask(self.backend, self.orders)
