"""Fills the store with what is missing: takes what is there, runs the rest, keeps it as soon as it exists."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from giantstep.progress import ProgressOption
from giantstep.sweeps.backends import Backend, Finished
from giantstep.sweeps.claims import Claims
from giantstep.sweeps.keys import Ask, Point
from giantstep.sweeps.progress import SweepProgress
from giantstep.sweeps.store import Name, Row, Store
from giantstep.sweeps.tasks import Draw, Solve, Task
from giantstep.types import Indices

_log = logging.getLogger("giantstep")

Results = dict[Name, Row]
_LOOK = 0.5
"""Seconds between two looks at what other sweeps of the same store compute."""
_SAY_AGAIN = 60.0
"""Seconds after which it is said again that they are waited for."""


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
    progress : as `giantstep.sweeps.progress.SweepProgress` takes it.
    """

    def __init__(self, store: Store, backend: Callable[[], Backend], retry: bool, progress: ProgressOption) -> None:
        self.store, self.retry, self.progress = store, retry, progress
        self._open_backend = backend
        self._backend: Backend | None = None
        self._computed: set[Name] = set()
        self._failed: dict[Name, bool] = {}
        self._failed_before: dict[Name, float] = {}
        self.claims: Claims | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self._backend is not None:
                self._backend.close()
        finally:
            if self.claims is not None:
                self.claims.close()

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
        return {name: row for name, row in results.items() if not self._is_tried_again(name, row)}

    def _is_tried_again(self, name: Name, row: Row) -> bool:
        """Tell whether a result is a failure to be computed again: one of the time before, whoever has tried since."""
        if not self.retry or not row.reason or name in self._computed:
            return False
        return row.seconds == self._failed_before.setdefault(name, row.seconds)

    def _run(self, ask: Ask, pending: _Pending) -> None:
        try:
            if self.claims is None and self.store.path is not None:
                self.claims = Claims(self.store.path)
            if self._backend is None:
                self._backend = self._open_backend()
            while True:
                for finished in self._backend.run(pending.next_task):
                    self._keep(ask, finished, pending)
                if not pending.held:
                    return
                pending.wait()
        except KeyboardInterrupt:
            raise Interrupted(self._farewell(pending.bar)) from None

    def _keep(self, ask: Ask, finished: Finished, pending: _Pending) -> None:
        """Store what tasks gave; a batch that raised is tried again in halves."""
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

    def _farewell(self, bar: SweepProgress) -> str:
        if self.store.path is None:
            return f"Stopped after {bar.done} of {bar.total} {bar.unit}; without a store nothing is kept."
        return (
            f"Stopped: {bar.done} of {bar.total} {bar.unit} are stored in {self.store.name}; run the same sweep again "
            "to go on from there."
        )


class _Pending:
    """What is still to be done, handed out as tasks, and what is there already.

    Other sweeps may fill the same store: what they have claimed is left to them and taken from the store when it is
    there, unless they die.

    Attributes
    ----------
    queue : jobs that nobody is known to work on; tasks to be done again.
    held : jobs another sweep has claimed.
    """

    def __init__(self, jobs: Sequence[Job], results: Results, runner: Runner, bar: SweepProgress) -> None:
        self.queue: deque[Job | Task] = deque(jobs)
        self.held: list[Job] = []
        self._results, self._runner, self.bar = results, runner, bar
        self._taken: set[Name] = set()
        self._looked = self._said = -math.inf

    def add(self, new: Results) -> None:
        """Keep results, and say so."""
        self._results.update(new)
        self.bar.advance(len(new), sum(bool(row.reason) for row in new.values()))

    def next_task(self) -> Task | None:
        """Return the next task; None where none is left to this sweep just now."""
        if self.held and not self.queue and time.monotonic() - self._looked > _LOOK:
            self._look_again()
        while self.queue:
            job = self.queue.popleft()
            if isinstance(job, Task):
                return job
            missing = self._claim(job)
            if missing:
                self._taken.update(missing)
                return job.task(sorted(missing.values()))
        return None

    def _claim(self, job: Job) -> dict[Name, int]:
        """Return the results of a job that this sweep now has to compute, with the row of each."""
        missing = self._missing(job)
        claims = self._runner.claims
        if not missing or claims is None:
            return missing
        if not claims.claim(missing):
            self.held.append(job)
            return {}
        if self._runner.store.has_any(missing):  # another sweep may have been at work until now
            stored = self._runner.read([job])
            there = {name: stored[name] for name in missing if name in stored}
            self.add(there)
            claims.release(there)
        return self._missing(job)

    def _missing(self, job: Job) -> dict[Name, int]:
        known = (self._results, self._taken)
        return {name: row for name, row in job.names().items() if not any(name in names for names in known)}

    def _look_again(self) -> None:
        self._looked = time.monotonic()
        self.queue.extend(self.held)
        self.held.clear()

    def wait(self) -> None:
        """Wait a moment for what other sweeps compute, and say so now and then."""
        now = time.monotonic()
        if now - self._said > _SAY_AGAIN:
            self._said = now
            count = sum(len(self._missing(job)) for job in self.held)
            _log.info("%d results are being computed by another sweep of %s", count, self._runner.store.name)
        time.sleep(_LOOK)
