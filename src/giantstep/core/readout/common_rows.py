"""Rows of one law for all points, with a covariance that has few eigenvalues: integrals
over atoms of the spectrum.

structured_inputs (4.2)-(4.4) and (4.8). Isotropic rows are one atom of product 1, for
which these are spiked_features (3.2)-(3.4) and (4.5): see `isotropic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.small_matrices import small_inverse
from giantstep.core.maths.solve import solve_each
from giantstep.core.readout.bulk import Response, Tangents
from giantstep.core.readout.features import packed_products, packing
from giantstep.core.readout.finite_size import AlongMeans

MAX_STEPS = 40
"""Newton steps at most."""
SOLVED = 1e-14
"""Relative size of the last Newton step where R is exact but for rounding."""
NEAR = 1e-2
"""Relative size of the last Newton step where an error of the order of its square is
good enough.
"""


class CommonRows:
    """Rows of the same law at all points, so that every selection of points has the
    same bulk.
    """

    product: Floats
    """PB = lambda B_q B_q' at the J atoms: (J, k, k) of all points, or (B, J, k, k)
    where each has its own.
    """
    masses: Floats  # masses of the atoms (J,), of sum 1

    def take(self, index: Any) -> Self:
        """Return itself."""
        return self

    @property
    def stack_key(self) -> object:
        """The atoms."""
        return self.masses.tobytes()

    @classmethod
    def stack(cls, bulks: Sequence[Self], set_of_point: Integers) -> Self:
        """Return the law that all of them are."""
        return bulks[0]

    @property
    def row_norm(self) -> Floats:
        """Squared norm of the rows in the metric of the inputs, (1, k) or (1, 1)."""
        return np.asarray(np.einsum("j,jqq->q", self.masses, self.product)[None])

    def start(self, a: Array, block_width: Floats) -> Response:
        """Return the answer to Vh = 0."""
        k = block_width.shape[1]
        no_answer = np.zeros((len(a), len(self.masses), k, k))
        return Response.at_zero(a, block_width, no_answer)

    def solve(
        self,
        Vh1: Array,
        D: Array,
        block_width: Floats,
        start: Response,
        near: bool = False,
    ) -> Response:
        """Solve R_q = beta_q/(D_q + int G_qq dmu) (4.3) by Newton from the start, each
        point on its own.

        G = (I + H diag R)^-1 H for H = PB o Vh1 is what `g` keeps, and dG_qq/dR_r =
        -G_qr^2; S is (4.4).
        """
        R = start.R
        real = not np.iscomplexobj(start.R)
        last_step = NEAR if near else SOLVED
        busy = np.ones(len(R), dtype=bool)
        H = self.product * Vh1[:, None]
        for _ in range(MAX_STEPS):
            check_time()
            plain, change = self._plain_and_newton(H, R, D, block_width)
            newton = R + change
            if real:
                # R has one sign: a step across zero is replaced by the plain map
                same_sign = (newton * R > 0).all(axis=1, keepdims=True)
                newton = np.where(same_sign, newton, plain)
            # points stop on their own, so that an answer does not depend on neighbours
            R = np.where(busy[:, None], newton, R)
            busy &= np.abs(change / R).max(axis=1) > last_step
            if not busy.any():
                break
        G, S, Th = self._at_atoms(H, R)
        response = Response(
            R=R,
            S=self.average(self.product * S),
            g=G,
            Vh1=Vh1,
            D=D,
            block_width=block_width,
        )
        # `tangents` asks for it next
        response.known = S, Th
        return response

    def _plain_and_newton(
        self, H: Array, R: Array, D: Array, block_width: Floats
    ) -> tuple[Array, Array]:
        """Return where the plain map of (4.3) leads from R, and Newton's step."""
        eye = packing(R.shape[1]).eye
        G = solve_each(eye + H * R[:, None, None, :], H)
        plain = block_width / (D + self.average(G.diagonal(0, 2, 3)))
        # the derivative of the plain map: dG_qq/dR_r = -G_qr^2
        slope = (plain**2 / block_width)[:, :, None] * self.average(G**2)
        return plain, solve_each(eye - slope, (plain - R)[:, :, None])[:, :, 0]

    def _at_atoms(self, H: Array, R: Array) -> tuple[Array, Array, Array]:
        """Return G(lambda), S(lambda) = Th diag R and Th = (I + diag(R) H)^-1 at the
        atoms (B, J, k, k).
        """
        scale = R[:, None, None, :]
        inverse = small_inverse(packing(R.shape[1]).eye + H * scale)
        # (I + H diag R)^T = I + diag(R) H
        Th = inverse.swapaxes(2, 3)
        return _symmetric(inverse @ H), _symmetric(Th * scale), Th

    def at_atoms(self, response: Response) -> tuple[Array, Array]:
        """Return S(lambda) and Th = (I + diag(R) H)^-1 of a response at the atoms (B,
        J, k, k).
        """
        if response.known:
            return response.known
        H = self.product * response.Vh1[:, None]
        _, S, Th = self._at_atoms(H, response.R)
        return S, Th

    def times_product(self, values: Array) -> Array:
        """Return PB_ij times values at the atoms and the packed pairs (i, j), (B, J, P,
        ...).
        """
        packed = packing(self.product.shape[-1])
        at_pairs = self.product[..., packed.rows, packed.columns, None]
        return np.asarray(at_pairs * values)

    def average(self, values: Array) -> Array:
        """Return int dmu of values at the atoms (B, J, ...)."""
        means: Array = np.einsum("j,bj...->b...", self.masses, values)
        return means

    def along_means(self, response: Response) -> AlongMeans:
        """Return Gt and Y of finite_size_steps (6.3), (6.4), without a division by
        B_q.
        """
        scale = np.einsum("...qq->...q", self.product)
        # an axis of points, where all points share the product
        scale = scale if scale.ndim == 3 else scale[None]
        Vh1 = response.Vh1[:, None]
        eye = np.eye(response.R.shape[1])
        mixing = eye + Vh1 * (scale * response.R[:, None, :])[:, :, None, :]
        return AlongMeans(
            masses=self.masses,
            G=solve_each(mixing, Vh1),
            Y=np.swapaxes(solve_each(mixing, eye), 2, 3),
            scale=scale,
        )


def _symmetric(matrices: Array) -> Array:
    """Return the matrices without what rounding makes asymmetric."""
    return 0.5 * (matrices + matrices.swapaxes(2, 3))


@dataclass
class CommonTangents(Tangents):
    """The derivative of the response, structured_inputs (4.8)."""

    bulk: CommonRows
    response: Response

    @cached_property
    def at_atoms(self) -> tuple[Array, Array]:
        """S(lambda) and Th at the atoms (B, J, k, k)."""
        return self.bulk.at_atoms(self.response)

    @cached_property
    def transfer(self) -> Array:
        """The matrix I - diag(R^2/beta_q) int G o G dmu, whose inverse carries a change
        of D to a change of R.
        """
        # the slope of the plain map R -> beta/(D + int G_qq dmu)
        weight = (self.response.R**2 / self.response.block_width)[:, :, None]
        eye = packing(weight.shape[1]).eye
        return eye - weight * self.bulk.average(self.response.g**2)

    @cached_property
    def matrix(self) -> Array:
        """-d(S, R)/d(Vh1, D) in packed coordinates (B, K, K), entry by entry at the
        atoms.

        With P = PB the pair (i, j) answers to the pair (a, b) by int P_ij P_ab S_ia
        S_jb dmu, and through R_l by int P_ij S_il S_jl dmu times that of R_l, which int
        P_ab Th_al Th_bl dmu drives.
        """
        S, Th = self.at_atoms
        R = self.response.R
        average = self.bulk.average
        times = self.bulk.times_product
        count, k = R.shape
        packed = packing(k)
        pairs = len(packed.rows)
        # Th_al Th_bl and S_il S_jl at the pairs (B, J, P, k)
        products_Th = Th.take(packed.rows, 2) * Th.take(packed.columns, 2)
        products_S = S.take(packed.rows, 2) * S.take(packed.columns, 2)
        driven = average(times(products_Th))
        answered = average(times(products_S))
        # P_ij P_ab S_ia S_jb: the product at the columns, then at the rows
        at_columns = times(packed_products(S)).swapaxes(2, 3)
        direct = average(times(at_columns).swapaxes(2, 3))
        drive = np.empty((count, k, pairs + k), S.dtype)
        # an entry off the diagonal of Vh1 is two
        drive[:, :, :pairs] = driven.swapaxes(1, 2) * packed.multiplicity[:pairs]
        # D_q drives R_q and no other
        drive[:, :, pairs:] = packed.eye
        squares = R[:, :, None] ** 2
        source = squares / self.response.block_width[:, :, None] * drive
        delta = solve_each(self.transfer, source)
        # S answers through R_l by S_il S_jl/R_l^2, and directly
        upper = answered @ (delta / squares)
        upper[:, :, :pairs] += direct
        return np.concatenate([upper, delta], axis=1)

    def apply(self, A: Array, e: Array) -> tuple[Array, Array]:
        """Return -d(S, R) along dVh1 = A, dD = e."""
        S, Th = self.at_atoms
        R = self.response.R
        average = self.bulk.average
        product = self.bulk.product
        inside = product * A[:, None]
        # diag(Th^T (P o A) Th): what dVh1 does to R, as a change of D
        driven = e + average(np.sum(Th * (inside @ Th), axis=2))
        source = R**2 / self.response.block_width * driven
        delta = solve_each(self.transfer, source[:, :, None])[:, :, 0]
        # S answers to dVh1 at fixed R, and to R
        scaled = S * (delta / R**2)[:, None, None, :]
        return average(product * (S @ inside @ S + scaled @ S)), delta
