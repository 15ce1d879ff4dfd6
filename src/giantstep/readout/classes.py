"""Classification: the second layer fitted with a convex loss of the margin (section 9 of the notes).

Labels are sign<w*,x>, turned with probability `flip`, and a minimises sum_mu l(y_mu f_mu) + (ridge/2) |a|^2. Given
kappa the output before the fit reacts, omega ~ N(c, Q), and the teacher field <w*,x> are jointly Gaussian, with
covariance rho psi.mu1: every node of kappa is a cluster of `giantstep.risk`, whose channel gives E g, E g^2, E g' and
E dg/dnu. The bulk responds as in the ridge problem, with -E g' in place of 1/(1+V):

    Vh1 = -r E[mu1 mu1^T g'],  Vh2 = -r E[mu2 g'];  psih = r rho E[mu1 dg/dnu],  psi = S psih
    (Q1, Q2) = -L(r E[mu1 mu1^T g^2] + beta psih psih^T,  r E[mu2 g^2] + beta t^2/(omega R^2))
    r E[mu0_q g] = theta_q/(d R_q),  r E[T_q g] = t_q/(omega_q R_q)

The last two are solved by Newton's step at every sweep; the rest is iterated with Anderson's mixing, in the scale-free
coordinates (log V, log Q, c/sqrt(Q), psi/sqrt(Q)): where the classes are nearly separable everything grows together.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.readout.errors import least_squares, misclassified
from giantstep.readout.features import Tables
from giantstep.readout.first_order import (
    Equations,
    Response,
    isotropic_response,
    response_matrix,
    starting_response,
    variance_function,
)
from giantstep.risk import Hinge, Logistic, Loss, Rows, SignLabels, channel_moments, quadrature, stiffness
from giantstep.solve import solve_each
from giantstep.types import Floats, Indices, Integers

LOSSES: dict[str, Loss] = {"logistic": Logistic(), "hinge": Hinge()}
CHUNK = 8
NODES = 8
"""Quadrature nodes on a panel of the margin: nine digits of every observable; the room's 20 would cost twice."""
MAX_SWEEPS = 200
MEMORY = 6
"""Earlier sweeps that Anderson's mixing looks back on."""
NEAR = 0.5
"""Distance below which sweeps are mixed; further out they are taken as they are."""
GOAL = 1e-11
GOOD_ENOUGH = 1e-9
_LABELS = SignLabels()
_RARE = 1e-13
"""Nodes of kappa whose probability is below this are left out."""


@dataclass
class Classifier:
    """The fitted classifier at B points; the letters are those of the notes, `identity` a self-test."""

    test: Floats
    train: Floats
    objective: Floats
    misclassified: Floats
    norm: Floats
    theta: Floats
    t: Floats
    psi: Floats
    Q1: Floats
    Q2: Floats
    V1: Floats
    V2: Floats
    identity: Floats
    residual: Floats
    iterations: Integers

    @classmethod
    def join(cls, parts: list[Classifier]) -> Classifier:
        """Concatenate chunks of points."""
        names = cls.__dataclass_fields__
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


@dataclass
class _State:
    """What is iterated: V, Q and c at the nodes (B, N), psi (B, k), and the R that starts the bulk."""

    V: Floats
    Q: Floats
    c: Floats
    psi: Floats
    R: Floats

    def take(self, index: Any) -> _State:
        return _State(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def put(self, index: Any, part: _State) -> None:
        for name in self.__dataclass_fields__:
            getattr(self, name)[index] = getattr(part, name)

    def coordinates(self) -> Floats:
        """Return log V and log Q at the nodes, c and psi over the root of Q in the middle, (B, 3 N + k)."""
        scale = np.sqrt(self.Q[:, self.Q.shape[1] // 2, None])
        return np.concatenate([np.log(self.V), np.log(self.Q), self.c / scale, self.psi / scale], axis=1)

    @classmethod
    def at(cls, coordinates: Floats, R: Floats, nodes: int) -> _State:
        """Return the state behind coordinates."""
        V, Q = np.exp(coordinates[:, :nodes]), np.exp(coordinates[:, nodes : 2 * nodes])
        rest = coordinates[:, 2 * nodes :] * np.sqrt(Q[:, nodes // 2, None])
        return cls(V, Q, rest[:, :nodes], rest[:, nodes:], R)


def classify(equations: Equations, loss: str, flip: Floats, inverse_dim: Floats) -> Classifier:
    """Fit the classifier at every point; the equations have (a, b) = (ridge, 1)."""
    equations = dataclasses.replace(equations, tables=_often(equations.tables))
    index = np.arange(len(equations.ratio))
    parts = [
        _classify_chunk(equations.take(some), LOSSES[loss], flip[some], inverse_dim[some])
        for some in np.split(index, np.arange(CHUNK, len(index), CHUNK))
    ]
    return Classifier.join(parts)


def _often(tables: Tables) -> Tables:
    """Leave out the nodes of kappa that are never met."""
    kept = np.flatnonzero(tables.weights.max(axis=0) > _RARE)
    at_nodes = ("nodes", "weights", "mu0", "mu1", "mu2", "channel", "stretch", "h", "h1", "hh")
    return dataclasses.replace(tables, **{name: getattr(tables, name)[..., kept] for name in at_nodes})


@np.errstate(all="ignore")  # a point that leaves the real numbers is stopped and flagged
def _classify_chunk(equations: Equations, loss: Loss, flip: Floats, inverse_dim: Floats) -> Classifier:
    count = len(equations.ratio)
    state = _start(equations)
    residual, best = np.full(count, np.inf), np.full(count, np.inf)
    iterations, stalled = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    mixing = _Mixing(np.broadcast_to(equations.tables.weights, state.V.shape), state.psi.shape[1])
    active = np.arange(count)
    for _ in range(MAX_SWEEPS):
        part, here = equations.take(active), state.take(active)
        new, _ = _sweep(part, loss, flip[active], inverse_dim[active], here)
        now = _distance(here, new)
        iterations[active] += 1
        stalled[active] = np.where(now < 0.9 * best[active], 0, stalled[active] + 1)
        best[active] = np.minimum(best[active], now)
        residual[active] = now
        done = (now < GOAL) | ((now < GOOD_ENOUGH) & (stalled[active] >= 3)) | ~np.isfinite(now)
        state.put(active, mixing.next(here, new, active, now, best[active]))
        active = active[~done]
        if not active.size:
            break
    state, found = _sweep(equations, loss, flip, inverse_dim, state)
    return _observables(equations, loss, flip, state, found, residual, iterations)


class _Mixing:
    """Anderson's mixing of many points at once; a point that moves away forgets its past."""

    def __init__(self, weights: Floats, k: int) -> None:
        count = len(weights)
        norm = np.maximum(weights, 1e-6) ** 0.5  # rare nodes follow the rest, but must settle too
        self.norm = np.concatenate([norm, norm, norm, np.ones((count, k))], axis=1)
        self.places = np.full((count, MEMORY + 1, self.norm.shape[1]), np.nan)
        self.steps = np.full_like(self.places, np.nan)

    def next(self, here: _State, new: _State, active: Indices, now: Floats, best: Floats) -> _State:
        """Return the next state of the points in `active`, from the last one and its image."""
        x, nodes = here.coordinates(), here.V.shape[1]
        image = new.coordinates()
        lost = (now > NEAR) | (now > 10 * best)
        places, steps = self.places[active], self.steps[active]
        places[lost], steps[lost] = np.nan, np.nan
        places = np.concatenate([places[:, 1:], x[:, None]], axis=1)
        steps = np.concatenate([steps[:, 1:], (image - x)[:, None]], axis=1)
        self.places[active], self.steps[active] = places, steps
        moved, turned = (np.nan_to_num(array[:, :-1] - array[:, -1:], nan=0.0) for array in (places, steps))
        measured = turned * self.norm[active][:, None]
        gram = measured @ np.swapaxes(measured, 1, 2)
        size = np.trace(gram, axis1=1, axis2=2)[:, None, None]
        gram = gram + np.where(size > 0, 1e-13 * size, 1.0) * np.eye(MEMORY)
        wanted = measured @ ((image - x) * self.norm[active])[:, :, None]
        share = solve_each(gram, wanted)[:, :, 0]
        mixed = image - np.einsum("bm,bmn->bn", share, moved + turned)
        good = np.isfinite(mixed).all(axis=1) & (np.abs(mixed - x).max(axis=1) < 3)
        return _State.at(np.where(good[:, None], mixed, image), new.R, nodes)


def _start(equations: Equations) -> _State:
    count, k = len(equations.ratio), len(equations.pi)
    V, R = starting_response(equations)
    tables = equations.tables
    Q = 0.1 * np.broadcast_to(np.sum(tables.mu1**2 + tables.mu2, axis=1), V.shape)
    return _State(np.minimum(V, 10.0), np.maximum(Q, 1e-3), np.zeros(V.shape), np.zeros((count, k)), R)


@dataclass
class _Found:
    """What a sweep knows of its new state; `means` are theta, then t of every channel."""

    means: Floats
    response: Response
    packed_Q: Floats
    moments: tuple[Floats, Floats, Floats, Floats]


def _sweep(equations: Equations, loss: Loss, flip: Floats, inverse_dim: Floats, state: _State) -> tuple[_State, _Found]:
    """Return the next state: channel, hats, bulk, means."""
    tables, beta, k = equations.tables, equations.width, len(equations.pi)
    weights = equations.ratio[:, None] * tables.weights
    g, g2, slope, along = moments = _channel(equations, loss, flip, state)
    pulled = weights * slope
    mu1 = np.broadcast_to(tables.mu1, (len(beta), *tables.mu1.shape[1:]))
    Vh1 = (mu1 * pulled[:, None, :]) @ np.swapaxes(mu1, 1, 2)
    D = equations.a[:, None] + (tables.mu2 @ pulled[:, :, None])[:, :, 0]
    response = isotropic_response(0.5 * (Vh1 + np.swapaxes(Vh1, 1, 2)), D, equations.block_width, state.R)
    R = response.R
    psih = (mu1 @ (weights * _rho(tables.gamma)[:, None] * along)[:, :, None])[:, :, 0]
    psi = (response.S @ psih[:, :, None])[:, :, 0]

    root = np.sqrt(R)
    channels = tables.channel.shape[1]
    channel_root = np.tile(root, channels // k) * np.sqrt(tables.omega)
    scale = np.concatenate([root, channel_root], axis=1)
    functions = np.concatenate([tables.mu0, tables.channel], axis=1) * scale[:, :, None]
    penalty = np.concatenate([np.repeat(np.sqrt(inverse_dim)[:, None], k, 1), np.ones((len(R), channels))], axis=1)
    stiff = stiffness(slope, state.V, np.ones_like(slope))
    solution, c = least_squares(weights * stiff, state.c + g / stiff, functions, penalty, np.zeros_like(scale))
    means = solution * scale

    paid = means[:, :k] ** 2 * inverse_dim[:, None]
    t = means[:, k:].reshape(len(R), -1, k)
    paid = paid + np.sum(t**2 / tables.omega.reshape(len(tables.omega), -1, k), axis=1)
    squares = weights * g2
    A = (mu1 * squares[:, None, :]) @ np.swapaxes(mu1, 1, 2) + beta[:, None, None] * psih[:, :, None] * psih[:, None, :]
    e = (tables.mu2 @ squares[:, :, None])[:, :, 0] + beta[:, None] * paid / R**2
    packed_Q = (response_matrix(equations, response) @ equations.pack(A, e)[:, :, None])[:, :, 0]
    Q = ((packed_Q * equations.multiplicity)[:, None, :] @ equations.features)[:, 0, :]
    new = _State(variance_function(equations, response), Q, c, psi, R)
    return new, _Found(means, response, packed_Q, moments)


def _rows(equations: Equations, flip: Floats, state: _State, label: int) -> Rows:
    """Return the margins of one label: a row for each point and node, in that order."""
    tables = equations.tables
    shape = state.V.shape
    scale = np.sqrt(state.Q)
    rho = _rho(tables.gamma)[:, None]
    slope = rho * (state.psi[:, None, :] @ tables.mu1)[:, 0, :] / scale
    variance = np.maximum(rho**2 - slope**2, 0.0)
    tau = tables.gamma[:, None] * tables.nodes
    columns = (label * state.c, scale, label * tau, slope, variance, flip[:, None])
    return Rows(*(np.broadcast_to(column, shape).ravel() for column in columns))


def _rho(gamma: Floats) -> Floats:
    return np.sqrt(np.maximum(0.0, 1 - gamma**2))


def _channel(equations: Equations, loss: Loss, flip: Floats, state: _State) -> tuple[Floats, Floats, Floats, Floats]:
    """Return E g, E g^2, -E dg/domega and E dg/dnu given kappa, both labels together (B, N)."""
    V, shape = state.V.ravel(), state.V.shape
    g, g2, slope, along = (np.zeros(shape) for _ in range(4))
    for label in (1, -1):
        found = channel_moments(_rows(equations, flip, state, label), _LABELS, loss, V, NODES)
        g += label * found.g.reshape(shape)
        g2 += found.g2.reshape(shape)
        slope -= found.slope.reshape(shape)
        along += found.along_teacher.reshape(shape)
    return g, g2, slope, along


def _distance(old: _State, new: _State) -> Floats:
    """Return how far a state is from its image: the largest change of a coordinate."""
    moved = np.abs(new.coordinates() - old.coordinates()).max(axis=1)
    return np.where(np.isfinite(moved), moved, np.inf)


def _observables(
    equations: Equations,
    loss: Loss,
    flip: Floats,
    state: _State,
    found: _Found,
    residual: Floats,
    iterations: Integers,
) -> Classifier:
    tables, r, ridge, k = equations.tables, equations.ratio, equations.a, len(equations.pi)
    weights = np.broadcast_to(tables.weights, state.V.shape)
    Q1, Q2 = equations.unpack(found.packed_Q)
    norm = Q2.sum(axis=1)
    V, shape = state.V.ravel(), state.V.shape
    loss_at, wrong_at = np.zeros(shape), np.zeros(shape)
    for label in (1, -1):
        kinks = np.concatenate([loss.kinks(V), loss.turning_point(V)[:, None]], axis=1)
        margins = quadrature(_rows(equations, flip, state, label), _LABELS, kinks, NODES)
        u = loss.pull(margins.s, V[margins.nodes.row]).u
        losses, wrong = margins.expect(loss.value(u), (u < 0).astype(float))
        loss_at += losses.reshape(shape)
        wrong_at += wrong.reshape(shape)
    train_loss = np.sum(weights * loss_at, axis=1)
    along = (state.psi[:, None, :] @ tables.mu1)[:, 0, :]
    missed = misclassified(tables, state.c, along, state.Q)
    # a is stationary: ridge |a|^2 = sum_mu g_mu f_mu, where E[g f] = E[g omega] + V E g^2; Stein gives E[g omega]
    g, g2, slope, teacher = found.moments
    pull = state.c * g - state.Q * slope + _rho(tables.gamma)[:, None] * along * teacher + state.V * g2
    stationary = r * np.sum(weights * pull, axis=1)
    return Classifier(
        test=(1 - 2 * flip) * missed + flip,
        train=np.sum(weights * wrong_at, axis=1),
        objective=train_loss + 0.5 * ridge / r * norm,
        misclassified=missed,
        norm=norm,
        theta=found.means[:, :k],
        t=found.means[:, k : 2 * k],
        psi=state.psi,
        Q1=Q1,
        Q2=Q2,
        V1=found.response.S / equations.width[:, None, None],
        V2=found.response.R / equations.width[:, None],
        identity=np.abs(stationary - ridge * norm) / (ridge * norm),
        residual=residual,
        iterations=iterations,
    )
