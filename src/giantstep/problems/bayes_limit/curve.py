"""The curve alpha(q) of fixed points of one order parameter, and everything that
follows from it.

alpha(q) = q/((1 - q) I(q)), bayes_multi_index (5): a fixed point is stable where the
curve rises, the free entropy has slope r I (alpha - alpha(q))/2. No state evolution is
iterated. The coordinate is t = logit q, in which q/(1 - q) = e^t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats
from giantstep.core.maths.solve.roots import brent_root, require_finite
from giantstep.problems.bayes_limit.tolerances import ABSENT

if TYPE_CHECKING:
    from giantstep.problems.bayes_limit.problem import ScalarChannel

_SMALL_Q = (-7.0, -5.0)
"""First nodes t: alpha(q) is nearly a power of q there, so that few suffice."""
_NEXT = -3.0
_SPACING = 0.7
"""First and distance of the nodes t from q = 0.05 on; a loop of the curve that is
narrower hides between two.
"""
_LARGE_Q = 5.0
"""Node t from which on their distance is doubled: q = 0.993. A loop that ends further
out is wide.
"""
_DEEPEST = -34.0
"""Smallest t that is looked at: q = 1e-15."""
_KEPT = 512
"""Values of the curve that are kept: those of its nodes and of the roots of some dozen
points.
"""
_SHALLOW = 0.12
"""Slope of log alpha in t below which a loop may hide between two nodes."""
_FLAT = 1e-9
"""Change of log alpha over one unit of t that is rounding: no turn."""
_TURN = 1e-8
"""Accuracy of a turn in t; log alpha is flat there."""
_ROOT = 1e-12
"""Accuracy of a root in t, and relative of an alpha."""


class Turn(NamedTuple):
    """A local extremum of alpha(q)."""

    q: float
    alpha: float
    is_maximum: bool


class Jump(NamedTuple):
    """A first-order transition: alpha and q where the upper branch is born, of equal
    free entropy, where AMP jumps.
    """

    alpha_dyn: float
    q_dyn: float
    alpha_it: float
    q_it: float
    alpha_amp: float
    q_amp: float


class OverlapCurve:
    """The curve of one channel, computed at the nodes that a question needs."""

    def __init__(self, channel: ScalarChannel) -> None:
        self.channel = channel
        self._at = lru_cache(maxsize=_KEPT)(self._evaluate)

    def _evaluate(self, t: float) -> tuple[float, float]:
        check_time()
        information, psi = self.channel.information(float(expit(t)))
        value = t - math.log(max(information, 1e-300))
        require_finite("the curve of the overlap", value)
        return value, psi

    def at(self, t: float) -> tuple[float, float]:
        """Return log alpha and Psi at q = expit(t)."""
        return self._at(round(t, 12))

    def alpha(self, q: float) -> float:
        """Return alpha(q)."""
        return math.exp(self.at(float(logit(q)))[0])

    @cached_property
    def full(self) -> float:
        """Where q = 1 becomes stable: r/P_c of an exact channel, else infinity."""
        mass = self.channel.continuous_mass
        return self.channel.directions / mass if mass > 0 else math.inf

    @cached_property
    def weak(self) -> float:
        """Where q leaves zero: 0 (trivial directions), 1/rho, or infinity (generative
        exponent three or more).
        """
        first, second = self.channel.onset()
        if first > ABSENT:
            return 0.0
        return 1 / second if second > ABSENT else math.inf

    @cached_property
    def nodes(self) -> list[float]:
        """The nodes t at which the curve is looked at."""
        dense = np.arange(_NEXT, min(self.channel.last, _LARGE_Q), _SPACING)
        far = np.arange(
            dense[-1] + _SPACING, self.channel.last + _SPACING, 2 * _SPACING
        )
        return [*_SMALL_Q, *dense.tolist(), *far.tolist()]

    def _values(self, t: Sequence[float] | Floats) -> Floats:
        return np.array([self.at(float(x))[0] for x in t])

    # -- turns -------------------------------------------------------------------------

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The extrema of alpha(q), in the order of q."""
        t = np.array(self.nodes)
        for _ in range(3):  # more nodes where the slope has a small minimum
            value = self._values(t)
            slope = np.diff(value) / np.diff(t)
            around = np.concatenate([[np.inf], slope, [np.inf]])
            least = (
                (slope <= around[:-2])
                & (slope < around[2:])
                & (np.abs(slope) < _SHALLOW)
                & (t[1:] > _NEXT)
            )
            if not least.any():
                break
            halved = np.convolve(least, np.ones(3), "same") > 0  # its neighbours, too
            t = np.sort(np.concatenate([t, 0.5 * (t[:-1] + t[1:])[halved]]))
        value = self._values(t)
        rising = np.diff(value) > 0
        turns = []
        for i in np.flatnonzero(rising[1:] != rising[:-1]) + 1:
            if np.ptp(self._values([t[i] - 0.5, t[i], t[i] + 0.5])) > _FLAT:
                sign = -1.0 if rising[i - 1] else 1.0
                bracket = (t[i - 1], t[i], t[i + 1])
                found = minimize_scalar(
                    lambda t, sign=sign: sign * self.at(t)[0],
                    bracket=bracket,
                    tol=_TURN,
                )
                turns.append(
                    Turn(float(expit(found.x)), math.exp(sign * found.fun), sign < 0)
                )
        return tuple(turns)

    # -- branches ----------------------------------------------------------------------

    def stable(self, alpha: float) -> list[float]:
        """Return the stable fixed points, smallest first: 0 below `weak`, where the
        curve rises, 1 above `full`.
        """
        start = [0.0] if alpha <= self.weak and self.weak > 0 else []
        rising = [
            pair
            for pair in self._brackets(alpha)
            if self.at(pair[0])[0] <= self.at(pair[1])[0]
        ]
        found = [
            *start,
            *(self._root(alpha, *pair) for pair in rising),
            *([1.0] if alpha > self.full else []),
        ]
        # a curve that rises to q = 1 there
        return found or ([1.0] if alpha == self.full else [])

    def _brackets(self, alpha: float) -> list[tuple[float, float]]:
        """Return the ends of intervals of t on which the curve passes alpha once, in
        increasing order.
        """
        wanted = math.log(alpha)
        knots = sorted({*self.nodes, *(float(logit(turn.q)) for turn in self.turns)})
        while (
            alpha > self.weak and self.at(knots[0])[0] > wanted and knots[0] > _DEEPEST
        ):
            knots.insert(0, knots[0] - 4.0)
        while (
            alpha < self.full
            and self.at(knots[-1])[0] < wanted
            and knots[-1] < self.channel.farthest
        ):
            knots.append(min(knots[-1] + 1.5, self.channel.farthest))
        below = self._values(knots) < wanted
        below[0] |= knots[0] <= _DEEPEST  # what is learnt there is rounding
        return [
            (knots[i], knots[i + 1]) for i in np.flatnonzero(below[1:] != below[:-1])
        ]

    def _root(self, alpha: float, low: float, high: float) -> float:
        """Return the q between two t at which the curve passes alpha."""
        wanted = math.log(alpha)
        if self.at(low)[0] > wanted and low <= _DEEPEST:
            return float(expit(low))
        return float(
            expit(
                brent_root(
                    lambda t: self.at(t)[0] - wanted, low, high, xtol=_ROOT, rtol=1e-14
                )
            )
        )

    def entropy(self, q: float, alpha: float) -> float:
        """Return the free entropy phi per dimension, bayes_multi_index (4)."""
        if q >= 1:
            return math.inf
        psi = self._psi_at_zero if q <= 0 else self.at(float(logit(q)))[1]
        return 0.5 * self.channel.directions * (q + math.log1p(-q)) + alpha * psi

    @cached_property
    def _psi_at_zero(self) -> float:
        """Psi(0) from dPsi/dq = r I/2 at a tiny q."""
        q = 1e-6
        information, psi = self.channel.information(q)
        return psi - 0.25 * self.channel.directions * information * q * (
            1 if self.weak > 0 else 2
        )

    def branches(self, alpha: float) -> tuple[float, float, float]:
        """Return q of the uninformed, the informed and the Bayes-optimal branch."""
        stable = self.stable(alpha)
        if not stable:
            return math.nan, math.nan, math.nan
        return stable[0], stable[-1], max(stable, key=lambda q: self.entropy(q, alpha))

    # -- thresholds --------------------------------------------------------------------

    @cached_property
    def jump(self) -> Jump | None:
        """The last first-order transition at finite noise (or of labels); None where
        the curve only rises.
        """
        minima = [turn for turn in self.turns if not turn.is_maximum]
        if not minima:
            return None
        born = minima[-1]
        alpha_amp, q_amp = self.spinodal_before(born.q)
        low = born.alpha * (1 + 1e-9)
        if math.isfinite(alpha_amp):
            high = alpha_amp * (1 - 1e-9)
        else:
            high = 2 * max(turn.alpha for turn in self.turns)
        while math.isinf(alpha_amp) and self._gain(high) < 0 and high < 1e6:
            high *= 2
        # where the free entropies of both branches cross, if they do
        equal = q_it = math.nan
        if self._gain(low) < 0 < self._gain(high):
            equal = brent_root(self._gain, low, high, xtol=1e-13, rtol=_ROOT)
            q_it = self.stable(equal)[-1]
        return Jump(born.alpha, born.q, equal, q_it, alpha_amp, q_amp)

    def spinodal_before(self, q: float) -> tuple[float, float]:
        """Return (alpha, q) of the largest maximum of the curve before q; (weak, 0)
        where weak recovery comes later.
        """
        maxima = [
            turn
            for turn in self.turns
            if turn.is_maximum and turn.q < q and turn.alpha > self.weak
        ]
        top = max(
            maxima, key=lambda turn: turn.alpha, default=Turn(0.0, self.weak, True)
        )
        return top.alpha, top.q

    def _gain(self, alpha: float) -> float:
        """Return phi of the upper branch minus that of the lower one."""
        found = self.stable(alpha)
        return self.entropy(found[-1], alpha) - self.entropy(found[0], alpha)
