"""Tasks in SLURM jobs: each job is one worker of a Dask cluster whose scheduler is this program.

The jobs end with the program. If it is killed, a process that waits for nothing else cancels them, those in the queue
too; if its whole machine is gone, workers end themselves when the scheduler has been away for a while.
"""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from giantstep.checks import check_whole
from giantstep.errors import InputError, bad_field
from giantstep.sweeps.on_dask import OnDask, load_distributed
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

    def cluster(self, name: str, threads: int, memory: int | None) -> Any:
        """Return a Dask cluster whose jobs are called `name`; none is submitted yet."""
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
                job_name=name,
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

    def open(self, orders: Orders, memory: int | None) -> OnDask:
        """Return a backend on new jobs."""
        name = f"giantstep-{secrets.token_hex(4)}"
        cluster = self.cluster(name, orders.threads or 1, memory)
        try:
            _check_submission(cluster.job_script())
            cleaner = Cleaner(name)
            cluster.adapt(minimum_jobs=1, maximum_jobs=self.jobs)
        except BaseException:
            cluster.close()
            raise
        client = load_distributed("slurm").Client(cluster, set_as_default=False)
        return OnDask(client, orders, owned=(client, cluster, cleaner))


def _check_submission(script: str) -> None:
    """Ask SLURM whether it would take a job."""
    if shutil.which("sbatch") is None:
        raise InputError('engine="slurm" needs the command sbatch; run the sweep where jobs can be submitted.')
    asked = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True)
    if asked.returncode:
        reason = " ".join(asked.stderr.split()).removeprefix("sbatch: error: ").removeprefix("allocation failure: ")
        raise InputError(f"SLURM does not take the jobs of this sweep ({reason}).")


class Cleaner:
    """A process that cancels the jobs of a name once this program has ended, however it ended."""

    def __init__(self, name: str) -> None:
        command = f"cat >/dev/null; exec scancel --name={name}"  # the pipe is closed when this program is gone
        self._process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def close(self) -> None:
        """Cancel what is left now."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
