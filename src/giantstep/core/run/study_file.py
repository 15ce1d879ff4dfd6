"""Studies in TOML files: tables, dotted names, ranges of numbers.

What lives in Python only is refused where a study is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field, nearest
from giantstep.core.base.types import Floats
from giantstep.core.scenario.checks import check_number, check_whole
from giantstep.core.scenario.family import Engine
from giantstep.core.scenario.model import from_content

ENGINES: tuple[Engine, Engine] = ("limit", "experiment")
SECTIONS = ("grid", "settings", *ENGINES)
"""Tables of a study beside that of its scenario."""
_RANGE = {"start", "stop", "num"}
"""What a table must have to be a range of numbers."""
_MOST_VALUES = 10_000_000
"""Of a range: more are a slip."""


def study_fields(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the fields of a `Study` from the tables of a file; `source` is named where
    they are broken.
    """
    check_keys("", content, ["what", "scenario", *SECTIONS])
    for name in ("scenario", *SECTIONS):
        if not isinstance(content.get(name, {}), dict):
            raise InputError(
                f"`{name}` must be a table, but is {name}={content[name]!r}."
            )
    if "scenario" not in content:
        raise InputError(f"{source} has no table [scenario]; it says what is studied.")
    tables: dict[str, Any] = {}
    for name in SECTIONS:
        table = dict(content.get(name, {}))
        if name == "grid":
            table = _dotted_grid(table)
        for key, value in table.items():
            # what has a kind is a part: a step, say
            if isinstance(value, Mapping) and "kind" not in value:
                table[key] = expand_range(key, value)
        tables[name] = table
    return {
        "scenario": from_content(content["scenario"]),
        "what": content.get("what"),
        **tables,
    }


def check_keys(table: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a name that a table of a study (the study itself: "") does not have."""
    for name in content:
        if name not in known:
            where = f"the table [{table}]" if table else "a study"
            raise InputError(
                f"There is no `{name}` in {where}{nearest(name, known)}; it may have"
                f" {', '.join(known)}."
            )


def _dotted_grid(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Write ``step.rate = [1, 2]``, which TOML reads as a table in a table, as one
    dotted name.
    """
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping) and not {*_RANGE, "kind"} & set(value):
            flat.update(_dotted_grid(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def expand_range(name: str, table: Mapping[str, Any]) -> Floats:
    """Return the numbers of ``{ start = 0.3, stop = 5.0, num = 40, scale = "log"
    }``.
    """
    check_keys(name, table, ["start", "stop", "num", "scale"])
    missing = sorted(_RANGE - set(table))
    if missing:
        raise InputError(
            f"The range of `{name}` has no `{missing[0]}`; write {{ start = 0.3, stop ="
            " 5.0, num = 40 }."
        )
    ends = {}
    for end in ("start", "stop"):
        ends[end] = check_number(
            f"{name}.{end}", table[end], "a finite number", math.isfinite
        )
    allowed = f"a whole number from 1 to {_MOST_VALUES:,}"
    num = check_whole(f"{name}.num", table["num"], allowed, 1, _MOST_VALUES)
    scale = table.get("scale", "linear")
    if scale not in ("linear", "log"):
        raise bad_field(f"{name}.scale", scale, '"linear" or "log"')
    if scale == "linear":
        return np.linspace(ends["start"], ends["stop"], num)
    for end, value in ends.items():
        if value <= 0:
            raise bad_field(f"{name}.{end}", value, "above 0 on a log scale")
    return np.geomspace(ends["start"], ends["stop"], num)


def value_for_file(name: str, value: Any) -> Any:
    """Return a value of the grid or of the settings as a file holds it; evenly spaced
    numbers as a range.
    """
    if hasattr(value, "dims"):
        raise InputError(
            f"Field `{name}` varies over a DataArray, which cannot be written to a"
            " file."
        )
    entries = value if isinstance(value, list | tuple) else [value]
    for entry in entries:
        if callable(entry) and getattr(entry, "expression", None) is None:
            raise InputError(
                f"Field `{name}` has a Python callable, which cannot be written to a"
                " file."
            )
    if isinstance(value, list | tuple):
        return [getattr(entry, "expression", entry) for entry in value]
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "f":
        return _as_range(value) or value
    return getattr(value, "expression", value)


def _as_range(numbers: Floats) -> dict[str, Any]:
    """Return numbers as a range where they are evenly spaced, to the last bit; nothing
    where they are not, or few.
    """
    if numbers.size <= 3:
        return {}
    start = float(numbers[0])
    stop = float(numbers[-1])
    table: dict[str, Any] = {"start": start, "stop": stop, "num": numbers.size}
    if np.array_equal(numbers, np.linspace(start, stop, numbers.size)):
        return table
    is_positive = min(start, stop) > 0
    if is_positive and np.array_equal(numbers, np.geomspace(start, stop, numbers.size)):
        return {**table, "scale": "log"}
    return {}
