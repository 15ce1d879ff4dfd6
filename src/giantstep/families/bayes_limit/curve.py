"""The curve alpha(q) of fixed points of one order parameter, and everything that follows from it.

alpha(q) = q/((1 - q) I(q)), bayes_multi_index (5): a fixed point is stable where the curve rises, the free entropy has
slope r I (alpha - alpha(q))/2. No state evolution is iterated.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from giantstep.deadline import check_time
from giantstep.solve.finite import brent_root, require_finite
from giantstep.solve.spline import Spline, spline_through
from giantstep.types import Floats, Indices

ABSENT = 1e-7
"""E m1^2 and rho below this count as zero."""
_FIRST, _SMOOTH = -7.0, -3.0
"""Logit q at which the table begins, and below which few nodes suffice: alpha(q) is nearly a power of q there."""
_DEEPEST = 34.0
_TOLERANCE = 1e-12
_LAST = 3e-13
"""Product of two distances from a root in log alpha, the order of the next one, which need not be looked at then."""
_SHALLOW = 0.12
"""Slope of log alpha in logit q below which the curve is looked at more closely: a loop may hide there."""
_SAME = 1e-9
_NEIGHBOURS, _SPAN, _APART = 10, 2.6, 0.03
"""Known values that are interpolated, how far apart in logit q the outer ones may be and neighbours must be."""
_TURNING, _INSIDE = 0.15, 0.7
"""Half-width in logit q of the polynomial through values around a turn, and the part of it the turn has to lie in."""
_CLEAR = 0.01
"""Slopes and differences of log alpha above this are beyond doubt in rough values, whose error is below 1e-3."""


class ScalarChannel(Protocol):
    """A channel with one order parameter: M = q I in `directions` dimensions."""

    @property
    def directions(self) -> int:
        """Number of equivalent directions r."""

    @property
    def continuous_mass(self) -> float:
        """P_c of an exact channel: q = 1 is stable above alpha = r/P_c; 0 where it never is."""

    @property
    def last(self) -> float:
        """How far in logit q the curve is tabulated at once; further out where a point asks for it."""

    @property
    def spacing(self) -> float:
        """Spacing of that table."""

    @property
    def farthest(self) -> float:
        """Logit q beyond which nothing is computed."""

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q), per direction, and Psi(q)."""

    def survey(self, q: Floats) -> Floats:
        """Return I(q) at many q to a relative 1e-3 or better, quickly: where roots and turns are looked for."""

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 and rho."""

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error, and the best fraction of wrong labels (NaN where there are none)."""


class Turn(NamedTuple):
    """A local extremum of alpha(q)."""

    q: float
    alpha: float
    is_maximum: bool


class Jump(NamedTuple):
    """A first-order transition: alpha and q where the upper branch is born, of equal free entropy, where AMP jumps."""

    alpha_dyn: float
    q_dyn: float
    alpha_it: float
    q_low: float
    q_high: float
    alpha_amp: float
    q_amp: float


@dataclass(eq=False)
class Curve:
    """The curve of one channel, tabulated in t = logit q and followed further out where a point asks for it."""

    channel: ScalarChannel
    _values: dict[float, tuple[float, float]] = field(default_factory=dict)
    _known: list[float] = field(default_factory=list)
    """Logit q of the values that were computed, in increasing order."""

    def at(self, t: float) -> tuple[float, float]:
        """Return log alpha and Psi at q = expit(t); what was asked for is kept, up to rounding of t."""
        key = round(t, 12)
        if key not in self._values:
            information, psi = self.channel.information(float(expit(t)))
            self._values[key] = (t - math.log(max(information, 1e-300)), psi)  # q/(1 - q) = exp(t)
            bisect.insort(self._known, key)
        return self._values[key]

    def alpha(self, q: float) -> float:
        """Return alpha(q)."""
        return math.exp(self.at(math.log(q) - math.log1p(-q))[0])

    @cached_property
    def full(self) -> float:
        """Where q = 1 becomes stable: r/P_c of an exact channel, else infinity."""
        mass = self.channel.continuous_mass
        return self.channel.directions / mass if mass > 0 else math.inf

    @cached_property
    def weak(self) -> float:
        """Where q leaves zero: 0 (trivial directions), 1/rho, or infinity (generative exponent three or more)."""
        first, second = self.channel.onset()
        if first > ABSENT:
            return 0.0
        return 1 / second if second > ABSENT else math.inf

    @cached_property
    def _rough(self) -> Spline:
        """Log alpha in t = logit q, through rough values."""
        return self._spline(self._rough_values)[1]

    def _rough_values(self, t: Floats) -> Floats:
        return np.asarray(t - np.log(np.maximum(self.channel.survey(expit(t)), 1e-300)))

    @cached_property
    def _table(self) -> tuple[Floats, Spline]:
        """The nodes t and log alpha through accurate values."""
        return self._spline(lambda t: np.array([self.at(float(x))[0] for x in t]))

    def _spline(self, values: Callable[[Floats], Floats]) -> tuple[Floats, Spline]:
        """Return nodes and a spline, with more nodes where the slope has a small minimum."""
        spacing = self.channel.spacing
        near = np.arange(_SMOOTH, self.channel.last + 0.5 * spacing, spacing)
        t = np.concatenate([np.linspace(_FIRST, _SMOOTH, 5)[:-1], near])
        known = values(t)
        require_finite("the curve of the overlap", known)
        spline = spline_through(t, known)
        for _ in range(2):
            fine, slope, lowest = _slow_places(spline)
            centres = fine[lowest[np.abs(slope[lowest]) < _SHALLOW]]
            if not len(centres):
                break
            more = np.unique((centres[:, None] + np.array([-0.6, -0.3, 0.0, 0.3, 0.6]) * spacing).ravel())
            apart = np.abs(more[:, None] - t).min(axis=1) > 1e-3
            more = more[(more > t[0]) & (more < t[-1]) & apart & np.append(True, np.diff(more) > 1e-3)]
            order = np.argsort(np.concatenate([t, more]))
            t, known = np.concatenate([t, more])[order], np.concatenate([known, values(more)])[order]
            require_finite("the curve of the overlap", known)
            spline = spline_through(t, known)
        return t, spline

    @cached_property
    def _rough_turns(self) -> Floats | None:
        """Where the rough curve turns, in logit q; None where rough values leave a doubt."""
        spline = self._rough
        _, slope, lowest = _slow_places(spline)
        roots = spline.turns()
        levels = spline(np.concatenate([spline.x[:1], roots, spline.x[-1:]]))
        doubtful = (np.abs(slope[lowest]) < _CLEAR).any() or (np.abs(np.diff(levels)) < _CLEAR).any()
        return None if doubtful else roots

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The extrema of alpha(q), in the order of q."""
        if self._rough_turns is not None and not len(self._rough_turns):
            return ()
        t, spline = self._table
        roots = [float(root) for root in spline.turns()]
        kept = [root for root in roots if t[0] < root < t[-1] and not self._is_flat(root)]
        return tuple(self._refine(root) for root in kept)

    def _is_flat(self, t: float) -> bool:
        """Tell whether the curve does not turn at a root of the spline's slope but is constant up to rounding."""
        around = [self.at(t + shift)[0] for shift in (-0.5, 0.0, 0.5)]
        return max(around) - min(around) < _SAME

    def _refine(self, t: float) -> Turn:
        """Return the extremum near t by a polynomial of degree 8 through true values around it."""
        nodes, curvature = np.cos(np.pi * (np.arange(9) + 0.5) / 9), math.nan
        for _ in range(4):
            values = [self.at(t + _TURNING * float(x))[0] for x in nodes]
            fit = np.polynomial.Chebyshev.fit(nodes, values, 8, domain=[-1, 1])
            roots = fit.deriv().roots()
            real = roots.real[np.abs(roots.imag) < 1e-9]
            if not len(real):
                break
            nearest = float(real[np.argmin(np.abs(real))])
            if abs(nearest) > 3:
                break
            curvature = float(fit.deriv(2)(nearest))
            t += _TURNING * nearest
            if abs(nearest) < _INSIDE:
                break
        return Turn(float(expit(t)), math.exp(self.at(t)[0]), curvature < 0)

    # -- branches ---------------------------------------------------------------------------------

    def fixed_points(self, alpha: float) -> list[float]:
        """Return all q in (0, 1) with alpha(q) = alpha, in increasing order."""
        return [float(expit(t)) for t in self._roots(alpha)]

    def _pieces(self, wanted: float) -> tuple[list[float], Spline]:
        """Return the ends of the monotone pieces and a spline: rough ones where `wanted` is far from all of them."""
        rough = self._rough_turns
        if rough is not None:
            ends = [float(self._rough.x[0]), *rough.tolist(), float(self._rough.x[-1])]
            if (np.abs(self._rough(ends) - wanted) > _CLEAR).all():
                return ends, self._rough
        t, spline = self._table
        return [float(t[0]), *(math.log(turn.q) - math.log1p(-turn.q) for turn in self.turns), float(t[-1])], spline

    def _roots(self, alpha: float, stable: bool = False) -> list[float]:
        """Return logit q of all fixed points in (0, 1), in increasing order; where asked, of the stable ones only."""
        wanted = math.log(alpha)
        ends, spline = self._pieces(wanted)
        level = [float(x) for x in spline(ends)] if spline is self._rough else [self.at(t)[0] for t in ends]
        roots = []
        if level[0] > wanted and self.weak < alpha:
            low = ends[0] - 2.0
            while self.at(low)[0] >= wanted and low > -_DEEPEST:
                check_time()
                low -= 4.0
            roots.append(self._bracketed(wanted, low, ends[0]) if self.at(low)[0] < wanted else low)
        for index, (low, high) in enumerate(zip(ends, ends[1:])):
            left, right = level[index] - wanted, level[index + 1] - wanted
            crosses = left * right < 0 or (right == 0 and high == ends[-1])
            if crosses and (left < 0 or not stable):
                roots.append(self._polished(wanted, low, high, spline))
        low, farthest = ends[-1], self.channel.farthest
        beyond = level[-1] < wanted and alpha < self.full
        while beyond and self.at(low)[0] < wanted and low < farthest:
            check_time()
            high = min(low + 1.5, farthest)
            if self.at(high)[0] >= wanted:
                roots.append(self._bracketed(wanted, low, high))
            low = high
        return roots

    def _bracketed(self, wanted: float, low: float, high: float) -> float:
        return brent_root(lambda t: self.at(t)[0] - wanted, low, high, xtol=1e-12, rtol=1e-14)

    def _polished(self, wanted: float, low: float, high: float, spline: Spline) -> float:
        """Return the root in a bracket on which the curve is monotone: the spline's, moved by a few Newton steps."""
        if (spline(low) - wanted) * (spline(high) - wanted) < 0:
            t = spline.crossing(wanted, low, high)
            t, slope, before = self._interpolated(wanted, t) or self._near(wanted, t, float(spline(t, 1)), spline)
            for _ in range(4):
                left = self.at(t)[0] - wanted
                if abs(left) < _TOLERANCE:
                    return t
                if slope == 0 or not low <= t - left / slope <= high:
                    break
                moved = t - left / slope
                if abs(left) * before < _LAST:
                    return self._moved(t, moved, wanted)
                before = abs(left)
                slope = (self.at(moved)[0] - wanted - left) / (moved - t) if abs(moved - t) > 1e-7 else slope
                t = moved
            if abs(self.at(t)[0] - wanted) < 1e-11:
                return t
        return self._bracketed(wanted, low, high)

    def _interpolated(self, wanted: float, t: float) -> tuple[float, float, float] | None:
        """Return the root near t of the polynomial through known values on both sides, its slope, how wrong it may be.

        None where too few are near.
        """
        place = bisect.bisect(self._known, t)
        sides = (reversed(self._known[:place]), self._known[place:])
        left, right = (_apart(side, t, _NEIGHBOURS // 2) for side in sides)
        chosen = sorted([*left, *right], key=lambda x: abs(x - t))
        if min(len(left), len(right)) < 2 or max(chosen) - min(chosen) > _SPAN:
            return None
        scaled = np.array(chosen) - t
        values = np.array([self._values[x][0] for x in chosen]) - wanted
        roots = []
        for count in (len(chosen) - 1, len(chosen)):
            fit = np.linalg.solve(np.vander(scaled[:count], increasing=True), values[:count])
            root = 0.0
            for _ in range(4):
                slope = float(np.polynomial.polynomial.polyval(root, np.arange(1, count) * fit[1:]))
                root -= float(np.polynomial.polynomial.polyval(root, fit)) / slope if slope else math.inf
            roots.append(root)
        doubt = abs(roots[1] - roots[0])
        inside = abs(roots[1]) < 0.5 * _SPAN and doubt < 1e-3
        return (t + roots[1], slope, max(10 * doubt, 1e-7)) if inside else None

    def _near(self, wanted: float, t: float, slope: float, spline: Spline) -> tuple[float, float, float]:
        """Return a better start and slope from rough values, where the spline went through such; the doubt is 1."""
        if spline is not self._rough or slope == 0:
            return t, slope, 1.0
        first = self._rough_values(np.array([t]))[0] - wanted
        moved = t - first / slope
        if not 1e-7 < abs(moved - t) < 0.1:
            return t, slope, 1.0
        second = self._rough_values(np.array([moved]))[0] - wanted
        steeper = (second - first) / (moved - t)
        agrees = 0.5 < steeper / slope < 2
        return (moved - second / steeper, steeper, 1.0) if agrees else (t, slope, 1.0)

    def _moved(self, t: float, root: float, wanted: float) -> float:
        """Return a root so near to t that one Newton step reaches it; Psi follows with slope r I/2."""
        value, psi = self.at(t)
        information = math.exp(t - value)
        change = 0.5 * self.channel.directions * information * float(expit(root) - expit(t))
        self._values.setdefault(round(root, 12), (wanted, psi + change))
        return root

    def stable(self, alpha: float) -> list[float]:
        """Return the stable fixed points, smallest first: 0 below `weak`, where the curve rises, 1 above `full`."""
        start = [0.0] if alpha <= self.weak and self.weak > 0 else []
        rising = [float(expit(t)) for t in self._roots(alpha, stable=True)]
        found = [*start, *rising, *([1.0] if alpha > self.full else [])]
        return found or ([1.0] if alpha == self.full else [])  # a curve that rises to q = 1 there

    def entropy(self, q: float, alpha: float) -> float:
        """Return the free entropy phi per dimension, bayes_multi_index (4)."""
        if q >= 1:
            return math.inf
        return 0.5 * self.channel.directions * (q + math.log1p(-q)) + alpha * self._psi(q)

    def _psi(self, q: float) -> float:
        return self._psi_at_zero if q <= 0 else self.at(math.log(q) - math.log1p(-q))[1]

    @cached_property
    def _psi_at_zero(self) -> float:
        """Psi(0) from dPsi/dq = r I/2 at a tiny q."""
        q = 1e-6
        information, psi = self.channel.information(q)
        return psi - 0.25 * self.channel.directions * information * q * (1 if self.weak > 0 else 2)

    def branches(self, alpha: float) -> tuple[float, float, float]:
        """Return q of the uninformed, the informed and the Bayes-optimal branch."""
        stable = self.stable(alpha)
        if not stable:
            return math.nan, math.nan, math.nan
        best = max(stable, key=lambda q: self.entropy(q, alpha))
        return stable[0], stable[-1], best

    # -- thresholds -------------------------------------------------------------------------------

    @cached_property
    def jump(self) -> Jump | None:
        """The last first-order transition at finite noise (or of labels); None where the curve only rises."""
        minima = [turn for turn in self.turns if not turn.is_maximum]
        if not minima:
            return None
        born = minima[-1]
        before = [turn for turn in self.turns if turn.is_maximum and turn.q < born.q]
        top = max(before, key=lambda turn: turn.alpha, default=Turn(0.0, self.weak, True))
        if self.weak > top.alpha:
            top = Turn(0.0, self.weak, True)

        low = born.alpha * (1 + 1e-9)
        high = top.alpha * (1 - 1e-9) if math.isfinite(top.alpha) else self._far_gain()
        equal = self._equal_entropy(low, high)
        ends = self.stable(equal) if math.isfinite(equal) else [math.nan]
        return Jump(born.alpha, born.q, equal, ends[0], ends[-1], top.alpha, top.q)

    def _gain(self, alpha: float) -> tuple[float, float]:
        """Return phi of the upper branch minus that of the lower one, and its slope in alpha: the difference of Psi."""
        low, high = (self.stable(alpha)[end] for end in (0, -1))
        slope = (self._psi(high) if high < 1 else math.inf) - self._psi(low)
        return self.entropy(high, alpha) - self.entropy(low, alpha), slope

    def _equal_entropy(self, low: float, high: float) -> float:
        """Return alpha at which both branches have the same free entropy, NaN where there is none in between."""
        if not self._gain(low)[0] < 0 < self._gain(high)[0]:
            return math.nan
        alpha = 0.5 * (low + high)
        for _ in range(60):  # Newton's method: phi is stationary in q; halving where it leaves the bracket
            check_time()
            gain, slope = self._gain(alpha)
            low, high = (alpha, high) if gain < 0 else (low, alpha)
            moved = alpha - gain / slope if slope > 0 else math.nan
            moved = moved if low < moved < high else 0.5 * (low + high)
            if abs(moved - alpha) < _TOLERANCE * alpha:
                return moved
            alpha = moved
        return alpha

    def _far_gain(self) -> float:
        alpha = 2 * max(turn.alpha for turn in self.turns)
        while self._gain(alpha)[0] < 0 and alpha < 1e6:
            check_time()
            alpha *= 2
        return alpha

    @cached_property
    def spinodal(self) -> tuple[float, float]:
        """(alpha, q) of the largest maximum of the curve before its end; (weak, 0) where there is none."""
        maxima = [turn for turn in self.turns if turn.is_maximum]
        top = max(maxima, key=lambda turn: turn.alpha, default=Turn(0.0, self.weak, True))
        return (top.alpha, top.q) if top.alpha > self.weak else (self.weak, 0.0)


def _apart(known: Iterable[float], t: float, most: int) -> list[float]:
    """Return the first of some values, each further from t and not too near to the one before."""
    chosen: list[float] = []
    for x in known:
        if abs(x - (chosen[-1] if chosen else t)) > (_APART if chosen else 0.0):
            chosen.append(x)
        if len(chosen) == most or abs(x - t) > _SPAN:
            break
    return chosen


def _slow_places(spline: Spline) -> tuple[Floats, Floats, Indices]:
    """Return fine nodes, the slope there, and the indices of its local minima beyond q = 0.05."""
    fine = np.linspace(spline.x[0], spline.x[-1], 8 * len(spline.x))
    slope = spline(fine, 1)
    lowest = np.flatnonzero((slope[1:-1] < slope[:-2]) & (slope[1:-1] <= slope[2:])) + 1
    return fine, slope, lowest[fine[lowest] > -3]
