"""The derivative of an expression, which is a tree again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from giantstep.core.maths.gaussian.primitives import LEAK
from giantstep.core.maths.gaussian.tree import (
    ONE,
    ZERO,
    Call,
    Node,
    Number,
    VariableNode,
    call_of,
    minus,
    over,
    plus,
    power,
    times,
)

_HALF = Number(0.5)
_TWO = Number(2.0)

_SLOPES: dict[str, Callable[[Node], Node]] = {
    "sqrt": lambda x: over(_HALF, call_of("sqrt", x)),
    "exp": lambda x: call_of("exp", x),
    "log": lambda x: over(ONE, x),
    "sin": lambda x: call_of("cos", x),
    "cos": lambda x: Call("neg", (call_of("sin", x),)),
    "tanh": lambda x: minus(ONE, Call("**", (call_of("tanh", x), _TWO))),
    "erf": lambda x: times(
        Number(2 / math.sqrt(math.pi)),
        call_of("exp", Call("neg", (Call("**", (x, _TWO)),))),
    ),
    "relu": lambda x: call_of("step", x),
    "abs": lambda x: call_of("sign", x),
    "sign": lambda x: ZERO,
    "sigmoid": lambda x: times(
        call_of("sigmoid", x), minus(ONE, call_of("sigmoid", x))
    ),
    "softplus": lambda x: call_of("sigmoid", x),
    "gelu": lambda x: plus(
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
        plus(ONE, times(x, minus(ONE, call_of("sigmoid", x)))),
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
    if node.name == "+":
        return plus(inner[0], inner[1])
    if node.name == "-":
        return minus(inner[0], inner[1])
    if node.name == "*":
        y = node.arguments[1]
        return plus(times(inner[0], y), times(x, inner[1]))
    if node.name == "/":
        y = node.arguments[1]
        return minus(over(inner[0], y), times(inner[1], over(x, power(y, 2.0))))
    if node.name in ("maximum", "minimum"):
        y = node.arguments[1]
        difference = Call("-", (x, y))
        if node.name == "minimum":
            difference = Call("-", (y, x))
        # 1 where the first argument is the one that is taken
        first = call_of("step", difference)
        return plus(times(first, inner[0]), times(minus(ONE, first), inner[1]))
    return times(_outer_slope(node.name, x, node.arguments[1:]), inner[0])


def _outer_slope(name: str, x: Node, constants: tuple[Node, ...]) -> Node:
    """Return the derivative of a function, or of a power, at its first argument."""
    # the exponent of a power, or the slope of leaky_relu, which may be left out
    value = LEAK
    if constants and isinstance(constants[0], Number):
        value = constants[0].value
    if name == "**":
        return times(Number(value), power(x, value - 1))
    if name == "leaky_relu":
        return plus(Number(value), times(Number(1 - value), call_of("step", x)))
    if re.fullmatch(r"h\d+", name):
        order = int(name[1:])
        if not order:
            return ZERO
        # He_n' = n He_{n-1}
        return times(Number(float(order)), call_of(f"h{order - 1}", x))
    return _SLOPES[name](x)
