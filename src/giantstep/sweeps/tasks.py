"""Tasks: what one worker computes in one go, and the one function that computes it wherever the worker is."""

from __future__ import annotations

import json
import pickle
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giantstep.deadline import TimeUp, deadline
from giantstep.jsondata import LONGEST, json_data
from giantstep.returns import answer_of
from giantstep.scenario import Scenario, walk_values
from giantstep.sweeps.keys import Point
from giantstep.sweeps.store import Name, Row, encode_array
from giantstep.trials import TrialDraw
from giantstep.types import Array, Points

_LONGEST_DETAIL = 4000
"""Characters of a traceback that are stored: its end, where the error is."""


@dataclass(frozen=True)
class Solve:
    """A batch of points for the limit."""

    scenario: Scenario
    points: Points
    what: str
    settings: Mapping[str, Any]

    def at(self, rows: Any) -> Solve:
        """Return the batch at some of its points."""
        return replace(self, points={name: values[rows] for name, values in self.points.items()})


@dataclass(frozen=True)
class Done:
    """What a task gave: values by variable (B, ...), and per point a reason where there are none.

    `facts` is what the whole batch of a limit says, as JSON text: coordinates of own dimensions, warnings,
    approximations, attributes.
    """

    values: Mapping[str, Array]
    reasons: NDArray[np.object_]
    seconds: float = 0.0
    facts: str = ""
    detail: str = ""
    raised: bool = False


@dataclass(frozen=True)
class Task:
    """One draw, or one batch of a limit, and the points it answers."""

    work: TrialDraw | Solve
    points: tuple[Point, ...]
    trial: int = 0

    def names(self) -> dict[Name, int]:
        """Return the results by name, with the row of each; a point that is there twice has its first."""
        return {(self.points[row].digest, self.trial): row for row in reversed(range(len(self.points)))}

    def at(self, rows: Sequence[int]) -> Task:
        """Return the task for some of its points."""
        return Task(self.work.at(np.asarray(rows)), tuple(self.points[row] for row in rows), self.trial)

    def rows(self, done: Done) -> list[Row]:
        """Return what goes into the store."""
        share = done.seconds / len(self.points)
        rows = []
        for index, (point, reason) in enumerate(zip(self.points, done.reasons)):
            values = {name: column[index] for name, column in done.values.items()}
            rows.append(Row(point, self.trial, values, str(reason), done.detail, share, done.facts))
        return rows

    def failure(self, reason: str, detail: str = "") -> Done:
        """Return that there are no numbers, and why."""
        text = f"trial {self.trial}: {reason}" if isinstance(self.work, TrialDraw) else reason
        reasons = np.full(len(self.points), text, dtype=object)
        return Done({}, reasons, detail=detail[-_LONGEST_DETAIL:], raised=True)

    def halves(self) -> list[Task]:
        """Return the task in two, to find the point that makes it fail; a draw is one and stays so."""
        middle, size = len(self.points) // 2, len(self.points)
        return [self.at(range(middle)), self.at(range(middle, size))] if middle and isinstance(self.work, Solve) else []

    def callables(self) -> list[str]:
        """Name the Python callables in the scenario: ``activation ('<lambda>')``."""
        fields = walk_values(self.work.scenario)
        return [f"`{name}` ({value.name!r})" for name, value in fields if getattr(value, "expression", "") is None]


@dataclass(frozen=True)
class Orders:
    """How a worker computes.

    Attributes
    ----------
    threads : BLAS threads; None leaves them as they are.
    time_limit : seconds a task may take; None for ever.
    slot : number of the worker, which chooses its GPU.
    """

    threads: int | None = None
    time_limit: float | None = None
    slot: int | None = None


@dataclass(frozen=True)
class NotLoaded:
    """A worker could not load the scenario; it would fail for every task."""

    reason: str


def attempt_bytes(data: bytes, orders: Orders) -> Done | NotLoaded:
    """Run a pickled task in a worker; nothing but a lost worker escapes as an error."""
    try:
        task: Task = pickle.loads(data)
    except Exception as error:
        return NotLoaded(f"{type(error).__name__}: {error}")
    with threads_here(orders.threads):
        return attempt(task, orders)


def attempt(task: Task, orders: Orders) -> Done:
    """Run a task; whatever goes wrong is the answer."""
    import giantstep.lab.ridge
    import giantstep.lab.seeds  # noqa: F401, what every task needs is loaded before its time is counted

    start = time.perf_counter()
    try:
        with deadline(orders.time_limit):
            work = task.work
            done = _draw(work, orders.slot) if isinstance(work, TrialDraw) else _solve(work)
    except TimeUp:
        done = task.failure(f"it took longer than {orders.time_limit:g} s")
    except MemoryError as error:
        done = task.failure(f"out of memory ({error})" if str(error) else "out of memory")
    except Exception as error:
        done = task.failure(f"{type(error).__name__}: {error}", traceback.format_exc())
    return replace(done, seconds=time.perf_counter() - start)


def _draw(draw: TrialDraw, slot: int | None) -> Done:
    outcome = draw.run(worker_device(draw.experiment.device, slot))
    return Done(outcome.values, outcome.reasons)


def _solve(work: Solve) -> Done:
    answer = answer_of(work.scenario, work.points, work.what, work.settings)
    residual = np.asarray(answer.residual, dtype=np.float64)
    iterations = np.asarray(answer.iterations, dtype=np.int64)
    values = {**answer.values, "residual": residual, "iterations": iterations}
    coords = {name: encode_array(value) for name, value in answer.coords.items()}
    facts = [coords, answer.warnings, json_data(answer.approximations), json_data(answer.attrs, LONGEST)]
    arrays = {name: np.asarray(value) for name, value in values.items()}
    return Done(arrays, np.asarray(answer.status).astype(object), facts=json.dumps(facts))


def worker_device(device: str, slot: int | None) -> str:
    """Return the device a worker computes on: each takes the next GPU, where only ``"cuda"`` was asked for."""
    if device != "cuda" or slot is None:
        return device
    from giantstep.lab.devices import namespace

    return f"cuda:{slot % namespace('cuda').cuda.runtime.getDeviceCount()}"


def threads_here(threads: int | None) -> AbstractContextManager[Any]:
    """Return a context in which this process has so many BLAS threads; None leaves them as they are."""
    from giantstep.lab.threads import blas_threads

    return nullcontext() if threads is None else blas_threads(threads)
