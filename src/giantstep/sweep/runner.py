"""Fills the store with what is missing: takes what is there, runs the rest, keeps it as soon as it exists."""

from __future__ import annotations

import logging
import os
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.progress import ProgressOption
from giantstep.sweep.backends import Backend
from giantstep.sweep.keys import Ask, Point
from giantstep.sweep.progress import SweepProgress
from giantstep.sweep.store import Row, Store
from giantstep.sweep.tasks import Draw, Solve, Task
from giantstep.types import Indices

_log = logging.getLogger("giantstep")

Held = dict[tuple[str, int], Row]
"""Results by point and trial."""


@dataclass(frozen=True)
class Job:
    """A task that may have to be done: its points, its trial, and what makes the work for some of the points."""

    points: tuple[Point, ...]
    trial: int
    make: Callable[[Indices], Draw | Solve]

    def task(self, rows: Sequence[int]) -> Task:
        """Return the task for some of the points."""
        return Task(self.make(np.asarray(rows)), tuple(self.points[row] for row in rows), self.trial)


class Interrupted(KeyboardInterrupt):
    """The sweep was stopped; its message says how to go on."""


class Runner:
    """Fills a store.

    Parameters
    ----------
    store : where results are kept.
    backend : starts the backend; called only where something is missing.
    retry : compute failures again.
    progress : as `giantstep.sweep.progress.SweepProgress` takes it.
    """

    def __init__(self, store: Store, backend: Callable[[], Backend], retry: bool, progress: ProgressOption) -> None:
        self.store, self.retry, self.progress = store, retry, progress
        self._fresh: set[tuple[str, int]] = set()
        self._held: dict[tuple[str, int], bool] = {}
        self._open_backend = backend
        self._backend: Backend | None = None

    @property
    def computed(self) -> int:
        """Results computed here."""
        return len(self._fresh)

    @property
    def found(self) -> int:
        """Results taken from the store."""
        return len(self._held) - len(self._fresh)

    @property
    def failures(self) -> int:
        """Failures among all results."""
        return sum(self._held.values())

    def fill(self, ask: Ask, jobs: Sequence[Job]) -> Held:
        """Return every result of the jobs, computing those that are not in the store."""
        held = self._stored(jobs)
        wanted = {(point.digest, job.trial) for job in jobs for point in job.points}
        missing = len(wanted - held.keys())
        points = len({digest for digest, _ in wanted})
        unit = "points" if points == len(wanted) else f"trials at {points} points"
        with SweepProgress(self.progress, len(wanted), len(wanted) - missing, unit) as bar:
            if missing:
                self._run(ask, jobs, held, bar)
        self._held.update({name: bool(held[name].reason) for name in wanted})
        return held

    def _stored(self, jobs: Iterable[Job]) -> Held:
        points = {point.digest: point for job in jobs for point in job.points}
        held, damaged = self.store.get(list(points.values()))
        if damaged:
            _log.warning("%d results in %s are damaged and are computed again", len(damaged), self.store.name)
            self.store.remove_results((point.digest, trial) for point, trial in damaged)
        if self.retry:
            held = {name: row for name, row in held.items() if not row.reason or name in self._fresh}
        return held

    def _run(self, ask: Ask, jobs: Sequence[Job], held: Held, bar: SweepProgress) -> None:
        pending: deque[Job | Task] = deque(jobs)
        taken: set[tuple[str, int]] = set()
        version, shared = self.store.version(), False

        def source() -> Task | None:
            nonlocal shared
            if not shared and self.store.version() != version:  # another process writes here too
                shared = True
                random.Random(os.getpid()).shuffle(pending)
            while pending:
                job = pending.popleft()
                if isinstance(job, Task):
                    return job
                if shared:
                    self._take_over(job, held, taken, bar)
                names = [(point.digest, job.trial) for point in job.points]
                first = {name: row for row, name in reversed([*enumerate(names)])}
                rows = sorted(row for name, row in first.items() if name not in held and name not in taken)
                taken.update(names)
                if rows:
                    return job.task(rows)
            return None

        try:
            if self._backend is None:
                self._backend = self._open_backend()
            for finished in self._backend.run(source):
                rows = []
                for task, done in finished:
                    halves = task.halves() if done.raised else []
                    pending.extendleft(halves)
                    rows += [] if halves else task.rows(done)
                if not rows:
                    continue
                self.store.put(ask, rows)
                held.update({(row.point.digest, row.trial): row for row in rows})
                self._fresh.update((row.point.digest, row.trial) for row in rows)
                bar.advance(len(rows), sum(bool(row.reason) for row in rows))
        except KeyboardInterrupt:
            raise Interrupted(self._farewell(bar)) from None

    def _take_over(self, job: Job, held: Held, taken: set[tuple[str, int]], bar: SweepProgress) -> None:
        """Take what another process has stored meanwhile."""
        found = self._stored([job])
        new = {(p.digest, job.trial) for p in job.points} & found.keys() - held.keys() - taken
        held.update({name: found[name] for name in new})
        bar.advance(len(new), sum(bool(found[name].reason) for name in new))

    def _farewell(self, bar: SweepProgress) -> str:
        if self.store.path is None:
            return f"Stopped after {bar.done} of {bar.total} {bar.unit}; without a store nothing is kept."
        return (
            f"Stopped: {bar.done} of {bar.total} {bar.unit} are stored in {self.store.name}; run the same sweep again "
            "to go on from there."
        )

    def close(self) -> None:
        """Stop the workers."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None
