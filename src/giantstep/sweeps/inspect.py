"""Looks into a store without a sweep: what is in it, what failed, whether it is sound, and what can go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from giantstep.families import family_class, family_names
from giantstep.sweeps.keys import Ask, Point
from giantstep.sweeps.store import AT_ONCE, Name, Row, Store


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
    """What `verify` found; `problem` is what SQLite says of the file, where it is damaged itself."""

    problem: str
    points: int = 0
    results: int = 0
    failures: int = 0
    damaged: list[Name] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether everything can be read."""
        return not self.problem and not self.damaged


def entries(path: str | Path, digest: str = "") -> Iterator[Entry]:
    """Yield the points of a store with all results (those whose name begins with `digest`)."""
    with Store(path, write=False) as store, store.say_errors():
        question = "SELECT ask, digest, scenario, dim FROM points WHERE digest GLOB ? ORDER BY id"
        cursor = store.connection.execute(question, (digest + "*",))
        while lines := cursor.fetchmany(AT_ONCE):
            points = [Point(name, scenario, store.read(float, dim)) for _, name, scenario, dim in lines]
            results, damaged = store.get(points)
            rows: dict[str, list[Row]] = {}
            for row in results.values():
                rows.setdefault(row.point.digest, []).append(row)
            for (ask, *_), point in zip(lines, points):
                lost = [trial for name, trial in damaged if name == point.digest]
                yield Entry(store.read(Ask.read, ask), point, rows.get(point.digest, []), lost)


def overview(path: str | Path) -> list[dict[str, Any]]:
    """Return one line for each question asked: family, what, source, settings, points, results, failures, seconds."""
    question = (
        "SELECT ask, count(DISTINCT points.id), count(trial), coalesce(sum(failed), 0), coalesce(sum(seconds), 0), "
        "coalesce(sum(length(data)), 0) FROM points LEFT JOIN results ON point = points.id GROUP BY ask "
        "ORDER BY min(points.id)"
    )
    names = ("points", "results", "failed", "seconds", "bytes")
    with Store(path, write=False) as store, store.say_errors():
        lines = store.connection.execute(question).fetchall()
        return [{**vars(store.read(Ask.read, ask)), **dict(zip(names, numbers))} for ask, *numbers in lines]


def verify(path: str | Path) -> Health:
    """Read everything there is."""
    with Store(path, write=False) as store, store.say_errors():
        health = Health(store.problem())
    for entry in () if health.problem else entries(path):
        health.points += 1
        health.results += len(entry.rows)
        health.failures += len(entry.failures)
        health.damaged += [(entry.point.digest, trial) for trial in entry.damaged]
    return health


def collect_garbage(path: str | Path) -> dict[str, int]:
    """Take out damaged results and those of formulas that have changed since; return how many of each, and bytes."""
    health = verify(path)
    before = Path(path).stat().st_size
    with Store(path) as store:
        damaged = store.remove_results(health.damaged)
        with store.transaction():
            asks = store.connection.execute("SELECT DISTINCT ask FROM points").fetchall()
            outdated = [ask for ask in asks if _is_outdated(store.read(Ask.read, *ask))]
            gone = "DELETE FROM results WHERE point IN (SELECT id FROM points WHERE ask = ?)"
            removed = max(store.connection.executemany(gone, outdated).rowcount, 0)
            store.connection.execute("DELETE FROM points WHERE id NOT IN (SELECT point FROM results)")
        with store.say_errors():
            store.connection.execute("VACUUM")  # gives the space back to the disk
    return {"damaged": damaged, "outdated": removed, "bytes": max(before - Path(path).stat().st_size, 0)}


def _is_outdated(ask: Ask) -> bool:
    return ask.family in family_names() and family_class(ask.family).formula_version != ask.formula_version
