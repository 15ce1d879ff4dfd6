"""Tasks in SLURM jobs: each job is one worker of a Dask cluster whose scheduler is this program.

The jobs end with the program. If it is killed, workers end themselves when the scheduler has been away for a while;
jobs that start later do so, too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from giantstep.checks import check_whole
from giantstep.errors import InputError, bad_field
from giantstep.sweeps.backends import OnExecutor
from giantstep.sweeps.on_dask import load_distributed, on_client
from giantstep.sweeps.tasks import Orders

_MEMORY = 4 * 2**30
"""Bytes of a job, if left open."""
_AWAY = 60
"""Seconds without the scheduler after which a worker ends itself."""
_DURATION = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)")


@dataclass(frozen=True)
class Slurm:
    """SLURM jobs as the workers of a sweep: ``gs.sweep(..., engine=gs.Slurm(queue="cpu", jobs=40))``.

    Every job computes one task at a time, with the `threads` (cores) and the `memory` (GiB; 4) of the sweep.

    Parameters
    ----------
    queue : the partition; SLURM's default if left out.
    jobs : how many at most; fewer where fewer tasks are left.
    account : what is charged.
    walltime : of a job, ``"HH:MM:SS"`` or ``"D-HH:MM:SS"``; longer than any task. Jobs that end are replaced.
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
            if value is not None and not (isinstance(value, str) and re.fullmatch(r"[\w.,@+-]+", value)):
                raise bad_field(name, value, "a name of SLURM's")
        if not isinstance(self.walltime, str) or not _DURATION.fullmatch(self.walltime) or not self.seconds:
            raise bad_field("walltime", self.walltime, 'a time such as "01:00:00" or "2-00:00:00"')
        options = None if isinstance(self.directives, str) else list(self.directives)
        if options is None or not all(isinstance(text, str) and text.startswith("-") for text in options):
            raise bad_field("directives", self.directives, 'a list of options of sbatch, such as "--gres=gpu:1"')

    @property
    def seconds(self) -> int:
        """The walltime in seconds."""
        match = _DURATION.fullmatch(self.walltime)
        assert match is not None
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return 86400 * days + 3600 * hours + 60 * minutes + seconds

    def cluster(self, threads: int, memory: int | None) -> Any:
        """Return a Dask cluster of jobs, none of which is submitted yet."""
        load_distributed("slurm")
        try:
            from dask_jobqueue import SLURMCluster
        except ImportError:
            raise InputError('engine="slurm" needs dask-jobqueue (install giantstep[slurm]).') from None
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
                    "--lifetime", f"{self.seconds - margin:.0f}s", "--lifetime-stagger", f"{0.4 * margin:.0f}s"
                ],
                scheduler_options={"dashboard_address": ":0"},  # any free port: login nodes are shared
            )  # fmt: skip

    def open(self, orders: Orders, memory: int | None) -> OnExecutor:
        """Return a backend on new jobs."""
        cluster = self.cluster(orders.threads or 1, memory)
        try:
            _check_submission(cluster.job_script())
            cluster.adapt(minimum_jobs=1, maximum_jobs=self.jobs)
        except BaseException:
            cluster.close()
            raise
        client = load_distributed("slurm").Client(cluster, set_as_default=False)
        return on_client(client, orders, self.jobs, owned=(client, cluster))


def _check_submission(script: str) -> None:
    """Ask SLURM whether it would take a job."""
    if shutil.which("sbatch") is None:
        raise InputError('engine="slurm" needs the command sbatch; run the sweep where jobs can be submitted.')
    asked = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True)
    if asked.returncode:
        reason = " ".join(asked.stderr.split()).removeprefix("sbatch: error: ").removeprefix("allocation failure: ")
        raise InputError(f"SLURM does not take the jobs of this sweep ({reason}).")
