"""Linear estimators on a Gaussian mixture, in plain loops: section 2 of mixture_glm.

Each of K clusters has a mean, a covariance and a share of the samples. The order of the
argument is that of the page:

1. The channel of a cluster (`mixture_channels.py`) turns V, q, m and h into hats, (2a).
2. The prior turns the hats into new V, q, m and h, (2b) and (2c): `prior`, and
   `sparse_prior` with an l1 penalty. All covariances are diagonal in one basis; a block
   is a part of the coordinates, and `isotropic` is one block.
3. The fixed point of both is found by a root finder (`solve`). The errors are averages
   at it.

Logistic regression on the signs of a teacher:

>>> from giantstep.reference.mixture_channels import Problem
>>> data = isotropic([1.0], [[0.0]], 1.0, [0.0])
>>> problem = Problem(
...     weights=[1.0],
...     alpha=2.0,
...     loss="logistic",
...     labels="sign",
...     rho=data.rho,
...     tau=data.tau,
... )
>>> answer = solve(problem, data, ridge=0.1)
>>> round(float(answer["q"][0]), 6), round(float(answer["test_error"]), 6)
(4.145804, 0.179662)
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.special import ndtr

from giantstep.reference.averages import normal_density
from giantstep.reference.mixture_channels import channel


@dataclass
class Data:
    """The inputs in B blocks of coordinates, section 2.1 (a)."""

    pi: np.ndarray  # share of the coordinates in each block (B,)
    sigma: np.ndarray  # variances (K, B)
    G: np.ndarray  # second moments of (s_c, sqrt(d) mu_c) in each block (B, 2K, 2K)
    rho: np.ndarray  # variance of the teacher's field (K,)
    tau: np.ndarray  # its mean (K,)


def isotropic(sigma, mean_gram, teacher_norm, teacher_means):
    """Return covariances sigma_c times the identity."""
    sigma = np.array(sigma)
    tau = np.array(teacher_means)
    across = np.outer(sigma, tau)
    top = [teacher_norm * np.outer(sigma, sigma), across]
    G = np.block([top, [across.T, np.array(mean_gram)]])
    return Data(np.ones(1), sigma[:, None], G[None], teacher_norm * sigma, tau)


# -- the prior --------------------------------------------------------------------


def prior(data, ridge, V_hat, q_hat, m_hat, h_hat):
    """Return V, q, (m, h) and the norm r, (2.1a)."""
    beta = np.concatenate([m_hat, h_hat])
    V = 0.0
    q = 0.0
    mh = 0.0
    r = 0.0
    for pi, sigma, G in zip(data.pi, data.sigma.T, data.G, strict=True):
        A = ridge + V_hat @ sigma
        size = beta @ G @ beta + q_hat @ sigma
        V = V + pi * sigma / A
        q = q + pi * sigma * size / A**2
        mh = mh + pi * G @ beta / A
        r = r + pi * size / A**2
    return V, q, mh, r


def sparse_prior(data, ridge, l1, V_hat, q_hat, m_hat, h_hat):
    """Return the same with an l1 penalty, section 2.2: coordinates are Gaussian."""
    beta = np.concatenate([m_hat, h_hat])
    V = 0.0
    q = 0.0
    mh = 0.0
    r = 0.0
    for pi, sigma, G in zip(data.pi, data.sigma.T, data.G, strict=True):
        A = ridge + V_hat @ sigma
        # A search may make the noise negative for a moment.
        n = max(beta @ G @ beta + q_hat @ sigma, 1e-12)
        u = l1 / np.sqrt(n)
        # Both signs of a coordinate alike: hence the factors 2.
        active = 2 * ndtr(-u)
        size = 2 * n * ((1 + u * u) * ndtr(-u) - u * normal_density(u))
        V = V + pi * sigma * active / A
        q = q + pi * sigma * size / A**2
        mh = mh + pi * active * G @ beta / A
        r = r + pi * size / A**2
    return V, q, mh, r


# -- the fixed point --------------------------------------------------------------


def solve(problem, data, ridge=0.0, l1=0.0, intercept=False):
    """Return the fixed point and the errors there."""
    K = len(problem.weights)
    if problem.loss in ("interpolate", "maxmargin"):
        ridge = 1.0

    def sweep(x):
        V = np.exp(x[:K])
        q = np.exp(x[K : 2 * K])
        m = x[2 * K : 3 * K] * np.sqrt(q)
        h = x[3 * K : 4 * K] * np.sqrt(q)
        hats = np.zeros((4, K))
        seen = []
        for c in range(K):
            hats[:, c], one = channel(problem, c, V[c], q[c], m[c], h[c] + x[-1])
            seen.append(one)
        if l1 > 0:
            after = sparse_prior(data, ridge, l1, *hats)
        else:
            after = prior(data, ridge, *hats)
        return (V, q, m, h), after, hats, seen

    def mismatch(x):
        (V, q, m, h), (V_new, q_new, mh_new, _), hats, _ = sweep(x)
        # Scale-free coordinates: V and q may be very large near separability.
        gaps = [np.log(V_new / V), np.log(q_new / q)]
        gaps.append((mh_new - np.concatenate([m, h])) / np.tile(np.sqrt(q), 2))
        balance = x[-1]
        if intercept:
            balance = hats[3].sum()
        return np.concatenate([*gaps, [balance]])

    trace = data.sigma @ data.pi
    start = [np.log(trace / max(ridge, 0.3)), np.log(0.5 * trace)]
    x0 = np.concatenate([*start, np.full(K, 0.3), np.zeros(K), [0.0]])
    found = optimize.root(mismatch, x0, options={"xtol": 1e-13})
    assert np.abs(found.fun).max() < 1e-9, found.message
    (V, q, m, h), after, _, seen = sweep(found.x)
    answer = {"V": V, "q": q, "m": m, "h": h, "b": found.x[-1], "norm": after[3]}
    for name in seen[0]:
        values = np.array([one[name] for one in seen])
        answer[name] = problem.weights @ values
    return answer
