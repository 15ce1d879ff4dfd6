"""The command ``sweep``: a study over a large grid, with a store, on this machine or on a cluster."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import giantstep as gs
from giantstep.cli.edit import edit_study
from giantstep.cli.options import Changes, Output, StudyFile, Theory, Trials
from giantstep.cli.outputs import check_outputs
from giantstep.cli.verbs import hand_over
from giantstep.errors import bad_field

INTERRUPTED = 130
_JOBS = ("queue", "jobs", "account", "walltime", "directives")
"""Options that describe SLURM jobs."""


@dataclass(frozen=True)
class Run:
    """Where and how a sweep runs: keywords of `giantstep.sweep`."""

    store: Annotated[
        Path | None,
        typer.Option(metavar="DB", help="The SQLite file that keeps the results; made where it is not there."),
    ] = None
    source: Annotated[str, typer.Option(help="experiment or limit.")] = "experiment"
    engine: Annotated[
        str | None, typer.Option(help="local, processes or slurm; chosen by the options below if left out.")
    ] = None
    workers: Annotated[int | None, typer.Option(help="Tasks at once.")] = None
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A running Dask scheduler.")] = None
    threads: Annotated[int | None, typer.Option(help="BLAS threads of each worker.")] = None
    memory: Annotated[float | None, typer.Option(metavar="GIB", help="Memory a worker may take for a task.")] = None
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="Time a task may take.")] = None
    queue: Annotated[str | None, typer.Option(help="Partition of SLURM.")] = None
    jobs: Annotated[int | None, typer.Option(help="SLURM jobs at most (10).")] = None
    account: Annotated[str | None, typer.Option(help="Account of SLURM.")] = None
    walltime: Annotated[str | None, typer.Option(metavar="HH:MM:SS", help="Time of a SLURM job (01:00:00).")] = None
    directives: Annotated[
        list[str] | None,
        typer.Option("--directive", metavar="OPTION", help='Option of sbatch, as "--gres=gpu:1"; may be repeated.'),
    ] = None
    retry: Annotated[bool, typer.Option("--retry", help="Compute failures of earlier runs again.")] = False


def sweep(
    study: Annotated[Path, StudyFile], run: Run, changes: Changes, theory: Theory, experiment: Trials, output: Output
) -> None:
    """Answer a study over a large grid; what the store has is not computed again."""
    from giantstep.sweeps.runner import Interrupted

    check_outputs(output)
    verb = "predict" if run.source == "limit" else "simulate"
    edited = edit_study(gs.Study.read(study), verb, changes, theory, experiment)
    settings = {name: value for name, value in vars(run).items() if name not in _JOBS}
    if run.store is None:
        print("giantstep: without --store DB nothing is kept: an interrupted sweep starts again.", file=sys.stderr)
    try:
        with _telling():
            result = edited.sweep(**{**settings, "engine": _engine(run)})
    except Interrupted as stop:
        print(f"giantstep: {stop}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    hand_over(result, output)


def _engine(run: Run) -> Any:
    """Return where to run: what was asked for, or SLURM jobs as they were described."""
    described = {name: getattr(run, name) for name in _JOBS if getattr(run, name) is not None}
    if not described:
        return run.engine
    if run.engine not in (None, "slurm"):
        raise bad_field(next(iter(described)), next(iter(described.values())), "left out but for --engine slurm")
    return gs.Slurm(**described)


@contextmanager
def _telling() -> Iterator[None]:
    """Show the log of the sweep on stderr, and let a polite kill stop it as Ctrl-C does."""
    logger = logging.getLogger("giantstep")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("giantstep: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        logger.setLevel(level)
        logger.removeHandler(handler)
