"""The bulk that a sign step leaves behind: its variance depends on the coordinate (sign_step section 5).

A sign step moves the coordinate i of neuron j by e_q S_ji/sqrt(d), S_ji the sign of a_i + xi_ji. All neurons share
a_i, and xi_ji is a neuron's own. Coordinates with the same a_i are alike: they make a *cell*. Given the batch

    S = m + l xi + rest,   Sigma_q = (I + e c2 D A)(I + e c2 A D) + (e^2 v/alpha0) D B D + e^2 diag(r2),   D = diag(l),

sign_step (5.1), with A, B of spiked_features section 6. An infinite batch is alpha0 = inf in the same equations.

Notation. With Dr = diag(R) (+) I the matrices of (5.2)-(5.3) are L = Dr^1/2 l Dr^1/2, Y_c = Dr^1/2 y_c Dr^1/2,
Z = Dr^-1/2 z Dr^-1/2, Gm = Dr^-1/2 gm Dr^-1/2, P_c = Dr^-1/2 p_c Dr^1/2; the lower-case ones, used here, depend on
R only through z = R^1/2 Vh1 R^1/2 (+) -I:

    lh = l (I + gm l/alpha0)^-1,   yt = E_b[lh],   y_c = (1 + e^2 r2_c) (+) 0 + p_c^T yt p_c,   p_c = [l_c I, 0; I, I]
    n_c = (I + z y_c)^-1,   h_c = n_c z,   gm = sum_c mu_c p_c h_c p_c^T
    R_q D_q + sum_c mu_c (1 - n_c)_qq = beta_q,   S = beta V1 = R^1/2 [sum_c mu_c y_c n_c]_11 R^1/2             (5.3)

The channels of the features are t, psi, y, as after a plain step; `g` of a response is gm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from giantstep.readout.bulk import Response
from giantstep.readout.chain import packed_directions
from giantstep.readout.features import packing
from giantstep.readout.finite_size import AlongMeans
from giantstep.readout.sign_signal import SignSignal
from giantstep.readout.small import small_inverse, small_product
from giantstep.readout.stacked import Stacked
from giantstep.solve import solve_each
from giantstep.types import Array, Floats

MAX_STEPS, PROBE_STEPS = 200, 15
PATIENCE = 6
"""Plain steps after a Newton step that failed."""
NEAR = 1e-2
"""Mismatch from which one more Newton step is good enough for `near`."""
COMPLEX_STEP = 1e-30
"""Imaginary part, relative to one, that a derivative is read from: its square is below rounding."""


@dataclass(frozen=True)
class Cells(Stacked):
    """Coordinates that are alike, (B, C) each: functions of a on C cells, sign_step (2.3) and (5.6)-(5.7)."""

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
class SignBulk(Stacked):
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
    packed_only: ClassVar[bool] = True
    edge_margin: ClassVar[float] = 1e-3
    derived: ClassVar[tuple[str, ...]] = ("ladder", "transfer")

    def columns(self, count: int) -> Floats:
        """Return what tells parameter sets apart, (B, 2k + 2)."""
        one = [self.per_sample[:, None], self.power[:, None], self.strength, self.row_norm]
        return np.concatenate(one, axis=1)

    @property
    def size(self) -> int:
        """2k, the size of the matrices."""
        return 2 * self.strength.shape[1]

    @cached_property
    def ladder(self) -> Array:
        """The matrices l at every node (B, J, 2k, 2k), (5.2)."""
        count, k = self.strength.shape
        l = np.zeros((count, self.nodes.shape[1], 2 * k, 2 * k))
        q, rho = np.arange(k), self.nodes[:, :, None]
        l[:, :, q, q] = (self.strength**2 * (self.excess * self.per_sample)[:, None])[:, None] * rho**2
        l[:, :, q, k + q] = l[:, :, k + q, q] = (self.strength * self.bend[:, None])[:, None] * rho
        return l

    @cached_property
    def transfer(self) -> Array:
        """The matrices p of every cell (B, C, 2k, 2k)."""
        k = self.strength.shape[1]
        p = np.zeros((*self.cells.mass.shape, 2 * k, 2 * k))
        q = np.arange(k)
        p[:, :, q, q] = self.cells.slope[:, :, None]
        p[:, :, k + q, q] = p[:, :, k + q, k + q] = 1.0
        return p

    # -- the inner equations ---------------------------------------------------------------------------------------

    def start(self, a: Array, block_width: Floats) -> Response:
        """Return a start without gm: `solve` guesses it, knowing Vh1."""
        return Response.at_zero(a, block_width, np.full((len(a), self.size, self.size), np.nan))

    def solve(
        self, Vh1: Array, D: Array, block_width: Floats, start: Response, probe: bool = False, near: bool = False
    ) -> Response:
        """Solve the inner equations by Newton; with `near` one step from the start, where it is close enough."""
        gm, R = np.array(start.g, np.result_type(D, start.g)), np.array(start.R)
        cold = np.isnan(gm).any(axis=(1, 2))
        if cold.any():
            gm[cold], R[cold] = self.take(cold)._guess(Vh1[cold], D[cold], block_width[cold])
        steps = PROBE_STEPS if probe else MAX_STEPS
        gm, R = self._iterate(Vh1, D, block_width, gm, R, steps, NEAR if near else 0.0)
        lost = ~np.isfinite(R).all(axis=1) & ~cold & (not probe)
        if lost.any():
            part, inside = self.take(lost), (Vh1[lost], D[lost], block_width[lost])
            gm[lost], R[lost] = part._iterate(*inside, *part._guess(*inside), steps)
        motion = Motion.at(self, gm, R, Vh1, D, block_width)
        return motion.carry(Response(R, motion.S, gm, Vh1, D, block_width))

    def _guess(self, Vh1: Array, D: Array, block_width: Floats) -> tuple[Array, Array]:
        """Return where a cold solve starts, (5.3)."""
        k = D.shape[1]
        R = block_width / (D + np.einsum("bqq->bq", Vh1) * self.row_norm)
        root = np.sqrt(np.abs(R))
        gm = np.zeros((len(R), 2 * k, 2 * k), R.dtype)
        gm[:, range(k, 2 * k), range(k, 2 * k)] = -0.5
        gm[:, :k, :k] = 0.5 * root[:, :, None] * Vh1 * root[:, None, :]
        return gm, R

    def _iterate(
        self, Vh1: Array, D: Array, block_width: Floats, gm: Array, R: Array, steps: int, enough: float = 0.0
    ) -> tuple[Array, Array]:
        """Solve for (gm, R) by Newton; a step that makes the mismatch grow is taken back, plain ones follow it."""
        gm, R = np.array(gm), np.array(R)
        safe_gm, safe_R = gm.copy(), R.copy()
        last, patience = np.full(len(R), np.inf), np.zeros(len(R), dtype=np.int64)
        active = np.arange(len(R))
        for _ in range(steps):
            bulk = self if len(active) == len(R) else self.take(active)
            inside = Vh1[active], D[active], block_width[active]
            pencil = SignPencil.at(bulk, gm[active], R[active], inside[0])
            size = pencil.mismatch(R[active], inside[1], inside[2])
            worse = ~(size < 2 * last[active]) & (patience[active] == 0)
            done = (size < max(1e-14, enough)) | ((size < 1e-11) & (size > 0.3 * last[active]))
            plain_R = inside[2] / (inside[1] + pencil.gap / R[active])
            plain_gm = 0.5 * (pencil.gm + pencil.next_gm)
            plain_R = 0.5 * (R[active] + plain_R)
            next_gm, next_R = pencil.newton(R[active], inside[1], inside[2])
            plain = (patience[active] > 0) | ~np.isfinite(next_R).all(axis=1)
            next_gm[plain], next_R[plain] = plain_gm[plain], plain_R[plain]
            next_gm[worse], next_R[worse] = safe_gm[active[worse]], safe_R[active[worse]]
            fine = active[~worse]
            safe_gm[fine], safe_R[fine] = plain_gm[~worse], plain_R[~worse]
            patience[active] = np.where(worse, PATIENCE, np.maximum(patience[active] - 1, 0))
            last[active] = np.where(worse, np.inf, size)
            moving = active[~done]
            gm[moving], R[moving] = next_gm[~done], next_R[~done]
            active = moving
            if active.size == 0:
                break
        return gm, R

    def along_means(self, response: Response) -> AlongMeans:
        """Nothing is known of the means after a sign step: those of independent rows stand."""
        raise NotImplementedError

    def tangents(self, response: Response) -> SignTangents:
        """Return how (gm, R) and S move with Vh1 and D."""
        motion: Motion | None = response.__dict__.get("motion")
        if motion is None:
            motion = Motion.at(self, response.g, response.R, response.Vh1, response.D, response.block_width)
        return SignTangents(self, response, motion)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P of (5.10), which has counted the directions t and psi as the rest of the bulk: Vh1 each."""
        k = response.R.shape[1]
        absorbed = np.zeros((len(response.R), 3 * k, 3 * k))
        absorbed[:, :k, :k] = absorbed[:, k : 2 * k, k : 2 * k] = response.Vh1
        pencil = SignPencil.at(self, response.g, response.R, response.Vh1)
        roots = np.tile(pencil.root, (1, 3))
        P = SignSignal.at(pencil).form(np.broadcast_to(np.eye(3 * k), (len(roots), 3 * k, 3 * k)))
        return pencil.sign[:, :, None] * roots[:, :, None] * P * roots[:, None, :], absorbed


@dataclass
class SignPencil:
    """The matrices of (5.3) at given gm, R, Vh1."""

    bulk: SignBulk
    gm: Array
    root: Array  # R^1/2 (B, k)
    sign: Array  # (B, 1)
    z: Array
    lh: Array  # (B, J, 2k, 2k)
    yt: Array
    y: Array  # (B, C, 2k, 2k)
    n: Array
    h: Array

    @classmethod
    def at(cls, bulk: SignBulk, gm: Array, R: Array, Vh1: Array) -> SignPencil:
        """Evaluate the matrices."""
        k, size = R.shape[1], bulk.size
        if np.iscomplexobj(R) and np.any(np.abs(R.imag) > 1e-8 * np.abs(R)):
            root, sign = np.sqrt(R), np.ones((len(R), 1))
        else:  # all R have one sign outside the bulk: keep the roots real (or their complex-step neighbours)
            sign = np.sign(R.real[:, :1])
            root = np.sqrt(sign * R)
        z = np.zeros((len(R), size, size), np.result_type(R, Vh1))
        z[:, :k, :k] = sign[:, :, None] * root[:, :, None] * Vh1 * root[:, None, :]
        z[:, range(k, size), range(k, size)] = -1.0
        eye = np.eye(size)
        if np.any(bulk.per_sample):
            response = small_product((gm * bulk.per_sample[:, None, None])[:, None], bulk.ladder)
            lh = small_product(bulk.ladder, small_inverse(eye + response))
        else:
            lh = bulk.ladder
        yt = np.einsum("bj,bjmn->bmn", bulk.weights[:, 0], lh)
        p = bulk.transfer
        y = small_product(small_product(np.swapaxes(p, 2, 3), yt[:, None]), p)
        q = np.arange(k)
        y[:, :, q, q] += 1 + bulk.strength[:, None] ** 2 * bulk.cells.rest[:, :, None]
        n = small_inverse(eye + small_product(z[:, None], y))
        return cls(bulk, gm, root, sign, z, lh, yt, y, n, small_product(n, z[:, None]))

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
        diagonal = np.einsum("bcqq->bcq", self.n[:, :, : self.blocks, : self.blocks])
        return self.bulk.cells.mass.sum(axis=1)[:, None] - np.einsum("bc,bcq->bq", self.bulk.cells.mass, diagonal)

    def over_cells(self, matrices: Array) -> Array:
        """Return sum_c mu_c of matrices (B, C, ., .)."""
        flat = matrices.reshape(*matrices.shape[:2], -1)
        return (self.bulk.cells.mass[:, None] @ flat).reshape(-1, *matrices.shape[2:])

    def mismatch(self, R: Array, D: Array, block_width: Floats) -> Floats:
        """Return how far (gm, R) is from a solution, relative (B,)."""
        of_R = np.max(np.abs(R * D + self.gap - block_width) / block_width, axis=1)
        if not np.any(self.bulk.per_sample):
            return np.asarray(of_R)
        scale = 1 + np.max(np.abs(self.gm), axis=(1, 2))
        return np.maximum(of_R, np.max(np.abs(self.gm - self.next_gm), axis=(1, 2)) / scale)

    # -- linearisation ---------------------------------------------------------------------------------------------

    @cached_property
    def batch_pairs(self) -> Array:
        """The matrix of dgm -> E_b[lh dgm lh]/alpha0 = -dyt on flattened matrices."""
        weights = self.bulk.weights[:, 0] * self.bulk.per_sample[:, None]
        return _pairs(weights, self.lh, self.lh)

    @cached_property
    def cell_pairs(self) -> Array:
        """The matrix of dyt -> sum_c mu_c (p h p^T) dyt (p h p^T)."""
        return _pairs(self.bulk.cells.mass, self.image, self.image)

    @cached_property
    def turned(self) -> Array:
        """The matrix of dz -> sum_c mu_c (p n) dz (p n)^T, on flattened matrices."""
        return _pairs(self.bulk.cells.mass, self.pn, np.swapaxes(self.pn, 2, 3))

    @cached_property
    def back(self) -> Array:
        """The matrix of dyt -> sum_c mu_c (p n)^T dyt (p n)."""
        return np.swapaxes(self.turned, 1, 2)

    @cached_property
    def diagonal_of_yt(self) -> Array:
        """The matrix (B, k, 4k^2) of dyt -> sum_c mu_c (h p^T dyt p n)_qq."""
        k, count = self.blocks, len(self.root)
        weighted = self.bulk.cells.mass[:, :, None, None] * self.ph[..., :k]
        return np.einsum("bcaq,bceq->bqae", weighted, self.pn[..., :k]).reshape(count, k, -1)

    @cached_property
    def diagonal_of_z(self) -> Array:
        """The matrix (B, k, 4k^2) of dz -> sum_c mu_c (n dz y n)_qq."""
        k, count = self.blocks, len(self.root)
        weighted = self.bulk.cells.mass[:, :, None, None] * self.n[:, :, :k]
        return np.einsum("bcqa,bceq->bqae", weighted, self.s[..., :k]).reshape(count, k, -1)

    @cached_property
    def scalings(self) -> Array:
        """Change dz of z with log R_q, rows and columns by one half each (B, k, 2k, 2k)."""
        k = self.blocks
        dz = np.zeros((len(self.root), k, *self.z.shape[1:]), self.z.dtype)
        for q in range(k):
            dz[:, q, q, :k] += 0.5 * self.z[:, q, :k]
            dz[:, q, :k, q] += 0.5 * self.z[:, :k, q]
        return dz

    def jacobian(self, R: Array, D: Array) -> Array:
        """Return the Jacobian of gm - next_gm and R_q D_q + gap_q in (gm, log R)."""
        (count, k), square = R.shape, self.bulk.size**2
        scalings = self.scalings.reshape(count, k, square).swapaxes(1, 2)
        matrix = np.zeros((count, square + k, square + k), np.result_type(self.n, R))
        matrix[:, :square, :square] = np.eye(square) - self.cell_pairs @ self.batch_pairs
        matrix[:, :square, square:] = -self.turned @ scalings
        matrix[:, square:, :square] = -self.diagonal_of_yt @ self.batch_pairs
        matrix[:, square:, square:] = self.diagonal_of_z @ scalings
        q = np.arange(k)
        matrix[:, square + q, square + q] += R * D
        return matrix

    def newton(self, R: Array, D: Array, block_width: Floats) -> tuple[Array, Array]:
        """Return the Newton iterate of (gm, R); R is NaN where the step is too long to be trusted."""
        count, k = R.shape
        wrong = R * D + self.gap - block_width
        right = np.concatenate([(self.next_gm - self.gm).reshape(count, -1), -wrong], axis=1)
        change = solve_each(self.jacobian(R, D), right[:, :, None])[:, :, 0]
        step = change[:, -k:]
        trusted = np.max(np.abs(step), axis=1) < 1
        return self.gm + change[:, :-k].reshape(self.gm.shape), np.where(trusted[:, None], R * (1 + step), np.nan)


def _pairs(weights: Array, left: Array, right: Array) -> Array:
    """Return the matrix of X -> sum_n weights_n left_n X right_n on flattened X, (B, M^2, M^2)."""
    count, nodes, size, _ = left.shape
    flat_left = (left * weights[:, :, None, None]).reshape(count, nodes, -1)
    products = np.swapaxes(flat_left, 1, 2) @ right.reshape(count, nodes, -1)  # [(a, c), (d, b)]
    products = products.reshape(count, size, size, size, size)
    return products.transpose(0, 1, 4, 2, 3).reshape(count, size * size, size * size)


@dataclass
class Motion(Stacked):
    """How an inner solution moves along the K packed directions of (Vh1, D), and last by Newton's step."""

    S: Array  # (B, k, k)
    dgm: Array  # (B, K + 1, 2k, 2k)
    dR: Array  # (B, K + 1, k)
    dS: Array  # (B, K + 1, k, k)

    @classmethod
    def at(cls, bulk: SignBulk, gm: Array, R: Array, Vh1: Array, D: Array, block_width: Floats) -> Motion:
        """Linearise at (gm, R); one factorisation serves all directions."""
        pencil = SignPencil.at(bulk, gm, R, Vh1)
        (count, k), size = R.shape, bulk.size
        dVh1, square = packed_directions(k), size * size
        pairs, directions = len(dVh1) - k, len(dVh1) + 1
        scale = pencil.sign[:, :, None] * pencil.root[:, :, None] * pencil.root[:, None, :]
        dz = np.zeros((count, directions, size, size), np.result_type(pencil.n, R))
        dz[:, :-1, :k, :k] = scale[:, None] * dVh1
        flat = dz.reshape(count, directions, square).swapaxes(1, 2)
        right = np.concatenate([pencil.turned @ flat, -(pencil.diagonal_of_z @ flat)], axis=1)
        q = np.arange(k)
        right[:, square + q, pairs + q] -= R
        right[:, :square, -1] = (pencil.next_gm - gm).reshape(count, square)
        right[:, square:, -1] = block_width - R * D - pencil.gap
        change = solve_each(pencil.jacobian(R, D), right)
        dlog = np.swapaxes(change[:, square:], 1, 2)
        dz = dz + np.einsum("baq,bqmn->bamn", dlog, pencil.scalings)
        moved = pencil.batch_pairs @ change[:, :square]
        ds = -(pencil.back @ moved).swapaxes(1, 2).reshape(dz.shape)
        between = _pairs(bulk.cells.mass, pencil.s, pencil.s)
        ds = ds - (between @ dz.reshape(count, directions, square).swapaxes(1, 2)).swapaxes(1, 2).reshape(dz.shape)
        S = scale * pencil.over_cells(pencil.s)[:, :k, :k]
        S = 0.5 * (S + np.swapaxes(S, 1, 2))
        dS = scale[:, None] * ds[:, :, :k, :k] + 0.5 * (dlog[..., None] + dlog[:, :, None]) * S[:, None]
        dgm = change[:, :square].swapaxes(1, 2).reshape(dz.shape)
        return cls(S, dgm, dlog * R[:, None], 0.5 * (dS + np.swapaxes(dS, 2, 3)))

    def carry(self, response: Response) -> Response:
        """Return the response after Newton's step; it keeps the motion, which `tangents` asks for next."""
        moved = Response(
            response.R + self.dR[:, -1],
            response.S + self.dS[:, -1],
            response.g + self.dgm[:, -1],
            response.Vh1,
            response.D,
            response.block_width,
        )
        moved.__dict__["motion"] = self
        return moved


@dataclass
class SignTangents:
    """How the inner solution moves with Vh1 and D."""

    bulk: SignBulk
    response: Response
    motion: Motion

    @cached_property
    def matrix(self) -> Array:
        """-d(S, R)/d(Vh1, D) in packed coordinates (B, K, K)."""
        packed = packing(self.response.R.shape[1])
        dS, dR = self.motion.dS[:, :-1], self.motion.dR[:, :-1]
        return -np.concatenate([dS[:, :, packed.rows, packed.columns], dR], axis=2).swapaxes(1, 2)

    def apply(self, A: Array, e: Array) -> tuple[Array, Array]:
        """Return -d(S, R) along dVh1 = A, dD = e."""
        packed = packing(e.shape[1])
        return packed.unpack((self.matrix @ packed.pack(A, e)[:, :, None])[:, :, 0])

    def kernel(self, mu1: Floats, mu2: Floats) -> Array:
        """There is no kernel form over cells of coordinates."""
        raise NotImplementedError

    def push(self, omega: Floats, x: Floats, dual: Floats, paid: Floats) -> tuple[Array, Array]:
        """Return -dE of spiked_features section 6.3: E moves by dual^T dP dual + t^T dVh1 t + psi^T dVh1 psi + paid."""
        response, motion = self.response, self.motion
        (count, k), packed = response.R.shape, packing(response.R.shape[1])
        dVh1 = packed_directions(k)
        many = len(dVh1)
        tiny = 1j * COMPLEX_STEP

        def moved(value: Array, change: Array) -> Array:
            return (value[:, None] + tiny * change).reshape(-1, *value.shape[1:])

        gm, R = moved(response.g, motion.dgm[:, :-1]), moved(response.R, motion.dR[:, :-1])
        Vh1 = moved(response.Vh1, np.broadcast_to(dVh1, (count, *dVh1.shape)))
        pencil = SignPencil.at(self.bulk.take(np.repeat(np.arange(count), many)), gm, R, Vh1)
        probe = np.repeat(dual, many, axis=0) * np.tile(pencil.root, (1, 3))
        E = pencil.sign[:, 0] * SignSignal.at(pencil).form(probe[:, None])[:, 0, 0]
        dE = E.imag.reshape(count, many) / COMPLEX_STEP
        along = x[:, : 2 * k].reshape(count, 2, k)
        dE += np.einsum("aij,bui,buj->ba", dVh1, along, along)
        dE += (motion.dR[:, :-1] @ (paid / response.R**2)[:, :, None])[:, :, 0]
        return packed.unpack(-dE / packed.multiplicity)

    def unseen(self, dual: Array) -> float:
        """Return 0: channels act through the functions of the features only."""
        return 0.0
