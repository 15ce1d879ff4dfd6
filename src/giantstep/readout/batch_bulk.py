"""The network after a gradient step on a finite batch, exactly: its bulk is anisotropic (section 6 of the notes).

Given the batch, the bulk rows b_i of block q have covariance Sigma_q/d,

    Sigma_q = (I + q_q A)^2 + e_q^2 v B/alpha0,  A = X0^T diag(rho) X0/n0,  B = X0^T diag(rho^2) X0/n0,

rho the residuals of the batch. Averages over the batch, E_b, need only functions of rho times 1, s or s^2 (s the target
direction), so they are one-dimensional sums with three sets of weights.

Notation. M = k for an odd activation, 2k for a linear plus even one. With D = diag(R) (+) I the matrices of the notes
are Y = D^1/2 y D^1/2, L = D^1/2 l D^1/2, Z = D^-1/2 z D^-1/2, G = D^-1/2 gm D^-1/2; the lower-case ones, used here,
depend on R only through W = R^1/2 Vh1 R^1/2:

    y = P + E_b[l (I + gm l/alpha0)^-1],  P = I (+) 0,   gm = (I + z y)^-1 z,   z = W (+) I                     (6.2)
    R_q D_q + 1 - [(I + z y)^-1]_qq = beta_q,            S = beta V1 = R^1/2 [(I + y z)^-1 y]_11 R^1/2      (6.3), (6.4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.solve import solve_each
from giantstep.types import Array


@dataclass(frozen=True)
class Batch:
    """What the step on a finite batch leaves behind, for B points with k blocks."""

    even: bool
    alpha0: Array  # (B,)
    linear: Array  # (B, k): q_q, the coefficient of A
    square: Array  # (B, k): e_q^2 v/alpha0, the coefficient of B
    nodes: Array  # (B, J): residuals rho
    weights: Array  # (B, 3, J): weights of F(rho), s F(rho), s^2 F(rho)
    gamma: Array  # (B,)
    strength: Array  # (B,): G, the length of X0^T rho/n0
    covariance_g: Array  # (B, k): mg
    covariance_h: Array  # (B, k): mh
    spread: Array  # (B, k): vs
    row_norm: Array  # (B, k): c_q, the squared norm of the bulk rows

    def take(self, index: Any) -> Batch:
        """Return the points in `index`."""
        rows = {name: getattr(self, name)[index] for name in self.__dataclass_fields__ if name != "even"}
        return Batch(even=self.even, **rows)

    @property
    def size(self) -> int:
        """M, the size of the matrices."""
        return self.linear.shape[1] * (2 if self.even else 1)

    def ladder(self) -> Array:
        """Return l at every node (B, J, M, M)."""
        count, k = self.linear.shape
        l = np.zeros((count, self.nodes.shape[1], self.size, self.size))
        q = np.arange(k)
        rho = self.nodes[:, :, None]
        l[:, :, q, q] = 2 * self.linear[:, None] * rho + self.square[:, None] * rho**2
        if self.even:
            l[:, :, q, k + q] = self.linear[:, None] * rho
            l[:, :, k + q, q] = -self.linear[:, None] * rho
        return l


# -- first order ---------------------------------------------------------------------------------------------------


def small_inverse(matrices: Array) -> Array:
    """Invert stacks of small matrices; sizes 1 and 2 in closed form, for speed."""
    size = matrices.shape[-1]
    if size == 1:
        return 1 / matrices
    if size == 2:
        (a, b), (c, d) = np.moveaxis(matrices, (-2, -1), (0, 1))
        out = np.empty_like(matrices)
        determinant = a * d - b * c
        out[..., 0, 0], out[..., 0, 1] = d / determinant, -b / determinant
        out[..., 1, 0], out[..., 1, 1] = -c / determinant, a / determinant
        return out
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        flat = matrices.reshape(-1, size, size)
        return solve_each(flat, np.broadcast_to(np.eye(size), flat.shape)).reshape(matrices.shape)


@dataclass
class Bulk:
    """The matrices of (6.2) at given gm, R, Vh1; everything has a leading batch axis."""

    gm: Array
    root: Array  # (B, k)
    sign: Array  # (B, 1)
    z: Array
    A: Array  # l (I + gm l/alpha0)^-1 at the nodes (B, J, M, M)
    y: Array
    N: Array  # (I + z y)^-1
    image: Array  # N z

    @classmethod
    def at(cls, batch: Batch, ladder: Array, gm: Array, R: Array, Vh1: Array) -> Bulk:
        """Evaluate the matrices."""
        k, size = batch.linear.shape[1], batch.size
        if np.iscomplexobj(R) and np.any(np.abs(R.imag) > 1e-8 * np.abs(R)):
            root, sign = np.sqrt(R), np.ones((len(R), 1))
        else:  # all R have one sign outside the bulk: keep the roots real (or their complex-step neighbours)
            sign = np.sign(R.real[:, :1])
            root = np.sqrt(sign * R)
        z = np.zeros((len(R), size, size), np.result_type(R, Vh1))
        z[:, :k, :k] = sign[:, :, None] * root[:, :, None] * Vh1 * root[:, None, :]
        eye = np.eye(size)
        z[:, range(k, size), range(k, size)] = 1.0
        A = ladder @ small_inverse(eye + (gm / batch.alpha0[:, None, None])[:, None] @ ladder)
        y = np.einsum("bj,bjmn->bmn", batch.weights[:, 0], A)
        y[:, range(k), range(k)] += 1.0
        N = small_inverse(eye + z @ y)
        return cls(gm, root, sign, z, A, y, N, N @ z)


def _pair_operator(batch: Batch, bulk: Bulk) -> Array:
    """Return the matrix of X -> E_b[A X A]/alpha0 on flattened X, (B, M^2, M^2)."""
    count, nodes, size, _ = bulk.A.shape
    flat = bulk.A.reshape(count, nodes, size * size)
    weighted = flat * (batch.weights[:, 0] / batch.alpha0[:, None])[:, :, None]
    products = np.swapaxes(weighted, 1, 2) @ flat  # [(a, c), (d, b)] = E A_ac A_db
    products = products.reshape(count, size, size, size, size)
    return products.transpose(0, 1, 4, 2, 3).reshape(count, size * size, size * size)


def _sandwich(left: Array, operator: Array, right: Array) -> Array:
    """Return the matrix of X -> left Op(X) right on flattened X."""
    count, size = left.shape[0], left.shape[1]
    blocks = operator.reshape(count, size, size, size * size)
    out = np.einsum("bia,bajx->bijx", left, blocks, optimize=True)
    out = np.einsum("biax,baj->bijx", out, right, optimize=True)
    return out.reshape(count, size * size, size * size)


@dataclass
class Linearised:
    """The linearised inner equations in (dgm, dlog R), and what the outputs need."""

    bulk: Bulk
    pair: Array
    matrix: Array  # (B, M^2 + k, M^2 + k)


def linearise(batch: Batch, bulk: Bulk, R: Array, D: Array) -> Linearised:
    """Return the Jacobian of gm - N z = 0 and R_q D_q + 1 - N_qq - beta_q = 0 with respect to (gm, log R)."""
    count, k = R.shape
    size = batch.size
    square = size * size
    pair = _pair_operator(batch, bulk)
    dtype = np.result_type(bulk.A, R)
    matrix = np.zeros((count, square + k, square + k), dtype)
    matrix[:, :square, :square] = np.eye(square) - _sandwich(bulk.image, pair, bulk.image)
    response = _sandwich(bulk.image, pair, bulk.N).reshape(count, size, size, square)  # dN from dgm
    q = np.arange(k)
    matrix[:, square + q, :square] = -response[:, q, q]
    complement = np.eye(size) - bulk.y @ bulk.image
    for place in range(k):
        dz = _scale_direction(bulk, place, k)
        matrix[:, :square, square + place] = -(bulk.N @ dz @ complement).reshape(count, square)
        dN = -bulk.N @ dz @ bulk.y @ bulk.N
        matrix[:, square + q, square + place] = -dN[:, q, q]
        matrix[:, square + place, square + place] += R[:, place] * D[:, place]
    return Linearised(bulk, pair, matrix)


def _scale_direction(bulk: Bulk, place: int, k: int) -> Array:
    """Return dz for d log R_place = 1: rows and columns of W each scale by one half."""
    dz = np.zeros_like(bulk.z)
    dz[:, place, :k] += 0.5 * bulk.z[:, place, :k]
    dz[:, :k, place] += 0.5 * bulk.z[:, :k, place]
    return dz


def solve_bulk(
    batch: Batch, ladder: Array, Vh1: Array, D: Array, block_width: Array, gm: Array, R: Array, max_steps: int = 300
) -> tuple[Array, Array]:
    """Solve the inner equations for (gm, R) by Newton, warm-started.

    A Newton step that makes the residual grow is taken back and followed by a few damped steps of the plain map, which
    converges from far away.
    """
    gm, R = np.array(gm), np.array(R)
    k = R.shape[1]
    q = np.arange(k)
    safe_gm, safe_R = gm.copy(), R.copy()  # where a point goes when its Newton step fails
    last = np.full(len(R), np.inf)
    patience = np.zeros(len(R), dtype=np.int64)
    active = np.arange(len(R))
    for _ in range(max_steps):
        bulk = Bulk.at(batch.take(active), ladder[active], gm[active], R[active], Vh1[active])
        mismatch_g = bulk.image - bulk.gm
        mismatch_R = R[active] * D[active] + 1 - bulk.N[:, q, q] - block_width[active]
        size = np.maximum(
            np.max(np.abs(mismatch_g), axis=(1, 2)) / np.max(np.abs(bulk.image), axis=(1, 2)),
            np.max(np.abs(mismatch_R) / block_width[active], axis=1),
        )
        worse = ~(size < 2 * last[active]) & (patience[active] == 0)
        done = (size < 1e-14) | ((size < 1e-11) & (size > 0.3 * last[active]))
        plain_R = block_width[active] / (D[active] + (1 - bulk.N[:, q, q]) / R[active])
        damped_gm, damped_R = bulk.gm + 0.5 * mismatch_g, 0.5 * (R[active] + plain_R)
        next_gm, next_R = _newton_step(batch.take(active), bulk, R[active], D[active], mismatch_g, mismatch_R)
        plain = (patience[active] > 0) | ~np.isfinite(next_R).all(axis=1)
        next_gm[plain], next_R[plain] = damped_gm[plain], damped_R[plain]
        next_gm[worse], next_R[worse] = safe_gm[active[worse]], safe_R[active[worse]]
        fine = active[~worse]
        safe_gm[fine], safe_R[fine] = damped_gm[~worse], damped_R[~worse]
        patience[active] = np.where(worse, 8, np.maximum(patience[active] - 1, 0))
        last[active] = np.where(worse, np.inf, size)
        active = active[~done]
        gm[active], R[active] = next_gm[~done], next_R[~done]
        if active.size == 0:
            break
    return gm, R


def _newton_step(
    batch: Batch, bulk: Bulk, R: Array, D: Array, mismatch_g: Array, mismatch_R: Array
) -> tuple[Array, Array]:
    """Return the Newton iterate of (gm, R); R is NaN where the step is too long to be trusted."""
    count, k = R.shape
    right = np.concatenate([mismatch_g.reshape(count, -1), -mismatch_R], axis=1)
    change = solve_each(linearise(batch, bulk, R, D).matrix, right[:, :, None])[:, :, 0]
    step = change[:, -k:]
    trusted = np.max(np.abs(step), axis=1) < 1
    return bulk.gm + change[:, :-k].reshape(bulk.gm.shape), np.where(trusted[:, None], R * (1 + step), np.nan)


def bulk_response(bulk: Bulk, k: int) -> Array:
    """Return S = beta V1 (B, k, k)."""
    S = (bulk.y @ bulk.N)[:, :k, :k]
    S = bulk.sign[:, :, None] * bulk.root[:, :, None] * S * bulk.root[:, None, :]
    return 0.5 * (S + np.swapaxes(S, 1, 2))


@dataclass
class Tangents:
    """How the inner solution moves with Vh1 and D, along the K packed directions (pairs q <= q', then D_q)."""

    dgm: Array  # (B, K, M, M)
    dR: Array  # (B, K, k)
    dVh1: Array  # (K, k, k)
    matrix: Array  # -d(V1, V2)/d(Vh1, D) packed (B, K, K)


def tangents(batch: Batch, bulk: Bulk, R: Array, D: Array, rows: Array, columns: Array, width: Array) -> Tangents:
    """Differentiate the inner solution; one factorisation serves all K directions."""
    linear = linearise(batch, bulk, R, D)
    count, k = R.shape
    size, pairs = batch.size, len(rows)
    square, directions = size * size, pairs + k
    complement = np.eye(size) - bulk.y @ bulk.image
    S_full = bulk.y @ bulk.N
    dVh1 = np.zeros((directions, k, k))
    dVh1[np.arange(pairs), rows, columns] = 1.0
    dVh1[np.arange(pairs), columns, rows] = 1.0
    scale = bulk.sign[:, :, None] * bulk.root[:, :, None] * bulk.root[:, None, :]
    dz = np.zeros((count, directions, size, size), linear.matrix.dtype)
    dz[:, :, :k, :k] = scale[:, None] * dVh1
    right = np.zeros((count, square + k, directions), linear.matrix.dtype)
    N = bulk.N[:, None]
    right[:, :square] = (N @ dz @ complement[:, None]).reshape(count, directions, square).swapaxes(1, 2)
    dN = -(N @ dz @ (bulk.y @ bulk.N)[:, None])
    q = np.arange(k)
    right[:, square + q] = dN[:, :, q, q].swapaxes(1, 2)
    right[:, square + q, pairs + q] -= R
    change = solve_each(linear.matrix, right).swapaxes(1, 2)
    dgm = change[:, :, :square].reshape(count, directions, size, size)
    dlog = change[:, :, square:]
    dy = -(linear.pair[:, None] @ dgm.reshape(count, directions, square, 1)).reshape(dgm.shape)
    for place in range(k):
        dz = dz + dlog[:, :, place, None, None] * _scale_direction(bulk, place, k)[:, None]
    dS = complement[:, None] @ dy @ N - S_full[:, None] @ dz @ S_full[:, None]
    S = bulk_response(bulk, k)
    dS = scale[:, None] * dS[:, :, :k, :k] + 0.5 * (dlog[:, :, :, None] + dlog[:, :, None, :]) * S[:, None]
    dR = dlog * R[:, None]
    matrix = -np.concatenate([dS[:, :, rows, columns], dR], axis=2).swapaxes(1, 2) / width[:, None, None]
    return Tangents(dgm, dR, dVh1, matrix)


# -- signal --------------------------------------------------------------------------------------------------------


def signal_covariance(batch: Batch, ladder: Array, gm: Array, R: Array, Vh1: Array) -> Array:
    """Return P (B, 3k, 3k) of (6.7) in the order t, psi, y; complex arguments serve complex-step derivatives."""
    bulk = Bulk.at(batch, ladder, gm, R, Vh1)
    count, k = R.shape
    size = batch.size
    eye = np.eye(size)
    a0 = batch.alpha0[:, None, None]
    y, z = bulk.y, bulk.z
    w0, w1, w2 = (batch.weights[:, j] for j in range(3))
    rho = batch.nodes
    yl = np.einsum("bj,bjmn->bmn", w2, bulk.A)
    yl[:, range(k), range(k)] += 1.0
    C = y[:, None] + ladder / a0[:, None]
    Sr = small_inverse(eye + C @ z[:, None]) @ C
    N1 = y - (eye + y @ z) @ small_inverse(eye + yl @ z) @ (yl - y)
    f = {"g": rho, "h": rho**3}
    n = {"e": np.ones(count), "g": np.sum(w1 * f["g"], axis=1), "h": np.sum(w1 * f["h"], axis=1)}
    tau = {"e": small_inverse(eye + y @ z) @ y}
    for name in ("g", "h"):
        tau[name] = np.einsum("bj,bjmn->bmn", w1 * f[name], Sr)
    names = ("e", "g", "h") if not batch.even else ("e", "g")

    def inner(a: str, b: str) -> Array:
        product = np.sum(w0 * f[a] * f[b], axis=1) / batch.alpha0 if a in f and b in f else 0.0
        return n[a] * n[b] + product

    def block(a: str, b: str) -> Array:
        na, nb = n[a][:, None, None], n[b][:, None, None]
        out = nb * tau[a] + na * tau[b] - tau[a] @ z @ tau[b]
        out = out - (na * eye - tau[a] @ z) @ N1 @ (nb * eye - z @ tau[b])
        if a in f and b in f:
            out = out + np.einsum("bj,bjmn->bmn", w0 * f[a] * f[b], Sr) / a0
        return (bulk.sign * bulk.root)[:, :, None] * out[:, :k, :k] * bulk.root[:, None, :]

    S = {(a, b): block(a, b) for a in names for b in names}
    gamma, G = batch.gamma, batch.strength
    rho_perp = np.sqrt(1 - gamma**2)
    combine = {
        "v": {"g": 1 / G},
        "p": {"e": 1 / rho_perp, "g": -gamma / (rho_perp * G)},
        "g": {"g": np.ones(count)},
        "h": {"h": np.ones(count)},
    }

    def mixed(a: str, b: str) -> Array:
        return sum((ca * cb)[:, None, None] * S[x, x2] for x, ca in combine[a].items() for x2, cb in combine[b].items())

    def mixed_inner(a: str, b: str) -> Array:
        return sum(ca * cb * inner(x, x2) for x, ca in combine[a].items() for x2, cb in combine[b].items())

    P = np.zeros((count, 3 * k, 3 * k), np.result_type(Sr, R))
    slot = {"v": slice(0, k), "p": slice(k, 2 * k)}
    for a in ("v", "p"):
        for b in ("v", "p"):
            P[:, slot[a], slot[b]] = mixed(a, b)
    last = slice(2 * k, 3 * k)
    q = np.arange(k)
    P[:, 2 * k + q, 2 * k + q] = R * batch.spread
    if not batch.even:
        m = {"g": R * batch.covariance_g, "h": R * batch.covariance_h}
        for a in ("v", "p"):
            P[:, slot[a], last] = sum(
                (mixed_inner(a, x)[:, None, None] * np.eye(k) - mixed(a, x) @ Vh1) * m[x][:, None, :] for x in m
            )
            P[:, last, slot[a]] = np.swapaxes(P[:, slot[a], last], 1, 2)
        for x in m:
            for x2 in m:
                core = Vh1 * inner(x, x2)[:, None, None] - Vh1 @ S[x, x2] @ Vh1
                P[:, last, last] -= m[x][:, :, None] * core * m[x2][:, None, :]
    return 0.5 * (P + np.swapaxes(P, 1, 2))
