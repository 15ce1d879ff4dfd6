"""A sweep on a SLURM cluster: this program hands out the tasks, its workers are SLURM
jobs.

Run it on a login node, in tmux or as a small job of its own; only this program opens
the store::

    pip install "giantstep[slurm]"
    python slurm_sweep.py examples/sweep_learning_curve.toml runs.db --queue cpu --jobs 40

Start it again after anything went wrong: what is stored is not computed again. The jobs
end with this program, and within two minutes where it is killed. ``--local 2`` takes
two processes of this machine in place of SLURM, to try it out. The command line does
the same: ``giantstep sweep STUDY --store runs.db --engine slurm --queue cpu --jobs
40``.
"""

from __future__ import annotations

import argparse
from typing import Any

import giantstep as gs


def engine(options: argparse.Namespace) -> dict[str, Any]:
    """Return where the sweep runs: in SLURM jobs of one worker each, or in processes of
    this machine.
    """
    if options.local:
        return {"engine": "processes", "workers": options.local}
    jobs = gs.Slurm(
        queue=options.queue,
        jobs=options.jobs,
        account=options.account,
        walltime=options.walltime,
        directives=options.directive,
    )
    return {"engine": jobs, "memory": options.memory}


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", help="a study, as TOML")
    parser.add_argument("store", help="the SQLite file that keeps the results")
    parser.add_argument("--jobs", type=int, default=10, help="SLURM jobs at most")
    parser.add_argument("--queue", help="partition")
    parser.add_argument("--account")
    parser.add_argument(
        "--threads", type=int, default=1, help="cores, and BLAS threads, of a job"
    )
    parser.add_argument("--memory", type=float, default=4.0, help="GiB of a job")
    parser.add_argument(
        "--walltime", default="01:00:00", help="time of a job; longer than any task"
    )
    parser.add_argument(
        "--directive",
        action="append",
        default=[],
        help='for SLURM, such as "--gres=gpu:1"',
    )
    parser.add_argument("--out", help="write the result: .csv, .nc, .json, .tex")
    parser.add_argument(
        "--local",
        type=int,
        default=0,
        metavar="N",
        help="N processes of this machine instead",
    )
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Sweep a study on the cluster."""
    options = arguments(words)
    study = gs.Study.read(options.study)
    result = study.sweep(
        store=options.store, threads=options.threads, **engine(options)
    )
    if options.out:
        gs.save(result, options.out)
    print(result)


if __name__ == "__main__":
    main()
