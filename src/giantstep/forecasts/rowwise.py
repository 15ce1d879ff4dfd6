"""The forecast with rows: leave-one-out in place of even leverages, and the jackknife, forecast (5)-(10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from giantstep.forecasts.curve import ForecastCurve
from giantstep.forecasts.decomposition import Decomposition, RowSample
from giantstep.forecasts.resolvent import Resolvent
from giantstep.types import DeviceArray, Floats, Integers

CHUNK = 2**22
"""Numbers (rows times points times outputs) that are held at a time."""
LEVERAGE_ONE = 1e-8
"""1 - h below which a row determines its own fit, so that leaving it out is undefined."""


@dataclass(frozen=True)
class RowPoint:
    """One point seen by the m rows, on the device.

    Attributes
    ----------
    left_out : (m, R) leave-one-out residuals e_i of forecast (5), intercept included.
    diagonal : (m,) M_ii; `square` (m,) (M^2)_ii.
    spread : (m,) v_i of forecast (7), the variance one fit on n rows adds, in units of E; negative for n > N.
    noise : tr E; `scale` the factor c of forecast (8).
    """

    left_out: DeviceArray
    diagonal: DeviceArray
    square: DeviceArray
    spread: DeviceArray
    noise: float
    scale: float

    def take(self, index: DeviceArray) -> RowPoint:
        """Return some of the rows."""
        left_out, diagonal, square = self.left_out[index], self.diagonal[index], self.square[index]
        return RowPoint(left_out, diagonal, square, self.spread[index], self.noise, self.scale)


@dataclass(frozen=True)
class RowSums:
    """What B points keep of their rows.

    Attributes
    ----------
    mse : forecast (8); mse_se : its standard error by the jackknife, forecast (10).
    loo_over_gcv : leave-one-out over generalised cross-validation at the matched ridge, and `loo_z`, its z-score.
    leverage_cv : std(1/M_ii) mean(M_ii), 0 for even leverages.
    undefined : rows of leverage 1, for which leave-one-out does not exist.
    """

    mse: Floats
    mse_se: Floats
    loo_over_gcv: Floats
    loo_z: Floats
    leverage_cv: Floats
    undefined: Floats


@dataclass(frozen=True)
class _Diagonals:
    """Diagonals of M, M^2, M^3 (m, b) and rows of M Y, M^2 Y (m, b, R) at b points."""

    first: DeviceArray
    second: DeviceArray
    third: DeviceArray
    labels: DeviceArray
    labels_twice: DeviceArray


def sum_rows(
    decomposition: Decomposition,
    sample: RowSample,
    curve: ForecastCurve,
    xp: ModuleType,
    visit: Callable[[int, RowPoint], None] | None = None,
) -> RowSums:
    """Return what the rows say of all points; `visit` sees each computed point with its rows."""
    points = np.flatnonzero(np.isfinite(curve.gcv))
    outputs = decomposition.coefficients.shape[1]
    width = max(1, CHUNK // (sample.count * (3 + 2 * outputs)))
    sums = [np.full(len(curve.gcv), np.nan) for _ in range(6)]
    squared = sample.vectors**2
    for start in range(0, len(points), width):
        chosen = points[start : start + width]
        diagonals = _diagonals(decomposition, sample, squared, curve.resolvent, chosen, xp)
        for column, point in enumerate(chosen):
            sums[-1][point] = _leverages_of_one(decomposition, diagonals, column, xp)
            if sums[-1][point]:
                continue
            rows = _row_point(decomposition, sample, curve, diagonals, int(point), column, xp)
            for total, value in zip(sums, _point_sums(decomposition, curve, diagonals, rows, int(point), column, xp)):
                total[point] = value
            if visit is not None:
                visit(int(point), rows)
    return RowSums(*sums)


def _leverages_of_one(decomposition: Decomposition, diagonals: _Diagonals, column: int, xp: ModuleType) -> int:
    """Count the rows that determine their own fit; where features leave no dimension free, M_ii is not 1 - h."""
    return int(xp.sum(diagonals.first[:, column] < LEVERAGE_ONE)) if decomposition.null else 0


def _diagonals(
    decomposition: Decomposition,
    sample: RowSample,
    squared: DeviceArray,
    at: Resolvent,
    chosen: Integers,
    xp: ModuleType,
) -> _Diagonals:
    weights, free = xp.asarray(at.weights[chosen].T), xp.asarray(at.free[chosen])
    coefficients = xp.asarray(decomposition.coefficients)
    powers = [squared @ weights**k + sample.outside[:, None] * free for k in (1, 2, 3)]
    shape = (sample.count, len(chosen), coefficients.shape[1])
    images = []
    for k in (1, 2):
        scaled = (weights**k)[:, :, None] * coefficients[:, None, :]
        image = (sample.vectors @ scaled.reshape(len(weights), -1)).reshape(shape)
        images.append(image + free[None, :, None] * sample.residual[:, None, :])
    return _Diagonals(*powers, *images)


def _row_point(
    decomposition: Decomposition,
    sample: RowSample,
    curve: ForecastCurve,
    diagonals: _Diagonals,
    point: int,
    column: int,
    xp: ModuleType,
) -> RowPoint:
    at, count, n = curve.resolvent, decomposition.rows, float(curve.samples[point])
    first, second = diagonals.first[:, column], diagonals.second[:, column]
    left_out = diagonals.labels[:, column] / first[:, None]
    df2, noise = float(curve.df2[point]), float(curve.bias_noise[point])
    row_df = (second / first**2 - 1) * float(at.t1[point] ** 2 / at.t2[point])  # forecast (6)
    spread = (row_df - 1 / n) / (n - 1 - df2) - (row_df - 1 / count) / (count - 1 - df2)
    scale = 1.0
    if n > count:
        expected = 1 + float(xp.mean(row_df - 1 / count)) / (count - 1 - df2)
        scale = _leave_one_out(decomposition, at, diagonals, point, column, xp) / (noise * expected)
    return RowPoint(left_out, first, second, spread, noise, scale)


def _leave_one_out(
    decomposition: Decomposition, at: Resolvent, diagonals: _Diagonals, point: int, column: int, xp: ModuleType
) -> float:
    """Return mean |e_i|^2; from m of N rows as a difference to generalised cross-validation, forecast section 7."""
    first = diagonals.first[:, column]
    image = xp.sum(diagonals.labels[:, column] ** 2, axis=1)
    if len(first) == decomposition.rows:
        return float(xp.mean(image / first**2))
    even = float(decomposition.rows / at.t1[point]) ** 2
    gcv = decomposition.rows * float(at.q2[point] / at.t1[point] ** 2)
    return gcv + float(xp.mean(image * (1 / first**2 - even)))


def _point_sums(
    decomposition: Decomposition,
    curve: ForecastCurve,
    diagonals: _Diagonals,
    rows: RowPoint,
    point: int,
    column: int,
    xp: ModuleType,
) -> tuple[float, ...]:
    at, count = curve.resolvent, decomposition.rows
    first = diagonals.first[:, column]
    loo = _leave_one_out(decomposition, at, diagonals, point, column, xp)
    gcv = count * float(at.q2[point] / at.t1[point] ** 2)
    mse = loo + float(xp.mean(rows.spread)) * rows.noise * rows.scale
    image = xp.sum(diagonals.labels[:, column] ** 2, axis=1)
    uneven = image * (1 / first**2 - (count / at.t1[point]) ** 2)
    spread = float(xp.std(uneven)) / np.sqrt(len(first))
    z = (loo - gcv) / spread if spread > 0 else 0.0
    leverage_cv = float(xp.std(1 / first) * xp.mean(first))
    relative = _jackknife(count, curve, diagonals, point, column, xp) / float(curve.gcv[point])
    return mse, relative * mse, loo / gcv if gcv > 0 else 1.0, z, leverage_cv


def _jackknife(
    count: int, curve: ForecastCurve, diagonals: _Diagonals, point: int, column: int, xp: ModuleType
) -> float:
    """Return the standard error of forecast (4) over rows: forecast (9) and (10)."""
    at, n = curve.resolvent, float(curve.samples[point])
    t1, t2, t3, q2, q3 = (float(values[point]) for values in (at.t1, at.t2, at.t3, at.q2, at.q3))
    first, second, third = (d[:, column] for d in (diagonals.first, diagonals.second, diagonals.third))
    left_out = diagonals.labels[:, column] / first[:, None]
    ratio = second / first
    t1_without, t2_without = t1 - ratio, t2 - 2 * third / first + ratio**2
    q2_without = q2 - 2 * xp.sum(left_out * diagonals.labels_twice[:, column], axis=1)
    q2_without = q2_without + xp.sum(left_out**2, axis=1) * second
    excess = n - count
    risk = (1 + 1 / n) * (n - 1) * q2_without / ((excess + 1) * t2_without + t1_without**2)
    if at.kappa[point] > 0:
        shift = (excess / t1 - (excess + 1) / t1_without) / (1 + excess * t2 / t1**2)
        slope = -2 * q3 / q2 if q2 > 0 else 0.0
        risk = risk * (1 + shift * (slope + (2 * excess * t3 + 2 * t1 * t2) / (excess * t2 + t1**2)))
    return float(xp.sqrt((count - 1) * xp.mean((risk - xp.mean(risk)) ** 2)))
