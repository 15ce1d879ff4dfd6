"""A mixture as the limit sees it: what each way to give the covariances says of
clusters, teacher and means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Floats
from giantstep.problems.mixture_glm.parts import (
    Blocks,
    Dense,
    Isotropic,
    Spiked,
    check_psd,
    joint_gram,
)
from giantstep.problems.mixture_glm.responses import BlockModel, DenseModel

if TYPE_CHECKING:
    from giantstep.problems.mixture_glm.scenario import MixtureGLM


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """Clusters, covariances, teacher and means."""

    p: Floats  # (K,) probabilities of the clusters
    tau: Floats  # (K,) means of the teacher field
    variance: Floats  # (K,), Var_c(nu) = variance + teacher_norm * variance_per_norm
    variance_per_norm: Floats
    trace: Floats  # (K,) tr Sigma_c/d
    data: BlockModel | DenseModel  # the representation

    def rho(self, teacher_norm: Floats) -> Floats:
        """Return the variances of the teacher field at B teacher norms, (B, K)."""
        return self.variance + teacher_norm[:, None] * self.variance_per_norm

    def within(self) -> GaussianMixture:
        """Return N(0, sum p_c Sigma_c), with the mean covariance of teacher field and
        inputs.
        """
        blocks, columns = _in_one_basis(self)
        select = np.zeros((2 * len(self.p), 2))
        select[: len(self.p), 0] = self.p
        return self._with_one_cluster(
            np.zeros(1), np.zeros(1), replace(blocks, select=columns @ select)
        )

    def matched(self) -> GaussianMixture:
        """Return the Gaussian with the mixture's mean and covariances, section 6: what
        separates is a spike.
        """
        blocks, columns = _in_one_basis(self)
        K = len(self.p)
        p = self.p
        off = self.tau - p @ self.tau
        deviation = np.eye(2 * K)[:, K:] - np.append(np.zeros(K), p)[:, None]
        select = np.stack(
            [
                np.append(p, np.zeros(K)) + deviation @ (p * off),
                np.append(np.zeros(K), p),
            ],
            axis=1,
        )
        spikes = blocks.spikes
        if K > 1:
            spikes = columns @ (deviation * np.sqrt(p))
        return self._with_one_cluster(
            p @ self.tau,
            p @ off**2,
            replace(blocks, select=columns @ select, spikes=spikes),
        )

    def _with_one_cluster(
        self, tau: Floats, between: Floats, data: BlockModel
    ) -> GaussianMixture:
        numbers = (
            tau,
            self.p @ self.variance + between,
            self.p @ self.variance_per_norm,
            self.p @ self.trace,
        )
        tau, variance, per_norm, trace = map(np.atleast_1d, numbers)
        return GaussianMixture(np.ones(1), tau, variance, per_norm, trace, data)


def _in_one_basis(mixture: GaussianMixture) -> tuple[BlockModel, Floats]:
    """Return sum p_c Sigma_c as one cluster in blocks, with all columns of F, and F's
    selection among them.
    """
    data = mixture.data
    p = mixture.p
    if isinstance(data, BlockModel):
        if data.select is None:
            select = np.eye(data.moments.shape[-1])
        else:
            select = data.select
        return replace(data, variances=(p @ data.variances)[None], select=None), select
    K, dim = data.matrices.shape[:2]
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
    return BlockModel(
        np.full(dim, 1 / dim), np.maximum(values, 0.0)[None], moments, per_norm
    ), np.eye(2 * K)


def describe(scenario: MixtureGLM) -> GaussianMixture:
    """Return the mixture of a scenario as the limit sees it; Gram matrices that are
    none are refused.
    """
    parts = scenario.covariances
    known = (scenario.p, scenario.gram, scenario.tau)
    if isinstance(parts, Isotropic | Blocks):
        return _blocks(
            parts.as_blocks() if isinstance(parts, Isotropic) else parts, *known
        )
    if isinstance(parts, Dense):
        return _dense(parts, *known)
    return _spiked(parts, *known)


def _blocks(parts: Blocks, p: Floats, gram: Floats, tau: Floats) -> GaussianMixture:
    K = parts.clusters
    pi = np.array(parts.weights)
    sigma = np.asarray(parts.values)
    trace = sigma @ pi
    if parts.moments.size:
        moments = np.asarray(parts.moments)
        model = BlockModel(pi, sigma, moments, np.zeros_like(moments), law=parts.law)
        return GaussianMixture(
            p, tau, np.array(parts.teacher_variance), np.zeros(K), trace, model
        )
    teacher, taus, grams = map(np.array, zip(*parts.overlaps(0.0, tau, gram)))
    moments, per_norm = np.zeros((2, len(pi), 2 * K, 2 * K))
    per_norm[:, :K, :K] = sigma.T[:, :, None] * sigma.T[:, None, :]
    moments[:, :K, K:] = sigma.T[:, :, None] * taus[:, None, :]
    moments[:, K:, :K] = moments[:, :K, K:].swapaxes(1, 2)
    moments[:, K:, K:] = grams
    moments += teacher[:, None, None] * per_norm
    free = not parts.teacher  # its length is then that of the scenario
    model = BlockModel(pi, sigma, moments, free * per_norm, law=parts.law)
    return GaussianMixture(p, tau, sigma @ (pi * teacher), free * trace, trace, model)


def _dense(parts: Dense, p: Floats, gram: Floats, tau: Floats) -> GaussianMixture:
    K = parts.clusters
    dim = parts.dim
    matrices = np.asarray(parts.matrices)
    trace = parts.mean_eigenvalues
    given = parts.has_teacher
    explicit = bool(parts.means.size)
    if given != explicit and tau.any() and not parts.cross.size:
        raise bad_field(
            "teacher_means",
            tau.tolist(),
            "0 unless Dense has both vectors, teacher and means, or neither",
        )
    columns = np.zeros((dim, 2 * K))
    variance = np.zeros(K)
    per_norm = np.zeros(K) if given else trace
    if parts.teacher.size:
        theta = np.asarray(parts.teacher)
        columns[:, :K] = (matrices @ theta).T
        variance = theta @ matrices @ theta / dim
    elif parts.cross.size:
        columns[:, :K] = np.asarray(parts.cross).T
        variance = np.array(parts.teacher_variance)
    if explicit:
        columns[:, K:] = np.sqrt(dim) * np.asarray(parts.means).T
    mixture = GaussianMixture(
        p,
        tau,
        variance,
        per_norm,
        trace,
        DenseModel(matrices, columns, not given, not explicit, tau, gram),
    )
    if K > 1:
        return mixture
    return replace(mixture, data=_in_one_basis(mixture)[0])


def _spiked(parts: Spiked, p: Floats, gram: Floats, tau: Floats) -> GaussianMixture:
    strengths, (omega, nu) = np.array(parts.strengths), parts.along
    pi = np.array(parts.weights)
    sigma = np.array(parts.values)
    spikes = len(strengths)
    # of Sigma theta0, mu and the spikes
    moments, per_norm = np.zeros((2, len(pi), 2 + spikes, 2 + spikes))
    per_norm[:, 0, 0] = sigma**2
    moments[:, 0, 1] = moments[:, 1, 0] = sigma * tau[0]
    moments[:, 0, 2:] = moments[:, 2:, 0] = sigma[:, None] * omega
    moments[:, 1, 1] = gram[0, 0]
    moments[:, 1, 2:] = moments[:, 2:, 1] = nu
    moments[:, 2:, 2:] = np.eye(spikes)
    select = np.eye(2 + spikes, 2)
    select[2:, 0] = strengths * omega
    gamma = np.concatenate([np.zeros((2, spikes)), np.diag(np.sqrt(strengths))])
    trace = np.array([pi @ sigma])
    model = BlockModel(pi, sigma[None], moments, per_norm, select, gamma)
    return GaussianMixture(
        p, tau, np.array([strengths @ omega**2]), trace, trace, model
    )


def check_gram(name: str, teacher_norm: float, tau: Floats, gram: Floats) -> None:
    """Refuse lengths and products of teacher and means that no vectors have."""
    such = "such that [[teacher_norm, teacher_means], [teacher_means, mean_gram]] is "
    check_psd(name, tau.tolist(), joint_gram(teacher_norm, tau, gram), such)
