"""What a worker of a local Dask cluster loads when it starts: Ctrl-C is for the program that sweeps."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Let Ctrl-C pass; the worker is stopped by its cluster."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
