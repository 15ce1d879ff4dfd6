"""Looks into a store without a sweep: what is in it, what failed, whether it is sound, and what can go."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from giantstep.errors import GiantstepError, InputError
from giantstep.families import family_class, family_names
from giantstep.sweeps.blobs import Damaged
from giantstep.sweeps.keys import Ask, Point
from giantstep.sweeps.store import (
    AT_ONCE,
    UNREADABLE,
    Facts,
    Row,
    Store,
    check_version,
    check_writable,
    is_read_only,
    read_results,
    row_of,
    say_errors,
)

_ASK_COLUMNS = "family, what, source, formula_version, settings"
_MOST_MISSED = 2000
"""Lines in a row that are looked for in vain where the last one is not known."""
_LINE = (
    "SELECT point, trial, reason, detail, seconds, facts.id, facts.digest, facts.coords, facts.notes, data, checksum, "
    f"points.digest, scenario, dim, asks.id, {_ASK_COLUMNS} FROM results NOT INDEXED "
    "LEFT JOIN facts ON facts.id = facts LEFT JOIN points ON points.id = point "
    "LEFT JOIN asks ON asks.id = ask WHERE results.rowid = ?"
)
"""One result with all that belongs to it, found without an index."""


@dataclass(frozen=True)
class Entry:
    """A point of the store with its results; `damaged` are trials that cannot be read."""

    ask: Ask
    point: Point
    rows: list[Row]
    damaged: list[int]

    @property
    def failures(self) -> list[Row]:
        """Results that are none."""
        return [row for row in self.rows if row.reason]


@dataclass
class Health:
    """What `verify` found; `read_only` says that the file can be read, but no sweep can add to it."""

    pages: str = "ok"
    points: int = 0
    results: int = 0
    failures: int = 0
    damaged: list[tuple[str, int]] = field(default_factory=list)
    saved: int = 0
    read_only: bool = False

    @property
    def sound(self) -> bool:
        """Whether everything can be read."""
        return self.pages == "ok" and not self.damaged


@contextmanager
def open_store(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Open a store to be read only."""
    with say_errors(str(path)), closing(_connect(path)) as connection:
        check_version(connection, str(path))
        yield connection


def _connect(path: str | Path) -> sqlite3.Connection:
    """Connect to a file that is only read; SQLite itself first takes back what a killed sweep had begun to write."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"There is no store {str(path)!r}.")
    closed = is_read_only(file)
    begun = [log for log in (Path(f"{file}-journal"), Path(f"{file}-wal")) if log.is_file() and log.stat().st_size]
    if closed and begun:
        raise InputError(
            f"The store {str(path)!r} cannot be read where it is: the file system is read-only, and a sweep was killed "
            f"while it wrote. Copy it and {begun[0].name!r} to a folder that can be written."
        )
    mode = "immutable=1" if closed else "mode=rw"
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?{mode}", uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    return connection


def entries(path: str | Path, digest: str = "") -> Iterator[Entry]:
    """Yield the points of a store with all results (those whose name begins with `digest`)."""
    with open_store(path) as connection:
        asks = {line[0]: ask_of(line[1:]) for line in connection.execute(f"SELECT id, {_ASK_COLUMNS} FROM asks")}
        question = "SELECT ask, digest, scenario, dim FROM points WHERE digest GLOB ? ORDER BY id"
        cursor = connection.execute(question, (digest + "*",))
        while lines := cursor.fetchmany(AT_ONCE):
            points = [point_of(line[1:]) for line in lines]
            results, damaged = read_results(connection, points)
            rows: dict[str, list[Row]] = {}
            for row in results.values():
                rows.setdefault(row.point.digest, []).append(row)
            for (ask, *_), point in zip(lines, points):
                lost = [trial for other, trial in damaged if other is point]
                if ask not in asks:
                    raise sqlite3.DatabaseError("a point belongs to nothing that was asked")
                yield Entry(asks[ask], point, rows.get(point.digest, []), lost)


def ask_of(line: Sequence[Any]) -> Ask:
    """Return what was asked, from its columns."""
    family, what, source, version, settings = line
    return Ask(family, what, source, version, _settings_of(settings))


def point_of(line: Sequence[Any]) -> Point:
    """Return a point, from its columns."""
    digest, scenario, dim = line
    try:
        return Point(digest, scenario, float(dim))
    except (ValueError, TypeError):
        raise sqlite3.DatabaseError("the dimension of a point cannot be read") from None


def _settings_of(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        raise sqlite3.DatabaseError("the settings of what was asked cannot be read") from None


def overview(path: str | Path) -> list[dict[str, Any]]:
    """Return one line for each question asked: family, what, source, settings, points, results, failures, seconds."""
    question = (
        "SELECT family, what, source, formula_version, settings, count(DISTINCT points.id) AS points, "
        "count(trial) AS results, coalesce(sum(reason != ''), 0) AS failed, coalesce(sum(seconds), 0) AS seconds, "
        "coalesce(sum(length(data)), 0) AS bytes FROM asks LEFT JOIN points ON points.ask = asks.id "
        "LEFT JOIN results ON results.point = points.id GROUP BY asks.id ORDER BY asks.id"
    )
    with open_store(path) as connection:
        connection.row_factory = sqlite3.Row
        lines = [dict(line) for line in connection.execute(question)]
        return [{**line, "settings": _settings_of(line["settings"])} for line in lines]


def verify(path: str | Path, out: str | Path | None = None) -> Health:
    """Read everything there is; with `out`, save all that can be read into a new store."""
    if out is not None and Path(out).exists():
        raise InputError(f"{str(out)!r} is there already; what can be read is saved into a new file only.")
    with closing(_connect(path)) as connection:
        if out is None:
            return _verify(connection, str(path), None)
        with Store(out) as saved:
            return _verify(connection, str(path), saved)


def _verify(connection: sqlite3.Connection, name: str, saved: Store | None) -> Health:
    health = Health(read_only=is_read_only(Path(name)))
    connection.execute("PRAGMA writable_schema = ON")  # SQLite then reads on in a file that is too short
    try:
        check_version(connection, name)
        lines = [str(line[0]) for line in connection.execute("PRAGMA integrity_check(5)")]
        health.pages = "ok" if lines == ["ok"] else "; ".join(" ".join(line.split()) for line in lines)
        health.points = connection.execute("SELECT count(*) FROM points").fetchone()[0]
    except UNREADABLE as error:
        health.pages = str(error) if hasattr(error, "sqlite_errorcode") else "its text cannot be read"
    asks: dict[int, Ask] = {}
    facts: dict[int, Facts] = {}
    readable: dict[Ask, list[Row]] = {}
    for number, trial, *line in _lines(connection):
        about, place, asked = line[:9], line[9:12], line[12:]
        try:
            row = row_of(point_of(place), [trial, *about], facts)
            ask = asks[asked[0]] if asked[0] in asks else asks.setdefault(asked[0], ask_of(asked[1:]))
        except (Damaged, sqlite3.DatabaseError):
            known = place[0] if isinstance(place[0], str) else f"point {number}"
            health.damaged.append((known, trial if isinstance(trial, int) else -1))
            continue
        health.results += 1
        health.failures += bool(row.reason)
        readable.setdefault(ask, []).append(row)
        if len(readable[ask]) == AT_ONCE:
            _save(saved, readable)
    _save(saved, readable)
    health.saved = 0 if saved is None else health.results
    return health


def _save(saved: Store | None, readable: dict[Ask, list[Row]]) -> None:
    for ask, rows in readable.items():
        if saved is not None:
            saved.put(ask, rows)
    readable.clear()


def _lines(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the results of a store one by one, past those that cannot be read."""
    try:
        last = connection.execute("SELECT max(rowid) FROM results").fetchone()[0] or 0
    except UNREADABLE:
        last = None
    number = missed = 0
    while number < last if last is not None else missed < _MOST_MISSED:
        number += 1
        try:
            line = connection.execute(_LINE, (number,)).fetchone()
        except UNREADABLE:
            line = None
        missed = missed + 1 if line is None else 0
        if line is not None:
            yield line


def collect_garbage(path: str | Path) -> dict[str, int]:
    """Take out damaged results and those of formulas that have changed since; return how many of each, and bytes."""
    check_writable(Path(path))
    before = Path(path).stat().st_size if Path(path).is_file() else 0
    health = verify(path)
    if health.pages != "ok":
        raise GiantstepError(
            f"The store {str(path)!r} is damaged ({health.pages}); `giantstep store verify DB --out NEW` saves what "
            "can still be read."
        )
    with Store(path) as store:
        damaged = store.remove_results(health.damaged)
        outdated = store.remove_asks(_is_outdated)
        store.shrink()
    return {"damaged": damaged, "outdated": outdated, "bytes": max(before - Path(path).stat().st_size, 0)}


def _is_outdated(family: str, version: int) -> bool:
    return family in family_names() and family_class(family).formula_version != version
