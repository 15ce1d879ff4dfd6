"""The covariance that giant steps on finite batches leave in the rows.

Page: "Several giant steps, each on a finite fresh batch" (finite_batches_several_steps),
section 4. The layer is that of `finite_batches`; `finite_batch_directions` goes on.

Problem. All rows share the noise of the batches. So the rest of a row, what it is beside
the mean of its block, is not isotropic, and its covariance is as random as the batches.
Which numbers of it does a read-out see?

Order of the argument.

1. The sum of the rows of a block, weighted by the second layer, is a Gaussian vector
   tau^t after step t. With conjugate fields h^t the chain tau^0, h^1, tau^1, .., h^T, tau^T
   is one Gaussian measure: `bare` is what is always in it, (4.1).
2. `couplings`: a sample of batch t couples tau^{t-1} and h^t. `sweep`: the covariance C of
   the fields, and R, are a fixed point, (4.3) and (4.4).

An example: a chain without steps has the covariance R.

>>> from giantstep.reference.finite_batches import Layer
>>> chain = Chain(Layer(U=np.zeros((1, 1)), c=np.ones(1)))
>>> print(
...     chain.covariance(M=np.zeros((0, 2, 2)), R=np.array([0.5]), Vh1=np.zeros((1, 1)))
... )
[[0.5]]
"""  # noqa: E501

from __future__ import annotations

import numpy as np

from giantstep.reference.finite_batches import Layer, Step
from giantstep.reference.gaussian import Array


def couplings(step: Step, C: Array, R: Array) -> Array:
    """Return Lt of (4.3) at the nodes of a step; C is the covariance of its fields."""
    k, nodes = step.r2.shape
    L = np.zeros((nodes, 2 * k, 2 * k), dtype=C.dtype)
    for q in range(k):
        # (4.2): first the k numbers of tau^{t-1}, then those of h^t.
        L[:, q, k + q] = step.r2[q]
        L[:, k + q, q] = step.r2[q]
        L[:, k + q, k + q] = -step.inverse * R[q] * step.noise[q]
    return L @ np.linalg.inv(np.eye(2 * k) + step.inverse * C @ L)


class Chain:
    """The K = k (2T + 1) fields tau^0, h^1, tau^1, .., h^T, tau^T, in this order."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.steps = layer.steps
        self.k = len(layer.c)
        self.T = len(layer.steps)
        self.K = (2 * self.T + 1) * self.k

    def tau(self, t: int) -> slice:
        """Return the places of tau^t."""
        return slice(2 * t * self.k, (2 * t + 1) * self.k)

    def h(self, t: int) -> slice:
        """Return the places of h^t."""
        return slice((2 * t - 1) * self.k, 2 * t * self.k)

    def both(self, t: int) -> slice:
        """Return the places of tau^{t-1} and h^t, which step t couples."""
        return slice(2 * (t - 1) * self.k, 2 * t * self.k)

    def bare(self, R: Array, Vh1: Array) -> Array:
        """Return H0 of (4.1)."""
        eye = np.eye(self.k)
        H = np.zeros((self.K, self.K), dtype=np.result_type(R, Vh1))
        H[self.tau(0), self.tau(0)] = np.diag(1 / R)
        H[self.tau(self.T), self.tau(self.T)] += Vh1
        for t in range(1, self.T + 1):
            H[self.h(t), self.tau(t)] = -eye
            H[self.tau(t), self.h(t)] = -eye
            H[self.h(t), self.tau(t - 1)] = eye
            H[self.tau(t - 1), self.h(t)] = eye
        return H

    def precision(self, M: Array, R: Array, Vh1: Array) -> Array:
        """Return H of (4.3), where M holds M_t for every step."""
        H = self.bare(R, Vh1)
        for t in range(1, self.T + 1):
            H[self.both(t), self.both(t)] += M[t - 1]
        return H

    def covariance(self, M: Array, R: Array, Vh1: Array) -> Array:
        """Return C of (4.3)."""
        return np.linalg.inv(self.precision(M, R, Vh1))

    def sweep(
        self, M: Array, R: Array, Vh1: Array, Lambda: Array, beta_q: Array
    ) -> tuple[Array, Array]:
        """Return M and R after one sweep of (4.3) and (4.4)."""
        C = self.covariance(M, R, Vh1)
        S = C[self.tau(self.T), self.tau(self.T)]
        after = np.zeros(M.shape, dtype=C.dtype)
        for t, step in enumerate(self.steps, 1):
            Lt = couplings(step, C[self.both(t), self.both(t)], R)
            after[t - 1] = np.tensordot(step.weights, Lt, axes=1)
        return after, beta_q / (Lambda + np.diag(S @ Vh1) / R)
