"""Data as strict JSON holds it: "inf" and "-inf" for infinity, null for NaN; and
back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LONGEST = 1000
"""Entries of a list that are written out where it only says how something was made."""


def json_number(value: float) -> float | str | None:
    """Return a number as JSON holds it."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    if value > 0:
        return "inf"
    return "-inf"


def json_data(value: Any, longest: float = math.inf) -> Any:
    """Return nested data as JSON holds it; lists of more than `longest` entries are
    summed up.
    """
    if isinstance(value, np.generic) or (hasattr(value, "ndim") and value.ndim == 0):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(name): json_data(inner, longest) for name, inner in value.items()}
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        if len(value) > longest:
            return {
                "first": json_data(value[0], longest),
                "last": json_data(value[-1], longest),
                "num": len(value),
            }
        return [json_data(inner, longest) for inner in value]
    if isinstance(value, float):
        return json_number(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)


def with_infinity(data: Any) -> Any:
    """Return JSON data with infinity as a number."""
    if isinstance(data, dict):
        return {name: with_infinity(inner) for name, inner in data.items()}
    if isinstance(data, list):
        return [with_infinity(inner) for inner in data]
    return float(data) if data in ("inf", "-inf") else data
