"""Formulas read from text through a whitelist; nothing is ever evaluated as Python."""

from __future__ import annotations

import ast
import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial, hermite_e

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import InputError, nearest
from giantstep.core.maths.gaussian.derivative import slope
from giantstep.core.maths.gaussian.primitives import ALIASES, CALLABLE_NAMES, PRIMITIVES
from giantstep.core.maths.gaussian.tree import (
    ARITHMETIC,
    OPERATORS,
    Call,
    Node,
    Number,
    VariableNode,
    render,
    walk,
    without_neutral,
)

LENGTH_LIMIT = 1000
DEPTH_LIMIT = 60
"""Characters of a text and levels of its tree at most: what nobody writes by hand is
refused before it costs time.
"""
ROUGH_DEPTH_LIMIT = 12
"""Levels of functions that are not smooth inside each other: finding where costs the
cube of it.
"""
EXPONENT_LIMIT = 64
VARIABLE_LIMIT = 64
DEGREE_LIMIT = 64
"""Largest exponent, number of variables and degree of a polynomial: beyond it
coefficients lose their digits.
"""
KINK_RANGE = 40.0
KINK_STEP = 1 / 200
KINK_LIMIT = 400
"""Where zeros of arguments are looked for, in standard deviations, on a grid of this
step, and how many at most.
"""

ALLOWED = (
    "numbers, pi, + - * / **, z or z1..z64, and the functions "
    + ", ".join(name for name in CALLABLE_NAMES if not re.fullmatch(r"h\d+", name))
    + ", h0..h12"
)

_VARIABLES = {"z", *(f"z{i}" for i in range(1, VARIABLE_LIMIT + 1))}
_OTHER_VARIABLES = ("x", "y", "t", "u", "X", "Z")
"""What other programs call the variable."""
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


class AffineForm(NamedTuple):
    """``constant + linear*z + factor*function(scale*z + shift)``; `parameters` of the
    function beside its argument.
    """

    function: str
    parameters: tuple[float, ...]
    factor: float
    scale: float
    shift: float
    constant: float
    linear: float


class Kink(NamedTuple):
    """A point where the expression is not smooth; ``jump`` if even its value is
    discontinuous.
    """

    position: float
    jump: bool


# --- reading --------------------------------------------------------------------------


def _refuse(text: str, reason: str) -> InputError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return InputError(f"The expression {shown!r} cannot be used: {reason}.")


def _read(text: str) -> Node:
    """Return the tree of a text; a ValueError says why there is none."""
    if len(text) > LENGTH_LIMIT:
        raise ValueError(
            f"it has {len(text)} characters and at most {LENGTH_LIMIT} are allowed"
        )
    if re.search(r"\d_\d", text):
        raise ValueError("a number is written without underscores")
    if not text.strip():
        raise ValueError(f"it is empty; allowed are {ALLOWED}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"it is not a formula; allowed are {ALLOWED}") from None
    tree = _node(body, 0)
    if _rough_depth(tree) > ROUGH_DEPTH_LIMIT:
        raise ValueError(
            "functions that are not smooth (relu, abs, max, sqrt, a quotient, ...) are"
            f" nested more than {ROUGH_DEPTH_LIMIT} levels deep"
        )
    return tree


def _node(tree: ast.expr, depth: int) -> Node:
    """Return the node of a syntax tree, constants folded."""
    if depth > DEPTH_LIMIT:
        raise ValueError(f"it is nested more than {DEPTH_LIMIT} levels deep")
    if isinstance(tree, ast.Constant):
        if isinstance(tree.value, bool) or not isinstance(tree.value, int | float):
            raise ValueError(
                f"{tree.value!r} is not a real number; allowed are {ALLOWED}"
            )
        if not abs(tree.value) <= sys.float_info.max:
            raise ValueError("it contains a number that is too large")
        return Number(float(tree.value))
    if isinstance(tree, ast.Name):
        return _name(tree.id)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
        operand = _node(tree.operand, depth + 1)
        if isinstance(tree.op, ast.UAdd):
            return operand
        return _build("neg", operand)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
        return _build(
            _BINARY[type(tree.op)],
            _node(tree.left, depth + 1),
            _node(tree.right, depth + 1),
        )
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitXor):
        raise ValueError("`^` is not allowed, powers are written `**`")
    if (
        isinstance(tree, ast.Call)
        and isinstance(tree.func, ast.Name)
        and not tree.keywords
    ):
        return _call(tree.func.id, *(_node(a, depth + 1) for a in tree.args))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
        raise ValueError(
            f"functions go by their names alone, `{tree.func.attr}` for"
            f" `{ast.unparse(tree.func)}`"
        )
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(tree).__name__).lower()
    raise ValueError(
        f"it contains Python syntax that is not allowed ({kind}); allowed are {ALLOWED}"
    )


def _name(name: str) -> Node:
    if name == "pi":
        return Number(math.pi)
    if name in _VARIABLES:
        return VariableNode(name)
    if name in CALLABLE_NAMES:
        raise ValueError(
            f"`{name}` is a function and needs an argument, as in `{name}(z)`"
        )
    raise _unknown(name)


def _unknown(name: str) -> ValueError:
    if name in _OTHER_VARIABLES:
        hint = " (the variable is `z`)"
    else:
        hint = nearest(name, [*CALLABLE_NAMES, "pi"])
    return ValueError(f"the name `{name}` is not known{hint}; allowed are {ALLOWED}")


def _call(name: str, *arguments: Node) -> Node:
    if name not in CALLABLE_NAMES:
        raise _unknown(name)
    name = ALIASES.get(name, name)
    arity = PRIMITIVES[name].arity
    if len(arguments) not in arity:
        counts = " or ".join(map(str, arity))
        raise ValueError(f"`{name}` takes {counts} argument(s), not {len(arguments)}")
    if name == "leaky_relu" and not all(isinstance(a, Number) for a in arguments[1:]):
        raise ValueError("the slope of `leaky_relu` must be a constant number")
    return _build(name, *arguments)


def _build(name: str, *arguments: Node) -> Node:
    """Return a call; that of constants is one."""
    if name == "**" and not (
        isinstance(arguments[1], Number) and abs(arguments[1].value) <= EXPONENT_LIMIT
    ):
        raise ValueError(
            f"an exponent must be a constant number of size at most {EXPONENT_LIMIT}"
        )
    if name == "/" and arguments[1] == Number(0.0):
        raise ValueError("it divides by zero")
    values = [np.float64(a.value) for a in arguments if isinstance(a, Number)]
    if len(values) < len(arguments):
        return without_neutral(name, *arguments)
    with np.errstate(all="ignore"):
        result = float(PRIMITIVES[name].value(np, *values))
    if not math.isfinite(result):
        raise ValueError("one of its constants is not a finite number")
    return Number(result)


# --- walking --------------------------------------------------------------------------


def _written(node: Call, binding: int) -> str:
    arguments = ", ".join(render(argument, _written) for argument in node.arguments)
    return f"{node.name}({arguments})"


def _value(node: Node, values: Mapping[str, Any], xp: Any, out: Any = None) -> Any:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, VariableNode):
        return values[node.name]
    arguments = [_value(a, values, xp) for a in node.arguments]
    if out is None and isinstance(node.arguments[0], Call) and len(node.arguments) == 1:
        fresh = arguments[0]
        if isinstance(fresh, xp.ndarray) and fresh.dtype.kind == "f":
            out = fresh
        else:
            out = None
    return PRIMITIVES[node.name].value(xp, *arguments, out=out)


def evaluate_node(node: Node, values: Mapping[str, Any]) -> Any:
    """Return the value of a sub-tree at one array per variable, NaN or inf without a
    warning.
    """
    with np.errstate(all="ignore"):
        return _value(node, values, np)


def degree(node: Node, only: str | None = None) -> int | None:
    """Degree of a polynomial sub-tree (in one variable only), a bound where terms
    cancel; None if it is none.
    """
    if isinstance(node, Number):
        return 0
    if isinstance(node, VariableNode):
        return int(only is None or node.name == only)
    known = [
        order
        for argument in node.arguments
        if (order := degree(argument, only)) is not None
    ]
    if len(known) < len(node.arguments):
        return None
    if node.name in ("+", "-", "neg"):
        return max(known)
    if node.name == "*":
        return sum(known)
    if node.name == "/":
        return known[0] if known[1] == 0 else None
    if node.name == "**" and isinstance(node.arguments[1], Number):
        exponent = node.arguments[1].value
        if exponent >= 0 and exponent == int(exponent):
            return known[0] * int(exponent)
        return None
    if re.fullmatch(r"h\d+", node.name):
        return known[0] * int(node.name[1:])
    return None


def affine(node: Node, names: tuple[str, ...]) -> tuple[np.ndarray, float] | None:
    """Return (v, c) where the sub-tree is <v, z> + c in the named variables, else
    None.
    """
    order = degree(node)
    if order is None or order > 1:
        return None
    origin = dict.fromkeys(names, 0.0)
    slopes = np.array(
        [_value(slope(node, name), origin, np) for name in names], dtype=float
    )
    return slopes, float(_value(node, origin, np))


def _expanded(node: Node) -> Polynomial:
    """Return a sub-tree that has a degree as a polynomial."""
    if isinstance(node, Number):
        return Polynomial([node.value])
    if isinstance(node, VariableNode):
        return Polynomial([0.0, 1.0])
    first, *rest = (_expanded(argument) for argument in node.arguments)
    if node.name == "neg":
        return -first
    if node.name == "/":
        return first / rest[0].coef[0]
    if node.name == "**":
        return first ** int(rest[0].coef[0])
    if node.name in ARITHMETIC:
        return ARITHMETIC[node.name](first, rest[0])
    total = Polynomial([0.0])
    for coefficient in hermite_e.herme2poly([0.0] * int(node.name[1:]) + [1.0])[::-1]:
        total = total * first + coefficient
    return total


def affine_of_calls(
    node: Node, names: tuple[str, ...]
) -> tuple[np.ndarray, float, list[tuple[float, Call]]] | None:
    """Return (v, c, [(factor, call), ...]) where a tree is <v, z> + c + sum of
    factor*call, else None.
    """
    calls: list[Call] = []

    def opened(node: Node) -> Node:
        """Return the tree with variables f0, f1, ... for the functions."""
        if not isinstance(node, Call):
            return node
        if node.name in OPERATORS:
            return Call(node.name, tuple(map(opened, node.arguments)))
        calls.append(node)
        return VariableNode(f"f{len(calls) - 1}")

    tree = opened(node)
    form = affine(tree, (*names, *(f"f{i}" for i in range(len(calls)))))
    if form is None:
        return None
    return (
        form[0][: len(names)],
        form[1],
        list(zip(form[0][len(names) :].tolist(), calls)),
    )


# --- the public object ----------------------------------------------------------------


@dataclass(frozen=True)
class Expression:
    """A formula in ``z`` or in ``z1`` .. ``zk``, made by :func:`parse_expression`."""

    tree: Node

    @cached_property
    def text(self) -> str:
        """The canonical text: constants folded, single spaces; reading it again gives
        the same expression.
        """
        return render(self.tree, _written)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The variables that occur, z1 before z2 before z10."""
        names = {
            node.name for node in walk(self.tree) if isinstance(node, VariableNode)
        }
        return tuple(sorted(names, key=lambda name: (len(name), name)))

    def __str__(self) -> str:
        return self.text

    def evaluate(self, values: Mapping[str, Any], xp: Any = np, out: Any = None) -> Any:
        """Return the value at one array per variable, NaN or inf without a warning; the
        last operation writes `out`.
        """
        # whatever averages a function looks at its deadline at every block of values
        check_time()
        with np.errstate(all="ignore"):
            result = _value(self.tree, values, xp, out)
        if isinstance(self.tree, Call) and out is None:
            return result
        return _fill(result, values, xp, out)

    def derivative(
        self, values: Mapping[str, Any], with_respect_to: str = "z", xp: Any = np
    ) -> Any:
        """Return the exact partial derivative at ``values``; at a kink one of the
        one-sided ones or between.
        """
        with np.errstate(all="ignore"):
            return _fill(
                _value(self._slopes.get(with_respect_to, Number(0.0)), values, xp),
                values,
                xp,
                None,
            )

    @cached_property
    def _slopes(self) -> dict[str, Node]:
        return {name: slope(self.tree, name) for name in self.variables}

    def kinks(self) -> tuple[Kink, ...]:
        """Return where an expression in one variable need not be smooth, increasing,
        also if roughness cancels.
        """
        name = self.variables[0] if self.variables else "z"
        positions = sorted(
            root for node in rough_arguments(self.tree) for root in roots(node, name)
        )
        distinct = [
            p
            for i, p in enumerate(positions)
            if i == 0 or p - positions[i - 1] > 1e-9 * max(1, abs(p))
        ]
        if len(distinct) > KINK_LIMIT:
            raise _refuse(
                self.text, f"it is not smooth at more than {KINK_LIMIT} points"
            )
        return tuple(
            Kink(p, is_jump(lambda x: self.evaluate({name: x}), p)) for p in distinct
        )

    def as_polynomial(self) -> np.ndarray | None:
        """Return the coefficients in one variable, constant first, or None if it is no
        polynomial (degree <= 64).
        """
        order = degree(self.tree)
        if order is None or order > DEGREE_LIMIT:
            return None
        return _expanded(self.tree).trim().coef

    def as_affine_of_known(self) -> AffineForm | None:
        """Return c0 + c1*z + c2*f(a*z + b), with f one named function, or None if it
        has no such form.
        """
        names = (self.variables[0] if self.variables else "z",)
        outer = affine_of_calls(self.tree, names)
        if outer is None or len(outer[2]) != 1:
            return None
        linear, constant, [(factor, call)] = outer
        inner = affine(call.arguments[0], names)
        if (
            call.name in ("maximum", "minimum")
            or re.fullmatch(r"h\d+", call.name)
            or inner is None
            or not inner[0][0]
        ):
            return None
        parameters = tuple(a.value for a in call.arguments[1:] if isinstance(a, Number))
        return AffineForm(
            call.name,
            parameters,
            factor,
            float(inner[0][0]),
            inner[1],
            constant,
            float(linear[0]),
        )


def parse_expression(text: str) -> Expression:
    """Read ``text`` as a formula; anything that is not on the whitelist is an
    InputError.
    """
    if not isinstance(text, str):
        raise InputError(f"An expression must be a string, but is {text!r}.")
    try:
        expression = Expression(_read(text))
    except ValueError as error:
        raise _refuse(text, str(error)) from None
    if "z" in expression.variables and len(expression.variables) > 1:
        raise _refuse(text, "it mixes z with z1, z2, ...; use z alone or z1..zk")
    if len(expression.text) > LENGTH_LIMIT:
        raise _refuse(
            text,
            f"with its constants written out it is longer than {LENGTH_LIMIT}"
            " characters",
        )
    return expression


def _fill(result: Any, values: Mapping[str, Any], xp: Any, out: Any) -> Any:
    """Give a constant or a bare variable the common shape of the values, in an array of
    its own.
    """
    if out is not None:
        if result is not out:
            out[...] = result
        return out
    shapes = [np.shape(v) for v in values.values()]
    if len(shapes) == 1:
        shape = shapes[0]
    else:
        shape = np.broadcast_shapes(*shapes)
    if np.shape(result) == shape and not any(result is v for v in values.values()):
        return result
    dtype = xp.result_type(*values.values()) if values else float
    filled = xp.empty(shape, dtype=dtype if np.dtype(dtype).kind == "f" else float)
    filled[...] = result
    return filled


# --- where it is not smooth -----------------------------------------------------------


def rough_arguments(tree: Node) -> Iterator[Node]:
    """Yield the sub-trees at whose zeros some part of the tree is not smooth."""
    for node in walk(tree):
        argument = _rough_argument(node)
        if argument is not None:
            yield argument


def _rough_argument(node: Node) -> Node | None:
    """Return the sub-tree at whose zeros a node itself is not smooth, if there is
    one.
    """
    if not isinstance(node, Call):
        return None
    rough = PRIMITIVES[node.name].rough
    if node.name == "**" and isinstance(node.arguments[1], Number):
        exponent = node.arguments[1].value
        rough = "zero" if exponent < 0 or exponent != int(exponent) else ""
    if rough == "zero":
        return node.arguments[0]
    if rough == "second":
        return node.arguments[1]
    if rough == "equal":
        return without_neutral("-", *node.arguments)
    return None


def _rough_depth(node: Node) -> int:
    """Return how many nodes that are not smooth lie inside each other: finding where
    costs their cube.
    """
    if not isinstance(node, Call):
        return 0
    own = not isinstance(_rough_argument(node), Number | None)
    return own + max(map(_rough_depth, node.arguments))


def roots(node: Node, name: str) -> list[float]:
    """Return the zeros of a sub-tree in one variable: exact where it is affine, else
    those within [-40, 40].
    """
    coefficients = Expression(node).as_polynomial()
    if coefficients is not None and len(coefficients) <= 2:
        if len(coefficients) == 2:
            return [-float(coefficients[0] / coefficients[1]) + 0.0]
        return []

    def value(x: np.ndarray) -> np.ndarray:
        return np.nan_to_num(_value(node, {name: x}, np) + 0 * x)

    def derivative(x: np.ndarray) -> np.ndarray:
        return np.nan_to_num(_value(slope(node, name), {name: x}, np) + 0 * x)

    grid = np.linspace(-KINK_RANGE, KINK_RANGE, round(2 * KINK_RANGE / KINK_STEP) + 1)
    with np.errstate(all="ignore"):
        crossings = _sign_changes(value, grid)
        turning = _sign_changes(derivative, grid)
        touching = turning[np.abs(value(turning)) <= 1e-13 * (1 + turning**2)]
        zeros = np.concatenate([crossings, touching])
        # an argument that vanishes on a whole interval is no kink there, nor is its
        # rounding noise
        around = np.maximum(np.abs(value(zeros - 1e-3)), np.abs(value(zeros + 1e-3)))
        zeros = zeros[around > np.maximum(1e-14, 100 * np.abs(value(zeros)))]
    return [float(x) + 0.0 for x in zeros]


def _sign_changes(f: Any, grid: np.ndarray) -> np.ndarray:
    """Bisect every grid interval at whose ends ``f`` has different signs (zero is a
    sign of its own).
    """
    signs = np.sign(f(grid))
    change = np.flatnonzero(signs[1:] != signs[:-1])
    low = grid[change]
    high = grid[change + 1]
    sign = signs[change]
    for _ in range(60):
        middle = 0.5 * (low + high)
        left = np.sign(f(middle)) == sign
        low = np.where(left, middle, low)
        high = np.where(left, high, middle)
    exact = np.sign(f(high)) == 0
    return np.where(
        exact, high, np.where(np.sign(f(low)) == 0, low, 0.5 * (low + high))
    )


def is_jump(f: Any, position: float) -> bool:
    """Tell whether the one-sided limits of ``f`` differ, from differences over widths
    2e-4 and 2e-9.
    """
    with np.errstate(all="ignore"):
        widths = max(1.0, abs(position)) * np.array([1e-4, 1e-9])
        above = np.asarray(f(position + widths))
        below = np.asarray(f(position - widths))
    wide, narrow = np.abs(above - below)
    return bool(narrow > 0.5 * wide and narrow > 1e-6 * np.max(np.abs([above, below])))
