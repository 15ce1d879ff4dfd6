"""Rows b_i without a preferred direction, uniform on the sphere.

spiked_features (3.2)-(3.5) and (4.5): one atom of product 1 in `common_rows`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.solve import solve_each
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.common_rows import CommonRows, CommonTangents


class IsotropicBulk(CommonRows):
    """Rows uniform on the sphere: it has no parameters, so it is the same for any
    number of points.
    """

    chunk: ClassVar[int] = 64
    packed_only: ClassVar[bool] = False

    def __init__(self) -> None:
        self.product = np.ones((1, 1, 1))
        self.masses = np.ones(1)

    # the general forms would add a sum over one atom and a product with 1 to every step
    # of the hot loop

    def average(self, values: Array) -> Array:
        """Return the values at the one atom."""
        return values[:, 0]

    def times_product(self, values: Array) -> Array:
        """Return the values: PB is 1."""
        return values

    def at_atoms(self, response: Response) -> tuple[Array, Array]:
        """Return S and I - S Vh1."""
        # Theta of spiked_features (4.5)
        Th = np.eye(response.R.shape[1]) - response.S @ response.Vh1
        return response.S[:, None], Th[:, None]

    def tangents(self, response: Response) -> IsotropicTangents:
        """Return (4.5) at a response."""
        return IsotropicTangents(self, response)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P = diag(omega R): the coefficients of the channels are
        independent.
        """
        X = omega.shape[1]
        # coefficients stand channel by channel, each with an entry for every block
        channels = X // response.R.shape[1]
        variances = np.concatenate([response.R] * channels, axis=1) * omega
        P = variances[:, :, None] * np.eye(X)
        return P, np.zeros_like(P)


class IsotropicTangents(CommonTangents):
    """Spiked_features (4.5), and (3.5) at the nodes."""

    def kernel(self, mu1: Floats, mu2: Floats) -> Array:
        """Return (mu1^T S mu1)^2 + E^T Mi E at the nodes, spiked_features (3.5)."""
        S = self.response.S
        R = self.response.R
        eye = np.eye(R.shape[1])
        smooth = S @ mu1
        E = mu2 + smooth**2 / (R**2)[:, :, None]
        stiffness = eye * (self.response.block_width / R**2)[:, :, None]
        # the one atom of the isotropic spectrum
        Mi = solve_each(stiffness - self.response.g[:, 0] ** 2, eye)
        direct = (np.swapaxes(mu1, 1, 2) @ smooth) ** 2
        return direct + np.swapaxes(E, 1, 2) @ (Mi @ E)

    def push(
        self, omega: Floats, x: Floats, dual: Floats, penalty: Floats
    ) -> tuple[Array, Array]:
        """Return what the signal leaves in (Q1, Q2): the last terms of e in
        few_steps_readout (4.7).
        """
        k = penalty.shape[1]
        # x^T P^-1 x = sum x_c^2/(omega R), as theta's penalty over R
        of_channels = (x**2 / omega).reshape(len(x), -1, k).sum(axis=1)
        drive = (penalty + of_channels) / self.response.R**2
        return self.apply(np.zeros_like(self.response.S), drive)
