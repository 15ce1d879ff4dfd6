"""The implicit step for the means and the intercept.

The explicit one diverges for separated clusters. With the state equations of
mixture_glm section 4: since d h_hat/d h = -V_hat exactly, the pull of the new means is
h_hat + delta with delta = -V_hat (h(h_hat + delta) - h_old + db); with an intercept
sum(h_hat + delta) = 0 gives db.
"""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.solve import solve_each

FLOOR = 0.03
"""Least stiffness of a cluster, in units of alpha p_c/(1 + V_c): keeps the step defined
where nothing responds.
"""


def stiffness(V_hat: Floats, V: Floats, samples: Floats) -> Floats:
    """Return weights for the step: V_hat, or a little of alpha p_c/(1 + V_c) where it
    vanishes; samples = alpha p_c.

    Any positive weights leave the fixed point where it is.
    """
    # a floor, so that clusters in which nothing responds move, too
    return np.maximum(V_hat, FLOOR * samples / (1 + V))


def implicit_mean_step(
    residual: Floats,
    imbalance: Floats,
    response: Floats,
    weights: Floats,
    intercept: bool,
) -> tuple[Floats, Floats]:
    """Return delta (B, K) and db (B,) with delta + weights (response delta + db) =
    -residual.

    With an intercept db is such that sum(delta) = -imbalance, else 0; response = d h/d
    h_hat (B, K, K). Where h is linear in h_hat, residual = weights (h(h_hat) - h_old)
    and imbalance = sum(h_hat) give the whole step at once.
    """
    B, K = residual.shape
    of_delta = np.eye(K) + weights[:, :, None] * response
    if not intercept:
        delta = -solve_each(of_delta, residual[..., None])[..., 0]
        return delta, np.zeros(B)
    # one more unknown, db, and one more equation, that of the sum
    matrix = np.zeros((B, K + 1, K + 1))
    matrix[:, :K, :K] = of_delta
    matrix[:, :K, K] = weights
    matrix[:, K, :K] = 1
    right = np.concatenate([residual, imbalance[:, None]], axis=1)
    solution = -solve_each(matrix, right[..., None])[..., 0]
    return solution[:, :K], solution[:, K]
