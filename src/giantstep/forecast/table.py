"""The table of a forecast: an xarray Dataset like any result, which also answers how many samples are needed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray

from giantstep.checks import check_number
from giantstep.errors import InputError, bad_field
from giantstep.types import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIABLES = {
    "mse": ("R(n,ridge)", "mean squared test error, summed over the outputs"),
    "error": ("P(wrong)", "misclassified share of fresh rows"),
    "train_mse": ("", "mean squared error on the training rows"),
    "mse_se": ("", "standard error of the forecast of mse from N rows (jackknife)"),
    "error_se": ("", "standard error of the forecast of error from N rows"),
    "mse_se_total": ("", "mse_se with the error of the method, as far as the probes show it"),
    "error_se_total": ("", "error_se with the error of the method, as far as the probes show it"),
    "gcv": ("", "mean squared test error for even leverages, forecast (4)"),
    "bias_noise": ("E(kappa)", "noise, misfit and bias: the error of the average fit"),
    "variance": ("", "gcv - bias_noise: what one fit on n rows adds"),
    "kappa": ("kappa", "effective ridge"),
    "df1": ("df_1", "degrees of freedom, tr S(S+kappa)^-1"),
    "df2": ("df_2", "degrees of freedom of the variance, tr [S(S+kappa)^-1]^2"),
    "loo_over_gcv": ("", "leave-one-out over generalised cross-validation at the same kappa; 1 for even leverages"),
    "verdict": ("", "good, fair, do not trust, or not judged"),
    "approximate": ("", "fewer than 20 samples of the rarest class: error is approximate"),
    "converged": ("", "whether the point was computed"),
    "status": ("", "why not, where it was not"),
    "trials_done": ("", "trials of the experiment"),
}
"""Name -> symbol and meaning of the columns."""


class SamplesNeeded(NamedTuple):
    """Samples at which a wanted error is reached at the best ridge; printing it says it in words.

    Attributes
    ----------
    samples : smallest n, interpolated between the sizes of the table; infinite where it is not reached.
    low, high : the same for the forecast minus and plus its total standard error.
    ridge : best ridge of the table there.
    statement : all this in words.
    """

    samples: float
    low: float
    high: float
    ridge: float
    statement: str

    def __str__(self) -> str:
        return self.statement


class Forecast(xarray.Dataset):
    """The table of `giantstep.forecast`: dims source (limit, experiment), samples, ridge."""

    __slots__ = ()

    @classmethod
    def of(cls, result: xarray.Dataset) -> Forecast:
        """Return a forecast that `giantstep.load` read, with its methods."""
        if result.attrs.get("family") != "forecast":
            raise InputError("Forecast.of takes a result of forecast.")
        return cls(dict(result.data_vars), dict(result.coords), attrs=dict(result.attrs))

    def best_ridge(self, samples: float | None = None, variable: str | None = None) -> float:
        """Return the ridge of the table whose forecast error is smallest at n samples (N if left out)."""
        values = self._curves(self._chosen(variable))
        size = (
            float(self.attrs["N"])
            if samples is None
            else check_number("samples", samples, "a number at least 3", lambda n: 3 <= n < math.inf)
        )
        at = [_interpolate(size, self.samples.values, values[:, number]) for number in range(values.shape[1])]
        if not np.isfinite(at).any():
            raise bad_field("samples", samples, f"between {self.samples.values[0]} and {self.samples.values[-1]}")
        return float(self.ridge.values[int(np.nanargmin(at))])

    def samples_needed(self, error: float | None = None, mse: float | None = None) -> SamplesNeeded:
        """Return the smallest number of samples at which the best ridge has so small an error.

        Parameters
        ----------
        error : wanted share of misclassified rows (for classes), or else wanted mean squared error.
        mse : wanted mean squared error.
        """
        if (error is None) == (mse is None):
            raise InputError("samples_needed takes either error=... or mse=...")
        variable = "mse" if error is None else self._chosen(None)
        wanted = check_number(variable, mse if error is None else error, "a number above 0", lambda v: 0 < v < math.inf)
        values, spread = self._curves(variable), self._curves(variable + "_se_total")
        sizes = self.samples.values.astype(float)
        reached = [_crossing(sizes, _lowest(values + side * spread), wanted) for side in (0, -1, 1)]
        samples, low, high = reached
        ridge = self.best_ridge(samples, variable) if math.isfinite(samples) else math.nan
        return SamplesNeeded(samples, low, high, ridge, self._say_needed(variable, wanted, reached, ridge))

    def plot(self, path: str | Path | None = None, **options: Any) -> Figure:  # type: ignore[override]
        """Draw the learning curves; see `giantstep.plot`."""
        from giantstep.figures.plot import plot

        return plot(self, path=path, **options)

    def _chosen(self, variable: str | None) -> str:
        if variable is None:
            return "error" if self.attrs["task"] == "classes" else "mse"
        if variable not in ("mse", "error"):
            raise bad_field("variable", variable, "mse or error")
        return variable

    def _curves(self, variable: str) -> Floats:
        """Return the forecast of a variable, (samples, ridge)."""
        values: Floats = self[variable].sel(source="limit").transpose("samples", "ridge").values
        return values

    def _say_needed(self, variable: str, wanted: float, reached: list[float], ridge: float) -> str:
        samples, low, high = reached
        most = float(self.samples.values[-1])
        floor = float(self.attrs["noise_floor"])
        if math.isfinite(samples):
            upper = f"{high:.4g}" if math.isfinite(high) else f"more than {most:.4g}"
            interval = f"{low:.4g} to {upper}"
            return f"{variable} {wanted:.4g} needs about {samples:.4g} samples ({interval}) at ridge {ridge:.4g}."
        if variable == "mse" and floor > wanted:
            return f"mse {wanted:.4g} is not reached at any n: noise and misfit alone are E(0) = {floor:.4g}."
        about = f" (not excluded from n = {low:.4g} on)" if math.isfinite(low) else ""
        return f"{variable} {wanted:.4g} is not reached up to n = {most:.4g}{about}; ask for more samples."


def _lowest(curves: Floats) -> Floats:
    """Return the smallest error over the ridges at each sample size."""
    return np.where(np.isnan(curves).all(axis=1), np.nan, np.nanmin(np.where(np.isnan(curves), np.inf, curves), axis=1))


def _crossing(sizes: Floats, curve: Floats, wanted: float) -> float:
    """Return where a curve first falls to a value, linear in log n and log error between points."""
    known = np.isfinite(curve)
    sizes, curve = sizes[known], curve[known]
    below = np.flatnonzero(curve <= wanted)
    if not len(below):
        return math.inf
    first = int(below[0])
    if first == 0:
        return float(sizes[0])
    x, y = np.log(sizes[first - 1 : first + 1]), np.log(np.maximum(curve[first - 1 : first + 1], 1e-300))
    return float(np.exp(x[0] + (x[1] - x[0]) * (math.log(wanted) - y[0]) / (y[1] - y[0])))


def _interpolate(size: float, sizes: Floats, curve: Floats) -> float:
    known = np.isfinite(curve)
    return float(np.interp(np.log(size), np.log(sizes[known]), curve[known])) if known.any() else math.nan
