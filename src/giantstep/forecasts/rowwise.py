"""The forecast with rows: leave-one-out in place of even leverages, and the jackknife, forecast (5)-(10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from giantstep.forecasts.curve import ForecastCurve, Resolvent
from giantstep.forecasts.decomposition import Decomposition, RowSample
from giantstep.types import Floats, Integers

CHUNK = 2**22
"""Numbers (rows times points times outputs) that are held at a time."""
LEVERAGE_ONE = 1e-8
"""1 - h below which a row determines its own fit, so that leaving it out is undefined."""


class RowPoint(NamedTuple):
    """One point seen by the m rows.

    Attributes
    ----------
    left_out : (m, R) leave-one-out residuals e_i of forecast (5), intercept included.
    diagonal : (m,) M_ii; `square` (m,) (M^2)_ii.
    spread : (m,) v_i of forecast (7), the variance one fit on n rows adds, in units of E; negative for n > N.
    noise : tr E; `scale` the factor c of forecast (8).
    """

    left_out: Floats
    diagonal: Floats
    square: Floats
    spread: Floats
    noise: float
    scale: float


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


def sum_rows(
    decomposition: Decomposition,
    sample: RowSample,
    curve: ForecastCurve,
    visit: Callable[[int, RowPoint], None] | None = None,
) -> RowSums:
    """Return what the rows say of all points; `visit` sees each computed point with its rows."""
    points = np.flatnonzero(np.isfinite(curve.gcv))
    outputs = decomposition.coefficients.shape[1]
    width = max(1, CHUNK // (sample.count * (3 + 2 * outputs)))
    columns = np.full((6, len(curve.gcv)), np.nan)
    for start in range(0, len(points), width):
        chosen = points[start : start + width]
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[:, chosen] = _sum_some(decomposition, sample, curve, chosen, visit)
    return RowSums(*columns)


def _sum_some(
    decomposition: Decomposition,
    sample: RowSample,
    curve: ForecastCurve,
    chosen: Integers,
    visit: Callable[[int, RowPoint], None] | None,
) -> list[Floats]:
    """Return the columns of `RowSums` at b points."""
    at, count, n = curve.resolvent, decomposition.rows, curve.samples[chosen]
    (first, second, third), (labels, labels_twice) = _images(decomposition, sample, at, chosen)
    t1, t2, t3, q2, q3 = (trace[chosen] for trace in (at.t1, at.t2, at.t3, at.q2, at.q3))
    df2, noise = curve.df2[chosen], curve.bias_noise[chosen]
    left_out, squared = labels / first[:, :, None], np.sum(labels**2, axis=2)

    gcv = count * q2 / t1**2
    uneven = squared * (1 / first**2 - (count / t1) ** 2)  # what uneven leverages add to the squared residuals
    whole = sample.count == count
    # from m of N rows as a difference to generalised cross-validation, forecast section 7
    loo = np.mean(squared / first**2, axis=0) if whole else gcv + uneven.mean(axis=0)
    row_df = (second / first**2 - 1) * (t1**2 / t2)  # forecast (6)
    spread = (row_df - 1 / n) / (n - 1 - df2) - (row_df - 1 / count) / (count - 1 - df2)
    expected = 1 + np.mean(row_df - 1 / count, axis=0) / (count - 1 - df2)
    scale = np.where(n > count, loo / (noise * expected), 1.0)
    mse = loo + spread.mean(axis=0) * noise * scale

    # the jackknife over rows, forecast (9) and (10)
    ratio, excess = second / first, n - count
    t1_without, t2_without = t1 - ratio, t2 - 2 * third / first + ratio**2
    q2_without = q2 - 2 * np.sum(left_out * labels_twice, axis=2) + np.sum(left_out**2, axis=2) * second
    risk = (1 + 1 / n) * (n - 1) * q2_without / ((excess + 1) * t2_without + t1_without**2)
    shift = (excess / t1 - (excess + 1) / t1_without) / (1 + excess * t2 / t1**2)
    slope = np.where(q2 > 0, -2 * q3 / q2, 0.0)
    moved = 1 + shift * (slope + (2 * excess * t3 + 2 * t1 * t2) / (excess * t2 + t1**2))
    risk = np.where(at.kappa[chosen] > 0, risk * moved, risk)
    relative = np.sqrt(count - 1) * risk.std(axis=0) / curve.gcv[chosen]

    error = uneven.std(axis=0) / np.sqrt(sample.count)
    z = np.where(error > 0, (loo - gcv) / error, 0.0)
    leverage_cv = np.std(1 / first, axis=0) * first.mean(axis=0)
    # where features leave no dimension free, M_ii is not 1 - h
    undefined = np.sum(first < LEVERAGE_ONE, axis=0) if decomposition.null else np.zeros(len(chosen))
    if visit is not None:
        for b in np.flatnonzero(undefined == 0):
            rows = (left_out[:, b], first[:, b], second[:, b], spread[:, b])
            visit(int(chosen[b]), RowPoint(*rows, float(noise[b]), float(scale[b])))
    numbers = [mse, relative * mse, np.where(gcv > 0, loo / gcv, 1.0), z, leverage_cv]
    return [*(np.where(undefined > 0, np.nan, column) for column in numbers), undefined]


def _images(
    decomposition: Decomposition, sample: RowSample, at: Resolvent, chosen: Integers
) -> tuple[list[Floats], list[Floats]]:
    """Return the diagonals of M, M^2, M^3, each (m, b) at b points, and the rows of M Y and M^2 Y, each (m, b, R)."""
    weights, coefficients = at.weights[chosen].T, decomposition.coefficients
    squared = sample.vectors**2
    powers = [squared @ weights**k + sample.outside[:, None] for k in (1, 2, 3)]
    images = []
    for k in (1, 2):
        scaled = (weights**k)[:, :, None] * coefficients[:, None, :]
        images.append(np.tensordot(sample.vectors, scaled, axes=1) + sample.residual[:, None, :])
    return powers, images
