"""The prior side with an l1 penalty, mixture_glm section 2.2: soft thresholds, means that are not linear in h_hat."""

from __future__ import annotations

import numpy as np

from giantstep.families.mixture_glm.channel import Hats
from giantstep.families.mixture_glm.fixed_point import Norms
from giantstep.families.mixture_glm.problem import MixtureProblem, State
from giantstep.families.mixture_glm.responses import BlockModel
from giantstep.gaussian import normal_density
from giantstep.risk import implicit_mean_step, stiffness
from giantstep.risk.clipping import Clipped, clipped_moments
from giantstep.types import Floats


class ElasticNet:
    """The penalty ridge/2 |w|^2 + l1 |w|_1, covariances diagonal in the basis of the coordinates."""

    def update(self, problem: MixtureProblem, state: State, hat: Hats) -> tuple[State, Floats]:
        """Return the new state and the size of the correction."""
        field = _Field(problem, hat)
        weights = stiffness(hat.V, problem.strength(state.V), problem.samples * problem.omega)
        now = field.threshold(hat.h)
        drift = field.means(hat.h, now)[:, problem.clusters :] - state.h
        response = field.response(hat.h, now)
        # one step of Newton's method: it vanishes at the fixed point, whatever the means are on the way
        delta, step = implicit_mean_step(weights * drift, hat.h.sum(axis=1), response, weights, problem.intercept)
        h_hat = hat.h + delta
        moments = field.threshold(h_hat)
        m, h = np.split(field.means(h_hat, moments), 2, axis=1)
        V = (field.pi * moments.outside / field.offset) @ field.variances.T
        q = (field.pi * moments.rest_squared / field.offset**2) @ field.variances.T
        return State(V, q, m, h, state.b + step), np.abs(delta).max(axis=1)

    def norms(self, problem: MixtureProblem, hat: Hats) -> Norms:
        """Return the norms of the thresholded weights."""
        field = _Field(problem, hat)
        moments = field.threshold(hat.h)
        squared = (field.pi * moments.rest_squared / field.offset**2).sum(axis=1)
        absolute = (field.pi * moments.rest_size / field.offset).sum(axis=1)
        return Norms(squared, absolute, (field.pi * moments.outside).sum(axis=1))


class _Field:
    """The field that acts on a coordinate of each block, at given hats, as a function of h_hat.

    Its weight is S(field)/A_k with S the soft threshold at l1. The field of block k has variance `noise` around
    beta.f, where f is a fixed vector or Gaussian of second moment G_k, and beta = (m_hat, h_hat).
    """

    def __init__(self, problem: MixtureProblem, hat: Hats) -> None:
        data = problem.mixture.data
        assert isinstance(data, BlockModel)
        self.pi, self.variances = data.weights, data.variances
        self.offset = problem.ridge[:, None] + hat.V @ data.variances  # A_k
        self.noise = hat.q @ data.variances
        self.l1 = problem.l1[:, None]
        self.m_hat = hat.m
        G = data.moments_at(problem.teacher_norm)
        G = G if data.select is None else data.select.T @ G @ data.select
        self.G = np.broadcast_to(G, (problem.size, *G.shape[1:]))
        self.fixed = _vectors(self.G) if data.law == "fixed" else None

    def _push(self, h_hat: Floats) -> tuple[Floats, Floats]:
        """Return G_k beta (B, k, 2K) and beta.G_k beta (B, k)."""
        beta = np.concatenate([self.m_hat, h_hat], axis=1)
        push = np.einsum("bkij,bj->bki", self.G, beta)
        return push, np.einsum("bki,bi->bk", push, beta)

    def threshold(self, h_hat: Floats) -> Clipped:
        """Return the moments of the thresholded field in each block, (B, k)."""
        if self.fixed is not None:
            mean = np.einsum("bki,bi->bk", self.fixed, np.concatenate([self.m_hat, h_hat], axis=1))
            variance = self.noise
        else:
            variance = self.noise + self._push(h_hat)[1]
            mean = np.zeros_like(variance)
        return clipped_moments(mean, np.sqrt(np.maximum(variance, 1e-300)), self.l1)

    def means(self, h_hat: Floats, moments: Clipped) -> Floats:
        """Return (m, h), (B, 2K)."""
        if self.fixed is not None:
            return np.einsum("bk,bki->bi", self.pi * moments.rest / self.offset, self.fixed)
        return np.einsum("bk,bki->bi", self.pi * moments.outside / self.offset, self._push(h_hat)[0])

    def response(self, h_hat: Floats, moments: Clipped) -> Floats:
        """Return d h/d h_hat, (B, K, K)."""
        K = h_hat.shape[1]
        weight = self.pi * moments.outside / self.offset
        if self.fixed is not None:
            f = self.fixed[:, :, K:]
            return np.einsum("bk,bki,bkj->bij", weight, f, f)
        push, signal = self._push(h_hat)
        total = self.noise + signal
        u = self.l1 / np.sqrt(total)
        bend = self.pi * 2 * normal_density(u) * u / total / self.offset
        push = push[:, :, K:]
        linear = np.einsum("bk,bkij->bij", weight, self.G[:, :, K:, K:])
        return linear + np.einsum("bk,bki,bkj->bij", bend, push, push)


def _vectors(G: Floats) -> Floats:
    """Return f_k with f_k f_k^T = G_k; its sign plays no part."""
    values, vectors = np.linalg.eigh(G)
    return vectors[..., -1] * np.sqrt(np.maximum(values[..., -1:], 0.0))
