"""Looks into a store without a sweep: what is in it, what failed, whether it is sound,
and what can go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from giantstep.core.base.errors import GiantstepError, check_ending
from giantstep.core.base.files import atomic_write
from giantstep.core.base.jsondata import with_infinity
from giantstep.core.run.trials import mean_and_error
from giantstep.core.scenario.answer import pad_stack
from giantstep.core.scenario.families import family_class, family_names
from giantstep.core.scenario.family import Variable
from giantstep.tools.sweeps.store import AT_ONCE, Ask, Name, Point, Row, Store


@dataclass(frozen=True)
class Entry:
    """A point of the store with its results; `damaged` are trials that cannot be
    read.
    """

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
    """What `verify` found; `problem` is what SQLite says of the file, where it is
    damaged itself.
    """

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
    """Yield the points of a store with all results (those whose name begins with
    `digest`).
    """
    with Store(path, write=False) as store, store.say_errors():
        question = (
            "SELECT ask, digest, scenario, dim FROM points WHERE digest GLOB ? ORDER"
            " BY id"
        )
        cursor = store.connection.execute(question, (digest + "*",))
        while lines := cursor.fetchmany(AT_ONCE):
            points = [
                Point(name, scenario, store.read(float, dim))
                for _, name, scenario, dim in lines
            ]
            results, damaged = store.get(points)
            rows: dict[str, list[Row]] = {point.digest: [] for point in points}
            for (digest, _), row in results.items():
                rows[digest].append(row)
            for (ask, *_), point in zip(lines, points):
                lost = [trial for name, trial in damaged if name == point.digest]
                yield Entry(store.read(Ask.read, ask), point, rows[point.digest], lost)


def overview(path: str | Path) -> list[dict[str, Any]]:
    """Return one line for each question asked: family, what, source, settings, points,
    results, failures, seconds.
    """
    question = (
        "SELECT ask, count(DISTINCT points.id), count(trial), coalesce(sum(failed), 0),"
        " coalesce(sum(seconds), 0), coalesce(sum(length(data)), 0) FROM points LEFT"
        " JOIN results ON point = points.id GROUP BY ask ORDER BY min(points.id)"
    )
    names = ("points", "results", "failed", "seconds", "bytes")
    with Store(path, write=False) as store, store.say_errors():
        lines = store.connection.execute(question).fetchall()
        return [
            {**vars(store.read(Ask.read, ask)), **dict(zip(names, numbers))}
            for ask, *numbers in lines
        ]


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
    """Take out damaged results and those of formulas that have changed since; return
    how many of each, and bytes.
    """
    health = verify(path)
    before = Path(path).stat().st_size
    with Store(path) as store:
        damaged = store.remove_results(health.damaged)
        with store.transaction():
            asks = store.connection.execute(
                "SELECT DISTINCT ask FROM points"
            ).fetchall()
            read = [(line, store.read(Ask.read, *line)) for line in asks]
            known = [
                (line, family_class(ask.family), ask)
                for line, ask in read
                if ask.family in family_names()
            ]
            outdated = [
                line
                for line, family, ask in known
                if family.formula_version != ask.formula_version
            ]
            gone = (
                "DELETE FROM results WHERE point IN (SELECT id FROM points WHERE ask"
                " = ?)"
            )
            removed = max(store.connection.executemany(gone, outdated).rowcount, 0)
            store.connection.execute(
                "DELETE FROM points WHERE id NOT IN (SELECT point FROM results)"
            )
        with store.say_errors():
            store.connection.execute("VACUUM")  # gives the space back to the disk
    return {
        "damaged": damaged,
        "outdated": removed,
        "bytes": max(before - Path(path).stat().st_size, 0),
    }


# -- A store as a table: one row per point ---------------------------------------------


def export(path: str | Path, out: str | Path) -> int:
    """Write a store as CSV or Parquet, one row per point; return the number of rows."""
    import pandas  # type: ignore[import-untyped]

    suffix = check_ending(out, (".csv", ".parquet"), "A store is exported as {}")
    table = pandas.DataFrame(
        [{**_labels(entry), **_measured(entry)} for entry in entries(path)]
    )
    texts = [name for name, kind in table.dtypes.items() if kind.kind == "O"]
    table = table.fillna(dict.fromkeys(texts, "")).astype(dict.fromkeys(texts, str))
    with atomic_write(out) as temporary:
        if suffix == ".csv":
            table.to_csv(temporary, index=False)
        else:
            try:
                table.to_parquet(temporary, engine="pyarrow")
            except ImportError:
                raise GiantstepError(
                    "Parquet files need pyarrow (install giantstep[parquet])."
                ) from None
    return len(table)


def _labels(entry: Entry) -> dict[str, Any]:
    """Return what a point is: its name, what was asked, its fields, and how its trials
    went.
    """
    ask = entry.ask
    point = entry.point
    fields = _flat(with_infinity(json.loads(point.scenario)))
    settings = {
        name: value for name, value in _flat(ask.settings).items() if name not in fields
    }
    reasons = [row.reason for row in entry.failures]
    return {
        "key": point.digest[:16],
        "family": ask.family,
        "what": ask.what,
        "source": ask.source,
        **{name: value for name, value in fields.items() if name != "family"},
        **({} if "dim" in fields else {"dim": point.dim}),
        **settings,
        "trials_done": sum(not row.reason for row in entry.rows),
        "trials_failed": len(reasons),
        "status": reasons[0] if reasons else "",
    }


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}."))
        else:
            if isinstance(value, list):
                flat[prefix + name] = json.dumps(value)
            else:
                flat[prefix + name] = value
    return flat


def _measured(entry: Entry) -> dict[str, Any]:
    """Return the value of every variable: of an experiment the mean, and its standard
    error beside it.
    """
    ask = entry.ask
    measured: dict[str, Any] = {}
    if ask.family in family_names():
        question = family_class(ask.family).questions.get(ask.what)
    else:
        question = None
    declared = {
        variable.name: variable for variable in (question.variables if question else ())
    }
    for name in dict.fromkeys(name for row in entry.rows for name in row.values):
        kept = pad_stack([row.values.get(name) for row in entry.rows])
        columns = {name: kept[0]}
        if ask.source == "experiment":
            mean, error = mean_and_error(
                kept[:, None], declared.get(name, Variable(name, (), "", ""))
            )
            columns = {name: mean[0], f"{name}_stderr": error[0]}
        for (
            key,
            values,
        ) in (
            columns.items()
        ):  # the entries of an array by name, ``V2[1]``; a number has the name alone
            for index in np.ndindex(np.shape(values)):
                place = ",".join(str(number + 1) for number in index)
                measured[f"{key}[{place}]" if place else key] = np.asarray(values)[
                    index
                ]
    return measured
