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
LEAST_DENSITY = 1e-6
"""Density of a logit, relative to the largest, below which its label is not given."""
NAIVE = 1.96
"""Half width of the usual interval, in standard deviations of the training error."""
WANTED = 0.95
"""The coverage that it claims."""


def wrong_signs(
    mean: Floats, variance: Floats, positive: Floats, weights: Floats
) -> float:
    """Return how often the sign of the output is not the label, P(y = 1|z) = positive
    (N,): (3.5).
    """
    negative_output = normal_distribution(-mean / np.sqrt(np.maximum(variance, 1e-300)))
    wrong = positive * negative_output + (1 - positive) * (1 - negative_output)
    return float(weights @ wrong)


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
        # the narrowest output counts, and those of rare inputs may be very narrow
        often = weights > RARE
        mean = mean[often]
        weights = weights[often]
        positive = positive[often]
        scale = np.sqrt(np.maximum(variance[often], 1e-300))
        # the step follows the narrowest output: a few very narrow ones must not set it
        scale = np.maximum(scale, NARROW * np.sqrt(weights @ scale**2 / weights.sum()))
        step = min(STEP * float(scale.min()), WIDEST)
        # in whole multiples of 8 steps, so that few widths differ
        half = 8 * np.ceil(REACH * scale / step / 8).astype(np.int64)
        first = int(np.min(mean / step - half)) - 1
        last = int(np.max(mean / step + half)) + 1
        size = last - first + 1
        density = np.zeros(size)
        positives = np.zeros(size)
        # inputs of one width together: their logits make a table
        for width in np.unique(half):
            inputs = np.flatnonzero(half == width)
            mean_of_input = mean[inputs][:, None]
            scale_of_input = scale[inputs][:, None]
            centre = np.rint(mean[inputs] / step).astype(np.int64)
            place = centre[:, None] + np.arange(-width, width + 1)
            place = np.clip(place, first, last)
            deviation = (place * step - mean_of_input) / scale_of_input
            mass = weights[inputs][:, None] * normal_density(deviation) / scale_of_input
            with_label = mass * positive[inputs][:, None]
            flat = (place - first).ravel()
            density += np.bincount(flat, mass.ravel(), size)
            positives += np.bincount(flat, with_label.ravel(), size)
        logits = step * np.arange(first, last + 1, dtype=np.float64)
        return cls(logits, density, positives)

    @property
    def step(self) -> float:
        """Distance of neighbouring logits."""
        return float(self.logits[1] - self.logits[0])

    def log_loss(self, sharpness: float = 1.0) -> float:
        """Return E log(1 + exp(-y b l)) for b = 1/T: (3.6)."""
        l = sharpness * self.logits
        # label -1 costs log(1 + e^l) = log(1 + e^-l) + l
        of_positive = self.density @ np.logaddexp(0.0, -l)
        return self.step * float(of_positive + (self.density - self.positive) @ l)

    def brier(self, sharpness: float = 1.0) -> float:
        """Return E (P - y)^2 of the probabilities of the fit, y = 0 or 1: (3.6)."""
        # the probabilities that the fit gives
        chance = _sigmoid(sharpness * self.logits)
        # y^2 = y
        square = self.positive.sum() + self.density @ chance**2
        return self.step * float(square - 2 * self.positive @ chance)

    def _between(self, logits: Floats) -> tuple[Floats, Floats]:
        """Return both densities at logits between those that are known."""
        from scipy.interpolate import make_interp_spline

        known = np.stack([self.density, self.positive], axis=1)
        both = make_interp_spline(self.logits, known, k=5)(logits)
        # a spline may swing below zero in the tails
        density = np.maximum(both[:, 0], 0.0)
        return density, np.clip(both[:, 1], 0.0, density)

    def calibration_error(self, sharpness: float = 1.0) -> float:
        """Return int |num - sigmoid(b l) den| dl, how far the probabilities of the fit
        are off on average: (3.6).
        """
        # the modulus has kinks, which an even rule sees only on a finer grid
        count = FINER * (len(self.logits) - 1) + 1
        logits = np.linspace(self.logits[0], self.logits[-1], count)
        density, positive = self._between(logits)
        off = np.abs(positive - _sigmoid(sharpness * logits) * density)
        return self.step / FINER * float(np.sum(off))

    @property
    def floor(self) -> float:
        """The log loss of the best recalibration, which says P(y = 1|l): (3.6)."""
        from scipy.special import xlogy

        # -E log P(y|l) = -sum_y int p_y log(p_y/den), where 0 log 0 = 0
        negative = np.maximum(self.density - self.positive, 0.0)
        whole = xlogy(self.density, self.density)
        of_labels = xlogy(self.positive, self.positive), xlogy(negative, negative)
        return self.step * float(np.sum(whole - of_labels[0] - of_labels[1]))

    @property
    def sharpness(self) -> float:
        """B = 1/T of the best temperature, 0 where no finite one is best: (3.7)."""
        from scipy.optimize import brentq

        def slope(b: float) -> float:
            excess = _sigmoid(b * self.logits) * self.density - self.positive
            return float(excess @ self.logits)

        # the log loss is convex in b: its slope only grows
        if slope(0.0) >= 0:
            return 0.0
        # the bracket doubles until the slope has turned
        high = 1.0
        while slope(high) < 0 and high < 1e6:
            high *= 2
        if slope(high) > 0:
            return float(brentq(slope, 0.0, high, xtol=1e-14, rtol=1e-12))
        # logits that always have the sign of the label: the sharper the better
        return np.inf

    def reliability(self, logits: Floats) -> Floats:
        """Return P(y = 1|l) at given logits, NaN where none occur."""
        low = self.logits[0]
        high = self.logits[-1]
        density, positive = self._between(np.clip(logits, low, high))
        occur = density > LEAST_DENSITY * self.density.max()
        occur &= (logits >= low) & (logits <= high)
        return np.where(occur, positive / np.where(occur, density, 1.0), np.nan)


def _sigmoid(l: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(l))


def coverage(width: float, gap: Floats, variance: Floats, weights: Floats) -> float:
    """Return P(|y - f| <= width), y - f of mean `gap` and this variance given z, label
    noise included: (3.8).
    """
    scale = np.sqrt(np.maximum(variance, 1e-300))
    below_upper = normal_distribution((width - gap) / scale)
    below_lower = normal_distribution((-width - gap) / scale)
    return float(weights @ (below_upper - below_lower))


def honest_width(gap: Floats, variance: Floats, weights: Floats) -> float:
    """Return the half width of the interval around f that covers 95% of the labels:
    (3.8).
    """
    from scipy.optimize import brentq

    def lacking(width: float) -> float:
        return coverage(width, gap, variance, weights) - WANTED

    # three standard deviations of a mixture may be too few; errors may all be zero
    high = 3 * float(np.sqrt(weights @ (gap**2 + np.maximum(variance, 0.0)))) + 1e-140
    while lacking(high) < 0:
        high *= 2
    return float(brentq(lacking, 0.0, high, xtol=1e-12))
