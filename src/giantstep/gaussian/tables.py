"""Functions of an activation at very many points: splines through tables, where there is no closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from giantstep.errors import NotFiniteError
from giantstep.gaussian.functions import Function
from giantstep.types import Floats

TABLE_STEP = 0.02
"""Distance of the points of a table of functions of the activation, in units of the scale s: 1e-12 by a quintic."""
TABLE_PIECE = 32
"""Steps of which tables are multiples, at both ends, so that rules of other fineness find the same one."""
MANY_POINTS = 2
"""Points, in units of those of a table, from which the table is used."""
Values = Callable[[Function, Floats, Floats], Floats]
"""Functions of the activation (F, N) at points A and scales s (N,)."""


def tabulated(activation: Function, values: Values, A: Floats, s: Floats, points: float = 0.0) -> Floats:
    """Return functions (F, M, k, N) of the activation at points A (M, k, N), smooth on the scale s (M, k).

    Many points are interpolated by a spline through a table, where the activation has no closed form; the finest rule
    that asks for the same has so many `points`.
    """
    step = TABLE_STEP * np.minimum(1.0, np.abs(s))
    reach = np.ptp(A, axis=2) + 11 * step
    if activation.closed or not np.any(max(A.shape[2], points) * step >= MANY_POINTS * reach):
        flat = values(activation, A.reshape(-1), np.repeat(s.reshape(-1), A.shape[2]))
        return flat.reshape(-1, *A.shape)
    return np.stack(
        [[_interpolated(activation, values, A[m, q], float(s[m, q])) for q in range(A.shape[1])] for m in range(len(A))]
    ).transpose(2, 0, 1, 3)


def _interpolated(activation: Function, values: Values, A: Floats, s: float) -> Floats:
    step = TABLE_STEP * min(1.0, abs(s))
    low, high = float(A.min()) - 5 * step, float(A.max()) + 6 * step
    _require_finite("a shift of the neurons", A)
    ends = TABLE_PIECE * math.floor(low / (TABLE_PIECE * step)), TABLE_PIECE * math.ceil(high / (TABLE_PIECE * step))
    return np.asarray(_table(activation, values, s, step, ends)(A))


def _require_finite(what: str, values: Floats) -> None:
    if not np.isfinite(values).all():
        raise NotFiniteError(f"{what} is not finite")


@lru_cache(maxsize=64)  # blocks times rules times times of one trajectory; about 1 MB each at most
def _table(activation: Function, values: Values, s: float, step: float, ends: tuple[int, int]) -> Any:
    """Return the spline through a table at the multiples of a step between `ends`."""
    from scipy.interpolate import make_interp_spline

    table: Floats = step * np.arange(ends[0], ends[1] + 1, dtype=np.float64)
    tabled = values(activation, table, np.full(len(table), s))
    _require_finite("a function of the activation", tabled)
    return make_interp_spline(table, tabled, k=5, axis=1)
