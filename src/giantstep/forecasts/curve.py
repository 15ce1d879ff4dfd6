"""The forecast without rows: error, effective ridge and degrees of freedom at every (n, ridge), forecast (1)-(4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.forecasts.decomposition import Decomposition
from giantstep.forecasts.resolvent import Resolvent, resolvent, solve_ridge
from giantstep.types import Floats, Strings


@dataclass(frozen=True)
class ForecastCurve:
    """B points (samples, ridge) and what the traces say of them; NaN where `status` says why.

    Attributes
    ----------
    matched : (B,) ridge of N rows with the same kappa.
    kappa, df1, df2 : effective ridge and degrees of freedom.
    gcv : test error by forecast (4), squared errors summed over the outputs.
    bias_noise, variance : E(kappa) and gcv - E.
    train_mse : mean squared error on the n training rows.
    """

    samples: Floats
    ridge: Floats
    matched: Floats
    kappa: Floats
    df1: Floats
    df2: Floats
    gcv: Floats
    bias_noise: Floats
    variance: Floats
    train_mse: Floats
    status: Strings
    resolvent: Resolvent


def forecast_curve(decomposition: Decomposition, samples: Floats, ridge: Floats) -> ForecastCurve:
    """Return the forecast at B points (samples, ridge)."""
    n, count = samples, decomposition.rows
    matched, determined = solve_ridge(decomposition, n, ridge)
    at = resolvent(decomposition, np.where(determined, matched, 1.0))
    shrunk = decomposition.squares / (decomposition.squares + at.ridge[:, None])
    df1, df2 = np.sum(shrunk, axis=1), count - 1 - at.t1**2 / at.t2
    spare = (n - count) + at.t1**2 / at.t2  # n - 1 - df2
    finite = spare > 1e-9 * n
    good = determined & finite
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = at.q2 / at.t2
        gcv = (1 + 1 / n) * (n - 1) * noise / spare
        train = (n - 1) ** 2 * noise / (n * spare) * (1 - df1 / (n - 1)) ** 2
    status = np.full(len(n), "", object)
    for b in np.flatnonzero(~determined):
        least = (n[b] - count) * decomposition.kappa_min
        status[b] = f"{count} rows do not determine this; use a ridge of at least {least:.3g}"
    status[determined & ~finite] = "the error is infinite where ridge 0 just interpolates; use a ridge above 0"
    columns = (np.where(good, column, np.nan) for column in (matched, at.kappa, df1, df2, gcv, noise))
    matched, kappa, df1, df2, gcv, noise = columns
    train = np.where(good, train, np.nan)
    return ForecastCurve(n, ridge, matched, kappa, df1, df2, gcv, noise, gcv - noise, train, status.astype(str), at)
