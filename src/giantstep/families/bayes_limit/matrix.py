"""Several directions: fixed points of the overlap matrix, iterated coarsely and finished by Newton's method."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from giantstep.families.bayes_limit.curve import Curve
from giantstep.families.bayes_limit.many import stage_thresholds
from giantstep.families.bayes_limit.pairs import COARSE, FINE, Fineness, PairChannel
from giantstep.families.bayes_limit.problem import Solution, Thresholds
from giantstep.families.bayes_limit.reading import Reading
from giantstep.families.bayes_limit.stages import Stage, find_stages, in_order
from giantstep.types import Floats

_SEED = np.array([2e-3, 1.6e-3])
_KNOWLEDGE = 0.9
"""Overlap from which the informed branch is followed down."""
_NEAR, _SETTLED, _SOLVED = 1e-2, 1e-7, 1e-9
_SWEEPS, _ROUNDS = 400, 6
_SAME = 1e-5


class FixedPoint(NamedTuple):
    """A fixed point with its free entropy per dimension."""

    M: Floats
    phi: float
    residual: float
    stable: bool
    inverse: Floats
    """(1 - Jacobian of a step)^-1 in the entries of M."""


class SeveralDirections:
    """A problem of two directions that no symmetry reduces to one overlap."""

    curve: Curve | None = None

    def __init__(self, reading: Reading, channel: PairChannel) -> None:
        self.reading, self.channel = reading, channel

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
        return self._step(_inside(M), alpha, FINE)[0]

    def errors(self, M: Floats) -> tuple[float, float]:
        """Return the best errors."""
        return self.channel.errors(_inside(M))

    def solve(self, alpha: float) -> Solution:
        """Return the branches: message passing in the directions learnt at this alpha, and down from knowledge."""
        r = self.reading.rank
        learnt = [stage.rows for stage in self.stages if stage.alpha < alpha]
        if not learnt:
            low = self._at_zero(alpha)
        else:
            rows = np.concatenate(learnt)
            low = self._follow(rows.T @ np.diag(_SEED[: len(rows)]) @ rows, alpha, rows)
        high = self._follow(_KNOWLEDGE * np.eye(r), alpha, np.eye(r), known=low)
        best = max((low, high), key=lambda point: point.phi)
        residual = max(low.residual, high.residual)
        status = "" if residual < 1e-6 and low.stable else "state evolution did not settle"
        return Solution(np.array([low.M, high.M, best.M]), np.array([low.phi, high.phi, best.phi]), residual, status)

    def _at_zero(self, alpha: float) -> FixedPoint:
        r = self.reading.rank
        return FixedPoint(np.zeros((r, r)), alpha * self.channel.information(np.zeros((r, r)))[1], 0.0, True, np.eye(0))

    def _follow(self, M: Floats, alpha: float, rows: Floats, known: FixedPoint | None = None) -> FixedPoint:
        """Iterate coarsely until near a fixed point, jump to it, leave it again where it is unstable, then refine."""
        project = rows.T @ rows
        coarse = self._map(alpha, project, COARSE)
        jacobian, inverse = np.zeros((0, 0)), np.eye(0)
        stable = False
        for _ in range(_ROUNDS):
            M = _iterate(coarse, M)
            if known is not None and len(known.inverse) == len(rows) * (len(rows) + 1) // 2:
                nearby, _ = _broyden(coarse, M, known.inverse, rows, 3)
                if np.abs(nearby - known.M).max() < 1e-3:
                    return known
            M, jacobian, inverse = _newton(coarse, M, rows)
            if known is not None and np.abs(M - known.M).max() < 1e-3:
                return known
            sizes, vectors = np.linalg.eig(jacobian)
            stable = bool(np.abs(sizes).max() < 1 + 1e-9)
            if stable:
                break
            push = _matrix(np.real(vectors[:, int(np.argmax(sizes.real))]), rows)
            M = _inside(M + 1e-2 * push * (1 if np.trace(push) >= 0 else -1), project)
        return self._refine(M, alpha, rows, inverse)._replace(stable=stable)

    def _refine(self, M: Floats, alpha: float, rows: Floats, inverse: Floats) -> FixedPoint:
        """Finish with accurate rules; phi is stationary, so that the M of the last step serves it."""
        project, r, psi, at = rows.T @ rows, len(M), [0.0], [M]

        def fine(M: Floats) -> Floats:
            new, psi[0] = self._step(_inside(M), alpha, FINE)
            at[0] = _inside(M)
            return _inside(project @ new @ project)

        M, residual = _broyden(fine, M, inverse, rows, 7, _SOLVED)
        last = at[0]
        phi = 0.5 * float(np.trace(last)) + 0.5 * float(np.linalg.slogdet(np.eye(r) - last)[1]) + alpha * psi[0]
        return FixedPoint(M, phi, residual, True, inverse)

    def _map(self, alpha: float, project: Floats, fineness: Fineness) -> Callable[[Floats], Floats]:
        def step(M: Floats) -> Floats:
            return _inside(project @ self._step(_inside(M), alpha, fineness)[0] @ project)

        return step

    def first_learnt(self) -> tuple[Floats, Floats]:
        """Return where each direction is learnt, and the directions."""
        return in_order(self.stages)

    def thresholds(self) -> Thresholds:
        """Return where each direction is learnt; first-order transitions are not looked for here."""
        return stage_thresholds(self.stages)


def _inside(M: Floats, project: Floats | None = None) -> Floats:
    """Return the symmetric matrix with eigenvalues moved into [0, 1)."""
    M = 0.5 * (M + M.T)
    if project is not None:
        M = project @ M @ project
    sizes, vectors = np.linalg.eigh(M)
    if sizes[0] >= 0 and sizes[-1] < 1 - 1e-6:
        return M
    return np.asarray((vectors * np.clip(sizes, 0.0, 1 - 1e-6)) @ vectors.T)


def _vector(M: Floats, rows: Floats) -> Floats:
    """Return the entries of a symmetric matrix on a subspace."""
    inner = rows @ M @ rows.T
    return inner[np.triu_indices(len(rows))]


def _matrix(entries: Floats, rows: Floats) -> Floats:
    inner = np.zeros((len(rows), len(rows)))
    inner[np.triu_indices(len(rows))] = entries
    inner = inner + inner.T - np.diag(np.diag(inner))
    return np.asarray(rows.T @ inner @ rows)


def _iterate(step: Callable[[Floats], Floats], M: Floats) -> Floats:
    """Iterate until a sweep moves little; where sweeps alternate, two are averaged."""
    last, falling, previous = math.inf, 0, np.zeros_like(M)
    for _ in range(_SWEEPS):
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
        base, columns = step(M), []
        size = len(rows) * (len(rows) + 1) // 2
        for entry in np.eye(size):
            h = 1e-5 if _inside_bounds(M, 1e-5 * _matrix(entry, rows)) else -1e-5
            columns.append(_vector(step(M + h * _matrix(entry, rows)) - base, rows) / h)
        jacobian = np.stack(columns, axis=1)
        inverse = np.asarray(np.linalg.inv(np.eye(size) - jacobian), dtype=np.float64)
        start = M
        M, residual = _broyden(step, M, inverse, rows, 8, _SETTLED)
        doubtful = abs(float(np.abs(np.linalg.eigvals(jacobian)).max()) - 1) < 0.05 and np.abs(M - start).max() > 1e-4
        if residual < _SETTLED and not doubtful:
            break
    return M, jacobian, inverse


def _broyden(
    step: Callable[[Floats], Floats], M: Floats, inverse: Floats, rows: Floats, most: int, tolerance: float = 0.0
) -> tuple[Floats, float]:
    """Return M after at most so many quasi-Newton steps, the matrix (1 - J)^-1 learning on the way, and the last gap.

    Stops after the step that leaves a gap below the tolerance, which it still takes.
    """
    project, residual = rows.T @ rows, math.inf
    old_gap, old_move = np.zeros(len(inverse)), np.zeros(len(inverse))
    for _ in range(most):
        gap = _vector(step(M) - M, rows)
        residual = float(np.abs(gap).max())
        if old_move.any():
            response = inverse @ (old_gap - gap)  # the inverse maps the fall of the gap to the move
            scale = float(old_move @ response)
            if abs(scale) > 1e-3 * float(old_move @ old_move):
                inverse = inverse + np.outer((old_move - response) / scale, old_move @ inverse)
        move = inverse @ gap
        move *= min(1.0, 0.2 / max(float(np.abs(move).max()), 1e-300))
        new = _inside(M + _matrix(move, rows), project)
        old_gap, old_move, M = gap, _vector(new - M, rows), new
        if residual < tolerance:
            break
    return M, residual


def _inside_bounds(M: Floats, change: Floats) -> bool:
    sizes = np.linalg.eigvalsh(M + change)
    return bool(sizes[0] >= -1e-12 and sizes[-1] < 1 - 2e-6)
