"""The table of a forecast: an xarray Dataset like any result, which also answers how
many samples are needed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import xarray

from giantstep.core.base.display import Block, blocks_html
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats
from giantstep.core.result.text import Result, listing
from giantstep.core.scenario.checks import check_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VARIABLES = {
    "mse": ("R(n,ridge)", "mean squared test error, summed over the outputs"),
    "error": ("P(wrong)", "misclassified share of fresh rows"),
    "train_mse": ("", "mean squared error on the training rows"),
    "mse_se": ("", "standard error of the forecast of mse from N rows (jackknife)"),
    "error_se": ("", "standard error of the forecast of error from N rows"),
    "mse_se_total": (
        "",
        "mse_se with the error of the method, as far as the probes show it",
    ),
    "error_se_total": (
        "",
        "error_se with the error of the method, as far as the probes show it",
    ),
    "gcv": ("", "mean squared test error for even leverages, forecast (4)"),
    "bias_noise": ("E(kappa)", "noise, misfit and bias: the error of the average fit"),
    "variance": ("", "gcv - bias_noise: what one fit on n rows adds"),
    "kappa": ("kappa", "effective ridge"),
    "df1": ("df_1", "degrees of freedom, tr S(S+kappa)^-1"),
    "df2": ("df_2", "degrees of freedom of the variance, tr [S(S+kappa)^-1]^2"),
    "loo_over_gcv": (
        "",
        (
            "leave-one-out over generalised cross-validation at the same kappa; 1 for"
            " even leverages"
        ),
    ),
    "mse_verdict": ("", "on mse: good, fair, do not trust, or not judged"),
    "error_verdict": ("", "on error: good, fair, do not trust, or not judged"),
    "approximate": (
        "",
        "fewer than 20 samples of the rarest class: error is approximate",
    ),
    "converged": ("", "whether the point was computed"),
    "status": ("", "why not, where it was not"),
    "trials_done": ("", "trials of the experiment"),
}
"""Name -> symbol and meaning of the columns."""


class ForecastRidge(float):
    """The ridge with the smallest forecast error, and what is not known about it;
    printing it says it in words.
    """

    rivals: tuple[
        float,
        ...,
        # others whose forecasts, plus and minus their total standard errors, overlap
    ] = ()
    unknown: tuple[float, ...] = ()  # ridges that the rows do not determine there
    where: str = ""  # of which variable and at which n, in words

    @property
    def doubt(self) -> str:
        """What is not known, as the end of a sentence; empty where the table tells this
        ridge from all others.
        """
        rivals, unknown = (
            ", ".join(f"{ridge:.4g}" for ridge in some)
            for some in (self.rivals, self.unknown)
        )
        told = f", cannot be told from {rivals}" if rivals else ""
        if unknown:
            return f"{told}, {unknown} not determined by the rows"
        return told

    def __str__(self) -> str:
        return f"ridge {float(self):.4g}{self.where}{self.doubt}"

    __repr__ = __str__


def tell_ridges_apart(
    ridges: Floats, values: Floats, spread: Floats, where: str = ""
) -> ForecastRidge:
    """Return the best of the ridges by their forecasts (ridges,), with those that it
    cannot be told from.
    """
    given = np.isfinite(values)
    spread = np.nan_to_num(spread)
    found = ForecastRidge(math.nan)
    if given.any():
        best = int(np.nanargmin(values))
        near = (
            given
            & (values - spread <= values[best] + spread[best])
            & (np.arange(len(ridges)) != best)
        )
        found = ForecastRidge(ridges[best])
        found.rivals = tuple(ridges[near].tolist())
    found.unknown = tuple(ridges[~given].tolist())
    found.where = where
    return found


class SamplesNeeded(NamedTuple):
    """Samples at which a wanted error is reached at the best ridge; printing it says it
    in words.
    """

    # smallest n, interpolated between the sizes of the table; infinite where it is not
    # reached
    samples: float
    low: float  # the same for the forecast minus its total standard error
    high: float  # and plus it
    ridge: ForecastRidge  # best ridge of the table there
    # all this in words, rounded to what is known, with the verdict on the variable
    statement: str

    def __str__(self) -> str:
        return self.statement

    def _repr_html_(self) -> str:
        return blocks_html([self.statement])


class Forecast(Result):
    """The table of `giantstep.forecast`: dims source (limit, experiment), samples,
    ridge.
    """

    __slots__ = ()

    @classmethod
    def of(cls, result: xarray.Dataset) -> Self:
        """Return a forecast that `giantstep.load` read, with its methods."""
        if result.attrs.get("family") != "forecast":
            raise InputError("Forecast.of takes a result of forecast.")
        return super().of(result)

    def best_ridge(
        self, samples: float | None = None, variable: str | None = None
    ) -> ForecastRidge:
        """Return the ridge of the table whose forecast error is smallest at n samples
        (N if left out).

        It is a number. Printed, it says which ridges it cannot be told from (`rivals`:
        forecasts plus and minus their total standard errors overlap), and which the
        rows do not determine (`unknown`).
        """
        name = self._chosen(variable)
        sizes = self.samples.values.astype(float)
        allowed = (
            f"from {sizes[0]:g} to {sizes[-1]:g}, the sizes of the table (`samples=` of"
            " forecast asks for others)"
        )
        size = float(np.clip(self.attrs["N"], sizes[0], sizes[-1]))
        if samples is not None:
            size = check_number(
                "samples", samples, allowed, lambda n: sizes[0] <= n <= sizes[-1]
            )
        both = (self._curves(column).T for column in (name, f"{name}_se_total"))
        values, spread = (
            np.array([_interpolate(size, sizes, curve) for curve in curves])
            for curves in both
        )
        best = tell_ridges_apart(
            self.ridge.values, values, spread, f" for {name} at n = {size:.4g}"
        )
        if not math.isfinite(best):
            raise bad_field(
                "samples",
                size,
                "a size at which the rows determine the forecast (see status)",
            )
        return best

    def samples_needed(
        self, error: float | None = None, mse: float | None = None
    ) -> SamplesNeeded:
        """Return the smallest number of samples at which the best ridge has so small an
        error.

        Parameters
        ----------
        error : wanted share of misclassified rows (for classes), or else wanted mean
            squared error.
        mse : wanted mean squared error.
        """
        if (error is None) == (mse is None):
            raise InputError("samples_needed takes either error=... or mse=...")
        variable = "mse" if error is None else self._chosen(None)
        wanted = check_number(
            variable,
            mse if error is None else error,
            "a number above 0",
            lambda v: 0 < v < math.inf,
        )
        values = self._curves(variable)
        spread = self._curves(variable + "_se_total")
        sizes = self.samples.values.astype(float)
        reached = [
            _crossing(sizes, np.fmin.reduce(values + side * spread, axis=1), wanted)
            for side in (0, -1, 1)
        ]
        samples, low, high = reached
        if math.isfinite(samples):
            ridge = self.best_ridge(samples, variable)
        else:
            ridge = ForecastRidge(math.nan)
        return SamplesNeeded(
            samples,
            low,
            high,
            ridge,
            self._say_needed(variable, wanted, reached, ridge),
        )

    def plot(self, path: str | Path | None = None, **options: Any) -> Figure:  # type: ignore[override]
        """Draw the learning curves; see `giantstep.plot`."""
        from giantstep.tools.figures.plot import plot

        return plot(self, path=path, **options)

    def shown_blocks(self) -> list[Block]:
        """Return the errors."""
        return listing(self[[name for name in ("error", "mse") if name in self]])

    def _chosen(self, variable: str | None) -> str:
        if variable is None:
            return "error" if self.attrs["task"] == "classes" else "mse"
        if variable not in ("mse", "error"):
            raise bad_field("variable", variable, "mse or error")
        return variable

    def _curves(self, variable: str) -> Floats:
        """Return the forecast of a variable, (samples, ridge)."""
        return self[variable].sel(source="limit").transpose("samples", "ridge").values

    def _say_needed(
        self, variable: str, wanted: float, reached: list[float], ridge: ForecastRidge
    ) -> str:
        samples, low, high = reached
        most = float(self.samples.values[-1])
        floor = float(self.attrs["noise_floor"])
        computed = np.isfinite(self._curves(variable)).any(axis=1)
        if samples == self.samples.values[computed][0]:
            few = (
                f"{variable} {wanted:.4g} needs at most {_whole(samples, 4)} samples,"
                " the fewest that were asked for"
            )
            return (
                f"{few}, at ridge {ridge:.4g}{ridge.doubt}."
                f" {self._say_verdict(variable, samples, ridge)}"
            )
        if math.isfinite(samples):
            error = 0.5 * (high - low) / samples
            # digits that are worth saying, two to four
            if 0 < error < math.inf:
                digits = int(np.clip(1 - math.floor(math.log10(error)), 2, 4))
            else:
                digits = 2
            about = _whole(samples, digits)
            lower = _whole(low, digits)
            if math.isfinite(high):
                upper = _whole(high, digits)
            else:
                upper = f"more than {_whole(most, 4)}"
            needs = (
                f"{variable} {wanted:.4g} needs about {about} samples ({lower} to"
                f" {upper}) at ridge {ridge:.4g}"
            )
            return (
                f"{needs}{ridge.doubt}. {self._say_verdict(variable, samples, ridge)}"
            )
        if variable == "mse" and floor > wanted:
            return (
                f"mse {wanted:.4g} is not reached at any n: noise and misfit alone are"
                f" E(0) = {floor:.4g}."
            )
        if math.isfinite(low):
            about = f" (not excluded from n = {_whole(low, 2)} on)"
        else:
            about = ""
        return (
            f"{variable} {wanted:.4g} is not reached up to n ="
            f" {_whole(most, 4)}{about}; ask for more samples."
        )

    def _say_verdict(self, variable: str, samples: float, ridge: float) -> str:
        judged = self[f"{variable}_verdict"].sel(ridge=ridge)
        there = np.isfinite(self[variable].sel(source="limit", ridge=ridge).values)
        nearest = int(
            np.argmin(
                np.where(there, np.abs(np.log(self.samples.values / samples)), np.inf)
            )
        )
        return f"The forecast of {variable} at this ridge: {judged.values[nearest]}."


def known(value: float, error: float) -> str:
    """Return a number with its standard error, rounded to two digits of that.

    >>> known(0.035123, 0.0121), known(1234.5, 17.0)
    ('0.035 ± 0.012', '1234 ± 17')
    """
    if not (math.isfinite(error) and error > 0):
        return f"{value:.4g}"
    decimals = max(1 - math.floor(math.log10(error)), 0)
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def _whole(value: float, digits: int) -> str:
    return f"{round(float(f'{value:.{digits}g}')):,}"


def _crossing(sizes: Floats, curve: Floats, wanted: float) -> float:
    """Return where a curve first falls to a value, linear in log n and log error
    between points.
    """
    known = np.isfinite(curve)
    sizes = sizes[known]
    curve = curve[known]
    below = np.flatnonzero(curve <= wanted)
    if not len(below):
        return math.inf
    first = int(below[0])
    if first == 0:
        return float(sizes[0])
    x = np.log(sizes[first - 1 : first + 1])
    y = np.log(np.maximum(curve[first - 1 : first + 1], 1e-300))
    return float(
        np.exp(x[0] + (x[1] - x[0]) * (math.log(wanted) - y[0]) / (y[1] - y[0]))
    )


def _interpolate(size: float, sizes: Floats, curve: Floats) -> float:
    """Return a curve between its points, linear in log n; NaN outside of those that
    were computed.
    """
    known = np.isfinite(curve)
    if known.any():
        return float(
            np.interp(np.log(size), np.log(sizes[known]), curve[known], np.nan, np.nan)
        )
    return np.nan
