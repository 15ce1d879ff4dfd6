"""The ridge read-out after several giant steps on finite batches.

Page: "Several giant steps, each on a finite fresh batch" (finite_batches_several_steps),
section 6, and section 6.3 of "Spiked random features". The layer is that of
`finite_batches`, its covariance that of `finite_batch_chain` and `finite_batch_directions`.

Problem. As in `ridge_readout`: the errors of a second layer fitted on n = alpha d samples.
But the rows are not isotropic, and the response to a change is not a formula any more.

Order of the argument.

1. `first_order`: V(kappa), as in `ridge_readout`, with the chain in the place of (4.4).
2. `signal`: the second layer along the means and the special directions, (6.1) to (6.3).
3. `read_out`: the fluctuations are derivatives of 1 and 2, (6.4).

An example: G1 of "The network after a finite batch", section 17.9, at alpha = 1.

>>> from giantstep.reference import finite_batches
>>> elu = lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0)))
>>> network = Network(
...     activation=elu,
...     slope=lambda z: np.exp(np.minimum(z, 0)),
...     kinks=[0.0],
...     target=lambda z: np.tanh(2 * z[0]),
...     noise=0.05,
...     zeta=[1, 1.5],
...     pi=[0.6, 0.4],
...     mesh=0.16,
... )
>>> layer = finite_batches.step(
...     network, finite_batches.start(network), rate=1.5, alpha=2.0
... )
>>> print(round(read_out(network, layer, alpha=1.0, beta=1.3, ridge=0.05).test, 6))
0.470835
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.reference.finite_batch_chain import Chain
from giantstep.reference.finite_batch_directions import special
from giantstep.reference.finite_batches import Layer, Network, relevant, rule
from giantstep.reference.gaussian import Array, smoothed
from giantstep.reference.solving import TINY, fixed_point, jacobian


@dataclass
class Features:
    """Functions of kappa, the input along `rel`; no direction of W* is left out."""

    weights: Array
    rel: Array
    mu0: Array
    mu1: Array  # D_1, without the norm of the rows
    mu2: Array
    T: Array  # ((m + 1) k, N), (6.1)
    h: Array
    hh: Array


@dataclass
class Errors:
    """What (6.5) measures; `identity` is its relative violation."""

    test: float
    train: float
    norm: float
    objective: float
    identity: float


def features(network: Network, layer: Layer) -> Features:
    """Return (6.1)."""
    rel = relevant(network, layer)
    kappa, weights = rule(network, rel.shape[1])
    blocks = []
    for U, c in zip(layer.U, layer.c):
        A = (U @ rel) @ kappa
        blocks.append(smoothed(network.activation, network.kinks, A, np.sqrt(c)))
    mu1 = np.array([block.D[1] for block in blocks])
    bend = np.array([block.D[2] for block in blocks])
    T = np.concatenate([*(along * mu1 for along in kappa), bend / 2])
    h = network.target(kappa[: network.directions])
    return Features(
        weights=weights,
        rel=rel,
        mu0=np.array([block.mu0 for block in blocks]),
        mu1=mu1,
        mu2=np.array([block.mu2 for block in blocks]),
        T=T,
        h=h,
        hh=h**2 + network.noise,
    )


class Problem:
    """A layer and its features, at one size of everything."""

    def __init__(
        self, network: Network, layer: Layer, alpha: float, beta: float, ridge: float
    ) -> None:
        self.chain = Chain(layer)
        self.at = features(network, layer)
        self.k = len(layer.c)
        self.rho = alpha / beta
        self.beta = beta
        self.beta_q = beta * np.array(network.pi)
        self.ridge = ridge
        self.couplings = (len(layer.steps), 2 * self.k, 2 * self.k)

    def split(self, x: Array) -> tuple[Array, Array]:
        """Return M and R."""
        return x[: -self.k].reshape(self.couplings), x[-self.k :]

    def divided(self, p: Array) -> tuple[Array, Array]:
        """Return Vh1 and Lambda."""
        return p[: -self.k].reshape(self.k, self.k), p[-self.k :]

    def sweep(self, x: Array, p: Array) -> Array:
        """Return (M, R) after one sweep of (4.3) and (4.4) at p = (Vh1, Lambda)."""
        M, R = self.chain.sweep(*self.split(x), *self.divided(p), self.beta_q)
        return np.concatenate([M.ravel(), R])

    def variances(self, x: Array, p: Array) -> Array:
        """Return V1 and V2 of (4.4)."""
        M, R = self.split(x)
        last = self.chain.tau(self.chain.T)
        C = self.chain.covariance(M, R, self.divided(p)[0])
        return np.concatenate([C[last, last].ravel(), R]) / self.beta

    def pairs(self) -> Array:
        """Return the functions whose sum with V1 and V2 is V(kappa), (4.5)."""
        mu1 = self.at.mu1
        products = (mu1[:, None] * mu1).reshape(self.k**2, -1)
        return np.concatenate([products, self.at.mu2])

    def response(self, V: Array) -> Array:
        """Return p = (Vh1, Lambda) of (4.5)."""
        p = self.pairs() @ (self.rho * self.at.weights / (1 + V))
        p[-self.k :] += self.ridge
        return p

    def first_order(self) -> tuple[Array, Array, Array]:
        """Return V(kappa), x = (M, R) and p = (Vh1, Lambda)."""
        pairs = self.pairs()
        size = self.k**2 + self.k
        R = self.beta_q / self.ridge
        M = np.zeros(self.couplings)
        c = self.chain.layer.c
        begin = np.concatenate([np.diag(R * c).ravel(), R]) / self.beta

        def joint(state: Array) -> Array:
            p = self.response(state[:size] @ pairs)
            x = self.sweep(state[size:], p)
            return np.concatenate([self.variances(x, p), x])

        state = np.concatenate([begin, M.ravel(), R])
        state = fixed_point(joint, state, plain=40)
        V = state[:size] @ pairs
        return V, state[size:], self.response(V)

    def reach(self, x: Array, p: Array, V: Array) -> Array:
        """Return Ps of (6.3): how far data along T moves the second layer."""
        M, R = self.split(x)
        Vh1, _ = self.divided(p)
        P = special(self.chain, M, R, Vh1, self.at.rel)
        T = self.at.T
        N = (T * self.rho * self.at.weights / (1 + V)) @ T.T + 0 * P  # (6.2)
        # The chain has Vh1 already, along every direction.
        for a in range(self.at.rel.shape[1]):
            block = slice(a * self.k, (a + 1) * self.k)
            N[block, block] -= Vh1
        return np.linalg.solve(np.eye(len(P)) + P @ N, P)


def read_out(
    network: Network, layer: Layer, alpha: float, beta: float, ridge: float
) -> Errors:
    """Return the errors (6.5) of a ridge fit on alpha d samples with beta d neurons."""
    problem = Problem(network, layer, alpha, beta, ridge)
    at = problem.at
    V, x, p = problem.first_order()
    # (6.3): the means are free; what they leave goes along T.
    node = problem.rho * at.weights / (1 + V)
    Ps = problem.reach(x, p, V)
    b0 = at.T @ (node * at.h)
    Bt = (at.T * node) @ at.mu0.T
    gram = (at.mu0 * node) @ at.mu0.T - Bt.T @ Ps @ Bt
    aim = at.mu0 @ (node * at.h) - Bt.T @ Ps @ b0
    theta = np.linalg.lstsq(gram, aim, rcond=1e-13)[0]
    w = b0 - Bt @ theta
    c = theta @ at.mu0 + (Ps @ w) @ at.T  # (6.4)
    base = at.hh - 2 * c * at.h + c**2
    # Derivatives of V1, V2 and of E = w.Ps.w in every direction of (Vh1, Lambda).
    inner = np.eye(len(x)) - jacobian(lambda moved: problem.sweep(moved, p), x)
    dV = []
    dE = []
    k = problem.k
    for place in range(k**2 + k):
        dp = np.zeros(k**2 + k)
        dp[place] = 1
        # Vh1 stays symmetric.
        dp[: k**2] = (dp[: k**2] + dp[: k**2].reshape(k, k).T.ravel()) / 2
        there = p + 1j * TINY * dp
        dx = np.linalg.solve(inner, problem.sweep(x, there).imag / TINY)
        moved = x + 1j * TINY * dx
        dV.append(problem.variances(moved, there).imag / TINY)
        dE.append((w @ problem.reach(moved, there, V) @ w).imag / TINY)
    # Q = -dE - dV.Qh, where Qh is linear in RES, and RES is linear in Q: (4.7) there.
    pairs = problem.pairs()
    twice = problem.rho * at.weights / (1 + V) ** 2
    linear = np.transpose(dV) @ (pairs * twice)
    Q = np.linalg.solve(
        np.eye(len(p)) + linear @ pairs.T, -np.array(dE) - linear @ base
    )
    RES = base + Q @ pairs
    train = at.weights @ (RES / (1 + V) ** 2)
    norm = Q[-k:].sum()
    objective = train + ridge / problem.rho * norm
    again = at.weights @ ((at.hh - c * at.h) / (1 + V))
    return Errors(
        test=float(at.weights @ RES),
        train=float(train),
        norm=float(norm),
        objective=float(objective),
        identity=float(abs(objective / again - 1)),
    )
