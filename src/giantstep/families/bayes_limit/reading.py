"""What a target is: the subspace it depends on, its labels, the symmetries that leave it as it is."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from giantstep.errors import InputError
from giantstep.families.bayes_limit.line import Line
from giantstep.families.bayes_limit.tolerances import SAME_POINT
from giantstep.gaussian import Target
from giantstep.learnability.prepared import PROBE, relevant
from giantstep.learnability.reuse import symmetries
from giantstep.types import Floats

MOST_LABELS = 16
"""Different values up to which a target of several directions is a label."""
_MOST_OUTPUTS = 4_000_000
"""Even steps of y that fit into memory: 32 MB a column."""


@dataclass(frozen=True)
class TargetReading:
    """A target on the subspace it depends on: `inner` is a function of the coordinates along the rows of `basis`."""

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
        return float(ratio[0]) if self.rank == 2 and np.allclose(ratio, ratio[0], rtol=SAME_POINT) else None

    @cached_property
    def slopes(self) -> Floats:
        """Root mean square derivative along each of its variables; jumps, which have no slope, are left out."""
        z, h = np.random.default_rng(3).standard_normal((400, self.rank)), 1e-4
        slopes = np.array([(self.inner(z + h * e) - self.inner(z - h * e)) / (2 * h) for e in np.eye(self.rank)])
        return np.asarray(np.sqrt(np.mean(np.where(np.abs(slopes) < 1e3, slopes, 0.0) ** 2, axis=1)))

    @property
    def steepness(self) -> float:
        """Root mean square of the length of its gradient."""
        return float(np.linalg.norm(self.slopes))

    def outputs(self, reach: float, beyond: float, step: float) -> Floats:
        """Return even steps of y over its values at points within `reach` of the origin, and `beyond` them."""
        z = np.random.default_rng(4).standard_normal((2000, self.rank))
        rays = np.concatenate([z / np.linalg.norm(z, axis=1)[:, None], np.eye(self.rank), -np.eye(self.rank)])
        seen = np.asarray(self.inner(rays[:, None] * np.linspace(0, reach, 41)[:, None]), dtype=float)
        low, high = float(seen.min() - beyond), float(seen.max() + beyond)
        if not high - low < _MOST_OUTPUTS * step:
            raise MemoryError("the outputs of the target spread too far for the steps that its noise asks for")
        return np.arange(low, high, step)

    @cached_property
    def reflections(self) -> frozenset[tuple[float, ...]]:
        """Signs s of its variables with g(s z) = g(z) or g(s z) = -g(z), the trivial ones left out."""
        z = PROBE[:, : self.rank]
        values = np.asarray(self.inner(z), dtype=float)
        close = 1e-9 * (1 + np.abs(values).max())
        kept = []
        for signs in itertools.product((1.0, -1.0), repeat=self.rank):
            turned = np.asarray(self.inner(z * np.array(signs)), dtype=float)
            if min(np.abs(turned - values).max(), np.abs(turned + values).max()) < close:
                kept.append(signs)
        return frozenset(kept) - {(1.0,) * self.rank}

    @cached_property
    def jump(self) -> float:
        """Largest jump across the planes on which it is not smooth, at points where z is likely."""
        z, largest = np.random.default_rng(6).standard_normal((200, self.rank)), 0.0
        for plane in self.inner.planes:
            normal = np.array(plane.normal)
            on = z - np.outer(z @ normal + plane.offset, normal)
            sides = [np.asarray(self.inner(on + shift * normal), dtype=float) for shift in (1e-9, -1e-9)]
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
    """Find the subspace a target depends on; refuse what is constant, not finite or rough on unknown sets."""
    probe = PROBE[:, : target.directions]
    with np.errstate(all="ignore"):
        values = np.asarray(target(probe), dtype=float)
    if not np.all(np.isfinite(values)):
        raise InputError(f"The target {target.name} must be finite, but is not at some points.")
    if np.ptp(values) <= 1e-14 * np.abs(values).max():
        raise InputError(f"The target {target.name} must not be constant.")
    if target.directions == 1 and target.expression is None:
        _check_smooth(target)
    if target.expression is not None and not target.all_planes:
        raise InputError(
            f"The target {target.name} has kinks or jumps that lie on no planes; the best possible error is known "
            "where all of them do."
        )
    basis, inner, _ = relevant(target)
    return TargetReading(target, basis, inner)


def _check_smooth(target: Target) -> None:
    """Refuse a callable of one variable with kinks or jumps that were not declared: its slope changes at once there."""
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
            f"The target {target.name} has kinks or jumps that are not declared; declare them with "
            "`gs.Target(f, kinks=...)`."
        )
