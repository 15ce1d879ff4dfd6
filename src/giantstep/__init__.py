"""Exact high-dimensional theory of feature learning, with the experiment beside it.

A scenario says once what is studied; `predict` answers it in the limit of infinite
dimension, `simulate` by an experiment of finite dimension, `compare` by both, all with
the same labelled table, an xarray Dataset.

>>> import giantstep as gs
>>> "predict" in dir(gs)
True
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import lazy_loader

__version__ = "0.3.0"

inf = float("inf")

_load, _, _names = lazy_loader.attach_stub(__name__, __file__)

__all__ = ["inf", *_names]


_ELSEWHERE = {
    "Adam": "its first step is gs.SignStep",
    "SGD": "one pass of it is gs.OnlineSGD, with samples that come again gs.BatchReuse",
    "GradientDescent": "a step is gs.MaximalStep, gs.SmallStep or gs.GrowingStep",
    "SVM": "it is the read-out gs.Hinge",
    "relu": 'an activation is written as text, activation="relu"',
}
"""What users of other packages look for -> what is here."""


def __getattr__(name: str) -> Any:
    if name in _names:
        return _public(name)
    if name.startswith("_"):
        return _load(name)
    from giantstep.core.base.errors import nearest

    if name in _ELSEWHERE:
        hint = f" ({_ELSEWHERE[name]})"
    else:
        hint = nearest(name, _names)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def _public(name: str) -> Any:
    """Return what is public under a name; refusals of a function show the caller's line
    alone.
    """
    value = _load(name)
    if isinstance(value, FunctionType):
        from giantstep.core.base.errors import at_the_door

        value = at_the_door(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
