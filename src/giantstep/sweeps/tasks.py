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

from giantstep.deadline import TimeUp, deadline
from giantstep.jsondata import LONGEST, json_data
from giantstep.returns import answer_of
from giantstep.scenario import Scenario
from giantstep.sweeps.keys import Point
from giantstep.sweeps.store import Name, Row, encode_array
from giantstep.trials import Outcome, TrialDraw
from giantstep.types import Points

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
class Done(Outcome):
    """What a task gave.

    `facts` is what the whole batch of a limit says, as JSON text: coordinates of own dimensions, warnings,
    approximations, attributes.
    """

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
        values = [{name: column[row] for name, column in done.values.items()} for row in range(len(self.points))]
        share, more = done.seconds / len(self.points), zip(self.points, values, done.reasons)
        return [Row(at, self.trial, its, str(why), done.detail, share, done.facts) for at, its, why in more]

    def failure(self, reason: str, detail: str = "") -> Done:
        """Return that there are no numbers, and why."""
        text = f"trial {self.trial}: {reason}" if isinstance(self.work, TrialDraw) else reason
        reasons = np.full(len(self.points), text, dtype=object)
        return Done({}, reasons, detail=detail[-_LONGEST_DETAIL:], raised=True)

    def halves(self) -> list[Task]:
        """Return the task in two, to find the point that makes it fail; a draw is one and stays so."""
        middle, size = len(self.points) // 2, len(self.points)
        return [self.at(range(middle)), self.at(range(middle, size))] if middle and isinstance(self.work, Solve) else []


@dataclass(frozen=True)
class Orders:
    """How a worker computes: BLAS threads (None: as they are), seconds a task may take, and a number for its GPU."""

    threads: int | None = None
    time_limit: float | None = None
    slot: int | None = None


def attempt_bytes(data: bytes, orders: Orders) -> Done | str:
    """Run a pickled task in a worker, or say why it cannot be loaded; only a lost worker escapes as an error."""
    try:
        task: Task = pickle.loads(data)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    with threads_here(orders.threads):
        return attempt(task, orders)


def attempt(task: Task, orders: Orders) -> Done:
    """Run a task; whatever goes wrong is the answer."""
    import giantstep.lab.ridge
    import giantstep.lab.seeds  # noqa: F401, what every task needs is loaded before its time is counted

    start = time.perf_counter()
    try:
        with deadline(orders.time_limit):
            if isinstance(task.work, TrialDraw):
                outcome = task.work.run(worker_device(task.work.experiment.device, orders.slot))
                done = Done(outcome.values, outcome.reasons)
            else:
                done = _solve(task.work)
    except TimeUp:
        done = task.failure(f"it took longer than {orders.time_limit:g} s")
    except MemoryError as error:
        done = task.failure(f"out of memory ({error})" if str(error) else "out of memory")
    except Exception as error:
        done = task.failure(f"{type(error).__name__}: {error}", traceback.format_exc())
    return replace(done, seconds=time.perf_counter() - start)


def _solve(work: Solve) -> Done:
    answer = answer_of(work.scenario, work.points, work.what, work.settings)
    values = {name: np.asarray(value) for name, value in answer.values.items()}
    values["residual"] = np.asarray(answer.residual, dtype=np.float64)
    values["iterations"] = np.asarray(answer.iterations, dtype=np.int64)
    coords = {name: encode_array(value) for name, value in answer.coords.items()}
    facts = [coords, answer.warnings, json_data(answer.approximations), json_data(answer.attrs, LONGEST)]
    return Done(values, np.asarray(answer.status).astype(object), facts=json.dumps(facts))


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
