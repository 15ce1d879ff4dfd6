"""Rows b_i without a preferred direction: spiked_features (3.2)-(3.5) and (4.5)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from giantstep.readout.bulk import Response
from giantstep.readout.common_rows import CommonRows, CommonTangents
from giantstep.solve import solve_each
from giantstep.types import Array, Floats


class IsotropicBulk(CommonRows):
    """Rows uniform on the sphere: it has no parameters, so it is the same for any number of points."""

    chunk: ClassVar[int] = 64
    packed_only: ClassVar[bool] = False

    def __init__(self) -> None:
        self.product, self.masses = np.ones((1, 1, 1)), np.ones(1)

    def average(self, values: Array) -> Array:
        """Return the values at the one atom."""
        return values[:, 0]

    def at_atoms(self, response: Response) -> tuple[Array, Array]:
        """Return S and I - S Vh1."""
        return response.S[:, None], (np.eye(response.R.shape[1]) - response.S @ response.Vh1)[:, None]

    def tangents(self, response: Response) -> IsotropicTangents:
        """Return (4.5) at a response."""
        return IsotropicTangents(self, response)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P = diag(omega R): the coefficients of the channels are independent."""
        channels = omega.shape[1] // response.R.shape[1]
        P = (np.concatenate([response.R] * channels, axis=1) * omega)[:, :, None] * np.eye(omega.shape[1])
        return P, np.zeros_like(P)


class IsotropicTangents(CommonTangents):
    """Spiked_features (4.5), and (3.5) at the nodes."""

    def kernel(self, mu1: Floats, mu2: Floats) -> Array:
        """Return (mu1^T S mu1)^2 + E^T Mi E at the nodes, spiked_features (3.5)."""
        S, R, eye = self.response.S, self.response.R, np.eye(self.response.R.shape[1])
        smooth = S @ mu1
        E = mu2 + smooth**2 / (R**2)[:, :, None]
        Mi = solve_each(eye * (self.response.block_width / R**2)[:, :, None] - self.response.g[:, 0] ** 2, eye)
        pairs = np.swapaxes(mu1, 1, 2) @ smooth
        return pairs**2 + np.swapaxes(E, 1, 2) @ (Mi @ E)

    def push(self, omega: Floats, x: Floats, dual: Floats, paid: Floats) -> tuple[Array, Array]:
        """Return what the signal leaves in (Q1, Q2): the last terms of e in few_steps_readout (4.7)."""
        paid = paid + (x**2 / omega).reshape(len(x), -1, paid.shape[1]).sum(axis=1)
        return self.apply(np.zeros_like(self.response.S), paid / self.response.R**2)
