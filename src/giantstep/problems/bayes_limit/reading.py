"""What a target is: the subspace it depends on, its labels, the symmetries that leave
it as it is.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function, Target
from giantstep.core.maths.gaussian.functions import Parity, parity_of
from giantstep.core.maths.gaussian.quadrature import trapezoid_rule
from giantstep.core.maths.solve import crossing
from giantstep.problems.bayes_limit.tolerances import REACH, SAME_POINT
from giantstep.problems.learnability.prepared import PROBE, relevant
from giantstep.problems.learnability.reuse import symmetries

MOST_LABELS = 16
"""Different values up to which a target of several directions is a label."""
_MOST_OUTPUTS = 4_000_000
"""Even steps of y that fit into memory: 32 MB a column."""


@dataclass(frozen=True)
class TargetReading:
    """A target on the subspace it depends on: `inner` is a function of the coordinates
    along the rows of `basis`.
    """

    target: Target
    basis: Floats
    inner: Target

    @property
    def rank(self) -> int:
        """Number of directions it depends on."""
        return len(self.basis)

    @cached_property
    def line(self) -> Line:
        """The target of one variable."""
        return Line(self.inner)

    @cached_property
    def labels(self) -> tuple[float, ...] | None:
        """Its values in increasing order where there are few, else None."""
        if self.rank == 1:
            return self.line.labels if self.line.is_discrete else None
        probe = np.random.default_rng(11).standard_normal((4096, self.rank))
        values = np.unique(np.round(np.asarray(self.inner(probe), dtype=float), 9))
        return tuple(values.tolist()) if len(values) <= MOST_LABELS else None

    @cached_property
    def product_scale(self) -> float | None:
        """The factor c where the target is c z1 z2, else None."""
        z = PROBE[:, : self.rank]
        ratio = np.asarray(self.inner(z), dtype=float) / np.prod(z, axis=1)
        if self.rank == 2 and np.allclose(ratio, ratio[0], rtol=SAME_POINT):
            return float(ratio[0])
        return None

    @cached_property
    def slopes(self) -> Floats:
        """Root mean square derivative along each of its variables; jumps, which have no
        slope, are left out.
        """
        z = np.random.default_rng(3).standard_normal((400, self.rank))
        h = 1e-4
        slopes = np.array(
            [
                (self.inner(z + h * e) - self.inner(z - h * e)) / (2 * h)
                for e in np.eye(self.rank)
            ]
        )
        return np.asarray(
            np.sqrt(np.mean(np.where(np.abs(slopes) < 1e3, slopes, 0.0) ** 2, axis=1))
        )

    @property
    def steepness(self) -> float:
        """Root mean square of the length of its gradient."""
        return float(np.linalg.norm(self.slopes))

    def outputs(self, reach: float, beyond: float, step: float) -> Floats:
        """Return even steps of y over its values at points within `reach` of the
        origin, and `beyond` them.
        """
        z = np.random.default_rng(4).standard_normal((2000, self.rank))
        rays = np.concatenate(
            [
                z / np.linalg.norm(z, axis=1)[:, None],
                np.eye(self.rank),
                -np.eye(self.rank),
            ]
        )
        seen = np.asarray(
            self.inner(rays[:, None] * np.linspace(0, reach, 41)[:, None]), dtype=float
        )
        low = float(seen.min() - beyond)
        high = float(seen.max() + beyond)
        if not high - low < _MOST_OUTPUTS * step:
            raise MemoryError(
                "the outputs of the target spread too far for the steps that its noise"
                " asks for"
            )
        return np.arange(low, high, step)

    @cached_property
    def reflections(self) -> frozenset[tuple[float, ...]]:
        """Signs s of its variables with g(s z) = g(z) or g(s z) = -g(z), the trivial
        ones left out.
        """
        z = PROBE[:, : self.rank]
        values = np.asarray(self.inner(z), dtype=float)
        close = 1e-9 * (1 + np.abs(values).max())
        kept = []
        for signs in itertools.product((1.0, -1.0), repeat=self.rank):
            turned = np.asarray(self.inner(z * np.array(signs)), dtype=float)
            if (
                min(np.abs(turned - values).max(), np.abs(turned + values).max())
                < close
            ):
                kept.append(signs)
        return frozenset(kept) - {(1.0,) * self.rank}

    @cached_property
    def jump(self) -> float:
        """Largest jump across the planes on which it is not smooth, at points where z
        is likely.
        """
        z = np.random.default_rng(6).standard_normal((200, self.rank))
        largest = 0.0
        for plane in self.inner.planes:
            normal = np.array(plane.normal)
            on = z - np.outer(z @ normal + plane.offset, normal)
            sides = [
                np.asarray(self.inner(on + shift * normal), dtype=float)
                for shift in (1e-9, -1e-9)
            ]
            largest = max(largest, float(np.abs(sides[0] - sides[1]).max()))
        return largest if largest > 1e-6 else 0.0

    @cached_property
    def is_parity(self) -> bool:
        """Whether it is the product of the signs of its variables, up to two values."""
        if self.labels is None or len(self.labels) != 2:
            return False
        z = PROBE[:, : self.rank]
        high = np.asarray(self.inner(z), dtype=float) > np.mean(self.labels)
        same = high == (np.prod(z, axis=1) > 0)
        return bool(same.all() or not same.any())

    @cached_property
    def symmetries(self) -> Floats:
        """Signed permutations S (count, r, r) of its variables with g(S z) = g(z)."""
        return symmetries(self.inner).elements


@lru_cache(maxsize=256)  # every scenario of a target is checked against its reading
def read_target(target: Target) -> TargetReading:
    """Find the subspace a target depends on; refuse what is constant, not finite or
    rough on unknown sets.
    """
    probe = PROBE[:, : target.directions]
    with np.errstate(all="ignore"):
        values = np.asarray(target(probe), dtype=float)
    if not np.all(np.isfinite(values)):
        raise InputError(
            f"The target {target.name} must be finite, but is not at some points."
        )
    if np.ptp(values) <= 1e-14 * np.abs(values).max():
        raise InputError(f"The target {target.name} must not be constant.")
    if target.directions == 1 and target.expression is None:
        _check_smooth(target)
    if target.expression is not None and not target.all_planes:
        raise InputError(
            f"The target {target.name} has kinks or jumps that lie on no planes; the"
            " best possible error is known where all of them do."
        )
    basis, inner, _ = relevant(target)
    return TargetReading(target, basis, inner)


def _check_smooth(target: Target) -> None:
    """Refuse a callable of one variable with kinks or jumps that were not declared: its
    slope changes at once there.
    """
    kinks = np.array([-plane.offset / plane.normal[0] for plane in target.planes])
    largest = []
    for step in (1e-2, 1e-3):
        z = np.arange(-7.0, 7.0, step) + 0.37 * step
        y = np.asarray(target(z[:, None]), dtype=float)
        bend = np.abs(y[2:] - 2 * y[1:-1] + y[:-2]) / step
        near = (np.abs(z[1:-1, None] - kinks) < 2 * step).any(axis=1)
        largest.append(float(bend[~near].max(initial=0.0)))
    if largest[1] > 1e-6 and largest[1] > 0.3 * largest[0]:
        raise InputError(
            f"The target {target.name} has kinks or jumps that are not declared;"
            " declare them with `gs.Target(f, kinks=...)`."
        )


# -- A target of one variable: where it breaks, its monotone and flat pieces, its preima


MOST_PIECES = 64
"""Monotone pieces without noise; with more the law of y takes seconds."""
_BEYOND = 12.0
"""Standard deviations of z beyond which a target is not looked at."""
_SCAN = 1 / 400
"""Step in z at which critical points are looked for."""
_INSIDE = 1e-12
_ROUNDING = 1e-15
"""Distances from a break at which the limits of a function are read, and from an end at
which a piece begins.
"""


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
        return tuple(
            sorted({-plane.offset / plane.normal[0] for plane in self.target.planes})
        )

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
            return np.asarray(
                self.target.gradient(np.asarray(z)[..., None]), dtype=float
            )[..., 0]
        step = 1e-5
        return (
            self(z - 2 * step)
            - 8 * self(z - step)
            + 8 * self(z + step)
            - self(z + 2 * step)
        ) / (12 * step)

    @cached_property
    def parity(self) -> Parity | None:
        """Its parity; what z < 0 adds to any information is what z > 0 adds where it is
        even or odd.
        """
        return parity_of(self, [kink for kink in self.kinks if abs(kink) < _BEYOND])

    @cached_property
    def flat(self) -> tuple[Interval, ...]:
        """The pieces between kinks on which it is constant, from -inf to inf;
        neighbours of one value are joined.
        """
        inner = [kink for kink in self.kinks if abs(kink) < _BEYOND]
        ends = [-_BEYOND, *inner, _BEYOND]
        flat: list[Interval] = []
        for low, high in zip(ends, ends[1:]):
            values = self(low + (high - low) * np.linspace(0.01, 0.99, 21))
            if np.ptp(values) <= 1e-12 * (1 + np.abs(values).max()):
                same = [
                    piece.value
                    for piece in flat
                    if abs(piece.value - values[10]) < SAME_POINT
                ]
                value = float(same[0] if same else values[10])
                piece = Interval(
                    -np.inf if low == -_BEYOND else low,
                    np.inf if high == _BEYOND else high,
                    value,
                )
                if flat and flat[-1].high == low and flat[-1].value == value:
                    piece = Interval(flat.pop().low, piece.high, value)
                flat.append(piece)
        return tuple(flat)

    @cached_property
    def labels(self) -> tuple[float, ...]:
        """The values of its flat pieces, in increasing order: atoms of the law of
        g(z).
        """
        return tuple(sorted({piece.value for piece in self.flat}))

    @cached_property
    def is_discrete(self) -> bool:
        """Whether it takes finitely many values."""
        covered = [piece for piece in self.flat if piece.low < _BEYOND]
        whole = (
            bool(covered) and covered[0].low == -np.inf and covered[-1].high == np.inf
        )
        return whole and all(
            first.high == second.low for first, second in zip(covered, covered[1:])
        )

    @cached_property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        """The intervals inside (-12, 12) on which it is strictly monotone, between
        kinks and critical points.
        """
        ends = sorted(
            {-_BEYOND, *(kink for kink in self.kinks if abs(kink) < _BEYOND), _BEYOND}
        )
        pieces: list[tuple[float, float]] = []
        for low, high in zip(ends, ends[1:]):
            if any(piece.low <= low and high <= piece.high for piece in self.flat):
                continue
            turns = self._critical_points(low, high)
            inner = [low, *turns, high]
            pieces += list(zip(inner, inner[1:]))
        if len(pieces) > MOST_PIECES:
            raise InputError(
                f"The target {self.target.name} has {len(pieces)} monotone pieces; at"
                f" most {MOST_PIECES} are allowed without noise (give it some noise)."
            )
        return tuple(pieces)

    def _critical_points(self, low: float, high: float) -> list[float]:
        """Return where the slope changes its sign strictly inside an interval."""
        count = max(9, int((high - low) / _SCAN))
        z = low + (high - low) * (np.arange(count) + 0.5) / count
        sign = np.sign(self.slope(z))
        # an exact zero, or underflow far outside, has no sign of its own
        known = np.flatnonzero(sign)
        turns = np.flatnonzero(sign[known[1:]] != sign[known[:-1]])
        first = sign[known[turns]]
        falls = lambda z, index: first[index] * self.slope(z)  # noqa: E731
        return crossing(falls, z[known[turns]], z[known[turns + 1]]).tolist()

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Ends of its monotone pieces, in increasing order."""
        return tuple(
            sorted(
                {end for piece in self.pieces for end in piece if abs(end) < _BEYOND}
            )
        )

    @cached_property
    def breaks(self) -> tuple[float, ...]:
        """Ends of the pieces, and the preimages of the values there: where the law of y
        is singular.
        """
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
        """Return for every y the point of each monotone piece that is mapped to it, (N,
        pieces), NaN where none is.
        """
        found = np.full((len(y), len(self.pieces)), np.nan)
        low, high = (np.array(ends) for ends in zip(*self.pieces))
        low = low + _ROUNDING * np.maximum(1.0, np.abs(low))
        high = high - _ROUNDING * np.maximum(1.0, np.abs(high))
        first = self(low)
        last = self(high)
        row, piece = np.nonzero(
            (y[:, None] >= np.minimum(first, last))
            & (y[:, None] <= np.maximum(first, last))
        )
        wanted, sign = y[row], np.where(last > first, -1.0, 1.0)[piece]
        found[row, piece] = crossing(
            lambda z, i: sign[i] * (self(z) - wanted[i]), low[piece], high[piece]
        )
        return found

    def mean_square(self, q: float) -> float:
        """Return E ghat^2, ghat(omega) = E g(omega + sqrt(1 - q) u), bayes_multi_index
        (10).
        """
        xi, weights = trapezoid_rule(
            0.3 * min(1.0, float(np.sqrt((1 - q) / max(q, 1e-12)))), REACH
        )
        return float(
            weights
            @ np.square(self.function.moments(np.sqrt(q) * xi, np.sqrt(1 - q)).mean)
        )

    @cached_property
    def second_moment(self) -> float:
        """E g^2."""
        return float(self.function.second_moment(0.0, 1.0))
