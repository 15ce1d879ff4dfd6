"""Fills the store with what is missing: takes what is there, runs the rest, keeps it as soon as it exists.

Several sweeps may fill one store at once. Each goes through its tasks in an order of its own and looks into the store
before each; where two compute the same result all the same, the first one stored stays. A line with the time left says
how far it is where somebody watches, now and then one in the log elsewhere.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from giantstep.progress import Progress, ProgressOption, duration
from giantstep.sweeps.backends import Backend, Task
from giantstep.sweeps.store import Ask, Name, Row, Store

_log = logging.getLogger("giantstep")
_EVERY = 10.0
"""Seconds between lines of the log."""


class SweepProgress(Progress):
    """Counts results of a sweep, of which some were stored before; where nobody watches, lines go to the log."""

    def __init__(self, option: ProgressOption, total: int, stored: int, unit: str = "points") -> None:
        super().__init__(option, total, "")
        self.stored = self.done = stored
        self.unit = unit
        self._logs, self._said = option is None and not self._shows_line, -math.inf

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self._logs and self.done > self.stored:
            _log.info(self.line())

    def _tell(self) -> None:
        self.text = self.line()
        super()._tell()
        now = time.monotonic()
        if self._logs and now - self._said > _EVERY:
            self._said = now
            _log.info(self.text)

    def line(self) -> str:
        """Say how far the sweep is, and how long the rest takes."""
        new, seconds = self.done - self.stored, time.monotonic() - self._start
        left = f", {duration(seconds * (self.total - self.done) / new)} left" if new else ""
        return f"{self.done} of {self.total} {self.unit} done{left}"


Results = dict[Name, Row]


class Interrupted(KeyboardInterrupt):
    """The sweep was stopped; its message says how to go on."""


class Runner(AbstractContextManager["Runner"]):
    """Fills a store; use as a context manager, which stops the workers at its end.

    `start` is called only where something is missing; `retry` computes failures of earlier sweeps again.
    """

    def __init__(self, store: Store, start: Callable[[], Backend], retry: bool, progress: ProgressOption) -> None:
        self.store, self.retry, self.progress, self._start = store, retry, progress, start
        self._backend: Backend | None = None
        self._computed: set[Name] = set()
        self._failed: dict[Name, bool] = {}

    def __exit__(self, *error: object) -> None:
        if self._backend is not None:
            self._backend.close()

    def summary(self) -> str:
        """Say how many results were computed, taken from the store, and failed."""
        computed, failed = len(self._computed), sum(self._failed.values())
        hint = f" (giantstep store show {self.store.path} --failures)" if failed and self.store.path else ""
        return f"{computed} results computed, {len(self._failed) - computed} were stored, {failed} failed{hint}"

    def fill(self, ask: Ask, tasks: Sequence[Task]) -> Results:
        """Return every result of the tasks, computing those that are not in the store."""
        results = self._read(tasks)
        wanted = {name for task in tasks for name in task.names()}
        missing = len(wanted - results.keys())
        points = len({digest for digest, _ in wanted})
        unit = "points" if points == len(wanted) else f"trials at {points} points"
        with SweepProgress(self.progress, len(wanted), len(wanted) - missing, unit) as bar:
            if missing:
                self._run(ask, tasks, results, bar)
        self._failed.update({name: bool(results[name].reason) for name in wanted})
        return results

    def _read(self, tasks: Iterable[Task], trial: int | None = None) -> Results:
        """Return what the store has of the points of these tasks, without failures that are computed again."""
        points = {point.digest: point for task in tasks for point in task.points}
        results, damaged = self.store.get(list(points.values()), trial)
        if damaged:
            _log.warning("%d results in %s are damaged and are computed again", len(damaged), self.store.name)
            self.store.remove_results(damaged)
        tried = self._computed if self.retry else results.keys()
        return {name: row for name, row in results.items() if not row.reason or name in tried}

    def _run(self, ask: Ask, tasks: Sequence[Task], results: Results, bar: SweepProgress) -> None:
        """Compute what is missing in `results`, and add it there."""
        queue, wanted = deque[Task](), set(results)
        for task in tasks if self.store.path is None else random.Random().sample(tasks, len(tasks)):
            missing = {name: row for name, row in task.names().items() if name not in wanted}
            wanted.update(missing)
            if missing:
                queue.append(task if len(missing) == len(task.points) else task.at(sorted(missing.values())))

        def add(new: Results) -> None:
            results.update(new)
            bar.advance(len(new))

        def next_task() -> Task | None:
            while queue:
                task = queue.popleft()
                found = self._read([task], task.trial)  # of another sweep that is at work on this store
                if not found:
                    return task
                add(found)
                missing = [row for name, row in task.names().items() if name not in found]
                if missing:
                    return task.at(sorted(missing))
            return None

        try:
            self.store.check_writable()
            if self._backend is None:
                self._backend = self._start()
            for finished in self._backend.run(next_task):
                rows: list[Row] = []
                for task, done in finished:
                    halves = task.halves() if done.raised else []  # to find the point that raises
                    queue.extendleft(halves)
                    rows += [] if halves else task.rows(done)
                if rows:
                    self.store.put(ask, rows)
                    new = {(row.point.digest, row.trial): row for row in rows}
                    self._computed.update(new)
                    add(new)
        except KeyboardInterrupt:
            how_far = f"{bar.done} of {bar.total} {bar.unit}"
            if self.store.path is None:
                raise Interrupted(f"Stopped after {how_far}; without a store nothing is kept.") from None
            stored = f"{how_far} are stored in {self.store.name}"
            raise Interrupted(f"Stopped: {stored}; run the same sweep again to go on from there.") from None
