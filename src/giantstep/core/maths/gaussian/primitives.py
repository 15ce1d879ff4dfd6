"""The functions that an expression may call, on NumPy or CuPy arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.core.maths.gaussian.tree import OPERATORS

HERMITE_ORDER = 12
"""Highest Hermite polynomial that has a name, h12."""
LEAK = 0.01
"""Slope of leaky_relu below zero where none is given."""


def namespace_of(array: Any) -> Any:
    """Return the array namespace of ``array``: ``cupy`` for CuPy arrays, ``numpy`` for
    everything else.
    """
    if type(array).__module__.startswith("cupy"):
        return importlib.import_module("cupy")
    return np


def special(xp: Any) -> Any:
    """Return the special functions that go with the array namespace ``xp``."""
    return importlib.import_module(
        "cupyx.scipy.special" if xp.__name__ == "cupy" else "scipy.special"
    )


@dataclass(frozen=True)
class Primitive:
    """One function or operator of the expression language.

    ``value(xp, *arguments, out=None)`` writes ``out`` only in its last elementwise
    operation, so that it may be one of the arguments. It is not smooth (`rough`)
    nowhere, where the first argument vanishes ("zero"), or the second one ("second"),
    or where the two agree ("equal").
    """

    value: Callable[..., Any]
    arity: tuple[int, ...] = (1,)  # allowed numbers of arguments
    rough: str = ""


def _ufunc(name: str, count: int = 1, rough: str = "") -> Primitive:
    return Primitive(
        lambda xp, *x, out=None: getattr(xp, name)(*x, out=out), (count,), rough
    )


def _special_ufunc(name: str) -> Primitive:
    return Primitive(lambda xp, x, out=None: getattr(special(xp), name)(x, out=out))


def _power(xp: Any, x: Any, exponent: float, out: Any = None) -> Any:
    """Return ``x**exponent``, that of a whole number by repeated squaring."""
    if exponent != int(exponent):
        return xp.power(x, exponent, out=out)
    if exponent < 0:
        return xp.divide(1.0, _power(xp, x, -exponent), out=out)
    if exponent == 0:
        # an array of ones, NaN where x is
        return xp.add(xp.multiply(x, 0.0), 1.0, out=out)
    if exponent < 2:
        return xp.multiply(x, 1.0, out=out)
    half = x
    if exponent >= 4:
        half = _power(xp, x, exponent // 2)
    if exponent % 2 == 0:
        return xp.multiply(half, half, out=out)
    return xp.multiply(half * half, x, out=out)


def _leaky_relu(xp: Any, x: Any, slope: float = LEAK, out: Any = None) -> Any:
    # a slope above 1 turns the larger of the two branches into the smaller one
    if slope <= 1:
        return xp.maximum(x, slope * x, out=out)
    return xp.minimum(x, slope * x, out=out)


def _hermite(order: int) -> Primitive:
    """He_n by He_{n+1} = x He_n - n He_{n-1}."""

    def value(xp: Any, x: Any, out: Any = None) -> Any:
        if order < 2:
            return _power(xp, x, order, out=out)
        before = x
        now = x * x - 1
        for n in range(2, order):
            before, now = now, x * now - n * before
        if out is None:
            return now
        # the recursion reads x until its end, so that only this copy may write `out`
        return xp.add(now, 0.0, out=out)

    return Primitive(value)


_NAMED: dict[str, Primitive] = {
    "+": _ufunc("add", 2),
    "-": _ufunc("subtract", 2),
    "*": _ufunc("multiply", 2),
    "/": _ufunc("divide", 2, rough="second"),
    "neg": _ufunc("negative"),
    "**": Primitive(_power, (2,)),
    "sqrt": _ufunc("sqrt", rough="zero"),
    "exp": _ufunc("exp"),
    "log": _ufunc("log", rough="zero"),
    "sin": _ufunc("sin"),
    "cos": _ufunc("cos"),
    "tanh": _ufunc("tanh"),
    "erf": _special_ufunc("erf"),
    "relu": Primitive(
        lambda xp, x, out=None: xp.maximum(x, 0.0, out=out), rough="zero"
    ),
    "leaky_relu": Primitive(_leaky_relu, (1, 2), rough="zero"),
    "abs": _ufunc("absolute", rough="zero"),
    "sign": _ufunc("sign", rough="zero"),
    "sigmoid": _special_ufunc("expit"),
    "softplus": Primitive(lambda xp, x, out=None: xp.logaddexp(x, 0.0, out=out)),
    "gelu": Primitive(
        lambda xp, x, out=None: xp.multiply(x, special(xp).ndtr(x), out=out)
    ),
    "swish": Primitive(
        lambda xp, x, out=None: xp.multiply(x, special(xp).expit(x), out=out)
    ),
    "maximum": _ufunc("maximum", 2, rough="equal"),
    "minimum": _ufunc("minimum", 2, rough="equal"),
    **{f"h{n}": _hermite(n) for n in range(HERMITE_ORDER + 1)},
}
"""What the text of an expression may call, operators too."""

_OF_DERIVATIVES = {
    "step": Primitive(lambda xp, x, out=None: xp.heaviside(x, 0.0, out=out)),
    "cdf": _special_ufunc("ndtr"),
}
"""Derivatives are made of two more, which no text can name: 1 above 0, and the normal
distribution function.
"""

PRIMITIVES = {**_NAMED, **_OF_DERIVATIVES}
ALIASES = {"max": "maximum", "min": "minimum", "silu": "swish"}
CALLABLE_NAMES = (*(name for name in _NAMED if name not in OPERATORS), *ALIASES)
"""Names of functions, as a user may write them."""
