"""Progress of a long call: a bar on a terminal or in a notebook, a callable, or nothing."""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import Any, Self

from giantstep.errors import bad_field

ProgressOption = bool | Callable[[int, int, str], object] | None
"""None: a bar where somebody can see it; True, False: always, never; a callable gets (done, total, text)."""
A_FEW = 3.0
"""Seconds from which a call says beforehand how long it may take."""
A_MOMENT = 0.5
"""Seconds after which a notebook shows a bar; a call that is done sooner leaves nothing below its cell."""


class Progress:
    """Counts steps and shows them; use as a context manager.

    >>> with Progress(lambda done, total, text: print(done, total, text), 2, "trials") as progress:
    ...     progress.advance()
    0 2 trials
    1 2 trials
    """

    shows_counts = True
    """Whether the bar says how many steps are done and how long the rest takes; False where the text does."""

    def __init__(self, option: ProgressOption, total: int, text: str) -> None:
        if not (option is None or isinstance(option, bool) or callable(option)):
            raise bad_field("progress", option, "True, False or a callable(done, total, text)")
        self.done, self.total, self.text = 0, total, text
        self._callable = option if callable(option) else None
        self._shows_bar = is_watched() if option is None else option is True
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self._shows_bar:
            self._bar = NotebookBar(self.shows_counts) if in_notebook() else _bar(self.shows_counts)
            self._bar.start()
            self._task = self._bar.add_task(self.text, total=self.total)
        self._tell()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: int = 1) -> None:
        """Say that so many more steps are done."""
        self.done += steps
        self._tell()

    def reach(self, done: int) -> None:
        """Say how many steps are done in all; a total that was an estimate grows with them."""
        self.done, self.total = done, max(self.total, done)
        self._tell()

    def _tell(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, total=self.total, description=self.text)
        if self._callable is not None:
            self._callable(self.done, self.total, self.text)


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
    """Say that one more point of a limit is solved: for families whose points take seconds, one after the other."""
    tell = _COUNTED.get()
    if tell is not None:
        tell()


def with_time(text: str, seconds: float) -> str:
    """Return the text of a bar with how long it may take, where that is more than a few seconds.

    >>> with_time("limit", 0.1), with_time("limit", 80.0)
    ('limit', 'limit (may take about 80 s)')
    """
    return text if seconds < A_FEW else f"{text} (may take about {duration(seconds)})"


def duration(seconds: float) -> str:
    """Return a time for reading.

    >>> duration(90), duration(720), duration(12600)
    ('90 s', '12 min', '3.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def is_watched() -> bool:
    """Tell whether somebody sees a bar: stderr is a terminal, or this is a notebook."""
    return in_notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())


def in_notebook() -> bool:
    """Tell whether this is a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class NotebookBar:
    """A line of HTML below a notebook's cell that follows the count and goes at the end; needs no other package."""

    def __init__(self, counts: bool) -> None:
        self._counts, self._begin, self._told = counts, 0.0, -math.inf
        self._handle: Any = None

    def start(self) -> None:
        """Begin to wait; nothing is shown yet."""
        self._begin = time.monotonic()

    def add_task(self, text: str, total: int) -> int:
        """Say what is counted."""
        return 0

    def update(self, task: int, completed: int, total: int, description: str) -> None:
        """Show how many steps are done, at most ten times a second."""
        now = time.monotonic()
        if now - self._begin < A_MOMENT or now - self._told < 0.1:
            return
        self._told = now
        bar = f'<progress value="{completed}" max="{max(total, 1)}"></progress>'
        count = f" {completed}/{total}" if self._counts else ""
        self._show(f"{bar} {escape(description)}{count}", f"{description}{count}")

    def stop(self) -> None:
        """Remove the line."""
        if self._handle is not None:
            self._show("", "")

    def _show(self, html: str, text: str) -> None:
        content = {"text/html": html, "text/plain": text}
        if self._handle is None:
            notebook = importlib.import_module("IPython.display")  # a notebook brings it
            self._handle = notebook.display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _bar(counts: bool) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    more = (MofNCompleteColumn(), TimeRemainingColumn()) if counts else ()
    return Bar(TextColumn("{task.description}"), BarColumn(), *more, console=Console(stderr=True), transient=True)
