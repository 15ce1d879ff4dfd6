"""The forecast at all sample sizes and ridges, laid over the experiment as one labelled table with its statement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep import __version__
from giantstep.forecasts.curve import ForecastCurve, forecast_curve
from giantstep.forecasts.experiment import FitTrials, RealFits
from giantstep.forecasts.misclassified import Decisions, choose_wild
from giantstep.forecasts.preparation import PreparedRows
from giantstep.forecasts.rowwise import RowPoint, RowSums, sum_rows
from giantstep.forecasts.settings import Settings
from giantstep.forecasts.table import VARIABLES, Forecast, known, tell_ridges_apart
from giantstep.forecasts.trust import FEW_PER_CLASS, VERY_UNEVEN, Evidence, judge, probe_of, say
from giantstep.jsondata import LONGEST, json_data
from giantstep.lab.devices import to_numpy
from giantstep.lab.seeds import Draws
from giantstep.scores import normal_score
from giantstep.types import Array, Floats, Integers


@dataclass(frozen=True)
class Surface:
    """The forecast at all sizes and ridges, flattened size by size.

    Attributes
    ----------
    error, error_se : misclassified share and its standard error; NaN for regression.
    outliers : the five kept rows of largest leverage at N rows and the ridge in the middle.
    """

    sizes: Integers
    curve: ForecastCurve
    sums: RowSums
    error: Floats
    error_se: Floats
    outliers: tuple[int, ...]

    def at(self, values: Floats, size: int) -> Floats:
        """Return the values (ridges,) of a flattened column at one sample size."""
        row: Floats = values.reshape(len(self.sizes), -1)[int(np.searchsorted(self.sizes, size))]
        return row


def compute_surface(prepared: PreparedRows, settings: Settings, sizes: Sequence[int]) -> Surface:
    """Return the forecast at all different sizes times ridges."""
    decomposition, sample = prepared.decomposition, prepared.sample
    distinct = np.unique(np.asarray(sizes, dtype=np.int64))
    n, ridge = (axis.ravel() for axis in np.meshgrid(distinct.astype(float), settings.ridges, indexing="ij"))
    curve = forecast_curve(decomposition, n, ridge)
    error, error_se = np.full(len(n), np.nan), np.full(len(n), np.nan)
    leverage = {}
    decisions = _decisions(prepared, settings, len(n))
    middle = settings.ridges[len(settings.ridges) // 2]

    def visit(point: int, rows: RowPoint) -> None:
        if decisions is not None:
            error[point], error_se[point] = decisions.error(curve, point, rows)
        if n[point] == decomposition.rows and ridge[point] == middle:
            leverage["rows"] = to_numpy(rows.diagonal)

    sums = sum_rows(decomposition, sample, curve, prepared.xp, visit)
    largest = sample.index[np.argsort(leverage["rows"])[:5]] if leverage else np.zeros(0, dtype=np.int64)
    outliers = tuple(int(row) for row in largest)
    return Surface(distinct, curve, sums, error, error_se, outliers)


def _decisions(prepared: PreparedRows, settings: Settings, points: int) -> Decisions | None:
    classes, sample = prepared.labels.classes, prepared.sample
    if classes is None:
        return None
    outputs = prepared.labels.values.shape[1]
    work = 8.0 * prepared.decomposition.rank * outputs * points if outputs > 1 else 0.0
    count, draws = choose_wild(sample.count, work, settings.draws)
    generator: Any = Draws(settings.seed, "forecast", 0).generator("wild rows")
    wild = np.arange(sample.count) if count == sample.count else np.sort(generator.permutation(sample.count)[:count])
    return Decisions(
        prepared.decomposition, sample, classes[sample.index], draws, wild, settings.seed, prepared.xp
    )  # fmt: skip


BOTH = ("mse", "error", "train_mse")
"""Columns that the experiment measures, too."""
ALONE = ("mse_se", "error_se", "mse_se_total", "error_se_total")
"""Columns of the forecast that are found under source="limit", as what they belong to."""
OF_CLASSES = ("error", "error_se", "error_se_total", "error_verdict", "approximate")


def lay_out(prepared: PreparedRows, settings: Settings, surface: Surface, experiment: RealFits) -> Forecast:
    """Return the table with its attributes."""
    columns = _forecast_columns(prepared, settings, surface)
    evidence = _evidence(prepared, settings, surface, experiment, columns)
    _add_judgement(columns, prepared, settings, evidence)
    if prepared.labels.classes is None:
        columns = {name: values for name, values in columns.items() if name not in OF_CLASSES}
    sources = ["limit"]
    data: dict[str, Any] = {}
    if experiment.by_size:
        sources.append("experiment")
        data = _compared(columns, settings, experiment.by_size)
    for name, values in columns.items():
        if name in (*BOTH, *ALONE) and name not in data:
            nothing = [np.full_like(values, np.nan)] * (len(sources) - 1)
            data[name] = (("source", "samples", "ridge"), np.stack([values, *nothing]))
        elif name not in data:
            data[name] = (("samples", "ridge"), values)
    coords = {
        "source": sources,
        "samples": ("samples", settings.samples, {"long_name": "training samples", "symbol": "n"}),
        "ridge": ("ridge", settings.ridges, {"long_name": "ridge penalty", "symbol": "lambda"}),
    }
    described = {name: (*data[name], _about(name)) for name in sorted(data, key=_place)}
    return Forecast(described, coords, attrs=_attributes(prepared, settings, surface, evidence, experiment))


def _place(name: str) -> int:
    names = list(VARIABLES)
    return names.index(name) if name in names else len(names)


def _about(name: str) -> dict[str, str]:
    symbol, meaning = VARIABLES.get(name, ("", ""))
    for ending, words in (("_stderr", "standard error of the trials of {}"), ("_gap", "{}: experiment minus limit")):
        if name.endswith(ending):
            meaning = words.format(name.removesuffix(ending))
    if name.endswith("_z"):
        meaning = f"{name[:-2]}: gap in standard errors of the trials, as a normal score"
    return {"long_name": meaning, **({"symbol": symbol} if symbol else {})}


def _forecast_columns(prepared: PreparedRows, settings: Settings, surface: Surface) -> dict[str, Array]:
    """Return the forecast, (samples, ridges) arrays at the sizes asked for."""
    curve, sums = surface.curve, surface.sums
    flat: dict[str, Array] = {
        "mse": sums.mse, "error": surface.error, "train_mse": curve.train_mse, "mse_se": sums.mse_se,
        "error_se": surface.error_se, "gcv": curve.gcv, "bias_noise": curve.bias_noise, "variance": curve.variance,
        "kappa": curve.kappa, "df1": curve.df1, "df2": curve.df2, "loo_over_gcv": sums.loo_over_gcv,
    }  # fmt: skip
    status = curve.status.astype(object)
    for point in np.flatnonzero(sums.undefined > 0):
        status[point] = (
            f"{int(sums.undefined[point])} rows of leverage 1 cannot be left out (gcv only); use a larger ridge"
        )
    flat["status"] = status.astype(str)
    flat["converged"] = np.isfinite(sums.mse)
    chosen = np.searchsorted(surface.sizes, settings.samples)
    return {name: values.reshape(len(surface.sizes), -1)[chosen] for name, values in flat.items()}


def _evidence(
    prepared: PreparedRows, settings: Settings, surface: Surface, experiment: RealFits, columns: dict[str, Array]
) -> Evidence:
    count, sums, classes = prepared.decomposition.rows, surface.sums, prepared.labels.classes
    probes = [probe_of(trials, "mse", surface.at(sums.mse, trials.samples)) for trials in experiment.probes]
    errors = [] if classes is None else experiment.probes
    rarest = 1.0 if classes is None else float(np.bincount(classes).min()) / count
    few = settings.samples[settings.samples * rarest < FEW_PER_CLASS]
    leverages = (sums.loo_over_gcv, sums.loo_z, sums.leverage_cv)
    loo_over_gcv, loo_z, leverage_cv = (tuple(surface.at(values, count).tolist()) for values in leverages)
    return Evidence(
        probes=tuple(probes),
        error_probes=tuple(probe_of(trials, "error", surface.at(surface.error, trials.samples)) for trials in errors),
        loo_over_gcv=loo_over_gcv,
        loo_z=loo_z,
        leverage_cv=leverage_cv,
        outliers=surface.outliers,
        duplicates=prepared.duplicates,
        undetermined=float(np.mean(np.isnan(columns["gcv"]))),
        approximate=int(few.max()) if classes is not None and len(few) else 0,
    )


def _add_judgement(columns: dict[str, Array], prepared: PreparedRows, settings: Settings, evidence: Evidence) -> None:
    """Add total standard errors, forecast section 4, the verdicts of each point and marks of approximations."""
    beyond = (settings.samples > prepared.decomposition.rows)[:, None]
    for name in ("mse", "error"):
        columns[f"{name}_se_total"] = np.hypot(columns[f"{name}_se"], columns[name] * evidence.model_error(name))
        verdicts = np.broadcast_to(np.array(evidence.verdicts(name), object), columns["mse"].shape).copy()
        uneven = "do not trust; between gcv and mse" if name == "mse" else "do not trust"
        verdicts[beyond & (columns["loo_over_gcv"] > VERY_UNEVEN)] = uneven
        verdicts[~columns["converged"]] = "not computed"
        columns[f"{name}_verdict"] = verdicts.astype(str)
    few = settings.samples <= evidence.approximate
    columns["approximate"] = np.broadcast_to(few[:, None], columns["mse"].shape).copy()


def _compared(columns: dict[str, Array], settings: Settings, by_size: dict[int, FitTrials]) -> dict[str, Any]:
    """Return what both sides have, with standard errors of the trials, gaps and z-scores.

    The rows are the same on both sides, so that the sampling error of the N rows (mse_se) is no part of a z-score.
    """
    shape = columns["mse"].shape
    dims = ("source", "samples", "ridge")
    done = np.zeros(shape[0], dtype=np.int64)
    data: dict[str, Any] = {}
    for name in (name for name in BOTH if name in columns):
        means, errors = np.full(shape, np.nan), np.full(shape, np.nan)
        for place, size in enumerate(settings.samples):
            trials = by_size.get(int(size))
            if trials is not None:
                means[place], errors[place], done[place] = trials.mean(name), trials.stderr(name), trials.count
        gap = means - columns[name]
        with np.errstate(divide="ignore", invalid="ignore"):
            z = normal_score(gap / errors, np.maximum(done - 1, 1)[:, None])
        data[name] = (dims, np.stack([columns[name], means]))
        data[f"{name}_stderr"] = (dims, np.stack([np.zeros(shape), errors]))
        data[f"{name}_gap"], data[f"{name}_z"] = (dims[1:], gap), (dims[1:], z)
    data["trials_done"] = (("samples",), done)
    return data


def _attributes(
    prepared: PreparedRows,
    settings: Settings,
    surface: Surface,
    evidence: Evidence,
    experiment: RealFits,
) -> dict[str, Any]:
    decomposition, labels = prepared.decomposition, prepared.labels
    at_all = {name: surface.at(values, decomposition.rows) for name, values in _at_rows(surface).items()}
    names = ("mse",) if labels.classes is None else ("error", "mse")
    totals = {name: np.hypot(at_all[f"{name}_se"], at_all[name] * evidence.model_error(name)) for name in names}
    best = tell_ridges_apart(settings.ridges, at_all[names[0]], totals[names[0]])
    choice = f"best at N = {decomposition.rows}{best.doubt}"
    place = int(np.flatnonzero(settings.ridges == float(best))[0]) if np.isfinite(best) else 0
    numbers = {name: f"{known(at_all[name][place], totals[name][place])} (se_total)" for name in names}
    asked = {"trials": settings.trials, "rows": settings.rows, "seed": settings.seed, "device": settings.device}
    return {
        "title": "Learning curve of a ridge read-out on given features",
        "giantstep_version": __version__,
        "family": "forecast",
        "what": "learning-curve",
        "engine": "comparison" if experiment.by_size else "limit",
        "figure": "forecast",
        "task": labels.task,
        "N": decomposition.rows,
        "p": decomposition.columns,
        "outputs": labels.values.shape[1],
        "classes": ", ".join(labels.names),
        "kappa_min": decomposition.kappa_min,
        "noise_floor": decomposition.noise_floor if decomposition.null else 0.0,
        "trials": settings.trials,
        "settings": json.dumps(json_data(asked, LONGEST), allow_nan=False),
        "trust": say(evidence, settings.ridges, place, choice, numbers),
        **{f"verdict_{name}": judge(evidence, name, settings.ridges, place) for name in names},
        "trust_numbers": json.dumps(json_data(evidence.to_dict()), allow_nan=False),
    }


def _at_rows(surface: Surface) -> dict[str, Floats]:
    sums = surface.sums
    return {"mse": sums.mse, "mse_se": sums.mse_se, "error": surface.error, "error_se": surface.error_se}
