"""Functions of an activation at very many points: splines through tables, where there is no closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from giantstep.errors import NotFiniteError
from giantstep.gaussian.functions import Function
from giantstep.types import Floats

TABLE_STEP = 0.02
"""Distance of the points of a table of functions of the activation, in units of the scale s: 1e-12 by a quintic."""
MANY_POINTS = 2
"""Points, in units of those of a table, from which the table is used."""
Values = Callable[[Function, Floats, Floats], Floats]
"""Functions of the activation (F, N) at points A and scales s (N,)."""


def tabulated(activation: Function, values: Values, A: Floats, s: Floats) -> Floats:
    """Return functions (F, M, k, N) at points A (M, k, N), smooth on the scale s (M, k); many by a spline."""
    step = TABLE_STEP * np.minimum(1.0, np.abs(s))
    reach = np.ptp(A, axis=2) + 11 * step
    if activation.closed or not np.any(A.shape[2] * step >= MANY_POINTS * reach):
        flat = values(activation, A.reshape(-1), np.repeat(s.reshape(-1), A.shape[2]))
        return flat.reshape(-1, *A.shape)
    from scipy.interpolate import make_interp_spline

    if not np.isfinite(A).all():
        raise NotFiniteError("a shift of the neurons is not finite")
    found = []
    for points, scale, apart in zip(A.reshape(-1, A.shape[2]), s.ravel(), step.ravel()):
        table = np.arange(points.min() - 5 * apart, points.max() + 6 * apart, apart)
        tabled = values(activation, table, np.full(len(table), scale))
        if not np.isfinite(tabled).all():
            raise NotFiniteError("a function of the activation is not finite")
        found.append(make_interp_spline(table, tabled, k=5, axis=1)(points))
    return np.stack(found, axis=1).reshape(-1, *A.shape)
