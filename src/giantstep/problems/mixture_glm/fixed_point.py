"""The fixed point of any loss, by mixture_glm section 4: channel, implicit mean step,
prior; mixing, then Newton.

With an l1 penalty the prior has soft thresholds, section 2.2, and means that are not
linear in h_hat.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats, Indices, Integers
from giantstep.core.maths.gaussian import normal_density
from giantstep.core.maths.solve import solve_accelerated
from giantstep.core.readout.losses.channel import RowNodes, both_moments
from giantstep.core.readout.losses.clipping import Clipped, clipped_moments
from giantstep.core.readout.losses.mean_step import implicit_mean_step, stiffness
from giantstep.problems.mixture_glm.problem import MixtureProblem, State
from giantstep.problems.mixture_glm.responses import BlockModel
from giantstep.problems.mixture_glm.tolerances import LEAST_STATE


class Norms(NamedTuple):
    """|w|^2/d, |w|_1/d and the fraction of weights that are not zero, (B,)."""

    squared: Floats
    absolute: Floats
    nonzero: Floats


class SolvedBatch(NamedTuple):
    """A solved batch: the order parameters, the norms of the weights, and how well it
    was solved.
    """

    state: State
    norms: Norms
    residual: Floats
    iterations: Integers


def _quadratic(
    problem: MixtureProblem, state: State, hat: Hats
) -> tuple[State, Floats]:
    """Return the new state with the penalty ridge/2 |w|^2, in any representation, and
    the size of the correction.
    """
    K = problem.clusters
    response = problem.mixture.data.response(problem.ridge, hat.V, problem.teacher_norm)
    R = response.R
    drift = (R[:, K:, :K] @ hat.m[..., None] + R[:, K:, K:] @ hat.h[..., None])[
        ..., 0
    ] - state.h
    weights = stiffness(hat.V, problem.omega * state.V, problem.samples * problem.omega)
    delta, step = implicit_mean_step(
        weights * drift, hat.h.sum(axis=1), R[:, K:, K:], weights, problem.intercept
    )
    beta = np.concatenate([hat.m, hat.h + delta], axis=1)
    m, h = np.split((R @ beta[..., None])[..., 0], 2, axis=1)
    q = response.bias(beta) + (response.T @ hat.q[..., None])[..., 0]
    return State(response.V, q, m, h, state.b + step), np.abs(delta).max(axis=1)


def _elastic_net(
    problem: MixtureProblem, state: State, hat: Hats
) -> tuple[State, Floats]:
    """Return the same with the penalty ridge/2 |w|^2 + l1 |w|_1, covariances diagonal
    in the basis of coordinates.
    """
    field = _Field(problem, hat)
    weights = stiffness(hat.V, problem.omega * state.V, problem.samples * problem.omega)
    now = field.threshold(hat.h)
    drift = field.means(hat.h, now)[:, problem.clusters :] - state.h
    response = field.response(hat.h, now)
    # one step of Newton's method: it vanishes at the fixed point, whatever the means
    # are on the way
    delta, step = implicit_mean_step(
        weights * drift, hat.h.sum(axis=1), response, weights, problem.intercept
    )
    h_hat = hat.h + delta
    moments = field.threshold(h_hat)
    m, h = np.split(field.means(h_hat, moments), 2, axis=1)
    V = (field.pi * moments.outside / field.offset) @ field.variances.T
    q = (field.pi * moments.rest_squared / field.offset**2) @ field.variances.T
    return State(V, q, m, h, state.b + step), np.abs(delta).max(axis=1)


def norms_of(problem: MixtureProblem, hat: Hats) -> Norms:
    """Return the norms of the weights: beta.R2 beta + t2.q_hat, or with an l1 penalty
    those of a thresholded field.
    """
    if np.any(problem.l1):
        field = _Field(problem, hat)
        moments = field.threshold(hat.h)
        weights = field.pi / field.offset
        squared = (weights / field.offset * moments.rest_squared).sum(axis=1)
        return Norms(
            squared,
            (weights * moments.rest_size).sum(axis=1),
            (field.pi * moments.outside).sum(axis=1),
        )
    response = problem.mixture.data.response(problem.ridge, hat.V, problem.teacher_norm)
    beta = np.concatenate([hat.m, hat.h], axis=1)
    squared = np.einsum("bi,bij,bj->b", beta, response.R2, beta, optimize=True) + (
        response.t2 * hat.q
    ).sum(axis=1)
    return Norms(squared, np.full(problem.size, np.nan), np.ones(problem.size))


class _Field:
    """The field that acts on a coordinate of each block, at given hats, as a function
    of h_hat.

    Its weight is S(field)/A_k with S the soft threshold at l1. The field of block k has
    variance `noise` around beta.f, where f is a fixed vector or Gaussian of second
    moment G_k, and beta = (m_hat, h_hat).
    """

    def __init__(self, problem: MixtureProblem, hat: Hats) -> None:
        data = problem.mixture.data
        assert isinstance(data, BlockModel)
        self.pi = data.weights
        self.variances = data.variances
        self.offset = problem.ridge[:, None] + hat.V @ data.variances  # A_k
        self.noise = hat.q @ data.variances
        self.l1 = problem.l1[:, None]
        self.m_hat = hat.m
        G = data.moments_at(problem.teacher_norm)
        G = G if data.select is None else data.select.T @ G @ data.select
        self.G = np.broadcast_to(G, (problem.size, *G.shape[1:]))
        self.fixed = np.zeros(self.G.shape[:-1])
        if (
            data.law == "fixed"
        ):  # f_k with f_k f_k^T = G_k, and nothing Gaussian; its sign plays no part
            values, vectors = np.linalg.eigh(self.G)
            self.fixed = vectors[..., -1] * np.sqrt(np.maximum(values[..., -1:], 0.0))
            self.G = np.zeros_like(self.G)

    def _push(self, h_hat: Floats) -> tuple[Floats, Floats, Floats]:
        """Return G_k beta (B, k, 2K), and mean beta.f_k and variance noise + beta.G_k
        beta of the field (B, k).
        """
        beta = np.concatenate([self.m_hat, h_hat], axis=1)
        push = np.einsum("bkij,bj->bki", self.G, beta)
        mean = np.einsum("bki,bi->bk", self.fixed, beta)
        signal = np.einsum("bki,bi->bk", push, beta)
        return push, mean, np.maximum(self.noise + signal, 1e-300)

    def threshold(self, h_hat: Floats) -> Clipped:
        """Return the moments of the thresholded field in each block, (B, k)."""
        _, mean, variance = self._push(h_hat)
        return clipped_moments(mean, np.sqrt(variance), self.l1)

    def means(self, h_hat: Floats, moments: Clipped) -> Floats:
        """Return (m, h), (B, 2K)."""
        columns = (
            moments.rest[..., None] * self.fixed
            + moments.outside[..., None] * self._push(h_hat)[0]
        )
        return np.einsum("bk,bki->bi", self.pi / self.offset, columns)

    def response(self, h_hat: Floats, moments: Clipped) -> Floats:
        """Return d h/d h_hat, (B, K, K)."""
        K = h_hat.shape[1]
        push, _, variance = self._push(h_hat)
        u = self.l1 / np.sqrt(variance)
        bend = self.pi * 2 * normal_density(u) * u / variance / self.offset
        push = push[:, :, K:]
        f = self.fixed[:, :, K:]
        second = self.G[:, :, K:, K:] + f[..., None] * f[:, :, None]
        linear = np.einsum(
            "bk,bkij->bij", self.pi * moments.outside / self.offset, second
        )
        return linear + np.einsum("bk,bki,bkj->bij", bend, push, push)


def pack(problem: MixtureProblem, state: State) -> Floats:
    """Write a state in scale-free coordinates: log V, log q, m/sqrt(q), h/sqrt(q), b
    over 1 + the mean sqrt(q).
    """
    # a strong l1 penalty leaves no weights at all
    V = np.maximum(state.V, LEAST_STATE)
    q = np.maximum(state.q, LEAST_STATE)
    root = np.sqrt(q)
    scale = 1 + np.sqrt(q @ problem.mixture.p)
    return np.concatenate(
        [
            np.log(V),
            np.log(q),
            state.m / root,
            state.h / root,
            (state.b / scale)[:, None],
        ],
        axis=1,
    )


def unpack(problem: MixtureProblem, x: Floats) -> State:
    """Read a state from its scale-free coordinates."""
    V, q, m, h = np.split(x[:, :-1], 4, axis=1)
    V = np.exp(V)
    q = np.exp(q)
    root = np.sqrt(q)
    scale = 1 + np.sqrt(q @ problem.mixture.p)
    return State(V, q, m * root, h * root, x[:, -1] * scale)


def solve(
    problem: MixtureProblem, start: State | None = None, *, patient: bool = True
) -> SolvedBatch:
    """Solve all points, with l1 penalties or all without; what needs damping is given
    up without patience.
    """
    update = _elastic_net if np.any(problem.l1) else _quadratic

    def sweep(x: Floats, active: Indices) -> Floats:
        part = problem.take(active)
        state = unpack(part, x)
        return pack(part, update(part, state, hats(part, state))[0])

    begin = pack(problem, problem.start() if start is None else start)
    point = solve_accelerated(sweep, begin, patient=patient)
    state = unpack(problem, point.x)
    with np.errstate(all="ignore"):
        hat = hats(problem, state)
        _, correction = update(problem, state, hat)
        # an inner step cut short would make a false fixed point: its correction must
        # vanish as well
        scale = np.sqrt((hat.q + hat.h**2).sum(axis=1))
        residual = np.maximum(
            point.residual, np.where(scale > 0, 1e-2 * correction / scale, 0.0)
        )
        norms = norms_of(problem, hat)
    # only an l1 penalty may leave no weights: elsewhere a vanishing response is the
    # floor, not a solution
    floored = (state.V < 1e3 * LEAST_STATE).any(axis=1) & (problem.l1 == 0)
    residual = np.where(np.isfinite(residual) & ~floored, residual, np.inf)
    return SolvedBatch(state, norms, residual, point.iterations)


# -- The channel side of the state equations -------------------------------------------


class Hats(NamedTuple):
    """V_hat, q_hat, m_hat, h_hat of each cluster, (B, K)."""

    V: Floats
    q: Floats
    m: Floats
    h: Floats


def hats(problem: MixtureProblem, state: State) -> Hats:
    """Return alpha p_c times E[-dg/domega], E g^2, E dg/dnu and E g, g the pull of the
    proximal map.

    A weight omega_c of the loss makes the strength of the map omega_c V_c and
    multiplies g.
    """
    if problem.loss == "square":
        integrals = _square
    elif problem.binary:
        integrals = _binary
    else:
        integrals = _real
    g, g2, slope, along = integrals(problem, state)
    omega = problem.omega
    samples = problem.samples
    return Hats(
        -samples * omega * slope,
        samples * omega**2 * g2,
        samples * omega * along,
        samples * omega * g,
    )


def _square(
    problem: MixtureProblem, state: State
) -> tuple[Floats, Floats, Floats, Floats]:
    """The square loss sees only moments of the labels."""
    y = problem.moments()
    k = 1 / (1 + problem.omega * state.V)
    return k * (y.y0 - state.mean), k**2 * y.squared_error(state), -k, k * y.y1


def _binary(
    problem: MixtureProblem, state: State
) -> tuple[Floats, Floats, Floats, Floats]:
    V = (problem.omega * state.V).ravel()
    moments = both_moments(
        problem.margin_laws(state), problem.label_law, problem.margin_loss, V
    )
    g, g2, slope, along = (part.reshape(state.V.shape) for part in moments)
    return g, g2, slope, along


def _real(
    problem: MixtureProblem, state: State
) -> tuple[Floats, Floats, Floats, Floats]:
    """Huber's loss of a residual that is Gaussian given the teacher field, whatever the
    label's function of it.
    """
    stretch = 1 + problem.omega * state.V
    residuals = Residuals.of(problem, state)
    moments = residuals.clip(problem.huber[:, None] * stretch)
    columns = (
        moments.first,
        moments.second,
        moments.inside,
        moments.first * residuals.nodes.xi,
    )
    g, g2, inside, covariance = (
        residuals.average(values) / stretch for values in columns
    )
    return g, g2 / stretch, -inside, (covariance + state.m * inside) / problem.rho


class Residuals(NamedTuple):
    """y - omega given the teacher field: Gaussian with `mean` and `scale` at the nodes
    of a rule over nu - tau.
    """

    mean: Floats
    scale: Floats
    nodes: RowNodes
    shape: tuple[int, int]  # (B, K)

    @classmethod
    def of(cls, problem: MixtureProblem, state: State) -> Residuals:
        """Return the residuals of real labels; given nu - tau the prediction has the
        mean H + m/rho (nu - tau).
        """
        nodes, labels = problem.teacher_nodes()
        row = nodes.row
        rho = problem.rho.ravel()[nodes.row]
        m = state.m.ravel()[nodes.row]
        noise = np.repeat(problem.noise, problem.clusters)[row]
        spread = np.maximum(state.q.ravel()[row] - m**2 / rho, 0.0) + noise
        mean = labels - state.mean.ravel()[row] - m / rho * nodes.xi
        return cls(mean, np.sqrt(np.maximum(spread, 1e-300)), nodes, state.q.shape)

    def clip(self, reach: Floats) -> Clipped:
        """Return moments at the nodes of the residuals clipped at reach (B, K)."""
        return clipped_moments(self.mean, self.scale, reach.ravel()[self.nodes.row])

    def average(self, values: Floats) -> Floats:
        """Return the average over the teacher field in each cluster, (B, K)."""
        return self.nodes.sums(values)[0].reshape(self.shape)
