"""The best penalty for a wanted observable, found on the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from giantstep.checks import check_number
from giantstep.design.optimise import optimize
from giantstep.errors import InputError, bad_field
from giantstep.scenario import Scenario

if TYPE_CHECKING:
    import xarray


class BestRidge(NamedTuple):
    """The best ridge and the value of the observable there."""

    ridge: float
    value: float


def best_ridge(
    scenario: Scenario, variable: str = "test_error", *, low: float = 1e-6, high: float = 1e6, **settings: Any
) -> BestRidge | xarray.Dataset:
    """Return the ridge between `low` and `high` at which an observable of the limit is smallest.

    A short cut for `optimize` over ``ridge``; at an end of the range that end is returned.

    Parameters
    ----------
    scenario : any scenario with a field ``ridge``.
    variable : a variable of its question, or one entry of it (``"test_error[time=2]"``).
    low, high : range of the ridge.
    **settings : as in `predict` (``what``, ``theory``, ...); fields may vary over a grid.

    Returns
    -------
    BestRidge or xarray.Dataset
        The pair ``(ridge, value)``; with a grid what `optimize` returns, a row for each of its points.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    >>> round(best_ridge(s, "test_mse").ridge, 4)  # noise/teacher_norm, as Bayes has it
    0.3
    >>> best_ridge(s, "test_mse", noise=[0.1, 0.3]).ridge.values.round(4).tolist()
    [0.1, 0.3]
    """
    if not isinstance(scenario, Scenario):
        raise InputError(f"The first argument must be a scenario, not a {type(scenario).__name__}.")
    if "ridge" not in scenario.numeric_fields():
        raise InputError(f"{type(scenario).__name__} has no field `ridge`.")
    low = check_number("low", low, "a number above 0", lambda value: 0 < value < np.inf)
    high = check_number("high", high, f"a number above low={low:g}", lambda value: low < value < np.inf)
    try:
        best = optimize(scenario, over={"ridge": (low, high)}, minimise=variable, **settings)
    except InputError as error:
        raise bad_field("variable", variable, error.allowed) if error.field == "minimise" else error from None
    if best["ridge"].ndim:
        return best
    if not bool(best["converged"]):
        raise InputError(f"`{variable}` was not solved at any ridge from {low:g} to {high:g}.")
    return BestRidge(float(best["ridge"]), float(best[str(best.attrs["observable"]).partition("[")[0]]))
