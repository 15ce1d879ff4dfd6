"""`forecast`: the learning curve of a ridge read-out on given features, with the experiment beside it."""

from __future__ import annotations

import json
import warnings
from typing import Any

from giantstep.errors import GiantstepWarning
from giantstep.forecasts.experiment import run_experiment
from giantstep.forecasts.layout import compute_surface, lay_out
from giantstep.forecasts.preparation import prepare
from giantstep.forecasts.settings import read_labels, read_settings
from giantstep.forecasts.table import Forecast


def forecast(
    features: Any,
    y: Any,
    ridge: Any = None,
    samples: Any = None,
    task: str = "auto",
    trials: int = 8,
    rows: int = 4000,
    seed: int = 0,
    groups: Any = None,
) -> Forecast:
    """Forecast the learning curve of a linear read-out of given features, from one data set and one decomposition.

    The read-out minimises ``sum_i |y_i - b - W phi_i|^2 + ridge |W|^2`` over n rows, b not penalised: `ridge` is
    scikit-learn's ``alpha``. Errors are those of fresh rows, squared errors summed over the outputs, for every n and
    ridge, n above the number N of rows too where the rows determine it.

    Parameters
    ----------
    features : (N, p) array or frame. Features of a network must come from rows that did not train it.
    y : (N,) numbers (regression) or classes, or (N, R) outputs. Two classes are fitted as -1 and 1, more as one-hot.
    ridge : one or several penalties at least 0; nine from 0.1 to 1000 if left out.
    samples : one or several n; twelve from 20 to 4 N if left out.
    task : ``"regression"``, ``"classes"``, or ``"auto"``: texts, truth values, two values and at most 50 whole numbers
        are classes.
    trials : real fits at every n up to 3 N/4, on random rows, tested on the others; N/2 and N/4 are always among them
        and judge the forecast (up to four times as many there until the mean is known to 2 %). 0: no experiment.
    rows : random rows that leave-one-out looks at where there are more.
    seed : of the random rows.
    groups : one label for each row (a patient); rows of a group are never on both sides of the experiment.

    Returns
    -------
    Forecast
        An xarray Dataset with dims source (limit, experiment), samples, ridge; `best_ridge`, `samples_needed` and
        `plot` are methods, ``attrs["trust"]`` is the statement whether to believe it.

    Examples
    --------
    >>> import numpy as np
    >>> import giantstep as gs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 30))
    >>> y = X[:, 0] + rng.standard_normal(400)
    >>> t = gs.forecast(X, y, ridge=[1, 10], samples=[100, 200, 4000])
    >>> bool(abs(t.mse.sel(source="limit", samples=4000, ridge=1) - 1) < 0.2)  # noise 1 is left in the end
    True
    >>> print(t.attrs["trust"].splitlines()[0][:24])
    Mean squared error: good
    """
    labels = read_labels(y, task)
    settings = read_settings(labels, ridge, samples, groups, trials, rows, seed)
    prepared = prepare(features, labels, settings)
    experiment = run_experiment(prepared, settings)
    sizes = [*settings.samples, *(trials.samples for trials in experiment.probes), prepared.decomposition.rows]
    table = lay_out(prepared, settings, compute_surface(prepared, settings, sizes), experiment)
    _warn(table)
    return table


def _warn(table: Forecast) -> None:
    """Warn where points are missing or the forecast is not to be trusted."""
    said = []
    missing = int((~table["converged"]).sum())
    if missing:
        reasons = dict.fromkeys(str(text) for text in table["status"].values.ravel() if str(text))
        why = "; ".join(list(reasons)[:3])
        said.append(f"{missing} of {table['converged'].size} points were not computed: {why}.")
    numbers = json.loads(table.attrs["trust_numbers"])
    for variable, verdicts in (("mse", numbers["verdicts"]), ("error", numbers.get("error_verdicts"))):
        if verdicts and all(text == "do not trust" for text in verdicts):
            said.append(
                f"Do not trust this forecast of {variable}: it missed real fits on half or a quarter of the rows by "
                "more than 8 % at every ridge (see attrs['trust'])."
            )
    for text in said:
        warnings.warn(text, GiantstepWarning, stacklevel=3)
