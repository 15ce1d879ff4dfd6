"""The best penalty for a wanted observable, found on the limit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from giantstep.checks import check_number
from giantstep.errors import InputError, bad_field
from giantstep.result import DIAGNOSTICS
from giantstep.scenario import Scenario
from giantstep.study import predict

_POINTS = 17
_ROUNDS = 10


class BestRidge(NamedTuple):
    """The best ridge and the value of the observable there."""

    ridge: float
    value: float


def best_ridge(
    scenario: Scenario, variable: str = "test_error", *, low: float = 1e-6, high: float = 1e6, **settings: Any
) -> BestRidge:
    """Return the ridge between `low` and `high` at which an observable of the limit is smallest.

    The ridges of a logarithmic grid are solved in one batch, then those around the smallest value, until they
    are known to about five digits; the observable is flat there and known to far more. At an end of the range that end
    is returned.

    Parameters
    ----------
    scenario : any scenario with a field ``ridge``.
    variable : a variable of its question without dimensions of its own.
    low, high : range of the ridge.
    **settings : as in `predict` (``what``, ``theory``, ...).

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    >>> round(best_ridge(s, "test_mse").ridge, 4)  # noise/teacher_norm, as Bayes has it
    0.3
    """
    if not isinstance(scenario, Scenario):
        raise InputError(f"The first argument must be a scenario, not a {type(scenario).__name__}.")
    if "ridge" not in scenario.numeric_fields():
        raise InputError(f"{type(scenario).__name__} has no field `ridge`.")
    low = check_number("low", low, "a number above 0", lambda value: 0 < value < np.inf)
    high = check_number("high", high, f"a number above low={low:g}", lambda value: low < value < np.inf)
    left, right = np.log(low), np.log(high)
    best = BestRidge(np.nan, np.inf)
    for _ in range(_ROUNDS):
        ridges = np.exp(np.linspace(left, right, _POINTS))
        result = predict(scenario, ridge=ridges, progress=False, **settings)
        known = [str(name) for name in result.data_vars if result[name].dims == ("ridge",) and name not in DIAGNOSTICS]
        if variable not in known:
            raise bad_field("variable", variable, "one of " + ", ".join(known))
        values = result[variable].values
        if not np.isfinite(values).any():
            raise InputError(f"`{variable}` was not solved at any ridge from {low:g} to {high:g}.")
        index = int(np.nanargmin(values))
        smallest = float(values[index])
        if smallest <= best.value:
            best = BestRidge(float(ridges[index]), smallest)
        left, right = np.log(ridges[[max(index - 1, 0), min(index + 1, _POINTS - 1)]])
        flat = np.nanmax(values) - smallest <= 1e-13 * max(abs(smallest), 1e-300)
        if flat or right - left < 1e-4:
            break
    return best
