"""Progress of a sweep: a line with rate and time left where somebody watches, now and then one in the log elsewhere."""

from __future__ import annotations

import logging
import math
import time

from giantstep.progress import Progress, ProgressOption, duration

_log = logging.getLogger("giantstep")
_EVERY = 10.0
"""Seconds between lines of the log."""


class SweepProgress(Progress):
    """Counts results of a sweep; use as a context manager.

    Parameters
    ----------
    option : as `giantstep.progress.Progress` takes it; where nobody watches, lines go to the log.
    total : results wanted.
    stored : how many of them were there before.
    unit : what they are.
    """

    def __init__(self, option: ProgressOption, total: int, stored: int, unit: str = "points") -> None:
        super().__init__(option, total, "")
        self.stored = self.done = stored
        self.failed, self.unit = 0, unit
        self._logs, self._said = option is None and not self._shows_line, -math.inf

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if self._logs and self.done > self.stored:
            _log.info(self.line())

    def advance(self, steps: int = 1, failed: int = 0) -> None:
        """Say that so many more results are stored, and how many of them are failures."""
        self.failed += failed
        super().advance(steps)

    def _tell(self) -> None:
        self.text = self.line()
        super()._tell()
        now = time.monotonic()
        if self._logs and now - self._said > _EVERY:
            self._said = now
            _log.info(self.text)

    def line(self) -> str:
        """Say how far the sweep is: points done, rate, time left."""
        text = f"{self.done} of {self.total} {self.unit} done"
        new, seconds = self.done - self.stored, time.monotonic() - self._start
        if new and seconds > 0:
            rate = new / seconds
            text += f", {rate:.3g} per second, {duration((self.total - self.done) / rate)} left"
        elif self.stored:
            text += " (stored)"
        return text + (f", {self.failed} failed" if self.failed else "")
