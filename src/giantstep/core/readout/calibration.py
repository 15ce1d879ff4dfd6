"""How far outputs can be trusted: probabilities of classes, and intervals of
regression.

beyond_the_error section 3, at inputs of a rule where the output is Gaussian with a
given mean and variance. Whoever makes the rule sees to it that it resolves where the
output, or y - f, changes its sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import normal_density, normal_distribution

REACH = 8.5
"""Standard deviations of the output that are kept on both sides."""
STEP = 0.6
"""Distance of the logits of a density, in units of the least standard deviation: twelve
digits of every mean.
"""
WIDEST = 0.3
"""Largest such distance, in units of a logit: losses are smooth on the scale of one."""
FINER = 16
"""By how much a density is refined where the calibration error has kinks: 1e-6."""
NARROW = 0.05
"""Standard deviation, relative to a typical one, to which narrower outputs (of
saturated units) are widened: 1e-7 of a loss, since few inputs have so narrow an output
and losses are smooth.
"""
RARE = 1e-12
"""Weight of an input below which it does not count."""
SEEN = 1e-6
"""Density of a logit, relative to the largest, below which nothing is said of its
label.
"""
NAIVE = 1.96
WANTED = 0.95
"""Half width of the usual interval in standard deviations of the training error, and
the coverage it claims.
"""


def wrong_signs(
    mean: Floats, variance: Floats, positive: Floats, weights: Floats
) -> float:
    """Return how often the sign of the output is not the label, P(y = 1|z) = positive
    (N,): (3.5).
    """
    up = normal_distribution(-mean / np.sqrt(np.maximum(variance, 1e-300)))
    return float(weights @ (positive * up + (1 - positive) * (1 - up)))


@dataclass(frozen=True, eq=False)
class LogitLaw:
    """The density of the logit, alone and where the label is 1, at even distances: den
    and num of (3.5).
    """

    logits: Floats
    density: Floats
    positive: Floats

    @classmethod
    def of(
        cls, mean: Floats, variance: Floats, positive: Floats, weights: Floats
    ) -> LogitLaw:
        """Return the law of a logit that is Gaussian at every input (N,), where P(y =
        1|z) = positive.
        """
        often = weights > RARE
        mean = mean[often]
        weights = weights[often]
        positive = positive[often]
        scale = np.sqrt(np.maximum(variance[often], 1e-300))
        scale = np.maximum(scale, NARROW * np.sqrt(weights @ scale**2 / weights.sum()))
        step = min(STEP * float(scale.min()), WIDEST)
        half = 8 * np.ceil(REACH * scale / step / 8).astype(np.int64)
        first = int(np.min(mean / step - half)) - 1
        last = int(np.max(mean / step + half)) + 1
        size = last - first + 1
        density = np.zeros(size)
        positives = np.zeros(size)
        for width in np.unique(half):  # inputs of one width together
            own = np.flatnonzero(half == width)
            centre = np.rint(mean[own] / step).astype(np.int64)
            place = np.clip(centre[:, None] + np.arange(-width, width + 1), first, last)
            mass = weights[own][:, None] * normal_density(
                (place * step - mean[own][:, None]) / scale[own][:, None]
            )
            mass /= scale[own][:, None]
            flat = (place - first).ravel()
            density += np.bincount(flat, mass.ravel(), size)
            positives += np.bincount(
                flat, (mass * positive[own][:, None]).ravel(), size
            )
        return cls(
            step * np.arange(first, last + 1, dtype=np.float64), density, positives
        )

    @property
    def step(self) -> float:
        """Distance of neighbouring logits."""
        return float(self.logits[1] - self.logits[0])

    def log_loss(self, sharpness: float = 1.0) -> float:
        """Return E log(1 + exp(-y b l)) for b = 1/T: (3.6)."""
        l = sharpness * self.logits
        return self.step * float(
            self.density @ np.logaddexp(0.0, -l) + (self.density - self.positive) @ l
        )

    def brier(self, sharpness: float = 1.0) -> float:
        """Return E (P - y)^2 of the probabilities that are said, y = 0 or 1: (3.6)."""
        said = _sigmoid(sharpness * self.logits)
        return self.step * float(
            self.positive.sum() + self.density @ said**2 - 2 * self.positive @ said
        )

    def _between(self, logits: Floats) -> tuple[Floats, Floats]:
        """Return both densities at logits between those that are known."""
        from scipy.interpolate import make_interp_spline

        both = make_interp_spline(
            self.logits, np.stack([self.density, self.positive], axis=1), k=5
        )(logits)
        density = np.maximum(both[:, 0], 0.0)
        return density, np.clip(both[:, 1], 0.0, density)

    def calibration_error(self, sharpness: float = 1.0) -> float:
        """Return int |num - sigmoid(b l) den| dl, how far probabilities that are said
        are off on average: (3.6).
        """
        logits = np.linspace(
            self.logits[0], self.logits[-1], FINER * (len(self.logits) - 1) + 1
        )
        density, positive = self._between(logits)
        return (
            self.step
            / FINER
            * float(np.sum(np.abs(positive - _sigmoid(sharpness * logits) * density)))
        )

    @property
    def floor(self) -> float:
        """The log loss of the best recalibration, which says P(y = 1|l): (3.6)."""
        from scipy.special import xlogy

        negative = np.maximum(self.density - self.positive, 0.0)
        whole = xlogy(self.density, self.density)
        return self.step * float(
            np.sum(
                whole - xlogy(self.positive, self.positive) - xlogy(negative, negative)
            )
        )

    @property
    def sharpness(self) -> float:
        """B = 1/T of the best temperature, 0 where no finite one is best: (3.7)."""
        from scipy.optimize import brentq

        def slope(b: float) -> float:
            return float(
                (_sigmoid(b * self.logits) * self.density - self.positive) @ self.logits
            )

        if slope(0.0) >= 0:
            return 0.0
        high = 1.0
        while slope(high) < 0 and high < 1e6:
            high *= 2
        if slope(high) > 0:
            return float(brentq(slope, 0.0, high, xtol=1e-14, rtol=1e-12))
        return np.inf

    def reliability(self, logits: Floats) -> Floats:
        """Return P(y = 1|l) at given logits, NaN where none occur."""
        seen, positive = self._between(np.clip(logits, self.logits[0], self.logits[-1]))
        occur = (
            (seen > SEEN * self.density.max())
            & (logits >= self.logits[0])
            & (logits <= self.logits[-1])
        )
        return np.where(occur, positive / np.where(occur, seen, 1.0), np.nan)


def _sigmoid(l: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(l))


def coverage(width: float, gap: Floats, variance: Floats, weights: Floats) -> float:
    """Return P(|y - f| <= width), y - f of mean `gap` and this variance given z, label
    noise included: (3.8).
    """
    scale = np.sqrt(np.maximum(variance, 1e-300))
    inside = normal_distribution((width - gap) / scale) - normal_distribution(
        (-width - gap) / scale
    )
    return float(weights @ inside)


def honest_width(gap: Floats, variance: Floats, weights: Floats) -> float:
    """Return the half width of the interval around f that covers 95% of the labels:
    (3.8).
    """
    from scipy.optimize import brentq

    high = 3 * float(np.sqrt(weights @ (gap**2 + np.maximum(variance, 0.0)))) + 1e-140
    while coverage(high, gap, variance, weights) < WANTED:
        high *= 2
    return float(
        brentq(
            lambda width: coverage(width, gap, variance, weights) - WANTED,
            0.0,
            high,
            xtol=1e-12,
        )
    )
