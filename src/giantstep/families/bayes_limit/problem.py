"""A problem is a target with its noise: what its branches, steps of state evolution, errors and thresholds are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from giantstep.errors import InputError
from giantstep.families.bayes_limit.curve import OverlapCurve
from giantstep.families.bayes_limit.exact import Exact
from giantstep.families.bayes_limit.noisy import Noisy
from giantstep.families.bayes_limit.pairs import PairChannel, PairLabels, PairNoisy
from giantstep.families.bayes_limit.product import Parity, Product
from giantstep.families.bayes_limit.reading import TargetReading, read_target
from giantstep.families.bayes_limit.stages import LearntStage, Sliced, find_stages
from giantstep.gaussian import Target
from giantstep.types import Floats

if TYPE_CHECKING:
    from giantstep.families.bayes_limit.many import ManyDirections
    from giantstep.families.bayes_limit.matrix import SeveralDirections
    from giantstep.families.bayes_limit.sampled import SampledChannel


class BranchSolution(NamedTuple):
    """The branches of one point: uninformed, informed, bayes."""

    M: Floats
    """(S, 3, r, r), in the coordinates of the subspace: one run, or one for each scramble where overlaps are sampled;
    NaN where it is not known which branch is the best."""
    phi: Floats
    phi_error: Floats | None = None
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
    alpha_direction: Floats  # (r,) of the orthonormal rows of `vector`
    vector: Floats
    transition: str
    status: str = ""


class OneOverlap:
    """A problem whose fixed points are M = q I: one direction, or directions that a symmetry makes equivalent."""

    def __init__(self, reading: TargetReading, channel: ScalarChannel, pair: PairChannel | None = None) -> None:
        self.reading, self.channel, self.pair = reading, channel, pair
        self.curve = OverlapCurve(channel)
        self.seconds = 1.0 if isinstance(channel, Diagonal) else 0.0

    def channels(self, seed: int) -> list[OneOverlap]:
        """Return the one channel there is."""
        return [self]

    def solve(self, alpha: float, seed: int) -> BranchSolution:
        """Return the branches read off the curve."""
        branches = self.curve.branches(alpha)
        phi = np.array([self.curve.entropy(q, alpha) for q in branches])
        M = np.array([[q * np.eye(self.reading.rank) for q in branches]])
        return BranchSolution(M, phi, status="" if np.isfinite(branches).all() else "no fixed point was found")

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution; of two directions from any M."""
        identity = np.eye(self.reading.rank)
        if not _is_multiple(M):
            information, _ = self._pair().information(M)
            return identity - np.linalg.inv(identity + alpha * information)
        q = float(np.trace(M)) / self.reading.rank
        if q >= 1:
            return identity
        precision = alpha * (self.channel.information(max(q, 1e-14))[0])
        return precision / (1 + precision) * identity

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best errors."""
        if not _is_multiple(M):
            return self._pair().errors(M)
        return self.channel.errors(float(np.trace(M)) / self.reading.rank)

    def _pair(self) -> PairChannel:
        if self.pair is None:
            raise InputError(
                f"The target {self.reading.target.name} is followed from overlaps q I only: give `overlap` one number."
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
            alpha, q = curve.spinodal_before(1.0)
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


class Staged:
    """A problem whose directions are learnt in stages; first-order transitions are not looked for."""

    curve: OverlapCurve | None = None
    channel: Sliced

    def __init__(self, reading: TargetReading, channel: Sliced) -> None:
        self.reading, self.channel = reading, channel

    @cached_property
    def stages(self) -> list[LearntStage]:
        """The directions in the order in which they are learnt."""
        return find_stages(self.channel, self.reading.rank)

    def learnt_rows(self, alpha: float) -> Floats:
        """Return the directions that message passing learns at this alpha, as orthonormal rows."""
        return np.concatenate([np.zeros((0, self.reading.rank)), *(s.rows for s in self.stages if s.alpha < alpha)])

    def first_learnt(self) -> tuple[Floats, Floats]:
        """Return where each direction is learnt, and the directions."""
        alphas = np.concatenate([np.full(len(stage.rows), stage.alpha) for stage in self.stages])
        return alphas, np.concatenate([stage.rows for stage in self.stages])

    def thresholds(self) -> Transitions:
        """Return where each direction is learnt."""
        weak, x = float(self.stages[0].alpha), math.nan
        return Transitions(weak, x, x, x, math.inf, x, x, x, *self.first_learnt(), "not looked for")


@dataclass(frozen=True)
class Diagonal:
    """A channel of two directions that are alike, at M = q I."""

    channel: PairNoisy

    directions = 2
    continuous_mass = 0.0
    last, farthest = 3.0, 6.0

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) of one direction and Psi(q)."""
        information, psi = self.channel.information(q * np.eye(2), alike=True)
        return 0.5 * float(np.trace(information)), psi

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 = 0 and rho."""
        return 0.0, 1 / find_stages(self.channel, 2)[0].alpha

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error."""
        return self.channel.errors(q * np.eye(2))


ScalarChannel = Exact | Noisy | Product | Parity | Diagonal
"""A channel with one order parameter, M = q I in `directions` dimensions.

q = 1 is stable above alpha = directions/`continuous_mass` (0: nowhere). The curve alpha(q) has nodes up to logit q =
`last`, is followed further where a point asks for it, and ends at `farthest`."""
RunChannel: TypeAlias = "OneOverlap | SeveralDirections | SampledChannel"
"""State evolution and errors at any overlap matrix, on one run."""
BayesProblem: TypeAlias = "OneOverlap | SeveralDirections | ManyDirections"
"""What the limit asks; matrices are in the coordinates of the target's subspace."""


@lru_cache(maxsize=256)
def problem_of(target: Target, noise: float, flip: float) -> BayesProblem:
    """Return the problem of a target; the last 256 are kept: further n/d use their tables."""
    reading = read_target(target)
    if reading.rank == 1:
        return OneOverlap(reading, Noisy(reading.line, noise, reading.jump) if noise > 0 else Exact(reading.line, flip))
    if reading.product_scale is not None and noise == 0:
        return OneOverlap(reading, Product(reading.product_scale))
    from giantstep.families.bayes_limit.many import ManyDirections  # they need the types of this module
    from giantstep.families.bayes_limit.matrix import SeveralDirections

    pair = None if reading.rank > 2 else PairNoisy(reading, noise) if noise > 0 else PairLabels(reading, flip)
    if reading.is_parity and noise == 0 and reading.labels is not None:
        return OneOverlap(reading, Parity(reading.rank, flip, *reading.labels), pair)
    if isinstance(pair, PairNoisy) and reading.product_scale is not None:
        return OneOverlap(reading, Diagonal(pair), pair)
    return ManyDirections(reading, noise, flip) if pair is None else SeveralDirections(reading, pair)
