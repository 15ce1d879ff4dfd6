"""Several directions: fixed points of the overlap matrix, iterated coarsely and finished by Newton's method."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from giantstep.deadline import check_time
from giantstep.families.bayes_limit.curve import Curve
from giantstep.families.bayes_limit.many import stage_thresholds
from giantstep.families.bayes_limit.pairs import COARSE, FINE, Fineness, PairChannel, PairNoisy
from giantstep.families.bayes_limit.problem import Solution, Thresholds
from giantstep.families.bayes_limit.reading import Reading
from giantstep.families.bayes_limit.stages import Stage, find_stages, in_order
from giantstep.types import Floats

_SEED = np.array([2e-3, 1.6e-3])
_KNOWLEDGE = 0.9
"""Overlap from which the informed branch is followed down."""
_NEAR, _SETTLED, _SOLVED = 1e-2, 1e-7, 1e-9
_SWEEPS, _ROUNDS = 400, 6
_CAUTIOUS, _CAUTIOUS_ROUNDS = 0.03, 30
"""Steps, and how many rounds of them, where no fixed point may be near: large ones would end at full knowledge."""
_STANDING = 1e-4
"""Change in a sweep below which an unstable point has to be left."""
_JUMPED = 0.1
"""Distance of two overlaps at neighbouring n/d that are not on one branch."""


class FixedPoint(NamedTuple):
    """A fixed point with its free entropy per dimension."""

    M: Floats
    phi: float
    residual: float
    stable: bool
    inverse: Floats
    """(1 - Jacobian of a step)^-1 in the entries of M."""
    psi: float = 0.0
    """Psi(M), the slope of phi in alpha."""


class SeveralDirections:
    """A problem of two directions that no symmetry reduces to one overlap."""

    curve: Curve | None = None

    def __init__(self, reading: Reading, channel: PairChannel) -> None:
        self.reading, self.channel = reading, channel
        self.seconds = 4.0 if isinstance(channel, PairNoisy) else 0.2

    @cached_property
    def stages(self) -> list[Stage]:
        """The directions in the order in which they are learnt."""
        return find_stages(self.channel, self.reading.rank)

    def _step(self, M: Floats, alpha: float, fineness: Fineness) -> tuple[Floats, float]:
        information, psi = self.channel.information(M, fineness)
        r = len(M)
        return np.eye(r) - np.linalg.inv(np.eye(r) + alpha * 0.5 * (information + information.T)), psi

    def step(self, M: Floats, alpha: float) -> Floats:
        """Return one step of state evolution."""
        return self._step(moved_inside(M), alpha, FINE)[0]

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best errors."""
        return self.channel.errors(moved_inside(M))

    def solve(self, alpha: float) -> Solution:
        """Return the branches: message passing in the directions learnt at this alpha, and down from knowledge."""
        r, rows = self.reading.rank, self.learnt_rows(alpha)
        if not len(rows):
            low = self.at_zero(alpha)
        else:
            low = self._follow(rows.T @ np.diag(_SEED[: len(rows)]) @ rows, alpha, rows)
        high = self._follow(_KNOWLEDGE * np.eye(r), alpha, np.eye(r), known=low)
        best = max((low, high), key=lambda point: point.phi)
        residual = max(low.residual, high.residual)
        status = "" if residual < 1e-6 and low.stable else "state evolution did not settle"
        return Solution(np.array([low.M, high.M, best.M]), np.array([low.phi, high.phi, best.phi]), residual, status)

    def learnt_rows(self, alpha: float) -> Floats:
        """Return the directions that message passing learns at this alpha, as orthonormal rows."""
        return np.concatenate([np.zeros((0, self.reading.rank)), *(s.rows for s in self.stages if s.alpha < alpha)])

    def at_zero(self, alpha: float) -> FixedPoint:
        """Return the fixed point without any knowledge."""
        r = self.reading.rank
        psi = self.channel.information(np.zeros((r, r)))[1]
        return FixedPoint(np.zeros((r, r)), alpha * psi, 0.0, True, np.eye(0), psi)

    def _follow(self, M: Floats, alpha: float, rows: Floats, known: FixedPoint | None = None) -> FixedPoint:
        """Settle with coarse rules, then refine, unless that leads to the point `known`."""
        project = rows.T @ rows
        coarse = self.map_at(alpha, project, COARSE)
        inverse, stable = np.eye(0), False
        for _ in range(_ROUNDS):
            check_time()
            M = _iterate(coarse, M)
            if known is not None and len(known.inverse) == len(rows) * (len(rows) + 1) // 2:
                nearby, _ = _broyden(coarse, M, known.inverse, rows, 3)
                if np.abs(nearby - known.M).max() < 1e-3:
                    return known
            M, inverse, stable, away = _leave_unstable(coarse, M, rows)
            if known is not None and np.abs(M - known.M).max() < 1e-3:
                return known
            if stable:
                break
            M = away
        return self.refine(M, alpha, rows, inverse)._replace(stable=stable)

    def settle(self, M: Floats, alpha: float, rows: Floats, inverse: Floats) -> tuple[Floats, Floats]:
        """Return the stable fixed point that coarse rules reach from M, and (1 - J)^-1 of a step there.

        `inverse`, that of a neighbouring alpha or empty, saves the iteration where its fixed point is near.
        """
        coarse = self.map_at(alpha, rows.T @ rows, COARSE)
        start, trusted = coarse(M), bool(len(inverse))
        for _ in range(_CAUTIOUS_ROUNDS):
            check_time()
            near = _nearby(coarse, start, inverse, rows) if trusted else None
            if near is not None:
                return near, inverse
            start = _sweep(coarse, start, 8)
            jacobian = _jacobian(coarse, start, rows)
            inverse = np.asarray(np.linalg.inv(np.eye(len(jacobian)) - jacobian), dtype=np.float64)
            sizes, vectors = np.linalg.eig(jacobian)
            trusted = bool(np.abs(sizes).max() < 1)
            if not trusted and np.abs(coarse(start) - start).max() < _STANDING:
                start = _beside(start, sizes, vectors, rows)
        return start, inverse

    def refine(self, M: Floats, alpha: float, rows: Floats, inverse: Floats) -> FixedPoint:
        """Finish with accurate rules; phi is stationary, so that the M of the last step serves it."""
        project, r, psi, at = rows.T @ rows, len(M), [0.0], [M]

        def fine(M: Floats) -> Floats:
            new, psi[0] = self._step(moved_inside(M), alpha, FINE)
            at[0] = moved_inside(M)
            return moved_inside(project @ new @ project)

        M, residual = _broyden(fine, M, inverse, rows, 7, _SOLVED)
        last = at[0]
        phi = 0.5 * float(np.trace(last)) + 0.5 * float(np.linalg.slogdet(np.eye(r) - last)[1]) + alpha * psi[0]
        return FixedPoint(M, phi, residual, True, inverse, psi[0])

    def map_at(self, alpha: float, project: Floats, fineness: Fineness) -> Callable[[Floats], Floats]:
        """Return a step of state evolution inside a subspace."""

        def step(M: Floats) -> Floats:
            return moved_inside(project @ self._step(moved_inside(M), alpha, fineness)[0] @ project)

        return step

    def first_learnt(self) -> tuple[Floats, Floats]:
        """Return where each direction is learnt, and the directions."""
        return in_order(self.stages)

    def thresholds(self) -> Thresholds:
        """Return where each direction is learnt; first-order transitions are not looked for here."""
        return stage_thresholds(self.stages)


def moved_inside(M: Floats, project: Floats | None = None) -> Floats:
    """Return the symmetric matrix with eigenvalues moved into [0, 1)."""
    M = 0.5 * (M + M.T)
    if project is not None:
        M = project @ M @ project
    sizes, vectors = np.linalg.eigh(M)
    if sizes[0] >= 0 and sizes[-1] < 1 - 1e-6:
        return M
    return np.asarray((vectors * np.clip(sizes, 0.0, 1 - 1e-6)) @ vectors.T)


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


def _iterate(step: Callable[[Floats], Floats], M: Floats) -> Floats:
    """Iterate until a sweep moves little; where sweeps alternate, two are averaged."""
    last, falling, previous = math.inf, 0, np.zeros_like(M)
    for _ in range(_SWEEPS):
        check_time()
        new = step(M)
        moved = float(np.abs(new - M).max())
        falling = falling + 1 if moved < last else 0
        if moved < _NEAR * max(float(np.abs(new).max()), 1e-2) and falling > 2:
            return new
        change = new - M
        alternates = float((previous * change).sum()) < 0
        M, previous, last = (0.5 * (new + M) if alternates else new), change, moved
    return M


def _newton(step: Callable[[Floats], Floats], M: Floats, rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the fixed point near M, the Jacobian J of the step there, and (1 - J)^-1."""
    jacobian = inverse = np.zeros((0, 0))
    for _ in range(4):
        jacobian = _jacobian(step, M, rows)
        inverse = np.asarray(np.linalg.inv(np.eye(len(jacobian)) - jacobian), dtype=np.float64)
        start = M
        M, residual = _broyden(step, M, inverse, rows, 8, _SETTLED)
        doubtful = abs(float(np.abs(np.linalg.eigvals(jacobian)).max()) - 1) < 0.05 and np.abs(M - start).max() > 1e-4
        if residual < _SETTLED and not doubtful:
            break
    return M, jacobian, inverse


def _jacobian(step: Callable[[Floats], Floats], M: Floats, rows: Floats) -> Floats:
    """Return the derivatives of a step in the entries of M, by differences."""
    base, columns = step(M), []
    for entry in np.eye(len(rows) * (len(rows) + 1) // 2):
        h = 1e-5 if _inside_bounds(M, 1e-5 * matrix_of(entry, rows)) else -1e-5
        columns.append(entries_of(step(M + h * matrix_of(entry, rows)) - base, rows) / h)
    return np.stack(columns, axis=1)


def _broyden(
    step: Callable[[Floats], Floats],
    M: Floats,
    inverse: Floats,
    rows: Floats,
    most: int,
    tolerance: float = 0.0,
    largest: float = 0.2,
) -> tuple[Floats, float]:
    """Return M after at most so many quasi-Newton steps, the matrix (1 - J)^-1 learning on the way, and the last gap.

    Stops after the step that leaves a gap below the tolerance, which it still takes. No step is above `largest`.
    """
    project, residual = rows.T @ rows, math.inf
    old_gap, old_move = np.zeros(len(inverse)), np.zeros(len(inverse))
    for _ in range(most):
        check_time()
        gap = entries_of(step(M) - M, rows)
        residual = float(np.abs(gap).max())
        if old_move.any():
            response = inverse @ (old_gap - gap)  # the inverse maps the fall of the gap to the move
            scale = float(old_move @ response)
            if abs(scale) > 1e-3 * float(old_move @ old_move):
                inverse = inverse + np.outer((old_move - response) / scale, old_move @ inverse)
        move = inverse @ gap
        move *= min(1.0, largest / max(float(np.abs(move).max()), 1e-300))
        while _variance(M + matrix_of(move, rows)) < 0.5 * _variance(M):  # beyond a fold it would run to full knowledge
            move = 0.5 * move
        new = moved_inside(M + matrix_of(move, rows), project)
        old_gap, old_move, M = gap, entries_of(new - M, rows), new
        if residual < tolerance:
            break
    return M, residual


def _leave_unstable(step: Callable[[Floats], Floats], M: Floats, rows: Floats) -> tuple[Floats, Floats, bool, Floats]:
    """Return the fixed point near M, (1 - J)^-1, whether it is stable, and a point beside it along what grows most."""
    M, jacobian, inverse = _newton(step, M, rows)
    sizes, vectors = np.linalg.eig(jacobian)
    return M, inverse, bool(np.abs(sizes).max() < 1 + 1e-9), _beside(M, sizes, vectors, rows)


def _beside(M: Floats, sizes: Floats, vectors: Floats, rows: Floats) -> Floats:
    """Return a point beside M along the eigenvector that grows most."""
    push = matrix_of(np.real(vectors[:, int(np.argmax(sizes.real))]), rows)
    return moved_inside(M + 1e-2 * push * (1 if np.trace(push) >= 0 else -1), rows.T @ rows)


def _nearby(step: Callable[[Floats], Floats], M: Floats, inverse: Floats, rows: Floats) -> Floats | None:
    """Return the fixed point that few small quasi-Newton steps reach; None where there is none so near."""
    near, residual = _broyden(step, M, inverse, rows, 6, _SETTLED, _CAUTIOUS)
    return near if residual < 10 * _SETTLED and np.abs(near - M).max() < _JUMPED else None


def _sweep(step: Callable[[Floats], Floats], M: Floats, count: int) -> Floats:
    """Return M after so many sweeps; where sweeps alternate, two are averaged."""
    previous = np.zeros_like(M)
    for _ in range(count):
        check_time()
        new = step(M)
        change = new - M
        M, previous = (0.5 * (new + M) if float((previous * change).sum()) < 0 else new), change
    return M


def _variance(M: Floats) -> float:
    """Return the smallest eigenvalue of V = 1 - M."""
    return 1 - float(np.linalg.eigvalsh(M)[-1])


def _inside_bounds(M: Floats, change: Floats) -> bool:
    sizes = np.linalg.eigvalsh(M + change)
    return bool(sizes[0] >= -1e-12 and sizes[-1] < 1 - 2e-6)
