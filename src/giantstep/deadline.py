"""A deadline for a block of code: wall time, or CPU time of the thread that runs it."""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PAUSE, _AGAIN = 0.01, 0.5
"""Seconds between two looks at a thread that imports, and after which `TimeUp` is raised once more."""


class TimeUp(BaseException):
    """Raised inside a block whose time is up; no handler of an `Exception` takes it for its own."""


@contextmanager
def deadline(seconds: float | None, *, cpu: bool = False) -> Iterator[None]:
    """Raise `TimeUp` inside the block once so many seconds have passed; compiled code is let finish first.

    With `cpu` they are seconds of CPU of this thread, where the system counts them. Compiled code that calls Python may
    swallow an exception and go on with what it has by then: `TimeUp` is raised again until the block is left, and a
    block that ends all the same has failed.
    """
    if seconds is None or math.isinf(seconds):
        yield
        return
    watch = _Watch(seconds, cpu)
    try:
        yield
    except Exception:  # what follows from a swallowed `TimeUp` is not the reason
        watch.stop()
        if watch.raised:
            raise TimeUp from None
        raise
    finally:
        watch.stop()
    if watch.raised:
        raise TimeUp


class _Watch:
    """A thread that raises `TimeUp` in the thread which made it, from the end of its time until it is stopped."""

    def __init__(self, seconds: float, cpu: bool) -> None:
        self.watched, self.over, self.raised = threading.get_ident(), threading.Event(), False
        self.clock = _thread_clock(self.watched) if cpu else time.perf_counter
        self.end = self.clock() + seconds
        self.thread = threading.Thread(target=self._run, name="deadline", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (left := self.end - self.clock()) > 0:
            if self.over.wait(left):
                return
        while not self.over.is_set():
            while _is_importing(self.watched):  # a module that is loaded by half would stay so
                if self.over.wait(_PAUSE):
                    return
            self.raised = True
            _raise_in(self.watched, TimeUp)
            self.over.wait(_AGAIN)

    def stop(self) -> None:
        """Raise no more; what was raised and has not arrived yet arrives here."""
        while self.thread.is_alive():
            try:
                self.over.set()
                self.thread.join()
            except TimeUp:
                continue
        if self.raised:
            _let_arrive()


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an exception in a thread when it next runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _let_arrive() -> None:
    """Take `TimeUp` out of the way of what follows, whether it has arrived already or not.

    It is raised once more, in place of one that is on its way. To give None instead would take it back, but leave the
    interpreter looking for it for good, which slows all code down and makes profilers hang.
    """
    try:
        _raise_in(threading.get_ident(), TimeUp)
        while True:
            time.sleep(0)
    except TimeUp:
        pass


def _is_importing(thread: int) -> bool:
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _thread_clock(thread: int) -> Callable[[], float]:
    """Return a clock of the CPU time of a thread, which other threads may read."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter
    number = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(number)
