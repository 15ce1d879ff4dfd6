"""Progress of a long call: a line that follows it on a terminal or in a notebook, a
callable, or nothing.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

from giantstep.core.base.errors import bad_field

ProgressOption = bool | Callable[[int, int, str], object] | None
"""None: a line where somebody can see it; True, False: always, never; a callable gets
(done, total, text).
"""
A_FEW = 3.0
"""Seconds from which a call says beforehand how long it may take."""
A_MOMENT = 0.5
"""Seconds after which a notebook shows a line; a call that is done sooner leaves
nothing below its cell.
"""
_EVERY = 0.1
"""Seconds between two texts of the line: more often nobody reads it."""


class Progress:
    """Counts steps and shows them; use as a context manager."""

    def __init__(self, option: ProgressOption, total: int, text: str) -> None:
        if not (option is None or isinstance(option, bool) or callable(option)):
            raise bad_field(
                "progress", option, "True, False or a callable(done, total, text)"
            )
        self.done = 0
        self.total = total
        self.text = text
        self._callable = option if callable(option) else None
        # by somebody
        seen = in_notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())
        self._shows_line = seen if option is None else option is True
        self._start = time.monotonic()
        self._width = 0
        self._shown = self._start + A_MOMENT if in_notebook() else -math.inf

    def __enter__(self) -> Self:
        self._tell()
        return self

    def __exit__(self, *error: object) -> None:
        if self._width:  # in a notebook an erased line would stay as an empty one
            self._write(self.line() if in_notebook() else "")
            sys.stderr.write("\n" if in_notebook() else "\r")

    def advance(self, steps: int = 1) -> None:
        """Say that so many more steps are done."""
        self.reach(self.done + steps)

    def reach(self, done: int) -> None:
        """Say how many steps are done in all; a total that was an estimate grows with
        them.
        """
        self.done = done
        self.total = max(self.total, done)
        self._tell()

    def line(self) -> str:
        """Return the text with how many steps are done, and how long the rest takes."""
        passed = time.monotonic() - self._start
        if self.done:
            left = f", {duration(passed * (self.total - self.done) / self.done)} left"
        else:
            left = ""
        return f"{self.text}: {self.done} of {self.total}{left}"

    def _tell(self) -> None:
        if self._callable is not None:
            self._callable(self.done, self.total, self.text)
        now = time.monotonic()
        if self._shows_line and now - self._shown > _EVERY:
            self._shown = now
            self._write(self.line())

    def _write(self, text: str) -> None:
        """Write a line over the last one, as terminals and notebooks both allow."""
        text = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)


@contextmanager
def counted(bar: Progress | None, most: int) -> Iterator[None]:
    """Let `point_done` inside the block advance a bar, by `most` steps in all."""
    if bar is None:
        yield
        return
    end = bar.done + most
    token = _COUNTED.set(lambda: bar.reach(min(bar.done + 1, end)))
    try:
        yield
    finally:
        _COUNTED.reset(token)
        bar.reach(end)


_COUNTED: ContextVar[Callable[[], None] | None] = ContextVar("counted", default=None)


def point_done() -> None:
    """Say that one more point of a limit is solved: for families whose points take
    seconds, one after the other.
    """
    tell = _COUNTED.get()
    if tell is not None:
        tell()


def with_time(text: str, seconds: float) -> str:
    """Return the text of a bar with how long it may take, where that is more than a few
    seconds.
    """
    if seconds < A_FEW:
        return text
    return f"{text} (may take about {duration(seconds)})"


def duration(seconds: float) -> str:
    """Return a time for reading."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def in_notebook() -> bool:
    """Tell whether this is a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
