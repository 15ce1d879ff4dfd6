"""Rows on inputs with a covariance: structured_inputs (4.2)-(4.4) and (4.8), integrals over atoms of the spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from giantstep.readout.bulk import PackedTangents, Response
from giantstep.readout.common_rows import CommonRows, solve_rows
from giantstep.readout.features import Features, packing
from giantstep.readout.finite_size import AlongMeans
from giantstep.readout.input_spread import InputSpread, SpreadOfSets
from giantstep.readout.stacked import Stacked
from giantstep.solve import solve_each
from giantstep.types import Array, Floats, Integers

MOST_MATRICES = 2560
"""Points times atoms that are solved together."""


@dataclass(frozen=True)
class QuadraticNoise(Stacked):
    """What the quadratic channels of a finite dimension add to the outputs: structured_inputs (8.1)."""

    features: Features
    curvature: Floats
    """Nu of the blocks at the nodes (1, k, N)."""
    ratio: Floats
    b: Floats
    """Sizes of the points (B,), as in `Equations`."""

    shared: ClassVar[tuple[str, ...]] = ("features", "curvature")

    def moments(self, response: Response) -> Array:
        """Return r E[nu nu^T/(b + V)] (B, k, k), what stands for Vh1."""
        width = response.block_width.sum(axis=1)[:, None]
        V = self.features.quadratic(response.S, response.R) / width
        weights = self.ratio[:, None] * self.features.weights / (self.b[:, None] + V)
        return (self.curvature * weights[:, None, :]) @ np.swapaxes(self.curvature, 1, 2)


@dataclass(frozen=True)
class InputBulk(CommonRows):
    """Rows B_q(Sigma) b_i, b_i uniform on the sphere; `mu1` of the features is their D_1.

    One atom with `product` 1 is `IsotropicBulk`.
    """

    product: Floats
    """PB = lambda B_q B_q' at the J atoms: (J, k, k) of all points, or (B, J, k, k) where each has its own."""
    masses: Floats
    """Masses of the atoms (J,), of sum 1."""
    spread: InputSpread | SpreadOfSets
    """How the channels act: their coefficients in the features are those of (Q^T tau_q, y_q)."""
    noise: QuadraticNoise | None = None

    packed_only: ClassVar[bool] = True

    @classmethod
    def stack(cls, bulks: Sequence[InputBulk], owner: Integers) -> InputBulk:
        """Return the bulk of points that have bulks[owner[b]], all on the same atoms and without quadratic noise."""
        if len(bulks) == 1:
            return bulks[0]
        spreads = tuple(bulk.spread for bulk in bulks if isinstance(bulk.spread, InputSpread))
        product = np.stack([bulk.product for bulk in bulks])[owner]
        return cls(product, bulks[0].masses, SpreadOfSets(spreads, owner))

    @property
    def chunk(self) -> int:
        """Few points where there are many atoms."""
        return int(np.clip(MOST_MATRICES // len(self.masses), 16, 64))

    @property
    def row_norm(self) -> Floats:
        """Squared norm of the rows in the metric of the inputs, (1, k)."""
        norm: Floats = np.einsum("j,jqq->q", self.masses, self.product)[None]
        return norm

    @property
    def atoms(self) -> tuple[int, ...]:
        """The atoms of the spectrum of the inputs."""
        return self.masses.shape

    def take(self, index: Any) -> InputBulk:
        """Return the points in `index`, which differ where they have sets of their own or noise of their sizes."""
        if isinstance(self.spread, SpreadOfSets):
            return replace(self, product=self.product[index], spread=self.spread.take(index))
        return self if self.noise is None else replace(self, noise=self.noise.take(index))

    def quadratic(self, response: Response) -> Array:
        """Return what stands for Vh1 in the quadratic channels, 0 where they have no noise (B, k, k)."""
        return np.zeros_like(response.S) if self.noise is None else self.noise.moments(response)

    def solve(
        self, Vh1: Array, D: Array, block_width: Floats, start: Response, probe: bool = False, near: bool = False
    ) -> Response:
        """Solve R_q = beta_q/(D_q + int G_qq dmu) (4.3) by Newton, each point on its own."""

        def resolvent(R: Array) -> tuple[Array, Array]:
            G = self._resolvent(Vh1, R)
            return np.einsum("j,bjqq->bq", self.masses, G), self._average(G**2)

        R = solve_rows(start.R, D, block_width, resolvent, near)
        G, at_atoms = self._at_atoms(Vh1, R)
        response = Response(R, self._average(self.product * at_atoms[0]), G, Vh1, D, block_width)
        response.known = at_atoms  # `tangents` asks for it next
        return response

    def _average(self, matrices: Array) -> Array:
        """Return int dmu of matrices at the atoms (B, J, k, k)."""
        return np.tensordot(matrices, self.masses, (1, 0))

    def _mixing(self, Vh1: Array, R: Array) -> tuple[Array, Array]:
        """Return H = PB o Vh1 and I + H diag(R), flattened over points and atoms."""
        k = R.shape[1]
        H = (self.product * Vh1[:, None]).reshape(-1, k, k)
        return H, np.eye(k) + H * np.repeat(R, len(self.masses), axis=0)[:, None, :]

    def _resolvent(self, Vh1: Array, R: Array) -> Array:
        """Return G(lambda) = (I + H diag R)^-1 H at the atoms (B, J, k, k)."""
        H, mixing = self._mixing(Vh1, R)
        G = solve_each(mixing, H).reshape(len(R), -1, *H.shape[1:])
        return 0.5 * (G + np.swapaxes(G, 2, 3))

    def _at_atoms(self, Vh1: Array, R: Array) -> tuple[Array, tuple[Array, Array]]:
        """Return G(lambda), and S(lambda) = Th diag R with Th = (I + diag(R) H)^-1, at the atoms (B, J, k, k)."""
        H, mixing = self._mixing(Vh1, R)
        k = R.shape[1]
        right = np.concatenate([H, np.broadcast_to(np.eye(k), H.shape)], axis=2)
        solved = solve_each(mixing, right).reshape(len(R), -1, k, 2 * k)
        Th = np.swapaxes(solved[..., k:], 2, 3)
        G, S = (0.5 * (M + np.swapaxes(M, 2, 3)) for M in (solved[..., :k], Th * R[:, None, None, :]))
        return G, (S, Th)

    def at_atoms(self, response: Response) -> tuple[Array, Array]:
        """Return S(lambda) and Th = (I + diag(R) H)^-1 of a response at the atoms."""
        known: tuple[Array, Array] | None = response.known
        return self._at_atoms(response.Vh1, response.R)[1] if known is None else known

    def tangents(self, response: Response) -> InputTangents:
        """Return (4.8) at a response."""
        return InputTangents(self, response)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P, in which the silent directions are counted; nothing of the error is absorbed."""
        P = self.spread.covariance(response, self.quadratic(response))
        return P, np.zeros_like(P)

    @property
    def scale(self) -> Floats:
        """Squared scale of the rows, lambda B_q^2 at the atoms (B or 1, J, k)."""
        scale: Floats = np.einsum("...qq->...q", self.product)
        return scale if scale.ndim == 3 else scale[None]

    def along_means(self, response: Response) -> AlongMeans:
        """Return Gt and Y of finite_size_steps (6.3), (6.4), without a division by B_q."""
        (count, k), scale = response.R.shape, self.scale
        m = scale * response.R[:, None, :]
        Vh1 = np.broadcast_to(response.Vh1[:, None], (*m.shape, k))
        right = np.concatenate([Vh1, np.broadcast_to(np.eye(k), Vh1.shape)], axis=3)
        mixing = np.eye(k) + Vh1 * m[:, :, None, :]
        solved = solve_each(mixing.reshape(-1, k, k), right.reshape(-1, k, 2 * k)).reshape(count, -1, k, 2 * k)
        return AlongMeans(self.masses, solved[..., :k], np.swapaxes(solved[..., k:], 2, 3), scale)


@dataclass
class InputTangents(PackedTangents):
    """The derivative of the response, structured_inputs (4.8)."""

    bulk: InputBulk
    response: Response

    @cached_property
    def transfer(self) -> Array:
        """The matrix I - diag(R^2/beta_q) int G o G dmu."""
        R = self.response.R
        weight = (R**2 / self.response.block_width)[:, :, None]
        return np.eye(R.shape[1]) - weight * self.bulk._average(self.response.g**2)

    @cached_property
    def matrix(self) -> Array:  # type: ignore[override]
        """-d(S, R)/d(Vh1, D) in packed coordinates (B, K, K), entry by entry at the atoms.

        With P = PB the pair (i, j) answers to the pair (a, b) by int P_ij P_ab S_ia S_jb dmu, and through R_l by
        int P_ij S_il S_jl dmu times that of R_l, which int P_ab Th_al Th_bl dmu drives.
        """
        S, Th = self.bulk.at_atoms(self.response)
        R, masses = self.response.R, self.bulk.masses
        k = R.shape[1]
        rows, columns, multiplicity = packing(k).rows, packing(k).columns, packing(k).multiplicity
        pairs, count = len(rows), len(rows) + k
        product = np.broadcast_to(self.bulk.product[..., rows, columns], (len(R), len(masses), pairs))
        weighted = masses[:, None] * product
        driven, answered = (np.einsum("bjp,bjpq->bpq", weighted, M[:, :, rows] * M[:, :, columns]) for M in (Th, S))
        drive = np.zeros((len(R), k, count), S.dtype)
        drive[:, :, :pairs] = np.swapaxes(driven, 1, 2) * multiplicity[:pairs]
        drive[:, np.arange(k), pairs + np.arange(k)] = 1.0
        delta = solve_each(self.transfer, (R**2 / self.response.block_width)[:, :, None] * drive)
        out = np.empty((len(R), count, count), S.dtype)
        out[:, :pairs] = answered @ (delta / (R**2)[:, :, None])
        out[:, pairs:] = delta
        direct = S[:, :, rows][..., rows] * S[:, :, columns][..., columns]
        direct += np.where(rows == columns, 0.0, S[:, :, rows][..., columns] * S[:, :, columns][..., rows])
        out[:, :pairs, :pairs] += np.einsum("bjp,bjpq,bjq->bpq", weighted, direct, product)
        return out

    def _paid(self, dual: Array) -> tuple[Array, Array, Array]:
        return self.bulk.spread.paid(self.response, self.bulk.quadratic(self.response), dual)

    def push(self, omega: Floats, x: Floats, dual: Floats, paid: Floats) -> tuple[Array, Array]:
        """Return what the signal leaves in (Q1, Q2): the last terms of e in (4.7), and of (4.6) the silent tau."""
        squares, silent, _ = self._paid(dual)
        Q1, Q2 = self.apply(np.zeros_like(silent), (paid + squares) / self.response.R**2)
        return Q1 + silent, Q2

    def unseen(self, dual: Floats) -> Array | float:
        """Return the squares of the noise of the quadratic channels at the nodes (B, N): (8.1), added to (4.6)."""
        noise = self.bulk.noise
        if noise is None:
            return 0.0
        products = self._paid(dual)[2]
        added: Array = np.sum(noise.curvature * (products @ noise.curvature), axis=1)
        return added
