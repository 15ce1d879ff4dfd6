"""The tree of an expression: its nodes, its text, and its derivative, which is a tree
again.
"""

from __future__ import annotations

import importlib
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

OPERATORS = frozenset({"+", "-", "*", "/", "**", "neg"})
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
_NEGATIVE = 3
_ATOM = 9
"""How strongly a negative number binds, as "neg" does, and one that never needs
brackets.
"""


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True, slots=True)
class VariableNode:
    """``z`` or one of ``z1`` .. ``z64``."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A primitive applied to sub-trees."""

    name: str
    arguments: tuple[Node, ...]


Node = Number | VariableNode | Call
_ZERO, _ONE, _TWO, _HALF = Number(0.0), Number(1.0), Number(2.0), Number(0.5)
_NEUTRAL = {"+": _ZERO, "-": _ZERO, "*": _ONE, "/": _ONE, "**": _ONE}
ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it."""
    yield node
    if isinstance(node, Call):
        for argument in node.arguments:
            yield from walk(argument)


def render(node: Node, function: Callable[[Call, int], str], binding: int = 0) -> str:
    """Return the text of a tree, in brackets where `binding` asks; `function` writes
    calls that are no operators.
    """
    if isinstance(node, VariableNode):
        return node.name
    if isinstance(node, Number):
        whole = node.value == int(node.value) and abs(node.value) < 1e15
        text = str(int(node.value)) if whole else repr(node.value)
        strength = _NEGATIVE if node.value < 0 else _ATOM
    elif node.name not in OPERATORS:
        return function(node, binding)
    else:
        strength = _PRECEDENCE[node.name]
        if node.name == "neg":
            text = "-" + render(node.arguments[0], function, strength)
        elif node.name == "**":
            text = (
                render(node.arguments[0], function, strength + 1)
                + "**"
                + render(node.arguments[1], function)
            )
        else:
            space = " " if strength == 1 else ""
            left = render(node.arguments[0], function, strength)
            text = f"{left}{space}{node.name}{space}{render(node.arguments[1], function, strength + 1)}"  # noqa: E501
    return f"({text})" if strength < binding else text


# --- the derivative -------------------------------------------------------------------

_SLOPES: dict[str, Callable[[Node], Node]] = {
    "sqrt": lambda x: _over(_HALF, call_of("sqrt", x)),
    "exp": lambda x: call_of("exp", x),
    "log": lambda x: _over(_ONE, x),
    "sin": lambda x: call_of("cos", x),
    "cos": lambda x: Call("neg", (call_of("sin", x),)),
    "tanh": lambda x: _minus(_ONE, Call("**", (call_of("tanh", x), _TWO))),
    "erf": lambda x: times(
        Number(2 / math.sqrt(math.pi)),
        call_of("exp", Call("neg", (Call("**", (x, _TWO)),))),
    ),
    "relu": lambda x: call_of("step", x),
    "abs": lambda x: call_of("sign", x),
    "sign": lambda x: _ZERO,
    "sigmoid": lambda x: times(
        call_of("sigmoid", x), _minus(_ONE, call_of("sigmoid", x))
    ),
    "softplus": lambda x: call_of("sigmoid", x),
    "gelu": lambda x: _plus(
        call_of("cdf", x),
        times(
            x,
            times(
                Number(1 / math.sqrt(2 * math.pi)),
                call_of("exp", times(Number(-0.5), power(x, 2.0))),
            ),
        ),
    ),
    "swish": lambda x: times(
        call_of("sigmoid", x),
        _plus(_ONE, times(x, _minus(_ONE, call_of("sigmoid", x)))),
    ),
}
"""The derivative of every function of one argument; `sign` has none and counts as
constant.
"""


def slope(node: Node, variable: str) -> Node:
    """Return the partial derivative of a tree; at a kink it is one of the one-sided
    ones or between.
    """
    if not isinstance(node, Call):
        return Number(float(node == VariableNode(variable)))
    x = node.arguments[0]
    inner = [slope(argument, variable) for argument in node.arguments]
    if node.name == "neg":
        return times(Number(-1.0), inner[0])
    if node.name in ("+", "-"):
        return (_plus if node.name == "+" else _minus)(inner[0], inner[1])
    if node.name == "*":
        return _plus(times(inner[0], node.arguments[1]), times(x, inner[1]))
    if node.name == "/":
        other = node.arguments[1]
        return _minus(
            _over(inner[0], other), times(inner[1], _over(x, power(other, 2.0)))
        )
    if node.name in ("maximum", "minimum"):
        first = call_of(
            "step",
            Call(
                "-", node.arguments if node.name == "maximum" else node.arguments[::-1]
            ),
        )
        return _plus(times(first, inner[0]), times(_minus(_ONE, first), inner[1]))
    return times(_outer_slope(node.name, x, node.arguments[1:]), inner[0])


def _outer_slope(name: str, x: Node, constants: tuple[Node, ...]) -> Node:
    """Return the derivative of a function, or of a power, at its first argument."""
    if constants and isinstance(constants[0], Number):
        value = constants[0].value
    else:
        value = 0.01
    if name == "**":
        return times(Number(value), power(x, value - 1))
    if name == "leaky_relu":
        return _plus(Number(value), times(Number(1 - value), call_of("step", x)))
    if re.fullmatch(r"h\d+", name):
        order = int(name[1:])
        if not order:
            return _ZERO
        return times(Number(float(order)), call_of(f"h{order - 1}", x))
    return _SLOPES[name](x)


def call_of(name: str, x: Node) -> Node:
    """Return a function of x, He_0 and He_1 written out."""
    if name == "h0":
        return _ONE
    if name == "h1":
        return x
    return Call(name, (x,))


def power(x: Node, exponent: float) -> Node:
    """Return x to a power."""
    if exponent == 0:
        return _ONE
    if exponent == 1:
        return x
    return Call("**", (x, Number(exponent)))


def without_neutral(name: str, *arguments: Node) -> Node:
    """Return the call, without + 0, - 0, * 1, / 1, ** 1 and double negation."""
    first = arguments[0]
    last = arguments[-1]
    if name == "neg" and isinstance(first, Call) and first.name == "neg":
        return first.arguments[0]
    neutral = _NEUTRAL.get(name)
    if neutral is not None and last == neutral:
        return first
    if neutral is not None and name in "+*" and first == neutral:
        return last
    return Call(name, arguments)


def _combined(name: str, a: Node, b: Node) -> Node:
    """Return a sum, difference, product or quotient of two trees; that of constants is
    one, and 0 and 1 drop out.
    """
    if isinstance(a, Number) and isinstance(b, Number) and (b.value or name != "/"):
        return Number(ARITHMETIC[name](a.value, b.value))
    if name == "-" and a == _ZERO:
        return times(Number(-1.0), b)
    if (name in "*/" and a == _ZERO) or (name == "*" and b == _ZERO):
        return _ZERO
    return without_neutral(name, a, b)


_Pair = Callable[[Node, Node], Node]
_plus: _Pair = partial(_combined, "+")
_minus: _Pair = partial(_combined, "-")
times: _Pair = partial(_combined, "*")
_over: _Pair = partial(_combined, "/")


# -- The functions an expression may call, on NumPy or CuPy arrays; `nodes` has their de


HERMITE_ORDER = 12
"""Highest Hermite polynomial that has a name, h12."""


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
    if exponent < 2:
        if exponent:
            return xp.multiply(x, 1.0, out=out)
        return xp.add(xp.multiply(x, 0.0), 1.0, out=out)
    half = x if exponent < 4 else _power(xp, x, exponent // 2)
    if exponent % 2 == 0:
        return xp.multiply(half, half, out=out)
    return xp.multiply(half * half, x, out=out)


def _leaky_relu(xp: Any, x: Any, slope: float = 0.01, out: Any = None) -> Any:
    return (xp.maximum if slope <= 1 else xp.minimum)(x, slope * x, out=out)


def _hermite(order: int) -> Primitive:
    """He_n by He_{n+1} = x He_n - n He_{n-1}."""

    def value(xp: Any, x: Any, out: Any = None) -> Any:
        if order < 2:
            return _power(xp, x, order, out=out)
        before = x
        now = x * x - 1
        for n in range(2, order):
            before, now = now, x * now - n * before
        return xp.add(now, 0.0, out=out) if out is not None else now

    return Primitive(value)


PRIMITIVES: dict[str, Primitive] = {
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

ALIASES = {"max": "maximum", "min": "minimum", "silu": "swish"}
CALLABLE_NAMES = tuple(name for name in PRIMITIVES if name not in OPERATORS) + tuple(
    ALIASES
)

PRIMITIVES |= {
    "step": Primitive(lambda xp, x, out=None: xp.heaviside(x, 0.0, out=out)),
    "cdf": _special_ufunc("ndtr"),
}
"""Derivatives are made of two more, which no text can name: 1 above 0, and the normal
distribution function.
"""
