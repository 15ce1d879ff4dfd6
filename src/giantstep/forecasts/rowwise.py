"""The forecast with rows: leave-one-out in place of even leverages, and the jackknife, forecast (5)-(10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from giantstep.forecasts.curve import ForecastCurve, Resolvent
from giantstep.forecasts.decomposition import Decomposition, RowSample
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
class _Rows:
    """The m rows at one of the points.

    Attributes
    ----------
    count : N.
    first, second, third : (m,) diagonals of M, M^2 and M^3; `labels`, `labels_twice` (m, R) are rows of M Y and M^2 Y.
    """

    curve: ForecastCurve
    point: int
    count: int
    xp: ModuleType
    first: DeviceArray
    second: DeviceArray
    third: DeviceArray
    labels: DeviceArray
    labels_twice: DeviceArray

    def number(self, name: str) -> float:
        """Return a trace of the resolvent at this point."""
        return float(getattr(self.curve.resolvent, name)[self.point])

    def gcv(self) -> float:
        """Return generalised cross-validation at the matched ridge."""
        return self.count * float(self.number("q2") / self.number("t1") ** 2)

    def leave_one_out(self) -> float:
        """Return mean |e_i|^2; from m of N rows as a difference to generalised cross-validation, forecast section 7."""
        if len(self.first) == self.count:
            return float(self.xp.mean(self.xp.sum(self.labels**2, axis=1) / self.first**2))
        return self.gcv() + float(self.xp.mean(self.uneven()))

    def uneven(self) -> DeviceArray:
        """Return (m,) what uneven leverages add to the squared residual of each row."""
        even = (self.count / self.number("t1")) ** 2
        return self.xp.sum(self.labels**2, axis=1) * (1 / self.first**2 - even)

    def seen(self) -> RowPoint:
        """Return what the misclassified share needs of the rows."""
        curve, count, n = self.curve, self.count, float(self.curve.samples[self.point])
        df2, noise = float(curve.df2[self.point]), float(curve.bias_noise[self.point])
        row_df = (self.second / self.first**2 - 1) * (self.number("t1") ** 2 / self.number("t2"))  # forecast (6)
        spread = (row_df - 1 / n) / (n - 1 - df2) - (row_df - 1 / count) / (count - 1 - df2)
        scale = 1.0
        if n > count:
            expected = 1 + float(self.xp.mean(row_df - 1 / count)) / (count - 1 - df2)
            scale = self.leave_one_out() / (noise * expected)
        return RowPoint(self.labels / self.first[:, None], self.first, self.second, spread, noise, scale)

    def sums(self, rows: RowPoint) -> tuple[float, ...]:
        """Return the numbers of `RowSums`, but for `undefined`."""
        xp, loo, gcv = self.xp, self.leave_one_out(), self.gcv()
        mse = loo + float(xp.mean(rows.spread)) * rows.noise * rows.scale
        spread = float(xp.std(self.uneven())) / np.sqrt(len(self.first))
        z = (loo - gcv) / spread if spread > 0 else 0.0
        leverage_cv = float(xp.std(1 / self.first) * xp.mean(self.first))
        relative = self._jackknife() / float(self.curve.gcv[self.point])
        return mse, relative * mse, loo / gcv if gcv > 0 else 1.0, z, leverage_cv

    def _jackknife(self) -> float:
        """Return the standard error of forecast (4) over rows: forecast (9) and (10)."""
        xp, count, n = self.xp, self.count, float(self.curve.samples[self.point])
        t1, t2, t3, q2, q3 = map(self.number, ("t1", "t2", "t3", "q2", "q3"))
        first, second, third = self.first, self.second, self.third
        left_out = self.labels / first[:, None]
        ratio = second / first
        t1_without, t2_without = t1 - ratio, t2 - 2 * third / first + ratio**2
        q2_without = q2 - 2 * xp.sum(left_out * self.labels_twice, axis=1) + xp.sum(left_out**2, axis=1) * second
        excess = n - count
        risk = (1 + 1 / n) * (n - 1) * q2_without / ((excess + 1) * t2_without + t1_without**2)
        if self.curve.resolvent.kappa[self.point] > 0:
            shift = (excess / t1 - (excess + 1) / t1_without) / (1 + excess * t2 / t1**2)
            slope = -2 * q3 / q2 if q2 > 0 else 0.0
            risk = risk * (1 + shift * (slope + (2 * excess * t3 + 2 * t1 * t2) / (excess * t2 + t1**2)))
        return float(xp.sqrt((count - 1) * xp.mean((risk - xp.mean(risk)) ** 2)))


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
        powers, images = _images(decomposition, sample, squared, curve.resolvent, chosen, xp)
        for column, point in enumerate(map(int, chosen)):
            own = [array[:, column] for array in (*powers, *images)]
            rows = _Rows(curve, point, decomposition.rows, xp, *own)
            # where features leave no dimension free, M_ii is not 1 - h
            sums[-1][point] = int(xp.sum(rows.first < LEVERAGE_ONE)) if decomposition.null else 0
            if sums[-1][point]:
                continue
            seen = rows.seen()
            for total, value in zip(sums, rows.sums(seen)):
                total[point] = value
            if visit is not None:
                visit(point, seen)
    return RowSums(*sums)


def _images(
    decomposition: Decomposition,
    sample: RowSample,
    squared: DeviceArray,
    at: Resolvent,
    chosen: Integers,
    xp: ModuleType,
) -> tuple[list[DeviceArray], list[DeviceArray]]:
    """Return the diagonals of M, M^2, M^3, each (m, b) at b points, and the rows of M Y and M^2 Y, each (m, b, R)."""
    weights, free = xp.asarray(at.weights[chosen].T), xp.asarray(at.free[chosen])
    coefficients = xp.asarray(decomposition.coefficients)
    powers = [squared @ weights**k + sample.outside[:, None] * free for k in (1, 2, 3)]
    shape = (sample.count, len(chosen), coefficients.shape[1])
    images = []
    for k in (1, 2):
        scaled = (weights**k)[:, :, None] * coefficients[:, None, :]
        image = (sample.vectors @ scaled.reshape(len(weights), -1)).reshape(shape)
        images.append(image + free[None, :, None] * sample.residual[:, None, :])
    return powers, images
