"""Classification: the second layer fitted with a convex loss of the margin.

spiked_features section 9, which beyond_the_error (3.1)-(3.4) has for the logistic loss
and any number of directions.

The class is the sign of field(kappa) + nu, nu = rho . xi, turned with probability
`flip`, and a minimises sum_mu l(y_mu f_mu) + (ridge/2) |a|^2. Given kappa the output
before the fit reacts, omega ~ N(c, Q), and the field are jointly Gaussian, with
covariance rho . c1: every node of kappa is a cluster of
`giantstep.core.readout.losses`, whose channel gives E g, E g^2, E g' and E dg/dnu. The
bulk responds as in the ridge problem, with -E g' in place of 1/(1+V):

    Vh1 = -r E[mu1 mu1^T g'],  Vh2 = -r E[mu2 g'];  psih_l = r rho_l E[mu1 dg/dnu]
    r E[mu0_q g] = (P theta)_q, P of `finite_size`
    (the channel coefficients likewise, with their prior)
    (Q1, Q2) = -L(r E[mu1 mu1^T g^2], r E[mu2 g^2]), and what the signal pushes

The means are solved by Newton's step at every sweep (the least squares of `signal`);
the rest is iterated with Anderson's mixing, in the scale-free coordinates (log V, log
Q, c/sqrt(Q), tau/sqrt(Q)): where the classes are nearly separable everything grows
together.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Booleans, Floats, Integers
from giantstep.core.maths.gaussian import normal_distribution
from giantstep.core.maths.solve import Mixing, OpenPoints
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.errors import Observables
from giantstep.core.readout.features import Features
from giantstep.core.readout.finite_size import (
    FiniteSize,
    push_of_means,
    stretched_variance,
)
from giantstep.core.readout.first_order import Equations, cold_start, variance_function
from giantstep.core.readout.losses.channel import (
    ChannelMoments,
    MarginLaws,
    both_labels,
    both_moments,
)
from giantstep.core.readout.losses.functions import LOSSES, Loss
from giantstep.core.readout.losses.labels import SignLabels
from giantstep.core.readout.losses.mean_step import stiffness
from giantstep.core.readout.signal import Signal, solve_signal
from giantstep.core.readout.signs import (
    field_variance,
    misclassified,
    negative_positive,
)

CHUNK = 8
"""Points that are solved together: their channels fill a fast memory."""
NODES = 8
"""Quadrature nodes on a panel of the margin: nine digits of every observable; 20 would
cost twice.
"""
MAX_SWEEPS = 200
NEAR = 0.5
"""Distance below which sweeps are mixed; further out they are taken as they are."""
LONGEST = 3.0
"""Largest change of a coordinate that mixing may make: a factor 20 of V or Q."""
FAR = 1e-2
"""Distance above which the channel is integrated with longer steps."""
STRETCH = 1.6
"""How much longer they are there."""
GOAL = 1e-11
"""Distance of two sweeps below which a point is solved."""
GOOD_ENOUGH = 1e-9
"""Distance below which a point is solved once it falls no further."""
_LABELS = SignLabels()
_SELDOM = 1e-6
"""Probability of a node of kappa below which it counts less for the distance between
two sweeps.
"""
_RARE = 1e-13
"""Nodes of kappa whose probability is below this are left out."""


@dataclass
class Classifier(Observables):
    """The fitted classifier at B points."""

    V1: Floats  # (B, k, k)
    V2: Floats  # (B, k)
    residual: Floats  # (B,)
    iterations: Integers  # (B,)
    dual: Floats  # that of `Signal`
    penalty: Floats  # that of `Signal`
    V: Floats
    Q: Floats
    c0: Floats
    drive: Floats  # E g^2
    slope: Floats  # -E dg/domega
    """V to `slope` are (B, N), at the nodes of `frequent`: response, variance and mean
    of the output before the fit reacts.
    """
    response: Response


@dataclass
class _State(Stacked):
    """What is iterated: V, Q and c0 at the nodes (B, N), tau (B, L, k), and the
    response that starts the bulk.
    """

    V: Floats
    Q: Floats
    c0: Floats
    tau: Floats
    response: Response

    def coordinates(self) -> Floats:
        """Return log V and log Q at the nodes, c0 and tau over the root of Q in the
        middle, (B, 3 N + L k).
        """
        # one scale for all means of a point: they grow together as a fit grows
        scale = np.sqrt(self.Q[:, self.Q.shape[1] // 2, None])
        c0 = self.c0 / scale
        tau = self.tau.reshape(len(scale), -1) / scale
        return np.concatenate([np.log(self.V), np.log(self.Q), c0, tau], axis=1)

    def at(self, coordinates: Floats) -> _State:
        """Return the state behind coordinates, with this response."""
        nodes = self.V.shape[1]
        V = np.exp(coordinates[:, :nodes])
        Q = np.exp(coordinates[:, nodes : 2 * nodes])
        means = coordinates[:, 2 * nodes :] * np.sqrt(Q[:, nodes // 2, None])
        return _State(
            V=V,
            Q=Q,
            c0=means[:, :nodes],
            tau=means[:, nodes:].reshape(self.tau.shape),
            response=self.response,
        )


class _Sweep(NamedTuple):
    """What a sweep knows: its new state, the signal, Q1, Q2, and the moments of the
    channel at the nodes (B, N).
    """

    state: _State
    signal: Signal
    Q1: Floats
    Q2: Floats
    g: Floats  # E g
    g2: Floats  # E g^2
    slope: Floats  # -E dg/domega
    along_teacher: Floats  # E dg/dnu


def classify(
    equations: Equations,
    loss: str,
    flip: Floats,
    size: FiniteSize,
    apart: bool | Booleans = False,
) -> Classifier:
    """Fit the classifier at every point; the equations have (a, b) = (ridge, 1), the
    features field and rho.

    Points that are `apart`, where the fit grows without bound, have one sweep.
    """
    equations = frequent(equations)
    apart = np.broadcast_to(apart, flip.shape)
    parts = []
    for chunk in equations.split_points(np.arange(len(equations.ratio)), CHUNK):
        part = _classify_chunk(
            equations.take(chunk),
            LOSSES[loss],
            flip=flip[chunk],
            size=size.take(chunk),
            apart=apart[chunk],
        )
        parts.append(part)
    return Classifier.join(parts)


def separated(features: Features) -> Booleans:
    """Tell for each set of features whether their means, which cost nothing in the
    limit, separate the classes.
    """
    assert features.field is not None and features.rho is not None
    apart = np.zeros(len(features.weights), dtype=bool)
    for row, often in enumerate(features.weights > _RARE):
        check_time()
        # a label that is random given kappa is on both sides of every plane
        if features.turned is not None or features.rho[row].any():
            continue
        margins = np.sign(features.field[row]) * features.mu0[row]
        margins = np.nan_to_num(margins)[:, often]
        # neither the size of a block nor that of a node tells
        for axis in (1, 0):
            largest = np.abs(margins).max(axis=axis, keepdims=True)
            margins = margins / np.maximum(largest, 1e-300)
        apart[row] = _is_separable(margins)
    return apart


def _is_separable(margins: Floats) -> bool:
    """Tell whether some coefficients (k,) make all margins (k, N) at least 1."""
    blocks, nodes = margins.shape
    # a linear programme without an objective: is there an admissible point?
    programme = scipy.optimize.linprog(
        np.zeros(blocks), -margins.T, -np.ones(nodes), bounds=(None, None)
    )
    return bool(programme.success)


def frequent(equations: Equations) -> Equations:
    """Return the equations at the nodes that are not left out."""
    often = np.flatnonzero(equations.features.weights.max(axis=0) > _RARE)
    return dataclasses.replace(equations, features=equations.features.at_nodes(often))


# a point that leaves the real numbers is stopped and flagged
@np.errstate(all="ignore")
def _classify_chunk(
    equations: Equations, loss: Loss, flip: Floats, size: FiniteSize, apart: Booleans
) -> Classifier:
    state = _first_state(equations)
    features = equations.features
    count = len(state.V)
    residual = np.full(count, np.inf)
    best = np.full(count, np.inf)
    iterations = np.zeros(count, dtype=np.int64)
    stalled = np.zeros(count, dtype=np.int64)
    weights = np.broadcast_to(features.weights, state.V.shape)
    # how much a coordinate counts for the distance of two sweeps: at rare nodes
    # rounding is magnified
    share = _of_coordinates(np.minimum(weights / _SELDOM, 1.0) ** 0.5, state.tau)
    # rare nodes follow, but must settle too
    mixing = Mixing(_of_coordinates(np.maximum(weights, _SELDOM) ** 0.5, state.tau))
    points = OpenPoints(count, MAX_SWEEPS)
    for active in points:
        old = state.take(active)
        # far from the solution a rough channel is good enough
        stretch = np.where(residual[active] > FAR, STRETCH, 1.0)
        new = _sweep(
            equations.take(active), loss, flip[active], size.take(active), old, stretch
        ).state
        x = old.coordinates()
        image = new.coordinates()
        now = (share[active] * np.abs(image - x)).max(axis=1)
        now = np.where(np.isfinite(now), now, np.inf)
        iterations[active] += 1
        stalled[active] = np.where(now < 0.9 * best[active], 0, stalled[active] + 1)
        best[active] = np.minimum(best[active], now)
        residual[active] = now
        # a mixture that leaves the numbers, or leaps, is none: the plain sweep then
        forget = (now > NEAR) | (now > 10 * best[active])
        mixed = mixing.next(active, x, image, forget)
        good = np.isfinite(mixed).all(axis=1)
        good &= np.abs(mixed - x).max(axis=1) < LONGEST
        state.put(active, new.at(np.where(good[:, None], mixed, image)))
        at_rounding = (now < GOOD_ENOUGH) & (stalled[active] >= 3)
        points.freeze(apart[active] | (now < GOAL) | at_rounding | np.isinf(now))
    fit = _sweep(equations, loss, flip, size, state)
    return _observables(
        equations, loss, flip=flip, fit=fit, residual=residual, iterations=iterations
    )


def _first_state(equations: Equations) -> _State:
    """Return where the sweeps begin: a small output that knows nothing of the classes,
    and a response that is not yet large.
    """
    V, response = cold_start(equations)
    features = equations.features
    power = np.sum(features.mu1**2 + features.mu2, axis=1)
    return _State(
        V=np.minimum(V, 10.0),
        Q=np.maximum(0.1 * np.broadcast_to(power, V.shape), 1e-3),
        c0=np.zeros(V.shape),
        tau=np.zeros((len(V), features.Jp.shape[1], len(features.pi))),
        response=response,
    )


def _of_coordinates(nodes: Floats, tau: Floats) -> Floats:
    """Return numbers (B, N) of the nodes for every coordinate of a state; 1 for those
    of tau.
    """
    of_tau = np.ones((len(tau), tau[0].size))
    # log V, log Q and c0, in the order of `_State.coordinates`
    return np.concatenate([nodes, nodes, nodes, of_tau], axis=1)


def _sweep(
    equations: Equations,
    loss: Loss,
    flip: Floats,
    size: FiniteSize,
    state: _State,
    stretch: Floats | float = 1.0,
) -> _Sweep:
    """Return the next state, and what else a sweep knows; `stretch` is that of
    `both_labels`.
    """
    features = equations.features
    width = equations.width[:, None]
    weights = equations.ratio[:, None] * features.weights
    moments = _channel(equations, loss, flip, state, stretch)
    g = moments.g
    slope = -moments.slope
    # the bulk: -E g' stands where the ridge problem has 1/(1 + V)
    Vh1, Vh2 = features.moments(weights * slope)
    D = equations.a[:, None] + Vh2
    response = equations.bulk.solve(Vh1, D, equations.block_width, state.response)
    # the means: psih_l = r rho_l E[mu1 dg/dnu] drives the channels along xi_l
    driven = features.mu1 @ (weights * moments.along_teacher)[:, :, None]
    assert features.rho is not None
    psih = features.rho[:, :, None] * driven[:, None, :, 0]
    # r E[mu0 g] = P theta is a least squares of the labels c0 + g/stiff, by which
    # Newton's step towards the new means is taken
    stiff = stiffness(slope, state.V, np.ones_like(slope))
    signal = solve_signal(
        equations,
        response,
        weights=weights * stiff,
        wanted=state.c0 + g / stiff,
        psih=psih,
        size=size,
    )
    # the fluctuations: what the signal pushes, what E g^2 drives, and what the means
    # of the blocks leave at a finite size
    tangents = equations.bulk.tangents(response)
    means = push_of_means(equations.bulk, response, signal.theta, size)
    Q1, Q2 = tangents.push(features.omega, signal.x, signal.dual, means.penalty)
    driven_Q1, driven_Q2 = tangents.apply(*features.moments(weights * moments.g2))
    means_Q1, means_Q2 = means.through(tangents)
    Q1 = Q1 + driven_Q1 / width[:, :, None] + means_Q1
    Q2 = Q2 + driven_Q2 / width + means_Q2
    along_signal = (signal.c1**2).sum(axis=1)
    stretched = stretched_variance(features, signal.theta, size)
    new = _State(
        V=variance_function(equations, response),
        Q=features.quadratic(Q1, Q2) + along_signal + stretched,
        c0=signal.c0,
        tau=signal.tau,
        response=response,
    )
    return _Sweep(
        state=new,
        signal=signal,
        Q1=Q1,
        Q2=Q2,
        g=g,
        g2=moments.g2,
        slope=slope,
        along_teacher=moments.along_teacher,
    )


def _channel(
    equations: Equations,
    loss: Loss,
    flip: Floats,
    state: _State,
    stretch: Floats | float,
) -> ChannelMoments:
    """Return the moments of the pull at the nodes of kappa, each (B, N)."""
    shape = state.V.shape
    sums = both_moments(
        _rows(equations, flip, state),
        _LABELS,
        loss,
        state.V.ravel(),
        nodes_per_panel=NODES,
        weights=np.broadcast_to(equations.features.weights, shape).ravel(),
        stretch=np.broadcast_to(np.reshape(stretch, (-1, 1)), shape).ravel(),
    )
    return ChannelMoments(*(moment.reshape(shape) for moment in sums))


def flip_at_nodes(features: Features, flip: Floats) -> Floats:
    """Return the probability that a class is turned (B, 1 or N)."""
    if features.turned is None:
        return flip[:, None]
    return features.turned


def _covariance(features: Features, tau: Floats) -> Floats:
    """Return the covariance of the output and the field given kappa, rho . c1 (B,
    N).
    """
    assert features.rho is not None
    # tau^T mu1 = c1, along every unlearnt direction
    return np.asarray((features.rho[:, None, :] @ tau @ features.mu1)[:, 0, :])


def _rows(equations: Equations, flip: Floats, state: _State) -> MarginLaws:
    """Return the margins of label 1: a row for each point and node, in that order."""
    features = equations.features
    assert features.field is not None and features.rho is not None
    scale = np.sqrt(state.Q)
    # the field given the output before the fit reacts: regression on omega/scale
    slope = _covariance(features, state.tau) / scale
    variance = np.maximum(field_variance(features)[:, None] - slope**2, 0.0)
    laws = MarginLaws(
        mean=state.c0,
        scale=scale,
        tau=features.field,
        slope=slope,
        variance=variance,
        flip=flip_at_nodes(features, flip),
    )
    return MarginLaws(*(np.broadcast_to(part, state.V.shape).ravel() for part in laws))


def _training(
    equations: Equations, loss: Loss, flip: Floats, state: _State
) -> tuple[Floats, Floats]:
    """Return the mean loss and the share of misclassified samples of the training set
    (B,).
    """
    V = state.V.ravel()
    shape = state.V.shape
    weights = np.broadcast_to(equations.features.weights, shape)
    laws = _rows(equations, flip, state)
    losses = np.zeros(V.shape)
    for _, row, margins in both_labels(laws, _LABELS, loss, V, NODES, weights.ravel()):
        # training samples see the margin after the fit has reacted, u
        u = loss.pull(margins.s, V[row][margins.nodes.row]).u
        losses[row] += margins.expect(loss.value(u))[0]
    # u < 0 where the margin before it is below the turning point: no integral needed
    turning = loss.turning_point(V)
    wrong = _below(laws, turning) + _below(laws.mirrored(), turning)
    mean_loss = np.sum(weights * losses.reshape(shape), axis=1)
    return mean_loss, np.sum(weights * wrong.reshape(shape), axis=1)


def _below(laws: MarginLaws, bound: Floats) -> Floats:
    """Return the chance that the label is the one of the laws and its margin is below a
    bound, for each row.
    """
    spread = np.sqrt(laws.variance + laws.slope**2)
    x = (laws.mean - bound) / laws.scale
    # a field that does not fluctuate has one sign for certain
    certain = np.sign(laws.tau) * np.inf
    field = np.divide(laws.tau, spread, out=certain, where=spread > 0)
    correlation = np.divide(
        laws.slope, spread, out=np.zeros_like(spread), where=spread > 0
    )
    below = negative_positive(x, np.where(laws.tau == 0, 0.0, field), correlation)
    return (1 - 2 * laws.flip) * below + laws.flip * normal_distribution(-x)


def _observables(
    equations: Equations,
    loss: Loss,
    flip: Floats,
    fit: _Sweep,
    residual: Floats,
    iterations: Integers,
) -> Classifier:
    state = fit.state
    signal = fit.signal
    features = equations.features
    r = equations.ratio
    ridge = equations.a
    weights = np.broadcast_to(features.weights, state.V.shape)
    norm = fit.Q2.sum(axis=1)
    train_loss, train = _training(equations, loss, flip, state)
    missed = misclassified(features, signal.c0, signal.c1, state.Q)
    if features.turned is None:
        wrong = (1 - 2 * flip) * missed + flip
    else:
        wrong = misclassified(features, signal.c0, signal.c1, state.Q, features.turned)
    # a is stationary: ridge |a|^2 = sum_mu g_mu f_mu, where E[g f] = E[g omega] + V E
    # g^2; Stein gives E[g omega]
    pull = (
        state.c0 * fit.g
        - state.Q * fit.slope
        + _covariance(features, state.tau) * fit.along_teacher
        + state.V * fit.g2
    )
    stationary = r * np.sum(weights * pull, axis=1)
    return Classifier(
        test=wrong,
        train=train,
        objective=train_loss + 0.5 * ridge / r * norm,
        misclassified=missed,
        norm=norm,
        theta=signal.theta,
        x=signal.x,
        tau=signal.tau,
        Q1=fit.Q1,
        Q2=fit.Q2,
        V1=state.response.S / equations.width[:, None, None],
        V2=state.response.R / equations.width[:, None],
        identity=np.abs(stationary - ridge * norm) / (ridge * norm),
        residual=residual,
        iterations=iterations,
        dual=signal.dual,
        penalty=signal.penalty,
        V=state.V,
        Q=state.Q,
        c0=signal.c0,
        drive=fit.g2,
        slope=fit.slope,
        response=state.response,
    )
