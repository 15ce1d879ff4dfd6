"""Threads of the linear algebra: limits and small experiments run on one, which is
faster where cores are busy.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

SMALL = 16 * 2**20
"""Bytes of a trial below which its matrices are too small to share out among threads (a
width of about 500).
"""
_TAKEN = Lock()
"""Held by who has set the threads of the process to one."""


def threads_for(
    bytes_needed: float, device: str = "cpu"
) -> AbstractContextManager[Any]:
    """Return a context with one BLAS thread where a trial needs few bytes; larger ones
    keep those they have.
    """
    if device != "cpu" or bytes_needed > SMALL:
        return nullcontext()
    return one_blas_thread()


def blas_threads(count: int) -> AbstractContextManager[Any]:
    """Set the BLAS threads of this process at once; as a context, until its end."""
    import scipy.linalg  # noqa: F401  what a task loads later has the setting, too

    return _libraries(True).limit(limits=count, user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run on one BLAS thread; one thread of Python at a time changes this setting of
    the process, and gives it back.
    """
    if not _TAKEN.acquire(blocking=False):
        yield
        return
    try:
        with _libraries("scipy.linalg._fblas" in sys.modules).limit(
            limits=1, user_api="blas"
        ):
            yield
    finally:
        _TAKEN.release()


# two objects at most: SciPy brings a BLAS of its own, which most predictions do without
@functools.cache
def _libraries(with_scipy: bool) -> Any:
    """Find the BLAS libraries that are loaded, once without SciPy's linear algebra and
    once with it.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
