"""The store: results by content in one SQLite file; written by one process at a time,
atomically, never in part.

A row of `results` is one trial at one point, or a limit (trial 0). A row that `failed`
says why. A result that is there is never replaced; a failure is, where it is tried
again. The bytes of a row carry its own name and a checksum (zlib's). A name is made of
the scenario at a point and all settings that its numbers depend on, not of the backend,
the grid, the order, the number of trials or workers.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from giantstep.core.base.errors import GiantstepError, InputError
from giantstep.core.base.jsondata import json_data, json_number
from giantstep.core.base.types import Array, Points
from giantstep.core.scenario.family import Engine
from giantstep.core.scenario.lists import keys_of
from giantstep.core.scenario.model import Scenario


@dataclass(frozen=True, eq=False)
class Ask:
    """What is asked of every point: all that its numbers depend on beside the point
    itself.

    The settings are those that matter, with seed, pairing and kind of device of an
    experiment.
    """

    family: str
    what: str
    source: Engine
    formula_version: int
    settings: Mapping[str, Any]

    @cached_property
    def content(self) -> str:
        """Everything as JSON text, every number in full."""
        return _text(
            [
                self.family,
                self.what,
                self.source,
                self.formula_version,
                json_data(self.settings),
            ]
        )

    @classmethod
    def read(cls, content: str) -> Ask:
        """Return what was asked, from its content."""
        return cls(*json.loads(content))


@dataclass(frozen=True)
class Point:
    """One point of an `Ask`: its scenario as JSON text and its dimension (infinite for
    a bare limit).
    """

    digest: str
    scenario: str
    dim: float


def name_points(ask: Ask, scenario: Scenario, points: Points) -> list[Point]:
    """Return every point with its name, from the content its scenario would have."""
    content = scenario.content()
    changed = copy.deepcopy(content)
    varying = []
    for name, (value, info) in scenario.numeric_fields().items():
        if np.any(points[name] != value):
            *parents, last = keys_of(name)
            inner: Any = changed
            original: Any = content
            for parent in parents:
                inner = inner[parent]
                original = original[parent]
            kind = int if info.annotation is int else json_number
            varying.append((inner, original, last, value, kind, points[name].tolist()))
    named = []
    for index, dim in enumerate(points["dim"].tolist()):
        for inner, original, last, value, kind, numbers in varying:
            if float(numbers[index]) != value:
                inner[last] = kind(float(numbers[index]))
            elif last in original:
                inner[last] = original[last]
            else:
                # content leaves out what is as it was before the field existed
                inner.pop(last, None)
        text = _text(changed)
        named.append(Point(digest_of(ask, text, float(dim)), text, float(dim)))
    return named


def digest_of(ask: Ask, scenario: str, dim: float) -> str:
    """Return the name of a point."""
    return hashlib.sha256(f"{ask.content} {scenario} {dim!r}".encode()).hexdigest()


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)


_log = logging.getLogger("giantstep")
T = TypeVar("T")
Name = tuple[str, int]
"""Name of a result: the digest of its point, and its trial."""
VERSION = 2
"""Version of the tables."""
_APPLICATION = 0x67535450
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_OLD_TABLES = ("results", "points", "facts", "asks")
"""Names of the tables of version 1, each before those it refers to."""
AT_ONCE = 500
"""Names in one question to SQLite."""
_DAMAGE = (zlib.error, ValueError, TypeError)
"""What is raised by bytes that are not what was written."""

_TABLES = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE points (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, ask TEXT NOT NULL, scenario TEXT NOT NULL, dim TEXT NOT NULL);
CREATE TABLE results (
    point INTEGER NOT NULL REFERENCES points (id), trial INTEGER NOT NULL, failed INTEGER NOT NULL,
    seconds REAL NOT NULL, data BLOB NOT NULL, PRIMARY KEY (point, trial));
"""  # noqa: E501


class StoreError(GiantstepError):
    """The store cannot be written or read any more; what it said is done is there."""


_FULL = (
    "cannot grow any more ({}); everything reported as done is in it: make room and run"
    " the same sweep again."
)
_TROUBLE: dict[int, tuple[type[GiantstepError], str]] = {
    sqlite3.SQLITE_ERROR: (
        StoreError,
        "failed ({}); everything reported as done is in it.",
    ),
    sqlite3.SQLITE_FULL: (StoreError, _FULL),
    sqlite3.SQLITE_CANTOPEN: (
        InputError,
        "cannot be opened ({}); it must be a file in a folder that can be written.",
    ),
    sqlite3.SQLITE_READONLY: (InputError, "cannot be written to ({})."),
    sqlite3.SQLITE_BUSY: (
        StoreError,
        "is held by another process ({}); run the same sweep again later.",
    ),
    sqlite3.SQLITE_LOCKED: (
        StoreError,
        "is held by another process ({}); run the same sweep again later.",
    ),
}
"""What is said where SQLite cannot go on, by its error code; of others what is said of
a general error.
"""


@dataclass(frozen=True)
class Row:
    """One result: the arrays of one trial at one point, or the reason why there are
    none.

    `facts` is what a whole batch of a limit says beside them, as text
    (`backends.Done`).
    """

    point: Point
    trial: int
    values: Mapping[str, Array]
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0
    facts: str = ""

    def encoded(self) -> bytes:
        """Return all but the seconds as bytes."""
        arrays = {name: encode_array(value) for name, value in self.values.items()}
        content = [
            self.point.digest,
            self.trial,
            self.reason,
            self.detail,
            self.facts,
            arrays,
        ]
        return zlib.compress(json.dumps(content).encode())

    @classmethod
    def decoded(cls, point: Point, trial: int, seconds: float, data: bytes) -> Row:
        """Return the result at a point from its bytes; raise one of `_DAMAGE` where
        they are not what was written.
        """
        digest, number, reason, detail, facts, arrays = json.loads(
            zlib.decompress(data)
        )
        if (digest, number) != (point.digest, trial):
            raise ValueError("it is another result")
        values = {name: decode_array(array) for name, array in arrays.items()}
        return cls(point, trial, values, reason, detail, seconds, facts)


def encode_array(value: Any) -> list[Any]:
    """Return an array of numbers, flags or names as JSON holds it: its type, its shape
    and its entries.

    >>> decode_array(encode_array([[1.5, np.inf]]))
    array([[1.5, inf]])
    """
    array = np.asarray(value)
    array = array.astype(str) if array.dtype == object else array
    if np.iscomplexobj(array):
        parts = [array.real, array.imag]
    else:
        parts = [array]
    return [array.dtype.str, array.shape, *(part.ravel().tolist() for part in parts)]


def decode_array(data: Sequence[Any]) -> Array:
    """Return the array that `encode_array` wrote."""
    kind, shape, entries, *imaginary = data
    array = np.array(entries, dtype=kind)
    for part in imaginary:
        array = array + 1j * np.array(part)
    return array.reshape(shape)


class Store(AbstractContextManager["Store"]):
    """Results by content in one SQLite file, made where results are added and it is not
    there; in memory without it.
    """

    def __init__(self, path: str | Path | None = None, *, write: bool = True) -> None:
        self.path = None if path is None else Path(path)
        self.name = "memory" if path is None else str(self.path)
        if not write and not Path(self.name).is_file():
            raise InputError(f"There is no store {self.name!r}.")
        place = ":memory:" if path is None else self.name
        with self.say_errors():
            self.connection = sqlite3.connect(
                place, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            try:
                self._open(write)
            except BaseException:
                self.connection.close()
                raise

    def _open(self, write: bool) -> None:
        count = "SELECT count(*) FROM sqlite_master"
        if self.scalar(count) or not write:
            self._check_version(write)
        if not write:
            self.connection.execute("PRAGMA query_only = ON")
            return
        problem = self.problem()
        if problem:
            raise self._damaged(problem)
        # unlike the write-ahead log, this journal needs file locks only: it is safe on
        # a disk that machines share
        for setting in (
            "journal_mode = TRUNCATE",
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            self.connection.execute(f"PRAGMA {setting}")
        with self.transaction():
            tables = self.scalar(count)
            if tables and self.scalar("PRAGMA user_version") == VERSION:
                return
            for table in _OLD_TABLES if tables else ():
                self.connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
            for statement in _TABLES.split(";"):
                self.connection.execute(statement)
            if tables:
                self._take_over()

    def _take_over(self) -> None:
        """Keep the experiments of a store of version 1, whose tables are called
        ``old_...``.
        """
        lines = self.connection.execute(_READ)
        for (
            family,
            what,
            source,
            version,
            settings,
            old,
            scenario,
            dim,
            *columns,
            data,
            check,
        ) in lines:
            asked = {
                name: value
                for name, value in json.loads(settings).items()
                if (name, value) != _GONE
            }
            ask = Ask(family, what, source, version, asked)
            trial, reason, detail, seconds = columns
            if check == _checksum(old, trial, reason, detail, b"", data):
                point = Point(
                    digest_of(ask, scenario, float(dim)), scenario, float(dim)
                )
                self._insert(
                    ask, [Row(point, trial, _arrays(data), reason, detail, seconds)]
                )
        known = ("old_results", _TRIALS, "results")
        everything, trials, kept = (
            self.scalar(f"SELECT count(*) FROM {table}") for table in known
        )
        for table in _OLD_TABLES:
            self.connection.execute(f"DROP TABLE old_{table}")
        _log.warning(
            "%s was brought up to date: %d trials are kept, %d limits are solved again"
            " when they are asked for, %d damaged trials are left out",
            *(self.name, kept, everything - trials, trials - kept),
        )

    def _check_version(self, write: bool) -> None:
        """Refuse a file that is no store, or a store of another version."""
        version = self.scalar("PRAGMA user_version")
        if self.scalar("PRAGMA application_id") != _APPLICATION:
            raise InputError(
                f"{self.name!r} is an SQLite file, but no store of giantstep."
            )
        if version == 1 and not write:
            raise InputError(
                f"The store {self.name!r} is of version 1; the next sweep into it"
                " brings it up to date."
            )
        if version not in (1, VERSION):
            raise InputError(
                f"The store {self.name!r} was written by"
                f" {'a newer' if version > VERSION else 'an older'} giantstep (store"
                f" version {version}, this one reads {VERSION}); export it with that"
                " one, or use another file."
            )

    def problem(self) -> str:
        """Return what SQLite finds wrong with the file; nothing where it is sound."""
        lines = [
            " ".join(str(line[0]).split())
            for line in self.connection.execute("PRAGMA integrity_check(5)")
        ]
        return "" if lines == ["ok"] else "; ".join(lines)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- writing -----------------------------------------------------------------------

    def put(self, ask: Ask, rows: Sequence[Row]) -> None:
        """Keep results, all or none of them; a result that is there stays, a failure is
        replaced.
        """
        with self.transaction():
            self._insert(ask, rows)

    def _insert(self, ask: Ask, rows: Sequence[Row]) -> None:
        points = {row.point.digest: row.point for row in rows}
        results = [
            (row.point.digest, row.trial, bool(row.reason), row.seconds, row.encoded())
            for row in rows
        ]
        self.connection.executemany(
            "INSERT OR IGNORE INTO points (digest, ask, scenario, dim) VALUES (?, ?,"
            " ?, ?)",
            [
                (digest, ask.content, point.scenario, repr(point.dim))
                for digest, point in points.items()
            ],
        )
        self.connection.executemany(
            "INSERT INTO results VALUES ((SELECT id FROM points WHERE digest = ?), ?,"
            " ?, ?, ?) ON CONFLICT (point, trial) DO UPDATE SET failed ="
            " excluded.failed, seconds = excluded.seconds, data = excluded.data WHERE"
            " results.failed",
            results,
        )

    def check_writable(self) -> None:
        """Raise where nothing could be added, by a write that changes nothing."""
        with self.transaction():
            self.connection.execute(f"PRAGMA application_id = {_APPLICATION}")

    def remove_results(self, names: Iterable[Name]) -> int:
        """Take out results by name of the point and trial; return how many there
        were.
        """
        question = (
            "DELETE FROM results WHERE point = (SELECT id FROM points WHERE digest = ?)"
            " AND trial = ?"
        )
        with self.transaction():
            return max(self.connection.executemany(question, list(names)).rowcount, 0)

    # -- reading -----------------------------------------------------------------------

    def get(
        self, points: Sequence[Point], trial: int | None = None
    ) -> tuple[dict[Name, Row], list[Name]]:
        """Return all results at these points (or one trial) by name, in order of
        trials, and names of damaged ones.
        """
        results: dict[Name, Row] = {}
        damaged: list[Name] = []
        by_digest = {point.digest: point for point in points}
        with self.say_errors():
            for start in range(0, len(by_digest), AT_ONCE):
                digests = list(by_digest)[start : start + AT_ONCE]
                lines = self.connection.execute(
                    "SELECT digest, trial, seconds, data FROM results JOIN points ON"
                    " points.id = point WHERE digest IN"
                    f" ({','.join('?' * len(digests))}) "
                    # the index serves both
                    f"{'' if trial is None else 'AND trial = ?'} ORDER BY trial",
                    digests if trial is None else [*digests, trial],
                )
                for digest, found, seconds, data in lines:
                    try:
                        results[digest, found] = Row.decoded(
                            by_digest[digest], found, seconds, data
                        )
                    except _DAMAGE:
                        damaged.append((digest, found))
        return results, damaged

    # -- SQLite ------------------------------------------------------------------------

    def scalar(self, question: str) -> Any:
        """Return the first number of the first line of an answer."""
        return self.connection.execute(question).fetchone()[0]

    def read(self, reader: Callable[[str], T], text: str) -> T:
        """Return what a text of the tables means; say that the store is damaged where
        it means nothing.
        """
        try:
            return reader(text)
        except (ValueError, TypeError):
            raise self._damaged("its text cannot be read") from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all that the with block does, or nothing of it."""
        with self.say_errors():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def say_errors(self) -> Iterator[None]:
        """Say what SQLite finds wrong inside the with block as a sentence of ours, with
        what can be done about it.
        """
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is None:  # Python says so itself, and quotes the text
                raise self._damaged("its text cannot be read") from None
            if code & 0xFF in (
                sqlite3.SQLITE_CORRUPT,
                sqlite3.SQLITE_NOTADB,
                sqlite3.SQLITE_CONSTRAINT,
            ):
                raise self._damaged(str(error)) from None
            kind, sentence = _TROUBLE.get(code & 0xFF, _TROUBLE[sqlite3.SQLITE_ERROR])
            raise kind(f"The store {self.name!r} {sentence.format(error)}") from None

    def _damaged(self, reason: str) -> InputError:
        return InputError(
            f"The store {self.name!r} is damaged or no store ({reason}); nothing was"
            " written to it. Use another file: `sqlite3 DB .recover | sqlite3 NEW`"
            " saves what can still be read."
        )


# -- Stores of version 1 ---------------------------------------------------------------


_TRIALS = (
    "old_results JOIN old_points ON old_points.id = point JOIN old_asks ON old_asks.id"
    " = ask WHERE source = 'experiment'"
)
"""All trials, once the tables are called ``old_...``."""
_READ = (
    "SELECT family, what, source, formula_version, settings, old_points.digest,"
    f" scenario, dim, trial, reason, detail, seconds, data, checksum FROM {_TRIALS}"
)
_GONE = ("matrix", "stored")
"""A setting of `BayesLimit` that no longer exists, with its default, which is what is
computed today.
"""


def _arrays(data: bytes) -> dict[str, Array]:
    """Return arrays by name from a header of JSON and the numbers behind it."""
    content = zlib.decompress(data)
    offset = 4 + int.from_bytes(content[:4], "little")
    values: dict[str, Array] = {}
    for name, kind, shape, names in json.loads(content[4:offset]):
        if kind == "names":
            values[name] = np.array(names, dtype=str).reshape(shape)
            continue
        numbers = np.frombuffer(
            content, kind, int(np.prod(shape, dtype=np.int64)), offset
        )
        values[name] = numbers.reshape(shape).copy()
        offset += numbers.nbytes
    return values


def _checksum(*parts: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()
