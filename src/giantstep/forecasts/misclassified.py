"""The share of misclassified rows at n samples, from leave-one-out decision values: forecast (11)-(13)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from scipy.special import ndtr

from giantstep.forecasts.curve import ForecastCurve
from giantstep.forecasts.decomposition import Decomposition, RowSample
from giantstep.forecasts.rowwise import RowPoint
from giantstep.lab.devices import to_numpy
from giantstep.lab.seeds import Draws
from giantstep.types import DeviceArray, Floats, Integers

SMALLEST_SHARE = 0.05
"""Least share of the variance of decision values that is left where noise is removed, forecast (13)."""
FLAT = 1e-10
"""Eigenvalues of a covariance, relative to the largest, below which a direction does not exist."""
DRAWS = 32
"""Wild draws: they leave a Monte-Carlo error of 1 to 2%."""
MOST_WORK = 2e10
"""Products above which fewer rows and draws stand for the noise: some ten seconds."""
FEWEST_DRAWS, FEW_ROWS = 4, 1000
"""What is left of them then, at least."""
WIDEN = 1.3
"""Factor of the standard error over rows that makes |z| < 2 as frequent as it should be, forecast section 5."""
FAR, FAR_WIDE = 0.1, 0.2
"""Relative error added where n > 2 N, the second with fewer than two rows a feature and a small ridge; measured."""


@dataclass(frozen=True)
class Decisions:
    """Labels of the m rows as classes, and the wild draws that stand for the noise of a fit.

    Attributes
    ----------
    classes : (m,) numbers of the classes from 0; two classes have one output, +1 for class 1.
    draws : number of wild draws.
    wild : which of the m rows take part in them; the others enter through leave-one-out alone.
    """

    decomposition: Decomposition
    sample: RowSample
    classes: Integers
    draws: int
    wild: Integers
    seed: int
    xp: ModuleType

    def error(self, curve: ForecastCurve, point: int, rows: RowPoint) -> tuple[float, float]:
        """Return the misclassified share at a point and its standard error."""
        n, count = float(curve.samples[point]), self.decomposition.rows
        decisions = self.sample.labels - to_numpy(rows.left_out)
        if n == count:
            wrong = self._wrong(decisions).astype(float)
        elif n > count:
            wrong = self._wrong(self._without_noise(decisions, curve, point, rows)).astype(float)
        elif decisions.shape[1] == 1:
            width = np.sqrt(np.maximum(to_numpy(rows.spread), 0.0) * rows.noise)
            margin = self.sample.labels[:, 0] * decisions[:, 0]
            wrong = ndtr(-margin / np.maximum(width, 1e-300))  # forecast (11)
        else:
            wrong = self._wild_shares(decisions, curve, point, rows)
            plain = self._wrong(decisions)
            share = float(np.mean(plain) + np.mean(wrong - plain[self.wild]))
            return share, self._standard_error(wrong, share, curve, point)
        share = float(np.mean(wrong))
        return share, self._standard_error(wrong, share, curve, point)

    def _wrong(self, decisions: Floats) -> Any:
        if decisions.shape[1] == 1:
            return decisions[:, 0] * self.sample.labels[:, 0] <= 0
        return np.argmax(decisions, axis=1) != self.classes

    def _standard_error(self, wrong: Floats, share: float, curve: ForecastCurve, point: int) -> float:
        m, n = self.sample.count, float(curve.samples[point])
        q = (m * share + 1) / (m + 2)
        error = max(WIDEN * float(np.std(wrong)) / np.sqrt(m), float(np.sqrt(q * (1 - q) / m)))
        rows, columns = self.decomposition.rows, self.decomposition.columns
        if n > 2 * rows:
            wide = rows < 2 * columns and curve.df1[point] > 0.5 * min(rows - 1, columns)
            error = float(np.hypot(error, (FAR_WIDE if wide else FAR) * share))
        return error

    # -- wild draws ------------------------------------------------------------------------------------------------

    def _wild_shares(self, decisions: Floats, curve: ForecastCurve, point: int, rows: RowPoint) -> Floats:
        """Return the share of draws in which each wild row is misclassified, forecast (12)."""
        xp, n = self.xp, float(curve.samples[point])
        again = (float(curve.df2[point]) + 1) / n
        signs, rows = self._signs(curve, point), rows.take(xp.asarray(self.wild))
        first = self._bounce(rows, rows.left_out[:, None, :], curve, point, signs)
        second = self._bounce(rows, first, curve, point, signs)
        noise = np.sqrt(1 - again) * first + np.sqrt(again) * second
        spread = xp.maximum(rows.spread, 0.0)
        size = xp.mean(spread[:, None] * xp.sum(noise**2, axis=2))
        factor = xp.sqrt(xp.mean(spread) * rows.noise / xp.maximum(size, 1e-300))
        noise = noise * (xp.sqrt(spread) * factor)[:, None, None]
        centre, classes = xp.asarray(decisions[self.wild])[:, None, :], xp.asarray(self.classes[self.wild])[:, None]
        wrong = [xp.argmax(centre + side * noise, axis=2) != classes for side in (1, -1)]
        return np.asarray(to_numpy(xp.mean(xp.stack(wrong, axis=2), axis=(1, 2))))

    def _signs(self, curve: ForecastCurve, point: int) -> Draws:
        """Return the random signs of a point, the same in every grid."""
        return Draws(self.seed, f"forecast n={curve.samples[point]:g} ridge={curve.ridge[point]:.17g}", 0)

    @functools.cached_property
    def _wild_vectors(self) -> DeviceArray:
        vectors = self.sample.vectors
        return vectors if len(self.wild) == len(vectors) else vectors[self.xp.asarray(self.wild)]

    def _bounce(
        self, rows: RowPoint, values: DeviceArray, curve: ForecastCurve, point: int, signs: Draws
    ) -> DeviceArray:
        """Return B(a): rows a_j (m, draws or 1, R) with random signs through M without its diagonal, (m, draws, R)."""
        xp, at = self.xp, curve.resolvent
        signed = values * xp.asarray(signs.signs("wild", (len(values), self.draws)))[:, :, None]
        flat = signed.reshape(len(values), -1)
        weights, free = xp.asarray(at.weights[point]), float(at.free[point]) if self.decomposition.null else 0.0
        vectors = self._wild_vectors
        image = vectors @ ((weights - free)[:, None] * (vectors.T @ flat))
        image = image + (free - rows.diagonal)[:, None] * flat - free / self.decomposition.rows * xp.sum(flat, axis=0)
        norm = xp.sqrt(xp.maximum(rows.square - rows.diagonal**2, 1e-300))
        return (image / norm[:, None]).reshape(signed.shape)

    # -- more samples than rows ------------------------------------------------------------------------------------

    def _without_noise(self, decisions: Floats, curve: ForecastCurve, point: int, rows: RowPoint) -> Floats:
        """Return decision values of n > N samples: inside each class they lose the noise of N rows, (13)."""
        removed = -to_numpy(rows.spread)
        cleaned = decisions.copy()
        if decisions.shape[1] > 1:
            noise = self._removed_noise(curve, point, rows)
        for number in np.unique(self.classes):
            inside = self.classes == number
            values = decisions[inside]
            centre = values.mean(axis=0)
            around = values - centre
            if decisions.shape[1] == 1:
                left = 1 - np.mean(removed) * rows.noise * rows.scale / max(float(np.mean(around**2)), 1e-300)
                cleaned[inside] = centre + np.sqrt(np.clip(left, SMALLEST_SHARE, 1.0)) * around
                continue
            drawn = noise[inside[self.wild]] if inside[self.wild].any() else noise
            lost = drawn.reshape(-1, decisions.shape[1])
            cleaned[inside] = centre + around @ _shrinking(around, lost.T @ lost / len(lost))
        return cleaned

    def _removed_noise(self, curve: ForecastCurve, point: int, rows: RowPoint) -> Floats:
        """Return wild draws (wild rows, draws, R) of the noise that more samples remove."""
        xp = self.xp
        mean = xp.mean(xp.maximum(-rows.spread, 0.0))
        rows = rows.take(xp.asarray(self.wild))
        noise = self._bounce(rows, rows.left_out[:, None, :], curve, point, self._signs(curve, point))
        spread = xp.maximum(-rows.spread, 0.0)
        size = xp.mean(spread[:, None] * xp.sum(noise**2, axis=2))
        factor = xp.sqrt(mean * rows.noise * rows.scale / xp.maximum(size, 1e-300))
        return np.asarray(to_numpy(noise * (xp.sqrt(spread) * factor)[:, None, None]))


def _shrinking(around: Floats, noise: Floats) -> Floats:
    """Return the matrix that takes values of covariance S to covariance S - C, symmetric where S is whitened."""
    covariance = around.T @ around / len(around)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > FLAT * max(values[-1], 1e-300)
    root = np.sqrt(values[kept])
    basis = vectors[:, kept]
    whitened = np.eye(int(kept.sum())) - (basis / root).T @ noise @ (basis / root)
    shares, turn = np.linalg.eigh(whitened)
    half = (turn * np.sqrt(np.clip(shares, SMALLEST_SHARE, 1.0))) @ turn.T
    return (basis / root) @ half @ (basis * root).T


def choose_wild(count: int, work: float, draws: int | None) -> tuple[int, int]:
    """Return how many rows and draws to take: all of `count` rows and 32 draws unless that is too much work.

    Parameters
    ----------
    work : products of one row in one draw, over all points.
    draws : what the user asks for, with all rows.
    """
    if draws is not None or count * work * DRAWS <= MOST_WORK:
        return count, DRAWS if draws is None else draws
    rows = min(count, FEW_ROWS)
    return rows, int(np.clip(MOST_WORK / (rows * work), FEWEST_DRAWS, DRAWS))
