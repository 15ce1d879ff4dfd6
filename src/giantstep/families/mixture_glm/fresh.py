"""What fresh samples would show of fitted weights, exactly: averages over a bivariate Gaussian, no test sample.

In cluster c the teacher field nu and the prediction w of a fresh sample are Gaussian with means (tau, H = h + b) and
covariance [[rho, m], [m, q]]. Labels 1 and -1 are averaged given the prediction, real labels given the teacher field,
so that one-dimensional quadrature is left. It is written apart from the limit's, and its panels end at every kink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from giantstep.families.mixture_glm.labels import ClusterLabels, loss_of
from giantstep.gaussian import gauss_legendre_panels
from giantstep.types import Floats

_REACH, _PANEL, _NODES = 9.0, 0.75, 12
"""Standard deviations of a field that are integrated over, width of a panel in them, and its nodes: 1e-14 is left."""


@dataclass(frozen=True)
class Fresh:
    """A fresh sample of one cluster: means and covariance of teacher field and prediction, and its label."""

    labels: ClusterLabels
    tau: float
    rho: float
    mean: float
    q: float
    m: float

    # -- classes: given the prediction ---------------------------------------------------------------

    @property
    def _unexplained(self) -> float:
        return max(self.rho - self.m**2 / self.q, 0.0) if self.q > 0 else self.rho

    def _up(self, prediction: Floats) -> Floats:
        slope = self.m / self.q if self.q > 0 else 0.0
        return self.labels.probability(self.tau + slope * (prediction - self.mean), self._unexplained)

    def _steps(self) -> list[float]:
        """Return predictions around which the label's probability is steep, which get panels of their own."""
        if self.labels.kind != "sign" or not self.m:
            return []
        centre = self.mean - self.tau * self.q / self.m
        width = np.sqrt(self._unexplained + self.labels.noise) * self.q / abs(self.m)
        return [centre + width * k for k in (-6.0, -3.0, -1.5, 0.0, 1.5, 3.0, 6.0)]

    def average(self, value: Callable[[Any, Any], Any], *kinks: float) -> float:
        """Return E value(y, prediction) for classes; `value` has kinks where the prediction is one of these."""
        if self.q <= 0:
            chance = float(self._up(np.array([self.mean]))[0])
            return float(chance * value(1.0, self.mean) + (1 - chance) * value(-1.0, self.mean))
        nodes, weights = _panels(self.mean, self.q, [*kinks, *self._steps()])
        density = np.exp(-0.5 * (nodes - self.mean) ** 2 / self.q) / np.sqrt(2 * np.pi * self.q)
        up = self._up(nodes)
        return float((weights * density) @ (up * value(1.0, nodes) + (1 - up) * value(-1.0, nodes)))

    # -- real labels: given the teacher field --------------------------------------------------------

    def _residual(self) -> tuple[Floats, Floats, float]:
        """Return weights, means and the deviation of y - prediction given the teacher field, node by node."""
        function = self.labels.function
        assert function is not None
        if self.rho <= 0:
            field, weights, slope = np.array([self.tau]), np.ones(1), 0.0
        else:
            field, weights = _panels(self.tau, self.rho, function.kinks)
            weights = weights * np.exp(-0.5 * (field - self.tau) ** 2 / self.rho) / np.sqrt(2 * np.pi * self.rho)
            slope = self.m / self.rho
        centre = np.asarray(function(field)) - self.mean - slope * (field - self.tau)
        variance = self.labels.noise + self.q - slope * self.m
        return weights, centre, float(np.sqrt(max(variance, 0.0)))

    # -- observables ---------------------------------------------------------------------------------

    def error(self) -> float:
        """Return the misclassified fraction, or the mean squared error of real labels."""
        if self.labels.binary:
            return self.average(lambda y, z: 1.0 * (y * z < 0), 0.0)
        return self.squared()

    def squared(self) -> float:
        """Return the mean squared error."""
        if self.labels.binary:
            return self.average(lambda y, z: (y - z) ** 2)
        weights, centre, spread = self._residual()
        return float(weights @ (centre**2 + spread**2))

    def loss(self, loss: str, threshold: float) -> float:
        """Return the mean loss."""
        if self.labels.binary:
            kinks = (1.0, -1.0) if loss != "huber" else (1 + threshold, 1 - threshold, -1 + threshold, -1 - threshold)
            return self.average(loss_of(loss, threshold), *kinks)
        if loss != "huber":
            return 0.5 * self.squared()
        weights, centre, spread = self._residual()
        return float(weights @ _mean_huber(centre, spread, threshold))

    def margin_law(self, x: Floats) -> Floats:
        """Return P(y prediction <= x) for classes, P(y - prediction <= x) for real labels."""
        if not self.labels.binary:
            weights, centre, spread = self._residual()
            if spread == 0:
                return (centre[None, :] <= x[:, None]) @ weights
            return ndtr((x[:, None] - centre) / spread) @ weights
        return np.array([self._below(at) for at in map(float, x)])

    def _below(self, at: float) -> float:
        return self.average(lambda y, z: 1.0 * (y * z <= at), at, -at)


def _panels(mean: float, variance: float, kinks: Sequence[float]) -> tuple[Floats, Floats]:
    """Return nodes and weights over the bulk of N(mean, variance), with panels that end at the kinks."""
    ends = mean + np.sqrt(variance) * np.arange(-_REACH, _REACH + _PANEL / 2, _PANEL)
    inside = [kink for kink in kinks if ends[0] < kink < ends[-1]]
    return gauss_legendre_panels(np.unique(np.concatenate([ends, inside])), _NODES)


def _mean_huber(centre: Floats, spread: float, threshold: float) -> Floats:
    """Return E of Huber's loss of N(centre, spread^2): the quadratic part less what its tails overshoot."""
    if spread == 0:
        clipped = np.clip(centre, -threshold, threshold)
        return clipped * (centre - 0.5 * clipped)
    tails = np.zeros_like(centre)
    for sign in (1.0, -1.0):
        over = (sign * centre - threshold) / spread  # E (r - delta)_+^2/2 is what the square has too much
        density = np.exp(-0.5 * over**2) / np.sqrt(2 * np.pi)
        tails += 0.5 * spread**2 * ((1 + over**2) * ndtr(over) + over * density)
    return 0.5 * (centre**2 + spread**2) - tails
