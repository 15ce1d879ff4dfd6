"""What the first-order equations ask of the bulk: the law of the rows b_i of the first
layer.

Everything that depends on the covariance of the rows is behind `Bulk`: the map from
(Vh1, D) to (R, S), its derivative, and the covariance of the channel coefficients. The
rest of `readout` does not know which bulk it works with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.finite_size import AlongMeans

if TYPE_CHECKING:
    from giantstep.core.readout.newton_bulk import Motion

LEAST_RIDGE = 1e-8
"""What a cold start takes for D where the ridge is 0."""


@dataclass
class Response(Stacked):
    """How the bulk of B points with k blocks answers to Vh1 (B, k, k) and D (B, k)."""

    R: Array  # beta V2 (B, k)
    S: Array  # beta V1 (B, k, k)
    # what the bulk keeps for its next solve: g of spiked_features (3.2), or what stands
    # for it
    g: Array
    Vh1: Array
    D: Array
    block_width: Floats  # beta_q = pi_q p/d, (B, k)
    motion: Motion | None = field(default=None, init=False, repr=False)
    """How the inner solution of the bulk moves, which `Bulk.tangents` asks for next."""
    known: Any = field(default=None, init=False, repr=False)
    """What the bulk has worked out at this very response, for its own use."""

    goes_along: ClassVar[tuple[str, ...]] = ("motion",)

    def astype(self, dtype: Any) -> Response:
        """Return a copy, real or complex."""
        copies = {
            name: np.array(value, dtype=dtype) for name, value in self._stacks().items()
        }
        return Response(**copies)

    @classmethod
    def at_zero(cls, a: Array, block_width: Floats, g: Array) -> Response:
        """Return the response of isotropic rows at Vh = 0, with `g` as what the bulk
        keeps.
        """
        # without a ridge R would be infinite: any large one is above the solution
        a = np.where(a == 0, LEAST_RIDGE, a)
        D = a[:, None] * np.ones(block_width.shape)
        R = block_width / D
        S = R[:, :, None] * np.eye(D.shape[1])
        return cls(R=R, S=S, g=g, Vh1=np.zeros_like(S), D=D, block_width=block_width)


class Tangents(Protocol):
    """The derivative of (S, R) with respect to (Vh1, D) at a response."""

    @property
    def matrix(self) -> Array:
        """-d(S, R)/d(Vh1, D) in packed coordinates (B, K, K)."""

    def apply(self, A: Array, e: Array) -> tuple[Array, Array]:
        """Return -d(S, R) along dVh1 = A (B, k, k), dD = e (B, k): what `matrix` does,
        without packing.
        """

    def kernel(self, mu1: Floats, mu2: Floats) -> Array:
        """Return beta times the kernel of spiked_features (3.5) at the nodes (B, N, N),
        where the bulk has one.
        """
        raise TypeError("such rows have no kernel at the nodes")

    def push(
        self, omega: Floats, x: Floats, dual: Floats, penalty: Floats
    ) -> tuple[Array, Array]:
        """Return what the signal alone leaves in (Q1, Q2): -d/d(Vh1, D) of its penalty,
        at fixed signal.

        That is x^T P0^-1 x + sum_q penalty_q/R_q, with x (B, X) the channel
        coefficients, `dual` = P^-1 x for P of `Bulk.covariance`, P0^-1 = P^-1 -
        absorbed, and `penalty` (B, k) that of theta times R (`push_of_means`).
        """

    def squared_noise(self, dual: Array) -> Array | float:
        """Return what the channel coefficients add to the error at the nodes (B, N)
        beside c0, c1, Q1 and Q2.
        """
        return 0.0


class Bulk(Protocol):
    """The law of the rows, for B points.

    `IsotropicBulk` is spiked_features section 3, `InputBulk` structured_inputs section
    4, `ChainBulk` finite_batches_several_steps section 4, `SignBulk` sign_step
    section 5. One more law is one more class.
    """

    @property
    def chunk(self) -> int:
        """How many points to solve together, so that they stay in cache."""

    @property
    def packed_only(self) -> bool:
        """Whether the tangents have no `kernel`."""

    @property
    def row_norm(self) -> Floats:
        """Squared norm of the rows, (B, k) or (1, 1)."""

    @property
    def stack_key(self) -> object:
        """What laws of one shape must have in common to be solved together; None where
        each is solved alone.
        """

    @classmethod
    def stack(cls, bulks: Sequence[Self], set_of_point: Integers) -> Self:
        """Return the law of points that have ``bulks[set_of_point[b]]``, all of one
        key.
        """

    def take(self, index: Any) -> Bulk:
        """Return the points in `index`."""

    def start(self, a: Array, block_width: Floats) -> Response:
        """Return what a cold solve starts from, with R = beta_q/a: the answer to Vh =
        0, above the solution.
        """

    def solve(
        self,
        Vh1: Array,
        D: Array,
        block_width: Floats,
        start: Response,
        near: bool = False,
    ) -> Response:
        """Return the response, started from an earlier one; each point stops on its
        own.

        `near` asks for an error of second order in the distance of the start only, for
        callers that iterate: started from its own answer it is exact.
        """

    def tangents(self, response: Response) -> Tangents:
        """Return the derivative of the response."""

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P and `absorbed` (B, X, X), what P has counted of the error: the prior
        is P0^-1 = P^-1 - absorbed.
        """

    def along_means(self, response: Response) -> AlongMeans:
        """Return how the bulk answers along the means of the blocks, at a finite
        dimension.
        """
