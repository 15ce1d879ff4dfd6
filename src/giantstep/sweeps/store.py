"""The store: results by content in one SQLite file; written by one process at a time, atomically, never in part.

A row of `results` is one trial at one point, or a limit (trial 0). A row with a `reason` is a failure. A result that
is there is never replaced; a failure is, where it is tried again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from giantstep import __version__
from giantstep.errors import GiantstepError, InputError
from giantstep.jsondata import LONGEST, json_data
from giantstep.sweeps.blobs import Damaged, checksum, decode_arrays, encode_arrays
from giantstep.sweeps.keys import Ask, Point
from giantstep.types import Array

Name = tuple[str, int]
"""Name of a result: the digest of its point, and its trial."""
VERSION = 1
"""Version of the tables."""
_APPLICATION = 0x67535450
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What SQLite raises where it cannot go on; its message may quote damaged text."""
AT_ONCE = 500
"""Names in one question to SQLite."""
_READ = (
    "SELECT points.digest, trial, reason, detail, seconds, facts.id, facts.digest, facts.coords, facts.notes, data, "
    "checksum FROM results JOIN points ON points.id = results.point LEFT JOIN facts ON facts.id = results.facts"
)

_TABLES = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE asks (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, family TEXT NOT NULL, what TEXT NOT NULL, source TEXT NOT NULL,
    formula_version INTEGER NOT NULL, settings TEXT NOT NULL, made_by TEXT NOT NULL);
CREATE TABLE points (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, ask INTEGER NOT NULL REFERENCES asks (id),
    scenario TEXT NOT NULL, dim TEXT NOT NULL);
CREATE INDEX points_of_ask ON points (ask);
CREATE TABLE facts (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, coords BLOB NOT NULL, notes TEXT NOT NULL);
CREATE TABLE results (
    point INTEGER NOT NULL REFERENCES points (id), trial INTEGER NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL,
    seconds REAL NOT NULL, facts INTEGER REFERENCES facts (id), data BLOB NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (point, trial));
"""


class StoreError(GiantstepError):
    """The store cannot be written or read any more; what it said is done is there."""


@dataclass(frozen=True)
class Facts:
    """What a whole batch of a limit says: coordinates of own dimensions, warnings, attributes."""

    coords: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One result: the arrays of one trial at one point, or the reason why there are none."""

    point: Point
    trial: int
    values: Mapping[str, Array]
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0
    facts: Facts | None = None


class Store:
    """Results by content in one SQLite file (in memory where `path` is None).

    Parameters
    ----------
    path : the file, made where it is not there.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None:
            check_writable(self.path)
        with say_errors(self.name):
            place = self.path or ":memory:"
            self._connection = sqlite3.connect(place, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
            try:
                self._open()
            except BaseException:
                self._connection.close()
                raise

    def _open(self) -> None:
        count = "SELECT count(*) FROM sqlite_master"
        if self._scalar(count):
            check_version(self._connection, str(self.path))
            problem = self._scalar("PRAGMA quick_check(1)")
            if problem != "ok":
                raise sqlite3.DatabaseError(str(problem).splitlines()[-1])
        # unlike the write-ahead log, this journal needs file locks only: it is safe on a disk that machines share
        for setting in ("journal_mode = TRUNCATE", "synchronous = FULL", "foreign_keys = ON"):
            self._connection.execute(f"PRAGMA {setting}")
        with self._transaction():
            if not self._scalar(count):
                for statement in _TABLES.split(";"):
                    self._connection.execute(statement)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The file as the user knows it."""
        return "memory" if self.path is None else str(self.path)

    # -- writing ----------------------------------------------------------------------------------

    def put(self, ask: Ask, rows: Iterable[Row]) -> None:
        """Keep results, all or none of them; a result that is there stays, a failure is replaced."""
        prepared = [(row, encode_arrays(row.values)) for row in rows]
        with self._transaction():
            known = self._ask_number(ask)
            batches = {id(row.facts): row.facts for row, _ in prepared}
            facts = {number: self._facts_number(batch) for number, batch in batches.items()}
            self._connection.executemany(
                "INSERT OR IGNORE INTO points (digest, ask, scenario, dim) VALUES (?, ?, ?, ?)",
                [(row.point.digest, known, row.point.scenario, repr(row.point.dim)) for row, _ in prepared],
            )
            for digest in {row.point.digest for row, _ in prepared}:
                self._number("points", digest)
            self._connection.executemany(
                "INSERT INTO results SELECT id, ?, ?, ?, ?, ?, ?, ? FROM points WHERE digest = ? "
                "ON CONFLICT (point, trial) DO UPDATE SET reason = excluded.reason, detail = excluded.detail, "
                "seconds = excluded.seconds, facts = excluded.facts, data = excluded.data, "
                "checksum = excluded.checksum WHERE results.reason != ''",
                [_columns(row, data, *facts[id(row.facts)]) for row, data in prepared],
            )

    def _ask_number(self, ask: Ask) -> int:
        self._connection.execute(
            "INSERT OR IGNORE INTO asks (digest, family, what, source, formula_version, settings, made_by) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (ask.digest, ask.family, ask.what, ask.source, ask.formula_version, ask.content, __version__),
        )
        return self._number("asks", ask.digest)

    def _facts_number(self, facts: Facts | None) -> tuple[int | None, bytes]:
        if facts is None:
            return None, b""
        coords = encode_arrays(_split_complex(facts.coords))
        notes = json.dumps([list(facts.warnings), json_data(facts.attrs, LONGEST)])
        digest = checksum(coords, notes)
        self._connection.execute(
            "INSERT OR IGNORE INTO facts (digest, coords, notes) VALUES (?, ?, ?)", (digest, coords, notes)
        )
        return self._number("facts", digest), digest

    def _number(self, table: str, digest: str | bytes) -> int:
        """Return the number of a row that was just put in or was there; a damaged index may deny it."""
        number = self._scalar(f"SELECT id FROM {table} WHERE digest = ?", digest)
        if number is None:
            raise sqlite3.DatabaseError(f"an index does not match the table {table}")
        return int(number)

    def remove_results(self, names: Iterable[Name]) -> int:
        """Take out results by name of the point and trial; return how many there were."""
        with self._transaction():
            cursor = self._connection.executemany(
                "DELETE FROM results WHERE point = (SELECT id FROM points WHERE digest = ?) AND trial = ?", list(names)
            )
            return max(cursor.rowcount, 0)

    def remove_asks(self, unwanted: Callable[[str, int], bool]) -> int:
        """Take out what was asked of a family in a formula version that is `unwanted`; return how many results."""
        with self._transaction():
            lines = self._connection.execute("SELECT id, family, formula_version FROM asks").fetchall()
            numbers = [(number,) for number, family, version in lines if unwanted(family, version)]
            gone = "DELETE FROM results WHERE point IN (SELECT id FROM points WHERE ask = ?)"
            removed = self._connection.executemany(gone, numbers).rowcount
            self._connection.execute("DELETE FROM points WHERE id NOT IN (SELECT point FROM results)")
            self._connection.execute("DELETE FROM asks WHERE id NOT IN (SELECT ask FROM points)")
            self._connection.execute(
                "DELETE FROM facts WHERE id NOT IN (SELECT facts FROM results WHERE facts IS NOT NULL)"
            )
            return max(removed, 0)

    def shrink(self) -> None:
        """Give the space of what was taken out back to the disk."""
        with say_errors(self.name):
            self._connection.execute("VACUUM")

    # -- reading ----------------------------------------------------------------------------------

    def get(self, points: Sequence[Point]) -> tuple[dict[tuple[str, int], Row], list[tuple[Point, int]]]:
        """Return all results at these points by (point, trial), and those that are damaged."""
        with say_errors(self.name):
            return read_results(self._connection, points)

    def has_any(self, names: Iterable[Name]) -> bool:
        """Tell whether any of these results is there, good or failed."""
        question = "SELECT 1 FROM results JOIN points ON points.id = point WHERE digest = ? AND trial = ?"
        with say_errors(self.name):
            return any(self._scalar(question, *name) for name in names)

    # -- SQLite -----------------------------------------------------------------------------------

    def _scalar(self, question: str, *values: Any) -> Any:
        line = self._connection.execute(question, values).fetchone()
        return None if line is None else line[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write all that the with block does, or nothing of it."""
        with say_errors(self.name):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


@contextmanager
def say_errors(name: str) -> Iterator[None]:
    """Say what SQLite finds wrong inside the with block as a sentence of ours."""
    try:
        yield
    except UNREADABLE as error:
        raise _translate_error(error, name) from None


def _translate_error(error: Exception, name: str) -> GiantstepError:
    """Return SQLite's error as a sentence of ours, with what can be done about it."""
    reason, code = str(error), getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"The store {name!r} cannot grow any more ({reason}); everything reported as done is in it: "
            "make room and run the same sweep again."
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return InputError(f"The store {name!r} cannot be opened ({reason}); its folder may be read-only.")
    if code == sqlite3.SQLITE_READONLY:
        return InputError(f"The store {name!r} cannot be written to ({reason}).")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"The store {name!r} is held by another process ({reason}); run the same sweep again later.")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or type(error) is sqlite3.DatabaseError:
        if not hasattr(error, "sqlite_errorcode") and type(error) is not sqlite3.DatabaseError:
            reason = "its text cannot be read"  # Python says so itself, and quotes the text
        return InputError(
            f"The store {name!r} is damaged or no store ({reason}); nothing was written to it. "
            "`giantstep store verify DB --out NEW` saves what can still be read."
        )
    return StoreError(f"The store {name!r} failed ({reason}); everything reported as done is in it.")


def check_version(connection: sqlite3.Connection, name: str) -> None:
    """Refuse a file that is no store, or a store of another version."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != _APPLICATION:
        raise InputError(f"{name!r} is an SQLite file, but no store of giantstep.")
    if version != VERSION:
        age = "newer" if version > VERSION else "older"
        raise InputError(
            f"The store {name!r} was written by a{'n' if age == 'older' else ''} {age} giantstep (store version "
            f"{version}, this one reads {VERSION}); export it with that one, or use another file."
        )


def _columns(row: Row, data: bytes, facts: int | None, digest: bytes) -> tuple[Any, ...]:
    check = checksum(row.point.digest, row.trial, row.reason, row.detail, digest, data)
    return (row.trial, row.reason, row.detail, row.seconds, facts, data, check, row.point.digest)


def check_writable(path: Path) -> None:
    """Refuse a place where no store can be made or written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"There is no folder {str(folder)!r} for the store {path.name!r}.")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder, not a store.")
    if is_read_only(path):
        raise InputError(f"The store {str(path)!r} cannot be written to; its folder or the file is read-only.")


def is_read_only(path: Path) -> bool:
    """Tell whether a file cannot be written, or none beside it."""
    closed = path.exists() and not os.access(path, os.W_OK)
    return closed or not os.access(path.absolute().parent, os.W_OK | os.X_OK)


def read_results(
    connection: sqlite3.Connection, points: Sequence[Point]
) -> tuple[dict[tuple[str, int], Row], list[tuple[Point, int]]]:
    """Return all results at these points by (point, trial), in order of their trials, and those that are damaged."""
    results: dict[tuple[str, int], Row] = {}
    damaged: list[tuple[Point, int]] = []
    facts: dict[int, Facts] = {}
    by_digest = {point.digest: point for point in points}
    digests = list(by_digest)
    for start in range(0, len(digests), AT_ONCE):
        names = digests[start : start + AT_ONCE]
        question = f"{_READ} WHERE points.digest IN ({','.join('?' * len(names))}) ORDER BY trial"
        for digest, trial, *columns in connection.execute(question, names):
            try:
                results[digest, trial] = row_of(by_digest[digest], [trial, *columns], facts)
            except Damaged:
                damaged.append((by_digest[digest], trial))
    return results, damaged


def row_of(point: Point, line: Sequence[Any], known: dict[int, Facts]) -> Row:
    """Return a result from its columns; raise `Damaged` where they are not what was written."""
    trial, reason, detail, seconds, number, digest, coords, notes, data, check = line
    if check != checksum(point.digest, trial, reason, detail, digest or b"", data):
        raise Damaged("the checksum is another")
    if number is not None and number not in known:
        if digest != checksum(coords, notes):
            raise Damaged("the checksum of the coordinates is another")
        warnings, attrs = json.loads(notes)
        known[number] = Facts(_join_complex(decode_arrays(coords)), tuple(warnings), attrs)
    return Row(point, trial, decode_arrays(data), reason, detail, seconds, known.get(number))


def _split_complex(coords: Mapping[str, Any]) -> dict[str, Any]:
    """Return coordinates as real arrays: a complex one as its two parts."""
    parts: dict[str, Any] = {}
    for name, values in coords.items():
        array = np.asarray(values)
        if np.iscomplexobj(array):
            parts[f"{name}.real"], parts[f"{name}.imag"] = array.real, array.imag
        else:
            parts[name] = array
    return parts


def _join_complex(parts: Mapping[str, Any]) -> dict[str, Any]:
    coords = {name: values for name, values in parts.items() if not name.endswith((".real", ".imag"))}
    for name in parts:
        if name.endswith(".real"):
            coords[name[:-5]] = parts[name] + 1j * parts[name[:-5] + ".imag"]
    return coords
