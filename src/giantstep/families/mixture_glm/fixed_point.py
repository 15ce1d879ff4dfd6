"""The fixed point of any loss, by mixture_glm section 4: channel, implicit mean step, prior; mixing, then Newton."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from giantstep.families.mixture_glm.channel import Hats, hats
from giantstep.families.mixture_glm.problem import MixtureProblem, State
from giantstep.families.mixture_glm.tolerances import LEAST_STATE
from giantstep.risk import implicit_mean_step, stiffness
from giantstep.solve import solve_accelerated
from giantstep.types import Floats, Indices, Integers


class Norms(NamedTuple):
    """|w|^2/d, |w|_1/d and the fraction of weights that are not zero, (B,)."""

    squared: Floats
    absolute: Floats
    nonzero: Floats


class SolvedBatch(NamedTuple):
    """A solved batch: the order parameters, the norms of the weights, and how well it was solved."""

    state: State
    norms: Norms
    residual: Floats
    iterations: Integers


class Prior(Protocol):
    """The prior side: what the penalty makes of the hats."""

    def update(self, problem: MixtureProblem, state: State, hat: Hats) -> tuple[State, Floats]:
        """Return the new state, with the implicit mean step, and the size of that step's correction (B,)."""

    def norms(self, problem: MixtureProblem, hat: Hats) -> Norms:
        """Return the norms of the weights at the fixed point."""


class Quadratic:
    """The penalty ridge/2 |w|^2 in any representation."""

    def update(self, problem: MixtureProblem, state: State, hat: Hats) -> tuple[State, Floats]:
        """Return the new state and the size of the correction."""
        K = problem.clusters
        response = problem.mixture.data.response(problem.ridge, hat.V, problem.teacher_norm)
        R = response.R
        drift = (R[:, K:, :K] @ hat.m[..., None] + R[:, K:, K:] @ hat.h[..., None])[..., 0] - state.h
        weights = stiffness(hat.V, problem.strength(state.V), problem.samples * problem.omega)
        delta, step = implicit_mean_step(weights * drift, hat.h.sum(axis=1), R[:, K:, K:], weights, problem.intercept)
        beta = np.concatenate([hat.m, hat.h + delta], axis=1)
        m, h = np.split((R @ beta[..., None])[..., 0], 2, axis=1)
        q = response.bias(beta) + (response.T @ hat.q[..., None])[..., 0]
        return State(response.V, q, m, h, state.b + step), np.abs(delta).max(axis=1)

    def norms(self, problem: MixtureProblem, hat: Hats) -> Norms:
        """Return beta.R2 beta + t2.q_hat as the squared norm."""
        response = problem.mixture.data.response(problem.ridge, hat.V, problem.teacher_norm)
        beta = np.concatenate([hat.m, hat.h], axis=1)
        squared = np.einsum("bi,bij,bj->b", beta, response.R2, beta, optimize=True) + (response.t2 * hat.q).sum(axis=1)
        return Norms(squared, np.full(problem.size, np.nan), np.ones(problem.size))


def pack(problem: MixtureProblem, state: State) -> Floats:
    """Write a state in scale-free coordinates: log V, log q, m/sqrt(q), h/sqrt(q), b over 1 + the mean sqrt(q)."""
    # a strong l1 penalty leaves no weights at all
    V, q = np.maximum(state.V, LEAST_STATE), np.maximum(state.q, LEAST_STATE)
    root = np.sqrt(q)
    scale = 1 + np.sqrt(q @ problem.mixture.p)
    return np.concatenate([np.log(V), np.log(q), state.m / root, state.h / root, (state.b / scale)[:, None]], axis=1)


def unpack(problem: MixtureProblem, x: Floats) -> State:
    """Read a state from its scale-free coordinates."""
    V, q, m, h = np.split(x[:, :-1], 4, axis=1)
    V, q = np.exp(V), np.exp(q)
    root, scale = np.sqrt(q), 1 + np.sqrt(q @ problem.mixture.p)
    return State(V, q, m * root, h * root, x[:, -1] * scale)


def solve(problem: MixtureProblem, prior: Prior, start: State | None = None, *, patient: bool = True) -> SolvedBatch:
    """Solve all points until the residual, the largest change in scale-free coordinates, is small.

    Without patience a point that neither mixing nor Newton solves is given up, rather than damped.
    """

    def sweep(x: Floats, active: Indices) -> Floats:
        part = problem.take(active)
        state = unpack(part, x)
        return pack(part, prior.update(part, state, hats(part, state))[0])

    begin = pack(problem, problem.start() if start is None else start)
    point = solve_accelerated(sweep, begin, damping=(0.5, 0.8, 0.95) if patient else ())
    state = unpack(problem, point.x)
    with np.errstate(all="ignore"):
        hat = hats(problem, state)
        _, correction = prior.update(problem, state, hat)
        # an inner step cut short would make a false fixed point: its correction must vanish as well
        scale = np.sqrt((hat.q + hat.h**2).sum(axis=1))
        residual = np.maximum(point.residual, np.where(scale > 0, 1e-2 * correction / scale, 0.0))
        norms = prior.norms(problem, hat)
    # only an l1 penalty may leave no weights: elsewhere a vanishing response is the floor, not a solution
    floored = (state.V < 1e3 * LEAST_STATE).any(axis=1) & (problem.l1 == 0)
    residual = np.where(np.isfinite(residual) & ~floored, residual, np.inf)
    return SolvedBatch(state, norms, residual, point.iterations)
