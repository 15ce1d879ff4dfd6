"""Names of packages that are loaded when first used, and functions that are called like the module they live in."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


def names_in_stub(file: str) -> dict[str, str]:
    """Return name -> the module it is loaded from: the lines ``from module import name`` of the stub of a package."""
    with open(file + "i", encoding="utf-8") as stub:
        return {words[-1]: words[1] for words in map(str.split, stub) if words[:1] == ["from"]}


def load_when_used(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package that loads each name from its module when it is first used."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_guess(name, homes)}")
        if homes[name] == package:  # a package that is public as it is
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(homes[name]), name)
        vars(sys.modules[package])[name] = value
        return value

    return load


def _guess(name: str, homes: Mapping[str, str]) -> str:
    from giantstep.errors import nearest

    return "" if name.startswith("_") else nearest(name, list(homes))


def callable_module(name: str, function: Callable[..., Any]) -> None:
    """Let a module be called like `function`.

    Importing ``giantstep.agreement`` binds the name ``agreement`` in the package to the module; this way
    ``giantstep.agreement(result)`` means the same before and after.
    """

    class CallableModule(ModuleType):
        __doc__ = function.__doc__
        __call__ = staticmethod(function)

    sys.modules[name].__class__ = CallableModule
