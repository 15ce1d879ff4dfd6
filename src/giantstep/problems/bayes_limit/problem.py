"""A problem is a target with its noise: what its branches, steps of state evolution,
errors and thresholds are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import root

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Target
from giantstep.problems.bayes_limit.curve import Jump, OverlapCurve
from giantstep.problems.bayes_limit.exact import Exact
from giantstep.problems.bayes_limit.many import ManyDirections, SampledChannel
from giantstep.problems.bayes_limit.noisy import Noisy
from giantstep.problems.bayes_limit.pairs import PairChannel, PairLabels, PairNoisy
from giantstep.problems.bayes_limit.product import Parity, Product
from giantstep.problems.bayes_limit.reading import TargetReading, read_target
from giantstep.problems.bayes_limit.stages import (
    BranchSolution,
    Staged,
    find_stages,
    moved_inside,
)
from giantstep.problems.bayes_limit.tolerances import (
    LARGEST_OVERLAP,
    SAME_BRANCH,
    SETTLED,
    UNSETTLED,
)


class OneOverlap:
    """A problem whose fixed points are M = q I: one direction, or directions that a
    symmetry makes equivalent.
    """

    def __init__(
        self,
        reading: TargetReading,
        channel: ScalarChannel,
        pair: PairChannel | None = None,
    ) -> None:
        self.reading = reading
        self.channel = channel
        self.pair = pair
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
        return BranchSolution(
            M,
            phi,
            status="" if np.isfinite(branches).all() else "no fixed point was found",
        )

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution; of two directions from any M."""
        identity = np.eye(len(M))
        q = float(np.trace(M)) / len(M)
        pair = self._pair_at(M)
        if pair is not None:
            return identity - np.linalg.inv(identity + alpha * pair.information(M)[0])
        if q >= 1:
            return identity
        precision = alpha * (self.channel.information(max(q, 1e-14))[0])
        return precision / (1 + precision) * identity

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best errors."""
        pair = self._pair_at(M)
        if pair is None:
            return self.channel.errors(float(np.trace(M)) / len(M))
        return pair.errors(M)

    def _pair_at(self, M: Floats) -> PairChannel | None:
        """Return the channel at an M that is no multiple of the identity, else None."""
        if np.abs(M - np.trace(M) / len(M) * np.eye(len(M))).max() < 1e-12:
            return None
        if self.pair is None:
            raise InputError(
                f"The target {self.reading.target.name} is followed from overlaps q I"
                " only: give `overlap` one number."
            )
        return self.pair

    def first_learnt(self) -> tuple[Floats, Floats]:
        """Return where q leaves zero, for every direction."""
        r = self.reading.rank
        return np.full(r, self.curve.weak), np.eye(r)

    def thresholds(self) -> tuple[dict[str, Any], str]:
        """Return the thresholds read off the curve, and what was not found."""
        curve = self.curve
        full = self.curve.full
        first_order = True
        if math.isfinite(full):
            alpha, q = curve.spinodal_before(1.0)
            first_order = math.isinf(alpha) or alpha > full * (1 + 1e-7)
            top, q_top = (alpha, q) if first_order else (full, 1.0)
            jump = Jump(full, 1.0, full, 1.0, top, q_top)
            full = top
        elif curve.jump is not None:
            jump = curve.jump
        else:
            jump = Jump(curve.weak, 0.0, curve.weak, 0.0, curve.weak, 0.0)
            first_order = False
        table = {"alpha_weak": curve.weak, "alpha_full": full, **jump._asdict()}
        found = not first_order or math.isfinite(jump.alpha_it)
        if found:
            status = ""
        else:
            status = "the free entropies of the two branches do not cross"
        return (
            table | {"transition": "first-order" if first_order else "continuous"},
            status,
        )


# -- Two directions that no symmetry makes equivalent: fixed points of the overlap matri


_SEED = np.array([2e-3, 1.6e-3])
"""Overlaps with the directions that are learnt, at which message passing starts;
unequal, to break symmetries.
"""
_KNOWLEDGE = 0.9
"""Overlap from which the informed branch is followed down."""
_NEAR = 0.03
"""Relative change in a sweep from which on Newton's method takes over."""
_SWEEPS = 400
_ROUNDS = 6
_MORE = 20
"""Sweeps of a round at most, rounds, and by how many sweeps each is longer at least
than the one before.
"""
_DIFFERENCE = 1e-5
"""Step in M of the differences that give the Jacobian: rules that follow M jump by
1e-9.
"""
_LONGEST = 0.3
"""Length of the first step of Newton's method, relative to M."""
_LEFT = 0.3
_REFUSED = 10.0
"""Share of the posterior variance that its steps leave at least, and the gap of M that
is claimed beyond.
"""
_PUSH = 1e-2
"""Distance from an unstable point at which sweeps start again."""


class SeveralDirections(Staged):
    """A problem of two directions that no symmetry reduces to one overlap."""

    channel: PairChannel

    @property
    def seconds(self) -> float:
        """About how long its branches at one n/d take."""
        return 4.0 if isinstance(self.channel, PairNoisy) else 0.2

    def channels(self, seed: int) -> list[SeveralDirections]:
        """Return the one channel there is."""
        return [self]

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution, bayes_multi_index (3)."""
        check_time()
        information, _ = self.channel.information(moved_inside(M))
        identity = np.eye(len(M))
        return identity - np.linalg.inv(
            identity + alpha * 0.5 * (information + information.T)
        )

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best errors."""
        return self.channel.errors(moved_inside(M))

    def solve(self, alpha: float, seed: int) -> BranchSolution:
        """Return the branches: message passing in the directions learnt at this alpha,
        and down from knowledge.
        """
        r = self.reading.rank
        rows = self.learnt_rows(alpha)
        low, settled = self._follow(
            rows.T @ np.diag(_SEED[: len(rows)]) @ rows, alpha, rows
        )
        high, held = self._follow(_KNOWLEDGE * np.eye(r), alpha, np.eye(r))
        if np.abs(high - low).max() < SAME_BRANCH:
            high = low
        phi = [self._entropy(M, alpha) for M in (low, high)]
        best = int(phi[1] > phi[0])
        status = "" if settled and held else "state evolution did not settle"
        return BranchSolution(
            np.array([[low, high, (low, high)[best]]]),
            np.array([*phi, phi[best]]),
            status=status,
        )

    def _entropy(self, M: Floats, alpha: float) -> float:
        """Return the free entropy per dimension, bayes_multi_index (4)."""
        log_det = float(np.linalg.slogdet(np.eye(len(M)) - M)[1])
        return (
            0.5 * float(np.trace(M))
            + 0.5 * log_det
            + alpha * self.channel.information(M)[1]
        )

    def _follow(self, M: Floats, alpha: float, rows: Floats) -> tuple[Floats, bool]:
        """Return the stable fixed point that state evolution reaches from M inside the
        span of `rows`, if it does.
        """
        if not len(rows):
            return M, True
        for number in range(_ROUNDS):
            M = self._sweep(M, alpha, rows, _MORE * number)
            point, residual = self._newton(M, alpha, rows)
            if residual > UNSETTLED:
                continue  # sweeps are slow where a fixed point has just vanished
            sizes, vectors = np.linalg.eig(self._jacobian(point, alpha, rows))
            if np.abs(sizes).max() < 1 + 1e-9:
                return point, True
            push = _matrix_of(np.real(vectors[:, int(np.argmax(sizes.real))]), rows)
            M = moved_inside(point + _PUSH * push * (1 if np.trace(push) >= 0 else -1))
        return M, False

    def _newton(self, M: Floats, alpha: float, rows: Floats) -> tuple[Floats, float]:
        """Return the fixed point that Newton's method finds from M inside the span of
        `rows`, and the gap it leaves.
        """
        known = 1 - _LEFT * (1 - np.linalg.eigvalsh(M)[-1])
        slopes = np.eye(len(rows) * (len(rows) + 1) // 2) - self._jacobian(
            M, alpha, rows
        )

        def gap(entries: Floats) -> Floats:
            new = _matrix_of(entries, rows)
            if (
                np.linalg.eigvalsh(new)[-1] > known
            ):  # such a step is refused: beyond a fold it runs to full knowledge
                return np.full(len(entries), _REFUSED)
            return entries - _entries_of(self.step(new, alpha), rows)

        options = {"xtol": 0.1 * SETTLED, "factor": _LONGEST}
        found = root(
            gap,
            _entries_of(M, rows),
            jac=lambda x: slopes,
            method="hybr",
            options=options,
        )
        return moved_inside(_matrix_of(found.x, rows)), float(np.abs(found.fun).max())

    def _sweep(self, M: Floats, alpha: float, rows: Floats, least: int) -> Floats:
        """Iterate so often at least, until sweeps move little and less and less; two
        that alternate are averaged.
        """
        project = rows.T @ rows
        last = np.inf
        falling = 0
        previous = np.zeros_like(M)
        for number in range(_SWEEPS):
            new = project @ self.step(M, alpha) @ project
            change = new - M
            moved = float(np.abs(change).max())
            falling = falling + 1 if moved < last else 0
            if (
                moved < _NEAR * max(float(np.abs(new).max()), 1e-2)
                and falling > 1
                and number >= least
            ):
                return new
            alternates = float((previous * change).sum()) < 0
            M = 0.5 * (new + M) if alternates else new
            previous = change
            last = moved
        return M

    def _jacobian(self, M: Floats, alpha: float, rows: Floats) -> Floats:
        """Return the derivatives of a step in the entries of M, by differences."""
        size = len(rows) * (len(rows) + 1) // 2
        base = self.step(M, alpha)
        jacobian = np.zeros((size, size))
        for column, unit in enumerate(np.eye(size)):
            change = _DIFFERENCE * _matrix_of(unit, rows)
            sizes = np.linalg.eigvalsh(M + change)
            sign = 1 if sizes[0] >= -1e-12 and sizes[-1] < LARGEST_OVERLAP else -1
            moved = self.step(M + sign * change, alpha) - base
            jacobian[:, column] = _entries_of(moved, rows) / (sign * _DIFFERENCE)
        return jacobian


def _entries_of(M: Floats, rows: Floats) -> Floats:
    """Return the entries of a symmetric matrix on a subspace."""
    return (rows @ M @ rows.T)[np.triu_indices(len(rows))]


def _matrix_of(entries: Floats, rows: Floats) -> Floats:
    """Return the symmetric matrix on a subspace with these entries, the inverse of
    `_entries_of`.
    """
    inner = np.zeros((len(rows), len(rows)))
    inner[np.triu_indices(len(rows))] = entries
    inner = inner + inner.T - np.diag(np.diag(inner))
    return np.asarray(rows.T @ inner @ rows)


# -- What a target is asked for --------------------------------------------------------


@dataclass(frozen=True)
class Diagonal:
    """A channel of two directions that are alike, at M = q I."""

    channel: PairNoisy

    directions = 2
    continuous_mass = 0.0
    last = 3.0
    farthest = 6.0

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) of one direction and Psi(q)."""
        information, psi = self.channel.information(q * np.eye(2), alike=True)
        return 0.5 * float(np.trace(information)), psi

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 = 0 and rho."""
        return 0.0, 1 / find_stages(self.channel.slab, 2)[0].alpha

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error."""
        return self.channel.errors(q * np.eye(2))


ScalarChannel = Exact | Noisy | Product | Parity | Diagonal
"""A channel with one order parameter, M = q I in `directions` dimensions.

q = 1 is stable above alpha = directions/`continuous_mass` (0: nowhere). The curve
alpha(q) has nodes up to logit q = `last`, is followed further where a point asks for
it, and ends at `farthest`.
"""
RunChannel = OneOverlap | SeveralDirections | SampledChannel
"""State evolution and errors at any overlap matrix, on one run."""
BayesProblem = OneOverlap | SeveralDirections | ManyDirections
"""What the limit asks; matrices are in the coordinates of the target's subspace."""


@lru_cache(maxsize=256)
def problem_of(target: Target, noise: float, flip: float) -> BayesProblem:
    """Return the problem of a target; the last 256 are kept: further n/d use their
    tables.
    """
    reading = read_target(target)
    if reading.rank == 1:
        return OneOverlap(
            reading,
            (
                Noisy(reading.line, noise, reading.jump)
                if noise > 0
                else Exact(reading.line, flip)
            ),
        )
    if reading.product_scale is not None and noise == 0:
        return OneOverlap(reading, Product(reading.product_scale))
    pair: PairNoisy | PairLabels | None
    if reading.rank > 2:
        pair = None
    elif noise > 0:
        pair = PairNoisy(reading, noise)
    else:
        pair = PairLabels(reading, flip)
    if reading.is_parity and noise == 0 and reading.labels is not None:
        return OneOverlap(reading, Parity(reading.rank, flip, *reading.labels), pair)
    if isinstance(pair, PairNoisy) and reading.product_scale is not None:
        return OneOverlap(reading, Diagonal(pair), pair)
    if pair is None:
        return ManyDirections(reading, noise, flip)
    return SeveralDirections(reading, pair)
