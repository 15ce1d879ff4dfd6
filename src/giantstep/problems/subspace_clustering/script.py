"""Subspace clustering as a program of its own: a balanced draw, message passing from a
spectral start.
"""

from __future__ import annotations

from giantstep.core.base.errors import bad_field
from giantstep.core.maths.gaussian.source import Language
from giantstep.core.scenario.program import Program, number, refuse_torch
from giantstep.problems.subspace_clustering.scenario import SubspaceClustering

_WRITTEN = "where a script is written"
_FUNCTIONS = """
def spectral_start(rng, X):  # leading singular vectors, turned at random, with their expected overlap
    t = snr * n / d / k
    q = 1 - n / d * (1 + t) / (t * (t + n / d)) if t**2 > n / d else 0.0
    left = np.linalg.svd(X, full_matrices=False)[0][:, : k - 1]
    return (max(q, 0.05) * n / k) ** 0.5 * left @ np.linalg.qr(rng.standard_normal((k - 1, k - 1)))[0]

def message_passing(X, U):  # X = U V^T + noise; the prefactor of the signal is part of V
    tau, V, cov_u = snr / (rho * d), np.zeros((d, k - 1)), np.zeros((k - 1, k - 1))
    for sweep in range(400):
        A_v, B_v = U.T @ U, X.T @ U - V @ cov_u
        S = np.linalg.inv(np.eye(k - 1) / tau + A_v)
        mu = B_v @ S
        odds = (B_v * mu).sum(1) / 2 - np.linalg.slogdet(np.eye(k - 1) + tau * A_v)[1] / 2 + np.log(rho / (1 - rho))
        active = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))  # probability that a feature is active
        V, old = active[:, None] * mu, U
        cov_v = active.sum() * S + (mu * (active * (1 - active))[:, None]).T @ mu
        A_u, XV = V.T @ V, X @ V
        B_u = XV - U @ cov_v
        H = B_u @ Q.T - ((Q @ A_u) * Q).sum(1) / 2 - np.log(k)
        log_Z = logsumexp(H, axis=1)
        P = np.exp(H - log_Z[:, None])  # probabilities of the clusters
        U = P @ Q
        cov_u = (Q * P.sum(0)[:, None]).T @ Q - U.T @ U
        if ((U - old) ** 2).sum() < 1e-9 * (U**2).sum():
            break
    T_u, T_v = U.T @ U, V.T @ V
    log_Z_v = np.logaddexp(0, odds) + np.log1p(-rho)
    phi = log_Z.sum() + log_Z_v.sum() - (B_u * U).sum() - (B_v * V).sum() + (XV * U).sum()
    phi += (A_u * (T_u + cov_u) + A_v * (T_v + cov_v) - T_u * T_v - T_u * cov_v - cov_u * T_v).sum() / 2
    return P, V, active, phi / d
"""
_TRIAL = """
def trial(rng):
    labels, count, scale = np.arange(n) % k, round(rho * d), (snr / (rho * d)) ** 0.5
    V = np.zeros((d, k - 1))  # means of the clusters; the first features are active, V^T V = rho d
    V[:count] = np.linalg.qr(rng.standard_normal((count, k - 1)))[0] * (rho * d) ** 0.5
    X = scale * Q[labels] @ V.T + rng.standard_normal((n, d))
    P, found, active, phi = message_passing(X, spectral_start(rng, X))
    confusion = np.stack([P[labels == c].sum(0) for c in range(k)])
    order = linear_sum_assignment(-confusion)[1]  # the names of the clusters that fit the truth best
    P, found = P[:, order], (found / scale @ Q.T)[:, order] @ Q
    u, found_u, chosen = Q[labels], P @ Q, active > 0.5
    values = {
        "m_u": (found_u * u).sum() / (n * (k - 1) / k),
        "m_v": (found * V).sum() / (rho * d * (k - 1)),
        "mse_u": ((found_u - u) ** 2).sum() / n,
        "mse_v": ((found - V) ** 2).sum() / (d * (k - 1)),
        "accuracy": (P.argmax(1) == labels).mean(),
        "tpr": chosen[:count].mean(),
        "fpr": chosen[count:].mean(),
        "phi": phi,
    }
    return {name: [value] for name, value in values.items()}
"""


def program(scenario: SubspaceClustering, dim: int, lang: Language) -> Program:
    """Return the program of message passing on a mixture with sparse means."""
    refuse_torch(scenario.family, lang)
    if scenario.mean != "centred":
        raise bad_field("mean", scenario.mean, f'"centred" {_WRITTEN}')
    if scenario.weights and len(set(scenario.weights)) > 1:
        raise bad_field(
            "weights", list(scenario.weights), f"left out (equal clusters) {_WRITTEN}"
        )
    if scenario.sparsity == 1:
        raise bad_field("sparsity", scenario.sparsity, f"below 1 {_WRITTEN}")
    k = scenario.clusters
    n = max(1, round(scenario.samples_per_dim * dim))
    if min(n, dim) < k or round(scenario.sparsity * dim) < k - 1:
        raise bad_field(
            "dim", dim, f"large enough for {k} clusters and {k - 1} active features"
        )
    return Program(
        sizes={
            "n": (str(n), f"samples, n/d = {scenario.samples_per_dim:g}"),
            "k": (str(k), "clusters"),
            "rho": (number(scenario.sparsity), "sparsity, fraction of active features"),
            "snr": (number(scenario.snr), "lambda"),
            "Q": (
                "np.linalg.qr(np.eye(k) - 1 / k)[0][:, : k - 1]",
                "coordinates of the k centred clusters",
            ),
        },
        functions=_FUNCTIONS,
        trial=_TRIAL,
        variables=["m_u", "m_v", "mse_u", "mse_v", "accuracy", "tpr", "fpr", "phi"],
        index={"branch": ["uninformed"]},
        imports=[
            "from scipy.optimize import linear_sum_assignment",
            "from scipy.special import logsumexp",
        ],
    )
