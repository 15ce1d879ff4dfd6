"""The eigenvalues of the features' Gram matrix: density, upper edge, outliers.

Page: "A few giant steps on a multi-index target", section 7 (few_steps_readout); for one
direction it is section 7 of "Spiked random features" (spiked_features).

Problem. Phi is the n by p matrix of features of n samples. Where are the eigenvalues of
Phi^T Phi/p? Most are spread over a bulk. A few, which the target and the steps have put
there, lie beyond its edge.

Order of the argument.

1. The trace of (Phi^T Phi/p + lambda)^-1 is in the first order of the ridge read-out. With
   lambda = -z it is the Stieltjes transform m(z): `stieltjes`, (7.1).
2. `density`: Im m/pi just above the real axis.
3. `upper_edge`: above it the fixed point is real and stable; there it ceases to be, (7.2).
4. `outliers`: the least squares (4.5) becomes singular at an outlier, (7.3).

An example: x^2 - 1 has neither mean nor slope, so its features are noise of variance 2 and
the edge is that of Marchenko and Pastur.

>>> from giantstep.reference import one_step
>>> model = one_step.Model(activation=lambda z: z**2 - 1, target=np.sin)
>>> rows = one_step.planted_spike(pi=[1.0], u=[0.0], s=[1.0], gamma=1.0)
>>> features = one_step.features(model, rows)
>>> print(
...     round(upper_edge(features, alpha=4.0, beta=1.0), 6), 2 * (1 + np.sqrt(4.0)) ** 2
... )
18.0 18.0
"""  # noqa: E501

from __future__ import annotations

import numpy as np
from scipy import optimize

from giantstep.reference.gaussian import Array
from giantstep.reference.ridge_readout import (
    Features,
    FirstOrder,
    design,
    first_order,
    response,
)
from giantstep.reference.solving import fixed_point, jacobian


def stieltjes(features: Features, alpha: float, beta: float, z: complex) -> complex:
    """Return m(z) = tr (Phi^T Phi/p - z)^-1/p of the bulk, for Im z > 0, (7.1)."""
    start = None
    height = 4.0
    # Far from the axis there is one solution. It is followed down to z.
    while height > z.imag:
        there = complex(z.real, height)
        start = first_order(features, alpha, beta, -there, start)
        height = height / 4
    first = first_order(features, alpha, beta, -z, start)
    return complex(first.R.sum() / beta)


def density(features: Features, alpha: float, beta: float, x: float) -> float:
    """Return the density of eigenvalues at x > 0."""
    z = complex(x, 1e-7 * x)
    return stieltjes(features, alpha, beta, z).imag / np.pi


class Bulk:
    """The fixed point (4.3) and (4.4) at real z above the edge, as a few numbers."""

    def __init__(self, features: Features, alpha: float, beta: float) -> None:
        self.rho = alpha / beta
        self.beta_q = beta * features.pi
        self.k = len(features.pi)
        self.weights = features.weights
        # V is a sum of these functions of kappa, with the entries of V1 and V2.
        mu1 = features.mu1
        products = (mu1[:, None] * mu1).reshape(self.k**2, -1)
        self.pairs = np.concatenate([products, features.mu2])

    def sweep(self, state: Array, z: float) -> Array:
        """Return (V1, V2) and R after one sweep."""
        V = state[: -self.k] @ self.pairs
        moments = self.pairs @ (self.rho * self.weights / (1 + V))
        Vh1 = moments[: -self.k].reshape(self.k, self.k)
        Lambda = moments[-self.k :] - z
        R, _, S = response(Vh1, Lambda, self.beta_q, state[-self.k :])
        beta = self.beta_q.sum()
        return np.concatenate([S.ravel() / beta, R / beta, R])

    def solve(self, z: float, state: Array) -> tuple[Array, float]:
        """Return the solution at z, from one that is near, and how stable it is.

        The second number vanishes like sqrt(z - edge); it is -1 where there is nothing.
        """
        try:
            state = fixed_point(lambda moved: self.sweep(moved, z), state, plain=1)
        except (RuntimeError, np.linalg.LinAlgError):
            return state, -1.0
        V = state[: -self.k] @ self.pairs
        if np.any(state[-self.k :] >= 0) or np.any(1 + V <= 0):
            # Another branch: above the bulk R < 0 and 1 + V > 0.
            return state, -1.0
        slopes = jacobian(lambda moved: self.sweep(moved, z), state)
        return state, 1 - float(np.max(np.linalg.eigvals(slopes).real))


def upper_edge(features: Features, alpha: float, beta: float) -> float:
    """Return the upper edge of the bulk, (7.2)."""
    bulk = Bulk(features, alpha, beta)
    size = features.pi @ (features.mu1**2 + features.mu2)
    z = 100 * (1 + alpha / beta) * (1 + beta) * float(features.weights @ size)
    # Far away R is -beta_q/z.
    R = -bulk.beta_q / z
    state = np.concatenate([np.diag(R).ravel() / beta, R / beta, R])
    state, stable = bulk.solve(z, state)
    move = 0.5 * z
    edge = 0.0
    # Nearer than this Newton's equations are singular to rounding.
    while stable > 3e-4 and move > 1e-12 * z:
        near, less = bulk.solve(z - move, state)
        if not 0 < less < stable:
            move = move / 2
            continue
        # The square is linear near the edge. Far away it is flat: not too far a step.
        drop = (stable**2 - less**2) / move
        z = z - move
        edge = z - less**2 / drop
        state = near
        stable = less
        move = min(0.5 * z, 0.8 * (z - edge))
    return edge


def singular_values(
    features: Features, first: FirstOrder, alpha: float, beta: float, dim: float
) -> Array:
    """Return the eigenvalues of the matrix in (7.3), the largest first."""
    k, channels, _ = features.T0.shape
    columns = design(features)
    node = alpha / beta * features.weights / (1 + first.V)
    matrix = np.einsum("rin,n,rjn->ij", columns, node, columns)
    matrix += np.diag(
        np.concatenate([1 / (dim * first.R), np.repeat(1 / first.R, channels)])
    )
    if np.isinf(dim):
        # The means are free: what they can say is taken out.
        means = matrix[:k, :k]
        mixed = matrix[:k, k:]
        matrix = matrix[k:, k:] - mixed.T @ np.linalg.pinv(means, rcond=1e-12) @ mixed
    return np.linalg.eigvalsh(matrix)[::-1]


def outliers(
    features: Features, alpha: float, beta: float, dim: float = np.inf
) -> list[float]:
    """Return the eigenvalues beyond the edge, (7.3), the largest first.

    At a finite `dim` the means of the features give k large ones; in the limit these are
    infinite and are left out.
    """  # noqa: E501
    edge = upper_edge(features, alpha, beta)

    def value(z: float, place: int) -> float:
        first = first_order(features, alpha, beta, -z)
        return float(singular_values(features, first, alpha, beta, dim)[place])

    found = []
    low = edge * (1 + 1e-4)
    k, channels, _ = features.T0.shape
    count = k * channels
    if np.isfinite(dim):
        count += k
    for place in range(count):
        # Far away the penalties 1/R = -z/beta_q make all of them negative.
        if value(low, place) < 0:
            break
        high = 2 * low
        while value(high, place) > 0:
            high = 2 * high
        found.append(optimize.brentq(value, low, high, args=(place,), rtol=1e-12))
    return found
