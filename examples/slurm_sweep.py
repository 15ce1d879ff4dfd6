"""A sweep on a SLURM cluster: the scheduler lives in this program, the workers are SLURM jobs.

Run it on a login node, in tmux or as a small job of its own; only this program opens the store::

    pip install "giantstep[slurm]"
    python slurm_sweep.py examples/sweep_learning_curve.toml runs.db --queue cpu --jobs 40

Start it again after anything went wrong: what is stored is not computed again. ``--local 2`` takes two processes of
this machine in place of SLURM, to try it out.
"""

from __future__ import annotations

import argparse
from typing import Any

import giantstep as gs


def cluster(options: argparse.Namespace) -> Any:
    """Return a Dask cluster: SLURM jobs of one worker each, or processes of this machine."""
    if options.local:
        from distributed import LocalCluster

        return LocalCluster(n_workers=options.local, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    from dask_jobqueue import SLURMCluster

    jobs = SLURMCluster(
        queue=options.queue,
        account=options.account,
        cores=1,  # tasks at once in a job: one; its BLAS threads are `threads` of the sweep
        processes=1,
        job_cpu=options.threads,
        memory=options.memory,
        walltime=options.walltime,
        job_extra_directives=options.directive or [],
        worker_extra_args=["--lifetime", options.lifetime, "--lifetime-stagger", "2m"],
        scheduler_options={"dashboard_address": ":0"},  # any free port: login nodes are shared
    )
    jobs.adapt(minimum_jobs=1, maximum_jobs=options.jobs)
    return jobs


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help="a study, as TOML")
    parser.add_argument("store", help="the SQLite file that keeps the results")
    parser.add_argument("--jobs", type=int, default=10, help="SLURM jobs at most")
    parser.add_argument("--queue", help="partition")
    parser.add_argument("--account")
    parser.add_argument("--threads", type=int, default=1, help="cores, and BLAS threads, of a job")
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--walltime", default="01:00:00")
    parser.add_argument("--lifetime", default="55m", help="a worker leaves before SLURM ends its job")
    parser.add_argument("--directive", action="append", help='one more line for SLURM, such as "--gres=gpu:1"')
    parser.add_argument("--out", help="write the result: .csv, .nc, .json, .tex")
    parser.add_argument("--local", type=int, default=0, metavar="N", help="N processes of this machine instead")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Sweep a study on the cluster."""
    from distributed import Client

    options = arguments(words)
    study = gs.Study.read(options.study)
    with cluster(options) as workers, Client(workers) as client:
        result = study.sweep(store=options.store, engine=client, threads=options.threads)
    if options.out:
        gs.save(result, options.out)
    print(result)


if __name__ == "__main__":
    main()
