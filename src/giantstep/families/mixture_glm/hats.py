"""The channel side of the equations: from the order parameters to their hats."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.families.mixture_glm.problem import Problem, State
from giantstep.risk import channel_moments, summed
from giantstep.risk.residuals import Clipped, clipped_moments
from giantstep.types import Floats, Indices


class Hats(NamedTuple):
    """V_hat, q_hat, m_hat, h_hat of each cluster, (B, K)."""

    V: Floats
    q: Floats
    m: Floats
    h: Floats


def hats(problem: Problem, state: State) -> Hats:
    """Return alpha p_c times E[-dg/domega], E g^2, E dg/dnu and E g, g the pull of the proximal map."""
    integrals = _square if problem.loss == "square" else _binary if problem.binary else _real
    g, g2, slope, along = integrals(problem, state)
    omega, samples = problem.omega, problem.samples
    return Hats(-samples * omega * slope, samples * omega**2 * g2, samples * omega * along, samples * omega * g)


def _square(problem: Problem, state: State) -> tuple[Floats, Floats, Floats, Floats]:
    """The square loss sees only moments of the labels."""
    y, mean = problem.moments(), state.h + state.b[:, None]
    k = 1 / (1 + problem.strength(state.V))
    mse = y.y2 - 2 * mean * y.y0 - 2 * state.m * y.y1 + state.q + mean**2
    return k * (y.y0 - mean), k**2 * mse, -k, k * y.y1


def _binary(problem: Problem, state: State) -> tuple[Floats, Floats, Floats, Floats]:
    B, K = problem.size, problem.clusters
    strength = np.repeat(problem.strength(state.V), 2)
    moments = channel_moments(problem.rows(state), problem.label_law(), problem.loss_of_rows(2), strength)
    parts = [part.reshape(B, K, 2) for part in (moments.g, moments.g2, moments.slope, moments.along_teacher)]
    g, g2, slope, along = parts
    return g[..., 0] - g[..., 1], g2.sum(axis=-1), slope.sum(axis=-1), along.sum(axis=-1)


def _real(problem: Problem, state: State) -> tuple[Floats, Floats, Floats, Floats]:
    """Huber's loss of a residual that is Gaussian given the teacher field, whatever the label's function of it."""
    B, K = problem.size, problem.clusters
    strength = problem.strength(state.V).ravel()
    moments, centred, weights, row = residual_moments(problem, state, 1 + strength)
    outer = [moments.first, moments.second, moments.inside, moments.first * centred]
    first, second, inside, covariance = (summed(row, weights * f, B * K) for f in outer)
    slope = -inside / (1 + strength)
    along = (covariance / (1 + strength) - state.m.ravel() * slope) / problem.rho.ravel()
    parts = (first / (1 + strength), second / (1 + strength) ** 2, slope, along)
    g, g2, slope, along = (part.reshape(B, K) for part in parts)
    return g, g2, slope, along


def residual_moments(problem: Problem, state: State, stretch: Floats) -> tuple[Clipped, Floats, Floats, Indices]:
    """Return moments of y - omega clipped at huber * stretch at teacher nodes, nu - tau, weights and rows there."""
    mean, scale, centred, weights, row = residual_law(problem, state)
    reach = (np.repeat(problem.huber, problem.clusters) * stretch)[row]
    return clipped_moments(mean, scale, reach), centred, weights, row


def residual_law(problem: Problem, state: State) -> tuple[Floats, Floats, Floats, Floats, Indices]:
    """Return mean and scale of y - omega given the teacher field at its nodes, nu - tau, weights and rows."""
    nu, y, weights, row = problem.teacher_nodes()
    rho, m = problem.rho.ravel()[row], state.m.ravel()[row]
    centred = nu - np.tile(problem.mixture.tau, problem.size)[row]
    field = (state.h + state.b[:, None]).ravel()[row]
    noise = np.repeat(problem.noise, problem.clusters)[row]
    spread = np.maximum(state.q.ravel()[row] - m**2 / rho, 0.0) + noise
    return y - field - m / rho * centred, np.sqrt(np.maximum(spread, 1e-300)), centred, weights, row
