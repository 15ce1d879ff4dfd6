"""Modules of other packages that are slow to load and that nothing here uses."""

from __future__ import annotations

import importlib.util
import sys


def defer(name: str) -> None:
    """Let a module that is not loaded yet be loaded when someone first looks into it.

    SciPy's special functions load every public module of NumPy, among them ``numpy.f2py``: up to a tenth of a second
    of CPU in each new process.
    """
    parent, _, child = name.rpartition(".")
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    spec.loader = loader = importlib.util.LazyLoader(spec.loader)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    setattr(sys.modules[parent], child, module)
