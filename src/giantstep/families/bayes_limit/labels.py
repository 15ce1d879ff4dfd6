"""One direction, finitely many labels: the channel in closed form, bayes_multi_index (6), (11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtr

from giantstep.families.bayes_limit.line import Interval
from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density
from giantstep.types import DeviceArray, Floats

_CUT = 9.0
_OFFSETS = np.array([-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
_NODES = 20
_FEW_CUT, _FEW_OFFSETS, _FEW_NODES = 5.5, np.array([-6.5, -4.0, -2.2, -1.0, 0.0, 1.0, 2.2, 4.0, 6.5]), 4
_FEW_EDGES = np.linspace(-_FEW_CUT, _FEW_CUT, 9)
_TINY = 1e-290
_TRIALS, _NEAR = 40, 1e-9
"""Steps towards a boundary between labels at most, and how near is enough: errors are quadratic in the distance."""


def interval_probabilities(
    intervals: Sequence[Interval], values: Sequence[float], omega: Floats, V: float | Floats
) -> tuple[Floats, Floats]:
    """Return P(z in the intervals of each value | omega), z ~ N(omega, V), and its derivative in omega, (K, N) each."""
    s = np.sqrt(V)
    P, slope = np.zeros((2, len(values), len(omega)))
    scaled = {end: (end - omega) / s for end in _finite_ends(tuple(intervals))}
    density = {end: normal_density(x) / s for end, x in scaled.items()}
    for row, (low, high, _) in zip(_rows(tuple(intervals), tuple(values)), intervals):
        P[row] += _between(scaled.get(low), scaled.get(high))
        if low in density:
            slope[row] += density[low]
        if high in density:
            slope[row] -= density[high]
    return P, slope


@lru_cache(maxsize=256)
def _finite_ends(intervals: tuple[Interval, ...]) -> tuple[float, ...]:
    return tuple(sorted({end for piece in intervals for end in piece[:2] if np.isfinite(end)}))


@lru_cache(maxsize=256)
def _rows(intervals: tuple[Interval, ...], values: tuple[float, ...]) -> tuple[int, ...]:
    """Return which of the values each interval has."""
    return tuple(int(np.argmin(np.abs(np.asarray(values) - piece.value))) for piece in intervals)


def _between(a: Floats | None, b: Floats | None) -> Floats | float:
    """Return P(a < u < b), u ~ N(0, 1); None stands for an infinite end."""
    if a is None or b is None:
        return 1.0 if a is b else np.asarray(ndtr(b) if b is not None else ndtr(-np.asarray(a)))
    swap = a > 0  # the difference of two numbers near one would cancel
    return np.asarray(ndtr(np.where(swap, -a, b)) - ndtr(np.where(swap, -b, a)))


def label_panels(intervals: Sequence[Interval], q: float, extra: Sequence[float] = ()) -> tuple[Floats, Floats]:
    """Return nodes omega and weights with the density of N(0, q), finer at the ends of the intervals."""
    s, cut = np.sqrt(1 - q), _CUT * np.sqrt(q)
    around = (np.array(_finite_ends(tuple(intervals)))[:, None] + s * _OFFSETS).ravel()
    plain = np.linspace(-cut, cut, max(2, int(np.ceil(2 * cut / min(0.5, 0.75 * np.sqrt(q)))) + 1))
    edges = np.unique(np.concatenate([plain, around[np.abs(around) < cut], np.asarray(extra, dtype=float)]))
    omega, weights = gauss_legendre_panels(edges, _NODES)
    return omega, weights * normal_density(omega / np.sqrt(q)) / np.sqrt(q)


def _few_nodes(intervals: Sequence[Interval], q: Floats) -> tuple[Floats, Floats]:
    """Return nodes omega and weights of N(0, q) for every q, (Q, N)."""
    s, root = np.sqrt(1 - q)[:, None], np.sqrt(q)[:, None]
    around = [end + s * _FEW_OFFSETS for end in _finite_ends(tuple(intervals))]
    plain = root * _FEW_EDGES
    edges = np.clip(np.concatenate([plain, *around], axis=1), -_FEW_CUT * root, _FEW_CUT * root)
    omega, weights = gauss_legendre_panels(np.sort(edges, axis=1), _FEW_NODES)
    return omega, weights * normal_density(omega / root) / root


def noisy_labels(P: DeviceArray, slope: DeviceArray, flip: float) -> tuple[DeviceArray, DeviceArray]:
    """Return Z_l and its derivative where a label is replaced by another one with probability `flip`."""
    others = flip / max(len(P) - 1, 1)
    return (1 - flip) * P + others * (1 - P), (1 - flip - others) * slope


@dataclass(frozen=True)
class Labels:
    """Labels of intervals of one variable, flipped with probability `flip`."""

    intervals: tuple[Interval, ...]
    flip: float

    directions = 1
    last, spacing, farthest = 9.0, 0.4, 34.0
    continuous_mass = 0.0
    """Probability that y is not an atom of an exact channel: there is no full recovery."""

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The different labels, in increasing order."""
        kept: list[float] = []
        for value in sorted(piece.value for piece in self.intervals):
            if not kept or value - kept[-1] > 1e-9:
                kept.append(value)
        return tuple(kept)

    def law(self, omega: Floats, V: float | Floats) -> tuple[Floats, Floats]:
        """Return Z_l(omega) and dZ_l/domega, (K, N) each."""
        return noisy_labels(*interval_probabilities(self.intervals, self.values, omega, V), self.flip)

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) and Psi(q), bayes_multi_index (2)."""
        omega, weights = label_panels(self.intervals, q)
        Z, slope = self.law(omega, 1 - q)
        Z = np.maximum(Z, _TINY)
        return float((slope**2 / Z).sum(axis=0) @ weights), float((Z * np.log(Z)).sum(axis=0) @ weights)

    def survey(self, q: Floats) -> Floats:
        """Return I at many q from few nodes, all q at once."""
        omega, weights = _few_nodes(self.intervals, q)
        Z, slope = self.law(omega.ravel(), np.repeat(1 - q, omega.shape[1]))
        return np.asarray((slope**2 / np.maximum(Z, _TINY)).sum(axis=0).reshape(omega.shape) * weights).sum(axis=1)

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 and rho = E (E[z^2 - 1|y])^2, bayes_multi_index (12)."""
        P, first, second = np.zeros((3, len(self.values), 1))
        for low, high, value in self.intervals:
            row = int(np.argmin(np.abs(np.asarray(self.values) - value)))
            ends = np.array([low, high])
            inside = np.where(np.isfinite(ends), ends, 0.0)
            P[row] += float(np.diff(ndtr(ends))[0])
            first[row] -= float(np.diff(normal_density(ends))[0])
            second[row] -= float(np.diff(inside * normal_density(ends))[0])
        Z, first = noisy_labels(P, first, self.flip)
        second = noisy_labels(P, second, self.flip)[1]
        return float((first**2 / Z).sum()), float((second**2 / Z).sum())

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error and the best fraction of wrong labels, bayes_multi_index (11)."""
        V, values = 1 - q, np.asarray(self.values)
        if q <= 0:
            Z = self.law(np.zeros(1), 1.0)[0][:, 0]
            return float(values**2 @ Z - (values @ Z) ** 2), float(1 - Z.max())
        turns = self._decision_boundaries(q)
        omega, weights = label_panels(self.intervals, q, turns)
        Z, _ = self.law(omega, V)
        mean = values @ Z
        return float((values**2 @ Z - mean**2) @ weights), float((Z.sum(axis=0) - Z.max(axis=0)) @ weights)

    def _decision_boundaries(self, q: float) -> list[float]:
        """Return the omega at which another label becomes the likeliest: Newton's method, bisection where it leaves."""
        omega = _few_nodes(self.intervals, np.array([q]))[0][0]
        best = self.law(omega, 1 - q)[0].argmax(axis=0)
        turns = np.flatnonzero(best[1:] != best[:-1])
        left, right = omega[turns], omega[turns + 1]
        pair, column = (best[turns], best[turns + 1]), np.arange(len(turns))
        at, slack = 0.5 * (left + right), 0.05 * (right - left)  # a node may lie on the boundary
        for _ in range(_TRIALS if len(turns) else 0):
            lead, rate = (values[pair[0], column] - values[pair[1], column] for values in self.law(at, 1 - q))
            left, right = np.where(lead > 0, at, left), np.where(lead > 0, right, at)
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = at - lead / rate
            at, before = np.where((moved > left - slack) & (moved < right + slack), moved, 0.5 * (left + right)), at
            if np.abs(at - before).max() < _NEAR:
                break
        return at.tolist()
