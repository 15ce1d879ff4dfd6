"""The forecast with rows: leave-one-out in place of even leverages, and the jackknife,
forecast (5)-(10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from giantstep.core.base.types import Floats, Integers
from giantstep.core.lab.seeds import Draws
from giantstep.tools.data.forecasts.decomposition import ForecastCurve

CHUNK = 2**22
"""Numbers (rows times points times outputs) that are held at a time."""
LEVERAGE_ONE = 1e-8
"""1 - h below which a row determines its own fit, so that leaving it out is
undefined.
"""


class RowPoint(NamedTuple):
    """One point seen by the m rows."""

    left_out: (
        Floats  # (m, R) leave-one-out residuals e_i of forecast (5), intercept included
    )
    diagonal: Floats  # (m,) M_ii
    square: Floats  # (m,) (M^2)_ii
    # (m,) v_i of forecast (7), the variance one fit on n rows adds, over E; negative
    # for n > N
    spread: Floats
    noise: float  # tr E
    scale: float  # the factor c of forecast (8)


@dataclass(frozen=True)
class RowSums:
    """What B points keep of their rows."""

    mse: Floats  # forecast (8)
    mse_se: Floats  # its standard error by the jackknife, forecast (10)
    loo_over_gcv: (
        Floats  # leave-one-out over generalised cross-validation at the matched ridge
    )
    loo_z: Floats  # its z-score
    leverage_cv: Floats  # std(1/M_ii) mean(M_ii), 0 for even leverages
    undefined: Floats  # rows of leverage 1, for which leave-one-out does not exist


def sum_rows(
    curve: ForecastCurve,
    visit: Callable[[int, RowPoint], None] = lambda point, rows: None,
) -> RowSums:
    """Return what the rows say of all points; `visit` sees each computed point with its
    rows.
    """
    points = np.flatnonzero(np.isfinite(curve.gcv))
    rows, outputs = curve.decomposition.labels.shape
    width = max(1, CHUNK // (rows * (3 + 2 * outputs)))
    columns = np.full((6, len(curve.gcv)), np.nan)
    for start in range(0, len(points), width):
        chosen = points[start : start + width]
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[:, chosen] = _sum_some(curve, chosen, visit)
    return RowSums(*columns)


def _sum_some(
    curve: ForecastCurve, chosen: Integers, visit: Callable[[int, RowPoint], None]
) -> list[Floats]:
    """Return the columns of `RowSums` at b points."""
    at = curve.resolvent
    decomposition = curve.decomposition
    n = curve.samples[chosen]
    count = decomposition.rows
    vectors = decomposition.vectors
    residual = decomposition.residual
    weights = at.weights[chosen].T
    # diagonals of M, M^2, M^3 (m, b), and the rows of M Y and M^2 Y (m, b, R)
    first, second, third = (
        vectors**2 @ weights**k + decomposition.outside[:, None] for k in (1, 2, 3)
    )
    scaled = (
        (weights**k)[:, :, None] * decomposition.coefficients[:, None, :]
        for k in (1, 2)
    )
    labels, labels_twice = (
        np.tensordot(vectors, one, axes=1) + residual[:, None, :] for one in scaled
    )
    t1, t2, t3, q2, q3 = (
        trace[chosen] for trace in (at.t1, at.t2, at.t3, at.q2, at.q3)
    )
    df2 = curve.df2[chosen]
    noise = curve.bias_noise[chosen]
    left_out = labels / first[:, :, None]
    squared = np.sum(labels**2, axis=2)

    gcv = count * q2 / t1**2
    # what uneven leverages add to the squared residuals
    uneven = squared * (1 / first**2 - (count / t1) ** 2)
    whole = len(vectors) == count
    # from m of N rows as a difference to generalised cross-validation, forecast section
    # 7
    if whole:
        loo = np.mean(squared / first**2, axis=0)
    else:
        loo = gcv + uneven.mean(axis=0)
    row_df = (second / first**2 - 1) * (t1**2 / t2)  # forecast (6)
    spread = (row_df - 1 / n) / (n - 1 - df2) - (row_df - 1 / count) / (count - 1 - df2)
    expected = 1 + np.mean(row_df - 1 / count, axis=0) / (count - 1 - df2)
    scale = np.where(n > count, loo / (noise * expected), 1.0)
    mse = loo + spread.mean(axis=0) * noise * scale

    # the jackknife over rows, forecast (9) and (10)
    ratio = second / first
    excess = n - count
    t1_without = t1 - ratio
    t2_without = t2 - 2 * third / first + ratio**2
    q2_without = (
        q2
        - 2 * np.sum(left_out * labels_twice, axis=2)
        + np.sum(left_out**2, axis=2) * second
    )
    risk = (
        (1 + 1 / n) * (n - 1) * q2_without / ((excess + 1) * t2_without + t1_without**2)
    )
    shift = (excess / t1 - (excess + 1) / t1_without) / (1 + excess * t2 / t1**2)
    slope = np.where(q2 > 0, -2 * q3 / q2, 0.0)
    moved = 1 + shift * (
        slope + (2 * excess * t3 + 2 * t1 * t2) / (excess * t2 + t1**2)
    )
    risk = np.where(at.kappa[chosen] > 0, risk * moved, risk)
    relative = np.sqrt(count - 1) * risk.std(axis=0) / curve.gcv[chosen]

    error = uneven.std(axis=0) / np.sqrt(len(vectors))
    z = np.where(error > 0, (loo - gcv) / error, 0.0)
    leverage_cv = np.std(1 / first, axis=0) * first.mean(axis=0)
    # where features leave no dimension free, M_ii is not 1 - h
    if decomposition.null:
        undefined = np.sum(first < LEVERAGE_ONE, axis=0)
    else:
        undefined = np.zeros(len(chosen))
    for b in np.flatnonzero(undefined == 0):
        rows = (left_out[:, b], first[:, b], second[:, b], spread[:, b])
        visit(int(chosen[b]), RowPoint(*rows, float(noise[b]), float(scale[b])))
    numbers = [mse, relative * mse, np.where(gcv > 0, loo / gcv, 1.0), z, leverage_cv]
    return [*(np.where(undefined > 0, np.nan, column) for column in numbers), undefined]


# -- The share of misclassified rows at n samples --------------------------------------


SMALLEST_SHARE = 0.05
"""Least share of the variance of decision values that is left where noise is removed,
forecast (13).
"""
FLAT = 1e-10
"""Eigenvalues of a covariance, relative to the largest, below which a direction does
not exist.
"""
WILD = 10_000
"""Rows times wild draws behind a share: they leave a Monte-Carlo error of some 3 %."""
WIDEN = 1.3
"""Factor of the standard error over rows that makes |z| < 2 as frequent as it should
be, forecast section 5.
"""
FAR = 0.1
FAR_WIDE = 0.2
"""Relative error added where n > 2 N, the second with fewer than two rows a feature and
a small ridge; measured.
"""


@dataclass(frozen=True)
class Decisions:
    """Labels of the m rows as classes, and the wild draws that stand for the noise of a
    fit.
    """

    curve: ForecastCurve
    # (m,) numbers of the classes from 0; two classes have one output, +1 for class 1
    classes: Integers
    seed: int  # of the wild draws

    def error(self, point: int, rows: RowPoint) -> tuple[float, float]:
        """Return the misclassified share at a point and its standard error."""
        decomposition = self.curve.decomposition
        n = float(self.curve.samples[point])
        count = decomposition.rows
        labels = decomposition.labels
        decisions = labels - rows.left_out
        # random signs, the same in every grid
        signs = Draws(
            self.seed, f"forecast n={n:g} ridge={self.curve.ridge[point]:.17g}", 0
        )
        if n > count:
            decisions = self._without_noise(decisions, point, rows, signs)
        margin = labels[:, 0] * decisions[:, 0]
        if decisions.shape[1] == 1 and n >= count:
            wrong = (margin <= 0).astype(float)
        elif decisions.shape[1] == 1:
            width = np.sqrt(np.maximum(rows.spread, 0.0) * rows.noise)
            wrong = ndtr(-margin / np.maximum(width, 1e-300))  # forecast (11)
        elif n >= count:
            wrong = (np.argmax(decisions, axis=1) != self.classes).astype(float)
        else:
            wrong = self._wild_shares(decisions, point, rows, signs)
        m = len(labels)
        share = float(np.mean(wrong))
        columns = decomposition.columns
        q = (m * share + 1) / (m + 2)
        error = max(
            WIDEN * float(np.std(wrong)) / np.sqrt(m), float(np.sqrt(q * (1 - q) / m))
        )
        if n > 2 * count:
            wide = count < 2 * columns and self.curve.df1[point] > 0.5 * min(
                count - 1, columns
            )
            error = float(np.hypot(error, (FAR_WIDE if wide else FAR) * share))
        return share, error

    def _wild_shares(
        self, decisions: Floats, point: int, rows: RowPoint, signs: Draws
    ) -> Floats:
        """Return the share of draws in which each row is misclassified, forecast
        (12).
        """
        again = (float(self.curve.df2[point]) + 1) / float(self.curve.samples[point])
        first = self._bounce(rows, rows.left_out[:, None, :], point, signs)
        second = self._bounce(rows, first, point, signs)
        noise = np.sqrt(1 - again) * first + np.sqrt(again) * second
        noise = _scaled(noise, np.maximum(rows.spread, 0.0), rows.noise)
        wrong = [
            np.argmax(decisions[:, None, :] + side * noise, axis=2)
            != self.classes[:, None]
            for side in (1, -1)
        ]
        return np.mean(wrong, axis=(0, 2))

    def _bounce(
        self, rows: RowPoint, values: Floats, point: int, signs: Draws
    ) -> Floats:
        """Return B(a): rows a_j (m, draws or 1, R) with random signs through M without
        its diagonal, (m, draws, R).
        """
        signed = (
            values
            * signs.signs("wild", (len(values), -(-WILD // len(values))))[:, :, None]
        )
        flat = signed.reshape(len(values), -1)
        weights = self.curve.resolvent.weights[point]
        decomposition = self.curve.decomposition
        free = float(decomposition.null > 0)
        vectors = decomposition.vectors
        image = vectors @ ((weights - free)[:, None] * (vectors.T @ flat))
        image = (
            image
            + (free - rows.diagonal)[:, None] * flat
            - free / decomposition.rows * flat.sum(axis=0)
        )
        norm = np.sqrt(np.maximum(rows.square - rows.diagonal**2, 1e-300))
        return (image / norm[:, None]).reshape(signed.shape)

    def _without_noise(
        self, decisions: Floats, point: int, rows: RowPoint, signs: Draws
    ) -> Floats:
        """Return decision values of n > N samples: inside each class they lose the
        noise of N rows, (13).
        """
        cleaned = decisions.copy()
        outputs = decisions.shape[1]
        if outputs > 1:
            noise = self._bounce(rows, rows.left_out[:, None, :], point, signs)
            noise = _scaled(
                noise, np.maximum(-rows.spread, 0.0), rows.noise * rows.scale
            )
        for number in np.unique(self.classes):
            inside = self.classes == number
            centre = decisions[inside].mean(axis=0)
            around = decisions[inside] - centre
            if outputs == 1:
                left = 1 + rows.spread.mean() * rows.noise * rows.scale / max(
                    float(np.mean(around**2)), 1e-300
                )
                cleaned[inside] = (
                    centre + np.sqrt(np.clip(left, SMALLEST_SHARE, 1.0)) * around
                )
            else:
                lost = noise[inside].reshape(-1, outputs)
                cleaned[inside] = centre + around @ _shrinking(
                    around, lost.T @ lost / len(lost)
                )
        return cleaned


def _scaled(noise: Floats, spread: Floats, power: float) -> Floats:
    """Return draws (rows, draws, R) with the spread of each row (rows,); their mean
    square is that of `power`.
    """
    noise = noise * np.sqrt(spread)[:, None, None]
    size = max(float(np.mean(np.sum(noise**2, axis=2))), 1e-300)
    return np.asarray(noise * np.sqrt(spread.mean() * power / size))


def _shrinking(around: Floats, noise: Floats) -> Floats:
    """Return the matrix that takes values of covariance S to covariance S - C,
    symmetric where S is whitened.
    """
    covariance = around.T @ around / len(around)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > FLAT * max(values[-1], 1e-300)
    root = np.sqrt(values[kept])
    basis = vectors[:, kept]
    whitened = np.eye(len(root)) - (basis / root).T @ noise @ (basis / root)
    shares, turn = np.linalg.eigh(whitened)
    half = (turn * np.sqrt(np.clip(shares, SMALLEST_SHARE, 1.0))) @ turn.T
    return (basis / root) @ half @ (basis * root).T
