"""Tasks: what one worker computes in one go, and the one function that computes it wherever the worker is."""

from __future__ import annotations

import ctypes
import pickle
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from giantstep.scenario import Scenario
from giantstep.sweep.keys import Point
from giantstep.sweep.store import Facts, Row
from giantstep.trials import Draw
from giantstep.types import Array, Points

_LONGEST_DETAIL = 4000


@dataclass(frozen=True)
class Solve:
    """A batch of points for the limit."""

    scenario: Scenario
    points: Points
    what: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """One draw, or one batch of a limit, and the points it answers."""

    work: Draw | Solve
    points: tuple[Point, ...]
    trial: int = 0

    def rows(self, done: Done) -> list[Row]:
        """Return what goes into the store."""
        share = done.seconds / len(self.points)
        return [
            Row(
                point,
                self.trial,
                {name: values[place] for name, values in done.values.items()},
                str(done.reasons[place]),
                done.detail,
                share,
                done.facts,
            )
            for place, point in enumerate(self.points)
        ]

    def failed(self, reason: str, detail: str = "", seconds: float = 0.0) -> Done:
        """Return that there are no numbers, and why."""
        where = f"trial {self.trial}: {reason}" if isinstance(self.work, Draw) else reason
        reasons = np.full(len(self.points), where, dtype=object)
        return Done({}, reasons, seconds, detail=detail[-_LONGEST_DETAIL:], raised=True)

    def halves(self) -> list[Task]:
        """Return the task in two, to find the point that makes it fail; a draw is one and stays so."""
        middle = len(self.points) // 2
        if not middle or isinstance(self.work, Draw):
            return []
        parts = (slice(0, middle), slice(middle, None))
        return [
            Task(_some(self.work, part), self.points[part], self.trial)
            for part in parts
            if isinstance(self.work, Solve)
        ]


def _some(work: Solve, part: slice) -> Solve:
    points = {name: values[part] for name, values in work.points.items()}
    return Solve(work.scenario, points, work.what, work.settings)


@dataclass(frozen=True)
class Done:
    """What a task gave: values by variable (B, ...), and per point a reason where there are none."""

    values: Mapping[str, Array]
    reasons: NDArray[np.object_]
    seconds: float = 0.0
    facts: Facts | None = None
    detail: str = ""
    raised: bool = False


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
    use_threads(orders.threads)
    return attempt(task, orders)


def attempt(task: Task, orders: Orders) -> Done:
    """Run a task; whatever goes wrong is the answer."""
    import giantstep.lab  # noqa: F401, what every task needs is loaded before its time is counted

    start = time.perf_counter()
    try:
        with deadline(orders.time_limit):
            return _run(task.work, orders, start)
    except _TimeUp:
        return task.failed(f"it took longer than {orders.time_limit:g} s", seconds=time.perf_counter() - start)
    except MemoryError as error:
        reason = f"out of memory ({error})" if str(error) else "out of memory"
        return task.failed(reason, seconds=time.perf_counter() - start)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return task.failed(reason, traceback.format_exc(), time.perf_counter() - start)


def _run(work: Draw | Solve, orders: Orders, start: float) -> Done:
    if isinstance(work, Draw):
        outcome = work.run(worker_device(work.device, orders.slot))
        values = {name: np.asarray(value) for name, value in outcome.values.items()}
        return Done(_checked(values, len(outcome.reasons)), outcome.reasons, time.perf_counter() - start)
    answer = work.scenario.limit(work.points, work.what, work.settings)
    count = len(work.points["dim"])
    values = {name: np.asarray(value) for name, value in answer.values.items()}
    values["residual"] = np.asarray(answer.residual, dtype=np.float64)
    values["iterations"] = np.asarray(answer.iterations, dtype=np.int64)
    coords = {name: np.asarray(value) for name, value in answer.coords.items()}
    facts = Facts(coords, tuple(answer.warnings), answer.attrs)
    reasons = np.asarray(answer.status).astype(object)
    return Done(_checked(values, count), reasons, time.perf_counter() - start, facts)


def _checked(values: dict[str, Array], count: int) -> dict[str, Array]:
    for name, value in values.items():
        if value.ndim == 0 or len(value) != count or value.dtype.kind not in "fiubUO":
            raise ValueError(f"the family answered `{name}` with {value.dtype} {value.shape}, not {count} numbers")
    return values


def worker_device(device: str, slot: int | None) -> str:
    """Return the device a worker computes on: each takes the next GPU, where only ``"cuda"`` was asked for."""
    if device != "cuda" or slot is None:
        return device
    from giantstep.lab.devices import namespace

    return f"cuda:{slot % namespace('cuda').cuda.runtime.getDeviceCount()}"


_threads_in_use: list[Any] = []
"""The limit this worker set, kept so that it lasts."""


def use_threads(threads: int | None) -> None:
    """Give this worker so many BLAS threads, for good."""
    if threads is not None and (not _threads_in_use or _threads_in_use[0] != threads):
        from giantstep.lab.threads import blas_threads

        _threads_in_use[:] = [threads, blas_threads(threads)]


class _TimeUp(BaseException):
    """Raised inside a task whose time is up; no handler of a family takes it for its own."""


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise inside the block once so many seconds have passed; a call into compiled code is let finish first."""
    if seconds is None:
        yield
        return
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    running = [True]

    def stop() -> None:
        with lock:
            if running[0]:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_TimeUp))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            running[0] = False
        timer.cancel()


def callables(task: Task) -> list[str]:
    """Name the Python callables in the scenario of a task: ``activation ('<lambda>')``."""
    from giantstep.scenario import walk_fields

    return [
        f"`{name}` ({value.name!r})"
        for name, value, _ in walk_fields(task.work.scenario)
        if getattr(value, "expression", "") is None
    ]
