"""A deadline that computations look at themselves: solvers call `check_time` between
iterations and between blocks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TimeUp(BaseException):
    """Raised by `check_time` once the time of a block is up; no handler of an
    `Exception` takes it for its own.
    """


_ends: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("ends", default=())


def check_time() -> None:
    """Raise `TimeUp` where the time of a block around the call is up; without a
    deadline, do nothing.
    """
    for check in _ends.get():
        check()


@contextmanager
def deadline(
    seconds: float | None, clock: Callable[[], float] = time.perf_counter
) -> Iterator[None]:
    """Let `check_time` raise `TimeUp` inside the block once so many seconds of a clock
    have passed, None: never.
    """
    # compiled code that calls Python may swallow the exception: then every later look
    # raises it again, and a block that ends all the same has failed
    if seconds is None or math.isinf(seconds):
        yield
        return
    end = clock() + seconds
    noticed = False

    def check() -> None:
        nonlocal noticed
        noticed = noticed or clock() >= end
        if noticed:
            raise TimeUp

    before = _ends.set((*_ends.get(), check))
    try:
        check()
        yield
        if noticed:
            raise TimeUp
    except Exception:
        if noticed:
            # what follows from a swallowed `TimeUp` is not the reason
            raise TimeUp from None
        raise
    finally:
        _ends.reset(before)
