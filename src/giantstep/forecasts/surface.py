"""The forecast at all sample sizes and ridges: traces, rows, and the misclassified share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.forecasts.curve import ForecastCurve, forecast_curve
from giantstep.forecasts.misclassified import Decisions, choose_wild
from giantstep.forecasts.preparation import PreparedRows
from giantstep.forecasts.rowwise import RowPoint, RowSums, sum_rows
from giantstep.forecasts.settings import Settings
from giantstep.lab.devices import to_numpy
from giantstep.lab.seeds import Draws
from giantstep.types import Floats, Integers


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
