"""Progress of a sweep: a bar with rate and time left where somebody watches, now and then a log line elsewhere."""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import Any, Self

from giantstep.errors import bad_field
from giantstep.progress import ProgressOption, is_watched

_log = logging.getLogger("giantstep")
_EVERY = 10.0
"""Seconds between lines of the log."""


class SweepProgress:
    """Counts results of a sweep; use as a context manager.

    Parameters
    ----------
    option : as `giantstep.progress.Progress` takes it; where nobody watches, lines go to the log.
    total : results wanted.
    stored : how many of them were there before.
    unit : what they are.
    """

    def __init__(self, option: ProgressOption, total: int, stored: int, unit: str = "points") -> None:
        if not (option is None or isinstance(option, bool) or callable(option)):
            raise bad_field("progress", option, "True, False or a callable(done, total, text)")
        self.total, self.stored, self.done, self.failed = total, stored, stored, 0
        self.unit = unit
        self._callable = option if callable(option) else None
        self._bar: Any = _bar() if option is True or (option is None and is_watched()) else None
        self._logs = option is None and self._bar is None
        self._start = self._said = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("sweep", total=self.total, completed=self.stored, text=self.text())
        self._tell(at_once=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._logs and self.done > self.stored:
            _log.info(self.text())

    def advance(self, results: int, failed: int) -> None:
        """Say that so many more results are stored, and how many of them are failures."""
        self.done += results
        self.failed += failed
        self._tell()

    def text(self) -> str:
        """Say how far the sweep is: points done, rate, time left."""
        text = f"{self.done} of {self.total} {self.unit} done"
        new, seconds = self.done - self.stored, time.monotonic() - self._start
        if new and seconds > 0:
            rate = new / seconds
            text += f", {rate:.3g} per second, {_duration((self.total - self.done) / rate)} left"
        elif self.stored:
            text += " (stored)"
        return text + (f", {self.failed} failed" if self.failed else "")

    def _tell(self, at_once: bool = False) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, text=self.text())
        if self._callable is not None:
            self._callable(self.done, self.total, self.text())
        now = time.monotonic()
        if self._logs and (at_once or now - self._said > _EVERY):
            self._said = now
            _log.info(self.text())


def _duration(seconds: float) -> str:
    """Return a time for reading: ``"90 s"``, ``"12 min"``, ``"3.5 h"``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    return Progress(*columns, console=Console(stderr=True), transient=True)
