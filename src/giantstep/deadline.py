"""A deadline for a block of code: wall time, or CPU time of the thread that runs it."""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PAUSE = 0.01


class TimeUp(BaseException):
    """Raised inside a block whose time is up; no handler of an `Exception` takes it for its own."""


@contextmanager
def deadline(seconds: float | None, *, cpu: bool = False) -> Iterator[None]:
    """Raise `TimeUp` inside the block once so many seconds have passed; compiled code is let finish first.

    With `cpu` they are seconds of CPU of this thread, where the system counts them.
    """
    if seconds is None or math.isinf(seconds):
        yield
        return
    thread, lock, over = threading.get_ident(), threading.Lock(), threading.Event()
    clock = _thread_clock(thread) if cpu else time.perf_counter
    end = clock() + seconds

    def watch() -> None:
        while (left := end - clock()) > 0:
            if over.wait(left):
                return
        while _is_importing(thread):  # a module that is loaded by half would stay so
            if over.wait(_PAUSE):
                return
        with lock:
            if not over.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TimeUp))

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        with lock:
            over.set()


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
