"""Tasks on a Dask cluster, through its own Executor, and in SLURM jobs, each of which
is one worker of such a cluster.

Dask moves the tasks of lost workers, and starts workers again. The scheduler of SLURM
jobs is this program, and they end with it. If it is killed, workers end themselves when
the scheduler has been away for a while; jobs that start later do so, too.
"""

from __future__ import annotations

import logging
import re
import shutil
import signal
import subprocess
import warnings
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from giantstep.core.base.errors import GiantstepError, InputError, bad_field
from giantstep.core.scenario.checks import check_whole
from giantstep.tools.sweeps.backends import (
    Done,
    Orders,
    Pool,
    Task,
    attempt_bytes,
    pickle_task,
)

_SCHEDULER_TIMEOUT = 10.0
"""Seconds within which a scheduler has to answer."""
_QUEUE = 100
"""Tasks in the hands of a cluster, at least: one that grows by need (SLURM) has to see
the need.
"""


class OnDask(Pool):
    """Runs tasks on the cluster of a Dask client, one at a time on each thread of its
    workers.

    Four times as many are submitted as may run at once: `workers`, or as many as the
    cluster has threads now. What is `owned` is closed at the end, in this order.
    """

    def __init__(
        self,
        client: Any,
        orders: Orders,
        workers: int | None = None,
        owned: tuple[Any, ...] = (),
    ) -> None:
        if workers is None:
            count = sum(client.nthreads().values())
        else:
            count = workers
        super().__init__(orders, max(4 * count, _QUEUE))
        self._executor = client.get_executor(pure=False)
        self._owned = owned

    def _submit(self, task: Task) -> Future[Done | str]:
        from distributed.protocol.pickle import dumps

        message = pickle_task(task, dumps)
        try:
            future: Future[Done | str] = self._executor.submit(
                attempt_on_dask, message, self._orders
            )
        except RuntimeError as error:  # it is closed
            raise lost_workers_error(error) from None
        self._waiting[future] = task
        return future

    def _answer(self, future: Future[Done | str]) -> Done | str | None:
        try:
            return future.result()
        except load_distributed().KilledWorker:
            return None
        except KeyboardInterrupt:
            raise
        # all that happens inside a task is its answer, so this came from Dask
        except BaseException as error:
            raise lost_workers_error(error) from None

    def close(self) -> None:
        """Cancel what has not begun, and close what was opened for it."""
        for future in self._waiting:
            future.cancel()
        for owned in self._owned:
            owned.close()


def connect(scheduler: str, orders: Orders) -> OnDask:
    """Return a backend on the cluster of a running scheduler."""
    distributed = load_distributed()
    try:
        client = distributed.Client(
            scheduler, timeout=_SCHEDULER_TIMEOUT, set_as_default=False
        )
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            "Field `scheduler` must be the address of a running Dask scheduler, but"
            f" {scheduler!r} did not answer within {_SCHEDULER_TIMEOUT:g} s"
            f" ({type(error).__name__})."
        ) from None
    return OnDask(client, orders, owned=(client,))


def start_cluster(workers: int, orders: Orders, memory: int | None) -> OnDask:
    """Return a backend on a new Dask cluster of this machine, which Dask keeps at so
    many workers.
    """
    distributed = load_distributed()
    try:
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory or "auto",
            dashboard_address="127.0.0.1:0",  # any free port
            silence_logs=logging.CRITICAL,
            preload=__name__,  # `dask_setup` below
        )
    # Dask says nothing more exact than RuntimeError, of this and that cause
    except Exception as error:
        raise lost_workers_error(error) from None
    cluster.adapt(minimum=workers, maximum=workers)  # a worker that is lost is replaced
    client = distributed.Client(cluster, set_as_default=False)
    return OnDask(client, orders, workers, owned=(client, cluster))


def dask_setup(worker: Any) -> None:
    """Let Ctrl-C pass in a worker of a local cluster: it is for the program that
    sweeps, which stops them all.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def load_distributed(extra: str = "dask") -> Any:
    """Return the module `distributed`, which `extra` of this package brings."""
    try:
        import distributed
    except ImportError:
        raise InputError(
            f"This sweep needs Dask distributed (install giantstep[{extra}])."
        ) from None
    return distributed


def attempt_on_dask(data: bytes, orders: Orders) -> Done | str:
    """Run a pickled task in a Dask worker; the number at the end of its name chooses
    its GPU.
    """
    number = re.search(r"\d+$", str(load_distributed().get_worker().name))
    return attempt_bytes(data, replace(orders, slot=int(number[0]) if number else 0))


def lost_workers_error(error: BaseException) -> GiantstepError:
    """Return that a sweep cannot go on, because of an error of its cluster."""
    reason = " ".join(str(error).split()) or "no reason given"
    return GiantstepError(
        f"The workers are lost ({type(error).__name__}: {reason}); everything reported"
        " as done is stored: run the same sweep again."
    )


_MEMORY = 4 * 2**30
"""Bytes of a job, if left open."""
_AWAY = 60
"""Seconds without the scheduler after which a worker ends itself."""
_DURATION = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)")


@dataclass(frozen=True)
class Slurm:
    """SLURM jobs as the workers of a sweep: ``gs.sweep(...,
    engine=gs.Slurm(queue="cpu", jobs=40))``.

    Every job computes one task at a time, with the `threads` (cores) and the `memory`
    (GiB; 4) of the sweep.

    Parameters
    ----------
    queue : the partition; SLURM's default if left out.
    jobs : how many at most; fewer where fewer tasks are left.
    account : what is charged.
    walltime : of a job, ``"HH:MM:SS"`` or ``"D-HH:MM:SS"``; longer than any task. Jobs
        that end are replaced.
    directives : further options of ``sbatch``, such as ``"--gres=gpu:1"``.

    Examples
    --------
    >>> Slurm(queue="cpu", jobs=40).walltime
    '01:00:00'
    """

    queue: str | None = None
    jobs: int = 10
    account: str | None = None
    walltime: str = "01:00:00"
    directives: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_whole("jobs", self.jobs, "a whole number at least 1", 1)
        for name in ("queue", "account"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, str) and re.fullmatch(r"[\w.,@+-]+", value)
            ):
                raise bad_field(name, value, "a name of SLURM's")
        if not isinstance(self.walltime, str) or not self.seconds:
            raise bad_field(
                "walltime", self.walltime, 'a time such as "01:00:00" or "2-00:00:00"'
            )
        if isinstance(self.directives, str):
            options = None
        else:
            options = list(self.directives)
        if options is None or not all(
            isinstance(text, str) and text.startswith("-") for text in options
        ):
            raise bad_field(
                "directives",
                self.directives,
                'a list of options of sbatch, such as "--gres=gpu:1"',
            )

    @property
    def seconds(self) -> int:
        """The walltime in seconds; 0 where it is no time."""
        match = _DURATION.fullmatch(self.walltime)
        return sum(
            n * int(part or 0)
            for n, part in zip((86400, 3600, 60, 1), match.groups() if match else ())
        )

    def cluster(self, threads: int, memory: int | None) -> Any:
        """Return a Dask cluster of jobs, none of which is submitted yet."""
        load_distributed("slurm")
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            from dask_jobqueue import SLURMCluster
        except ImportError:
            raise InputError(
                'engine="slurm" needs dask-jobqueue (install giantstep[slurm]).'
            ) from None
        if (
            signal.getsignal(signal.SIGINT) is not on_interrupt
        ):  # its import lets Ctrl-C end the program, with status 0
            signal.signal(signal.SIGINT, on_interrupt)
        margin = min(300.0, self.seconds / 10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own use of Dask
            return SLURMCluster(
                queue=self.queue,
                account=self.account,
                job_name="giantstep",
                cores=1,  # tasks at once
                processes=1,
                job_cpu=threads,
                memory=f"{memory or _MEMORY}B",
                walltime=self.walltime,
                death_timeout=_AWAY,
                job_extra_directives=list(self.directives),
                worker_extra_args=[
                    "--lifetime",
                    f"{self.seconds - margin:.0f}s",
                    "--lifetime-stagger",
                    f"{0.4 * margin:.0f}s",
                ],
                scheduler_options={
                    "dashboard_address": ":0"
                },  # any free port: login nodes are shared
            )

    def open(self, orders: Orders, memory: int | None) -> OnDask:
        """Return a backend on new jobs."""
        cluster = self.cluster(orders.threads or 1, memory)
        try:
            if shutil.which("sbatch") is None:
                raise InputError(
                    'engine="slurm" needs the command sbatch; run the sweep where jobs'
                    " can be submitted."
                )
            ask: Any = {
                "input": cluster.job_script(),
                "capture_output": True,
                "text": True,
            }
            told = subprocess.run(["sbatch", "--test-only"], **ask)
            if told.returncode:
                reason = " ".join(told.stderr.split()).removeprefix("sbatch: error: ")
                reason = reason.removeprefix("allocation failure: ")
                raise InputError(
                    f"SLURM does not take the jobs of this sweep ({reason})."
                )
            cluster.adapt(minimum_jobs=1, maximum_jobs=self.jobs)
        except BaseException:
            cluster.close()
            raise
        client = load_distributed("slurm").Client(cluster, set_as_default=False)
        return OnDask(client, orders, self.jobs, (client, cluster))
