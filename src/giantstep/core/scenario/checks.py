"""Checks of settings before anything runs: a number, a flag, a choice, a list; errors
name what is allowed.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from giantstep.core.base.errors import bad_field, nearest
from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.scenario.family import Setting
from giantstep.core.scenario.fields import as_number

LARGEST_COUNT = 10**8
"""Of nodes, steps, runs: more are a slip."""
MOST_TIMES = 10**7
"""Of a trajectory that shows every step."""


def check_number(
    name: str,
    value: Any,
    allowed: str,
    good: Callable[[float], bool],
    *,
    whole: bool = False,
) -> float:
    """Return a number which is `good` (and whole); else raise with what is `allowed`,
    in words.
    """
    try:
        number = as_number(value)
    except ValueError:
        raise bad_field(name, value, allowed) from None
    if (whole and not number.is_integer()) or not good(number):
        raise bad_field(name, value, allowed)
    return number


def check_whole(
    name: str, value: Any, allowed: str, least: int, most: float = math.inf
) -> int:
    """Return a whole number between two bounds, exactly, however large."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        whole = int(value)
    else:
        whole = int(check_number(name, value, allowed, math.isfinite, whole=True))
    if not least <= whole <= most:
        raise bad_field(name, value, allowed)
    return whole


def check_list(
    name: str,
    allowed: str,
    good: Callable[[Floats], bool],
    default: Any,
    value: Any = None,
) -> Floats:
    """Return real numbers that are `good` together, the `default` where there are none;
    else say what is `allowed`.
    """
    numbers = np.atleast_1d(default if value is None else value)
    if np.iscomplexobj(numbers) or numbers.ndim != 1 or not good(numbers):
        raise bad_field(
            name, value if np.ndim(value) == 0 else numbers.tolist(), allowed
        )
    return numbers.astype(float)


def every_time(steps: float) -> Integers:
    """Return the times 0 to `steps`, where every step is shown; what would only fill
    the memory is refused.
    """
    if not steps <= MOST_TIMES:
        raise bad_field(
            "steps", int(steps), f"at most {MOST_TIMES:,} where every step is shown"
        )
    return np.arange(int(steps) + 1)


def check_flags(**flags: Any) -> None:
    """Refuse what is neither True nor False."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise bad_field(name, value, "True or False")


def check_setting(name: str, setting: Setting, value: Any) -> Any:
    """Check a setting of a question and return it (lists of numbers as an array)."""
    if setting.choices:
        if not isinstance(value, str) or value not in setting.choices:
            raise bad_field(
                name,
                value,
                "one of "
                + ", ".join(setting.choices)
                + nearest(value, setting.choices),
            )
        return value
    kind = type(setting.default)
    if value is None or kind in (str, bool):
        if value is not None and not isinstance(value, kind):
            raise bad_field(name, value, "true or false" if kind is bool else "a text")
        return value
    if isinstance(setting.default, int):
        count = check_whole(name, value, "a whole number at least 1", 1)
        return check_whole(
            name,
            count,
            f"a whole number of at most {LARGEST_COUNT:,}",
            1,
            LARGEST_COUNT,
        )
    if not (isinstance(value, list | tuple) or np.ndim(value) or _is_complex(value)):
        return check_number(name, value, "a number", lambda number: True)
    return _number_list(name, value)


def _number_list(name: str, value: Any) -> Array:
    if isinstance(value, list | tuple):
        entries = value
    else:
        entries = np.atleast_1d(np.asarray(value)).tolist()
    numbers: list[complex] = []
    for entry in entries:
        try:
            number = complex(entry) if _is_complex(entry) else as_number(entry)
            if cmath.isnan(number):
                raise ValueError("a number, not NaN")
            numbers.append(number)
        except (ValueError, TypeError):
            raise bad_field(name, entry, "a number in each place of the list") from None
    if not numbers:
        raise bad_field(name, [], "a list of at least one number")
    return np.array(numbers)


def _is_complex(entry: Any) -> bool:
    """Tell complex numbers, also as files hold them: the text ``"0.5+0.1j"``."""
    return isinstance(entry, complex) or (
        isinstance(entry, str) and entry.endswith(("j", "j)"))
    )
