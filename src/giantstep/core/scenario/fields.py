"""Fields of a scenario: what one may hold (a number, a list, a function, a part), its
symbol, its meaning and its bounds.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np
import pydantic
from pydantic import BaseModel, BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic.fields import FieldInfo

from giantstep.core.base.errors import bad_field
from giantstep.core.base.jsondata import json_number
from giantstep.core.base.types import Array, Booleans
from giantstep.core.maths.gaussian import Function, Target, as_function, as_target
from giantstep.core.scenario.lists import value_annotation


def field(
    symbol: str,
    meaning: str,
    *,
    default: Any = ...,
    infinite: bool = False,
    only: Mapping[str, Sequence[str]] | None = None,
    **bounds: Any,
) -> Any:
    """Declare a field of a scenario or of a part.

    Parameters
    ----------
    symbol : as formulas write it, with what it is: ``"alpha = n/d"``.
    meaning : in a few words.
    default : the value where none is given; a field without one must be given.
    infinite : whether infinity is allowed.
    only : another field -> its values with which this one matters.
    **bounds : ``gt``, ``ge``, ``lt``, ``le``.
    """
    extra: dict[str, Any] = {"symbol": symbol, "infinite": infinite}
    if only is not None:
        extra["only"] = {name: list(values) for name, values in only.items()}
    return pydantic.Field(
        default, description=meaning, json_schema_extra=extra, **bounds
    )


# -- what a field may hold -------------------------------------------------------------


LARGEST_WHOLE = 2**53
"""Whole numbers from here on are not all floating-point numbers, as which points hold
them.
"""


def as_number(value: Any) -> float:
    """Return a real number as a float; text, true/false and NaN raise ValueError saying
    what is wanted.
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    # JSON has no infinity of its own
    if isinstance(value, str) and value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise ValueError("a number")
    if math.isnan(value):
        raise ValueError("a number, not NaN")
    # minus zero becomes zero: the same point has the same content
    return float(value) + 0.0


def _as_integer(value: Any) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise ValueError("a whole number")
    if abs(int(value)) >= LARGEST_WHOLE:
        raise ValueError("a whole number below 2**53")
    return int(value)


def _as_numbers(value: Any) -> tuple[float, ...]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ValueError("a list of numbers")
    try:
        entries = tuple(as_number(item) for item in value)
    except ValueError:
        raise ValueError("a list of numbers") from None
    if any(map(math.isinf, entries)):
        raise ValueError("a list of finite numbers")
    return entries


Number = Annotated[
    float, BeforeValidator(as_number), PlainSerializer(json_number, when_used="json")
]
"""A real number; `field(..., infinite=True)` lets infinity in."""
Integer = Annotated[int, BeforeValidator(_as_integer)]
"""A whole number."""
Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_numbers)]
"""A list of finite numbers; it may not vary over a grid."""


def _function_json(function: Function | Target) -> str | dict[str, str]:
    if function.expression is not None:
        return function.expression
    return {"callable": function.name, "fingerprint": function.fingerprint()}


Expression = Annotated[
    Function,
    BeforeValidator(as_function),
    PlainSerializer(_function_json, when_used="json"),
    WithJsonSchema({"type": "string", "description": "a name or an expression in z"}),
]
"""A function of one Gaussian variable: a name, an expression in ``z``, a callable, a
`giantstep.Function`.
"""
MultiIndex = Annotated[
    Target,
    BeforeValidator(as_target),
    PlainSerializer(_function_json, when_used="json"),
    WithJsonSchema(
        {"type": "string", "description": "a name or an expression in z1..zk"}
    ),
]
"""A function of up to six Gaussian variables: a name, an expression in ``z1..zk``, a
callable, a `giantstep.Target`.
"""


def allowed_types(annotation: Any) -> Iterator[Any]:
    """Yield the types (or the values of a Literal) an annotation allows."""
    origin = get_origin(annotation)
    if origin is Literal:
        yield from get_args(annotation)
        return
    if origin is tuple or (isinstance(annotation, type) and origin is None):
        yield origin or annotation
        return
    members = get_args(annotation)
    # what stands behind the type in Annotated says how it is checked
    if origin is Annotated:
        members = members[:1]
    for member in members:
        yield from allowed_types(member)


def models_allowed(info: FieldInfo) -> list[type[BaseModel]]:
    """Return the classes of parts that a field, or an entry of its list, may hold."""
    allowed = allowed_types(value_annotation(info))
    return [model for model in allowed if hasattr(model, "model_fields")]


# -- bounds ----------------------------------------------------------------------------


_BOUNDS: dict[str, tuple[str, Callable[[Any, float], Any]]] = {
    "gt": ("above", operator.gt),
    "ge": ("at least", operator.ge),
    "lt": ("below", operator.lt),
    "le": ("at most", operator.le),
}
"""Name of a bound, as pydantic has it -> how it is said, and whether values keep it."""


def bounds_of(info: FieldInfo) -> dict[str, float]:
    """Return the bounds of a numeric field by name."""
    bounds = {}
    for declared in info.metadata:
        for name in _BOUNDS:
            if hasattr(declared, name):
                bounds[name] = getattr(declared, name)
    return bounds


def within_bounds(info: FieldInfo, values: Array) -> Booleans:
    """Tell which values keep all bounds of a numeric field; NaN keeps none."""
    good = ~np.isnan(values)
    for name, bound in bounds_of(info).items():
        _, keeps = _BOUNDS[name]
        good &= keeps(values, bound)
    return good


def allowed_values(info: FieldInfo) -> str:
    """Say in words what a numeric field allows: ``"a number above 0 (inf is
    allowed)"``.
    """
    kind = "a whole number" if info.annotation is int else "a number"
    bounds = [
        f"{_BOUNDS[name][0]} {bound:g}" for name, bound in bounds_of(info).items()
    ]
    words = f"{kind} {' and '.join(bounds)}".strip()
    if allows_infinity(info):
        return f"{words} (inf is allowed)"
    return words


def allows_infinity(info: FieldInfo) -> bool:
    """Tell whether a numeric field may be infinite."""
    extra = info.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("infinite"))


def check_numbers(name: str, info: FieldInfo, values: Array) -> None:
    """Check an array of values of one numeric field against its bounds; the first bad
    one is named.
    """
    good = within_bounds(info, values)
    if not allows_infinity(info):
        good &= np.isfinite(values)
    if info.annotation is int:
        good &= values == np.round(values)
    if good.all():
        return
    bad = values[~good].flat[0]
    allowed = allowed_values(info)
    if np.isinf(bad):
        allowed += ", finite"
    raise bad_field(name, bad, allowed)
