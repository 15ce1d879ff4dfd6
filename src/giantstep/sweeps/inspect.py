"""Looks into a store without a sweep: what is in it, what failed, whether it is sound, and what can go."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from giantstep.errors import GiantstepError, InputError
from giantstep.families import family_class, family_names
from giantstep.sweeps.blobs import Damaged
from giantstep.sweeps.disk import is_read_only
from giantstep.sweeps.keys import Ask, Point
from giantstep.sweeps.store import (
    AT_ONCE,
    UNREADABLE,
    Facts,
    Row,
    Store,
    check_version,
    check_writable,
    read_results,
    row_of,
    say_errors,
)

_ASK_COLUMNS = "id, family, what, source, formula_version, settings"
_Content = TypeVar("_Content")
_MOST_MISSED = 2000
"""Lines in a row that are looked for in vain where the last one is not known."""


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
    """Connect to a file that is only read; where not even a lock can be written, as one that nobody changes."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"There is no store {str(path)!r}.")
    address = file.absolute().as_uri()
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA user_version")
    except UNREADABLE:
        if not is_read_only(file):
            return connection
        connection.close()
        log = file.with_name(file.name + "-wal")
        if log.is_file() and log.stat().st_size:
            raise InputError(
                f"The store {str(path)!r} cannot be read where it is: the file system is read-only, and some results "
                f"are still in {log.name!r}. Copy both files to a folder that can be written."
            ) from None
        connection = sqlite3.connect(f"{address}?immutable=1", uri=True, isolation_level=None)
    return connection


def entries(path: str | Path, digest: str = "") -> Iterator[Entry]:
    """Yield the points of a store with all results (those whose name begins with `digest`)."""
    with open_store(path) as connection:
        asks = {line[0]: ask_of(line[1:]) for line in connection.execute(f"SELECT {_ASK_COLUMNS} FROM asks")}
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


def ask_of(line: tuple[Any, ...]) -> Ask:
    """Return what was asked, from its columns."""
    family, what, source, version, settings = line
    return Ask(family, what, source, version, _settings_of(settings))


def point_of(line: tuple[Any, ...]) -> Point:
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
    except UNREADABLE as error:
        health.pages = "its text cannot be read" if isinstance(error, UnicodeDecodeError) else str(error)
    asks = dict(_readable(connection, "asks", _ASK_COLUMNS, lambda line: (line[0], ask_of(line[1:]))))
    points = dict(
        _readable(
            connection,
            "points",
            "id, ask, digest, scenario, dim",
            lambda line: (line[0], (asks.get(line[1]), point_of(line[2:]))),
        )
    )
    facts = {line[0]: line for line in _read_lines(connection, "facts", "id, digest, coords, notes")}
    health.points = len(points)
    known: dict[int, Facts] = {}
    readable: dict[Ask, list[Row]] = {}
    columns = "point, trial, reason, detail, seconds, facts, data, checksum"
    for number, trial, reason, detail, seconds, fact, data, check in _read_lines(connection, "results", columns):
        ask, point = points.get(number, (None, None))
        if ask is None or point is None:
            health.damaged.append((f"point {number}", _number(trial)))
            continue
        about = (None, None, None, None) if fact is None else facts.get(fact, (fact, b"", b"", ""))
        try:
            row = row_of(point, (trial, reason, detail, seconds, *about, data, check), known)
        except Damaged:
            health.damaged.append((point.digest, _number(trial)))
            continue
        health.results += 1
        health.failures += bool(row.reason)
        if saved is not None:
            readable.setdefault(ask, []).append(row)
            if len(readable[ask]) == AT_ONCE:
                saved.put(ask, readable.pop(ask))
    if saved is not None:
        health.saved = health.results
        for ask, rows in readable.items():
            saved.put(ask, rows)
    return health


def _number(trial: Any) -> int:
    """Return the number of a trial; -1 where it is none."""
    return trial if isinstance(trial, int) else -1


def _read_lines(connection: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the lines of a table one by one, past those that cannot be read."""
    try:
        last = connection.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0
    except UNREADABLE:
        last = None
    question = f"SELECT {columns} FROM {table} NOT INDEXED WHERE rowid = ?"
    number = missed = 0
    while number < last if last is not None else missed < _MOST_MISSED:
        number += 1
        try:
            line = connection.execute(question, (number,)).fetchone()
        except UNREADABLE:
            line = None
        missed = missed + 1 if line is None else 0
        if line is not None:
            yield line


def _readable(
    connection: sqlite3.Connection, table: str, columns: str, read: Callable[[tuple[Any, ...]], tuple[int, _Content]]
) -> Iterator[tuple[int, _Content]]:
    """Yield what the lines of a table say, past those that say nothing."""
    for line in _read_lines(connection, table, columns):
        try:
            content = read(line)
        except sqlite3.DatabaseError:
            continue
        yield content


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
