"""What fresh samples would show of fitted weights, exactly: averages over a bivariate Gaussian, no test sample.

In cluster c the teacher field nu and the prediction w of a fresh sample are Gaussian with means (tau, H = h + b) and
covariance [[rho, m], [m, q]]. Labels 1 and -1 are averaged given the prediction, real labels given the teacher field,
so that one-dimensional quadrature is left. It is written apart from the limit's, and its panels end at every kink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from giantstep.types import Floats

_REACH, _PANEL = 9.0, 0.75
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_HERMITE, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(101)


@dataclass(frozen=True)
class Labels:
    """How labels are made of the teacher field in one cluster.

    Attributes
    ----------
    kind : sign, logit, cluster, random, or ``real`` for y = function(nu) + sqrt(noise) N(0, 1).
    function : f0 of real labels.
    kinks : where f0 is not smooth.
    noise, flip : variance of the noise; probability that a class is turned.
    sign : label of the cluster for ``cluster``.
    """

    kind: str
    function: Callable[[Any], Any] | None = None
    kinks: tuple[float, ...] = ()
    noise: float = 0.0
    flip: float = 0.0
    sign: float = 1.0

    @property
    def binary(self) -> bool:
        """Whether labels are 1 and -1."""
        return self.kind != "real"

    def probability(self, mean: Floats, variance: float) -> Floats:
        """Return P(y = 1) where the teacher field is N(mean, variance)."""
        if self.kind == "sign":
            spread = np.sqrt(variance + self.noise)
            up = ndtr(mean / spread) if spread > 0 else 0.5 * (1 + np.sign(mean))
        elif self.kind == "logit":
            fields = mean[..., None] + np.sqrt(variance) * _HERMITE
            up = expit(fields) @ _HERMITE_WEIGHTS / _HERMITE_WEIGHTS.sum()
        elif self.kind == "cluster":
            up = np.full(mean.shape, 0.5 * (1 + self.sign))
        else:
            up = np.full(mean.shape, 0.5)
        return (1 - 2 * self.flip) * up + self.flip


def loss_of(loss: str, threshold: float) -> Callable[[Any, Any], Any]:
    """Return l(y, z); the limits `interpolate` and `maxmargin` have the losses they are limits of."""
    if loss in ("square", "interpolate"):
        return lambda y, z: 0.5 * (y - z) ** 2
    if loss == "logistic":
        return lambda y, z: np.logaddexp(0.0, -y * z)
    if loss in ("hinge", "maxmargin"):
        return lambda y, z: np.maximum(1 - y * z, 0.0)

    def huber(y: Any, z: Any) -> Any:
        clipped = np.clip(y - z, -threshold, threshold)
        return clipped * (y - z - 0.5 * clipped)

    return huber


@dataclass(frozen=True)
class Fresh:
    """A fresh sample of one cluster: means and covariance of teacher field and prediction, and its label."""

    labels: Labels
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

    def _edges(self, *kinks: float) -> Floats:
        """Return panel ends for an integral over the prediction; steep label probabilities get panels of their own."""
        spread = np.sqrt(self.q)
        ends = self.mean + spread * np.arange(-_REACH, _REACH + _PANEL / 2, _PANEL)
        places = [*kinks]
        if self.labels.kind == "sign" and self.m:
            centre = self.mean - self.tau * self.q / self.m
            width = np.sqrt(self._unexplained + self.labels.noise) * self.q / abs(self.m)
            places += [centre + width * k for k in (-6.0, -3.0, -1.5, 0.0, 1.5, 3.0, 6.0)]
        inside = [place for place in places if ends[0] < place < ends[-1]]
        return np.unique(np.concatenate([ends, inside]))

    def average(self, value: Callable[[Any, Any], Any], *kinks: float) -> float:
        """Return E value(y, prediction) for classes; `value` has kinks where the prediction is one of these."""
        if self.q <= 0:
            chance = float(self._up(np.array([self.mean]))[0])
            return float(chance * value(1.0, self.mean) + (1 - chance) * value(-1.0, self.mean))
        nodes, weights = _composite(self._edges(*kinks))
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
            spread = np.sqrt(self.rho)
            ends = self.tau + spread * np.arange(-_REACH, _REACH + _PANEL / 2, _PANEL)
            inside = [kink for kink in self.labels.kinks if ends[0] < kink < ends[-1]]
            field, weights = _composite(np.unique(np.concatenate([ends, inside])))
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


def _composite(edges: Floats) -> tuple[Floats, Floats]:
    half = 0.5 * np.diff(edges)
    nodes = edges[:-1, None] + half[:, None] * (1 + _NODES)
    return nodes.ravel(), (half[:, None] * _WEIGHTS).ravel()


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
