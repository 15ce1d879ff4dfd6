"""The covariance of the signal's coordinates after a finite batch; see `batch_bulk`.

spiked_features (6.5)-(6.7) for every activation: finite_batch_general (17.6)-(17.8), with the antisymmetric pencil.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from giantstep.readout.pencil import Pencil, small_inverse
from giantstep.types import Array

if TYPE_CHECKING:
    from giantstep.readout.batch_bulk import BatchBulk


def signal_covariance(batch: BatchBulk, gm: Array, R: Array, Vh1: Array) -> Array:
    """Return P (B, 3k, 3k) in the order t, psi, y; complex arguments serve complex-step derivatives."""
    pencil = Pencil.at(batch, gm, R, Vh1)
    count, k = R.shape
    f, n, inner = batch_vectors(batch)
    roots = np.tile(pencil.root, (1, batch.size // k))
    T = (
        vector_response(batch, pencil, f, n)
        * (pencil.sign * roots)[:, None, None, :, None]
        * roots[:, None, None, None]
    )
    S = T[..., :k, :k]
    gamma, G = batch.gamma, batch.strength
    rho = np.sqrt(1 - gamma**2)
    directions = np.zeros((count, 2, f.shape[1]))  # v = g_1/G and v_perp = (e - gamma v)/rho
    directions[:, 0, 1], directions[:, 1, 0], directions[:, 1, 1] = 1 / G, 1 / rho, -gamma / (rho * G)
    m = np.pad(R[:, None, :] * batch.own, ((0, 0), (1, 0), (0, 0)))  # coefficients of the vectors in m_q, times R_q
    along = np.einsum("bux,bxyqr->buyqr", directions, S)
    P = np.zeros((count, 3, k, 3, k), np.result_type(S, R))
    P[:, :2, :, :2] = np.einsum("buyqr,bvy->buqvr", along, directions)
    seen = (directions @ inner)[:, :, :, None, None] * np.eye(k) - along @ Vh1[:, None, None]
    P[:, :2, :, 2] = np.einsum("buxqr,bxr->buqr", seen, m)
    core = inner[:, :, :, None, None] * Vh1[:, None, None] - Vh1[:, None, None] @ S @ Vh1[:, None, None]
    P[:, 2, :, 2] = (R * batch.spread)[:, :, None] * np.eye(k) - np.einsum("bxq,bxyqr,byr->bqr", m, core, m)
    if batch.doubled:  # the lower half of the pencil carries one more power of A, (17.6)-(17.8)
        l = np.pad(batch.carried, ((0, 0), (1, 0), (0, 0)))
        across, below = T[..., :k, k:], T[..., k:, k:]
        P[:, :2, :, 2] += np.einsum("bux,bxyqr,byr->buqr", directions, across, l)
        X = np.einsum("bxq,bqs,bxysr,byr->bqr", m, Vh1, across, l, optimize=True)
        P[:, 2, :, 2] -= X + np.swapaxes(X, 1, 2) + np.einsum("bxq,bxyqr,byr->bqr", l, below, l)
    P[:, 2, :, :2] = np.einsum("buqr->bruq", P[:, :2, :, 2])
    P = P.reshape(count, 3 * k, 3 * k)
    return 0.5 * (P + np.swapaxes(P, 1, 2))


def batch_vectors(batch: BatchBulk) -> tuple[Array, Array, Array]:
    """Return f at the nodes (B, A, J), n (B, A) and <a, b> (B, A, A) of the vectors e, g_1, g_2, g_3."""
    rho = batch.nodes
    f = np.stack([np.zeros_like(rho), rho, rho**2, rho**3], axis=1)
    n = (f @ batch.weights[:, 1, :, None])[:, :, 0]
    n[:, 0] = 1.0
    products = (f * batch.weights[:, :1]) @ np.swapaxes(f, 1, 2)
    return f, n, n[:, :, None] * n[:, None, :] + products / batch.alpha0[:, None, None]


def vector_response(batch: BatchBulk, pencil: Pencil, f: Array, n: Array) -> Array:
    """Return S_ab of (6.6) for all pairs of vectors (B, A, A, M, M), in the scale of the pencil."""
    count, vectors = n.shape
    size, k = batch.size, batch.linear.shape[1]
    eye = np.eye(size)
    y, z, a0 = pencil.y, pencil.z, batch.alpha0[:, None, None]
    w0, w1, w2 = (batch.weights[:, j] for j in range(3))
    yl = np.einsum("bj,bjmn->bmn", w2, pencil.A)
    yl[:, range(k), range(k)] += 1.0
    C = y[:, None] + batch.ladder / a0[:, None]
    Sr = (small_inverse(eye + C @ z[:, None]) @ C).reshape(count, -1, size * size)
    N1 = y - (eye + y @ z) @ small_inverse(eye + yl @ z) @ (yl - y)
    tau = ((f * w1[:, None]) @ Sr).reshape(count, vectors, size, size)
    tau[:, 0] = small_inverse(eye + y @ z) @ y
    pairs = (f * w0[:, None])[:, :, None] * f[:, None]
    both = (pairs.reshape(count, vectors**2, -1) @ Sr).reshape(count, vectors, vectors, size, size) / a0[:, None, None]
    na, nb = n[:, :, None, None, None], n[:, None, :, None, None]
    ta, tb, z = tau[:, :, None], tau[:, None], z[:, None, None]
    left, right = na * eye - ta @ z, nb * eye - z @ tb
    return both + nb * ta + na * tb - ta @ z @ tb - left @ N1[:, None, None] @ right
