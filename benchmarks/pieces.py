"""Long work in pieces: each is known by its content, its record is written when it is
done, and it is not done again.

`make verify` and `make figures` are lists of pieces. What will run, and how long that
took before, is said beforehand; a budget of minutes leaves out what does not fit. A run
that is stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import os
import platform
import resource
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import giantstep as gs
from giantstep.core.base.jsondata import json_data

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "out" / "pieces"
"""Records and stores of this checkout; records that are kept stand in docs/data."""

MOST_ON_GPU = 6
"""Pieces that share a GPU; their limits are solved on the CPU meanwhile."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Piece:
    """One piece of work.

    Attributes
    ----------
    name : its name, the key of its record.
    digests : what it depends on, hashed; a record with a later one (of a larger size)
        is accepted as well.
    work, arguments : a function of a module and its arguments; it returns JSON data,
        with ``ok`` False for a failure.
    cores : processes that it takes.
    after : names of pieces that are done before.
    device : ``"cpu"`` or ``"cuda"``.
    kept : whether its record is kept; else it only fills a store for a later piece.
    group : the file of docs/data, without its ending, that keeps the record.
    """

    name: str
    digests: tuple[str, ...]
    work: Callable[..., Record]
    arguments: tuple[Any, ...]
    cores: int = 1
    after: tuple[str, ...] = ()
    device: str = "cpu"
    kept: bool = True
    group: str = "verification"

    @property
    def path(self) -> Path:
        """Where a run writes the record."""
        return STATE / "records" / self.group / f"{self.name.replace('/', '__')}.json"

    def record(self) -> Record | None:
        """Return the record that a run of this checkout wrote."""
        if self.path.exists():
            return json.loads(self.path.read_text())
        return None

    def done(self, record: Record | None) -> bool:
        """Tell whether a record has this content and no error of the program."""
        return (
            record is not None
            and record["digest"] in self.digests
            and "error" not in record
        )


def digest(*content: Any) -> str:
    """Return a hash of JSON data, its numbers to 10 digits: powers and logarithms of
    two machines differ beyond.
    """
    return hashlib.sha256(
        json.dumps(_rounded(json_data(content)), sort_keys=True).encode()
    ).hexdigest()[:16]


def _rounded(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _rounded(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_rounded(value) for value in data]
    return float(f"{data:.10g}") if isinstance(data, float) else data


def study_content(study: gs.Study) -> list[Any]:
    """Return all that the numbers of a study depend on: scenario, question, grid,
    settings, version of the formulas.
    """
    scenario = study.scenario
    grid = {
        name: [list(getattr(v, "dims", ())), np.asarray(v, dtype=object).tolist()]
        for name, v in study.grid.items()
    }
    tables = [study.settings, study.limit, study.experiment]
    return [
        scenario.family,
        scenario.formula_version,
        scenario.content(),
        study.what,
        grid,
        *map(dict, tables),
    ]


def machine(device: str) -> str:
    """Return the kind of machine in words."""
    if device == "cuda":
        import cupy

        return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.partition(":")[2].strip()
            for line in lines
            if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.machine()


class Records:
    """The records of pieces: those of a file that is kept, and those of runs of this
    checkout.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._kept: dict[str, Record]
        if file.exists():
            self._kept = json.loads(file.read_text())
        else:
            self._kept = {}

    def names(self) -> list[str]:
        """Return the names of the records that are kept."""
        return list(self._kept)

    def get(self, piece: Piece) -> Record | None:
        """Return the record of a piece, whatever its content was; one of its present
        content where there is one.
        """
        found = [
            record for record in (piece.record(), self._kept.get(piece.name)) if record
        ]
        return next(filter(piece.done, found), found[0] if found else None)

    def holds(self, piece: Piece) -> bool:
        """Tell whether the piece was done, with this content and without an error of
        its program.
        """
        return piece.done(self.get(piece))

    def keep(
        self,
        pieces: Sequence[Piece],
        complete: Callable[[dict[str, Record]], None] | None = None,
    ) -> dict[str, Record]:
        """Write the file with the records of these pieces; those of another content are
        marked as stale.

        `complete` may add to the records before they are written.
        """
        found = {piece.name: (piece, self.get(piece)) for piece in pieces if piece.kept}
        self._kept = {
            name: {**record, "stale": not piece.done(record)}
            for name, (piece, record) in sorted(found.items())
            if record and "error" not in record
        }
        if complete is not None:
            complete(self._kept)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(
            json.dumps(self._kept, indent=1, ensure_ascii=False) + "\n"
        )
        return self._kept


def measure(piece: Piece) -> None:
    """Do a piece in this process and write its record."""
    start = time.monotonic()
    try:
        result = piece.work(*piece.arguments)
    except Exception as error:
        result = {
            "ok": False,
            "error": f"{type(error).__name__}: {error}",
            "trace": traceback.format_exc()[-1500:],
        }
    used = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    record = {
        "digest": piece.digests[0],
        "date": datetime.date.today().isoformat(),
        "version": gs.__version__,
        "machine": machine(piece.device),
        "cores": piece.cores,
        "seconds": round(time.monotonic() - start, 1),
        "core_seconds": round(
            sum(usage.ru_utime + usage.ru_stime for usage in used), 1
        ),
        **result,
    }
    path = piece.path
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(json_data(record), ensure_ascii=False))
    temporary.replace(path)


def _measure_apart(piece: Piece) -> None:
    os.setsid()  # so that it can be ended with the workers it has started
    measure(piece)


def chosen(
    pieces: Sequence[Piece], records: Records, cores: int, budget: float | None
) -> list[Piece]:
    """Say what will run and how long it took before; return what fits into a budget of
    minutes.
    """
    missing = [piece for piece in pieces if not records.holds(piece)]
    if missing or budget is None:
        stored = len(pieces) - len(missing)
        print(
            f"{stored} of {len(pieces)} pieces are stored, {len(missing)} will run on"
            f" {cores} cores."
        )
    fitting = []
    seconds = 0.0
    unknown = 0
    for piece in missing:
        earlier = records.get(piece)
        if earlier and "seconds" in earlier:
            took = earlier["seconds"] * earlier["cores"]
        else:
            took = None
        if budget is not None and seconds + (took or 0.0) > 60 * budget * cores:
            print(
                f"  {piece.name}: left out, {(took or 0) / 60:.1f} minutes of a core do"
                " not fit into the budget"
            )
            continue
        fitting.append(piece)
        seconds += took or 0.0
        unknown += took is None
        if took is not None:
            where = f"{took:.0f} s of a core on {earlier['date']}, {earlier['machine']}"
        else:
            where = "not measured yet"
        print(f"  {piece.name}: {where}")
    if fitting:
        if unknown:
            more = f", and {unknown} pieces that nobody has measured"
        else:
            more = ""
        if budget is not None:
            limit = f"; stopped after {budget:g} minutes"
        else:
            limit = ""
        print(f"About {seconds / 60 / cores:.0f} minutes{more}{limit}.", flush=True)
    return fitting


def run(pieces: Sequence[Piece], cores: int, budget: float | None = None) -> list[str]:
    """Do pieces in processes, in their order where cores are free; return those that
    failed or were not finished.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(
        ["giantstep.papers.runner", "giantstep.tools.sweeps", "matplotlib.pyplot"]
    )
    end = math.inf if budget is None else time.monotonic() + 60 * budget
    waiting = list(pieces)
    unfinished = {piece.name for piece in pieces}
    failed = []
    running: list[tuple[Piece, Any]] = []
    while waiting or running:
        for piece in list(waiting):
            if unfinished.isdisjoint(piece.after) and _has_room(
                piece, [other for other, _ in running], cores
            ):
                process = context.Process(target=_measure_apart, args=(piece,))
                process.start()
                running.append((piece, process))
                waiting.remove(piece)
        time.sleep(0.1)
        for piece, process in [
            pair for pair in running if pair[1].exitcode is not None
        ]:
            running.remove((piece, process))
            unfinished.remove(piece.name)
            failed += [] if _finish(piece) else [piece.name]
        if time.monotonic() > end:
            for _, process in running:
                os.killpg(process.pid, signal.SIGKILL)
            return failed + [piece.name for piece in pieces if piece.name in unfinished]
    return failed


def _has_room(piece: Piece, running: Sequence[Piece], cores: int) -> bool:
    """Tell whether a piece can begin beside others; one that wants more cores than
    there are runs alone.
    """
    on_gpu = sum(other.device == "cuda" for other in running)
    if piece.device == "cuda" and on_gpu >= MOST_ON_GPU:
        return False
    return not running or sum(other.cores for other in running) + piece.cores <= cores


def _finish(piece: Piece) -> bool:
    """Say how a piece ended; return whether it is done and nothing in it failed or
    disagrees.
    """
    record = piece.record() or {}
    good = piece.done(record or None) and bool(record["ok"])
    said = record.get("error") or record.get("said") or ("done" if good else "FAILED")
    print(f"{piece.name}: {said} ({record.get('seconds', 0):.0f} s)", flush=True)
    return good


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all lists of pieces have."""
    parser.add_argument(
        "--budget",
        type=float,
        help="minutes after which it stops; what is done is kept",
    )
    parser.add_argument(
        "--cores", type=int, default=os.cpu_count() or 1, help="processes at once"
    )
    parser.add_argument(
        "--only",
        default="",
        help="pieces whose name begins with one of these, separated by commas",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="say what would run, and how long it took before",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="write the report of what is stored, run nothing",
    )


def work_through(
    pieces: Sequence[Piece], records: Records, options: argparse.Namespace
) -> list[str]:
    """Plan, and unless only a plan or a report is wanted, run what is missing; return
    what failed.
    """
    if options.report:
        return []
    wanted = [
        piece
        for piece in pieces
        if piece.name.startswith(tuple(options.only.split(",")))
    ]
    fitting = chosen(wanted, records, options.cores, options.budget)
    if options.plan:
        return []
    return run(fitting, options.cores, options.budget)
