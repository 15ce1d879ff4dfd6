"""A target of one variable: where it breaks, its monotone and flat pieces, its preimages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from giantstep.errors import InputError
from giantstep.families.bayes_limit.tolerances import REACH, SAME_POINT
from giantstep.gaussian import Function, Target
from giantstep.gaussian.functions import Parity, parity_of
from giantstep.gaussian.quadrature import trapezoid_rule
from giantstep.solve import crossing
from giantstep.types import Floats

MOST_PIECES = 64
"""Monotone pieces without noise; with more the law of y takes seconds."""
_BEYOND = 12.0
"""Standard deviations of z beyond which a target is not looked at."""
_SCAN = 1 / 400
"""Step in z at which critical points are looked for."""
_INSIDE, _ROUNDING = 1e-12, 1e-15
"""Distances from a break at which the limits of a function are read, and from an end at which a piece begins."""


class Interval(NamedTuple):
    """A piece of the line on which the target is constant."""

    low: float
    high: float
    value: float


@dataclass(frozen=True)
class Line:
    """A function g of one Gaussian variable."""

    target: Target

    @cached_property
    def kinks(self) -> tuple[float, ...]:
        """Where it is not smooth, in increasing order."""
        return tuple(sorted({-plane.offset / plane.normal[0] for plane in self.target.planes}))

    @cached_property
    def function(self) -> Function:
        """The same as a `Function`, which knows its moments E g(A + s u)."""
        return self.target.of_one_variable()

    def __call__(self, z: Floats) -> Floats:
        """Return g(z)."""
        return np.asarray(self.target(np.asarray(z)[..., None]), dtype=float)

    def slope(self, z: Floats) -> Floats:
        """Return g'(z) of the smooth part; of a callable by central differences."""
        if self.target.expression is not None:
            return np.asarray(self.target.gradient(np.asarray(z)[..., None]), dtype=float)[..., 0]
        step = 1e-5
        return (self(z - 2 * step) - 8 * self(z - step) + 8 * self(z + step) - self(z + 2 * step)) / (12 * step)

    @cached_property
    def parity(self) -> Parity | None:
        """Its parity; what z < 0 adds to any information is what z > 0 adds where it is even or odd."""
        return parity_of(self, [kink for kink in self.kinks if abs(kink) < _BEYOND])

    @cached_property
    def flat(self) -> tuple[Interval, ...]:
        """The pieces between kinks on which it is constant, from -inf to inf; neighbours of one value are joined."""
        inner = [kink for kink in self.kinks if abs(kink) < _BEYOND]
        ends = [-_BEYOND, *inner, _BEYOND]
        flat: list[Interval] = []
        for low, high in zip(ends, ends[1:]):
            values = self(low + (high - low) * np.linspace(0.01, 0.99, 21))
            if np.ptp(values) <= 1e-12 * (1 + np.abs(values).max()):
                same = [piece.value for piece in flat if abs(piece.value - values[10]) < SAME_POINT]
                value = float(same[0] if same else values[10])
                piece = Interval(-np.inf if low == -_BEYOND else low, np.inf if high == _BEYOND else high, value)
                if flat and flat[-1].high == low and flat[-1].value == value:
                    piece = Interval(flat.pop().low, piece.high, value)
                flat.append(piece)
        return tuple(flat)

    @cached_property
    def labels(self) -> tuple[float, ...]:
        """The values of its flat pieces, in increasing order: atoms of the law of g(z)."""
        return tuple(sorted({piece.value for piece in self.flat}))

    @cached_property
    def is_discrete(self) -> bool:
        """Whether it takes finitely many values."""
        covered = [piece for piece in self.flat if piece.low < _BEYOND]
        whole = bool(covered) and covered[0].low == -np.inf and covered[-1].high == np.inf
        return whole and all(first.high == second.low for first, second in zip(covered, covered[1:]))

    @cached_property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        """The intervals inside (-12, 12) on which it is strictly monotone, between kinks and critical points."""
        ends = sorted({-_BEYOND, *(kink for kink in self.kinks if abs(kink) < _BEYOND), _BEYOND})
        pieces: list[tuple[float, float]] = []
        for low, high in zip(ends, ends[1:]):
            if any(piece.low <= low and high <= piece.high for piece in self.flat):
                continue
            turns = self._critical_points(low, high)
            inner = [low, *turns, high]
            pieces += list(zip(inner, inner[1:]))
        if len(pieces) > MOST_PIECES:
            raise InputError(
                f"The target {self.target.name} has {len(pieces)} monotone pieces; at most {MOST_PIECES} are allowed "
                "without noise (give it some noise)."
            )
        return tuple(pieces)

    def _critical_points(self, low: float, high: float) -> list[float]:
        """Return where the slope changes its sign strictly inside an interval."""
        count = max(9, int((high - low) / _SCAN))
        z = low + (high - low) * (np.arange(count) + 0.5) / count
        sign = np.sign(self.slope(z))
        known = np.flatnonzero(sign)  # an exact zero, or underflow far outside, has no sign of its own
        turns = np.flatnonzero(sign[known[1:]] != sign[known[:-1]])
        first = sign[known[turns]]
        falls = lambda z, index: first[index] * self.slope(z)  # noqa: E731
        return crossing(falls, z[known[turns]], z[known[turns + 1]]).tolist()

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Ends of its monotone pieces, in increasing order."""
        return tuple(sorted({end for piece in self.pieces for end in piece if abs(end) < _BEYOND}))

    @cached_property
    def breaks(self) -> tuple[float, ...]:
        """Ends of the pieces, and the preimages of the values there: where the law of y is singular."""
        if not self.ends:
            return ()
        ends = np.array(self.ends)
        images = self.preimages(self(np.concatenate([ends - _INSIDE, ends + _INSIDE])))
        kept: list[float] = []  # those that only rounding tells apart are one
        for point in sorted([*self.ends, *images[np.isfinite(images)].tolist()]):
            if abs(point) < REACH and (not kept or point - kept[-1] > SAME_POINT):
                kept.append(point)
        return tuple(kept)

    def preimages(self, y: Floats) -> Floats:
        """Return for every y the point of each monotone piece that is mapped to it, (N, pieces), NaN where none is."""
        found = np.full((len(y), len(self.pieces)), np.nan)
        low, high = (np.array(ends) for ends in zip(*self.pieces))
        low, high = low + _ROUNDING * np.maximum(1.0, np.abs(low)), high - _ROUNDING * np.maximum(1.0, np.abs(high))
        first, last = self(low), self(high)
        row, piece = np.nonzero((y[:, None] >= np.minimum(first, last)) & (y[:, None] <= np.maximum(first, last)))
        wanted, sign = y[row], np.where(last > first, -1.0, 1.0)[piece]
        found[row, piece] = crossing(lambda z, i: sign[i] * (self(z) - wanted[i]), low[piece], high[piece])
        return found

    def mean_square(self, q: float) -> float:
        """Return E ghat^2, ghat(omega) = E g(omega + sqrt(1 - q) u), bayes_multi_index (10)."""
        xi, weights = trapezoid_rule(0.3 * min(1.0, float(np.sqrt((1 - q) / max(q, 1e-12)))), REACH)
        ghat = self.function.moments(np.sqrt(q) * xi, np.sqrt(1 - q)).mean
        return float(weights @ np.square(ghat))

    @cached_property
    def second_moment(self) -> float:
        """E g^2."""
        return float(self.function.second_moment(0.0, 1.0))
