"""State evolution as one curve: every fixed point of a problem, parametrised by the SNR a of the assignments.

At a fixed point a = lam m_v and b = alpha nu lam m_u/rho (nu the variance of the assignments, 1/k). Given a, the
overlap m_u(a) is explicit, b solves the one-dimensional equation b m_v(b) = alpha nu a m_u(a)/rho, and lam = a/m_v(b).
Along that curve

    d log lam/d log a = (1 - s_u s_v)/(1 + s_v),

with s_u, s_v the logarithmic slopes of the channels: the spinodals are the roots of 1 - s_u s_v, no minimisation is
needed and no root can be missed by iterating through a critical slowing down. Everything is batched over problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from scipy import optimize

from giantstep.families.subspace_clustering.channels import AssignmentChannel, features_entropy, features_overlap
from giantstep.types import Booleans, Floats, Indices

_LOWEST, _LARGEST = 1e-11, 80.0
_ABOVE = 1 + 1e-14
"""An snr that is lam_alg up to rounding is not above it."""


@dataclass
class Problems:
    """A batch of problems with the same assignment channel: alpha and rho of shape (C,)."""

    channel: AssignmentChannel
    alpha: Floats
    rho: Floats
    grid: ClassVar[int] = 160
    """Points in log a on which turning points of lam(a) are looked for."""

    def at(self, index: Indices) -> Problems:
        """Return the problems at some places (an index may repeat)."""
        return Problems(self.channel, self.alpha[index], self.rho[index])

    def onset_slope(self) -> Floats:
        """Return c in (lam/lam_alg)^2 = 1 + c a + O(a^2), the curve of fixed points where it leaves zero."""
        slope: Floats = self.channel.variance * np.sqrt(self.alpha) - self.channel.curvature
        return slope

    @property
    def threshold(self) -> Floats:
        """The linear stability lam_alg = 1/(nu sqrt(alpha)) = k/sqrt(alpha) of zero overlap (the BBP point)."""
        return 1 / (self.channel.variance * np.sqrt(self.alpha))

    def features_snr(self, m_u: Floats, lam: Floats) -> Floats:
        """Return b = alpha nu lam m_u/rho."""
        return self.alpha * self.channel.variance * lam * m_u / self.rho

    def field(self, a: Floats) -> tuple[Floats, Floats, Floats]:
        """Return (b, m_v, s_v) on the curve at a: b m_v(b) = alpha nu a m_u(a)/rho.

        The root lies between those of the two bounds rho b/(1 + rho b) <= m_v <= b/(1 + b).
        """
        y = self.alpha * self.channel.variance * a * self.channel.overlap(a) / self.rho
        low = 0.5 * (y + np.sqrt(y**2 + 4 * y))
        high = 0.5 * (y + np.sqrt(y**2 + 4 * y / self.rho))

        def excess(x: Floats, index: Indices) -> tuple[Floats, Floats]:
            m, slope = features_overlap(np.exp(x), self.rho[index], self.channel.rank)
            return np.log(y[index]) - x - np.log(m), -1 - slope

        x, _ = falling_root(excess, np.log(low) - 1e-12, np.log(high) + 1e-12)
        b = np.exp(x)
        m_v, s_v = features_overlap(b, self.rho, self.channel.rank)
        return b, m_v, s_v

    def snr_of(self, a: Floats) -> Floats:
        """Return lam on the curve at a."""
        return a / self.field(a)[1]

    def margin(self, a: Floats) -> Floats:
        """Return 1 - s_u s_v on the curve at a: positive where the fixed point is stable."""
        return 1 - self.channel.slope(a) * self.field(a)[2]

    def map(self, a: Floats, lam: Floats) -> tuple[Floats, Floats]:
        """Return one step of state evolution, a -> lam m_v(b(a)), and its logarithmic slope."""
        m_v, s_v = features_overlap(self.features_snr(self.channel.overlap(a), lam), self.rho, self.channel.rank)
        return lam * m_v, s_v * self.channel.slope(a)

    def phi(self, a: Floats, lam: Floats) -> Floats:
        """Return the free entropy per dimension at a fixed point; zero at a = 0.

        phi = alpha psi_u(a) + psi_v(b) - alpha lam nu p/2 m_u m_v.
        """
        m_u, nu, p = self.channel.overlap(a), self.channel.variance, self.channel.rank
        b = self.features_snr(m_u, lam)
        entropies = self.alpha * self.channel.entropy(a) + features_entropy(b, self.rho, p)
        return entropies - 0.5 * self.alpha * nu * p * a * m_u


@dataclass
class Turning:
    """The turning points of each curve; where lam(a) rises throughout, all of them are the onset (a = 0, lam_alg)."""

    a_dyn: Floats
    lam_dyn: Floats
    a_algB: Floats
    lam_algB: Floats
    first_order: Booleans


def turning_points(problems: Problems) -> Turning:
    """Return the spinodals: lam_dyn at the last minimum of lam(a), lam_algB, the largest value before it.

    The margin 1 - s_u s_v is looked at on a grid in log a; where it stays positive, around its smallest values too
    (just below the critical sparsity the whole loop would fit between two points of the grid).
    """
    count, k = len(problems.alpha), problems.channel.clusters
    starts = np.clip(1e-2 * _smallest_turn(k, problems.alpha, problems.rho), _LOWEST, 1e-2)
    x = np.linspace(np.log(starts), np.full(count, math.log(_LARGEST)), problems.grid, axis=1)
    every = np.arange(count)
    margin = _margins(problems, x)
    monotone = every[(margin > 0).all(axis=1)]
    for _ in range(5):
        if not len(monotone):
            break
        inner = _zoom(x[monotone], margin[monotone])
        more = _margins(problems.at(monotone), inner)
        x = _merge(x, inner, monotone)
        margin = _merge(margin, more, monotone)
        order = np.argsort(x, axis=1, kind="stable")
        x, margin = np.take_along_axis(x, order, axis=1), np.take_along_axis(margin, order, axis=1)
        monotone = monotone[(more > 0).all(axis=1)]
    falls = (margin[:, :-1] > 0) & (margin[:, 1:] <= 0)  # a maximum of lam
    rises = (margin[:, :-1] <= 0) & (margin[:, 1:] > 0)  # a minimum
    where = np.nonzero(falls | rises)
    low, high = x[where], x[where[0], where[1] + 1]
    sign = np.where(falls[where], 1.0, -1.0)
    owners = problems.at(where[0])

    def signed(y: Floats, index: Indices) -> Floats:
        return sign[index] * owners.at(index).margin(np.exp(y))

    a = np.exp(crossing(signed, low, high)) if len(low) else np.empty(0)
    lam = owners.snr_of(a) if len(a) else np.empty(0)
    onset = problems.threshold
    turning = Turning(np.zeros(count), onset.copy(), np.zeros(count), onset.copy(), np.zeros(count, bool))
    for c in np.unique(where[0]):
        mine = where[0] == c
        minima = np.flatnonzero(mine & (sign < 0))
        if not len(minima):
            continue
        last = minima[-1]
        turning.first_order[c], turning.a_dyn[c], turning.lam_dyn[c] = True, a[last], lam[last]
        maxima = np.flatnonzero(mine & (sign > 0) & (a < a[last]))
        if len(maxima):
            top = maxima[np.argmax(lam[maxima])]
            if lam[top] > onset[c]:
                turning.a_algB[c], turning.lam_algB[c] = a[top], lam[top]
    return turning


def _smallest_turn(clusters: int, alpha: float | Floats, rho: float | Floats) -> Floats:
    """Return an a that is of the order of the first maximum of lam(a): k rho^2/sqrt(alpha), and no further out."""
    return np.asarray(0.1 * clusters * np.minimum(np.square(rho), 1e-2) / np.maximum(1.0, np.sqrt(alpha)))


def _margins(problems: Problems, x: Floats) -> Floats:
    rows, columns = x.shape
    flat = problems.at(np.repeat(np.arange(rows), columns))
    return flat.margin(np.exp(x.ravel())).reshape(rows, columns)


def _zoom(x: Floats, margin: Floats) -> Floats:
    """Return 10 new points around the smallest margin per log a: m falls like a at the onset, which is no loop."""
    weighted = margin / np.exp(np.minimum(x, 0.0))
    place = np.clip(weighted.argmin(axis=1), 1, x.shape[1] - 2)
    rows = np.arange(len(x))
    inside = (np.arange(10) + 0.5) / 10
    low, high = x[rows, place - 1][:, None], x[rows, place + 1][:, None]
    return np.asarray(low + (high - low) * inside)


def _merge(old: Floats, new: Floats, rows: Indices) -> Floats:
    """Append the new columns to their rows; other rows repeat their last value."""
    wide = np.repeat(old[:, -1:], new.shape[1], axis=1)
    wide[rows] = new
    return np.concatenate([old, wide], axis=1)


def upper_branch(problems: Problems, turning: Turning, lam: Floats) -> tuple[Floats, Floats]:
    """Return (a, residual) of the largest fixed point: what state evolution reaches from full knowledge."""
    exists = np.where(turning.first_order, lam >= turning.lam_dyn, lam > problems.threshold * _ABOVE)
    low = np.where(turning.a_dyn > 0, turning.a_dyn, _below_onset(problems, lam))
    a, residual = _on_piece(problems, lam, low, lam, exists)
    lower, lower_residual = lower_piece(problems, turning, lam)
    return np.where(exists, a, lower), np.where(exists, residual, lower_residual)


def lower_branch(problems: Problems, turning: Turning, lam: Floats) -> tuple[Floats, Floats]:
    """Return (a, residual) of the smallest stable fixed point: what AMP reaches without knowledge."""
    a, residual = upper_branch(problems, turning, lam)
    below = turning.first_order & (lam < turning.lam_algB)
    lower, lower_residual = lower_piece(problems, turning, lam)
    return np.where(below, lower, a), np.where(below, lower_residual, residual)


def lower_piece(problems: Problems, turning: Turning, lam: Floats) -> tuple[Floats, Floats]:
    """Return (a, residual) on the first rising piece of the curve, from the onset to lam_algB; zero before it."""
    exists = turning.first_order & (lam > problems.threshold * _ABOVE) & (lam < turning.lam_algB) & (turning.a_algB > 0)
    return _on_piece(problems, lam, _below_onset(problems, lam), np.where(exists, turning.a_algB, 1.0), exists)


def _onset(problems: Problems, lam: Floats) -> Floats:
    """Return a just above lam_alg: (lam/lam_alg)^2 = 1 + c a; zero where c is not positive or not known."""
    slope = problems.onset_slope()
    with np.errstate(divide="ignore", invalid="ignore"):
        a = ((lam / problems.threshold) ** 2 - 1) / slope
    return np.where((slope > 0) & (a > 0), a, 0.0)


def _below_onset(problems: Problems, lam: Floats) -> Floats:
    return np.clip(1e-3 * _onset(problems, lam), 1e-14, 1e-3)


def _on_piece(problems: Problems, lam: Floats, low: Floats, high: Floats, exists: Booleans) -> tuple[Floats, Floats]:
    """Return the root of log(lam m_v) = log a between `low` and `high` where the piece `exists`, else zero."""
    a, residual = np.zeros(len(lam)), np.zeros(len(lam))
    here = np.flatnonzero(exists)
    if not len(here):
        return a, residual
    some, snr = problems.at(here), lam[here]

    def excess(x: Floats, index: Indices) -> tuple[Floats, Floats]:
        new, slope = some.at(index).map(np.exp(x), snr[index])
        return np.log(new) - x, slope - 1

    x, left = falling_root(excess, np.log(low[here]), np.log(high[here]))
    a[here], residual[here] = np.exp(x), np.abs(left)
    tiny = x <= np.log(low[here]) + 1e-9  # so near the onset that the margin is rounding: its first-order formula
    onset = _onset(some, snr)
    a[here] = np.where(tiny & (onset > 0) & (onset < 1e-9), onset, a[here])
    return a, residual


@dataclass
class Thresholds:
    """The thresholds of each problem, as snr lam; all equal to lam_alg where the transition is continuous."""

    lam_dyn: Floats
    lam_it: Floats
    lam_jump: Floats
    lam_alg: Floats
    lam_algB: Floats
    m_dyn: Floats
    m_jump: Floats
    m_algB: Floats
    first_order: Booleans
    residual: Floats

    def at(self, index: Indices) -> Thresholds:
        """Return those at some places."""
        return Thresholds(*(getattr(self, each.name)[index] for each in fields(self)))


def thresholds(problems: Problems, turning: Turning | None = None) -> Thresholds:
    """Return all thresholds; lam_jump is where both branches have the same free entropy.

    The difference of the free entropies grows with lam at the rate alpha nu p/2 times that of m_u m_v (I-MMSE).
    """
    turning = turning_points(problems) if turning is None else turning
    onset = problems.threshold
    jump, a_jump, residual = onset.copy(), np.zeros(len(onset)), np.zeros(len(onset))
    here = np.flatnonzero(turning.first_order)
    if len(here):
        some = problems.at(here)
        turns = Turning(*(getattr(turning, each.name)[here] for each in fields(turning)))
        rate = 0.5 * some.alpha * some.channel.variance * some.channel.rank

        def gain(x: Floats, index: Indices) -> tuple[Floats, Floats]:
            lam, own = np.exp(x), some.at(index)
            own_turns = Turning(*(getattr(turns, each.name)[index] for each in fields(turns)))
            up, down = upper_branch(own, own_turns, lam)[0], lower_piece(own, own_turns, lam)[0]
            difference = own.phi(down, lam) - own.phi(up, lam)
            products = [own.channel.overlap(a) * a / lam for a in (down, up)]
            return difference, rate[index] * lam * (products[0] - products[1])

        low, high = np.log(turns.lam_dyn) + 1e-13, np.log(turns.lam_algB) - 1e-13
        x, left = falling_root(gain, low, np.maximum(high, low))
        jump[here] = np.exp(x)
        a_jump[here], _ = upper_branch(some, turns, jump[here])
        residual[here] = np.abs(left)
    overlap = problems.channel.overlap
    return Thresholds(
        turning.lam_dyn, np.minimum(jump, onset), jump, onset, turning.lam_algB, overlap(turning.a_dyn),
        overlap(a_jump), overlap(turning.a_algB), turning.first_order, residual,
    )  # fmt: skip


def critical_sparsity(channel: AssignmentChannel, alpha: float) -> tuple[float, float, float]:
    """Return (rho_c, m_c, lam_c/lam_alg), the end of the first-order line: above rho_c the transition is continuous.

    There the smallest margin over the curve is zero. NaN where the transition is first order at every sparsity (k >=
    4 + 2 sqrt(alpha)).
    """
    if channel.variance * math.sqrt(alpha) <= channel.curvature:
        return math.nan, math.nan, math.nan

    def smallest(rho: float) -> tuple[float, float]:
        x = np.linspace(math.log(0.1 * float(_smallest_turn(channel.clusters, alpha, rho))), math.log(20.0), 80)
        for _ in range(8):
            one = Problems(channel, np.full(len(x), alpha), np.full(len(x), rho))
            margin = one.margin(np.exp(x)) / np.exp(np.minimum(x, 0.0))
            place = int(np.clip(margin.argmin(), 1, len(x) - 2))
            if x[1] - x[0] < 1e-7:
                break
            x = np.linspace(x[place - 1], x[place + 1], 13)
        return float(margin.min()), float(x[margin.argmin()])

    def side(x: float) -> float:
        return math.tanh(smallest(math.exp(x))[0])  # far from the end only the sign matters

    rho = np.array([math.exp(optimize.brentq(side, math.log(1e-9), 0.0, xtol=1e-11))])
    a = np.array([math.exp(smallest(float(rho[0]))[1])])
    one = Problems(channel, np.array([alpha]), rho)
    return float(rho[0]), float(channel.overlap(a)[0]), float(one.snr_of(a)[0] / one.threshold[0])


Sloped = Callable[[Floats, Indices], tuple[Floats, Floats]]


def falling_root(function: Sloped, low: Floats, high: Floats, *, steps: int = 100) -> tuple[Floats, Floats]:
    """Return (root, value left) of functions that fall through zero between `low` and `high`, by guarded Newton steps.

    `function(x, index)` gives value and slope of the members `index` of the batch. An end is returned where there is
    no change of sign.
    """
    low, high = np.minimum(low, high), np.maximum(low, high)
    x = 0.5 * (low + high)
    left = np.zeros(len(x))
    active = np.arange(len(x))
    for step in range(steps):
        value, slope = function(x[active], active)
        left[active] = value
        down = value < 0
        high[active] = np.where(down, x[active], high[active])
        low[active] = np.where(down, low[active], x[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x[active] - value / slope
        inside = (newton > low[active]) & (newton < high[active]) & (slope < 0)
        new = np.where(inside & (step % 8 != 7), newton, 0.5 * (low[active] + high[active]))
        tight = 4e-16 * np.maximum(np.abs(x[active]), 1.0)
        done = (np.abs(new - x[active]) <= tight) | (high[active] - low[active] <= tight) | (value == 0)
        x[active] = np.where(value == 0, x[active], new)
        active = active[~done]
        if not len(active):
            break
    return x, left


def crossing(function: Callable[[Floats, Indices], Floats], low: Floats, high: Floats) -> Floats:
    """Return where functions fall from positive (at `low`) to not positive (at `high`), by guarded regula falsi."""
    index = np.arange(len(low))
    low, high = low.copy(), high.copy()
    at_low, at_high = function(low, index), function(high, index)
    side = np.zeros(len(low))
    for step in range(100):
        width = high - low
        if np.all(width <= 1e-13 * np.maximum(np.abs(high), 1.0)):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            new = low + width * at_low / (at_low - at_high)
        middle = 0.5 * (low + high)
        new = np.where((new > low) & (new < high) & (step % 4 != 3), new, middle)
        value = function(new, index)
        up = value > 0
        at_low = np.where(up, value, np.where(side == -1, 0.5 * at_low, at_low))
        at_high = np.where(up, np.where(side == 1, 0.5 * at_high, at_high), value)
        low, high = np.where(up, new, low), np.where(up, high, new)
        side = np.where(up, 1.0, -1.0)
    return 0.5 * (low + high)
