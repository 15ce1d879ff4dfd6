"""Approximate message passing for Gaussian mixtures with sparse means, on any n-by-d
matrix with unit noise.

The iteration is that of subspace_clustering section 9, its evidence and the learning of
parameters those of section 10. The prefactor of the signal is absorbed into V, whose
slab has the variance tau = snr/(sparsity d).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import scipy

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import DeviceArray, Floats
from giantstep.core.lab.algebra import leading_vectors, multiply
from giantstep.core.lab.devices import array_module
from giantstep.problems.subspace_clustering.channels import assignment_channel
from giantstep.problems.subspace_clustering.mixture import ClusterMixture
from giantstep.problems.subspace_clustering.unequal import unequal_clusters

_TRIVIAL = 1e-12
"""Overlap k |U|^2/n below which the iteration has collapsed onto the trivial fixed
point.
"""


@dataclass(frozen=True)
class AMPEstimate:
    """What is known after a sweep (arrays of the device, not copies)."""

    posteriors: DeviceArray  # (n, k) probability of each cluster, row by row
    # (n, p) posterior means U of the assignments, coordinates of
    # `ClusterMixture.directions`
    assignments: DeviceArray
    # (d, p) posterior means V of the features, prefactor included: X is about U V^T
    features: DeviceArray
    support: DeviceArray  # (d,) probability that a feature is active


@dataclass(frozen=True)
class AMPRun(AMPEstimate):
    """What the iteration ended with."""

    precision: DeviceArray  # (p, p) matrix A_u = V^T V of the fields of fresh rows
    mixture: (
        ClusterMixture  # the model, with the sparsity and the snr of the last sweep
    )
    # "converged", "trivial" (collapsed to zero: nothing found), "not converged" or
    # "diverged"
    outcome: str
    iterations: int
    change: float  # relative squared change of U in the last sweep
    log_evidence: (
        float  # d * phi_B, the Bethe estimate of the log-evidence over pure noise
    )

    @property
    def converged(self) -> bool:
        """Whether a fixed point was reached, the trivial one included."""
        return self.outcome in ("converged", "trivial")

    @property
    def labels(self) -> DeviceArray:
        """(n,) most probable cluster of each row, from 0."""
        return self.posteriors.argmax(axis=1)

    @property
    def means(self) -> DeviceArray:
        """(d, k) posterior means of the clusters, in the units of X, measured from
        their common mean.
        """
        return (
            self.features
            @ array_module(self.features).asarray(self.mixture.directions).T
        )

    def assign(self, X: DeviceArray) -> DeviceArray:
        """Return the (m, k) probabilities of the clusters of fresh rows, which have no
        part in V: no Onsager term.
        """
        xp = array_module(X)
        Q = xp.asarray(self.mixture.directions)
        weights = xp.asarray(self.mixture.weights)
        fields = (
            X @ self.features @ Q.T
            - 0.5 * ((Q @ self.precision) * Q).sum(axis=1)
            + xp.log(weights)
        )
        fields -= fields.max(axis=1, keepdims=True)
        posteriors = xp.exp(fields)
        return posteriors / posteriors.sum(axis=1, keepdims=True)


def amp(
    X: DeviceArray,
    mixture: ClusterMixture,
    start: str | DeviceArray = "spectral",
    *,
    max_iterations: int = 400,
    tolerance: float = 1e-9,
    learn: Collection[str] = (),
    generator: Any = None,
    observe: Callable[[AMPEstimate], None] | None = None,
) -> AMPRun:
    """Run approximate message passing on a data matrix: two products with X per
    iteration, O(nd) memory.

    The Onsager terms use the latest V and U, so that one sweep is one step of state
    evolution; no damping is needed.

    X (n, d) is a NumPy or CuPy array with noise of unit variance; centre its columns
    first, unless their mean informs. `start` is a name of `starting_point` or an (n, p)
    array U0; the `generator` of the starts is a fixed one if left out. It stops where
    |U - U_old|^2/|U|^2 is below the tolerance. `learn` names which of "sparsity" and
    "snr" are learnt, from the values of the mixture (needs up to 2000 sweeps);
    `observe` is called after every iteration.

    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(400) % 2
    >>> X = np.outer(
    ...     1 - 2 * labels, np.r_[np.full(10, 1.0), np.zeros(190)]
    ... ) + rng.standard_normal((400, 200))
    >>> run = amp(X, ClusterMixture(clusters=2, sparsity=0.05, snr=20.0), generator=rng)
    >>> run.outcome, bool(abs((run.labels == labels).mean() - 0.5) > 0.49)
    ('converged', True)
    """
    if max_iterations < 1:
        raise bad_field("max_iterations", max_iterations, "a whole number at least 1")
    if not tolerance > 0:
        raise bad_field("tolerance", tolerance, "a number above 0")
    _check_matrix(X, mixture)
    if isinstance(start, str):
        U = starting_point(X, mixture, start, generator)
    else:
        U = array_module(X).array(start, dtype=np.float64)
        shape = (len(X), mixture.directions.shape[1])
        if U.shape != shape or not bool(array_module(X).isfinite(U).all()):
            allowed = f"one of {', '.join(STARTS)} or {shape[0]} x {shape[1]} numbers"
            raise bad_field("start", f"array {U.shape}", allowed)
    sweep = _Sweep(X, mixture, U)
    outcome = "not converged"
    iteration = 0
    while outcome == "not converged" and iteration < max_iterations:
        check_time()
        if learn and iteration:
            sweep.learn(learn)
        sweep.update_features()
        sweep.update_assignments()
        iteration += 1
        if observe is not None:
            observe(AMPEstimate(sweep.posteriors, sweep.U, sweep.V, sweep.support))
        outcome = sweep.outcome(tolerance)
    evidence = 0.0 if outcome == "diverged" else sweep.log_evidence()
    used = replace(mixture, sparsity=sweep.rho, snr=sweep.tau * sweep.rho * X.shape[1])
    return AMPRun(
        sweep.posteriors,
        sweep.U,
        sweep.V,
        sweep.support,
        sweep.A_u,
        used,
        outcome,
        iteration,
        sweep.change,
        evidence,
    )


class _Sweep:
    """The state of the iteration in the letters of subspace_clustering (9a)-(9e)."""

    def __init__(self, X: DeviceArray, mixture: ClusterMixture, U: DeviceArray) -> None:
        self.X = X
        self.mixture = mixture
        self.xp = array_module(X)
        self.rho = float(mixture.sparsity)
        self.tau = float(mixture.snr) / (float(mixture.sparsity) * X.shape[1])
        xp = self.xp
        self.Q = self.xp.asarray(mixture.directions)
        p = self.Q.shape[1]
        self.log_w = xp.asarray(np.log(mixture.weights))
        self.unit = xp.eye(p)
        self.U = U
        self.V = xp.zeros((X.shape[1], p))
        self.Sigma_U = xp.zeros((p, p))
        self.change = math.inf

    def update_features(self) -> None:
        """V from U, (9a)-(9c): with S = (1/tau + A_v)^-1, mu_j = S B_v,j,

        A_v = U^T U,  B_v = X^T U - V Sigma_U
        pi_j = expit(B_v,j.mu_j/2 - log det(1 + tau A_v)/2 + log(rho/(1-rho))),  V_j = pi_j mu_j
        Sigma_V = sum_j pi_j S + sum_j pi_j (1 - pi_j) mu_j mu_j^T
        """  # noqa: E501
        xp = self.xp
        U = self.U
        self.A_v = U.T @ U
        self.B_v = _narrow_product(self.X.T, U, xp) - self.V @ self.Sigma_U
        self.S = xp.linalg.inv(self.unit / self.tau + self.A_v)
        self.mu = mu = self.B_v @ self.S
        log_det = float(xp.linalg.slogdet(self.unit + self.tau * self.A_v)[1])
        self.exponent = 0.5 * (self.B_v * mu).sum(axis=1) - 0.5 * log_det
        if self.rho < 1:
            self.exponent = self.exponent + (math.log(self.rho) - math.log1p(-self.rho))
            self.support = 0.5 * (1 + xp.tanh(0.5 * self.exponent))
        else:
            self.support = xp.ones(len(mu))
        pi = self.support
        self.V = pi[:, None] * mu
        self.Sigma_V = pi.sum() * self.S + (mu * (pi * (1 - pi))[:, None]).T @ mu

    def update_assignments(self) -> None:
        """U from V, (9d)-(9e):

        A_u = V^T V,  B_u = X V - U Sigma_V
        P_ic = softmax_c(B_u,i.q_c - q_c^T A_u q_c/2 + log w_c),  U = P Q,  Sigma_U = sum_i cov(u_i)
        """  # noqa: E501
        xp = self.xp
        Q = self.Q
        U_old = self.U
        self.A_u = self.V.T @ self.V
        self.XV = _narrow_product(self.X, self.V, xp)
        self.B_u = self.XV - U_old @ self.Sigma_V
        # a row for each cluster
        P = (
            Q @ self.B_u.T
            + (self.log_w - 0.5 * ((Q @ self.A_u) * Q).sum(axis=1))[:, None]
        )
        self.top = P.max(axis=0)
        P -= self.top
        xp.exp(P, out=P)
        self.total = P.sum(axis=0)
        P /= self.total
        self.posteriors = P.T
        self.U = (Q.T @ P).T
        self.T_U = self.U.T @ self.U
        self.Sigma_U = (Q * P.sum(axis=1)[:, None]).T @ Q - self.T_U
        step = self.U - U_old
        self.size = float(self.T_U.trace())
        self.change = float((step.T @ step).trace()) / max(self.size, 1e-300)

    def learn(self, names: Collection[str]) -> None:
        """Make half a step (in their logarithms) of expectation-maximisation for
        sparsity and slab variance.
        """
        pi = self.support
        d = len(self.support)
        active = float(pi.sum())
        spread = float(
            (pi * (self.mu**2).sum(axis=1)).sum() + pi.sum() * self.S.trace()
        )
        spread /= self.Q.shape[1] * max(active, 1e-300)
        rho = max(min(math.sqrt(self.rho * active / d), 1 - 1e-12), 1e-12)
        known_snr = "snr" not in names
        if known_snr:
            self.tau = float(self.mixture.snr) / (rho * d)
        else:
            self.tau = max(math.sqrt(self.tau * spread), 1e-300)
        self.rho = rho if "sparsity" in names else self.rho

    def outcome(self, tolerance: float) -> str:
        """Say whether the iteration has come to an end, and to which."""
        if not math.isfinite(self.change) or not math.isfinite(self.size):
            return "diverged"
        if (
            self.mixture.mean == "centred"
            and self.mixture.clusters * self.size / len(self.U) < _TRIVIAL
        ):
            return "trivial"
        return "converged" if self.change < tolerance else "not converged"

    def log_evidence(self) -> float:
        """Return d phi_B, subspace_clustering (10a)."""
        xp = self.xp
        U = self.U
        V = self.V
        exponent = self.exponent
        log_Z_u = float((self.top + xp.log(self.total)).sum())
        log_Z_v = float(
            (
                xp.logaddexp(0.0, exponent) + math.log1p(-self.rho)
                if self.rho < 1
                else exponent
            ).sum()
        )
        T_U = self.T_U
        T_V = V.T @ V
        fields = (self.XV * U).sum() - (self.B_u * U).sum() - (self.B_v * V).sum()
        second = self.A_u * (T_U + self.Sigma_U) + self.A_v * (T_V + self.Sigma_V)
        products = T_U * T_V + T_U * self.Sigma_V + self.Sigma_U * T_V
        return log_Z_u + log_Z_v + float(fields + 0.5 * (second - products).sum())


def _narrow_product(
    matrix: DeviceArray, right: DeviceArray, xp: ModuleType
) -> DeviceArray:
    """Return matrix @ right; with up to four columns, one by one, which BLAS does up to
    five times faster.
    """
    if xp is not np or right.shape[1] > 4:
        return multiply(matrix, xp.ascontiguousarray(right), xp)
    out = np.empty((right.shape[1], len(matrix)))
    for row, column in zip(out, np.ascontiguousarray(right.T)):
        np.dot(matrix, column, out=row)
    return out.T


def _check_matrix(X: DeviceArray, mixture: ClusterMixture) -> None:
    if getattr(X, "ndim", 0) != 2:
        raise bad_field("X", type(X).__name__, "a matrix with a row for each sample")
    (n, d), k = X.shape, mixture.clusters
    if n < k or d < k - 1:
        raise bad_field(
            "X", f"{n} x {d}", f"a matrix with at least {k} rows and {k - 1} columns"
        )
    if X.dtype.kind != "f" or not bool(array_module(X).isfinite(X.sum())):
        raise bad_field("X", str(X.dtype), "a matrix of finite real numbers")


# -- Where message passing starts ------------------------------------------------------


STARTS = ("spectral", "random", "thresholding", "informed")
"""Where the iteration may start."""


def starting_point(
    X: DeviceArray,
    mixture: ClusterMixture,
    start: str,
    generator: Any = None,
    *,
    truth: DeviceArray | None = None,
    overlap: float = 0.6,
) -> DeviceArray:
    """Return the (n, p) assignments U0 that a name of `STARTS` stands for.

    ``spectral``: sqrt(q n/k) times the leading left singular vectors, turned at random,
    q their predicted squared overlap (at least 0.05); ``thresholding``: sqrt(n/k)/2
    times those of the rho d columns of largest variance.
    """
    if start not in STARTS:
        raise bad_field("start", start, "one of " + ", ".join(STARTS))
    xp = array_module(X)
    if generator is None:
        generator = xp.random.default_rng(0)
    else:
        generator = generator
    if start == "informed":
        return _informed(mixture, truth, overlap, generator, xp)
    Q = xp.asarray(mixture.directions)
    centre = xp.asarray(mixture.weights) @ Q  # zero where the assignments are centred
    if start == "random":
        return centre + 1e-2 * generator.standard_normal((len(X), Q.shape[1]))
    p = mixture.clusters - 1
    rotation = xp.linalg.qr(generator.standard_normal((p, p)))[0]
    (n, d), k = X.shape, mixture.clusters
    if start == "spectral":
        seen = (X - X.mean(axis=0)) if mixture.mean == "informative" else X
        size = math.sqrt(
            max(float(spectral_overlap(mixture.snr, n / d, k)), 0.05) * n / k
        )
    else:
        kept = max(p + 1, round(mixture.sparsity * d))
        seen = X[
            :, xp.argsort(xp.einsum("ij,ij->j", X, X) - X.sum(axis=0) ** 2 / n)[-kept:]
        ]
        size = 0.5 * math.sqrt(n / k)
    U = size * (leading_vectors(seen, p, generator)[0] @ rotation)
    if mixture.mean == "informative":
        return centre + U @ xp.asarray(scipy.linalg.helmert(mixture.clusters))
    return U


def _informed(
    mixture: ClusterMixture, truth: Any, overlap: float, generator: Any, xp: Any
) -> DeviceArray:
    if truth is None:
        raise bad_field("truth", truth, 'the true labels, for start="informed"')
    if not 0 < overlap < 1:
        raise bad_field("overlap", overlap, "above 0 and below 1")
    n = len(truth)
    weights = np.asarray(mixture.weights)
    equal = np.ptp(weights) < 1e-12
    if (
        len(weights) == 2 or equal
    ):  # the SNR of the field about the truth with this overlap
        a = assignment_channel(len(weights), None if equal else float(weights[0])).snr(
            overlap
        )
    else:
        a = unequal_clusters(tuple(weights.tolist()))[0].start_snr(overlap)
    fields = math.sqrt(a) * generator.standard_normal((n, mixture.clusters)) + xp.log(
        xp.asarray(mixture.weights)
    )
    fields[xp.arange(n), xp.asarray(truth)] += a
    fields = xp.exp(fields - fields.max(axis=1, keepdims=True))
    return (fields / fields.sum(axis=1, keepdims=True)) @ xp.asarray(mixture.directions)


def spectral_overlap(
    snr: float | Floats, alpha: float | Floats, clusters: int
) -> Floats:
    """Return the squared overlap of the leading left singular vectors with the
    assignments, zero up to lam_alg.

    q = 1 - alpha(1 + t)/(t(t + alpha)) with t = theta^2 = snr alpha/k,
    subspace_clustering section 6.
    """
    t = np.asarray(snr * alpha / clusters)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # 1/t at snr = 0, where the overlap is zero
        return np.where(t**2 > alpha, 1 - alpha * (1 + t) / (t * (t + alpha)), 0.0)


def spectral_snr(
    singular_values: Floats, clusters: int, samples: int, dim: int
) -> float:
    """Return the snr that the mean of the leading k-1 squared singular values suggests,
    just above lam_alg at least.

    y = mean sigma^2/d = (1 + t)(alpha + t)/t with t = snr alpha/k, subspace_clustering
    section 10.
    """
    alpha = samples / dim
    y = float(np.mean(np.asarray(singular_values) ** 2)) / dim
    if y <= (1 + math.sqrt(alpha)) ** 2:  # in the bulk
        return 1.05 * clusters / math.sqrt(alpha)
    return (
        clusters
        * 0.5
        * (y - 1 - alpha + math.sqrt(max((y - 1 - alpha) ** 2 - 4 * alpha, 0.0)))
        / alpha
    )
