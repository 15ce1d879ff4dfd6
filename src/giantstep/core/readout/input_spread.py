"""How the coefficients of the channels act on rows whose inputs have a covariance, and
what a fit pays for them: structured_inputs (4.5)-(4.6).

A block spreads by tau_q = JU_q t_q in R whitened coordinates and y_q = Js_q t_q,
structured_inputs (4.5). The fit sees v = (Q^T tau, y) only, Q the learnt directions and
those of the target; what goes into the other R - m - L' coordinates is an error without
use, and t costs sum_c t_qc^2/R_q. Minimised over t at given v, both are v^T P^-1 v with

    P = W D W^T - W D J^T M J D W^T, D = diag R, W = (Q^T JU, Js), M = [(Vh1 x 1)^-1 + J
    D J^T]^-1,

M inverted on the complement of Q. JU_q is a diagonal and a matrix of low rank, so that
M is k x k algebra in every coordinate and a small system.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from giantstep.core.base.types import Array, Floats, Indices, Integers
from giantstep.core.maths.solve import solve_each
from giantstep.core.readout.bulk import Response

_PROBES = 24
"""Random directions that find the range of the channels; where it has more dimensions
than that, all coordinates stand in.
"""
_RANK = 1e-13
"""Singular values of the channels below this, relative, are rounding."""
_STANDING = 1e-9
"""Change of a row's length beside what its place moves that is not rounding,
relative.
"""
_FLOOR = 1e-13
"""Added to Vh1, relative to its size, where several blocks may make it singular."""


@dataclass(frozen=True)
class InputSpread:
    """The spread of k blocks in R coordinates with C channel variables, and the m + L'
    directions that a fit sees.
    """

    JU: Floats  # (k, R, C)
    Js: Floats  # (k, C)
    diagonal: Floats  # (k, R): JU without it, in `columns`, has a low rank
    columns: Indices  # (R,)
    seen: Floats  # (R, m + L'), orthonormal columns
    # (k, R): what each coordinate has of one more variable of its own, beside JU
    own: Floats
    quadratic: int = 0
    """How many coordinates, the last ones, enter through nu_q in place of D_1q:
    structured_inputs (8.1).
    """

    def with_quadratic_noise(self, size: Floats, moved: Floats) -> InputSpread:
        """Return the spread with one more coordinate for each of K atoms, its noise
        He_2: structured_inputs (8.1).

        It enters through nu_q. Its variables are the first K: they move it by `size`
        (k, K) times `moved` (K, K).
        """
        K = len(moved)
        k, R, C = self.JU.shape
        # no length moves with the new coordinates: Js stays
        JU = np.zeros((k, R + K, C))
        JU[:, :R] = self.JU
        JU[:, R:, :K] = size[:, :, None] * moved
        return dataclasses.replace(
            self,
            JU=JU,
            diagonal=np.concatenate([self.diagonal, size], axis=1),
            columns=np.concatenate([self.columns, np.arange(K)]),
            seen=np.pad(self.seen, ((0, K), (0, 0))),
            own=np.pad(self.own, ((0, 0), (0, K))),
            quadratic=K,
        )

    @cached_property
    def rows(self) -> Floats:
        """W_q = (Q^T JU_q, Js_q), (k, m + L' + 1, C)."""
        return np.concatenate([self.seen.T @ self.JU, self.Js[:, None, :]], axis=1)

    @cached_property
    def gram(self) -> Floats:
        """W_q W_q^T (k, m + L' + 1, m + L' + 1), own variables included."""
        gram = self.rows @ np.swapaxes(self.rows, 1, 2)
        # own variables move places, and no length: all but the last row
        gram[:, :-1, :-1] += self.seen.T @ (self.own[:, :, None] ** 2 * self.seen)
        return gram

    @cached_property
    def pushed(self) -> Floats:
        """JU_q W_q^T (k, R, m + L' + 1), own variables included."""
        pushed = self.JU @ np.swapaxes(self.rows, 1, 2)
        pushed[:, :, :-1] += self.own[:, :, None] ** 2 * self.seen
        return pushed

    @property
    def free(self) -> bool:
        """Whether channel coefficients t reach every visible v = (Q^T tau, y) at no
        cost in the silent coordinates.

        They do where some t changes the length y_q = Js_q t_q of the rows and leaves
        their place tau_q = JU_q t_q as it is, structured_inputs (4.5).
        """
        # the places of the rows: the last coordinates are those of the noise He_2
        linear = len(self.seen) - self.quadratic
        columns = self.columns[:linear]
        JU = self.JU[:, :linear]
        # JU t = 0 where the variables in `columns` undo what the others do
        square = JU[:, :, columns]
        others = np.delete(JU, columns, axis=2)
        back = (self.Js[:, None, columns] @ np.linalg.solve(square, others))[:, 0]
        standing = np.delete(self.Js, columns, axis=1) - back
        # a block whose length stands still has no such t: 0 > 1e-9 is false
        size = np.linalg.norm(self.Js, axis=1)
        size = np.where(size > 0, size, 1.0)
        return bool(np.all(np.linalg.norm(standing, axis=1) > _STANDING * size))

    @cached_property
    def low_rank(self) -> tuple[Floats, Floats]:
        """F (k, R, 2f) and the inverse of E (k, 2f, 2f) of JU_q JU_q^T = diagonal^2 +
        F_q E_q F_q^T.
        """
        columns = self.columns
        parts = [
            _factor(self.JU[q], self.diagonal[q], columns) for q in range(len(self.JU))
        ]
        # blocks of different ranks stand in one array
        f = max(left.shape[1] for left, _ in parts)
        k, R = self.diagonal.shape
        F = np.zeros((k, R, 2 * f))
        inverse = np.zeros((k, 2 * f, 2 * f))
        # JU = diagonal + A Z gives E = [[Z Z^T, 1], [1, 0]] with F = (A, diagonal Z^T),
        # and E^-1 = [[0, 1], [1, -Z Z^T]]; idle columns of F cost nothing
        for q, (left, right) in enumerate(parts):
            n = left.shape[1]
            F[q, :, :n] = left
            F[q, :, f : f + n] = self.diagonal[q][:, None] * right[:, columns].T
            inverse[q, :f, f:] = np.eye(f)
            inverse[q, f:, :f] = np.eye(f)
            inverse[q, f : f + n, f : f + n] = -right @ right.T
        return F, inverse

    def silenced(self, response: Response, quadratic: Array, vectors: Array) -> Array:
        """Apply M to vectors (B, k, R, N); `quadratic` (B, k, k) stands for Vh1 where
        nu stands for D_1.

        M = Y without what it does on the span of the low rank and of what the fit sees:
        Y is M of the diagonal part, k x k in every coordinate (B, R, k, k).
        """
        R = response.R
        count, k = R.shape
        F, inverse = self.low_rank
        Y = self._of_diagonal(response, quadratic)
        # (k, R, f')
        seen = np.broadcast_to(self.seen, (k, *self.seen.shape))
        basis = np.concatenate([F, seen], axis=2)
        width = basis.shape[2]
        f = F.shape[2]
        system = np.einsum("bcqr,qcf,rcg->bqfrg", Y, basis, basis, optimize=True)
        # E^-1/R for the low rank; what the fit sees is left out altogether: 0
        for q in range(k):
            system[:, q, :f, q, :f] += inverse[q] / R[:, q, None, None]
        # Y - Y basis system^-1 basis^T Y, by Woodbury
        through = np.einsum("bcqr,brcn->bqcn", Y, vectors, optimize=True)
        right = np.einsum("qcf,bqcn->bqfn", basis, through)
        solved = solve_each(
            system.reshape(count, k * width, k * width),
            right.reshape(count, k * width, -1),
        ).reshape(count, k, width, -1)
        lifted = np.einsum("rcg,brgn->brcn", basis, solved, optimize=True)
        return through - np.einsum("bcqr,brcn->bqcn", Y, lifted, optimize=True)

    def _of_diagonal(self, response: Response, quadratic: Array) -> Array:
        """Return (Vh1^-1 + diag(R) diagonal^2)^-1 in every coordinate (B, R, k, k)."""
        k = response.R.shape[1]
        squares = response.R[:, None, :] * (self.diagonal**2 + self.own**2).T
        # the last coordinates enter through nu, whose moments replace those of D_1
        linear = squares.shape[1] - self.quadratic
        Vh1 = _floored(response.Vh1)[:, None]
        wide = np.broadcast_to(Vh1, (*squares.shape, k)).copy()
        wide[:, linear:] = _floored(quadratic)[:, None]
        # (1 + Vh1 squares)^-1 Vh1: no inverse of Vh1
        mixing = np.eye(k) + wide * squares[:, :, None, :]
        return solve_each(mixing, wide)

    def covariance(self, response: Response, quadratic: Array) -> Array:
        """Return P (B, X, X), channel after channel: the entry c k + q belongs to
        coefficient c of block q.
        """
        R = response.R
        count, k = R.shape
        n = self.rows.shape[1]
        right = np.zeros((count, k, self.seen.shape[0], k, n), R.dtype)
        for q in range(k):
            right[:, q, :, q] = R[:, q, None, None] * self.pushed[q]
        vectors = right.reshape(count, k, -1, k * n)
        through = self.silenced(response, quadratic, vectors).reshape(right.shape)
        # W D W^T of every block, less what the silent coordinates cost
        P = -np.einsum("bq,qcm,bqcrn->bmqnr", R, self.pushed, through, optimize=True)
        for q in range(k):
            P[:, :, q, :, q] += R[:, q, None, None] * self.gram[q]
        P = P.reshape(count, n * k, n * k)
        # symmetric but for rounding
        return 0.5 * (P + np.swapaxes(P, 1, 2))

    def cost(
        self, response: Response, quadratic: Array, dual: Array
    ) -> tuple[Array, Array, Array]:
        """Return sum_c t_qc^2 (B, k), products (B, k, k) of silent parts of tau, linear
        and through nu, at P^-1 v.
        """
        R = response.R
        count, k = R.shape
        weights = np.swapaxes(dual.reshape(count, -1, k), 1, 2)  # (B, k, n)
        vector = R[:, :, None] * np.einsum("qcn,bqn->bqc", self.pushed, weights)
        silent = self.silenced(response, quadratic, vector[..., None])[..., 0]
        # the minimiser t = D W^T v - D J^T M J D W^T v, then the own variables alike
        t = np.einsum("qnx,bqn->bqx", self.rows, weights)
        t = t - np.einsum("qcx,bqc->bqx", self.JU, silent, optimize=True)
        t = R[:, :, None] * t
        own = R[:, :, None] * self.own * (weights[:, :, :-1] @ self.seen.T - silent)
        tau = np.einsum("qcx,bqx->bqc", self.JU, t, optimize=True) + self.own * own
        # what the fit sees of tau is counted by the signal: Q Q^T tau
        along = np.einsum("cs,ds,bqd->bqc", self.seen, self.seen, tau, optimize=True)
        across = tau - along
        linear = across.shape[2] - self.quadratic
        squares = np.sum(t**2, axis=2) + np.sum(own**2, axis=2)
        return squares, _gram(across[:, :, :linear]), _gram(across[:, :, linear:])


def _gram(values: Array) -> Array:
    """Return the products of values (B, k, R) of the blocks (B, k, k)."""
    return values @ np.swapaxes(values, 1, 2)


@dataclass(frozen=True)
class SpreadOfSets:
    """The spreads of several parameter sets that see the same number of directions, and
    which one each point has.
    """

    spreads: tuple[InputSpread, ...]
    set_of_point: Integers
    quadratic: ClassVar[int] = 0

    def take(self, index: Any) -> SpreadOfSets:
        """Return the points in `index`."""
        return SpreadOfSets(self.spreads, self.set_of_point[index])

    @property
    def free(self) -> Array:
        """Whether the spread of each point is free (B,)."""
        return np.array([spread.free for spread in self.spreads])[self.set_of_point]

    def covariance(self, response: Response, quadratic: Array) -> Array:
        """Return P (B, X, X)."""

        def of_set(spread: InputSpread, points: Integers) -> tuple[Array, ...]:
            P = spread.covariance(response.take(points), quadratic[points])
            return (P,)

        (P,) = self._each(of_set)
        return P

    def cost(
        self, response: Response, quadratic: Array, dual: Array
    ) -> tuple[Array, Array, Array]:
        """Return what `InputSpread.cost` does."""

        def of_set(spread: InputSpread, points: Integers) -> tuple[Array, ...]:
            return spread.cost(response.take(points), quadratic[points], dual[points])

        squares, silent, curved = self._each(of_set)
        return squares, silent, curved

    def _each(
        self, answer: Callable[[InputSpread, Integers], tuple[Array, ...]]
    ) -> tuple[Array, ...]:
        """Return the answers of the points of every set, in the order of the points."""
        # stable: points of a set stay in their order
        by_set = np.argsort(self.set_of_point, kind="stable")
        sets, counts = np.unique(self.set_of_point, return_counts=True)
        points_of_set = np.split(by_set, np.cumsum(counts)[:-1])
        parts = [
            answer(self.spreads[number], points)
            for number, points in zip(sets, points_of_set)
        ]
        back = np.argsort(by_set)
        return tuple(np.concatenate(column)[back] for column in zip(*parts))


def _floored(matrix: Array) -> Array:
    """Return Vh1 without a null space, which several blocks that are alike would give
    it.
    """
    k = matrix.shape[1]
    if k > 1:
        size = np.abs(np.einsum("bqq->b", matrix))
    else:
        size = np.zeros(len(matrix))
    return matrix + _FLOOR * size[:, None, None] * np.eye(k)


def _factor(JU: Floats, diagonal: Floats, columns: Indices) -> tuple[Floats, Floats]:
    """Return A (R, f) and Z (f, C) with A Z = JU minus the diagonal in these columns, f
    as small as it goes.
    """
    R = len(JU)
    low = JU.copy()
    low[np.arange(R), columns] -= diagonal
    size = np.abs(JU).max()
    basis = np.eye(R)
    if R > _PROBES:
        # a fixed seed, so that an answer does not depend on the call
        generator = np.random.default_rng(0)
        probes = generator.standard_normal((low.shape[1], _PROBES))
        range_of_low, _ = np.linalg.qr(low @ probes)
        missed = low - range_of_low @ (range_of_low.T @ low)
        # a rank above the number of probes is found by the full decomposition
        if not np.abs(missed).max() > 100 * _RANK * size:
            basis = range_of_low
    # in coordinates of the range, where the matrix is small
    left, values, right = np.linalg.svd(basis.T @ low, full_matrices=False)
    kept = values > _RANK * size
    return basis @ left[:, kept], values[kept, None] * right[kept]
