"""Functions that are called like the module they live in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def callable_module(name: str, function: Callable[..., Any]) -> None:
    """Let a module be called like `function`.

    Importing ``giantstep.agreement`` binds the name ``agreement`` in the package to the module; this way
    ``giantstep.agreement(result)`` means the same before and after.
    """

    class CallableModule(ModuleType):
        __doc__ = function.__doc__
        __call__ = staticmethod(function)

    sys.modules[name].__class__ = CallableModule
