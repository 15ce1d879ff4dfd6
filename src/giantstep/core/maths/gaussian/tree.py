"""The tree of an expression: its nodes, its text, and sums and products of trees."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

OPERATORS = frozenset({"+", "-", "*", "/", "**", "neg"})
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
"""How strongly each operator binds: what binds less than its surroundings is put in
brackets.
"""
_NEGATIVE = _PRECEDENCE["neg"]
"""How strongly a negative number binds: as its sign does."""
_ATOM = 9
"""How strongly a name or a number binds: it never needs brackets."""


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
ZERO = Number(0.0)
ONE = Number(1.0)
_NEUTRAL = {"+": ZERO, "-": ZERO, "*": ONE, "/": ONE, "**": ONE}
"""The second argument that leaves the first one as it is."""
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
    """Return the text of a tree, in brackets where it binds less than `binding`.

    Calls that are no operators are written by `function`.
    """
    if isinstance(node, VariableNode):
        return node.name
    if isinstance(node, Number):
        text = _number_text(node.value)
        strength = _NEGATIVE if node.value < 0 else _ATOM
    elif node.name in OPERATORS:
        strength = _PRECEDENCE[node.name]
        text = _operator_text(node, function, strength)
    else:
        return function(node, binding)
    if strength < binding:
        return f"({text})"
    return text


def _number_text(value: float) -> str:
    """Return a whole number without its decimal point, unless it is large."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def _operator_text(
    node: Call, function: Callable[[Call, int], str], strength: int
) -> str:
    """Return the text of an operator that binds with `strength`, and its arguments."""
    if node.name == "neg":
        return "-" + render(node.arguments[0], function, strength)
    left, right = node.arguments
    # (a**b)**c and a - (b - c) need brackets, a - b - c does not. An exponent is a
    # number and needs none.
    if node.name == "**":
        base = render(left, function, strength + 1)
        return f"{base}**{render(right, function)}"
    space = ""
    if node.name in "+-":
        space = " "
    first = render(left, function, strength)
    second = render(right, function, strength + 1)
    return f"{first}{space}{node.name}{space}{second}"


def call_of(name: str, x: Node) -> Node:
    """Return a function of x, He_0 and He_1 written out."""
    if name == "h0":
        return ONE
    if name == "h1":
        return x
    return Call(name, (x,))


def power(x: Node, exponent: float) -> Node:
    """Return x to a power; a power of 0 or 1 is not written."""
    if exponent == 0:
        return ONE
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
    if neutral is None:
        return Call(name, arguments)
    if last == neutral:
        return first
    # 0 + x and 1 * x are x, but 0 - x and 1 / x are not
    if name in "+*" and first == neutral:
        return last
    return Call(name, arguments)


def _combined(name: str, a: Node, b: Node) -> Node:
    """Return a sum, difference, product or quotient of two trees; that of constants is
    one, and 0 and 1 drop out.
    """
    if isinstance(a, Number) and isinstance(b, Number):
        # a quotient by zero stays as it is written: NumPy knows what to make of it
        if b.value or name != "/":
            return Number(ARITHMETIC[name](a.value, b.value))
    if name == "-" and a == ZERO:
        return times(Number(-1.0), b)
    if name in "*/" and a == ZERO:
        return ZERO
    if name == "*" and b == ZERO:
        return ZERO
    return without_neutral(name, a, b)


_Pair = Callable[[Node, Node], Node]
plus: _Pair = partial(_combined, "+")
minus: _Pair = partial(_combined, "-")
times: _Pair = partial(_combined, "*")
over: _Pair = partial(_combined, "/")
