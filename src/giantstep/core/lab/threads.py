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
    """Run on one BLAS thread, and give the process its setting back.

    Threads of Python that are inside at once share the setting: the first one makes it
    before any of them goes on, and the last one takes it back.
    """
    _ONE_THREAD.enter()
    try:
        yield
    finally:
        _ONE_THREAD.leave()


class _OneThread:
    """The setting of one BLAS thread, and how many threads of Python are inside."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.libraries: Any = None
        self.limiter: Any = None

    def enter(self) -> None:
        # whoever comes second waits until the first one has made the setting
        with self.lock:
            if self.inside == 0:
                self.libraries = _libraries("scipy.linalg._fblas" in sys.modules)
                self.limiter = self.libraries.limit(limits=1, user_api="blas")
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                # whoever leaves last may be another one than who came first
                _drop_claims(self.libraries)
                self.limiter.restore_original_limits()
                _drop_claims(self.libraries)


def _drop_claims(libraries: Any) -> None:
    """Let every thread of Python set the threads of OpenBLAS again.

    The thread that has set them keeps a claim as long as it lives, and settings by
    others are ignored meanwhile. Nobody is inside any more, so that nobody needs the
    claim of whoever came first.
    """
    for library in libraries.lib_controllers:
        drop = getattr(library, "clear_controlling_thread", None)
        if drop is not None:
            drop(force=True)


_ONE_THREAD = _OneThread()


# two objects at most: SciPy brings a BLAS of its own, which most predictions do without
@functools.cache
def _libraries(with_scipy: bool) -> Any:
    """Find the BLAS libraries that are loaded, once without SciPy's linear algebra and
    once with it.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
