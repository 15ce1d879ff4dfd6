"""Two directions that no symmetry makes equivalent: fixed points of the overlap matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

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
_SWEEPS, _ROUNDS = 400, 6
"""Sweeps before Newton's method takes over, and how often an unstable point is left, at most."""
_MORE = 20
"""Sweeps by which a round is longer than the one before."""
_LARGEST_STEP = 0.1
"""Steps of Newton's method are at most so long: beyond a fold larger ones would run to full knowledge."""
_SAME = 1e-3
"""Distance of two fixed points that are one, before they are solved for to the end."""
_DIFFERENCE = 1e-5
"""Step of the differences that give the Jacobian: rules that follow M jump by 1e-9."""
_DOUBTFUL = 0.05
"""Distance of the largest eigenvalue of a step from one within which its Jacobian is computed at the point itself."""
_PUSH = 1e-2
"""Distance from an unstable point at which sweeps start again."""


class OverlapPoint(NamedTuple):
    """A fixed point with its free entropy per dimension."""

    M: Floats
    phi: float
    psi: float
    """Psi(M), the slope of phi in alpha."""
    residual: float
    stable: bool
    inverse: Floats
    """(1 - Jacobian of a step)^-1 in the entries of M."""


class SeveralDirections:
    """A problem of two directions that no symmetry reduces to one overlap."""

    curve: OverlapCurve | None = None

    def __init__(self, reading: TargetReading, channel: PairChannel) -> None:
        self.reading, self.channel, self.known_errors = reading, channel, dict[float, Floats]()
        self.seconds = 4.0 if isinstance(channel, PairNoisy) else 0.2

    @cached_property
    def stages(self) -> list[LearntStage]:
        """The directions in the order in which they are learnt."""
        return find_stages(self.channel, self.reading.rank)

    def _step(self, M: Floats, alpha: float) -> tuple[Floats, float]:
        check_time()
        information, psi = self.channel.information(M)
        identity = np.eye(len(M))
        return identity - np.linalg.inv(identity + alpha * 0.5 * (information + information.T)), psi

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution, bayes_multi_index (3)."""
        return self._step(moved_inside(M), alpha)[0]

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
        if not len(rows):
            psi = self.channel.information(M)[1]
            return OverlapPoint(M, alpha * psi, psi, 0.0, True, np.eye(0))
        for number in range(_ROUNDS):
            M = swept = self._sweep(M, alpha, rows, _MORE * number)
            if known is not None and len(known.inverse) == len(rows) * (len(rows) + 1) // 2:
                nearby = self.nearby(M, alpha, rows, known.inverse, 3)
                if np.abs(nearby.M - known.M).max() < _SAME:
                    return known
            for _ in range(4):
                jacobian = self._jacobian(M, alpha, rows)
                point = self.nearby(M, alpha, rows, _inverse(jacobian))
                moved, M = np.abs(point.M - M).max(), point.M
                slow = abs(float(np.abs(np.linalg.eigvals(jacobian)).max()) - 1) < _DOUBTFUL
                if point.residual < SETTLED and not (slow and moved > 1e-4):
                    break
            if known is not None and np.abs(point.M - known.M).max() < _SAME:
                return known
            if point.residual > UNSETTLED:
                M = swept  # sweeps are slow where a fixed point has just vanished
                continue
            sizes, vectors = np.linalg.eig(jacobian)
            if np.abs(sizes).max() < 1 + 1e-9:
                return point
            push = matrix_of(np.real(vectors[:, int(np.argmax(sizes.real))]), rows)
            M = moved_inside(point.M + _PUSH * push * (1 if np.trace(push) >= 0 else -1))
        return point._replace(stable=False)

    def nearby(self, M: Floats, alpha: float, rows: Floats, inverse: Floats, most: int = 10) -> OverlapPoint:
        """Return the fixed point that so many quasi-Newton steps from M reach, with (1 - J)^-1 of one close to it."""
        last, psi = M, 0.0

        def gap(entries: Floats) -> Floats:
            nonlocal last, psi
            last = moved_inside(matrix_of(entries, rows))
            new, psi = self._step(last, alpha)
            return entries - entries_of(new, rows)

        entries, residual, inverse = broyden(gap, entries_of(M, rows), inverse, rows, most)
        phi = 0.5 * float(np.trace(last)) + 0.5 * float(np.linalg.slogdet(np.eye(len(M)) - last)[1]) + alpha * psi
        return OverlapPoint(moved_inside(matrix_of(entries, rows)), phi, psi, residual, True, inverse)

    def _sweep(self, M: Floats, alpha: float, rows: Floats, least: int) -> Floats:
        """Iterate so often at least, until sweeps move little and less and less; two that alternate are averaged."""
        project, last, falling, previous = rows.T @ rows, np.inf, 0, np.zeros_like(M)
        for number in range(_SWEEPS):
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
        base, columns = self.step(M, alpha), []
        for unit in np.eye(len(rows) * (len(rows) + 1) // 2):
            change = _DIFFERENCE * matrix_of(unit, rows)
            sizes = np.linalg.eigvalsh(M + change)
            sign = 1 if sizes[0] >= -1e-12 and sizes[-1] < LARGEST_OVERLAP else -1
            columns.append(entries_of(self.step(M + sign * change, alpha) - base, rows) / (sign * _DIFFERENCE))
        return np.stack(columns, axis=1)

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


def _inverse(jacobian: Floats) -> Floats:
    return np.asarray(np.linalg.inv(np.eye(len(jacobian)) - jacobian), dtype=np.float64)


def broyden(
    gap: Callable[[Floats], Floats], x: Floats, inverse: Floats, rows: Floats, most: int = 10
) -> tuple[Floats, float, Floats]:
    """Return x after at most so many quasi-Newton steps towards gap(x) = 0, the last gap, and the learnt inverse.

    x begins with the entries of an overlap matrix on the span of `rows`; `inverse` is that of the derivative of the
    gap. The step that leaves a gap below SETTLED is still taken.
    """

    def unknown(x: Floats) -> float:
        """Return the smallest eigenvalue of V = 1 - M."""
        return 1 - float(np.linalg.eigvalsh(matrix_of(x[: len(rows) * (len(rows) + 1) // 2], rows))[-1])

    old, move, residual = np.zeros(len(x)), np.zeros(len(x)), np.inf
    for _ in range(most):
        now = gap(x)
        residual = float(np.abs(now).max())
        response = inverse @ (now - old)  # the inverse maps the change of the gap to the move
        scale = float(move @ response)
        if abs(scale) > 1e-3 * float(move @ move):
            inverse = inverse + np.outer((move - response) / scale, move @ inverse)
        move = -inverse @ now
        move *= min(1.0, _LARGEST_STEP / max(float(np.abs(move).max()), 1e-300))
        while unknown(x + move) < 0.5 * unknown(x):  # beyond a fold it would run to full knowledge
            move *= 0.5
        old, x = now, x + move
        if residual < SETTLED:
            break
    return x, residual, inverse
