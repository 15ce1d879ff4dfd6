"""Two directions that no symmetry makes equivalent: fixed points of the overlap matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import root

from giantstep.deadline import check_time
from giantstep.families.bayes_limit.curve import OverlapCurve
from giantstep.families.bayes_limit.pairs import PairChannel, PairNoisy
from giantstep.families.bayes_limit.problem import BranchSolution, Transitions, stage_thresholds
from giantstep.families.bayes_limit.reading import TargetReading
from giantstep.families.bayes_limit.stages import LearntStage, find_stages, in_order
from giantstep.families.bayes_limit.tolerances import LARGEST_OVERLAP, SETTLED, UNSETTLED
from giantstep.types import Floats

_SEED = np.array([2e-3, 1.6e-3])
"""Overlaps with the directions that are learnt, at which message passing starts; unequal, to break symmetries."""
_KNOWLEDGE = 0.9
"""Overlap from which the informed branch is followed down."""
_NEAR = 0.03
"""Relative change in a sweep from which on Newton's method takes over."""
_SWEEPS, _ROUNDS, _MORE = 400, 6, 20
"""Sweeps of a round at most, rounds, and by how many sweeps each is longer at least than the one before."""
_SAME = 1e-3
"""Distance of two fixed points that are one, before they are solved for to the end."""
_DIFFERENCE = 1e-5
"""Step in M of the differences that give the Jacobian: rules that follow M jump by 1e-9."""
_STEPS, _LONGEST = 30, 0.3
"""Steps of Newton's method at most, and how long the first is, relative to M."""
_LEFT, _REFUSED = 0.3, 10.0
"""Share of the posterior variance that its steps leave at least, and the gap of M that is claimed beyond."""
_DOUBTFUL = 0.05
"""Distance of the largest eigenvalue of a Jacobian from one within which it is computed at the fixed point itself."""
_PUSH = 1e-2
"""Distance from an unstable point at which sweeps start again."""


class OverlapPoint(NamedTuple):
    """A fixed point with its free entropy per dimension."""

    M: Floats
    phi: float
    psi: float
    """Psi(M), the slope of phi in alpha."""
    residual: float
    jacobian: Floats
    """Derivatives of a step in the entries of M, at this point or close to it."""
    stable: bool = True


class SeveralDirections:
    """A problem of two directions that no symmetry reduces to one overlap."""

    curve: OverlapCurve | None = None

    def __init__(self, reading: TargetReading, channel: PairChannel) -> None:
        self.reading, self.channel, self.known_errors = reading, channel, dict[float, Floats]()
        self.seconds = 4.0 if isinstance(channel, PairNoisy) else 0.2
        self._last: tuple[Floats, tuple[Floats, float]] = (np.empty(0), (np.empty(0), np.nan))

    @cached_property
    def stages(self) -> list[LearntStage]:
        """The directions in the order in which they are learnt."""
        return find_stages(self.channel, self.reading.rank)

    def _information(self, M: Floats) -> tuple[Floats, float]:
        """Return I(M) and Psi(M); the last are kept, as steps, slopes and entropies are asked for at one M in turn."""
        check_time()
        if not np.array_equal(M, self._last[0]):
            self._last = M, self.channel.information(M)
        return self._last[1]

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution, bayes_multi_index (3)."""
        information, _ = self._information(moved_inside(M))
        identity = np.eye(len(M))
        return identity - np.linalg.inv(identity + alpha * 0.5 * (information + information.T))

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best errors."""
        return self.channel.errors(moved_inside(M))

    def solve(self, alpha: float) -> BranchSolution:
        """Return the branches: message passing in the directions learnt at this alpha, and down from knowledge."""
        r, rows = self.reading.rank, self.learnt_rows(alpha)
        low = self.follow(rows.T @ np.diag(_SEED[: len(rows)]) @ rows, alpha, rows)
        high = self.follow(_KNOWLEDGE * np.eye(r), alpha, np.eye(r), known=low)
        best = max((low, high), key=lambda point: point.phi)
        residual = max(low.residual, high.residual)
        status = "" if residual < UNSETTLED and low.stable else "state evolution did not settle"
        return BranchSolution(
            np.array([low.M, high.M, best.M]), np.array([low.phi, high.phi, best.phi]), residual, status
        )

    def learnt_rows(self, alpha: float) -> Floats:
        """Return the directions that message passing learns at this alpha, as orthonormal rows."""
        return np.concatenate([np.zeros((0, self.reading.rank)), *(s.rows for s in self.stages if s.alpha < alpha)])

    def follow(self, M: Floats, alpha: float, rows: Floats, known: OverlapPoint | None = None) -> OverlapPoint:
        """Return the stable fixed point that state evolution reaches from M inside the span of `rows`.

        `known` is returned where it leads there.
        """
        for number in range(_ROUNDS):
            M = self._sweep(M, alpha, rows, _MORE * number)
            if known is not None and np.abs(self.nearby(M, alpha, rows, known.jacobian).M - known.M).max() < _SAME:
                return known
            point = self.nearby(M, alpha, rows)
            if point.residual > UNSETTLED:
                continue  # sweeps are slow where a fixed point has just vanished
            sizes, vectors = np.linalg.eig(point.jacobian)
            if abs(np.abs(sizes).max(initial=0.0) - 1) < _DOUBTFUL:
                sizes, vectors = np.linalg.eig(self._jacobian(point.M, alpha, rows))
            if np.abs(sizes).max(initial=0.0) < 1 + 1e-9:
                return point
            push = matrix_of(np.real(vectors[:, int(np.argmax(sizes.real))]), rows)
            M = moved_inside(point.M + _PUSH * push * (1 if np.trace(push) >= 0 else -1))
        return point._replace(stable=False)

    def nearby(self, M: Floats, alpha: float, rows: Floats, jacobian: Floats | None = None) -> OverlapPoint:
        """Return the fixed point that Newton's method finds from M inside the span of `rows`.

        `jacobian` is that of a point close by; it is computed if left out, or if it is that of another subspace.
        """
        known = 1 - _LEFT * (1 - np.linalg.eigvalsh(M)[-1])

        def gap(entries: Floats) -> Floats:
            new = matrix_of(entries, rows)
            if np.linalg.eigvalsh(new)[-1] > known:  # such a step is refused: beyond a fold it runs to full knowledge
                return np.full(len(entries), _REFUSED)
            return entries - entries_of(self.step(new, alpha), rows)

        if jacobian is None or len(jacobian) != len(rows) * (len(rows) + 1) // 2:
            jacobian = self._jacobian(M, alpha, rows)
        residual = 0.0
        if len(rows):
            entries, residual = solve_near(gap, entries_of(M, rows), np.eye(len(jacobian)) - jacobian)
            M = moved_inside(matrix_of(entries, rows))
        psi = self._information(M)[1]
        phi = 0.5 * float(np.trace(M)) + 0.5 * float(np.linalg.slogdet(np.eye(len(M)) - M)[1]) + alpha * psi
        return OverlapPoint(M, phi, psi, residual, jacobian)

    def _sweep(self, M: Floats, alpha: float, rows: Floats, least: int) -> Floats:
        """Iterate so often at least, until sweeps move little and less and less; two that alternate are averaged."""
        project, last, falling, previous = rows.T @ rows, np.inf, 0, np.zeros_like(M)
        for number in range(_SWEEPS if len(rows) else 0):
            new = project @ self.step(M, alpha) @ project
            change = new - M
            moved = float(np.abs(change).max())
            falling = falling + 1 if moved < last else 0
            if moved < _NEAR * max(float(np.abs(new).max()), 1e-2) and falling > 1 and number >= least:
                return new
            alternates = float((previous * change).sum()) < 0
            M, previous, last = (0.5 * (new + M) if alternates else new), change, moved
        return M

    def _jacobian(self, M: Floats, alpha: float, rows: Floats) -> Floats:
        """Return the derivatives of a step in the entries of M, by differences."""
        size = len(rows) * (len(rows) + 1) // 2
        base, jacobian = self.step(M, alpha), np.zeros((size, size))
        for column, unit in enumerate(np.eye(size)):
            change = _DIFFERENCE * matrix_of(unit, rows)
            sizes = np.linalg.eigvalsh(M + change)
            sign = 1 if sizes[0] >= -1e-12 and sizes[-1] < LARGEST_OVERLAP else -1
            moved = self.step(M + sign * change, alpha) - base
            jacobian[:, column] = entries_of(moved, rows) / (sign * _DIFFERENCE)
        return jacobian

    def first_learnt(self) -> tuple[Floats, Floats]:
        """Return where each direction is learnt, and the directions."""
        return in_order(self.stages)

    def thresholds(self) -> Transitions:
        """Return where each direction is learnt; first-order transitions are not looked for here."""
        return stage_thresholds(self.stages)


def moved_inside(M: Floats) -> Floats:
    """Return the symmetric matrix with eigenvalues moved into [0, 1)."""
    M = 0.5 * (M + M.T)
    sizes, vectors = np.linalg.eigh(M)
    if sizes[0] >= 0 and sizes[-1] < LARGEST_OVERLAP:
        return M
    return np.asarray((vectors * np.clip(sizes, 0.0, LARGEST_OVERLAP)) @ vectors.T)


def entries_of(M: Floats, rows: Floats) -> Floats:
    """Return the entries of a symmetric matrix on a subspace."""
    inner = rows @ M @ rows.T
    return inner[np.triu_indices(len(rows))]


def matrix_of(entries: Floats, rows: Floats) -> Floats:
    """Return the symmetric matrix on a subspace with these entries, the inverse of `entries_of`."""
    inner = np.zeros((len(rows), len(rows)))
    inner[np.triu_indices(len(rows))] = entries
    inner = inner + inner.T - np.diag(np.diag(inner))
    return np.asarray(rows.T @ inner @ rows)


def solve_near(gap: Callable[[Floats], Floats], x: Floats, slopes: Floats) -> tuple[Floats, float]:
    """Return the root of a gap near x, and the largest gap left; `slopes` are about those of the gap."""
    options = {"xtol": 0.1 * SETTLED, "maxfev": _STEPS, "factor": _LONGEST}
    found = root(gap, x, jac=lambda x: slopes, method="hybr", options=options)
    return found.x, float(np.abs(found.fun).max())
