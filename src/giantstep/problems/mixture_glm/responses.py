"""Responses of the weights to the hats for covariances in blocks, with spikes, or
dense: mixture_glm section 2.1.

With F = (s_1..s_K, sqrt(d) mu_1..mu_K) and A = ridge + sum_c V_hat_c Sigma_c every
representation supplies V_c = tr(Sigma_c A^-1)/d, R = F^T A^-1 F/d, Q_c = F^T A^-1
Sigma_c A^-1 F/d, T_cc' = tr(Sigma_c A^-1 Sigma_c' A^-1)/d, and for the norm of the
weights R2 = F^T A^-2 F/d and t2_c = tr(Sigma_c A^-2)/d. All else follows from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats


class HatResponse(NamedTuple):
    """What a representation supplies at given hats, for B points (see the module)."""

    V: Floats
    R: Floats
    Q: Floats
    T: Floats
    R2: Floats
    t2: Floats

    def bias(self, beta: Floats) -> Floats:
        """Return beta.Q_c beta, (B, K), for beta = (m_hat, h_hat) (B, 2K)."""
        return np.einsum("bcj,bj->bc", np.einsum("bi,bcij->bcj", beta, self.Q), beta)


@dataclass(frozen=True)
class BlockModel:
    """Covariances diagonal in one basis, mixture_glm (2.1a), perhaps with spikes (one
    cluster only).
    """

    weights: Floats  # (k,) fraction of the coordinates in each block
    variances: Floats  # (K, k) eigenvalues of the clusters
    # (k, f, f) second moments of the columns of F in each block: moments +
    # teacher_norm * per_norm
    moments: Floats
    per_norm: Floats
    select: Floats | None = (
        # (f, 2K), (s_c, sqrt(d) mu_c) in terms of these columns; None is the identity
        None
    )
    spikes: Floats | None = (
        None  # (f, r) or None; the covariance is diag + F spikes (F spikes)^T/d
    )
    law: str = "gaussian"  # "gaussian" or "fixed" coordinates, for an l1 penalty

    def moments_at(self, teacher_norm: Floats) -> Floats:
        """Return the second moments G_k at B teacher norms, shape (B or 1, k, f, f)."""
        if not self.per_norm.any():
            return self.moments[None]
        return self.moments + teacher_norm[:, None, None, None] * self.per_norm

    def response(
        self, ridge: Floats, V_hat: Floats, teacher_norm: Floats
    ) -> HatResponse:
        """Return the response at the ridges (B,), the hats (B, K) and the teacher norms
        (B,).
        """
        offsets = ridge[:, None] + V_hat @ self.variances  # A_k, (B, k)
        first = self.weights / offsets
        second = first / offsets
        by_cluster = second[:, None, :] * self.variances
        G = self.moments_at(teacher_norm)
        V = first @ self.variances.T
        t2 = by_cluster.sum(axis=-1)
        T = by_cluster @ self.variances.T
        R = _sum_blocks(first, G)
        R2 = _sum_blocks(second, G)
        Q = _sum_blocks(by_cluster, G)
        if self.spikes is not None:
            gamma = self.spikes
            hat = V_hat[:, :1, None]
            inner = np.eye(gamma.shape[1]) + hat * (gamma.T @ R @ gamma)
            passed = np.eye(len(gamma)) - hat * (
                gamma @ np.linalg.solve(inner, gamma.T @ R)
            )
            along = gamma.T @ R @ passed
            transposed = passed.swapaxes(-1, -2)
            R = R @ passed
            R2 = transposed @ R2 @ passed
            Q = (transposed @ Q[:, 0] @ passed + along.swapaxes(-1, -2) @ along)[
                :, None
            ]
        if self.select is not None:
            R, R2, Q = (self.select.T @ matrix @ self.select for matrix in (R, R2, Q))
        return HatResponse(V, R, Q, T, R2, t2)


def _sum_blocks(weights: Floats, moments: Floats) -> Floats:
    """Return sum_k weights[b, ..., k] moments[b or 0, k]."""
    if len(moments) == 1:
        flat = weights @ moments[0].reshape(moments.shape[1], -1)
    else:
        rows = weights if weights.ndim == 3 else weights[:, None, :]
        flat = rows @ moments.reshape(*moments.shape[:2], -1)
        flat = flat if weights.ndim == 3 else flat[:, 0]
    return flat.reshape(*weights.shape[:-1], *moments.shape[-2:])


@dataclass(frozen=True)
class DenseModel:
    """Several clusters with arbitrary covariances: one factorisation of A for each
    point.
    """

    matrices: Floats  # (K, d, d)
    columns: (
        Floats  # (d, 2K) the vectors F where they are given; zero where they are not
    )
    teacher_at_random: (
        bool  # whether the teacher, or the means, lie in random directions instead
    )
    means_at_random: bool
    tau: Floats  # (K,) products of teacher and means, where both are random
    gram: Floats  # (K, K) Gram matrix of random means

    def response(
        self, ridge: Floats, V_hat: Floats, teacher_norm: Floats
    ) -> HatResponse:
        """Return the response at the ridges (B,), the hats (B, K) and the teacher norms
        (B,).
        """
        points = [
            self._response_at(*point) for point in zip(ridge, V_hat, teacher_norm)
        ]
        return HatResponse(*(np.stack(part) for part in zip(*points)))

    def _response_at(
        self, ridge: float, V_hat: Floats, teacher_norm: float
    ) -> HatResponse:
        """Return the response at one point; random directions add their averages to R,
        R2 and Q.
        """
        K, dim = self.matrices.shape[:2]
        A = np.tensordot(V_hat, self.matrices, 1)
        A[np.diag_indices(dim)] += ridge
        inverse = _inverse(A)
        X = inverse @ self.matrices  # A^-1 Sigma_c
        V = np.trace(X, axis1=1, axis2=2) / dim
        T = _trace_products(X, X.swapaxes(1, 2)) / dim
        t2 = np.tensordot(X, inverse, 2) / dim
        Z = inverse @ self.columns
        R = self.columns.T @ Z / dim
        R2 = Z.T @ Z / dim
        Q = Z.T @ self.matrices @ Z / dim
        s = slice(0, K)
        h = slice(K, 2 * K)
        if self.teacher_at_random and teacher_norm:
            R[s, s] += (
                teacher_norm * _trace_products(self.matrices, X.swapaxes(1, 2)) / dim
            )
            R2[s, s] += teacher_norm * _trace_products(X, X) / dim
            for c in range(K):
                Q[c, s, s] += (
                    teacher_norm * _trace_products(X, self.matrices[c] @ X) / dim
                )
        if self.means_at_random:
            for matrix, trace in (
                (R, np.trace(inverse) / dim),
                (R2, np.sum(inverse**2) / dim),
                (Q, t2),
            ):
                matrix[..., h, h] += self.gram * np.asarray(trace)[..., None, None]
            for matrix, traces in (
                ((R, V), (R2, t2), (Q, T.T)) if self.teacher_at_random else ()
            ):
                cross = traces[..., None] * self.tau
                matrix[..., s, h] += cross
                matrix[..., h, s] += cross.swapaxes(-1, -2)
        return HatResponse(V, R, Q, T, R2, t2)


def _trace_products(left: Floats, right: Floats) -> Floats:
    """Return sum_ij left[a]_ij right[b]_ij for stacks of K matrices, (K, K)."""
    return left.reshape(len(left), -1) @ right.reshape(len(right), -1).T


def _inverse(A: Floats) -> Floats:
    """Return the inverse of a positive definite matrix, NaN where it is not."""
    from scipy.linalg import (
        get_lapack_funcs,
    )  # slow to load, and the scenario loads this module

    potrf, potri = get_lapack_funcs(("potrf", "potri"), (A,))
    factor, failed = potrf(A, lower=1)
    inverse, also = potri(factor, lower=1)
    if failed or also:
        return np.full_like(A, np.nan)
    return np.asarray(np.tril(inverse) + np.tril(inverse, -1).T)
