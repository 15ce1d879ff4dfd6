"""The bulk that a sign step leaves behind: its variance depends on the coordinate
(sign_step section 5).

A sign step moves the coordinate i of neuron j by e_q S_ji/sqrt(d), S_ji the sign of
a_i + xi_ji. All neurons share a_i, and xi_ji is a neuron's own. Coordinates with the
same a_i are alike: they make a *cell*. Given the batch

    S = m + l xi + rest, Sigma_q = (I + e c2 D A)(I + e c2 A D) + (e^2 v/alpha0) D B D +
    e^2 diag(r2), D = diag(l),

sign_step (5.1), with A, B of spiked_features section 6. An infinite batch is alpha0 =
inf in the same equations.

Notation. With Dr = diag(R) (+) I the matrices of (5.2)-(5.3) are L = Dr^1/2 l Dr^1/2,
Y_c = Dr^1/2 y_c Dr^1/2, Z = Dr^-1/2 z Dr^-1/2, Gm = Dr^-1/2 gm Dr^-1/2, P_c = Dr^-1/2
p_c Dr^1/2; the lower-case ones, used here, depend on R only through z = R^1/2 Vh1 R^1/2
(+) -I:

    lh = l (I + gm l/alpha0)^-1,   yt = E_b[lh],   p_c = [l_c I, 0; I, I]
    y_c = (1 + e^2 r2_c) (+) 0 + p_c^T yt p_c
    n_c = (I + z y_c)^-1,   h_c = n_c z,   gm = sum_c mu_c p_c h_c p_c^T
    R_q D_q + sum_c mu_c (1 - n_c)_qq = beta_q                                    (5.3)
    S = beta V1 = R^1/2 [sum_c mu_c y_c n_c]_11 R^1/2

The channels of the features are t, psi, y, as after a plain step; `g` of a response is
gm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.maths.small_matrices import small_inverse, small_product
from giantstep.core.maths.solve import solve_each
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.features import packing
from giantstep.core.readout.newton_bulk import (
    Inside,
    Motion,
    MotionTangents,
    NewtonBulk,
    packed_directions,
    pair_operator,
    real_root,
)
from giantstep.core.readout.sign_signal import SignSignal

COMPLEX_STEP = 1e-30
"""Imaginary part, relative to one, that a derivative is read from: its square is below
rounding.
"""


@dataclass(frozen=True)
class Cells(Stacked):
    """Coordinates that are alike, (B, C) each: functions of a on C cells, sign_step
    (2.3) and (5.6)-(5.7).
    """

    mass: Floats
    target: Floats
    """Mean of the target's coordinate, in units of its root mean square."""
    unseen: Floats
    """Variance of the target's coordinate inside a cell, which a does not see."""
    pull: Floats
    """a/c1: the coordinate of sqrt(d) X0^T rho/n0."""
    mean: Floats
    """m = E S."""
    slope: Floats
    """l = E dS/dxi."""
    rest: Floats
    """r2, the variance of S - m - l xi."""
    by_scale: Floats
    """kap: how m moves with the squared length of xi."""
    second: Floats
    """l2 = E He_2(x) S, x the coordinate of the initial row."""
    own: Floats
    """What xi has in y beside l times its mean: 2 (B/tau^2) h2."""
    noise: Floats
    """vN: variance of the sampling noise of y."""
    noise_rest: Floats
    """cN: its covariance with the rest of S."""
    radial: Floats
    """l3 + 2 l1: its covariance with x^2 - 1."""


@dataclass(frozen=True)
class SignBulk(NewtonBulk):
    """What a sign step leaves behind, for B points with k blocks."""

    cells: Cells
    per_sample: Floats  # (B,): 1/alpha0
    strength: Floats  # (B, k): e_q = rate sign(zeta_q)
    bend: Floats  # (B,): c2
    excess: Floats  # (B,): v
    nodes: Floats  # (B, J): residuals rho
    weights: Floats  # (B, 3, J): weights of F(rho), s F(rho), s^2 F(rho)
    power: Floats  # (B,): M2 = E rho^2
    linear: Floats  # (B,): g1 = E s rho
    gamma: Floats  # (B,)
    common: Floats  # (B, 2, 2): Vcom of (5.5)
    carried: Floats  # (B, 2, J): fl_12, fl_22 of (5.4) at the nodes
    received: Floats  # (B, 2, J): fy_12, fy_22
    mean_in_length: Floats  # (B, k): what a function m has in the probe y, -2 e_q
    noise_in_length: Floats  # (B, k): nu of the probe y, 2 e_q
    common_in_length: Floats  # (B, k, 2): lam of the probe y beside that of its m
    row_norm: Floats  # (B, k): s_q^2

    chunk: ClassVar[int] = 16
    max_steps: ClassVar[int] = 200
    stack_key: ClassVar[object] = "sign"

    @classmethod
    def stack(cls, bulks: Sequence[SignBulk], set_of_point: Integers) -> SignBulk:
        """Return the bulk of points that have ``bulks[set_of_point[b]]``, each of one
        set.
        """
        return cls.join(bulks).take(set_of_point)

    @property
    def size(self) -> int:
        """2k, the size of the matrices."""
        return 2 * self.strength.shape[1]

    @cached_property
    def ladder(self) -> Array:
        """The matrices l at every node (B, J, 2k, 2k), (5.2)."""
        count, k = self.strength.shape
        l = np.zeros((count, self.nodes.shape[1], 2 * k, 2 * k))
        q = np.arange(k)
        rho = self.nodes[:, :, None]
        # R_q and sqrt(R_q) of the page are scaled out
        of_t = self.strength**2 * (self.excess * self.per_sample)[:, None]
        between = (self.strength * self.bend[:, None])[:, None] * rho
        l[:, :, q, q] = of_t[:, None] * rho**2
        l[:, :, q, k + q] = between
        l[:, :, k + q, q] = between
        return l

    @cached_property
    def transfer(self) -> Array:
        """The matrices p of every cell (B, C, 2k, 2k)."""
        k = self.strength.shape[1]
        p = np.zeros((*self.cells.mass.shape, 2 * k, 2 * k))
        q = np.arange(k)
        p[:, :, q, q] = self.cells.slope[:, :, None]
        # the batch sees t through l and through s, which it sees itself as well
        p[:, :, k + q, q] = 1.0
        p[:, :, k + q, k + q] = 1.0
        return p

    # -- the inner equations -----------------------------------------------------------

    def start(self, a: Array, block_width: Floats) -> Response:
        """Return a start without gm: `solve` guesses it, knowing Vh1."""
        # NaN is how `solve` knows a cold start
        unknown = np.full((len(a), self.size, self.size), np.nan)
        return Response.at_zero(a, block_width, unknown)

    def guess(self, inside: Inside) -> tuple[Array, Array]:
        """Return where a cold solve starts, (5.3)."""
        k = inside.D.shape[1]
        Vh1_of_block = np.einsum("bqq->bq", inside.Vh1)
        R = inside.block_width / (inside.D + Vh1_of_block * self.row_norm)
        root = np.sqrt(np.abs(R))
        # gm = z/2
        gm = np.zeros((len(R), 2 * k, 2 * k), R.dtype)
        gm[:, range(k, 2 * k), range(k, 2 * k)] = -0.5
        gm[:, :k, :k] = 0.5 * root[:, :, None] * inside.Vh1 * root[:, None, :]
        return gm, R

    def motion(self, g: Array, R: Array, inside: Inside) -> Motion:
        """Evaluate (5.3) at (gm, R) and linearise it; the plain map goes half a
        step.
        """
        pencil = SignPencil.at(self, g, R, inside.Vh1)
        count, k = R.shape
        square = self.size**2
        # the packed directions of (Vh1, D), then Newton's step, by one factorisation
        dVh1 = packed_directions(k)
        dz = np.zeros(
            (count, len(dVh1) + 1, self.size, self.size), np.result_type(pencil.n, R)
        )
        dz[:, :-1, :k, :k] = pencil.scale[:, None] * dVh1
        missed = pencil.missed(R, inside.D, inside.block_width)
        right = pencil.right_sides(dz, R, missed)
        change = solve_each(pencil.jacobian(R, inside.D), right)
        dgm = change[:, :square]
        dlog = np.swapaxes(change[:, square:], 1, 2)
        # z moves with Vh1 at fixed R so far, and with log R
        dz = dz + np.einsum("baq,bqmn->bamn", dlog, pencil.scalings)
        ds = pencil.moved_s(dgm, dz)
        S = pencil.response
        # each of the two roots of S = R^1/2 s R^1/2 brings half of the change of log R
        twice_log = dlog[..., None] + dlog[:, :, None]
        dS = pencil.scale[:, None] * ds[:, :, :k, :k] + 0.5 * twice_log * S[:, None]
        # damped by one half, as section 7 does for the spectrum
        plain_R = 0.5 * (R + inside.block_width / (inside.D + pencil.gap / R))
        return Motion(
            size=pencil.mismatch(R, inside.D, inside.block_width),
            plain_g=0.5 * (g + pencil.next_gm),
            plain_R=plain_R,
            S=S,
            dg=dgm.swapaxes(1, 2).reshape(dz.shape),
            dlog=dlog,
            dR=dlog * R[:, None],
            dS=0.5 * (dS + np.swapaxes(dS, 2, 3)),
        )

    def tangents(self, response: Response) -> SignTangents:
        """Return how (gm, R) and S move with Vh1 and D."""
        return SignTangents(response, self.motion_of(response), self)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P of (5.10), which has counted the directions t and psi as the rest of
        the bulk: Vh1 each.
        """
        count, k = response.R.shape
        X = 3 * k
        t = slice(0, k)
        psi = slice(k, 2 * k)
        absorbed = np.zeros((count, X, X), response.Vh1.dtype)
        absorbed[:, t, t] = response.Vh1
        absorbed[:, psi, psi] = response.Vh1
        pencil = SignPencil.at(self, response.g, response.R, response.Vh1)
        # P = R^1/2 p R^1/2, with the sign of R outside the bulk of a spectrum
        roots = np.tile(pencil.root, (1, 3))
        each = np.broadcast_to(np.eye(X), (count, X, X))
        P = SignSignal.at(pencil).form(each)
        P = pencil.sign[:, :, None] * roots[:, :, None] * P * roots[:, None, :]
        return P, absorbed


@dataclass
class SignPencil:
    """The matrices of (5.3) at given gm, R, Vh1."""

    bulk: SignBulk
    gm: Array  # (B, 2k, 2k)
    root: Array  # |R|^1/2 (B, k)
    sign: Array  # (B, 1)
    z: Array  # (B, 2k, 2k)
    lh: Array  # (B, J, 2k, 2k)
    yt: Array  # (B, 2k, 2k)
    y: Array  # (B, C, 2k, 2k)
    n: Array  # (B, C, 2k, 2k)
    h: Array  # (B, C, 2k, 2k)

    @classmethod
    def at(cls, bulk: SignBulk, gm: Array, R: Array, Vh1: Array) -> SignPencil:
        """Evaluate the matrices."""
        k = R.shape[1]
        root, sign = real_root(R)
        sign = sign[:, None]
        z = np.zeros((len(R), bulk.size, bulk.size), np.result_type(R, Vh1))
        z[:, :k, :k] = sign[:, :, None] * root[:, :, None] * Vh1 * root[:, None, :]
        s_fields = range(k, bulk.size)
        z[:, s_fields, s_fields] = -1.0
        lh = _answering(bulk, gm)
        yt = np.einsum("bj,bjmn->bmn", bulk.weights[:, 0], lh)
        p = bulk.transfer
        y = small_product(small_product(np.swapaxes(p, 2, 3), yt[:, None]), p)
        # what a coordinate has beside the batch: its initial row and the rest of S
        q = np.arange(k)
        y[:, :, q, q] += 1 + bulk.strength[:, None] ** 2 * bulk.cells.rest[:, :, None]
        n = small_inverse(np.eye(bulk.size) + small_product(z[:, None], y))
        h = small_product(n, z[:, None])
        return cls(
            bulk=bulk, gm=gm, root=root, sign=sign, z=z, lh=lh, yt=yt, y=y, n=n, h=h
        )

    @property
    def scale(self) -> Array:
        """What turns a scaled matrix of t into that of the page: sign(R) |R_q|^1/2
        |R_q'|^1/2 (B, k, k).
        """
        return self.sign[:, :, None] * self.root[:, :, None] * self.root[:, None, :]

    @property
    def response(self) -> Array:
        """S = beta V1 (B, k, k)."""
        k = self.blocks
        S = self.scale * self.over_cells(self.s)[:, :k, :k]
        # symmetric but for rounding
        return 0.5 * (S + np.swapaxes(S, 1, 2))

    @property
    def blocks(self) -> int:
        """Number of blocks k."""
        return self.root.shape[1]

    @cached_property
    def ph(self) -> Array:
        """Matrices p h (B, C, 2k, 2k)."""
        return small_product(self.bulk.transfer, self.h)

    @cached_property
    def pn(self) -> Array:
        """Matrices p n (B, C, 2k, 2k)."""
        return small_product(self.bulk.transfer, self.n)

    @cached_property
    def image(self) -> Array:
        """Matrices p h p^T (B, C, 2k, 2k)."""
        return small_product(self.ph, np.swapaxes(self.bulk.transfer, 2, 3))

    @cached_property
    def s(self) -> Array:
        """Matrices y n (B, C, 2k, 2k)."""
        return small_product(self.y, self.n)

    @cached_property
    def next_gm(self) -> Array:
        """The right-hand side of the equation for gm."""
        return self.over_cells(self.image)

    @cached_property
    def gap(self) -> Array:
        """sum_c mu_c (1 - n_c)_qq (B, k)."""
        k = self.blocks
        mass = self.bulk.cells.mass
        diagonal = np.einsum("bcqq->bcq", self.n[:, :, :k, :k])
        # masses sum to 1 but for rounding, which the difference must not see
        total = mass.sum(axis=1)[:, None]
        return total - np.einsum("bc,bcq->bq", mass, diagonal)

    def over_cells(self, matrices: Array) -> Array:
        """Return sum_c mu_c of matrices (B, C, ., .)."""
        flat = matrices.reshape(*matrices.shape[:2], -1)
        return (self.bulk.cells.mass[:, None] @ flat).reshape(-1, *matrices.shape[2:])

    def mismatch(self, R: Array, D: Array, block_width: Floats) -> Floats:
        """Return how far (gm, R) is from a solution, relative (B,)."""
        of_R = np.max(np.abs(R * D + self.gap - block_width) / block_width, axis=1)
        if not np.any(self.bulk.per_sample):
            # nothing depends on gm after an infinite batch
            return np.asarray(of_R)
        scale = 1 + np.max(np.abs(self.gm), axis=(1, 2))
        of_gm = np.max(np.abs(self.gm - self.next_gm), axis=(1, 2)) / scale
        return np.maximum(of_R, of_gm)

    # -- linearisation -----------------------------------------------------------------

    @cached_property
    def batch_pairs(self) -> Array:
        """The matrix of dgm -> E_b[lh dgm lh]/alpha0 = -dyt on flattened matrices."""
        weights = self.bulk.weights[:, 0] * self.bulk.per_sample[:, None]
        return pair_operator(weights, self.lh, self.lh)

    @cached_property
    def cell_pairs(self) -> Array:
        """The matrix of dyt -> sum_c mu_c (p h p^T) dyt (p h p^T)."""
        return pair_operator(self.bulk.cells.mass, self.image, self.image)

    @cached_property
    def turned(self) -> Array:
        """The matrix of dz -> sum_c mu_c (p n) dz (p n)^T, on flattened matrices; its
        transpose is that of dyt.
        """
        return pair_operator(self.bulk.cells.mass, self.pn, np.swapaxes(self.pn, 2, 3))

    @cached_property
    def diagonal_of_yt(self) -> Array:
        """The matrix (B, k, 4k^2) of dyt -> sum_c mu_c (h p^T dyt p n)_qq."""
        k = self.blocks
        weighted = self.bulk.cells.mass[:, :, None, None] * self.ph[..., :k]
        diagonal = np.einsum("bcaq,bceq->bqae", weighted, self.pn[..., :k])
        return diagonal.reshape(len(self.root), k, -1)

    @cached_property
    def diagonal_of_z(self) -> Array:
        """The matrix (B, k, 4k^2) of dz -> sum_c mu_c (n dz y n)_qq."""
        k = self.blocks
        weighted = self.bulk.cells.mass[:, :, None, None] * self.n[:, :, :k]
        diagonal = np.einsum("bcqa,bceq->bqae", weighted, self.s[..., :k])
        return diagonal.reshape(len(self.root), k, -1)

    @cached_property
    def scalings(self) -> Array:
        """Change dz of z with log R_q, rows and columns by one half each (B, k, 2k,
        2k).
        """
        k = self.blocks
        dz = np.zeros((len(self.root), k, *self.z.shape[1:]), self.z.dtype)
        for q in range(k):
            dz[:, q, q, :k] += 0.5 * self.z[:, q, :k]
            dz[:, q, :k, q] += 0.5 * self.z[:, :k, q]
        return dz

    def jacobian(self, R: Array, D: Array) -> Array:
        """Return the Jacobian of gm - next_gm and R_q D_q + gap_q in (gm, log R)."""
        count, k = R.shape
        square = self.bulk.size**2
        scalings = self.scalings.reshape(count, k, square).swapaxes(1, 2)
        matrix = np.zeros((count, square + k, square + k), np.result_type(self.n, R))
        # gm moves yt by -batch_pairs, and yt moves the cells
        of_gm = self.cell_pairs @ self.batch_pairs
        matrix[:, :square, :square] = np.eye(square) - of_gm
        matrix[:, :square, square:] = -self.turned @ scalings
        matrix[:, square:, :square] = -self.diagonal_of_yt @ self.batch_pairs
        matrix[:, square:, square:] = self.diagonal_of_z @ scalings
        q = np.arange(k)
        # R_q D_q moves by itself with log R_q
        matrix[:, square + q, square + q] += R * D
        return matrix

    def missed(self, R: Array, D: Array, block_width: Floats) -> Array:
        """Return by how much the equations for (gm, R) are missed (B, 4k^2 + k)."""
        of_gm = (self.next_gm - self.gm).reshape(len(R), -1)
        of_R = block_width - R * D - self.gap
        return np.concatenate([of_gm, of_R], axis=1)

    def right_sides(self, dz: Array, R: Array, missed: Array) -> Array:
        """Return what the Jacobian is solved for, one column for each direction A of dz
        (B, A, 2k, 2k): (B, 4k^2 + k, A).

        The last direction is Newton's step; those of D, which leave z alone, are the k
        before it.
        """
        count, directions, size, _ = dz.shape
        k = self.blocks
        square = size**2
        flat = dz.reshape(count, directions, square).swapaxes(1, 2)
        right = np.concatenate(
            [self.turned @ flat, -(self.diagonal_of_z @ flat)], axis=1
        )
        q = np.arange(k)
        of_D = directions - 1 - k + q
        # R_q D_q moves by R_q with D_q
        right[:, square + q, of_D] -= R
        right[:, :, -1] = missed
        return right

    def moved_s(self, dgm: Array, dz: Array) -> Array:
        """Return how sum_c mu_c y_c n_c moves (B, A, 2k, 2k), with gm (B, 4k^2, A) and
        z (B, A, 2k, 2k).
        """
        count, directions, size, _ = dz.shape
        # y n moves with y by the transpose of `turned`, and with z by -s dz s
        minus_dyt = self.batch_pairs @ dgm
        by_y = np.swapaxes(self.turned, 1, 2) @ minus_dyt
        between = pair_operator(self.bulk.cells.mass, self.s, self.s)
        flat = dz.reshape(count, directions, size * size).swapaxes(1, 2)
        by_z = between @ flat
        ds = -by_y.swapaxes(1, 2).reshape(dz.shape)
        return ds - by_z.swapaxes(1, 2).reshape(dz.shape)


def _answering(bulk: SignBulk, gm: Array) -> Array:
    """Return lh = l (I + gm l/alpha0)^-1 at every node (B, J, 2k, 2k)."""
    if not np.any(bulk.per_sample):
        # an infinite batch does not answer
        return bulk.ladder
    inner = (gm * bulk.per_sample[:, None, None])[:, None]
    mixing = np.eye(bulk.size) + small_product(inner, bulk.ladder)
    return small_product(bulk.ladder, small_inverse(mixing))


@dataclass
class SignTangents(MotionTangents):
    """How the inner solution moves with Vh1 and D."""

    bulk: SignBulk

    def push(
        self, omega: Floats, x: Floats, dual: Floats, penalty: Floats
    ) -> tuple[Array, Array]:
        """Return -dE of spiked_features section 6.3: E moves by dual^T dP dual + t^T
        dVh1 t + psi^T dVh1 psi + sum penalty dR/R^2.
        """
        response = self.response
        motion = self.motion
        count, k = response.R.shape
        packed = packing(k)
        dVh1 = packed_directions(k)
        # the last direction is Newton's step, which is no change of (Vh1, D)
        dR = motion.dR[:, :-1]
        dE = self._moved_form(dual, dVh1)
        # t and psi: Vh1 asks for nothing along y
        along = x[:, : 2 * k].reshape(count, 2, k)
        dE += np.einsum("aij,bui,buj->ba", dVh1, along, along)
        per_R = (penalty / response.R**2)[:, :, None]
        dE += (dR @ per_R)[:, :, 0]
        return packed.unpack(-dE / packed.multiplicity)

    def _moved_form(self, dual: Floats, dVh1: Floats) -> Floats:
        """Return how dual^T P dual moves along the packed directions (B, A), by a
        complex step: one form for each direction of each point.
        """
        response = self.response
        motion = self.motion
        count = len(response.R)
        directions = len(dVh1)
        tiny = 1j * COMPLEX_STEP

        def moved(value: Array, change: Array) -> Array:
            return (value[:, None] + tiny * change).reshape(-1, *value.shape[1:])

        each_direction = np.broadcast_to(dVh1, (count, *dVh1.shape))
        pencil = SignPencil.at(
            bulk=self.bulk.take(np.repeat(np.arange(count), directions)),
            gm=moved(response.g, motion.dg[:, :-1]),
            R=moved(response.R, motion.dR[:, :-1]),
            Vh1=moved(response.Vh1, each_direction),
        )
        # R^1/2 moves too, so that it belongs to the probe
        probe = np.repeat(dual, directions, axis=0) * np.tile(pencil.root, (1, 3))
        form = SignSignal.at(pencil).form(probe[:, None])[:, 0, 0]
        E = pencil.sign[:, 0] * form
        return E.imag.reshape(count, directions) / COMPLEX_STEP
