"""A deadline for a block of code: wall time, or CPU time of the thread that runs it."""

from __future__ import annotations

import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType

_PAUSE, _AGAIN = 0.01, 0.5
"""Seconds between two looks at a thread that imports, and after which `TimeUp` is raised once more."""


class TimeUp(BaseException):
    """Raised inside a block whose time is up; no handler of an `Exception` takes it for its own."""


class deadline:
    """Raise `TimeUp` inside the block once so many seconds have passed; compiled code is let finish first.

    With `cpu` they are seconds of CPU of this thread, where the system counts them. Compiled code that calls Python may
    swallow an exception and go on with what it has by then: `TimeUp` is raised again until the block is left, and a
    block that ends all the same has failed.

    `TimeUp` may arrive between any two instructions, also while the block is being left: then nobody can call off the
    thread that raises it, which therefore looks whether the function that has the block is still running. That function
    should do little else.
    """

    def __init__(self, seconds: float | None, *, cpu: bool = False) -> None:
        self.seconds, self.cpu = seconds, cpu
        self.watch: _Watch | None = None

    def __enter__(self) -> None:
        if self.seconds is None or math.isinf(self.seconds):
            return
        if self.seconds <= 0:
            raise TimeUp
        self.watch = _Watch(self.seconds, self.cpu, sys._getframe(1))
        self.watch.thread.start()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self.watch is None:
            return
        self.watch.stop()
        if self.watch.raised and (kind is None or issubclass(kind, Exception)):
            raise TimeUp from None  # what follows from a swallowed `TimeUp` is not the reason


class _Watch:
    """A thread that raises `TimeUp` in the thread which made it, from the end of its time until it is stopped."""

    def __init__(self, seconds: float, cpu: bool, block: FrameType) -> None:
        self.watched, self.block, self.raised = threading.get_ident(), block, False
        self.raising, self.over = threading.Lock(), threading.Event()
        self.clock = _thread_clock(self.watched) if cpu else time.perf_counter
        self.end = self.clock() + seconds
        self.thread = threading.Thread(target=self._run, name="deadline", daemon=True)

    def _run(self) -> None:
        while (left := self.end - self.clock()) > 0:
            if self.over.wait(left):
                return
        while not self.over.wait(self._raise_once()):
            pass

    def _raise_once(self) -> float:
        """Raise `TimeUp` where it may be raised; return the seconds after which to look again."""
        with self.raising:
            if self.over.is_set():
                return 0.0
            is_inside, is_importing = self._look()
            if not is_inside:
                self.over.set()
                return 0.0
            if is_importing:  # a module that is loaded by half would stay so
                return _PAUSE
            self.raised = True
            _raise_in(self.watched, TimeUp)
            return _AGAIN

    def _look(self) -> tuple[bool, bool]:
        """Tell whether the function with the block is running, and whether it imports a module."""
        frame, is_importing = sys._current_frames().get(self.watched), False
        while frame is not None and frame is not self.block:
            is_importing |= frame.f_code.co_filename.startswith("<frozen importlib")
            frame = frame.f_back
        return frame is not None, is_importing

    def stop(self) -> None:
        """Raise no more; what was raised and has not arrived yet arrives here."""
        while not self.over.is_set():
            try:
                with self.raising:
                    self.over.set()
            except TimeUp:
                continue
        if self.raised:
            _let_arrive()
        self.thread.join()
        del self.block  # it holds what the block computed


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


def _thread_clock(thread: int) -> Callable[[], float]:
    """Return a clock of the CPU time of a thread, which other threads may read."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.perf_counter
    number = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(number)
