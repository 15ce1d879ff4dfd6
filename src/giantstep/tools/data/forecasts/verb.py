"""`forecast`: the learning curve of a ridge read-out on given features, with the
experiment beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray

from giantstep import __version__
from giantstep.core.base.errors import warn_user
from giantstep.core.base.jsondata import LONGEST, json_data
from giantstep.core.result.verdicts import normal_score
from giantstep.tools.data.forecasts.decomposition import forecast_curve
from giantstep.tools.data.forecasts.experiment import FitTrials, run_experiment
from giantstep.tools.data.forecasts.rowwise import Decisions, RowPoint, sum_rows
from giantstep.tools.data.forecasts.settings import (
    PreparedRows,
    Settings,
    prepare,
    read_labels,
    read_settings,
)
from giantstep.tools.data.forecasts.table import (
    VARIABLES,
    Forecast,
    known,
    tell_ridges_apart,
)
from giantstep.tools.data.forecasts.trust import (
    FEW_PER_CLASS,
    VERY_UNEVEN,
    Evidence,
    judge,
    probe_of,
    say,
)


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
    """Forecast the learning curve of a linear read-out of given features, from one data
    set and one decomposition.

    The read-out minimises ``sum_i |y_i - b - W phi_i|^2 + ridge |W|^2`` over n rows, b
    not penalised: `ridge` is scikit-learn's ``alpha``. Errors are those of fresh rows,
    squared errors summed over the outputs, for every n and ridge, n above the number N
    of rows too where the rows determine it.

    Parameters
    ----------
    features : (N, p) array or frame. Features of a network must come from rows that did
        not train it.
    y : (N,) numbers (regression) or classes, or (N, R) outputs. Two classes are fitted
        as -1 and 1, more as one-hot.
    ridge : one or several penalties at least 0; nine from 0.1 to 1000 if left out.
    samples : one or several n; twelve from 20 to 4 N if left out.
    task : ``"regression"``, ``"classes"``, or ``"auto"``: texts, truth values, two
        values and at most 50 whole numbers are classes.
    trials : real fits at every n up to 3 N/4, on random rows, tested on the others; N/2
        and N/4 are always among them and judge the forecast (up to four times as many
        there until the mean is known to 2 %). 0: no experiment.
    rows : random rows that leave-one-out looks at where there are more.
    seed : of the random rows.
    groups : one label for each row (a patient); rows of a group are never on both sides
        of the experiment.

    Returns
    -------
    Forecast
        An xarray Dataset with dims source (limit, experiment), samples, ridge;
        `best_ridge`, `samples_needed` and `plot` are methods, ``attrs["trust"]`` is the
        statement whether to believe it.

    Examples
    --------
    >>> import numpy as np
    >>> import giantstep as gs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 30))
    >>> y = X[:, 0] + rng.standard_normal(400)
    >>> t = gs.forecast(X, y, ridge=[1, 10], samples=[100, 200, 4000])
    >>> # noise 1 is left in the end
    >>> bool(abs(t.mse.sel(source="limit", samples=4000, ridge=1) - 1) < 0.2)
    True
    >>> print(t.attrs["trust"].splitlines()[0][:24])
    Mean squared error: good
    """
    labels = read_labels(y, task)
    settings = read_settings(labels, ridge, samples, groups, trials, rows, seed)
    prepared = prepare(features, labels, settings)
    by_size, probes = run_experiment(prepared)
    surface = compute_surface(
        prepared, [*settings.samples, *probes, prepared.decomposition.rows]
    )
    table = lay_out(
        prepared,
        surface,
        by_size,
        _evidence(prepared, surface, [by_size[size] for size in probes]),
    )
    _warn(table)
    return table


def _warn(table: Forecast) -> None:
    """Warn where points are missing or the forecast is not to be trusted."""
    said = []
    missing = int((~table["converged"]).sum())
    if missing:
        reasons = dict.fromkeys(
            str(text) for text in table["status"].values.ravel() if str(text)
        )
        why = "; ".join(list(reasons)[:3])
        said.append(
            f"{missing} of {table['converged'].size} points were not computed: {why}."
        )
    numbers = json.loads(table.attrs["trust_numbers"])
    for variable, verdicts in (
        ("mse", numbers["verdicts"]),
        ("error", numbers.get("error_verdicts")),
    ):
        if verdicts and all(text == "do not trust" for text in verdicts):
            said.append(
                f"Do not trust this forecast of {variable}: it missed real fits on half"
                " or a quarter of the rows by more than 8 % at every ridge (see"
                " attrs['trust'])."
            )
    for text in said:
        warn_user(text)


# -- The forecast at all sample sizes and ridges ---------------------------------------


DIMS: tuple[str, ...] = ("samples", "ridge")
BOTH = ("mse", "error", "train_mse")
"""Columns that the experiment measures, too."""
ALONE = ("mse_se", "error_se", "mse_se_total", "error_se_total")
"""Columns of the forecast that are found under source="limit", as what they belong
to.
"""
OF_CLASSES = ("error", "error_se", "error_se_total", "error_verdict", "approximate")
BY_RIDGE = ("loo_over_gcv", "loo_z", "leverage_cv")
"""Columns at N rows on which verdicts rest."""
OF_TRIALS = {
    "stderr": "standard error of the trials of {}",
    "gap": "{}: experiment minus limit",
    "z": "{}: gap in standard errors of the trials, as a normal score",
}
"""Ends of the names of columns that only a comparison has -> their meaning."""


def compute_surface(prepared: PreparedRows, sizes: Sequence[int]) -> xarray.Dataset:
    """Return the forecast at all different sizes times ridges; misclassified shares are
    NaN for regression.

    The attribute ``outliers`` are the five kept rows of largest leverage, at N rows and
    the ridge in the middle.
    """
    decomposition = prepared.decomposition
    classes = prepared.labels.classes
    settings = prepared.settings
    outliers = list[int]()
    distinct = np.unique(np.asarray(sizes, dtype=np.int64))
    n, ridge = (
        axis.ravel()
        for axis in np.meshgrid(distinct.astype(float), settings.ridges, indexing="ij")
    )
    curve = forecast_curve(decomposition, n, ridge)
    errors = np.full((2, len(n)), np.nan)
    if classes is None:
        decisions = None
    else:
        decisions = Decisions(curve, classes[decomposition.kept], settings.seed)
    middle = settings.ridges[len(settings.ridges) // 2]

    def visit(point: int, rows: RowPoint) -> None:
        if decisions is not None:
            errors[:, point] = decisions.error(point, rows)
        if n[point] == decomposition.rows and ridge[point] == middle:
            outliers.extend(decomposition.kept[np.argsort(rows.diagonal)[:5]].tolist())

    sums = sum_rows(curve, visit)
    status = curve.status.astype(object)
    for point in np.flatnonzero(sums.undefined > 0):
        status[point] = (
            f"{int(sums.undefined[point])} rows of leverage 1 cannot be left out (gcv"
            " only); use a larger ridge"
        )
    known = {**vars(curve), **vars(sums), **dict(zip(("error", "error_se"), errors))}
    known |= {"status": status.astype(str), "converged": np.isfinite(sums.mse)}
    names = [name for name in (*VARIABLES, *BY_RIDGE[1:]) if name in known]
    columns = {name: (DIMS, known[name].reshape(len(distinct), -1)) for name in names}
    return xarray.Dataset(
        columns,
        {"samples": distinct, "ridge": settings.ridges},
        {"outliers": tuple(outliers)},
    )


def _evidence(
    prepared: PreparedRows, surface: xarray.Dataset, probes: Sequence[FitTrials]
) -> Evidence:
    count = prepared.decomposition.rows
    classes = prepared.labels.classes
    samples = prepared.settings.samples
    mse, error = (
        tuple(
            probe_of(fits, name, surface[name].sel(samples=fits.samples).values)
            for fits in probes
        )
        for name in ("mse", "error")
    )
    if classes is None:
        rarest = 1.0
    else:
        rarest = float(np.bincount(classes).min()) / count
    few = samples[samples * rarest < FEW_PER_CLASS]
    return Evidence(
        probes=mse,
        error_probes=() if classes is None else error,
        **{
            name: tuple(surface[name].sel(samples=count).values.tolist())
            for name in BY_RIDGE
        },
        outliers=surface.attrs["outliers"],
        duplicates=prepared.decomposition.copies,
        undetermined=float(surface["gcv"].sel(samples=samples).isnull().mean()),
        approximate=int(few.max()) if classes is not None and len(few) else 0,
    )


def lay_out(
    prepared: PreparedRows,
    surface: xarray.Dataset,
    by_size: dict[int, FitTrials],
    evidence: Evidence,
) -> Forecast:
    """Return the table with its attributes."""
    settings = prepared.settings
    count = prepared.decomposition.rows
    judged = surface.assign(_judgement(surface, count, evidence))
    left_out = OF_CLASSES if prepared.labels.classes is None else ()
    asked = judged.sel(samples=settings.samples)
    columns = {
        name: asked[name].values
        for name in VARIABLES
        if name in asked and name not in left_out
    }
    beside = _measured(columns, settings, by_size) if by_size else {}
    data: dict[str, Any] = {name: (DIMS, values) for name, values in columns.items()}
    for name in (name for name in (*BOTH, *ALONE) if name in columns):
        sides = [
            columns[name],
            *(
                [beside.pop(name, np.full_like(columns[name], np.nan))]
                if by_size
                else []
            ),
        ]
        data[name] = (("source", *DIMS), np.stack(sides))
    coords = {
        "source": ["limit", "experiment"][: 1 + bool(by_size)],
        "samples": (
            "samples",
            settings.samples,
            {"long_name": "training samples", "symbol": "n"},
        ),
        "ridge": (
            "ridge",
            settings.ridges,
            {"long_name": "ridge penalty", "symbol": "lambda"},
        ),
    }
    described = {
        name: (*column, _about(name)) for name, column in {**data, **beside}.items()
    }
    return Forecast(
        described,
        coords,
        attrs=_attributes(prepared, judged.sel(samples=count), evidence),
    )


def _about(name: str) -> dict[str, str]:
    of, _, ending = name.rpartition("_")
    symbol, meaning = VARIABLES.get(name) or ("", OF_TRIALS[ending].format(of))
    return {"long_name": meaning, **({"symbol": symbol} if symbol else {})}


def _judgement(
    surface: xarray.Dataset, rows: int, evidence: Evidence
) -> dict[str, Any]:
    """Return total standard errors, forecast section 4, the verdicts of each point and
    marks of approximations.
    """
    shape = surface["mse"].shape
    uneven = (surface["samples"] > rows) & (surface["loo_over_gcv"] > VERY_UNEVEN)
    few = surface["samples"].values <= evidence.approximate
    judged: dict[str, Any] = {
        "approximate": (DIMS, np.broadcast_to(few[:, None], shape))
    }
    for name in ("mse", "error"):
        judged[f"{name}_se_total"] = np.hypot(
            surface[f"{name}_se"], surface[name] * evidence.model_error(name)
        )
        verdicts = np.broadcast_to(
            np.array(evidence.verdicts(name), object), shape
        ).copy()
        if name == "mse":
            verdicts[uneven.values] = "do not trust; between gcv and mse"
        else:
            verdicts[uneven.values] = "do not trust"
        verdicts[~surface["converged"].values] = "not computed"
        judged[f"{name}_verdict"] = (DIMS, verdicts.astype(str))
    return judged


def _measured(
    columns: dict[str, Any], settings: Settings, by_size: dict[int, FitTrials]
) -> dict[str, Any]:
    """Return the means of the trials, and as columns their standard errors, gaps and
    z-scores, and the trials done.

    The rows are the same on both sides, so that the sampling error of the N rows
    (mse_se) is no part of a z-score.
    """
    shape = columns["mse"].shape
    done = np.zeros(shape[0], dtype=np.int64)
    measured: dict[str, Any] = {"trials_done": (("samples",), done)}
    for name in (name for name in BOTH if name in columns):
        means = np.full(shape, np.nan)
        errors = np.full(shape, np.nan)
        for place, size in enumerate(settings.samples):
            trials = by_size.get(int(size))
            if trials is not None:
                means[place], errors[place], done[place] = (
                    trials.mean(name),
                    trials.stderr(name),
                    trials.count,
                )
        gap = means - columns[name]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = normal_score(gap / errors, np.maximum(done - 1, 1)[:, None])
        measured[name] = means
        measured[f"{name}_stderr"] = (
            ("source", *DIMS),
            np.stack([np.zeros(shape), errors]),
        )
        measured[f"{name}_gap"], measured[f"{name}_z"] = (DIMS, gap), (DIMS, z)
    return measured


def _attributes(
    prepared: PreparedRows, at_rows: xarray.Dataset, evidence: Evidence
) -> dict[str, Any]:
    """Return what is said of the whole table; `at_rows` are its columns (ridges,) at N
    samples.
    """
    decomposition = prepared.decomposition
    labels = prepared.labels
    settings = prepared.settings
    names = ("mse",) if labels.classes is None else ("error", "mse")
    first = at_rows[names[0]].values
    spread = at_rows[f"{names[0]}_se_total"].values
    best = tell_ridges_apart(settings.ridges, first, spread)
    choice = f"best at N = {decomposition.rows}{best.doubt}"
    if np.isfinite(best):
        place = int(np.flatnonzero(settings.ridges == float(best))[0])
    else:
        place = 0
    values = {
        name: (at_rows[name].values[place], at_rows[f"{name}_se_total"].values[place])
        for name in names
    }
    numbers = {name: f"{known(*both)} (se_total)" for name, both in values.items()}
    asked = {"trials": settings.trials, "rows": settings.rows, "seed": settings.seed}
    return {
        "title": "Learning curve of a ridge read-out on given features",
        "giantstep_version": __version__,
        "family": "forecast",
        "what": "learning-curve",
        "engine": "comparison" if settings.trials else "limit",
        "figure": "forecast",
        "task": "regression" if labels.classes is None else "classes",
        "N": decomposition.rows,
        "p": decomposition.columns,
        "outputs": labels.values.shape[1],
        "classes": ", ".join(labels.names),
        "kappa_min": decomposition.kappa_min,
        # E(0) = RSS/(N - 1 - r): noise and misfit that no number of samples removes
        "noise_floor": (
            decomposition.rest / decomposition.null if decomposition.null else 0.0
        ),
        "trials": settings.trials,
        "settings": json.dumps(json_data(asked, LONGEST), allow_nan=False),
        "trust": say(evidence, settings.ridges, place, choice, numbers),
        **{
            f"verdict_{name}": judge(evidence, name, settings.ridges, place)
            for name in names
        },
        "trust_numbers": json.dumps(json_data(evidence.to_dict()), allow_nan=False),
    }
