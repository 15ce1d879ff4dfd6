"""Everything a worker will need, loaded once by the process that worker processes are forked from.

That process hears of its parent's end only after it has loaded everything, so a thread looks for it meanwhile.
"""

import contextlib
import importlib
import os
import signal
import threading

_MODULES = (
    *(f"giantstep.{name}" for name in ("agreements", "files", "forecasts", "lab")),
    *(f"giantstep.explorer.{name}" for name in ("presets", "tasks", "views")),
    *(f"scipy.{name}" for name in ("linalg", "special", "stats.qmc")),
)
_LOOK = 0.05
"""Seconds between two looks for the parent."""


def _follow(parent: int, loaded: threading.Event) -> None:
    while not loaded.wait(_LOOK):
        if os.getppid() != parent:
            os._exit(1)


def _load() -> None:
    for module in _MODULES:
        importlib.import_module(module)
    import xarray

    from giantstep.explorer.fields import described
    from giantstep.families import family_class, family_names

    for name in family_names():
        with contextlib.suppress(Exception):  # what cannot be loaded is reported by the task `families`
            described(name)
            for engine in ("limit", "experiment"):
                family_class(name)._engine(engine)
    xarray.Dataset({"a": ("x", [0.0])}, {"x": [0.0]}).reindex(x=[0.0, 1.0])  # it loads half of itself at first use


_loaded = threading.Event()
_thread = threading.Thread(target=_follow, args=(os.getppid(), _loaded), daemon=True)
_thread.start()
_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
try:
    _load()
finally:
    signal.signal(signal.SIGINT, _handler)
    _loaded.set()
    _thread.join()  # a process that forks has one thread
