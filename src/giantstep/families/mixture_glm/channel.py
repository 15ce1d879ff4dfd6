"""The channel side of the state equations, mixture_glm (2a): from the order parameters to their hats."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.families.mixture_glm.problem import MixtureProblem, State
from giantstep.risk import channel_moments, sum_rows
from giantstep.risk.clipping import Clipped, clipped_moments
from giantstep.types import Floats, Indices


class Hats(NamedTuple):
    """V_hat, q_hat, m_hat, h_hat of each cluster, (B, K)."""

    V: Floats
    q: Floats
    m: Floats
    h: Floats


def hats(problem: MixtureProblem, state: State) -> Hats:
    """Return alpha p_c times E[-dg/domega], E g^2, E dg/dnu and E g, g the pull of the proximal map.

    A weight omega_c of the loss makes the strength of the map omega_c V_c and multiplies g.
    """
    integrals = _square if problem.loss == "square" else _binary if problem.binary else _real
    g, g2, slope, along = integrals(problem, state)
    omega, samples = problem.omega, problem.samples
    return Hats(-samples * omega * slope, samples * omega**2 * g2, samples * omega * along, samples * omega * g)


def _square(problem: MixtureProblem, state: State) -> tuple[Floats, Floats, Floats, Floats]:
    """The square loss sees only moments of the labels."""
    y, k = problem.moments(), 1 / (1 + problem.strength(state.V))
    return k * (y.y0 - state.mean), k**2 * y.squared_error(state), -k, k * y.y1


def _binary(problem: MixtureProblem, state: State) -> tuple[Floats, Floats, Floats, Floats]:
    V = np.tile(problem.strength(state.V).ravel(), 2)
    loss = problem.margin_loss.at(np.arange(V.size) % state.V.size)
    moments = channel_moments(problem.margin_laws(state).with_mirrored(), problem.label_law, loss, V)
    g, g2, slope, along = (
        part.reshape(2, *state.V.shape) for part in (moments.g, moments.g2, moments.slope, moments.along_teacher)
    )
    return g[0] - g[1], g2.sum(axis=0), slope.sum(axis=0), along.sum(axis=0)


def _real(problem: MixtureProblem, state: State) -> tuple[Floats, Floats, Floats, Floats]:
    """Huber's loss of a residual that is Gaussian given the teacher field, whatever the label's function of it."""
    stretch = 1 + problem.strength(state.V)
    residuals = Residuals.of(problem, state)
    moments = residuals.clip(problem.huber[:, None] * stretch)
    g, g2, inside, covariance = (
        residuals.average(values) / power
        for values, power in (
            (moments.first, stretch),
            (moments.second, stretch**2),
            (moments.inside, stretch),
            (moments.first * residuals.field, stretch),
        )
    )
    return g, g2, -inside, (covariance + state.m * inside) / problem.rho


class Residuals(NamedTuple):
    """y - omega given the teacher field: Gaussian with `mean` and `scale` at the nodes of a rule over the field.

    field : nu - tau at the nodes; weights, row : of the rule, row = point * K + cluster; shape : (B, K).
    """

    mean: Floats
    scale: Floats
    field: Floats
    weights: Floats
    row: Indices
    shape: tuple[int, int]

    @classmethod
    def of(cls, problem: MixtureProblem, state: State) -> Residuals:
        """Return the residuals of real labels; given nu - tau the prediction has the mean H + m/rho (nu - tau)."""
        nodes = problem.teacher_nodes()
        row, rho, m = nodes.row, problem.rho.ravel()[nodes.row], state.m.ravel()[nodes.row]
        noise = np.repeat(problem.noise, problem.clusters)[row]
        spread = np.maximum(state.q.ravel()[row] - m**2 / rho, 0.0) + noise
        mean = nodes.labels - state.mean.ravel()[row] - m / rho * nodes.field
        return cls(mean, np.sqrt(np.maximum(spread, 1e-300)), nodes.field, nodes.weights, row, state.q.shape)

    def clip(self, reach: Floats) -> Clipped:
        """Return moments at the nodes of the residuals clipped at reach (B, K)."""
        return clipped_moments(self.mean, self.scale, reach.ravel()[self.row])

    def average(self, values: Floats) -> Floats:
        """Return the average over the teacher field in each cluster, (B, K)."""
        return sum_rows(self.row, self.weights * values, self.shape[0] * self.shape[1]).reshape(self.shape)
