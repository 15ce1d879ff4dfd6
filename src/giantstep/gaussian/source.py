"""Expressions written out as NumPy or PyTorch source text, and their derivatives: for programs without giantstep."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal

from numpy.polynomial import hermite_e

from giantstep.gaussian.expression import Call, Node, Number, VariableNode, parse_expression
from giantstep.gaussian.primitives import OPERATORS

Language = Literal["numpy", "torch"]

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}
_ATOM = 9
_ONE, _TWO, _HALF = Number(1.0), Number(2.0), Number(0.5)

_TEXTS: dict[Language, dict[str, str]] = {
    "numpy": {
        **{name: f"np.{name}({{0}})" for name in ("sqrt", "exp", "log", "sin", "cos", "tanh", "abs", "sign")},
        **{"erf": "erf({0})", "sigmoid": "expit({0})", "cdf": "ndtr({0})", "step": "({0} > 0)"},
        **{
            "relu": "np.maximum({0}, 0)",
            "softplus": "np.logaddexp({0}, 0)",
            "leaky_relu": "np.where({0} > 0, {0}, {1})",
        },
        **{"maximum": "np.maximum({0}, {1})", "minimum": "np.minimum({0}, {1})"},
    },
    "torch": {
        **{name: f"torch.{name}({{0}})" for name in ("sqrt", "exp", "log", "sin", "cos", "tanh", "abs", "sign", "erf")},
        **{"sigmoid": "torch.sigmoid({0})", "cdf": "torch.special.ndtr({0})", "step": "({0} > 0)"},
        **{"relu": "torch.relu({0})", "softplus": "torch.nn.functional.softplus({0})"},
        **{"leaky_relu": "torch.where({0} > 0, {0}, {1})"},
        **{"maximum": "torch.maximum({0}, {1})", "minimum": "torch.minimum({0}, {1})"},
    },
}
"""How every function is written; `step` is 1 above 0 and 0 below, `cdf` the normal distribution function."""

_SLOPES: dict[str, Callable[[Node], Node]] = {
    "sqrt": lambda x: _over(_HALF, _call("sqrt", x)),
    "exp": lambda x: _call("exp", x),
    "log": lambda x: _over(_ONE, x),
    "sin": lambda x: _call("cos", x),
    "cos": lambda x: Call("neg", (_call("sin", x),)),
    "tanh": lambda x: _minus(_ONE, Call("**", (_call("tanh", x), _TWO))),
    "erf": lambda x: _times(Number(2 / math.sqrt(math.pi)), _call("exp", Call("neg", (Call("**", (x, _TWO)),)))),
    "relu": lambda x: _call("step", x),
    "abs": lambda x: _call("sign", x),
    "sigmoid": lambda x: _times(_call("sigmoid", x), _minus(_ONE, _call("sigmoid", x))),
    "softplus": lambda x: _call("sigmoid", x),
    "gelu": lambda x: _plus(_call("cdf", x), _times(x, _density(x))),
    "swish": lambda x: _times(_call("sigmoid", x), _plus(_ONE, _times(x, _minus(_ONE, _call("sigmoid", x))))),
}
"""The derivative of every function of one argument; `sign` has none and counts as constant."""


def expression_source(text: str, language: Language) -> str:
    """Return an expression as source text in its own variables.

    >>> expression_source("relu(z) - 1/sqrt(2*pi)", "numpy")
    'np.maximum(z, 0) - 0.3989422804014327'
    >>> expression_source("z1 + h2(z1*z2)", "torch")
    'z1 + ((z1*z2)**2 - 1)'
    """
    return _filled(parse_expression(text).tree, "z", language)


def slope_source(text: str, language: Language) -> str:
    """Return the derivative of an expression in z as source text.

    >>> slope_source("tanh(2*z)", "numpy")
    '(1 - np.tanh(2*z)**2)*2'
    """
    return _filled(_slope(parse_expression(text).tree), "z", language)


def expression_variables(text: str) -> tuple[str, ...]:
    """Return the variables of an expression, ``z`` or some of ``z1, z2, ...``."""
    return parse_expression(text).variables


def _filled(tree: Node, variable: str, language: Language) -> str:
    """Return the text of a tree; a constant keeps the shape of the variable."""
    text = _write(tree, language)
    return f"{text} + 0*{variable}" if isinstance(tree, Number) else text


def _write(node: Node, language: Language, binding: int = 0) -> str:
    """Return source text, in brackets where what stands around it binds more strongly."""
    if isinstance(node, VariableNode):
        return node.name
    if isinstance(node, Number):
        whole = node.value == int(node.value) and abs(node.value) < 1e15
        text, strength = str(int(node.value)) if whole else repr(node.value), 3 if node.value < 0 else _ATOM
    elif node.name in OPERATORS:
        strength = _PRECEDENCE[node.name]
        if node.name == "neg":
            text = "-" + _write(node.arguments[0], language, strength)
        elif node.name == "**":
            text = f"{_write(node.arguments[0], language, strength + 1)}**{_write(node.arguments[1], language, 1)}"
        else:
            space = " " if strength == 1 else ""
            left = _write(node.arguments[0], language, strength)
            text = f"{left}{space}{node.name}{space}{_write(node.arguments[1], language, strength + 1)}"
    else:
        written = _plain(node)
        if written is not None:
            return _write(written, language, binding)
        arguments = [_write(argument, language) for argument in node.arguments]
        if language == "torch" and node.name in ("maximum", "minimum"):  # they take tensors only
            arguments = [
                f"torch.tensor({t})" if isinstance(a, Number) else t for a, t in zip(node.arguments, arguments)
            ]
        return _TEXTS[language][node.name].format(*arguments)
    return f"({text})" if strength < binding else text


def _plain(node: Call) -> Node | None:
    """Return what stands for a function that neither library has under one name; None where both have it."""
    x = node.arguments[0]
    if node.name == "gelu":
        return _times(x, _call("cdf", x))
    if node.name == "swish":
        return _times(x, _call("sigmoid", x))
    if node.name == "leaky_relu" and len(node.arguments) == 1:
        return Call("leaky_relu", (x, _times(Number(0.01), x)))
    if node.name == "leaky_relu" and isinstance(node.arguments[1], Number):
        return Call("leaky_relu", (x, _times(node.arguments[1], x)))
    if re.fullmatch(r"h\d+", node.name):
        return _polynomial(hermite_e.herme2poly([0.0] * int(node.name[1:]) + [1.0]).tolist(), x)
    return None


def _polynomial(coefficients: list[float], x: Node) -> Node:
    """Return sum_k c_k x^k, the highest power first."""
    total: Node | None = None
    for power in reversed(range(len(coefficients))):
        value = coefficients[power]
        if not value:
            continue
        term = Number(abs(value)) if not power else _times(Number(abs(value)), _power(x, float(power)))
        if total is None:
            total = term if value > 0 else Call("neg", (term,))
        else:
            total = Call("+" if value > 0 else "-", (total, term))
    return Number(0.0) if total is None else total


def _slope(node: Node) -> Node:
    """Return the derivative of a tree in its one variable."""
    if isinstance(node, Number):
        return Number(0.0)
    if isinstance(node, VariableNode):
        return _ONE
    x, inner = node.arguments[0], [_slope(argument) for argument in node.arguments]
    if node.name == "neg":
        return _times(Number(-1.0), inner[0])
    if node.name in ("+", "-"):
        return (_plus if node.name == "+" else _minus)(inner[0], inner[1])
    if node.name == "*":
        return _plus(_times(inner[0], node.arguments[1]), _times(x, inner[1]))
    if node.name == "/":
        other = node.arguments[1]
        return _minus(_over(inner[0], other), _times(inner[1], _over(x, _power(other, 2.0))))
    if node.name in ("maximum", "minimum"):
        first = _call("step", Call("-", node.arguments if node.name == "maximum" else node.arguments[::-1]))
        return _plus(_times(first, inner[0]), _times(_minus(_ONE, first), inner[1]))
    return _times(_outer_slope(node), inner[0])


def _outer_slope(node: Call) -> Node:
    """Return the derivative of a function, or of a power, at its first argument."""
    x = node.arguments[0]
    if node.name == "**" and isinstance(node.arguments[1], Number):
        return _times(node.arguments[1], _power(x, node.arguments[1].value - 1))
    if node.name == "sign":
        return Number(0.0)
    if node.name == "leaky_relu":
        given = node.arguments[1] if len(node.arguments) > 1 else Number(0.01)
        slope = given.value if isinstance(given, Number) else 0.0
        return _plus(Number(slope), _times(Number(1 - slope), _call("step", x)))
    if re.fullmatch(r"h\d+", node.name):
        order = int(node.name[1:])
        return Number(0.0) if not order else _times(Number(float(order)), _call(f"h{order - 1}", x))
    return _SLOPES[node.name](x)


def _call(name: str, x: Node) -> Node:
    return _ONE if name == "h0" else x if name == "h1" else Call(name, (x,))


def _density(x: Node) -> Node:
    return _times(Number(1 / math.sqrt(2 * math.pi)), _call("exp", _times(Number(-0.5), _power(x, 2.0))))


def _power(x: Node, exponent: float) -> Node:
    return _ONE if exponent == 0 else x if exponent == 1 else Call("**", (x, Number(exponent)))


def _plus(a: Node, b: Node) -> Node:
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value + b.value)
    return b if a == Number(0.0) else a if b == Number(0.0) else Call("+", (a, b))


def _minus(a: Node, b: Node) -> Node:
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value - b.value)
    return a if b == Number(0.0) else _times(Number(-1.0), b) if a == Number(0.0) else Call("-", (a, b))


def _times(a: Node, b: Node) -> Node:
    if Number(0.0) in (a, b):
        return Number(0.0)
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value * b.value)
    return b if a == _ONE else a if b == _ONE else Call("*", (a, b))


def _over(a: Node, b: Node) -> Node:
    return a if a == Number(0.0) or b == _ONE else Call("/", (a, b))
