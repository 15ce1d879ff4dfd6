"""How likely a label 1 is, given that the teacher field is Gaussian: Z0(M, v) = E P(y =
1 | M + sqrt(v) z).
"""

from __future__ import annotations

import numpy as np
import scipy

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import (
    gauss_legendre_panels,
    normal_density,
    trapezoid_rule,
)

SPLIT_AT = 4.0
"""Variance above which the logistic-normal integral is split into a probit and a
short-ranged rest.
"""
_HALF_LINE = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0)
"""Edges of panels of 20 nodes for integrands that fall like e^-x: beyond 40 lies
1e-17.
"""


class BinaryLabels:
    """A law of labels 1 and -1 that is symmetric: P(-1 | nu) = P(1 | -nu), whatever
    gives nu its mean M and variance v.

    This one depends on no teacher field: M is the mean E y itself.
    """

    def positive(
        self, mean: Floats, variance: Floats, flip: Floats
    ) -> tuple[Floats, Floats]:
        """Return P(y = 1) with labels turned with probability `flip`, and its
        derivative in M.
        """
        chance, slope = self.unturned(mean, variance)
        # a label is right and stays, or is wrong and turned
        return (1 - 2 * flip) * chance + flip, (1 - 2 * flip) * slope

    def unturned(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return (1 + E y)/2."""
        return 0.5 * (1 + mean), np.zeros(mean.shape)

    def width(self, variance: Floats) -> Floats:
        """Return the range of M over which the chance changes."""
        return np.full(np.shape(variance), np.inf)

    def resolving_step(self, slope: Floats, variance: Floats) -> Floats:
        """Return the step in xi of the trapezoidal rule that is exact to rounding for
        M = tau + slope xi.
        """
        return np.full(np.shape(variance), np.inf)


class SignLabels(BinaryLabels):
    """sign(nu); noise inside the sign adds to the variance of nu."""

    def unturned(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return Phi(M/sqrt(v)) and its derivative."""
        # a field that does not fluctuate has a step, which the largest slope stands for
        scale = np.sqrt(np.maximum(variance, 1e-300))
        scaled = mean / scale
        return scipy.special.ndtr(scaled), normal_density(scaled) / scale

    def width(self, variance: Floats) -> Floats:
        """Return sqrt(v)."""
        return np.sqrt(variance)

    def resolving_step(self, slope: Floats, variance: Floats) -> Floats:
        """Return 0.73/sqrt(1 + slope^2/v): the rule with step h is wrong by exp(-2
        pi^2/(h^2 (1 + slope^2/v))).
        """
        total = variance + slope**2
        # without a slope the chance does not depend on xi, whatever its variance
        share = np.divide(variance, total, out=np.ones_like(total), where=slope != 0)
        return np.asarray(0.73 * np.sqrt(share))


class LogitLabels(BinaryLabels):
    """P(1) = 1/(1 + e^-nu)."""

    def unturned(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return E sigmoid(M + sqrt(v) z) and its derivative."""
        return logistic_normal(mean, variance)

    def width(self, variance: Floats) -> Floats:
        """Return about the larger of 1 and sqrt(v)."""
        return np.sqrt(variance + 1.0)

    def resolving_step(self, slope: Floats, variance: Floats) -> Floats:
        """Return 1/2 over max(1, |slope|): the poles of the sigmoid are at distance
        pi.
        """
        return np.asarray(0.5 / np.maximum(np.abs(slope), 1.0))


def logistic_normal(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return E sigmoid(M + sqrt(v) z), z ~ N(0,1), and its derivative in M, to about
    1e-14.

    For v < 4 by the trapezoidal rule, whose error falls like exp(-2 pi^2/(step
    sqrt(v))) since the sigmoid has its poles at distance pi. For larger v exactly
    split, sigmoid(x) = 1(x > 0) + sign(-x) sigmoid(-|x|), into a probit and an integral
    over a half-line where the integrand falls like e^-x.

    >>> value, slope = logistic_normal(np.array([0.0]), np.array([4.0]))
    >>> float(value[0])
    0.5
    """
    mean, variance = np.broadcast_arrays(mean, variance)
    value = np.empty(mean.shape)
    slope = np.empty(mean.shape)
    # a field that varies more needs a finer rule: see the error above
    for least, most, step in ((-np.inf, 1.0, 0.5), (1.0, SPLIT_AT, 0.25)):
        chosen = (variance >= least) & (variance < most)
        if chosen.any():
            nodes, weights = trapezoid_rule(step, 8.5)
            deviation = np.sqrt(variance[chosen])[:, None] * nodes
            g = scipy.special.expit(mean[chosen][:, None] + deviation)
            # sigmoid' = g - g^2
            value[chosen] = g @ weights
            slope[chosen] = value[chosen] - (g**2) @ weights
    # NaN is below nothing: it goes on, and comes out as NaN
    wide = ~(variance < SPLIT_AT)
    if wide.any():
        value[wide], slope[wide] = _split_logistic(mean[wide], variance[wide])
    return value, slope


def _split_logistic(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return what `logistic_normal` does where the variance is large (n,)."""
    nodes, weights = gauss_legendre_panels(np.array(_HALF_LINE), 20)
    # sigmoid(-|x|) on both sides of zero
    tail = scipy.special.expit(-nodes)
    M = mean[:, None]
    scale = np.sqrt(variance[:, None])
    # the density of the field at the nodes and at their mirror images
    right = normal_density((nodes - M) / scale) / scale
    left = normal_density((nodes + M) / scale) / scale
    probit = scipy.special.ndtr(M / scale)[:, 0]
    value = probit + (left - right) @ (weights * tail)
    return value, (left + right) @ (weights * tail * (1 - tail))
