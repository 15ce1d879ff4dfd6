"""The share of misclassified rows at n samples, from leave-one-out decision values: forecast (11)-(13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from giantstep.forecasts.curve import ForecastCurve
from giantstep.forecasts.decomposition import Decomposition, RowSample
from giantstep.forecasts.rowwise import RowPoint
from giantstep.lab.seeds import Draws
from giantstep.types import Floats, Integers

SMALLEST_SHARE = 0.05
"""Least share of the variance of decision values that is left where noise is removed, forecast (13)."""
FLAT = 1e-10
"""Eigenvalues of a covariance, relative to the largest, below which a direction does not exist."""
WILD = 10_000
"""Rows times wild draws behind a share: they leave a Monte-Carlo error of some 3 %."""
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
    seed : of the wild draws.
    """

    decomposition: Decomposition
    sample: RowSample
    classes: Integers
    seed: int

    def error(self, curve: ForecastCurve, point: int, rows: RowPoint) -> tuple[float, float]:
        """Return the misclassified share at a point and its standard error."""
        n, count = float(curve.samples[point]), self.decomposition.rows
        decisions = self.sample.labels - rows.left_out
        if n > count:
            decisions = self._without_noise(decisions, curve, point, rows)
        if n >= count:
            wrong = self._wrong(decisions).astype(float)
        elif decisions.shape[1] == 1:
            width = np.sqrt(np.maximum(rows.spread, 0.0) * rows.noise)
            margin = self.sample.labels[:, 0] * decisions[:, 0]
            wrong = ndtr(-margin / np.maximum(width, 1e-300))  # forecast (11)
        else:
            wrong = self._wild_shares(decisions, curve, point, rows)
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
        """Return the share of draws in which each row is misclassified, forecast (12)."""
        again = (float(curve.df2[point]) + 1) / float(curve.samples[point])
        signs = self._signs(curve, point)
        first = self._bounce(rows, rows.left_out[:, None, :], curve, point, signs)
        second = self._bounce(rows, first, curve, point, signs)
        noise = np.sqrt(1 - again) * first + np.sqrt(again) * second
        noise = _scaled(noise, np.maximum(rows.spread, 0.0), rows.noise)
        wrong = [np.argmax(decisions[:, None, :] + side * noise, axis=2) != self.classes[:, None] for side in (1, -1)]
        return np.mean(wrong, axis=(0, 2))

    def _signs(self, curve: ForecastCurve, point: int) -> Draws:
        """Return the random signs of a point, the same in every grid."""
        return Draws(self.seed, f"forecast n={curve.samples[point]:g} ridge={curve.ridge[point]:.17g}", 0)

    def _bounce(self, rows: RowPoint, values: Floats, curve: ForecastCurve, point: int, signs: Draws) -> Floats:
        """Return B(a): rows a_j (m, draws or 1, R) with random signs through M without its diagonal, (m, draws, R)."""
        signed = values * signs.signs("wild", (len(values), -(-WILD // len(values))))[:, :, None]
        flat = signed.reshape(len(values), -1)
        weights, free = curve.resolvent.weights[point], float(self.decomposition.null > 0)
        vectors = self.sample.vectors
        image = vectors @ ((weights - free)[:, None] * (vectors.T @ flat))
        image = image + (free - rows.diagonal)[:, None] * flat - free / self.decomposition.rows * flat.sum(axis=0)
        norm = np.sqrt(np.maximum(rows.square - rows.diagonal**2, 1e-300))
        return (image / norm[:, None]).reshape(signed.shape)

    # -- more samples than rows ------------------------------------------------------------------------------------

    def _without_noise(self, decisions: Floats, curve: ForecastCurve, point: int, rows: RowPoint) -> Floats:
        """Return decision values of n > N samples: inside each class they lose the noise of N rows, (13)."""
        cleaned, outputs = decisions.copy(), decisions.shape[1]
        if outputs > 1:
            noise = self._bounce(rows, rows.left_out[:, None, :], curve, point, self._signs(curve, point))
            noise = _scaled(noise, np.maximum(-rows.spread, 0.0), rows.noise * rows.scale)
        for number in np.unique(self.classes):
            inside = self.classes == number
            centre = decisions[inside].mean(axis=0)
            around = decisions[inside] - centre
            if outputs == 1:
                left = 1 + rows.spread.mean() * rows.noise * rows.scale / max(float(np.mean(around**2)), 1e-300)
                cleaned[inside] = centre + np.sqrt(np.clip(left, SMALLEST_SHARE, 1.0)) * around
            else:
                lost = noise[inside].reshape(-1, outputs)
                cleaned[inside] = centre + around @ _shrinking(around, lost.T @ lost / len(lost))
        return cleaned


def _scaled(noise: Floats, spread: Floats, power: float) -> Floats:
    """Return draws (rows, draws, R) with the spread of each row (rows,); their mean square is that of `power`."""
    noise = noise * np.sqrt(spread)[:, None, None]
    size = max(float(np.mean(np.sum(noise**2, axis=2))), 1e-300)
    return np.asarray(noise * np.sqrt(spread.mean() * power / size))


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
