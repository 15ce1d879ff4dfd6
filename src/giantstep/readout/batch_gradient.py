"""How the covariance of the signal's coordinates after a finite batch moves: one backward pass; see `batch_signal`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.readout.batch_signal import BatchSignal
from giantstep.types import Array, Floats


def covariance_gradient(signal: BatchSignal, dual: Floats) -> tuple[Array, Array, Array]:
    """Return the gradient of dual^T P dual in gm (B, M, M), R (B, k) and Vh1 (B, k, k), for dual (B, 3k).

    Since J S_ab^T J = S_ba with J = I (+) -I, dual^T P dual is sum_ab lambda_a^T S_ab rho_b and explicit terms, with
    lambda_a, rho_a = (u_a, -+ l_a y), u_a = alpha_a - Vh1 (m_a y), y the dual of y and alpha_a that of t and psi.
    """
    (count, k), vectors, R, Vh1 = signal.R.shape, signal.vectors, signal.R, signal.Vh1
    of_t_psi, of_y = np.split(dual.reshape(count, 3, k), [2], axis=1)
    own = vectors.own * of_y
    m = R[:, None] * own
    upper = np.swapaxes(vectors.directions, 1, 2) @ of_t_psi - m @ Vh1
    left = right = upper
    if signal.batch.doubled:
        lower = vectors.carried * of_y
        left, right = np.concatenate([upper, -lower], axis=2), np.concatenate([upper, lower], axis=2)
    from_right = signal.roots[:, None]
    from_left = signal.pencil.sign[:, None] * from_right
    left, right = from_left * left, from_right * right
    slopes = _Slopes.at(signal, left, right)

    of_upper = (from_left * slopes.left + from_right * slopes.right)[:, :, :k]
    of_m = 2 * vectors.inner @ upper - of_upper @ Vh1
    z = slopes.z[:, :k, :k] * signal.pencil.z[:, :k, :k]
    of_log = 0.5 * (slopes.left * left + slopes.right * right).reshape(count, -1, k).sum(axis=1)
    of_log += 0.5 * (z.sum(axis=1) + z.sum(axis=2))
    of_R = of_log / R + (of_m * own).sum(axis=1) + signal.batch.spread * of_y[:, 0] ** 2
    of_Vh1 = signal.pencil.scale * slopes.z[:, :k, :k]
    of_Vh1 -= np.swapaxes(of_upper + vectors.inner @ m, 1, 2) @ m
    return _through_gm(signal, slopes), of_R, of_Vh1


@dataclass
class _Slopes:
    """The gradient of sum_ab left_a^T S_ab right_b, S_ab of (6.6) in the scale of the pencil."""

    left: Array  # (B, A, M)
    right: Array
    y: Array  # (B, M, M)
    seen_y: Array
    z: Array

    @classmethod
    def at(cls, signal: BatchSignal, left: Array, right: Array) -> _Slopes:
        """Differentiate; at the nodes only vectors are needed, since each meets its response between two of them."""
        n, z, N1, Sr = signal.vectors.n, signal.pencil.z, signal.N1, signal.at_nodes
        pair, single = (weights[:, :, None] for weights in signal.weights)
        f = np.swapaxes(signal.f, 1, 2)
        L, R = f @ left, f @ right
        left_Sr, Sr_right = (L[:, :, None] @ Sr)[:, :, 0], (Sr @ R[..., None])[..., 0]
        u, v = (single * left_Sr).sum(axis=1), (single * Sr_right).sum(axis=1)
        p = (n[:, None] @ left)[:, 0] - _apply(_turn(z), u)
        q = (n[:, None] @ right)[:, 0] - _apply(z, v)
        N1_q, p_N1 = _apply(N1, q), _apply(_turn(N1), p)
        of_u, of_v = q + _apply(z, N1_q), p + _apply(_turn(z), p_N1)

        meets_left, meets_right = pair * R + single * of_u[:, None], single * of_v[:, None]
        Sr_meets = pair * Sr_right + single * (Sr @ of_u[:, None, :, None])[..., 0]
        meets_Sr = single * (of_v[:, None, None] @ Sr)[:, :, 0]
        of_z = _outer(u, N1_q - v) + _outer(p_N1, v) - _turn(left_Sr) @ Sr_meets - _turn(meets_Sr) @ Sr_right
        of_y = _turn(L - left_Sr @ z) @ (meets_left - Sr_meets @ _turn(z))
        of_y += _turn(meets_right - meets_Sr @ z) @ (R - Sr_right @ _turn(z))

        B, HE = signal.target_gap  # N1 = y - B E moves by -p q^T
        p_B, HE_q = _apply(_turn(B), p), _apply(HE, q)
        beyond = q - _apply(z, HE_q)
        of_y -= _outer(p, beyond) + _outer(p_B, q)
        of_z += _outer(_apply(_turn(signal.pencil.y), p) - _apply(_turn(signal.seen_y), p_B), HE_q)
        of_left = _turn(f) @ Sr_meets + _outer(n, v - N1_q)
        of_right = _turn(f) @ (pair * left_Sr + meets_Sr) + _outer(n, u - p_N1)
        return cls(of_left, of_right, of_y, _outer(p_B, beyond), of_z)


def _through_gm(signal: BatchSignal, slopes: _Slopes) -> Array:
    """Return the gradient in gm, which moves y and seen_y by -E_b[A dgm A]/alpha0, E_b[s^2 .]: (B, M, M)."""
    count, nodes, size, _ = signal.pencil.A.shape
    flat = signal.pencil.A.reshape(count, nodes, size * size)
    of_gm = np.zeros((count, size, size))
    for weights, slope in ((signal.batch.weights[:, 0], slopes.y), (signal.batch.weights[:, 2], slopes.seen_y)):
        weighted = flat * (weights / signal.batch.alpha0[:, None])[:, :, None]
        moved = (_turn(weighted) @ flat).reshape(count, size, size, size, size)  # [c, a, b, d] = E A_ca A_bd
        of_gm -= np.einsum("bcaed,bcd->bae", moved, slope)
    return of_gm


def _turn(matrices: Array) -> Array:
    return np.swapaxes(matrices, 1, 2)


def _apply(matrices: Array, vectors: Array) -> Array:
    applied: Array = (matrices @ vectors[:, :, None])[:, :, 0]
    return applied


def _outer(first: Array, second: Array) -> Array:
    return first[:, :, None] * second[:, None]
