"""The tree of an expression: its nodes, its text, and its derivative, which is a tree again."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

OPERATORS = frozenset({"+", "-", "*", "/", "**", "neg"})
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
_NEGATIVE, _ATOM = 3, 9
"""How strongly a negative number binds, as "neg" does, and one that never needs brackets."""


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
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it."""
    yield node
    if isinstance(node, Call):
        for argument in node.arguments:
            yield from walk(argument)


def render(node: Node, function: Callable[[Call, int], str], binding: int = 0) -> str:
    """Return the text of a tree, in brackets where `binding` asks; `function` writes calls that are no operators."""
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
            text = render(node.arguments[0], function, strength + 1) + "**" + render(node.arguments[1], function)
        else:
            space = " " if strength == 1 else ""
            left = render(node.arguments[0], function, strength)
            text = f"{left}{space}{node.name}{space}{render(node.arguments[1], function, strength + 1)}"
    return f"({text})" if strength < binding else text


# --- the derivative -------------------------------------------------------------------------------

_SLOPES: dict[str, Callable[[Node], Node]] = {
    "sqrt": lambda x: _over(_HALF, call_of("sqrt", x)),
    "exp": lambda x: call_of("exp", x),
    "log": lambda x: _over(_ONE, x),
    "sin": lambda x: call_of("cos", x),
    "cos": lambda x: Call("neg", (call_of("sin", x),)),
    "tanh": lambda x: _minus(_ONE, Call("**", (call_of("tanh", x), _TWO))),
    "erf": lambda x: times(Number(2 / math.sqrt(math.pi)), call_of("exp", Call("neg", (Call("**", (x, _TWO)),)))),
    "relu": lambda x: call_of("step", x),
    "abs": lambda x: call_of("sign", x),
    "sign": lambda x: _ZERO,
    "sigmoid": lambda x: times(call_of("sigmoid", x), _minus(_ONE, call_of("sigmoid", x))),
    "softplus": lambda x: call_of("sigmoid", x),
    "gelu": lambda x: _plus(call_of("cdf", x), times(x, _density(x))),
    "swish": lambda x: times(call_of("sigmoid", x), _plus(_ONE, times(x, _minus(_ONE, call_of("sigmoid", x))))),
}
"""The derivative of every function of one argument; `sign` has none and counts as constant."""


def slope(node: Node, variable: str) -> Node:
    """Return the partial derivative of a tree; at a kink it is one of the one-sided ones or between."""
    if not isinstance(node, Call):
        return Number(float(node == VariableNode(variable)))
    x, inner = node.arguments[0], [slope(argument, variable) for argument in node.arguments]
    if node.name == "neg":
        return times(Number(-1.0), inner[0])
    if node.name in ("+", "-"):
        return (_plus if node.name == "+" else _minus)(inner[0], inner[1])
    if node.name == "*":
        return _plus(times(inner[0], node.arguments[1]), times(x, inner[1]))
    if node.name == "/":
        other = node.arguments[1]
        return _minus(_over(inner[0], other), times(inner[1], _over(x, power(other, 2.0))))
    if node.name in ("maximum", "minimum"):
        first = call_of("step", Call("-", node.arguments if node.name == "maximum" else node.arguments[::-1]))
        return _plus(times(first, inner[0]), times(_minus(_ONE, first), inner[1]))
    return times(_outer_slope(node), inner[0])


def _outer_slope(node: Call) -> Node:
    """Return the derivative of a function, or of a power, at its first argument."""
    x = node.arguments[0]
    if node.name == "**" and isinstance(node.arguments[1], Number):
        return times(node.arguments[1], power(x, node.arguments[1].value - 1))
    if node.name == "leaky_relu":
        given = node.arguments[1] if len(node.arguments) > 1 else Number(0.01)
        value = given.value if isinstance(given, Number) else 0.0
        return _plus(Number(value), times(Number(1 - value), call_of("step", x)))
    if re.fullmatch(r"h\d+", node.name):
        order = int(node.name[1:])
        return _ZERO if not order else times(Number(float(order)), call_of(f"h{order - 1}", x))
    return _SLOPES[node.name](x)


def call_of(name: str, x: Node) -> Node:
    """Return a function of x, He_0 and He_1 written out."""
    return _ONE if name == "h0" else x if name == "h1" else Call(name, (x,))


def _density(x: Node) -> Node:
    return times(Number(1 / math.sqrt(2 * math.pi)), call_of("exp", times(Number(-0.5), power(x, 2.0))))


def power(x: Node, exponent: float) -> Node:
    """Return x to a power."""
    return _ONE if exponent == 0 else x if exponent == 1 else Call("**", (x, Number(exponent)))


def without_neutral(name: str, *arguments: Node) -> Node:
    """Return the call, without + 0, - 0, * 1, / 1, ** 1 and double negation."""
    first, last = arguments[0], arguments[-1]
    if name == "neg" and isinstance(first, Call) and first.name == "neg":
        return first.arguments[0]
    neutral = _NEUTRAL.get(name)
    if neutral is not None and last == neutral:
        return first
    return last if neutral is not None and name in "+*" and first == neutral else Call(name, arguments)


def _combined(name: str, a: Node, b: Node) -> Node:
    """Return a sum, difference, product or quotient of two trees; that of constants is one, and 0 and 1 drop out."""
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
