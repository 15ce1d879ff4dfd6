"""Fills the store with what is missing: takes what is there, runs the rest, keeps it as soon as it exists."""

from __future__ import annotations

import logging
import os
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from giantstep.progress import ProgressOption
from giantstep.sweep.backends import Backend
from giantstep.sweep.keys import Ask, Point
from giantstep.sweep.progress import SweepProgress
from giantstep.sweep.store import Row, Store
from giantstep.sweep.tasks import Draw, Solve, Task
from giantstep.types import Indices

_log = logging.getLogger("giantstep")

Name = tuple[str, int]
"""Name of a result: the digest of its point, and its trial."""
Results = dict[Name, Row]


@dataclass(frozen=True)
class Job:
    """A task that may have to be done.

    Attributes
    ----------
    points : all points of a batch or a draw.
    rows : those that this job answers.
    trial : which trial; 0 of a limit.
    make : makes the work for some of the rows.
    """

    points: Sequence[Point]
    rows: Indices
    trial: int
    make: Callable[[Indices], Draw | Solve]

    def names(self) -> dict[Name, int]:
        """Return the results by name, with the row of each."""
        return {(self.points[row].digest, self.trial): row for row in reversed(self.rows.tolist())}

    def task(self, rows: Sequence[int]) -> Task:
        """Return the task for some of the rows."""
        return Task(self.make(np.asarray(rows)), tuple(self.points[row] for row in rows), self.trial)


class Interrupted(KeyboardInterrupt):
    """The sweep was stopped; its message says how to go on."""


class Runner:
    """Fills a store; use as a context manager, which stops the workers at its end.

    Parameters
    ----------
    store : where results are kept.
    backend : starts the backend; called only where something is missing.
    retry : compute failures again.
    progress : as `giantstep.sweep.progress.SweepProgress` takes it.
    """

    def __init__(self, store: Store, backend: Callable[[], Backend], retry: bool, progress: ProgressOption) -> None:
        self.store, self.retry, self.progress = store, retry, progress
        self._open_backend = backend
        self._backend: Backend | None = None
        self._computed: set[Name] = set()
        self._failed: dict[Name, bool] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._backend is not None:
            self._backend.close()

    def summary(self) -> str:
        """Say how many results were computed, taken from the store, and failed."""
        computed, failed = len(self._computed), sum(self._failed.values())
        hint = f" (giantstep store show {self.store.path} --failures)" if failed and self.store.path else ""
        return f"{computed} results computed, {len(self._failed) - computed} were stored, {failed} failed{hint}"

    def fill(self, ask: Ask, jobs: Sequence[Job]) -> Results:
        """Return every result of the jobs, computing those that are not in the store."""
        results = self.read(jobs)
        wanted = {name for job in jobs for name in job.names()}
        missing = len(wanted - results.keys())
        points = len({digest for digest, _ in wanted})
        unit = "points" if points == len(wanted) else f"trials at {points} points"
        with SweepProgress(self.progress, len(wanted), len(wanted) - missing, unit) as bar:
            if missing:
                self._run(ask, _Pending(jobs, results, self, bar))
        self._failed.update({name: bool(results[name].reason) for name in wanted})
        return results

    def read(self, jobs: Iterable[Job]) -> Results:
        """Return what the store has of the points of these jobs."""
        points = {point.digest: point for job in jobs for point in job.points}
        results, damaged = self.store.get(list(points.values()))
        if damaged:
            _log.warning("%d results in %s are damaged and are computed again", len(damaged), self.store.name)
            self.store.remove_results((point.digest, trial) for point, trial in damaged)
        if self.retry:
            results = {name: row for name, row in results.items() if not row.reason or name in self._computed}
        return results

    def _run(self, ask: Ask, pending: _Pending) -> None:
        try:
            if self._backend is None:
                self._backend = self._open_backend()
            for finished in self._backend.run(pending.next_task):
                rows = []
                for task, done in finished:
                    halves = task.halves() if done.raised else []
                    pending.queue.extendleft(halves)
                    rows += [] if halves else task.rows(done)
                if rows:
                    self.store.put(ask, rows)
                    new = {(row.point.digest, row.trial): row for row in rows}
                    self._computed.update(new)
                    pending.add(new)
        except KeyboardInterrupt:
            raise Interrupted(self._farewell(pending.bar)) from None

    def _farewell(self, bar: SweepProgress) -> str:
        if self.store.path is None:
            return f"Stopped after {bar.done} of {bar.total} {bar.unit}; without a store nothing is kept."
        return (
            f"Stopped: {bar.done} of {bar.total} {bar.unit} are stored in {self.store.name}; run the same sweep again "
            "to go on from there."
        )


class _Pending:
    """What is still to be done, handed out as tasks, and what is there already.

    Where another process writes to the same store, both go on in an order of their own and take what the other has.
    """

    def __init__(self, jobs: Sequence[Job], results: Results, runner: Runner, bar: SweepProgress) -> None:
        self.queue: deque[Job | Task] = deque(jobs)
        self._results, self._runner, self.bar = results, runner, bar
        self._taken: set[Name] = set()
        self._version, self._shared = runner.store.version(), False

    def add(self, new: Results) -> None:
        """Keep results, and say so."""
        self._results.update(new)
        self.bar.advance(len(new), sum(bool(row.reason) for row in new.values()))

    def next_task(self) -> Task | None:
        """Return the next task; None where all are handed out."""
        if not self._shared and self._runner.store.version() != self._version:
            self._shared = True
            random.Random(os.getpid()).shuffle(self.queue)
        while self.queue:
            job = self.queue.popleft()
            if isinstance(job, Task):
                return job
            names = job.names().items()
            new = {name: row for name, row in names if name not in self._results and name not in self._taken}
            if new and self._shared:
                stored = self._runner.read([job])
                self.add({name: stored[name] for name in new if name in stored})
                new = {name: row for name, row in new.items() if name not in stored}
            self._taken.update(new)
            if new:
                return job.task(sorted(new.values()))
        return None
