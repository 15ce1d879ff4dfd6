"""The causal recursion of the mean-field theory: kernels and order parameters step by step on weighted points.

With F^t the gradient of one sample's loss in its pre-activations, batch_reuse_dmft (2.1)-(2.9) with momentum beta are

    h^t = M^t h* + om^t - sum_{s<t} K(t,s) F^s ,   om a Gaussian process of covariance C(t,s),
    Gam(t,s) = alpha E[dF^t/d om^s] ,   Cl(t,s) = alpha E[F^t F^sT] ,
    X^{t+1} = X^t - eta_t V_X^{t+1}   for X = M, P, K(.,s) ,
    V_M = beta V_M + decay M + alpha E[F h*^T] ,  V_P = beta V_P + decay P + sum_r Gam(t,r) P^r ,
    V_K(.,s) = beta V_K(.,s) + decay K(t,s) + sum_{r>s} Gam(t,r) K(r,s) - [t = s] I ,
    C(t,s) = P^t (Q^0 - M^0 M^0T) P^sT + sum_{r,q} K(t,r) Cl(r,q) K(s,q)^T ,   Q^t = C(t,t) + M^t M^tT .

Everything with index t needs the process up to t only: no fixed point is iterated. Fresh samples at every step are the
same recursion without memory: h^t = M^t h* + om^t, Gam(t,s) = Cl(t,s) = 0 for s < t.

The matrices of all times are kept as block matrices; block (t, s) is `[t*p:(t+1)*p, s*p:(s+1)*p]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from giantstep.deadline import check_time
from giantstep.families.batch_reuse.network import Loss, forward, hessian, losses
from giantstep.families.batch_reuse.points import WeightedPoints, hermite_product
from giantstep.families.batch_reuse.tolerances import CUT_EARLY, CUT_LATE, DIVERGED, LATE, PSEUDO_INVERSE
from giantstep.gaussian import Function
from giantstep.types import Floats

Response = Literal["stein", "tangent"]

_INNER_NODES = 24
"""Nodes of the last step's noise beside a tensor grid, for all neurons together."""


@dataclass(frozen=True)
class Process:
    """One learning problem as the recursion sees it.

    Attributes
    ----------
    activation, loss : of the network.
    a : (p,) second layer at the start.
    alpha : samples per dimension, all groups together.
    rates : (T,) step sizes eta_t.
    decay, momentum, second_layer_rate : weight decay, heavy ball, step size of the second layer.
    spherical : whether the rows are brought back to length sqrt(d) after every step.
    fresh : whether every step has samples of its own.
    M, Q : (p, k) and (p, p) order parameters at the start.
    response : how Gam is found, by Stein's lemma or by the tangent recursion (smooth activations).
    """

    activation: Function
    loss: Loss
    a: Floats
    alpha: float
    rates: Floats
    M: Floats
    Q: Floats
    decay: float = 0.0
    momentum: float = 0.0
    second_layer_rate: float = 0.0
    spherical: bool = False
    fresh: bool = False
    response: Response = "stein"

    @property
    def steps(self) -> int:
        """Number of gradient steps T."""
        return len(self.rates)


@dataclass
class Trajectory:
    """Order parameters at times 0..T; NaN from `diverged` on where the trajectory did so.

    Attributes
    ----------
    M, Q, a, train_loss : (T+1, p, k), (T+1, p, p), (T+1, p) and (T+1,).
    diverged : the step that made it so, from 1, or 0.
    C, K, Cl : block matrices of the kernels.
    """

    M: Floats
    Q: Floats
    a: Floats
    train_loss: Floats
    diverged: int
    C: Floats
    K: Floats
    Cl: Floats


def run(process: Process, points: WeightedPoints, labels: Floats) -> Trajectory:
    """Carry weighted points through all steps; `labels` (N,) are y at the points, noise included."""
    with np.errstate(all="ignore"):
        return _Run(process, points, labels).trajectory()


class _Run:
    """The state of one recursion: everything known up to the step it has reached."""

    def __init__(self, process: Process, points: WeightedPoints, labels: Floats) -> None:
        self.process, self.points, self.labels = process, points, labels
        p, k, T = len(process.a), points.target.shape[0], process.steps
        self.p, self.T = p, T
        self.M, self.a = np.full((T + 1, p, k), np.nan), np.full((T + 1, p), np.nan)
        self.Q, self.loss = np.full((T + 1, p, p), np.nan), np.full(T + 1, np.nan)
        self.M[0], self.Q[0], self.a[0] = process.M, process.Q, process.a
        self.start = process.Q - process.M @ process.M.T
        self.P, self.K = np.zeros(((T + 1) * p, p)), np.zeros(((T + 1) * p, (T + 1) * p))
        self.C, self.L = np.zeros_like(self.K), np.zeros_like(self.K)
        self.inverse: list[Floats] = []  # pseudo-inverses of the diagonal blocks of L
        self.Cl = np.zeros((T * p, T * p))
        self.P[:p], self.C[:p, :p] = np.eye(p), self.start
        self.speed_M, self.speed_P, self.speed_K = np.zeros((p, k)), np.zeros((p, p)), np.zeros((p, (T + 1) * p))
        self.F = np.empty((0 if process.fresh else T * p, len(labels)))
        self.hessians: list[Floats] = []
        self.tangents: dict[tuple[int, int], Floats] = {}

    def at(self, t: int) -> slice:
        return slice(t * self.p, (t + 1) * self.p)

    def upto(self, t: int) -> slice:
        return slice(0, t * self.p)

    def trajectory(self) -> Trajectory:
        diverged = 0
        for t in range(self.T + 1):
            check_time()
            self._factorise(t)
            if t == self.T:
                self.loss[t] = self._last_loss()
                break
            diverged = self._step(t)
            if diverged:
                break
        return Trajectory(self.M, self.Q, self.a, self.loss, diverged, self.C, self.K, self.Cl)

    # -- one step ------------------------------------------------------------------------------------------

    def _step(self, t: int) -> int:
        """Make step t; return its number from 1 where it diverged."""
        process, points = self.process, self.points
        h = self._preactivations(t, points.normals)
        network = forward(process.activation, process.loss, self.a[t], h, self.labels)
        loss = float(network.loss @ points.weights)
        if not np.isfinite(loss):
            self.M[t:], self.Q[t:], self.a[t:] = np.nan, np.nan, np.nan
            return t
        self.loss[t] = loss
        gradient, weights = network.gradient, points.weights
        if points.mask is not None:
            gradient = gradient * points.mask[t]
            weights = weights * points.mask[t]
        weighted = process.alpha * gradient * points.weights
        if process.fresh:
            self.Cl[self.at(t), self.at(t)] = weighted @ gradient.T
        else:
            self.F[self.at(t)] = gradient
            row = weighted @ self.F[self.upto(t + 1)].T
            self.Cl[self.at(t), self.upto(t + 1)], self.Cl[self.upto(t + 1), self.at(t)] = row, row.T
        pull = weighted @ points.target.T
        response = self._tangent(t, h) if process.response == "tangent" else self._stein(t, weighted)
        slope = (network.second_layer_gradient @ weights) / weights.sum() if process.second_layer_rate else 0.0
        self.a[t + 1] = self.a[t] - process.second_layer_rate * slope
        self._advance(t, pull, response)
        lengths = np.diagonal(self.Q[t + 1])
        if not (np.isfinite(self.Q[t + 1]).all() and np.isfinite(self.a[t + 1]).all() and lengths.max() < DIVERGED):
            self.M[t + 1], self.Q[t + 1], self.a[t + 1] = np.nan, np.nan, np.nan
            return t + 1
        return 0

    def _preactivations(self, t: int, normals: Floats) -> Floats:
        h = self.M[t] @ self.points.target
        if self.process.fresh:
            return h + self.L[self.at(t), self.at(t)] @ normals[: self.p]
        h += self.L[self.at(t), self.upto(t + 1)] @ normals[: (t + 1) * self.p]
        if t:
            h -= self.K[self.at(t), self.upto(t)] @ self.F[self.upto(t)]
        return h

    def _advance(self, t: int, pull: Floats, response: Floats) -> None:
        """Take M, P, K and C to t + 1; `response` is the row Gam(t, 0..t)."""
        process, p = self.process, self.p
        eta, decay, beta = process.rates[t], process.decay, process.momentum
        self.speed_M = beta * self.speed_M + decay * self.M[t] + pull
        self.speed_P = beta * self.speed_P + decay * self.P[self.at(t)] + response @ self.P[self.upto(t + 1)]
        self.speed_K = beta * self.speed_K + decay * self.K[self.at(t)] + response @ self.K[self.upto(t + 1)]
        self.speed_K[:, self.at(t)] -= np.eye(p)
        M = self.M[t] - eta * self.speed_M
        P = self.P[self.at(t)] - eta * self.speed_P
        K = self.K[self.at(t)] - eta * self.speed_K
        known = self.upto(t + 1)
        Cl = self.Cl[known, known]
        if process.spherical:
            noise = P @ self.start @ P.T + K[:, known] @ Cl @ K[:, known].T
            scale = 1 / np.sqrt(np.diagonal(noise + M @ M.T))[:, None]
            M, P, K = scale * M, scale * P, scale * K
        self.M[t + 1], self.P[self.at(t + 1)], self.K[self.at(t + 1)] = M, P, K
        row = P @ self.start @ self.P[self.upto(t + 2)].T + K[:, known] @ Cl @ self.K[self.upto(t + 2), known].T
        row[:, self.at(t + 1)] = 0.5 * (row[:, self.at(t + 1)] + row[:, self.at(t + 1)].T)
        self.C[self.at(t + 1), self.upto(t + 2)], self.C[self.upto(t + 2), self.at(t + 1)] = row, row.T
        self.Q[t + 1] = row[:, self.at(t + 1)] + M @ M.T

    # -- the Gaussian process ------------------------------------------------------------------------------

    def _factorise(self, t: int) -> None:
        """Add the block row t of the Cholesky factor: om^t = sum_{s<=t} L(t,s) xi^s with the xi of all steps kept."""
        if self.process.fresh:
            root, inverse = _root(self.C[self.at(t), self.at(t)], CUT_EARLY)
            self.L[self.at(t), self.at(t)] = root
            self.inverse.append(inverse)
            return
        for s in range(t):
            check_time()
            before = self.upto(s)
            rest = self.C[self.at(t), self.at(s)] - self.L[self.at(t), before] @ self.L[self.at(s), before].T
            self.L[self.at(t), self.at(s)] = rest @ self.inverse[s].T
        row = self.L[self.at(t), self.upto(t)]
        root, inverse = _root(self.C[self.at(t), self.at(t)] - row @ row.T, CUT_EARLY if t <= LATE else CUT_LATE)
        self.L[self.at(t), self.at(t)] = root
        self.inverse.append(inverse)

    def _last_loss(self) -> float:
        """Return the training loss after the last step: one more evaluation of the process."""
        process, points = self.process, self.points
        a, y, weights = self.a[self.T], self.labels, points.weights
        if process.fresh or len(points.normals) >= (self.T + 1) * self.p:
            h = self._preactivations(self.T, points.normals)
            return float(losses(process.activation, process.loss, a, h, y) @ weights)
        # a grid has no axes for the noise of the last step: a small rule of its own stands in
        known = np.concatenate([points.normals, np.zeros((self.p, len(y)))])
        base, root = self._preactivations(self.T, known), self.L[self.at(self.T), self.at(self.T)]
        nodes, factors = hermite_product(self.p, max(6, round(_INNER_NODES ** (1 / self.p))))
        shifts = (root @ nodes).T
        values = [losses(process.activation, process.loss, a, base + x[:, None], y) @ weights for x in shifts]
        return float(np.dot(factors, values))

    # -- the response --------------------------------------------------------------------------------------

    def _stein(self, t: int, weighted: Floats) -> Floats:
        """Return Gam(t, 0..t) from alpha E[F^t xi^sT] = sum_{r>=s} Gam(t,r) L(r,s): no derivative of F is taken."""
        row = np.zeros((self.p, (t + 1) * self.p))
        if self.process.fresh:
            row[:, self.at(t)] = weighted @ self.points.normals[: self.p].T @ self.inverse[t]
            return row
        moments = weighted @ self.points.normals[: (t + 1) * self.p].T
        for s in range(t, -1, -1):
            check_time()
            later = slice((s + 1) * self.p, (t + 1) * self.p)
            rest = moments[:, self.at(s)] - row[:, later] @ self.L[later, self.at(s)]
            row[:, self.at(s)] = rest @ self.inverse[s]
        return row

    def _tangent(self, t: int, h: Floats) -> Floats:
        """Return Gam(t, 0..t) = alpha E[H^t D(t,s)] from D(t,s) = dh^t/d om^s carried along with every point."""
        process, points, p = self.process, self.points, self.p
        matrix = hessian(process.activation, process.loss, self.a[t], h, self.labels)
        if points.mask is not None:
            matrix = matrix * points.mask[t]
        self.hessians.append(matrix)
        row = np.zeros((p, (t + 1) * p))
        identity = np.broadcast_to(np.eye(p)[:, :, None], (p, p, h.shape[1]))
        for s in range(t + 1):
            check_time()
            if s == t:
                tangent = identity
            elif process.fresh:
                continue
            else:
                tangent = np.zeros_like(identity)
                for r in range(s, t):
                    inner = np.einsum("ijn,jkn->ikn", self.hessians[r], self.tangents[r, s])
                    tangent = tangent - np.einsum("ij,jkn->ikn", self.K[self.at(t), self.at(r)], inner)
            self.tangents[t, s] = tangent
            row[:, self.at(s)] = process.alpha * np.einsum("ijn,jkn,n->ik", matrix, tangent, points.weights)
        return row


def _root(matrix: Floats, cut: float) -> tuple[Floats, Floats]:
    """Return the symmetric root of a positive semi-definite matrix and its pseudo-inverse."""
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan), np.full_like(matrix, np.nan)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    kept = values > cut * max(1.0, float(values[-1]))
    roots = np.sqrt(np.where(kept, values, 0.0))
    inside = roots > PSEUDO_INVERSE * max(float(roots.max()), 1e-300)
    inverse = np.where(inside, 1 / np.where(inside, roots, 1.0), 0.0)
    return (vectors * roots) @ vectors.T, (vectors * inverse) @ vectors.T
