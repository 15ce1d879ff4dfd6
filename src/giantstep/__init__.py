"""Exact high-dimensional theory of feature learning, with the experiment beside it.

A scenario says once what is studied; `predict` answers it in the limit of infinite dimension, `simulate` by
an experiment of finite dimension, `compare` by both, all with the same labelled table, an xarray Dataset.

>>> import giantstep as gs
>>> "predict" in dir(gs)
True
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

inf = float("inf")

with open(__file__ + "i", encoding="utf-8") as _stub:
    _HOME = {words[-1]: words[1] for words in map(str.split, _stub) if words[:1] == ["from"]}
"""Public name -> the module it is loaded from when first used: the lines of the stub, ``__init__.pyi``."""

__all__ = ["inf", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'giantstep' has no attribute {name!r}")
    if _HOME[name] == "giantstep":  # a package that is public as it is
        return importlib.import_module(f"giantstep.{name}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
