"""Rows on inputs with a covariance: structured_inputs (4.2)-(4.4) and (4.8), integrals
over atoms of the spectrum.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from giantstep.core.base.types import Array, Floats, Indices, Integers
from giantstep.core.maths.gaussian.grids import gauss_rule
from giantstep.core.maths.solve import solve_each
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.common_rows import CommonRows, CommonTangents
from giantstep.core.readout.features import Features

_PROBES = 24
_RANK = 1e-13
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
        K, (k, R, C) = len(moved), self.JU.shape
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
        linear = len(self.seen) - self.quadratic
        columns = self.columns[:linear]
        JU = self.JU[:, :linear]
        square = JU[:, :, columns]
        theta = np.delete(JU, columns, axis=2)
        back = (self.Js[:, None, columns] @ np.linalg.solve(square, theta))[:, 0]
        standing = np.delete(self.Js, columns, axis=1) - back
        size = np.linalg.norm(self.Js, axis=1)
        return bool(
            np.all(
                np.linalg.norm(standing, axis=1) > 1e-9 * np.where(size > 0, size, 1.0)
            )
        )

    @cached_property
    def low_rank(self) -> tuple[Floats, Floats]:
        """F (k, R, 2f) and the inverse of E (k, 2f, 2f) of JU_q JU_q^T = diagonal^2 +
        F_q E_q F_q^T.
        """
        columns = self.columns
        parts = [
            _factor(self.JU[q], self.diagonal[q], columns) for q in range(len(self.JU))
        ]
        f = max(left.shape[1] for left, _ in parts)
        k, R = self.diagonal.shape
        F = np.zeros((k, R, 2 * f))
        inverse = np.zeros((k, 2 * f, 2 * f))
        for q, (left, right) in enumerate(
            parts
        ):  # E = [[Z Z^T, 1], [1, 0]]; idle columns of F cost nothing
            n = left.shape[1]
            F[q, :, :n] = left
            F[q, :, f : f + n] = self.diagonal[q][:, None] * right[:, columns].T
            inverse[q, :f, f:] = inverse[q, f:, :f] = np.eye(f)
            inverse[q, f : f + n, f : f + n] = -right @ right.T
        return F, inverse

    def silenced(self, response: Response, quadratic: Array, vectors: Array) -> Array:
        """Apply M to vectors (B, k, R, N); `quadratic` (B, k, k) stands for Vh1 where
        nu stands for D_1.
        """
        R = response.R
        count, k = R.shape
        F, inverse = self.low_rank
        squares = R[:, None, :] * (self.diagonal**2 + self.own**2).T  # (B, R, k)
        wide = np.broadcast_to(
            _floored(response.Vh1)[:, None], (*squares.shape, k)
        ).copy()
        wide[:, squares.shape[1] - self.quadratic :] = _floored(quadratic)[:, None]
        mixing = np.eye(k) + wide * squares[:, :, None, :]
        Y = solve_each(mixing, wide)  # in every coordinate
        # (k, R, f')
        basis = np.concatenate(
            [F, np.broadcast_to(self.seen, (k, *self.seen.shape))], axis=2
        )
        width = basis.shape[2]
        f = F.shape[2]
        system = np.einsum("bcqr,qcf,rcg->bqfrg", Y, basis, basis, optimize=True)
        for q in range(k):
            system[:, q, :f, q, :f] += inverse[q] / R[:, q, None, None]
        through = np.einsum("bcqr,brcn->bqcn", Y, vectors, optimize=True)
        right = np.einsum("qcf,bqcn->bqfn", basis, through).reshape(
            count, k * width, -1
        )
        solved = solve_each(system.reshape(count, k * width, k * width), right).reshape(
            count, k, width, -1
        )
        lifted = np.einsum("rcg,brgn->brcn", basis, solved, optimize=True)
        return through - np.einsum("bcqr,brcn->bqcn", Y, lifted, optimize=True)

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
        through = self.silenced(
            response, quadratic, right.reshape(count, k, -1, k * n)
        ).reshape(right.shape)
        P = -np.einsum("bq,qcm,bqcrn->bmqnr", R, self.pushed, through, optimize=True)
        for q in range(k):
            P[:, :, q, :, q] += R[:, q, None, None] * self.gram[q]
        P = P.reshape(count, n * k, n * k)
        return 0.5 * (P + np.swapaxes(P, 1, 2))

    def paid(
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
        t = np.einsum("qnx,bqn->bqx", self.rows, weights) - np.einsum(
            "qcx,bqc->bqx", self.JU, silent, optimize=True
        )
        t = R[:, :, None] * t
        own = R[:, :, None] * self.own * (weights[:, :, :-1] @ self.seen.T - silent)
        tau = np.einsum("qcx,bqx->bqc", self.JU, t, optimize=True) + self.own * own
        across = tau - np.einsum(
            "cs,ds,bqd->bqc", self.seen, self.seen, tau, optimize=True
        )
        linear = across.shape[2] - self.quadratic
        parts = (
            part @ np.swapaxes(part, 1, 2)
            for part in (across[:, :, :linear], across[:, :, linear:])
        )
        return np.sum(t**2, axis=2) + np.sum(own**2, axis=2), *parts


@dataclass(frozen=True)
class SpreadOfSets:
    """The spreads of several parameter sets that see the same number of directions, and
    which one each point has.
    """

    spreads: tuple[InputSpread, ...]
    owner: Integers
    quadratic: ClassVar[int] = 0

    def take(self, index: Any) -> SpreadOfSets:
        """Return the points in `index`."""
        return SpreadOfSets(self.spreads, self.owner[index])

    @property
    def free(self) -> Array:
        """Whether the spread of each point is free (B,)."""
        return np.array([spread.free for spread in self.spreads])[self.owner]

    def covariance(self, response: Response, quadratic: Array) -> Array:
        """Return P (B, X, X)."""
        (P,) = self._each(
            lambda spread, rows: (
                spread.covariance(response.take(rows), quadratic[rows]),
            )
        )
        return P

    def paid(
        self, response: Response, quadratic: Array, dual: Array
    ) -> tuple[Array, Array, Array]:
        """Return what `InputSpread.paid` does."""
        squares, silent, curved = self._each(
            lambda spread, rows: spread.paid(
                response.take(rows), quadratic[rows], dual[rows]
            )
        )
        return squares, silent, curved

    def _each(
        self, answer: Callable[[InputSpread, Integers], tuple[Array, ...]]
    ) -> tuple[Array, ...]:
        """Return the answers of the points of every set, in the order of the points."""
        order = np.argsort(self.owner, kind="stable")
        sets, counts = np.unique(self.owner, return_counts=True)
        parts = [
            answer(self.spreads[number], rows)
            for number, rows in zip(sets, np.split(order, np.cumsum(counts)[:-1]))
        ]
        back = np.argsort(order)
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
    if R <= _PROBES:
        basis = np.eye(R)
    else:
        basis = np.linalg.qr(
            low @ np.random.default_rng(0).standard_normal((low.shape[1], _PROBES))
        )[0]
        if np.abs(low - basis @ (basis.T @ low)).max() > 100 * _RANK * size:
            basis = np.eye(R)
    left, values, right = np.linalg.svd(basis.T @ low, full_matrices=False)
    kept = values > _RANK * size
    return basis @ left[:, kept], values[kept, None] * right[kept]


MOST_MATRICES = 2560
"""Points times atoms that are solved together."""


@dataclass(frozen=True)
class QuadraticNoise(Stacked):
    """What the quadratic channels of a finite dimension add to the outputs:
    structured_inputs (8.1).
    """

    features: Features
    curvature: Floats  # nu of the blocks at the nodes (1, k, N)
    ratio: Floats
    b: Floats  # sizes of the points (B,), as in `Equations`

    shared: ClassVar[tuple[str, ...]] = ("features", "curvature")

    def moments(self, response: Response) -> Array:
        """Return r E[nu nu^T/(b + V)] (B, k, k), what stands for Vh1."""
        width = response.block_width.sum(axis=1)[:, None]
        V = self.features.quadratic(response.S, response.R) / width
        weights = self.ratio[:, None] * self.features.weights / (self.b[:, None] + V)
        return (self.curvature * weights[:, None, :]) @ np.swapaxes(
            self.curvature, 1, 2
        )


@dataclass(frozen=True)
class InputBulk(CommonRows):
    """Rows B_q(Sigma) b_i, b_i uniform on the sphere; `mu1` of the features is their
    D_1.
    """

    product: Floats
    masses: Floats
    spread: InputSpread | SpreadOfSets
    """How the channels act: their coefficients in the features are those of (Q^T tau_q,
    y_q).
    """
    noise: QuadraticNoise | None = None

    packed_only: ClassVar[bool] = True

    @classmethod
    def stack(cls, bulks: Sequence[InputBulk], owner: Integers) -> InputBulk:
        """Return the bulk of points that have bulks[owner[b]], all on the same atoms
        and without quadratic noise.
        """
        if len(bulks) == 1:
            return bulks[0]
        spreads = tuple(
            bulk.spread for bulk in bulks if isinstance(bulk.spread, InputSpread)
        )
        product = np.stack([bulk.product for bulk in bulks])[owner]
        return cls(product, bulks[0].masses, SpreadOfSets(spreads, owner))

    @property
    def kin(self) -> object:
        """The atoms; None with quadratic channels, whose noise is that of one set."""
        return None if self.spread.quadratic else super().kin

    @property
    def chunk(self) -> int:
        """Few points where there are many atoms."""
        return int(np.clip(MOST_MATRICES // len(self.masses), 16, 64))

    def take(self, index: Any) -> InputBulk:
        """Return the points in `index`, which differ where they have sets of their own
        or noise of their sizes.
        """
        if isinstance(self.spread, SpreadOfSets):
            return replace(
                self, product=self.product[index], spread=self.spread.take(index)
            )
        if self.noise is None:
            return self
        return replace(self, noise=self.noise.take(index))

    def quadratic(self, response: Response) -> Array:
        """Return what stands for Vh1 in the quadratic channels, 0 where they have no
        noise (B, k, k).
        """
        if self.noise is None:
            return np.zeros_like(response.S)
        return self.noise.moments(response)

    def tangents(self, response: Response) -> InputTangents:
        """Return (4.8) at a response."""
        return InputTangents(self, response)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P, in which the silent directions are counted; nothing of the error is
        absorbed.
        """
        P = self.spread.covariance(response, self.quadratic(response))
        return P, np.zeros_like(P)


@dataclass
class InputTangents(CommonTangents):
    """The derivative of the response, with what channels leave in silent directions."""

    bulk: InputBulk

    def _paid(self, dual: Array) -> tuple[Array, Array, Array]:
        return self.bulk.spread.paid(
            self.response, self.bulk.quadratic(self.response), dual
        )

    def push(
        self, omega: Floats, x: Floats, dual: Floats, paid: Floats
    ) -> tuple[Array, Array]:
        """Return what the signal leaves in (Q1, Q2): the last terms of e in (4.7), and
        of (4.6) the silent tau.
        """
        squares, silent, _ = self._paid(dual)
        Q1, Q2 = self.apply(
            np.zeros_like(silent), (paid + squares) / self.response.R**2
        )
        return Q1 + silent, Q2

    def unseen(self, dual: Floats) -> Array | float:
        """Return the squares of the noise of the quadratic channels at the nodes (B,
        N): (8.1), added to (4.6).
        """
        noise = self.bulk.noise
        if noise is None:
            return 0.0
        return np.asarray(
            np.sum(noise.curvature * (self._paid(dual)[2] @ noise.curvature), axis=1)
        )


# -- Many atoms of a spectrum as few: Gauss rules of groups of neighbours --------------


FEW = 64
"""Spectra with at most this many atoms are returned unchanged."""
_RATIO = 1.35
_NODES = 6
_DEGREE = 9
"""Factor of lambda that a group spans, nodes of its rule, degree of the interpolation
on it: 1e-11 of a resolvent.
"""


def condense(
    bulk: InputBulk, eigenvalues: Floats, gram: Floats | None = None
) -> tuple[InputBulk, Floats | None]:
    """Return the bulk with the atoms of similar eigenvalues (J,) replaced by the nodes
    of a Gauss rule of their masses.

    A group spans a factor 1.35 of lambda and keeps 12 moments; groups of up to six
    atoms stay as they are. The same is done to `gram` (B, J, k, k), the means of the
    blocks at the atoms.
    """
    if len(eigenvalues) <= FEW or eigenvalues.min() <= 0:
        return bulk, gram
    order = np.argsort(eigenvalues)
    group = np.floor(
        np.log(eigenvalues[order] / eigenvalues[order[0]]) / np.log(_RATIO) + 1e-9
    )
    # (1 + B, J, k, k)
    at_atoms = (
        bulk.product[None]
        if gram is None
        else np.concatenate([bulk.product[None], gram])
    )
    at_atoms = np.moveaxis(at_atoms, 1, 0)
    product = []
    masses = []
    for members in np.split(order, np.flatnonzero(np.diff(group)) + 1):
        if len(members) <= _NODES:
            product.append(at_atoms[members])
            masses.append(bulk.masses[members])
            continue
        nodes, weights = gauss_rule(eigenvalues[members], bulk.masses[members], _NODES)
        values = at_atoms[members].reshape(len(members), -1)
        domain = [float(eigenvalues[members].min()), float(eigenvalues[members].max())]
        degree = min(_DEGREE, len(members) - 1)
        fits = [
            np.polynomial.Chebyshev.fit(
                eigenvalues[members], column, degree, domain=domain
            )
            for column in values.T
        ]
        product.append(
            np.stack([fit(nodes) for fit in fits], axis=1).reshape(
                -1, *at_atoms.shape[1:]
            )
        )
        masses.append(weights)
    condensed = np.moveaxis(np.concatenate(product), 0, 1)
    smaller = dataclasses.replace(
        bulk, product=condensed[0], masses=np.concatenate(masses)
    )
    return smaller, None if gram is None else condensed[1:]
