"""Everything a worker will need, loaded once by the process that worker processes are
forked from.

That process hears of its parent's end only after it has loaded everything, so it looks
for it meanwhile.
"""

import contextlib
import importlib
import os
import signal
from functools import partial
from typing import Any

from giantstep.core.scenario.families import family_class, family_names
from giantstep.faces.page.fields import described

_MODULES = (
    "giantstep.core.lab",
    "giantstep.core.result.agreement",
    "giantstep.core.result.files",
    "giantstep.tools.data.forecasts",
    *(f"giantstep.faces.page.{name}" for name in ("presets", "tasks", "views")),
    *(f"scipy.{name}" for name in ("linalg", "special", "stats.qmc")),
)
_LOOK = 0.05
"""Seconds between two looks for the parent."""


def _look(parent: int, *about: Any) -> None:
    if os.getppid() != parent:
        os._exit(1)


def _load() -> None:
    for module in _MODULES:
        importlib.import_module(module)
    import xarray

    for name in family_names():
        with contextlib.suppress(
            Exception
        ):  # what cannot be loaded is reported by the task `families`
            described(name)
            for engine in ("limit", "experiment"):
                family_class(name)._engine(engine)
    # it loads half of itself at first use
    xarray.Dataset({"a": ("x", [0.0])}, {"x": [0.0]}).reindex(x=[0.0, 1.0])


_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
# no thread: a process that forks has one
signal.signal(signal.SIGALRM, partial(_look, os.getppid()))
signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
try:
    _load()
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, _handler)
