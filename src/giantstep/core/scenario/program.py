"""Pieces of a program without giantstep, which a family puts together: its functions
and one trial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.maths.gaussian.source import (
    Language,
    expression_source,
    expression_variables,
    slope_source,
)

if TYPE_CHECKING:
    from giantstep.core.maths.gaussian import Function, Target


@dataclass(frozen=True)
class Program:
    """What the program of one scenario does; `script` writes the rest around it.

    Attributes
    ----------
    sizes : name -> (source text of its value, what it is), in the order in which they
        are set.
    functions : source text of the functions that a trial needs.
    trial : source text of ``def trial(...)``, which returns a dictionary of the
        variables.
    variables : the variables that a trial returns, each judged by
        `giantstep.agreement`.
    index : own dimension of a variable -> its coordinates.
    imports : further lines of imports.
    """

    sizes: Mapping[str, tuple[str, str]]
    functions: str
    trial: str
    variables: Sequence[str]
    index: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    imports: Sequence[str] = ()


def target_source(target: Target, lang: Language) -> str:
    """Return the function ``target(z)`` of an array (n, r) as source text; a callable
    is refused.
    """
    text = _expression_of(target, "target")
    variables = expression_variables(text)
    columns = [f"z[:, {int(variable[1:] or 1) - 1}]" for variable in variables] or [
        "z[:, 0]"
    ]
    names = variables or ("z",)
    return (
        f"def target(z):  # {target.name}\n"
        f"    {', '.join(names)} = {', '.join(columns)}\n"
        f"    return {expression_source(text, lang)}\n"
    )


def floats(values: object) -> str:
    """Return numbers, or nested lists of them, as source text that PyTorch reads as
    floating-point numbers, too.
    """
    return str(np.asarray(values, dtype=float).tolist())


def activation_source(activation: Function, lang: Language, *, slope: bool) -> str:
    """Return ``activation(z)``, and with `slope` its derivative ``slope(z)``, as source
    text; a callable is refused.
    """
    text = _expression_of(activation, "activation")
    value = f"def activation(z): return {expression_source(text, lang)}  # sigma\n"
    return value + (
        f"def slope(z): return {slope_source(text, lang)}  # its derivative\n"
        if slope
        else ""
    )


def _expression_of(function: Function | Target, field_name: str) -> str:
    if function.expression is None:
        raise bad_field(
            field_name,
            function.name,
            "an expression where a script is written (a callable has no text)",
        )
    return function.expression


def refuse_torch(family: str, lang: Language) -> None:
    """Refuse PyTorch where a family's algorithm has no gradient for it to take."""
    if lang == "torch":
        raise bad_field(
            "lang",
            lang,
            f"numpy for the family {family}, whose experiment has no gradient steps",
        )


_TORCH_WORDS = {
    r"\brng\.standard_normal\(": "torch.randn(",
    r"\brng\.random\(": "torch.rand(",
    r"\(rng, ": "(",
    r"\(rng\)": "()",
    r"\bnp\.array\(": "torch.tensor(",
    r"\bnp\.": "torch.",
}


def to_torch(text: str) -> str:
    """Return source text written for NumPy in the words of PyTorch; the generator is
    the global one there.
    """
    for pattern, word in _TORCH_WORDS.items():
        text = re.sub(pattern, word, text)
    return text


def number(value: Any) -> str:
    """Return a number, or a nested list of numbers, as source text."""
    if isinstance(value, float | int):
        if float(value).is_integer() and abs(value) < 1e15:
            return repr(int(value))
        return repr(float(value))
    return (
        "["
        + ", ".join(
            map(
                number,
                np.asarray(value).tolist() if isinstance(value, np.ndarray) else value,
            )
        )
        + "]"
    )


def lines(*parts: str | bool | None) -> str:
    """Join pieces of source text, leaving out those that are not there."""
    return "\n".join(part for part in parts if isinstance(part, str))
