"""The implicit step for the means and the intercept: the explicit one diverges for separated clusters."""

from __future__ import annotations

import numpy as np

from giantstep.solve import solve_each
from giantstep.types import Floats

FLOOR = 0.03
"""Least stiffness of a cluster, in units of alpha p_c/(1 + V_c): keeps the step defined where nothing responds."""


def stiffness(V_hat: Floats, V: Floats, samples: Floats) -> Floats:
    """Return weights for the step: V_hat, or a little of alpha p_c/(1 + V_c) where it vanishes; samples = alpha p_c.

    Any positive weights leave the fixed point where it is.
    """
    return np.maximum(V_hat, FLOOR * samples / (1 + V))


def implicit_mean_step(
    h_hat: Floats, drift: Floats, response: Floats, weights: Floats, intercept: bool
) -> tuple[Floats, Floats]:
    """Return the correction delta of h_hat (B, K) and the change of the intercept (B,).

    Since d h_hat/d h = -V_hat exactly, the pull of the new means is h_hat + delta with delta = -weights (drift +
    response delta + db), where drift = h(h_hat) - h_old and response = d h/d h_hat (B, K, K); with an intercept
    sum(h_hat + delta) = 0 determines db.
    """
    B, K = h_hat.shape
    size = K + 1 if intercept else K
    matrix = np.zeros((B, size, size))
    right = np.zeros((B, size, 1))
    matrix[:, :K, :K] = np.eye(K) + weights[:, :, None] * response
    right[:, :K, 0] = -weights * drift
    if intercept:
        matrix[:, :K, K] = weights
        matrix[:, K, :K] = 1
        right[:, K, 0] = -h_hat.sum(axis=1)
    solution = solve_each(matrix, right)[..., 0]
    return solution[:, :K], solution[:, K] if intercept else np.zeros(B)
