"""One-pass SGD in plain loops: sections 0, 2.1 and 4.2 of gradient_dynamics.

A few neurons learn a few directions from fresh samples. All that matters are the
overlaps M = W W*^T and Q = W W^T. The order of the argument is that of the page:

1. The fields v = (lambda, z) of a fresh sample are Gaussian with covariance
   Omega = [[Q, M], [M^T, P]] (`fields`).
2. A sample pushes neuron j along F_j x. The algorithm is its force F (`forces`).
3. Averages of F give the mean of the next M and Q (`averages`, `step`): the map.
4. Small rates turn the map into a differential equation (`flow`).

How long a saddle at M = 0 holds is in `escape.py`.

One step of two erf neurons on the sum of two erf:

>>> from scipy.special import erf
>>> run = Run(
...     target=lambda z: erf(z[0]) + erf(z[1]),
...     activation=erf,
...     slope=lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
...     second_layer=[1.0, -0.5],
...     dim=300,
...     batch=10,
...     rate=0.4,
... )
>>> M, Q = step(run, M=0.1 * np.eye(2), Q=np.eye(2))
>>> np.round(M, 5)
array([[ 0.18261,  0.087  ],
       [-0.04032,  0.05727]])
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import integrate

from giantstep.reference.averages import hermite_points, panel_points


@dataclass
class Run:
    """Who learns what: the letters of the page are in the comments."""

    target: Callable  # h(z), z of shape (k, points)
    activation: Callable  # s
    slope: Callable  # s'
    second_layer: list  # a, its length is p
    dim: float  # d
    batch: float  # n_b
    rate: float  # gamma
    noise: float = 0.0  # D
    algorithm: str = "squared"
    inner_rate: float = 0.0  # rho0
    constraint: str = "none"
    target_gram: np.ndarray | None = None  # P, the identity if left out
    nodes: int = 24  # Gauss-Hermite nodes for each dimension
    kinks: Callable | None = None  # for p = k = 1: places in lambda, given y
    target_kinks: tuple = (0.0,)  # for p = k = 1: places in z


# -- section 0: what a sample does ------------------------------------------------


def forces(run, lam, y):
    """Return F_j (p, points), the table of section 0."""
    a = np.array(run.second_layer)[:, None]
    p = len(a)

    def squared(fields):
        f = (a * run.activation(fields)).sum(axis=0) / p
        return run.slope(fields) * (y - f)

    if run.algorithm == "squared":
        return squared(lam)
    if run.algorithm == "correlation":
        return run.slope(lam) * y
    if run.algorithm == "exponential":
        f = (a * run.activation(lam)).sum(axis=0) / p
        return np.exp(np.minimum(-y * f, 2)) * y * run.slope(lam)
    if run.algorithm == "extragradient":
        # The second look happens after an inner step on the same sample.
        return squared(lam + run.inner_rate * a * squared(lam))
    if run.algorithm == "two-step":
        first = squared(lam)
        gamma0 = run.rate / p * run.dim
        return first + squared(lam + gamma0 * a * first)
    raise ValueError(run.algorithm)


# -- the fields of a fresh sample -------------------------------------------------


def fields(run, M, Q):
    """Return L, points of xi and y, and their weights: v = L xi, L L^T = Omega."""
    if run.kinks is not None:
        return kinked_fields(run, M.item(), Q.item())
    P = run.target_gram
    if P is None:
        P = np.eye(M.shape[1])
    Omega = np.block([[Q, M], [M.T, P]])
    values, vectors = np.linalg.eigh(Omega)
    # A perfect fit makes Omega singular: its null directions carry nothing.
    kept = values > 1e-12
    L = vectors[:, kept] * np.sqrt(values[kept])
    xi, weights = hermite_points(int(kept.sum()), run.nodes)
    return with_noise(run, L, xi.T, weights)


def kinked_fields(run, m, q):
    """Return the same for one neuron: panels in lambda end where F has a kink."""
    width = np.sqrt(q - m * m)
    # xi = (e, z) with lambda = m z + width e.
    L = np.array([[width, m], [0.0, 1.0]])
    blocks = []
    for z, z_weight in zip(*panel_points(run.target_kinks, width=1.5), strict=True):
        y = run.target(np.array([[z]])).item()
        edges = [(place - m * z) / width for place in run.kinks(y)]
        e, e_weights = panel_points(edges, width=1.5)
        blocks.append([e, np.full(len(e), z), z_weight * e_weights])
    blocks = np.concatenate(blocks, axis=1)
    return with_noise(run, L, blocks[:2], blocks[2])


def with_noise(run, L, xi, weights):
    """Return the points once for each node of the label noise."""
    p = len(run.second_layer)
    h = run.target(L[p:] @ xi)
    if run.noise == 0:
        return L, xi, h, weights
    # Two nodes are exact where F is affine in y: chi is then of second order.
    affine = run.algorithm in ("squared", "correlation")
    count = 2 if affine else 20
    zeta, mass = hermite_points(1, count)
    y = (h + np.sqrt(run.noise) * zeta).ravel()
    return L, np.tile(xi, count), y, np.outer(mass, weights).ravel()


# -- section 2.1: the map ---------------------------------------------------------


def averages(run, M, Q):
    """Return B = E[F v^T], B Omega^+ B^T, chi = E[F F^T] and the X of (2.1c)."""
    p = len(run.second_layer)
    L, xi, y, weights = fields(run, M, Q)
    lam = L[:p] @ xi
    F = forces(run, lam, y)
    # The same in the orthonormal coordinates xi: B = drift L^T.
    drift = (F * weights) @ xi.T
    chi = (F * weights) @ F.T
    if run.constraint == "spherical":
        # Rows move along x - lambda_j w_j.
        radial = np.sum(drift * L[:p], axis=1)
        drift = drift - radial[:, None] * L[:p]
    X = np.zeros((p, p))
    for j in range(p):
        for l in range(p):
            square = (xi**2).sum(axis=0)
            if run.constraint == "spherical":
                square = square - lam[j] ** 2 - lam[l] ** 2
                square = square + lam[j] * lam[l] * Q[j, l]
            seen = weights @ (F[j] * F[l] * square)
            X[j, l] = ((run.dim - len(xi)) * chi[j, l] + seen) / run.batch  # (2.1c)
    return drift @ L.T, drift @ drift.T, chi, X


def step(run, M, Q):
    """Return the mean of M and Q after one update, (2.1a) and (2.1b)."""
    p = len(run.second_layer)
    g = run.rate / p
    A = np.diag(run.second_layer)
    B, pair, _, X = averages(run, M, Q)
    phi = B[:, :p]
    psi = B[:, p:]
    M = M + g * A @ psi  # (2.1a)
    Q = Q + g * (A @ phi + phi.T @ A)  # (2.1b)
    Q = Q + g**2 * A @ (X + (1 - 1 / run.batch) * pair) @ A
    if run.constraint != "none":
        lengths = np.sqrt(np.diag(Q))
        M = M / lengths[:, None]
        Q = Q / np.outer(lengths, lengths)
    return M, Q


def error(run, M, Q):
    """Return E (h - f)^2, without noise and without a half."""
    a = np.array(run.second_layer)[:, None]
    p = len(a)
    L, xi, _, weights = fields(run, M, Q)
    v = L @ xi
    f = (a * run.activation(v[:p])).sum(axis=0) / p
    return weights @ (run.target(v[p:]) - f) ** 2 / weights.sum()


# -- small rates ------------------------------------------------------------------


def flow(run, M, Q, updates):
    """Return M and Q after so many updates of a vanishing rate, (2.1d)."""
    p, k = M.shape
    g = run.rate / p
    A = np.diag(run.second_layer)

    def velocity(tau, state):
        M = state[: p * k].reshape(p, k)
        Q = state[p * k :].reshape(p, p)
        B, _, chi, _ = averages(run, M, Q)
        phi = B[:, :p]
        dM = A @ B[:, p:]
        dQ = A @ phi + phi.T @ A + g * run.dim / run.batch * A @ chi @ A
        return np.concatenate([dM.ravel(), dQ.ravel()])

    start = np.concatenate([M.ravel(), Q.ravel()])
    # Time is tau = g t.
    path = integrate.solve_ivp(velocity, (0, g * updates), start, rtol=1e-8, atol=1e-11)
    end = path.y[:, -1]
    return end[: p * k].reshape(p, k), end[p * k :].reshape(p, p)
