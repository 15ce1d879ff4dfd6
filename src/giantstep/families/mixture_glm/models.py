"""What the limit needs to know of the data: responses of the weights to the hats, in blocks, with spikes, or dense.

With F = (s_1..s_K, sqrt(d) mu_1..mu_K) and A = ridge + sum_c V_hat_c Sigma_c every representation supplies V_c =
tr(Sigma_c A^-1)/d, R = F^T A^-1 F/d, Q_c = F^T A^-1 Sigma_c A^-1 F/d, T_cc' = tr(Sigma_c A^-1 Sigma_c' A^-1)/d, and for
the norm of the weights R2 = F^T A^-2 F/d and t2_c = tr(Sigma_c A^-2)/d. All else follows from these.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from scipy.linalg import get_lapack_funcs

from giantstep.errors import bad_field
from giantstep.families.mixture_glm.parts import (
    PSD_TOLERANCE,
    Blocks,
    Dense,
    Isotropic,
    Spiked,
    smallest_eigenvalue,
)
from giantstep.types import Floats

if TYPE_CHECKING:
    from giantstep.families.mixture_glm.scenario import MixtureGLM


class Response(NamedTuple):
    """What a representation supplies at given hats, for B points (see the module)."""

    V: Floats
    R: Floats
    Q: Floats
    T: Floats
    R2: Floats
    t2: Floats

    def bias(self, beta: Floats) -> Floats:
        """Return beta.Q_c beta, (B, K), for beta = (m_hat, h_hat) (B, 2K)."""
        return np.einsum("bi,bcij,bj->bc", beta, self.Q, beta, optimize=True)


class Representation(Protocol):
    """Covariances together with teacher and means, at B values of the teacher's norm."""

    clusters: int

    def response(self, ridge: Floats, V_hat: Floats, teacher_norm: Floats) -> Response:
        """Return the response at the ridges (B,), the hats (B, K) and the teacher norms (B,)."""


@dataclass(frozen=True)
class BlockModel:
    """Covariances diagonal in one basis, perhaps with spikes (one cluster only).

    Attributes
    ----------
    weights : (k,) fraction of the coordinates in each block.
    variances : (K, k) eigenvalues of the clusters.
    moments, per_norm : (k, f, f) second moments of the columns of F in each block: moments + teacher_norm * per_norm.
    select : (f, 2K) the vectors (s_c, sqrt(d) mu_c) in terms of these columns; None is the identity.
    spikes : (f, r) or None; the covariance is diag + F spikes (F spikes)^T/d.
    law : "gaussian" or "fixed" coordinates, for an l1 penalty.
    """

    weights: Floats
    variances: Floats
    moments: Floats
    per_norm: Floats
    select: Floats | None = None
    spikes: Floats | None = None
    law: str = "gaussian"

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len(self.variances)

    def moments_at(self, teacher_norm: Floats) -> Floats:
        """Return the second moments G_k at B teacher norms, shape (B or 1, k, f, f)."""
        if not self.per_norm.any():
            return self.moments[None]
        return self.moments + teacher_norm[:, None, None, None] * self.per_norm

    def response(self, ridge: Floats, V_hat: Floats, teacher_norm: Floats) -> Response:
        """Return the response at the ridges (B,), the hats (B, K) and the teacher norms (B,)."""
        offsets = ridge[:, None] + V_hat @ self.variances  # A_k, (B, k)
        first = self.weights / offsets
        second = first / offsets
        by_cluster = second[:, None, :] * self.variances
        G = self.moments_at(teacher_norm)
        V, t2, T = first @ self.variances.T, by_cluster.sum(axis=-1), by_cluster @ self.variances.T
        R, R2, Q = _averaged(first, G), _averaged(second, G), _averaged(by_cluster, G)
        if self.spikes is not None:
            gamma, hat = self.spikes, V_hat[:, :1, None]
            inner = np.eye(gamma.shape[1]) + hat * (gamma.T @ R @ gamma)
            removed = hat * (gamma @ np.linalg.solve(inner, gamma.T @ R))
            passed = np.eye(len(gamma)) - removed
            along = gamma.T @ R @ passed
            transposed = passed.swapaxes(-1, -2)
            R = R @ passed
            R2 = transposed @ R2 @ passed
            Q = (transposed @ Q[:, 0] @ passed + along.swapaxes(-1, -2) @ along)[:, None]
        if self.select is not None:
            R, R2, Q = (self.select.T @ matrix @ self.select for matrix in (R, R2, Q))
        return Response(V, R, Q, T, R2, t2)


def _averaged(weights: Floats, moments: Floats) -> Floats:
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
    """Several clusters with arbitrary covariances: one factorisation of A for each point.

    Attributes
    ----------
    matrices : (K, d, d).
    columns : (d, 2K) the vectors F where they are given; zero where they are not.
    teacher_at_random, means_at_random : whether teacher or means lie in random directions instead.
    tau : (K,) products of teacher and means, where both are random.
    gram : (K, K) Gram matrix of random means.
    """

    matrices: Floats
    columns: Floats
    teacher_at_random: bool
    means_at_random: bool
    tau: Floats
    gram: Floats

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len(self.matrices)

    def response(self, ridge: Floats, V_hat: Floats, teacher_norm: Floats) -> Response:
        """Return the response at the ridges (B,), the hats (B, K) and the teacher norms (B,)."""
        points = [self._one(*point) for point in zip(ridge, V_hat, teacher_norm)]
        return Response(*(np.stack(part) for part in zip(*points)))

    def _one(self, ridge: float, V_hat: Floats, teacher_norm: float) -> Response:
        K, dim = self.matrices.shape[:2]
        A = np.tensordot(V_hat, self.matrices, 1)
        A[np.diag_indices(dim)] += ridge
        inverse = _inverse(A)
        X = inverse @ self.matrices  # A^-1 Sigma_c
        V = np.trace(X, axis1=1, axis2=2) / dim
        flat = X.reshape(K, -1)
        T = flat @ X.swapaxes(1, 2).reshape(K, -1).T / dim
        t2 = np.tensordot(X, inverse, 2) / dim
        Z = inverse @ self.columns
        R, R2 = self.columns.T @ Z / dim, Z.T @ Z / dim
        Q = Z.T @ self.matrices @ Z / dim
        s, h = slice(0, K), slice(K, 2 * K)
        if self.teacher_at_random and teacher_norm:
            R[s, s] += teacher_norm * self.matrices.reshape(K, -1) @ X.swapaxes(1, 2).reshape(K, -1).T / dim
            R2[s, s] += teacher_norm * flat @ flat.T / dim
            for c in range(K):
                Q[c, s, s] += teacher_norm * flat @ (self.matrices[c] @ X).reshape(K, -1).T / dim
        if self.means_at_random:
            trace, trace2 = np.trace(inverse) / dim, np.sum(inverse**2) / dim
            R[h, h] += self.gram * trace
            R2[h, h] += self.gram * trace2
            Q[:, h, h] += self.gram * t2[:, None, None]
            if self.teacher_at_random:
                cross = V[:, None] * self.tau
                R[s, h] += cross
                R[h, s] += cross.T
                cross = t2[:, None] * self.tau
                R2[s, h] += cross
                R2[h, s] += cross.T
                cross_by_cluster = T.T[:, :, None] * self.tau
                Q[:, s, h] += cross_by_cluster
                Q[:, h, s] += cross_by_cluster.swapaxes(1, 2)
        return Response(V, R, Q, T, R2, t2)


def _inverse(A: Floats) -> Floats:
    """Return the inverse of a positive definite matrix, NaN where it is not."""
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (A,))
    factor, failed = potrf(A, lower=1)
    inverse, also = potri(factor, lower=1)
    if failed or also:
        return np.full_like(A, np.nan)
    lower = np.tril(inverse)
    return np.asarray(lower + np.tril(inverse, -1).T)


@dataclass(frozen=True)
class Mixture:
    """A mixture as the limit sees it.

    Attributes
    ----------
    p : (K,) probabilities of the clusters.
    tau : (K,) means of the teacher field.
    variance, variance_per_norm : (K,) Var_c(nu) = variance + teacher_norm * variance_per_norm.
    trace : (K,) tr Sigma_c/d.
    data : the representation.
    """

    p: Floats
    tau: Floats
    variance: Floats
    variance_per_norm: Floats
    trace: Floats
    data: BlockModel | DenseModel

    def rho(self, teacher_norm: Floats) -> Floats:
        """Return the variances of the teacher field at B teacher norms, (B, K)."""
        return self.variance + teacher_norm[:, None] * self.variance_per_norm

    def within(self) -> Mixture:
        """Return N(0, sum p_c Sigma_c), with the mean covariance of teacher field and inputs."""
        return self._one_gaussian(between=False)

    def matched(self) -> Mixture:
        """Return the Gaussian with the mixture's mean, covariance, and covariance with the teacher field."""
        return self._one_gaussian(between=True)

    def _one_gaussian(self, between: bool) -> Mixture:
        K = len(self.p)
        blocks, old_select = _in_one_basis(self)
        identity = np.eye(2 * K)
        s, h = identity[:, :K], identity[:, K:]
        mean = h @ self.p
        deviation = h - mean[:, None]
        tau = float(self.p @ self.tau)
        select = np.stack([s @ self.p, np.zeros(2 * K)], axis=1)
        variance, spikes = float(self.p @ self.variance), blocks.spikes
        if between:
            select[:, 0] += deviation @ (self.p * (self.tau - tau))
            select[:, 1] = mean
            variance += float(self.p @ (self.tau - tau) ** 2)
            added = old_select @ (deviation * np.sqrt(self.p)) if K > 1 else None
            spikes = added if spikes is None else spikes
        model = BlockModel(
            blocks.weights,
            blocks.variances,
            blocks.moments,
            blocks.per_norm,
            old_select @ select,
            spikes,
            blocks.law,
        )
        return Mixture(
            np.ones(1),
            np.array([tau if between else 0.0]),
            np.array([variance]),
            np.array([float(self.p @ self.variance_per_norm)]),
            np.array([float(self.p @ self.trace)]),
            model,
        )


def _in_one_basis(mixture: Mixture) -> tuple[BlockModel, Floats]:
    """Return sum p_c Sigma_c as one cluster in blocks, with all columns of F, and F's selection among them."""
    data, p = mixture.data, mixture.p
    if isinstance(data, BlockModel):
        columns = data.moments.shape[-1]
        select = np.eye(columns) if data.select is None else data.select
        one = BlockModel(
            data.weights, (p @ data.variances)[None], data.moments, data.per_norm, None, data.spikes, data.law
        )
        return one, select
    dim, K = data.matrices.shape[1], data.clusters
    values, basis = np.linalg.eigh(np.tensordot(p, data.matrices, 1))
    rotated = basis.T @ data.columns
    moments = rotated[:, :, None] * rotated[:, None, :]
    per_norm = np.zeros_like(moments)
    inside = basis.T @ data.matrices @ basis  # (K, d, d)
    if data.teacher_at_random:
        per_norm[:, :K, :K] = np.einsum("aki,bki->kab", inside, inside, optimize=True)
    if data.means_at_random:
        moments[:, K:, K:] += data.gram
        if data.teacher_at_random:
            cross = np.diagonal(inside, axis1=1, axis2=2).T[:, :, None] * data.tau
            moments[:, :K, K:] += cross
            moments[:, K:, :K] += cross.swapaxes(1, 2)
    return BlockModel(np.full(dim, 1 / dim), np.maximum(values, 0.0)[None], moments, per_norm), np.eye(2 * K)


def describe(scenario: MixtureGLM) -> Mixture:
    """Return the mixture of a scenario as the limit sees it; Gram matrices that are none are refused."""
    return described(scenario.covariances, scenario.weights, tuple(map(tuple, scenario.gram)), tuple(scenario.tau))


@functools.lru_cache(maxsize=64)
def described(
    parts: Isotropic | Blocks | Dense | Spiked,
    weights: tuple[float, ...],
    gram: tuple[tuple[float, ...], ...],
    tau: tuple[float, ...],
) -> Mixture:
    """Return the mixture of these covariances, weights, Gram matrix of the means and products with the teacher."""
    builders = {Isotropic: _isotropic, Blocks: _blocks, Dense: _dense, Spiked: _spiked}
    build = builders[type(parts)]
    mixture: Mixture = build(parts, np.array(weights), np.array(gram), np.array(tau))  # type: ignore[operator]
    return mixture


def _spread(sigma: Floats, gram: Floats, tau: Floats) -> tuple[Floats, Floats]:
    """Return the moments of one block with variances (K,): teacher of norm 1 per unit, means of that Gram matrix."""
    K = len(sigma)
    moments, per_norm = np.zeros((2 * K, 2 * K)), np.zeros((2 * K, 2 * K))
    per_norm[:K, :K] = np.outer(sigma, sigma)
    moments[:K, K:] = np.outer(sigma, tau)
    moments[K:, :K] = moments[:K, K:].T
    moments[K:, K:] = gram
    return moments, per_norm


def _isotropic(parts: Isotropic, p: Floats, gram: Floats, tau: Floats) -> Mixture:
    sigma = np.array(parts.values)
    moments, per_norm = _spread(sigma, gram, tau)
    model = BlockModel(np.ones(1), sigma[:, None], moments[None], per_norm[None])
    return Mixture(p, tau, np.zeros(len(p)), sigma, sigma, model)


def _blocks(parts: Blocks, p: Floats, gram: Floats, tau: Floats) -> Mixture:
    K, pi, sigma = parts.clusters, np.array(parts.weights), np.asarray(parts.values)
    trace = sigma @ pi
    if parts.moments.size:
        moments = np.asarray(parts.moments)
        model = BlockModel(pi, sigma, moments, np.zeros_like(moments), law=parts.law)
        return Mixture(p, tau, np.array(parts.teacher_variance), np.zeros(K), trace, model)
    grams = np.asarray(parts.means) if parts.means.size else np.broadcast_to(gram, (len(pi), K, K))
    taus = np.asarray(parts.teacher_means) if parts.teacher_means.size else np.broadcast_to(tau, (len(pi), K))
    pairs = [_spread(sigma[:, k], grams[k], taus[k]) for k in range(len(pi))]
    moments, per_norm = (np.stack(part) for part in zip(*pairs))
    if not parts.teacher:
        model = BlockModel(pi, sigma, moments, per_norm, law=parts.law)
        return Mixture(p, tau, np.zeros(K), trace, trace, model)
    teacher = np.array(parts.teacher)
    for k in range(len(pi)):
        check_gram(f"covariances (block {k + 1}: teacher, teacher_means, means)", teacher[k], taus[k], grams[k])
    moments = moments + teacher[:, None, None] * per_norm
    model = BlockModel(pi, sigma, moments, np.zeros_like(moments), law=parts.law)
    return Mixture(p, tau, sigma @ (pi * teacher), np.zeros(K), trace, model)


def _dense(parts: Dense, p: Floats, gram: Floats, tau: Floats) -> Mixture:
    K, dim = parts.clusters, parts.dim
    matrices = np.asarray(parts.matrices)
    trace = parts.mean_eigenvalues
    given, explicit = bool(parts.teacher.size or parts.cross.size), bool(parts.means.size)
    columns = np.zeros((dim, 2 * K))
    variance, per_norm = np.zeros(K), trace
    if parts.teacher.size:
        theta = np.asarray(parts.teacher)
        columns[:, :K] = (matrices @ theta).T
        variance, per_norm = theta @ matrices @ theta / dim, np.zeros(K)
    elif parts.cross.size:
        columns[:, :K] = np.asarray(parts.cross).T
        variance, per_norm = np.array(parts.teacher_variance), np.zeros(K)
    if explicit:
        columns[:, K:] = np.sqrt(dim) * np.asarray(parts.means).T
    if given != explicit and tau.any() and not parts.cross.size:
        raise bad_field("teacher_means", tau.tolist(), "0 unless Dense has both vectors, teacher and means, or neither")
    data = DenseModel(matrices, columns, not given, not explicit, tau, gram)
    mixture = Mixture(p, tau, variance, per_norm, trace, data)
    if K > 1:
        return mixture
    blocks, select = _in_one_basis(mixture)
    one = BlockModel(blocks.weights, blocks.variances, blocks.moments, blocks.per_norm, select)
    return Mixture(p, tau, variance, per_norm, trace, one)


def _spiked(parts: Spiked, p: Floats, gram: Floats, tau: Floats) -> Mixture:
    spikes = len(parts.strengths)
    strengths = np.array(parts.strengths)
    omega = np.array(parts.teacher_alignment or [0.0] * spikes)
    nu = np.array(parts.mean_alignment or [0.0] * spikes)
    pi, sigma = np.array(parts.weights), np.array(parts.values)
    columns = 2 + spikes
    moments, per_norm = np.zeros((len(pi), columns, columns)), np.zeros((len(pi), columns, columns))
    per_norm[:, 0, 0] = sigma**2
    moments[:, 0, 1] = moments[:, 1, 0] = sigma * tau[0]
    moments[:, 0, 2:] = moments[:, 2:, 0] = sigma[:, None] * omega
    moments[:, 1, 1] = gram[0, 0]
    moments[:, 1, 2:] = moments[:, 2:, 1] = nu
    moments[:, 2:, 2:] = np.eye(spikes)
    select = np.zeros((columns, 2))
    select[0, 0] = select[1, 1] = 1
    select[2:, 0] = strengths * omega
    gamma = np.zeros((columns, spikes))
    gamma[2:] = np.diag(np.sqrt(strengths))
    trace = np.array([pi @ sigma])
    model = BlockModel(pi, sigma[None], moments, per_norm, select, gamma)
    return Mixture(p, tau, np.array([strengths @ omega**2]), trace, trace, model)


def check_gram(name: str, teacher_norm: float, tau: Floats, gram: Floats) -> None:
    """Refuse lengths and products of teacher and means that no vectors have."""
    matrix = np.block([[np.array([[teacher_norm]]), tau[None]], [tau[:, None], gram]])
    smallest = smallest_eigenvalue(matrix)
    if smallest < -PSD_TOLERANCE:
        allowed = (
            f"such that [[teacher_norm, teacher_means], [teacher_means, mean_gram]] is positive semidefinite (its "
            f"smallest eigenvalue is {smallest * max(1.0, float(np.abs(matrix).max())):.3g})"
        )
        raise bad_field(name, tau.tolist(), allowed)
