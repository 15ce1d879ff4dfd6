"""The functions an expression may call: values and exact partial derivatives on NumPy or CuPy arrays."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

HERMITE_ORDER = 12


def namespace_of(array: Any) -> Any:
    """Return the array namespace of ``array``: ``cupy`` for CuPy arrays, ``numpy`` for everything else."""
    return importlib.import_module("cupy") if type(array).__module__.startswith("cupy") else np


def special(xp: Any) -> Any:
    """Return the special functions that go with the array namespace ``xp``."""
    return importlib.import_module("cupyx.scipy.special" if xp.__name__ == "cupy" else "scipy.special")


@dataclass(frozen=True)
class Primitive:
    """One function or operator of the expression language.

    Attributes
    ----------
    value : callable
        ``value(xp, *arguments, out=None)``; writes ``out`` only in its last elementwise operation, so ``out``
        may be one of the arguments.
    partials : callable
        ``partials(xp, *arguments)``, the partial derivatives with respect to the array arguments.
    arity : tuple of int
        Allowed numbers of arguments.
    rough : str
        Where it is not smooth: ``""`` nowhere, ``"zero"`` where the first argument vanishes, ``"second"``
        where the second one does, ``"equal"`` where the two arguments agree.
    """

    value: Callable[..., Any]
    partials: Callable[..., tuple[Any, ...]]
    arity: tuple[int, ...] = (1,)
    rough: str = ""


def integer_power(xp: Any, x: Any, exponent: int, out: Any = None) -> Any:
    """Return ``x**exponent`` for an integer exponent >= 0, by repeated squaring."""
    if exponent == 0:
        return xp.add(xp.multiply(x, 0.0), 1.0, out=out)
    if exponent == 1:
        return xp.multiply(x, 1.0, out=out)
    half = x if exponent < 4 else integer_power(xp, x, exponent // 2)
    return xp.multiply(half, half, out=out) if exponent % 2 == 0 else xp.multiply(half * half, x, out=out)


def _power(xp: Any, x: Any, exponent: float, out: Any = None) -> Any:
    if exponent != int(exponent):
        return xp.power(x, exponent, out=out)
    if exponent < 0:
        return xp.divide(1.0, integer_power(xp, x, int(-exponent)), out=out)
    return integer_power(xp, x, int(exponent), out=out)


def _leaky_relu(xp: Any, x: Any, slope: float = 0.01, out: Any = None) -> Any:
    return (xp.maximum if slope <= 1 else xp.minimum)(x, slope * x, out=out)


def _step(xp: Any, x: Any) -> Any:
    return xp.heaviside(x, 0.0)


def _density(xp: Any, x: Any) -> Any:
    return xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _swish_slope(xp: Any, x: Any) -> Any:
    p = special(xp).expit(x)
    return p * (1 + x * (1 - p))


def _sigmoid_slope(xp: Any, x: Any) -> Any:
    p = special(xp).expit(x)
    return p * (1 - p)


def _extremum_partials(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    above = _step(xp, a - b)
    return above, 1 - above


def _hermite(order: int) -> Primitive:
    """He_n by He_{n+1} = x He_n - n He_{n-1}; its derivative is n He_{n-1}."""

    def value(xp: Any, x: Any, out: Any = None, order: int = order) -> Any:
        if order < 2:
            return integer_power(xp, x, order, out=out)
        before, now = x, x * x - 1
        for n in range(2, order):
            before, now = now, x * now - n * before
        return xp.add(now, 0.0, out=out) if out is not None else now

    def partials(xp: Any, x: Any) -> tuple[Any, ...]:
        return (order * value(xp, x, order=order - 1) if order else x * 0.0,)

    return Primitive(value, partials)


PRIMITIVES: dict[str, Primitive] = {
    "+": Primitive(lambda xp, a, b, out=None: xp.add(a, b, out=out), lambda xp, a, b: (1.0, 1.0), (2,)),
    "-": Primitive(lambda xp, a, b, out=None: xp.subtract(a, b, out=out), lambda xp, a, b: (1.0, -1.0), (2,)),
    "*": Primitive(lambda xp, a, b, out=None: xp.multiply(a, b, out=out), lambda xp, a, b: (b, a), (2,)),
    "/": Primitive(
        lambda xp, a, b, out=None: xp.divide(a, b, out=out), lambda xp, a, b: (1 / b, -a / (b * b)), (2,), "second"
    ),
    "neg": Primitive(lambda xp, x, out=None: xp.negative(x, out=out), lambda xp, x: (-1.0,)),
    "**": Primitive(_power, lambda xp, x, c: (c * _power(xp, x, c - 1),), (2,)),
    "sqrt": Primitive(lambda xp, x, out=None: xp.sqrt(x, out=out), lambda xp, x: (0.5 / xp.sqrt(x),), rough="zero"),
    "exp": Primitive(lambda xp, x, out=None: xp.exp(x, out=out), lambda xp, x: (xp.exp(x),)),
    "log": Primitive(lambda xp, x, out=None: xp.log(x, out=out), lambda xp, x: (1 / x,), rough="zero"),
    "sin": Primitive(lambda xp, x, out=None: xp.sin(x, out=out), lambda xp, x: (xp.cos(x),)),
    "cos": Primitive(lambda xp, x, out=None: xp.cos(x, out=out), lambda xp, x: (-xp.sin(x),)),
    "tanh": Primitive(lambda xp, x, out=None: xp.tanh(x, out=out), lambda xp, x: (1 - xp.tanh(x) ** 2,)),
    "erf": Primitive(
        lambda xp, x, out=None: special(xp).erf(x, out=out), lambda xp, x: (2 / math.sqrt(math.pi) * xp.exp(-x * x),)
    ),
    "relu": Primitive(lambda xp, x, out=None: xp.maximum(x, 0.0, out=out), lambda xp, x: (_step(xp, x),), rough="zero"),
    "leaky_relu": Primitive(
        _leaky_relu, lambda xp, x, slope=0.01: (slope + (1 - slope) * _step(xp, x),), (1, 2), rough="zero"
    ),
    "abs": Primitive(lambda xp, x, out=None: xp.absolute(x, out=out), lambda xp, x: (xp.sign(x),), rough="zero"),
    "sign": Primitive(lambda xp, x, out=None: xp.sign(x, out=out), lambda xp, x: (x * 0.0,), rough="zero"),
    "sigmoid": Primitive(lambda xp, x, out=None: special(xp).expit(x, out=out), lambda xp, x: (_sigmoid_slope(xp, x),)),
    "softplus": Primitive(lambda xp, x, out=None: xp.logaddexp(x, 0.0, out=out), lambda xp, x: (special(xp).expit(x),)),
    "gelu": Primitive(
        lambda xp, x, out=None: xp.multiply(x, special(xp).ndtr(x), out=out),
        lambda xp, x: (special(xp).ndtr(x) + x * _density(xp, x),),
    ),
    "swish": Primitive(
        lambda xp, x, out=None: xp.multiply(x, special(xp).expit(x), out=out), lambda xp, x: (_swish_slope(xp, x),)
    ),
    "maximum": Primitive(lambda xp, a, b, out=None: xp.maximum(a, b, out=out), _extremum_partials, (2,), "equal"),
    "minimum": Primitive(
        lambda xp, a, b, out=None: xp.minimum(a, b, out=out),
        lambda xp, a, b: _extremum_partials(xp, b, a),
        (2,),
        "equal",
    ),
    **{f"h{n}": _hermite(n) for n in range(HERMITE_ORDER + 1)},
}

ALIASES = {"max": "maximum", "min": "minimum", "silu": "swish"}
OPERATORS = frozenset({"+", "-", "*", "/", "**", "neg"})
CALLABLE_NAMES = tuple(name for name in PRIMITIVES if name not in OPERATORS) + tuple(ALIASES)
