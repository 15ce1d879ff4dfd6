"""The command ``sweep``: a study over a large grid, with a store, on this machine or on a cluster."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from giantstep.cli import outputs, verbs
from giantstep.cli.edit import Changes, edited
from giantstep.cli.values import assignments, single

INTERRUPTED = 130

StudyFile = Annotated[Path, typer.Argument(metavar="S.toml", help="The study; `giantstep new FAMILY` prints one.")]
StoreFile = Annotated[
    Path | None, typer.Option(metavar="DB", help="The SQLite file that keeps the results; made where it is not there.")
]
Source = Annotated[str, typer.Option(help="experiment or limit.")]
Engine = Annotated[str | None, typer.Option(help="local, processes or dask; chosen by the options below if left out.")]
Workers = Annotated[int | None, typer.Option(help="Tasks at once.")]
Scheduler = Annotated[str | None, typer.Option(metavar="ADDRESS", help="A running Dask scheduler.")]
Threads = Annotated[int | None, typer.Option(help="BLAS threads of each worker.")]
Memory = Annotated[float | None, typer.Option(metavar="GIB", help="Memory a worker may take for a task.")]
TimeLimit = Annotated[float | None, typer.Option(metavar="SECONDS", help="Time a task may take.")]
Retry = Annotated[bool, typer.Option("--retry", help="Compute failures of earlier runs again.")]
Until = Annotated[
    list[str] | None,
    typer.Option(metavar="VARIABLE=ERROR", help="More trials where its standard error is above; may be repeated."),
]
MostTrials = Annotated[int | None, typer.Option(help="Trials of a point under --until, at most.")]
Refine = Annotated[
    str | None, typer.Option(metavar="FIELD=TOLERANCE", help="More points where the curve bends by more than that.")
]
MostPoints = Annotated[int, typer.Option(help="Values of the field under --refine, at most.")]


def sweep(
    study: StudyFile,
    store: StoreFile = None,
    source: Source = "experiment",
    engine: Engine = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    threads: Threads = None,
    memory: Memory = None,
    time_limit: TimeLimit = None,
    retry: Retry = False,
    until: Until = None,
    most_trials: MostTrials = None,
    refine: Refine = None,
    most_points: MostPoints = 200,
    what: verbs.What = None,
    set_: verbs.Set = None,
    grid: verbs.Grid = None,
    theory: verbs.Theory = None,
    dim: verbs.Dim = None,
    trials: verbs.Trials = None,
    seed: verbs.Seed = None,
    device: verbs.Device = None,
    paired: verbs.Paired = False,
    keep_trials: verbs.KeepTrials = False,
    out: verbs.Out = None,
    json: verbs.Json = False,
    plot: verbs.Plot = None,
) -> None:
    """Answer a study over a large grid; what the store has is not computed again."""
    from giantstep.sweep.runner import Interrupted

    experiment = {"trials": trials, "seed": seed, "device": device, "paired": paired or None}
    changes = Changes(
        what,
        set_ or (),
        grid or (),
        dim,
        limit={"theory": theory},
        experiment={**experiment, "keep_trials": keep_trials or None},
    )
    verb = "predict" if source == "limit" else "simulate"
    outputs.check(out or [], plot or [])
    from giantstep.study import Study

    opened = edited(Study.read(study), verb, changes)
    options: dict[str, Any] = {
        "engine": engine,
        "workers": workers,
        "scheduler": scheduler,
        "threads": threads,
        "memory": memory,
        "time_limit": time_limit,
        "retry": retry,
        "until": _table("--until", until),
        "most_trials": most_trials,
        "refine": _table("--refine", None if refine is None else [refine]),
        "most_points": most_points,
    }
    try:
        with _telling():
            result = opened.sweep(store=store, source=source, **options)
    except Interrupted as stop:
        print(f"giantstep: {stop}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    verbs.hand_over(result, out, plot, json)


def _table(option: str, texts: list[str] | None) -> dict[str, Any] | None:
    return None if texts is None else assignments(option, texts, lambda name, text: single(text))


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
