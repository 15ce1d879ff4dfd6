"""Expressions written out as NumPy or PyTorch source text, and their derivatives: for
programs without giantstep.
"""

from __future__ import annotations

import re
from typing import Literal

from numpy.polynomial import hermite_e

from giantstep.core.maths.gaussian.derivative import slope
from giantstep.core.maths.gaussian.expression import parse_expression
from giantstep.core.maths.gaussian.tree import (
    Call,
    Node,
    Number,
    call_of,
    power,
    render,
    times,
)

Language = Literal["numpy", "torch"]

_TEXTS: dict[Language, dict[str, str]] = {
    "numpy": {
        **{
            name: f"np.{name}({{0}})"
            for name in ("sqrt", "exp", "log", "sin", "cos", "tanh", "abs", "sign")
        },
        **{
            "erf": "erf({0})",
            "sigmoid": "expit({0})",
            "cdf": "ndtr({0})",
            "step": "({0} > 0)",
        },
        **{
            "relu": "np.maximum({0}, 0)",
            "softplus": "np.logaddexp({0}, 0)",
            "leaky_relu": "np.where({0} > 0, {0}, {1})",
        },
        **{"maximum": "np.maximum({0}, {1})", "minimum": "np.minimum({0}, {1})"},
    },
    "torch": {
        **{
            name: f"torch.{name}({{0}})"
            for name in (
                "sqrt",
                "exp",
                "log",
                "sin",
                "cos",
                "tanh",
                "abs",
                "sign",
                "erf",
            )
        },
        **{
            "sigmoid": "torch.sigmoid({0})",
            "cdf": "torch.special.ndtr({0})",
            "step": "({0} > 0)",
        },
        **{"relu": "torch.relu({0})", "softplus": "torch.nn.functional.softplus({0})"},
        **{"leaky_relu": "torch.where({0} > 0, {0}, {1})"},
        **{"maximum": "torch.maximum({0}, {1})", "minimum": "torch.minimum({0}, {1})"},
    },
}
"""How every function is written; `step` is 1 above 0 and 0 below, `cdf` the normal
distribution function.
"""


def expression_source(text: str, language: Language) -> str:
    """Return an expression as source text in its own variables.

    >>> expression_source("relu(z) - 1/sqrt(2*pi)", "numpy")
    'np.maximum(z, 0) - 0.3989422804014327'
    >>> expression_source("z1 + h2(z1*z2)", "torch")
    'z1 + ((z1*z2)**2 - 1)'
    """
    return _filled(parse_expression(text).tree, language)


def slope_source(text: str, language: Language) -> str:
    """Return the derivative of an expression in z as source text.

    >>> slope_source("tanh(2*z)", "numpy")
    '(1 - np.tanh(2*z)**2)*2'
    """
    return _filled(slope(parse_expression(text).tree, "z"), language)


def expression_variables(text: str) -> tuple[str, ...]:
    """Return the variables of an expression, ``z`` or some of ``z1, z2, ...``."""
    return parse_expression(text).variables


def _filled(tree: Node, language: Language) -> str:
    """Return the text of a tree; a constant keeps the shape of the variable."""

    def function(node: Call, binding: int) -> str:
        written = _plain(node)
        if written is not None:
            return render(written, function, binding)
        arguments = [render(argument, function) for argument in node.arguments]
        if language == "torch" and node.name in (
            "maximum",
            "minimum",
        ):  # they take tensors only
            arguments = [
                f"torch.tensor({t})" if isinstance(a, Number) else t
                for a, t in zip(node.arguments, arguments)
            ]
        return _TEXTS[language][node.name].format(*arguments)

    text = render(tree, function)
    return f"{text} + 0*z" if isinstance(tree, Number) else text


def _plain(node: Call) -> Node | None:
    """Return what stands for a function that neither library has under one name; None
    where both have it.
    """
    x = node.arguments[0]
    if node.name == "gelu":
        return times(x, call_of("cdf", x))
    if node.name == "swish":
        return times(x, call_of("sigmoid", x))
    if node.name == "leaky_relu" and len(node.arguments) == 1:
        return Call("leaky_relu", (x, times(Number(0.01), x)))
    if node.name == "leaky_relu" and isinstance(node.arguments[1], Number):
        return Call("leaky_relu", (x, times(node.arguments[1], x)))
    if re.fullmatch(r"h\d+", node.name):
        return _polynomial(
            hermite_e.herme2poly([0.0] * int(node.name[1:]) + [1.0]).tolist(), x
        )
    return None


def _polynomial(coefficients: list[float], x: Node) -> Node:
    """Return sum_k c_k x^k, the highest power first."""
    total: Node | None = None
    for exponent, value in reversed(list(enumerate(coefficients))):
        if value:
            term = times(Number(abs(value)), power(x, float(exponent)))
            if total is None:
                total = term if value > 0 else Call("neg", (term,))
            else:
                total = Call("+" if value > 0 else "-", (total, term))
    return Number(0.0) if total is None else total
