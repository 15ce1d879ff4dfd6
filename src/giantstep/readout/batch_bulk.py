"""The bulk that a gradient step on a finite batch leaves behind, which is anisotropic (spiked_features section 6).

Given the batch, the bulk rows b_i of block q have covariance Sigma_q/d,

    Sigma_q = (I + q_q A)^2 + e_q^2 v B/alpha0,  A = X0^T diag(rho) X0/n0,  B = X0^T diag(rho^2) X0/n0,

rho the residuals of the batch. Averages over the batch, E_b, need only functions of rho times 1, s or s^2 (s the target
direction), so they are one-dimensional sums with three sets of weights.

Notation. M = 2k where c2 of the activation is not zero, else k. With D = diag(R) (+) I the matrices of section 6
are Y = D^1/2 y D^1/2, L = D^1/2 l D^1/2, Z = D^-1/2 z D^-1/2, G = D^-1/2 gm D^-1/2; the lower-case ones, used here,
depend on R only through W = R^1/2 Vh1 R^1/2:

    y = P + E_b[l (I + gm l/alpha0)^-1],  P = I (+) 0,   gm = (I + z y)^-1 z,   z = W (+) I                     (6.2)
    R_q D_q + 1 - [(I + z y)^-1]_qq = beta_q,            S = beta V1 = R^1/2 [(I + y z)^-1 y]_11 R^1/2      (6.3), (6.4)

The channels of the features are t, psi, y of (6.7), in this order; `g` of a response is gm.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from giantstep.deadline import check_time
from giantstep.readout.batch_gradient import covariance_gradient
from giantstep.readout.batch_signal import BatchSignal
from giantstep.readout.bulk import Response
from giantstep.readout.features import packing
from giantstep.readout.finite_size import AlongMeans
from giantstep.readout.pencil import Pencil, linearise, scale_direction
from giantstep.readout.stacked import Stacked
from giantstep.solve import solve_each
from giantstep.types import Array, Floats

MAX_STEPS, PROBE_STEPS = 300, 15
NEARLY = 1e-9
"""Mismatch from which one more Newton step, whose error is of the order of its square, ends at rounding."""
NEAR = 1e-2
"""Mismatch from which one more Newton step is good enough for `near`."""


@dataclass(frozen=True)
class BatchBulk(Stacked):
    """What the step on a finite batch leaves behind, for B points with k blocks."""

    doubled: bool
    alpha0: Array  # (B,)
    linear: Array  # (B, k): q_q, the coefficient of A
    square: Array  # (B, k): e_q^2 v/alpha0, the coefficient of B
    nodes: Array  # (B, J): residuals rho
    weights: Array  # (B, 3, J): weights of F(rho), s F(rho), s^2 F(rho)
    gamma: Array  # (B,)
    strength: Array  # (B,): G, the length of X0^T rho/n0
    own: Array  # (B, 3, k): Fq_j, the coefficients of g_1, g_2, g_3 in m_q, finite_batch_general (17.3)
    carried: Array  # (B, 3, k): fl_j, those carried by one more power of A, (17.1)
    spread: Array  # (B, k): vs
    row_norm: Array  # (B, k): c_q, the squared norm of the bulk rows

    chunk: ClassVar[int] = 48
    packed_only: ClassVar[bool] = True
    edge_margin: ClassVar[float] = 1e-3
    shared: ClassVar[tuple[str, ...]] = ("doubled",)
    derived: ClassVar[tuple[str, ...]] = ("ladder",)

    def columns(self, count: int) -> Floats:
        """Return what tells parameter sets apart, (B, 2k + 1)."""
        return np.concatenate([self.alpha0[:, None], self.linear, self.square], axis=1)

    @property
    def size(self) -> int:
        """M, the size of the matrices."""
        return self.linear.shape[1] * (2 if self.doubled else 1)

    @cached_property
    def ladder(self) -> Array:
        """The matrices l at every node (B, J, M, M)."""
        count, k = self.linear.shape
        l = np.zeros((count, self.nodes.shape[1], self.size, self.size))
        q = np.arange(k)
        rho = self.nodes[:, :, None]
        l[:, :, q, q] = 2 * self.linear[:, None] * rho + self.square[:, None] * rho**2
        if self.doubled:
            l[:, :, q, k + q] = self.linear[:, None] * rho
            l[:, :, k + q, q] = -self.linear[:, None] * rho
        return l

    def start(self, a: Array, block_width: Floats) -> Response:
        """Return a start without gm: `solve` guesses it, knowing Vh1."""
        return Response.at_zero(a, block_width, np.full((len(a), self.size, self.size), np.nan))

    def solve(
        self, Vh1: Array, D: Array, block_width: Floats, start: Response, probe: bool = False, near: bool = False
    ) -> Response:
        """Solve the inner equations by Newton; with `near` one step from the start, where it is close enough."""
        gm, R = np.array(start.g, D.dtype), np.array(start.R)
        cold = np.isnan(gm).any(axis=(1, 2))
        if cold.any():
            gm[cold], R[cold] = self.take(cold)._guess(Vh1[cold], D[cold], block_width[cold])
        close = np.zeros(len(R), dtype=bool)
        if near:
            motion = Motion.at(self, gm, R, Vh1, D, block_width)
            close = motion.is_short
        if not close.all():
            far = np.flatnonzero(~close)
            part, inside = self.take(far), (Vh1[far], D[far], block_width[far])
            gm[far], R[far] = part._converge(*inside, gm[far], R[far], cold[far], probe)
            again = Motion.at(part, gm[far], R[far], *inside)
            if close.any():
                motion.put(far, again)
            else:
                motion = again
        return motion.carry(Response(R, motion.S, gm, Vh1, D, block_width))

    def _converge(
        self, Vh1: Array, D: Array, block_width: Floats, gm: Array, R: Array, cold: Array, probe: bool
    ) -> tuple[Array, Array]:
        """Solve for (gm, R) from anywhere; points that a warm start leads astray start once more, cold."""
        gm, R = self._iterate(Vh1, D, block_width, gm, R, PROBE_STEPS if probe else MAX_STEPS)
        lost = ~np.isfinite(R).all(axis=1) & ~cold & (not probe)
        if lost.any():
            again, inside = self.take(lost), (Vh1[lost], D[lost], block_width[lost])
            gm[lost], R[lost] = again._iterate(*inside, *again._guess(*inside), MAX_STEPS)
        return gm, R

    def _guess(self, Vh1: Array, D: Array, block_width: Floats) -> tuple[Array, Array]:
        """Return where a cold solve starts (6.1)."""
        k, size = D.shape[1], self.size
        R = block_width / (D + np.einsum("bqq->bq", Vh1) * self.row_norm)
        gm = np.zeros((len(R), size, size), R.dtype)
        gm[:, range(k, size), range(k, size)] = 0.5
        gm[:, :k, :k] = 0.5 * np.sqrt(np.abs(R))[:, :, None] * Vh1 * np.sqrt(np.abs(R))[:, None, :]
        return gm, R

    def _iterate(
        self, Vh1: Array, D: Array, block_width: Floats, gm: Array, R: Array, max_steps: int
    ) -> tuple[Array, Array]:
        """Solve the inner equations for (gm, R) by Newton.

        A Newton step that makes the residual grow is taken back and followed by a few damped steps of the plain map,
        which converges from far away.
        """
        gm, R = np.array(gm), np.array(R)
        k = R.shape[1]
        q = np.arange(k)
        safe_gm, safe_R = gm.copy(), R.copy()  # where a point goes when its Newton step fails
        last = np.full(len(R), np.inf)
        patience = np.zeros(len(R), dtype=np.int64)
        active = np.arange(len(R))
        for _ in range(max_steps):
            check_time()
            batch = self if len(active) == len(R) else self.take(active)
            pencil = Pencil.at(batch, gm[active], R[active], Vh1[active])
            mismatch_g, mismatch_R, size = pencil.mismatch(R[active], D[active], block_width[active])
            worse = ~(size < 2 * last[active]) & (patience[active] == 0)
            done = (size < 1e-14) | ((size < 1e-11) & (size > 0.3 * last[active]))
            plain_R = block_width[active] / (D[active] + (1 - pencil.N[:, q, q]) / R[active])
            damped_gm, damped_R = pencil.gm + 0.5 * mismatch_g, 0.5 * (R[active] + plain_R)
            next_gm, next_R = _newton_step(batch, pencil, R[active], D[active], mismatch_g, mismatch_R)
            plain = (patience[active] > 0) | ~np.isfinite(next_R).all(axis=1)
            next_gm[plain], next_R[plain] = damped_gm[plain], damped_R[plain]
            next_gm[worse], next_R[worse] = safe_gm[active[worse]], safe_R[active[worse]]
            fine = active[~worse]
            safe_gm[fine], safe_R[fine] = damped_gm[~worse], damped_R[~worse]
            patience[active] = np.where(worse, 8, np.maximum(patience[active] - 1, 0))
            last[active] = np.where(worse, np.inf, size)
            moving = active[~done]
            gm[moving], R[moving] = next_gm[~done], next_R[~done]
            active = active[~done & ((size > NEARLY) | plain | worse)]
            if active.size == 0:
                break
        return gm, R

    def along_means(self, response: Response) -> AlongMeans:
        """Nothing is known of the means after a finite batch, described exactly: those of independent rows stand."""
        raise NotImplementedError

    def tangents(self, response: Response) -> BatchTangents:
        """Return how (gm, R) and S move with Vh1 and D."""
        motion: Motion | None = response.__dict__.get("motion")
        if motion is None:
            motion = Motion.at(self, response.g, response.R, response.Vh1, response.D, response.block_width)
        return BatchTangents(self, response, motion)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P of (6.7), which has counted the directions t and psi as the rest of the bulk: Vh1 each."""
        k = response.R.shape[1]
        absorbed = np.zeros((len(response.R), 3 * k, 3 * k))
        absorbed[:, :k, :k] = absorbed[:, k : 2 * k, k : 2 * k] = response.Vh1
        return self.signal(response).covariance(), absorbed

    def signal(self, response: Response) -> BatchSignal:
        """Return the response to the vectors of the batch, which the inner solution keeps."""
        known: BatchSignal | None = response.__dict__.get("signal")
        if known is None:
            known = BatchSignal.at(self, response.g, response.R, response.Vh1)
            response.__dict__["signal"] = known
        return known


def _newton_step(
    batch: BatchBulk, pencil: Pencil, R: Array, D: Array, mismatch_g: Array, mismatch_R: Array
) -> tuple[Array, Array]:
    """Return the Newton iterate of (gm, R); R is NaN where the step is too long to be trusted."""
    count, k = R.shape
    right = np.concatenate([mismatch_g.reshape(count, -1), -mismatch_R], axis=1)
    change = solve_each(linearise(batch, pencil, R, D)[0], right[:, :, None])[:, :, 0]
    step = change[:, -k:]
    trusted = np.max(np.abs(step), axis=1) < 1
    return pencil.gm + change[:, :-k].reshape(pencil.gm.shape), np.where(trusted[:, None], R * (1 + step), np.nan)


@dataclass
class Motion(Stacked):
    """How an inner solution moves along the K packed directions of (Vh1, D): pairs q <= q', then D_q.

    One more direction, the last one, is Newton's step from (gm, R) to where the inner equations are solved.
    """

    S: Array  # (B, k, k)
    size: Floats  # mismatch of the inner equations (B,)
    dgm: Array  # (B, K + 1, M, M)
    dR: Array  # (B, K + 1, k)
    dS: Array  # (B, K + 1, k, k)

    @classmethod
    def at(cls, batch: BatchBulk, gm: Array, R: Array, Vh1: Array, D: Array, block_width: Floats) -> Motion:
        """Linearise at (gm, R); one factorisation serves all directions."""
        pencil = Pencil.at(batch, gm, R, Vh1)
        mismatch_g, mismatch_R, mismatch = pencil.mismatch(R, D, block_width)
        matrix, moved_y = linearise(batch, pencil, R, D)
        (count, k), size = R.shape, batch.size
        dVh1 = packed_directions(k)
        pairs, square, directions = len(dVh1) - k, size * size, len(dVh1) + 1
        dz = np.zeros((count, directions, size, size), matrix.dtype)
        dz[:, :-1, :k, :k] = pencil.scale[:, None] * dVh1
        complement, N = (np.eye(size) - pencil.y @ pencil.image)[:, None], pencil.N[:, None]
        S_full = (pencil.y @ pencil.N)[:, None]
        right = np.zeros((count, square + k, directions), matrix.dtype)
        right[:, :square] = (N @ dz @ complement).reshape(count, directions, square).swapaxes(1, 2)
        q = np.arange(k)
        right[:, square + q] = -(N @ dz @ S_full)[:, :, q, q].swapaxes(1, 2)
        right[:, square + q, pairs + q] -= R
        right[:, :square, -1], right[:, square:, -1] = mismatch_g.reshape(count, square), -mismatch_R
        change = solve_each(matrix, right).swapaxes(1, 2)
        dgm = change[:, :, :square].reshape(count, directions, size, size)
        dlog = change[:, :, square:]
        dy = (moved_y[:, None] @ dgm.reshape(count, directions, square, 1)).reshape(dgm.shape)
        for block in range(k):
            dz = dz + dlog[:, :, block, None, None] * scale_direction(pencil, block, k)[:, None]
        S = pencil.response(k)
        dS = (complement @ dy @ N - S_full @ dz @ S_full)[:, :, :k, :k]
        dS = pencil.scale[:, None] * dS + 0.5 * (dlog[:, :, :, None] + dlog[:, :, None, :]) * S[:, None]
        return cls(S, mismatch, dgm, dlog * R[:, None], dS)

    @property
    def is_short(self) -> Array:
        """Whether Newton's step alone ends where its error is of second order."""
        return self.size < NEAR

    def carry(self, response: Response) -> Response:
        """Return the response after Newton's step; it keeps the motion, which `tangents` asks for next."""
        dS = self.dS[:, -1]
        moved = dataclasses.replace(
            response,
            R=response.R + self.dR[:, -1],
            S=response.S + 0.5 * (dS + np.swapaxes(dS, 1, 2)),
            g=response.g + self.dgm[:, -1],
        )
        moved.__dict__["motion"] = self
        return moved


def packed_directions(k: int) -> Floats:
    """Return dVh1 along the packed directions (K, k, k); zero along those of D."""
    rows, columns = packing(k).rows, packing(k).columns
    pair = np.arange(len(rows))
    directions = np.zeros((len(rows) + k, k, k))
    directions[pair, rows, columns] = directions[pair, columns, rows] = 1.0
    return directions


@dataclass
class BatchTangents:
    """How the inner solution moves with Vh1 and D."""

    batch: BatchBulk
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
        """There is no kernel form after a finite batch."""
        raise NotImplementedError

    def push(self, omega: Floats, x: Floats, dual: Floats, paid: Floats) -> tuple[Array, Array]:
        """Return -dE of section 6.3: E moves by dual^T dP dual + t^T dVh1 t + psi^T dVh1 psi + sum paid dR/R^2."""
        R, motion = self.response.R, self.motion
        (count, k), packed = R.shape, packing(R.shape[1])
        of_gm, of_R, of_Vh1 = covariance_gradient(self.batch.signal(self.response), dual)
        along = x[:, : 2 * k].reshape(count, 2, k)
        of_Vh1 = of_Vh1 + np.swapaxes(along, 1, 2) @ along
        of_R = of_R + paid / R**2
        dE = np.einsum("bamn,bmn->ba", motion.dgm[:, :-1], of_gm) + (motion.dR[:, :-1] @ of_R[:, :, None])[:, :, 0]
        dE += np.einsum("aij,bij->ba", packed_directions(k), of_Vh1)
        return packed.unpack(-dE / packed.multiplicity)

    def unseen(self, dual: Array) -> float:
        """Return 0: channels act through the functions of the features only."""
        return 0.0
