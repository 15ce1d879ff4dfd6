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

f(h) = sum_j a_j sigma(h_j). Arrays have the samples along the last axis, NumPy or CuPy; nothing here knows the theory.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from giantstep.deadline import check_time
from giantstep.families.batch_reuse.points import WeightedPoints
from giantstep.families.batch_reuse.scenario import BatchReuse
from giantstep.families.batch_reuse.tolerances import CUT_EARLY, CUT_LATE, DIVERGED, LATE, PSEUDO_INVERSE
from giantstep.gaussian import Function
from giantstep.types import DeviceArray, Floats


class Trajectory:
    """Everything known up to the step that a recursion has reached: weighted points, labels (N,) y with their noise.

    M (T+1, p, k), Q (T+1, p, p), a (T+1, p) and train_loss (T+1,) are NaN from step `diverged` (0: none) on.
    """

    def __init__(self, scenario: BatchReuse, points: WeightedPoints, labels: Floats) -> None:
        self.scenario, self.points, self.labels = scenario, points, labels
        self.fresh, self.rates = scenario.data == "fresh", scenario.rates()
        p, k, T = scenario.neurons, points.target.shape[0], scenario.steps
        self.p, self.T = p, T
        self.M, self.a = np.full((T + 1, p, k), np.nan), np.full((T + 1, p), np.nan)
        self.Q, self.train_loss = np.full((T + 1, p, p), np.nan), np.full(T + 1, np.nan)
        M, Q = scenario.start
        self.M[0], self.Q[0], self.a[0] = M, Q, scenario.second_layer
        self.start = Q - M @ M.T
        self.P, self.K = np.zeros(((T + 1) * p, p)), np.zeros(((T + 1) * p, (T + 1) * p))
        self.C, self.L = np.zeros_like(self.K), np.zeros_like(self.K)
        self.inverse: list[Floats] = []  # pseudo-inverses of the diagonal blocks of L
        self.Cl = np.zeros((T * p, T * p))
        self.P[:p], self.C[:p, :p] = np.eye(p), self.start
        self.speed_M, self.speed_P, self.speed_K = np.zeros((p, k)), np.zeros((p, p)), np.zeros((p, (T + 1) * p))
        self.F = np.empty((0 if self.fresh else T * p, len(labels)))
        self.diverged = 0  # the step that made it so, from 1
        with np.errstate(all="ignore"):
            for t in range(T + 1):
                check_time()
                self._factorise(t)
                self.diverged = self._step(t)
                if self.diverged:
                    break

    def _at(self, t: int) -> slice:
        return slice(t * self.p, (t + 1) * self.p)

    def _upto(self, t: int) -> slice:
        return slice(0, t * self.p)

    # -- one step ------------------------------------------------------------------------------------------

    def _step(self, t: int) -> int:
        """Find the loss at time t and make step t, if it is one; return its number from 1 where it diverged."""
        scenario, points = self.scenario, self.points
        h, weights = self._preactivations(t), points.weights
        losses, gradient, slopes = forward(scenario.activation, scenario.loss, self.a[t], h, self.labels)
        loss = float(losses @ weights)
        if t < self.T and not np.isfinite(loss):
            self.M[t:], self.Q[t:], self.a[t:] = np.nan, np.nan, np.nan
            return t
        self.train_loss[t] = loss
        if t == self.T:
            return 0
        if points.mask is not None:
            gradient = gradient * points.mask[t]
            weights = weights * points.mask[t]
        weighted = scenario.samples_per_dim * gradient * points.weights
        if self.fresh:
            self.Cl[self._at(t), self._at(t)] = weighted @ gradient.T
        else:
            self.F[self._at(t)] = gradient
            row = weighted @ self.F[self._upto(t + 1)].T
            self.Cl[self._at(t), self._upto(t + 1)], self.Cl[self._upto(t + 1), self._at(t)] = row, row.T
        slope = (slopes @ weights) / weights.sum() if scenario.second_layer_rate else 0.0
        self.a[t + 1] = self.a[t] - scenario.second_layer_rate * slope
        self._advance(t, weighted @ points.target.T, self._response(t, weighted))
        lengths = np.diagonal(self.Q[t + 1])
        if not (np.isfinite(self.Q[t + 1]).all() and np.isfinite(self.a[t + 1]).all() and lengths.max() < DIVERGED):
            self.M[t + 1], self.Q[t + 1], self.a[t + 1] = np.nan, np.nan, np.nan
            return t + 1
        return 0

    def _preactivations(self, t: int) -> Floats:
        h, normals = self.M[t] @ self.points.target, self.points.normals
        if self.fresh:
            return h + self.L[self._at(t), self._at(t)] @ normals
        h += self.L[self._at(t), self._upto(t + 1)] @ normals[self._upto(t + 1)]
        if t:
            h -= self.K[self._at(t), self._upto(t)] @ self.F[self._upto(t)]
        return h

    def _advance(self, t: int, pull: Floats, response: Floats) -> None:
        """Take M, P, K and C to t + 1; `response` is the row Gam(t, 0..t)."""
        scenario, p = self.scenario, self.p
        eta, decay, beta = self.rates[t], scenario.decay, scenario.momentum
        self.speed_M = beta * self.speed_M + decay * self.M[t] + pull
        self.speed_P = beta * self.speed_P + decay * self.P[self._at(t)] + response @ self.P[self._upto(t + 1)]
        self.speed_K = beta * self.speed_K + decay * self.K[self._at(t)] + response @ self.K[self._upto(t + 1)]
        self.speed_K[:, self._at(t)] -= np.eye(p)
        M = self.M[t] - eta * self.speed_M
        P = self.P[self._at(t)] - eta * self.speed_P
        K = self.K[self._at(t)] - eta * self.speed_K
        known = self._upto(t + 1)
        Cl = self.Cl[known, known]
        if scenario.constraint == "spherical":
            noise = P @ self.start @ P.T + K[:, known] @ Cl @ K[:, known].T
            scale = 1 / np.sqrt(np.diagonal(noise + M @ M.T))[:, None]
            M, P, K = scale * M, scale * P, scale * K
        self.M[t + 1], self.P[self._at(t + 1)], self.K[self._at(t + 1)] = M, P, K
        row = P @ self.start @ self.P[self._upto(t + 2)].T + K[:, known] @ Cl @ self.K[self._upto(t + 2), known].T
        row[:, self._at(t + 1)] = 0.5 * (row[:, self._at(t + 1)] + row[:, self._at(t + 1)].T)
        self.C[self._at(t + 1), self._upto(t + 2)], self.C[self._upto(t + 2), self._at(t + 1)] = row, row.T
        self.Q[t + 1] = row[:, self._at(t + 1)] + M @ M.T

    # -- the Gaussian process ------------------------------------------------------------------------------

    def _factorise(self, t: int) -> None:
        """Add the block row t of the Cholesky factor: om^t = sum_{s<=t} L(t,s) xi^s with the xi of all steps kept."""
        row = self.L[self._at(t)]
        for s in range(0 if self.fresh else t):
            check_time()
            before = self._upto(s)
            rest = self.C[self._at(t), self._at(s)] - row[:, before] @ self.L[self._at(s), before].T
            row[:, self._at(s)] = rest @ self.inverse[s].T
        known = row[:, self._upto(t)]
        late = t > LATE and not self.fresh
        root, inverse = _root(self.C[self._at(t), self._at(t)] - known @ known.T, CUT_LATE if late else CUT_EARLY)
        row[:, self._at(t)] = root
        self.inverse.append(inverse)

    def _response(self, t: int, weighted: Floats) -> Floats:
        """Return Gam(t, 0..t) by Stein's lemma: alpha E[F^t xi^sT] = sum_{r>=s} Gam(t,r) L(r,s), without dF."""
        row, normals = np.zeros((self.p, (t + 1) * self.p)), self.points.normals
        if self.fresh:
            row[:, self._at(t)] = weighted @ normals.T @ self.inverse[t]
            return row
        moments = weighted @ normals[self._upto(t + 1)].T
        for s in range(t, -1, -1):
            check_time()
            later = slice((s + 1) * self.p, (t + 1) * self.p)
            rest = moments[:, self._at(s)] - row[:, later] @ self.L[later, self._at(s)]
            row[:, self._at(s)] = rest @ self.inverse[s]
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


# -- The two-layer network of finite width on one sample: output ------------------------------------------


Loss = Literal["square", "correlation"]
Forward = tuple[DeviceArray, DeviceArray, DeviceArray]
"""Of every sample the loss (f - y)^2/2 or -y f (N,), F_j = d loss/d h_j and d loss/d a_j (p, N)."""


def forward(activation: Function, loss: Loss, a: DeviceArray, h: DeviceArray, y: DeviceArray) -> Forward:
    """Evaluate the network with second layer `a` (p,) at pre-activations h (p, N) and labels y (N,)."""
    hidden = activation(h)
    output = a @ hidden
    error = output - y if loss == "square" else -y
    values = 0.5 * error**2 if loss == "square" else error * output
    return values, error * (a[:, None] * activation.derivative(h)), error * hidden
