"""Rows on inputs with a covariance: structured_inputs (4.2)-(4.4) and (4.8), integrals
over atoms of the spectrum.

The response of rows of one law is that of `common_rows`; `input_spread` is how channels
act on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.common_rows import CommonRows, CommonTangents
from giantstep.core.readout.features import Features
from giantstep.core.readout.input_spread import InputSpread, SpreadOfSets

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
        # V of the limit is that of V1 = S/beta and V2 = R/beta
        width = response.block_width.sum(axis=1)[:, None]
        V = self.features.quadratic(response.S, response.R) / width
        weights = self.ratio[:, None] * self.features.weights / (self.b[:, None] + V)
        weighted = self.curvature * weights[:, None, :]
        return weighted @ np.swapaxes(self.curvature, 1, 2)


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
    def stack(cls, bulks: Sequence[InputBulk], set_of_point: Integers) -> InputBulk:
        """Return the bulk of points that have ``bulks[set_of_point[b]]``, all on the
        same atoms and without quadratic noise.
        """
        # one set has the same product at all points
        if len(bulks) == 1:
            return bulks[0]
        spreads = tuple(
            bulk.spread for bulk in bulks if isinstance(bulk.spread, InputSpread)
        )
        product = np.stack([bulk.product for bulk in bulks])[set_of_point]
        return cls(product, bulks[0].masses, SpreadOfSets(spreads, set_of_point))

    @property
    def stack_key(self) -> object:
        """The atoms; None with quadratic channels, whose noise is that of one set."""
        if self.spread.quadratic:
            return None
        return super().stack_key

    @property
    def chunk(self) -> int:
        """Few points where there are many atoms."""
        return int(np.clip(MOST_MATRICES // len(self.masses), 16, 64))

    def take(self, index: Any) -> InputBulk:
        """Return the points in `index`, which differ where they have sets of their own
        or noise of their sizes.
        """
        if isinstance(self.spread, SpreadOfSets):
            # several sets: each point has its own product
            product = self.product[index]
            return replace(self, product=product, spread=self.spread.take(index))
        # all points are of one set, and nothing else differs between them
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

    def _cost(self, dual: Array) -> tuple[Array, Array, Array]:
        return self.bulk.spread.cost(
            self.response, self.bulk.quadratic(self.response), dual
        )

    def push(
        self, omega: Floats, x: Floats, dual: Floats, penalty: Floats
    ) -> tuple[Array, Array]:
        """Return what the signal leaves in (Q1, Q2): the last terms of e in (4.7), and
        of (4.6) the silent tau.
        """
        squares, silent, _ = self._cost(dual)
        # t costs sum_c t_qc^2/R_q, which moves with R as the penalty of theta does
        drive = (penalty + squares) / self.response.R**2
        Q1, Q2 = self.apply(np.zeros_like(silent), drive)
        return Q1 + silent, Q2

    def squared_noise(self, dual: Floats) -> Array | float:
        """Return the squares of the noise of the quadratic channels at the nodes (B,
        N): (8.1), added to (4.6).
        """
        noise = self.bulk.noise
        if noise is None:
            return 0.0
        _, _, curved = self._cost(dual)
        # a quadratic form at every node, without the matrix between nodes
        squares = noise.curvature * (curved @ noise.curvature)
        return np.asarray(np.sum(squares, axis=1))
