"""`trials_needed`: how many trials an experiment needs to see a gap, from a small
pilot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats
from giantstep.core.result.verdicts import SEE, trials_for_gap, visible_gap
from giantstep.core.run.request import question_name
from giantstep.core.run.verbs import simulate
from giantstep.core.scenario.checks import check_number, check_whole
from giantstep.core.scenario.model import Scenario
from giantstep.tools.design.limits import read_observable
from giantstep.tools.design.tables import DesignResult

_DOUBT = 0.1
"""Probability that the pilot saw so small a spread that even `trials_at_most` do not
suffice.
"""


def trials_needed(
    scenario: Scenario,
    /,
    dim: Any = None,
    grid: Mapping[str, Any] | None = None,
    *,
    see: float = SEE,
    of: str | None = None,
    power: float = 0.9,
    pilot: int = 8,
    what: str | None = None,
    **fields: Any,
) -> DesignResult:
    """Return how many trials an experiment needs to tell a relative gap from chance,
    judged by a small pilot.

    A gap counts as seen where its z-score passes the line of `giantstep.agreement`,
    which all points of a comparison together pass once in 1,000 where there is no gap;
    with the trials returned it does so with probability `power`.

    Parameters
    ----------
    scenario, dim, grid, what, **fields : as in `simulate` (also ``seed``, ``device``).
    see : the gap, relative to the mean of the observable (``relative`` in earlier
        versions, which is still taken).
    of : a variable of the question, ``"test_error"`` if left out;
        ``"test_error[time=2]"`` is an entry.
    power : probability that a gap of that size is seen.
    pilot : trials of the pilot, at least 3.

    Returns
    -------
    xarray.Dataset
        ``trials`` for the spread the pilot saw, ``trials_at_most`` for the largest
        spread it does not exclude (nine times in ten), ``spread`` of a single trial
        relative to the mean, ``visible``, the relative gap that the pilot itself would
        have seen, and the mean of the observable with its standard error. Printing it
        gives a table.

    Examples
    --------
    >>> import giantstep as gs
    >>> s = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    >>> needed = gs.trials_needed(s, dim=50, see=0.05)
    >>> int(needed.trials) > int(gs.trials_needed(s, dim=50, see=0.1).trials) > 2
    True
    """
    if not isinstance(scenario, Scenario):
        raise InputError(
            f"The first argument must be a scenario, not a {type(scenario).__name__}."
        )
    observable = read_observable(
        "of", of, scenario.questions[question_name(scenario, what)], engine="experiment"
    )
    see = check_number(
        "see",
        fields.pop("relative", see),
        "a number above 0",
        lambda value: 0 < value < np.inf,
    )
    power = check_number(
        "power", power, "a number from 0.5 to below 1", lambda value: 0.5 <= value < 1
    )
    pilot = check_whole("pilot", pilot, "a whole number at least 3", 3)
    measured = simulate(scenario, grid, what=what, dim=dim, trials=pilot, **fields)
    values, errors = (
        observable.select(measured[name])
        for name in (observable.name, f"{observable.name}_stderr")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.asarray(
            errors.values * np.sqrt(pilot) / np.abs(values.values), dtype=np.float64
        )
    points = max(int(np.isfinite(spread).sum()), 1)
    widest = spread * np.sqrt((pilot - 1) / special.chdtri(pilot - 1, 1 - _DOUBT))
    columns: dict[str, tuple[Floats, str]] = {
        "trials": (
            trials_for_gap(spread, see, points, power),
            f"trials that show a gap of {see:g}",
        ),
        "trials_at_most": (
            trials_for_gap(widest, see, points, power),
            "the same for the largest likely spread",
        ),
        "spread": (spread, "standard deviation of one trial over the mean"),
        "visible": (
            visible_gap(spread, pilot, points, power),
            "relative gap that the pilot would have seen",
        ),
    }
    data: dict[str, Any] = {
        key: (values.dims, array, {"long_name": text})
        for key, (array, text) in columns.items()
    }
    kept = {
        str(column.name): column
        for column in (values, errors, measured["converged"], measured["status"])
    }
    settings = {"see": see, "power": power, "pilot": pilot}
    gap = f"a gap of {100 * see:g}% in {observable.text}"
    headline = (
        f"Trials at which {gap} is seen {power:.0%} of the time, by {pilot} trials"
    )
    shown = '["trials", "trials_at_most", "spread", "visible"]'
    extra = {
        "headline": headline,
        "shown": shown,
        "observable": observable.text,
        "plot": '["trials"]',
        **settings,
    }
    return DesignResult({**data, **kept}).assign_attrs(
        {**measured.attrs, "engine": "pilot", **extra}
    )
