"""Gradient descent that reuses its batch, in plain loops: section 2 of batch_reuse_dmft.

A few neurons take T steps on the same n = alpha d samples. The order of the argument is
that of the page:

1. The pre-activations h^t of one sample are a process with memory (2.1). Its noise
   omega is Gaussian, and is built of independent normals xi^s (`noise_of_step`).
2. Averages over this process are sums over weighted points (h*, zeta, xi^0, ...),
   which the caller hands over: a product rule (`grid`) for few steps of smooth
   activations, random points for others.
3. Each step needs the past only, so that the recursion runs forwards (`reused`).
   The response Gamma comes from Stein's identity, without a second derivative.

Fresh samples at every step have no memory: `single_pass.py`.

The two steps of an erf neuron on the third Hermite polynomial; the second one sees it:

>>> from scipy.special import erf
>>> problem = Problem(
...     target=lambda z: (z[0] ** 3 - 3 * z[0]) / np.sqrt(6),
...     activation=lambda h: erf(h / np.sqrt(2)),
...     slope=lambda h: np.sqrt(2 / np.pi) * np.exp(-h * h / 2),
...     second_layer=[1.0],
...     samples_per_dim=2.0,
...     rates=[0.3, 0.3],
... )
>>> path = reused(problem, *grid(problem, steps=2, count=60))
>>> [round(float(M[0, 0]), 5) for M in path["M"]]
[0.0, 0.0, -0.0356]
"""  # noqa: E501

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from giantstep.reference.averages import hermite_points


@dataclass
class Problem:
    """The letters of the page are in the comments."""

    target: Callable  # g(h*), h* of shape (k, points)
    activation: Callable  # sigma
    slope: Callable  # sigma'
    second_layer: list  # a
    samples_per_dim: float  # alpha
    rates: list  # eta_t, one for each step
    directions: int = 1  # k
    noise: float = 0.0  # Delta
    decay: float = 0.0  # lam
    loss: str = "square"
    momentum: float = 0.0  # beta
    spherical: bool = False
    second_layer_rate: float = 0.0  # eta_a
    overlap: np.ndarray | None = None  # M^0, zero if left out
    gram: np.ndarray | None = None  # Q^0, the identity if left out

    def start(self):
        """Return M^0 and Q^0."""
        p = len(self.second_layer)
        M = np.zeros((p, self.directions))
        Q = np.eye(p)
        if self.overlap is not None:
            M = np.array(self.overlap)
        if self.gram is not None:
            Q = np.array(self.gram)
        return M, Q


def grid(problem, steps, count):
    """Return a product rule over (h*, zeta, xi^0, ..., xi^(T-1))."""
    k = problem.directions
    normals = len(problem.second_layer) * steps
    if problem.noise > 0:
        return hermite_points(k + 1 + normals, count)
    points, weights = hermite_points(k + normals, count)
    # Without noise one value of zeta will do.
    return np.insert(points, k, 0.0, axis=1), weights


def gradient(problem, a, h, y):
    """Return F_j at pre-activations h (p, points), and the loss."""
    f = a @ problem.activation(h)
    if problem.loss == "square":
        return (f - y) * a[:, None] * problem.slope(h), (f - y) ** 2 / 2
    return -y * a[:, None] * problem.slope(h), -y * f


def psd_root(matrix, cut=1e-12):
    """Return the symmetric root of a covariance, small eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.where(values < cut * max(1, values.max()), 0, values)
    return vectors * np.sqrt(values) @ vectors.T


# -- section 2: one batch for all steps -------------------------------------------


def noise_of_step(t, C, L):
    """Add the row t of the block Cholesky factor of C: omega^t = sum L(t,s) xi^s."""
    for s in range(t):
        rest = C[t, s] - sum(L[t, r] @ L[s, r].T for r in range(s))
        L[t, s] = rest @ np.linalg.pinv(L[s, s].T, rcond=1e-8)
    L[t, t] = psd_root(C[t, t] - sum(L[t, r] @ L[t, r].T for r in range(t)))


def response(t, F_xi, L, Gamma):
    """Add Gamma(t, s), backwards in s: alpha E[F xi^s] = sum_r Gamma(t,r) L(r,s)."""
    for s in range(t, -1, -1):
        later = sum(Gamma[t, r] @ L[r, s] for r in range(s + 1, t + 1))
        Gamma[t, s] = (F_xi[s] - later) @ np.linalg.pinv(L[s, s], rcond=1e-8)


def reused(problem, points, weights, masks=None):
    """Return M, Q, training loss and a after every step; masks say who takes part."""
    alpha = problem.samples_per_dim
    a = np.array(problem.second_layer, dtype=float)
    p = len(a)
    k = problem.directions
    T = len(problem.rates)
    h_star = points[:, :k].T
    y = problem.target(h_star) + np.sqrt(problem.noise) * points[:, k]
    xi = [points[:, k + 1 + p * t : k + 1 + p * (t + 1)].T for t in range(T)]
    M, Q = problem.start()
    S = Q - M @ M.T
    P = [np.eye(p)]
    # Two-time kernels, p x p matrices by (t, s).
    C = {(0, 0): S}
    C_l = {}
    Gamma = {}
    K = {}
    L = {}
    V_M = np.zeros_like(M)
    V_P = np.zeros((p, p))
    V_K = {}
    F = []
    path = {"M": [M], "Q": [Q], "train_loss": [], "a": [a]}
    for t in range(T):
        eta = problem.rates[t]
        noise_of_step(t, C, L)
        omega = sum(L[t, s] @ xi[s] for s in range(t + 1))
        h = M @ h_star + omega - sum(K[t, s] @ F[s] for s in range(t))  # (2.1)
        push, loss = gradient(problem, a, h, y)
        path["train_loss"].append(weights @ loss)
        mask = 1.0 if masks is None else masks[t]
        F.append(push * mask)
        F_xi = [alpha * (F[t] * weights) @ xi[s].T for s in range(t + 1)]
        response(t, F_xi, L, Gamma)  # (2.3)
        for s in range(t + 1):
            C_l[t, s] = alpha * (F[t] * weights) @ F[s].T  # (2.4)
            C_l[s, t] = C_l[t, s].T
        if problem.second_layer_rate > 0:
            pull = problem.activation(h) @ (
                weights * mask * (a @ problem.activation(h) - y)
            )
            a = a - problem.second_layer_rate * pull / (
                weights @ (mask * np.ones(len(y)))
            )
        # V is the velocity of heavy ball; without momentum it is the gradient.
        pull = alpha * (F[t] * weights) @ h_star.T
        V_M = problem.momentum * V_M + problem.decay * M + pull
        M = M - eta * V_M  # (2.5)
        pull = sum(Gamma[t, r] @ P[r] for r in range(t + 1))
        V_P = problem.momentum * V_P + problem.decay * P[t] + pull
        P.append(P[t] - eta * V_P)  # (2.6)
        for s in range(t + 1):
            # The sample's own gradient enters once, at t = s.
            before = K.get((t, s), np.zeros((p, p)))
            pull = sum(Gamma[t, r] @ K[r, s] for r in range(s + 1, t + 1))
            if s == t:
                pull = -np.eye(p)
            V_K[s] = problem.momentum * V_K.get(s, 0) + problem.decay * before + pull
            K[t + 1, s] = before - eta * V_K[s]  # (2.7)
        M = remember(problem, t + 1, M, P, K, C, C_l, S)
        path["M"].append(M)
        path["Q"].append(C[t + 1, t + 1] + M @ M.T)  # (2.9)
        path["a"].append(a)
    return path


def remember(problem, t, M, P, K, C, C_l, S):
    """Add the covariances C(t, s) of (2.8), and bring rows back to the sphere."""

    def covariance(s):
        total = P[t] @ S @ P[s].T
        for r in range(t):
            for q in range(s):
                total = total + K[t, r] @ C_l[r, q] @ K[s, q].T
        return total

    if problem.spherical:
        lengths = np.diag(covariance(t) + M @ M.T)
        scale = np.diag(1 / np.sqrt(lengths))
        M = scale @ M
        P[t] = scale @ P[t]
        for s in range(t):
            K[t, s] = scale @ K[t, s]
    for s in range(t + 1):
        C[t, s] = covariance(s)
        C[s, t] = C[t, s].T
    return M
