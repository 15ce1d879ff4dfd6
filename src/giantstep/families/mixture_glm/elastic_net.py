"""The prior side with an l1 penalty: soft thresholds block by block, and an implicit mean step that is not linear."""

from __future__ import annotations

import numpy as np

from giantstep.families.mixture_glm.fixed_point import Norms
from giantstep.families.mixture_glm.hats import Hats
from giantstep.families.mixture_glm.models import BlockModel
from giantstep.families.mixture_glm.problem import Problem, State
from giantstep.gaussian import normal_density
from giantstep.risk import stiffness
from giantstep.risk.penalties import SoftThreshold, soft_threshold
from giantstep.solve import solve_each
from giantstep.types import Floats

_INNER_STEPS = 60


class ElasticNet:
    """The penalty ridge/2 |w|^2 + l1 |w|_1, covariances diagonal in the basis of the coordinates."""

    def update(self, problem: Problem, state: State, hat: Hats) -> tuple[State, Floats]:
        """Return the new state and the size of the correction."""
        field = _Field(problem, hat)
        weights = stiffness(hat.V, problem.strength(state.V), problem.samples * problem.omega)
        delta, step = _inner_step(field, hat, state.h, weights, problem.intercept)
        h_hat = hat.h + delta
        moments = field.thresholds(h_hat)
        mh = field.means(h_hat, moments)
        K = problem.clusters
        V = (field.pi * moments.active / field.offset) @ field.variances.T
        q = (field.pi * moments.second / field.offset**2) @ field.variances.T
        new = State(V, q, mh[:, :K], mh[:, K:], state.b + step)
        return new, np.abs(delta).max(axis=1)

    def norms(self, problem: Problem, state: State, hat: Hats) -> Norms:
        """Return the norms of the thresholded weights."""
        field = _Field(problem, hat)
        moments = field.thresholds(hat.h)
        squared = (field.pi * moments.second / field.offset**2).sum(axis=1)
        absolute = (field.pi * moments.absolute / field.offset).sum(axis=1)
        return Norms(squared, absolute, (field.pi * moments.active).sum(axis=1))


class _Field:
    """The field that acts on a coordinate of each block, at given hats, as a function of h_hat."""

    def __init__(self, problem: Problem, hat: Hats) -> None:
        data = problem.mixture.data
        assert isinstance(data, BlockModel)
        self.pi, self.variances = data.weights, data.variances
        self.offset = problem.ridge[:, None] + hat.V @ data.variances
        self.noise = hat.q @ data.variances
        self.l1 = problem.l1[:, None]
        self.m_hat = hat.m
        self.G = data.moments_at(problem.teacher_norm)
        self.fixed = _vectors(self.G) if data.law == "fixed" else None

    def beta(self, h_hat: Floats) -> Floats:
        """Return (m_hat, h_hat)."""
        return np.concatenate([self.m_hat, h_hat], axis=1)

    def _push(self, h_hat: Floats) -> Floats:
        """Return G_k beta, (B, k, 2K)."""
        return np.einsum("bkij,bj->bki", np.broadcast_to(self.G, (len(h_hat), *self.G.shape[1:])), self.beta(h_hat))

    def thresholds(self, h_hat: Floats) -> SoftThreshold:
        """Return the moments of the thresholded field in each block, (B, k)."""
        if self.fixed is not None:
            mean = np.einsum(
                "bki,bi->bk", np.broadcast_to(self.fixed, (len(h_hat), *self.fixed.shape[1:])), self.beta(h_hat)
            )
            return soft_threshold(mean, self.noise, self.l1)
        signal = np.einsum("bki,bi->bk", self._push(h_hat), self.beta(h_hat))
        return soft_threshold(np.zeros_like(signal), self.noise + signal, self.l1)

    def means(self, h_hat: Floats, moments: SoftThreshold) -> Floats:
        """Return (m, h), (B, 2K)."""
        if self.fixed is not None:
            return np.einsum(
                "bk,bki->bi",
                self.pi * moments.first / self.offset,
                np.broadcast_to(self.fixed, (len(h_hat), *self.fixed.shape[1:])),
            )
        return np.einsum("bk,bki->bi", self.pi * moments.active / self.offset, self._push(h_hat))

    def response(self, h_hat: Floats, moments: SoftThreshold) -> Floats:
        """Return d h/d h_hat, (B, K, K)."""
        K = h_hat.shape[1]
        weight = self.pi * moments.active / self.offset
        if self.fixed is not None:
            f = np.broadcast_to(self.fixed, (len(h_hat), *self.fixed.shape[1:]))[:, :, K:]
            return np.einsum("bk,bki,bkj->bij", weight, f, f)
        push = self._push(h_hat)
        total = self.noise + np.einsum("bki,bi->bk", push, self.beta(h_hat))
        u = self.l1 / np.sqrt(total)
        bend = self.pi * 2 * normal_density(u) * u / total / self.offset
        G = np.broadcast_to(self.G, (len(h_hat), *self.G.shape[1:]))[:, :, K:, K:]
        push = push[:, :, K:]
        return np.einsum("bk,bkij->bij", weight, G) + np.einsum("bk,bki,bkj->bij", bend, push, push)


def _vectors(G: Floats) -> Floats:
    """Return f_k with f_k f_k^T = G_k; its sign plays no part."""
    values, vectors = np.linalg.eigh(G)
    return vectors[..., -1] * np.sqrt(np.maximum(values[..., -1:], 0.0))


def _inner_step(field: _Field, hat: Hats, h_old: Floats, weights: Floats, intercept: bool) -> tuple[Floats, Floats]:
    """Solve delta + weights (h(h_hat + delta) - h_old + db) = 0 [sum(h_hat + delta) = 0]: Newton with backtracking."""
    B, K = hat.h.shape
    size = K + 1 if intercept else K
    x = np.zeros((B, size))

    def residual(x: Floats) -> tuple[Floats, SoftThreshold]:
        moments = field.thresholds(hat.h + x[:, :K])
        h = field.means(hat.h + x[:, :K], moments)[:, K:]
        shift = x[:, K:] if intercept else 0.0
        first = x[:, :K] + weights * (h - h_old + shift)
        last = (hat.h + x[:, :K]).sum(axis=1, keepdims=True) if intercept else np.zeros((B, 0))
        return np.concatenate([first, last], axis=1), moments

    value, moments = residual(x)
    for _ in range(_INNER_STEPS):
        norm = np.abs(value).max(axis=1)
        if np.all(~(norm > 1e-14 * (1 + np.abs(hat.h).max(axis=1)))):
            break
        jacobian = np.zeros((B, size, size))
        jacobian[:, :K, :K] = np.eye(K) + weights[:, :, None] * field.response(hat.h + x[:, :K], moments)
        if intercept:
            jacobian[:, :K, K] = weights
            jacobian[:, K, :K] = 1
        step = -solve_each(jacobian, value[..., None])[..., 0]
        length = np.ones(B)
        for _ in range(12):
            trial, trial_moments = residual(x + length[:, None] * step)
            worse = ~(np.abs(trial).max(axis=1) < norm)
            if not worse.any():
                break
            length = np.where(worse, 0.5 * length, length)
        still = ~(np.abs(trial).max(axis=1) < norm)
        if still.all():
            break
        x = np.where(still[:, None], x, x + length[:, None] * step)
        value, moments = residual(x)
    return x[:, :K], x[:, K] if intercept else np.zeros(B)
