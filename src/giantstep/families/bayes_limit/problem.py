"""A problem is a target with its noise: what its branches, steps of state evolution, errors and thresholds are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from giantstep.errors import InputError
from giantstep.families.bayes_limit.curve import OverlapCurve, ScalarChannel
from giantstep.families.bayes_limit.exact import Exact
from giantstep.families.bayes_limit.noisy import Noisy
from giantstep.families.bayes_limit.pairs import PairChannel, PairLabels, PairNoisy
from giantstep.families.bayes_limit.parity import Parity
from giantstep.families.bayes_limit.product import Product
from giantstep.families.bayes_limit.reading import TargetReading, read_target
from giantstep.families.bayes_limit.stages import LearntStage, find_stages, in_order
from giantstep.gaussian import Target
from giantstep.types import Floats


class BranchSolution(NamedTuple):
    """The branches of one point: uninformed, informed, bayes."""

    M: Floats
    """(3, r, r), in the coordinates of the subspace."""
    phi: Floats
    residual: float = 0.0
    status: str = ""


class Transitions(NamedTuple):
    """Samples per dimension of every transition."""

    alpha_weak: float
    alpha_dyn: float
    alpha_it: float
    alpha_amp: float
    alpha_full: float
    q_dyn: float
    q_it: float
    q_amp: float
    alpha_direction: Floats
    """(r,) of the orthonormal rows of `vector`."""
    vector: Floats
    transition: str
    status: str = ""


def stage_thresholds(stages: list[LearntStage]) -> Transitions:
    """Return the thresholds of stages; first-order transitions are not looked for."""
    alphas, rows = in_order(stages)
    weak, x = float(stages[0].alpha), math.nan
    return Transitions(weak, x, x, x, math.inf, x, x, x, alphas, rows, "not looked for")


class BayesProblem(Protocol):
    """What the limit asks of a problem; matrices are in the coordinates of the target's subspace."""

    reading: TargetReading
    seconds: float
    """About how long its branches at one n/d take, on one core."""
    known_errors: dict[float, Floats]
    """n/d -> best errors that `giantstep.bounds` has asked for."""

    def solve(self, alpha: float) -> BranchSolution:
        """Return the branches."""

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution, bayes_multi_index (3)."""

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best square error and the best fraction of wrong labels (NaN where there are none)."""

    def thresholds(self) -> Transitions:
        """Return the thresholds."""

    def first_learnt(self) -> tuple[Floats, Floats]:
        """Return where message passing learns each direction (r,), and the directions as orthonormal rows."""

    @property
    def curve(self) -> OverlapCurve | None:
        """The curve alpha(q) where one overlap describes all fixed points."""


class OneOverlap:
    """A problem whose fixed points are M = q I: one direction, or directions that a symmetry makes equivalent."""

    def __init__(self, reading: TargetReading, channel: ScalarChannel, pair: PairChannel | None = None) -> None:
        self.reading, self.channel, self.pair = reading, channel, pair
        self.curve, self.known_errors = OverlapCurve(channel), dict[float, Floats]()
        self.seconds = 1.0 if isinstance(channel, Diagonal) else 0.0

    def solve(self, alpha: float) -> BranchSolution:
        """Return the branches read off the curve."""
        branches = self.curve.branches(alpha)
        phi = np.array([self.curve.entropy(q, alpha) for q in branches])
        M = np.array([q * np.eye(self.reading.rank) for q in branches])
        return BranchSolution(M, phi, 0.0, "" if np.isfinite(branches).all() else "no fixed point was found")

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution; of two directions from any M."""
        if not _is_multiple(M):
            information, _ = self._pair().information(M)
            return np.eye(2) - np.linalg.inv(np.eye(2) + alpha * information)
        q = float(np.trace(M)) / self.reading.rank
        if q >= 1:
            return np.eye(self.reading.rank)
        precision = alpha * (self.channel.information(max(q, 1e-14))[0])
        return precision / (1 + precision) * np.eye(self.reading.rank)

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best errors."""
        if not _is_multiple(M):
            return self._pair().errors(M)
        return self.channel.errors(float(np.trace(M)) / self.reading.rank)

    def _pair(self) -> PairChannel:
        if self.pair is None:
            raise InputError(
                f"The target {self.reading.target.name} is followed from overlaps q I only: give `overlap` one number"
                + (", or some noise." if self.reading.product_scale is not None else ".")
            )
        return self.pair

    def first_learnt(self) -> tuple[Floats, Floats]:
        """Return where q leaves zero, for every direction."""
        r = self.reading.rank
        return np.full(r, self.curve.weak), np.eye(r)

    def thresholds(self) -> Transitions:
        """Return the thresholds read off the curve."""
        curve = self.curve
        weak, full, known = curve.weak, curve.full, self.first_learnt()
        if math.isfinite(full):
            alpha, q = curve.spinodal
            jumps = math.isinf(alpha) or alpha > full * (1 + 1e-7)
            top, q_top = (alpha, q) if jumps else (full, 1.0)
            return Transitions(weak, full, full, top, top, 1.0, 1.0, q_top, *known, _NAMES[jumps])
        jump = curve.jump
        if jump is None:
            return Transitions(weak, weak, weak, weak, math.inf, 0.0, 0.0, 0.0, *known, _NAMES[False])
        status = "" if math.isfinite(jump.alpha_it) else "the free entropies of the two branches do not cross"
        return Transitions(
            weak, jump.alpha_dyn, jump.alpha_it, jump.alpha_amp, math.inf, jump.q_dyn, jump.q_it, jump.q_amp,
            *known, _NAMES[True], status,
        )  # fmt: skip


def _is_multiple(M: Floats) -> bool:
    return bool(np.abs(M - np.trace(M) / len(M) * np.eye(len(M))).max() < 1e-12)


_NAMES = {True: "first-order", False: "continuous"}


def line_channel(reading: TargetReading, noise: float, flip: float) -> ScalarChannel:
    """Return the channel of one direction."""
    if noise > 0:
        return Noisy(reading.line, noise, reading.jump)
    return Exact(reading.line, flip)


def pair_channel(reading: TargetReading, noise: float, flip: float) -> PairChannel:
    """Return the channel of two directions at any overlap matrix."""
    if noise > 0:
        return PairNoisy(reading, noise)
    return PairLabels(reading, flip)


def symmetric_channel(reading: TargetReading, noise: float, flip: float) -> ScalarChannel | None:
    """Return the channel of several directions whose fixed points are M = q I, where that is known."""
    if reading.is_parity and noise == 0 and reading.labels is not None:
        return Parity(reading.rank, flip, *reading.labels)
    if reading.product_scale is None:
        return None
    return Diagonal(PairNoisy(reading, noise)) if noise > 0 else Product(reading.product_scale)


@dataclass(frozen=True)
class Diagonal:
    """A channel of two directions at M = q I."""

    channel: PairNoisy

    directions = 2
    continuous_mass = 0.0
    last, farthest = 3.0, 6.0

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) of one direction and Psi(q)."""
        information, psi = self.channel.information(q * np.eye(2))
        return 0.5 * float(np.trace(information)), psi

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 = 0 and rho."""
        rate = find_stages(self.channel, 2)[0].alpha
        return 0.0, 1 / rate

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error noise + c^2 (1 - q^2)."""
        scale = self.channel.reading.product_scale or 1.0
        return self.channel.noise + scale**2 * (1 - q**2), np.nan


@lru_cache(maxsize=256)
def problem_of(target: Target, noise: float, flip: float) -> BayesProblem:
    """Return the problem of a target; the last 256 are kept: further n/d use their tables."""
    reading = read_target(target)
    if reading.rank == 1:
        return OneOverlap(reading, line_channel(reading, noise, flip))
    from giantstep.families.bayes_limit.many import ManyDirections  # they need the types of this module
    from giantstep.families.bayes_limit.matrix import SeveralDirections

    channel = symmetric_channel(reading, noise, flip)
    if channel is not None:
        has_tables = reading.rank == 2 and (noise > 0 or reading.labels is not None)
        return OneOverlap(reading, channel, pair_channel(reading, noise, flip) if has_tables else None)
    if reading.rank > 2:
        return ManyDirections(reading, noise, flip)
    return SeveralDirections(reading, pair_channel(reading, noise, flip))
