"""Exact high-dimensional theory of feature learning, with the experiment beside it.

A scenario says once what is studied; `predict` answers it in the limit of infinite dimension, `simulate` by
an experiment of finite dimension, `compare` by both, all with the same labelled table, an xarray Dataset.

>>> import giantstep as gs
>>> "predict" in dir(gs)
True
"""

from __future__ import annotations

from giantstep._names import load_when_used, names_in_stub

__version__ = "0.2.0"

inf = float("inf")

_HOME = names_in_stub(__file__)

__all__ = ["inf", *_HOME]

__getattr__ = load_when_used(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
