"""The same network on fresh samples at every step: (2.10) of batch_reuse_dmft.

Without reuse a sample has never been seen, and so its pre-activations are Gaussian:

    h = M h* + S^(1/2) xi,    S = Q - M M^T.

By Stein's identity the response of the gradient to xi is E[F xi^T] S^(-1/2), which is
all that the mean step needs. Beside `batch_reuse.py` this shows what reuse adds:

>>> from giantstep.reference.batch_reuse import Problem
>>> problem = Problem(
...     target=lambda z: z[0] + z[0] * z[1],
...     directions=2,
...     activation=lambda h: h + h * h / 2,
...     slope=lambda h: 1 + h,
...     second_layer=[0.6],
...     samples_per_dim=1.5,
...     rates=[0.2, 0.2],
...     loss="correlation",
... )
>>> np.round(single_pass(problem, count=10)["M"][2], 6)
array([[0.36  , 0.0324]])
"""

import numpy as np

from giantstep.reference.batch_reuse import gradient, grid, psd_root


def single_pass(problem, count):
    """Return M and Q after every step, (2.10)."""
    a = np.array(problem.second_layer, dtype=float)
    p = len(a)
    k = problem.directions
    alpha = problem.samples_per_dim
    points, weights = grid(problem, steps=1, count=count)
    h_star = points[:, :k].T
    xi = points[:, k + 1 :].T
    y = problem.target(h_star) + np.sqrt(problem.noise) * points[:, k]
    M, Q = problem.start()
    path = {"M": [M], "Q": [Q]}
    for eta in problem.rates:
        S = Q - M @ M.T
        root = psd_root(S)
        F, _ = gradient(problem, a, M @ h_star + root @ xi, y)
        F_weighted = eta * alpha * F * weights
        shrink = 1 - eta * problem.decay
        A = shrink * np.eye(p) - F_weighted @ xi.T @ np.linalg.pinv(root, rcond=1e-8)
        M = shrink * M - F_weighted @ h_star.T
        Q = A @ S @ A.T + eta * F_weighted @ F.T + M @ M.T
        path["M"].append(M)
        path["Q"].append(Q)
    return path
