"""The commands ``store ls|show|export|gc|verify``: look into a store of results."""

from __future__ import annotations

import json as json_module
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import giantstep as gs
from giantstep.core.base.errors import InputError, bad_field
from giantstep.faces.cli.options import (
    Changes,
    Json,
    Output,
    StudyFile,
    Theory,
    Trials,
    edit_study,
    option,
    print_answer,
    print_json,
)
from giantstep.faces.cli.verbs import hand_over

if TYPE_CHECKING:
    from giantstep.tools.sweeps.inspect import Entry

app = typer.Typer(
    name="store",
    help="Look into a store that `giantstep sweep` wrote.",
    rich_markup_mode=None,
)

Database = Annotated[Path, Argument(metavar="DB", help="The store.")]


@app.command("ls")
def ls(store: Database, json: Json = False) -> None:
    """List what was asked, with the points, results and failures of each."""
    from giantstep.tools.sweeps.inspect import overview

    asked = overview(store)
    if json:
        print_json(asked)
        return
    for line in asked:
        counts = "{points} points, {results} results, {failed} failed, {seconds:.3g} s".format(  # noqa: E501
            **line
        )
        about = (
            f"{line['family']}: {line['what']},"
            f" {line['source']}{_settings(line['settings'])}"
        )
        print(f"{about}; {counts}, {line['bytes'] / 2**20:.3g} MiB")
    if not asked:
        print("The store is empty.")


@app.command("show")
def show(
    store: Database,
    key: str = Argument(
        "", metavar="[KEY]", help="Points whose key begins so; all if left out."
    ),
    failures: bool = Option(False, "--failures", help="Failures only."),
    json: Json = False,
) -> None:
    """Show points with their scenario, their trials, and why some failed."""
    from giantstep.tools.sweeps.inspect import entries

    shown = [entry for entry in entries(store, key) if not failures or entry.failures]
    if key and not shown:
        raise InputError(
            f"No point in {str(store)!r} has a key that begins with {key!r}."
        )
    if json:
        print_json([_plain(entry) for entry in shown])
    else:
        print(
            "\n".join(_text(entry, bool(key)) for entry in shown) or "Nothing to show."
        )


@app.command("export")
def export(
    store: Database,
    out: Annotated[Path, Option(metavar="FILE", help="Write to this file.")],
) -> None:
    """Write a table with one row per point: .csv or .parquet."""
    from giantstep.tools.sweeps.inspect import export as write_table

    rows = write_table(store, out)
    print(f"wrote {out} with {rows} rows", file=sys.stderr)


@app.command("gc")
def gc(store: Database, json: Json = False) -> None:
    """Take out damaged results and those of formulas that have changed, and free their
    space.
    """
    from giantstep.tools.sweeps.inspect import collect_garbage

    removed = collect_garbage(store)
    told = (
        "{damaged} damaged and {outdated} outdated results taken out, {bytes} bytes"
        " freed".format(**removed)
    )
    print_answer(removed, told, json)


@app.command("verify")
def verify(store: Database, json: Json = False) -> None:
    """Read everything and check it. Status 1: damaged."""
    from giantstep.tools.sweeps.inspect import verify as check_store

    health = check_store(store)
    if json:
        print_json({**vars(health), "sound": health.sound})
    else:
        print(
            f"{health.points} points, {health.results} results, {health.failures} of"
            " them failures"
        )
        if health.problem:
            told = [f"the file is damaged: {health.problem}"]
        else:
            told = []
        told += [f"damaged: {key[:16]} trial {trial}" for key, trial in health.damaged]
        print("\n".join(told or ["everything is sound"]))
    if not health.sound:
        raise typer.Exit(1)


def _settings(settings: dict[str, Any]) -> str:
    shown = {
        n: f"{len(v)} values" if isinstance(v, list) and len(v) > 4 else v
        for n, v in settings.items()
    }
    text = ", ".join(
        f"{name}={value}" for name, value in shown.items() if value is not None
    )
    return f" ({text})" if text else ""


def _text(entry: Entry, in_full: bool) -> str:
    point = entry.point
    ask = entry.ask
    dim = "" if point.dim == float("inf") else f", dim {point.dim:g}"
    lines = [
        f"{point.digest[:16]}  {ask.family}: {ask.what}, {ask.source}{dim}",
        f"  scenario {point.scenario}",
    ]
    lines += [
        f"  {len(entry.rows) - len(entry.failures)} of {len(entry.rows)} trials gave"
        " numbers"
    ]
    for row in entry.failures:
        lines.append(
            f"  trial {row.trial} failed:"
            f" {row.reason.removeprefix(f'trial {row.trial}: ')}"
        )
        lines += [f"    {line}" for line in row.detail.splitlines() if in_full]
    lines += [f"  trial {trial} is damaged" for trial in entry.damaged]
    return "\n".join(lines)


def _plain(entry: Entry) -> dict[str, Any]:
    from giantstep.core.base.jsondata import LONGEST, json_data

    return {
        "key": entry.point.digest,
        **{
            name: getattr(entry.ask, name)
            for name in ("family", "what", "source", "settings")
        },
        "scenario": json_module.loads(entry.point.scenario),
        "dim": entry.point.dim,
        "results": [
            {
                **{
                    name: getattr(row, name)
                    for name in ("trial", "reason", "detail", "seconds")
                },
                "values": json_data(
                    {name: array.tolist() for name, array in row.values.items()},
                    LONGEST,
                ),
            }
            for row in entry.rows
        ],
        "damaged": entry.damaged,
    }


# -- The command ``sweep``: a study over a large grid, with a store, on this machine or


INTERRUPTED = 130
_JOBS = ("queue", "jobs", "account", "walltime", "directives")
"""Options that describe SLURM jobs."""


@dataclass(frozen=True)
class Run:
    """Where and how a sweep runs: keywords of `giantstep.sweep`."""

    store: Path | None = option(
        "DB", "The SQLite file that keeps the results; made where it is not there."
    )
    source: str = Option("experiment", help="experiment or limit.")
    engine: str | None = Option(
        None,
        help=(
            "local, processes, dask or slurm; chosen by the options below if left out."
        ),
    )
    workers: int | None = Option(None, help="Tasks at once.")
    scheduler: str | None = option("ADDRESS", "A running Dask scheduler.")
    threads: int | None = Option(None, help="BLAS threads of each worker.")
    memory: float | None = option("GIB", "Memory a worker may take for a task.")
    time_limit: float | None = option("SECONDS", "Time a task may take.")
    queue: str | None = Option(None, help="Partition of SLURM.")
    jobs: int | None = Option(None, help="SLURM jobs at most (10).")
    account: str | None = Option(None, help="Account of SLURM.")
    walltime: str | None = option("HH:MM:SS", "Time of a SLURM job (01:00:00).")
    directives: list[str] | None = option(
        "OPTION", 'Option of sbatch, as "--gres=gpu:1"; may be repeated.', "--directive"
    )
    retry: bool = Option(
        False, "--retry", help="Compute failures of earlier runs again."
    )


def sweep(
    study: Annotated[Path, StudyFile],
    run: Run,
    changes: Changes,
    theory: Theory,
    experiment: Trials,
    output: Output,
) -> None:
    """Answer a study over a large grid; what the store has is not computed again."""
    from giantstep.tools.sweeps.verb import Interrupted

    verb = "predict" if run.source == "limit" else "simulate"
    edited = edit_study(gs.Study.read(study), verb, changes, theory, experiment)
    settings = {name: value for name, value in vars(run).items() if name not in _JOBS}
    if run.store is None:
        print(
            "giantstep: without --store DB nothing is kept: an interrupted sweep starts"
            " again.",
            file=sys.stderr,
        )
    try:
        with _telling():
            result = edited.sweep(**{**settings, "engine": _engine(run)})
    except Interrupted as stop:
        print(f"giantstep: {stop}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    hand_over(result, output)


def _engine(run: Run) -> Any:
    """Return where to run: what was asked for, or SLURM jobs as they were described."""
    if not (
        described := {
            name: getattr(run, name) for name in _JOBS if getattr(run, name) is not None
        }
    ):
        return run.engine
    if run.engine not in (None, "slurm"):
        raise bad_field(
            next(iter(described)),
            next(iter(described.values())),
            "left out but for --engine slurm",
        )
    return gs.Slurm(**described)


@contextmanager
def _telling() -> Iterator[None]:
    """Show the log of the sweep on stderr, and let a polite kill stop it as Ctrl-C
    does.
    """
    logger = logging.getLogger("giantstep")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("giantstep: %(message)s"))
    level = logger.level
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        logger.setLevel(level)
        logger.removeHandler(handler)
