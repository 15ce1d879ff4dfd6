"""Rows b_i without a preferred direction: spiked_features (3.2)-(3.5) and (4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from giantstep.readout.bulk import Response
from giantstep.readout.common_rows import CommonRows, solve_rows
from giantstep.readout.features import packing
from giantstep.readout.finite_size import AlongMeans
from giantstep.solve import solve_each
from giantstep.types import Array, Floats


@dataclass(frozen=True)
class IsotropicBulk(CommonRows):
    """Rows uniform on the sphere: it has no parameters, so it is the same for any number of points."""

    chunk: ClassVar[int] = 64
    packed_only: ClassVar[bool] = False
    row_norm: ClassVar[Floats] = np.ones((1, 1))

    def solve(
        self, Vh1: Array, D: Array, block_width: Floats, start: Response, probe: bool = False, near: bool = False
    ) -> Response:
        """Solve R_q = beta_q/(D_q + g_qq) (3.3) by Newton."""
        eye = np.eye(D.shape[1])

        def resolvent(R: Array) -> tuple[Array, Array]:
            g = solve_each(eye + Vh1 * R[:, None, :], Vh1)
            return np.einsum("bqq->bq", g), g**2

        R = solve_rows(start.R, D, block_width, resolvent, near)
        mixing = eye + Vh1 * R[:, None, :]
        g = solve_each(mixing, Vh1)
        # S = (I + diag(R) Vh1)^-1 diag R is the transpose of diag(R) (I + Vh1 diag R)^-1
        S = R[:, :, None] * solve_each(mixing, np.broadcast_to(eye, mixing.shape))
        return Response(R, _symmetric(S), _symmetric(g), Vh1, D, block_width)

    def tangents(self, response: Response) -> IsotropicTangents:
        """Return (4.5) at a response."""
        return IsotropicTangents(response)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P = diag(omega R): the coefficients of the channels are independent."""
        channels = omega.shape[1] // response.R.shape[1]
        P = (np.concatenate([response.R] * channels, axis=1) * omega)[:, :, None] * np.eye(omega.shape[1])
        return P, np.zeros_like(P)

    def along_means(self, response: Response) -> AlongMeans:
        """Return G and I - S Vh1 = S diag(1/R) of finite_size_steps (3.1), (3.3), at one atom."""
        one = np.ones((1, 1, response.R.shape[1]))
        return AlongMeans(np.ones(1), response.g[:, None], (response.S / response.R[:, None, :])[:, None], one)


def _symmetric(matrix: Array) -> Array:
    return 0.5 * (matrix + np.swapaxes(matrix, 1, 2))


@dataclass
class IsotropicTangents:
    """Spiked_features (4.5), and (3.5) at the nodes."""

    response: Response

    @cached_property
    def transfer(self) -> Array:
        """The matrix I - diag(R^2/beta_q) (g o g), whose inverse carries a change of D to a change of R."""
        response = self.response
        return np.eye(response.R.shape[1]) - (response.R**2 / response.block_width)[:, :, None] * response.g**2

    @cached_property
    def matrix(self) -> Array:
        """-d(S, R)/d(Vh1, D) in packed coordinates (B, K, K)."""
        S, R = self.response.S, self.response.R
        k = R.shape[1]
        rows, columns = packing(k).rows, packing(k).columns
        pairs, count = len(rows), len(rows) + k
        Th = np.eye(k) - S @ self.response.Vh1
        drive = np.zeros((len(R), k, count), S.dtype)
        drive[:, :, :pairs] = np.swapaxes(Th[:, rows] * Th[:, columns], 1, 2) * packing(k).multiplicity[:pairs]
        drive[:, np.arange(k), pairs + np.arange(k)] = 1.0
        delta = solve_each(self.transfer, (R**2 / self.response.block_width)[:, :, None] * drive)
        out = np.empty((len(R), count, count), S.dtype)
        products = S[:, rows] * S[:, columns]  # S_il S_jl for the packed pair (i, j)
        out[:, :pairs] = products @ (delta / (R**2)[:, :, None])
        out[:, pairs:] = delta
        direct = S[:, rows][:, :, rows] * S[:, columns][:, :, columns]
        crossed = S[:, rows][:, :, columns] * S[:, columns][:, :, rows]
        out[:, :pairs, :pairs] += np.where(rows == columns, direct, direct + crossed)
        return out

    def apply(self, A: Array, e: Array) -> tuple[Array, Array]:
        """Return -d(S, R) along dVh1 = A, dD = e."""
        S, R = self.response.S, self.response.R
        Th = np.eye(R.shape[1]) - S @ self.response.Vh1
        weighted = (R**2 / self.response.block_width) * (e + np.einsum("bqi,bqj,bji->bi", Th, A, Th))
        delta = solve_each(self.transfer, weighted[:, :, None])[:, :, 0]
        return S @ A @ S + (S * (delta / R**2)[:, None, :]) @ S, delta

    def kernel(self, mu1: Floats, mu2: Floats) -> Array:
        """Return (mu1^T S mu1)^2 + E^T Mi E at the nodes, spiked_features (3.5)."""
        S, R = self.response.S, self.response.R
        smooth = S @ mu1
        E = mu2 + smooth**2 / (R**2)[:, :, None]
        diagonal = np.eye(R.shape[1]) * (self.response.block_width / R**2)[:, :, None]
        Mi = solve_each(diagonal - self.response.g**2, np.broadcast_to(np.eye(R.shape[1]), diagonal.shape))
        pairs = np.swapaxes(mu1, 1, 2) @ smooth
        return pairs**2 + np.swapaxes(E, 1, 2) @ (Mi @ E)

    def push(self, omega: Floats, x: Floats, dual: Floats, paid: Floats) -> tuple[Array, Array]:
        """Return what the signal leaves in (Q1, Q2): the last terms of e in few_steps_readout (4.7)."""
        paid = paid + (x**2 / omega).reshape(len(x), -1, paid.shape[1]).sum(axis=1)
        return self.apply(np.zeros_like(self.response.S), paid / self.response.R**2)

    def unseen(self, dual: Array) -> float:
        """Return 0: channels act through the functions of the features only."""
        return 0.0
