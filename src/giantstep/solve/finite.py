"""Numbers that left the range of floating point, said before another package refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from giantstep.errors import NotFiniteError


def require_finite(what: str, *numbers: Any) -> None:
    """Raise `NotFiniteError` where one of the arrays holds a NaN or an infinity."""
    if not all(np.isfinite(array).all() for array in numbers):
        raise NotFiniteError(f"{what} is not finite")


def brent_root(function: Callable[[float], float], low: float, high: float, **tolerances: float) -> float:
    """Return the zero between `low` and `high`, where the signs differ, by Brent's method."""

    def checked(x: float) -> float:
        value = float(function(x))
        if np.isnan(value):
            raise NotFiniteError(f"an equation is not a number at {x:.6g}")
        return value

    return float(scipy.optimize.brentq(checked, low, high, **tolerances))
