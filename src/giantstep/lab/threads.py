"""Threads of the linear algebra: small experiments run on one, which is faster where cores are busy."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

SMALL = 16 * 2**20
"""Bytes of a trial below which its matrices are too small to share out among threads (a width of about 500)."""


def threads_for(bytes_needed: float, device: str = "cpu") -> AbstractContextManager[Any]:
    """Return a context with one BLAS thread where a trial needs few bytes; larger ones keep those they have."""
    if device != "cpu" or bytes_needed > SMALL:
        return nullcontext()
    return blas_threads(1)


def blas_threads(count: int) -> AbstractContextManager[Any]:
    """Set the BLAS threads of this process at once; as a context, until its end."""
    return _libraries().limit(limits=count, user_api="blas")


@functools.cache  # one object
def _libraries() -> Any:
    """Find the BLAS libraries once: NumPy's and SciPy's, which importing SciPy loads."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
