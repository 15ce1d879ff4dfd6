"""Approximate message passing for Gaussian mixtures with sparse means, on any n-by-d matrix with unit noise.

The model: X = sqrt(snr/(sparsity d)) U V^T + Z, with U the centred one-hot assignments (row i is e_c - weights), V
zero in all but a fraction `sparsity` of its rows (a feature is active for all clusters or for none), Z of unit
variance. Only p = k - 1 coordinates of the assignments matter: row c of `directions` is the place q_c of cluster c.
The prefactor is absorbed into V, whose slab has the variance tau = snr/(sparsity d).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import numpy as np

from giantstep.errors import bad_field
from giantstep.lab.algebra import multiply
from giantstep.lab.devices import array_module
from giantstep.types import DeviceArray, Floats

Start = Literal["spectral", "random", "thresholding", "informed"]
STARTS: tuple[str, ...] = ("spectral", "random", "thresholding", "informed")
"""Where the iteration may start."""
_TRIVIAL = 1e-12
"""Overlap k |U|^2/n below which the iteration has collapsed onto the trivial fixed point."""
BLOCKS = 15
"""Blocks of the Krylov space in which the leading singular vectors are found."""


@dataclass
class Sweep:
    """What the hook `observe` of `amp` sees after every iteration (arrays of the device, not copies)."""

    iteration: int
    posteriors: DeviceArray
    """(n, k) probabilities of the clusters."""
    assignments: DeviceArray
    """(n, p) posterior means U of the assignments, in the coordinates of `directions`."""
    features: DeviceArray
    """(d, p) posterior means V of the features, prefactor included."""
    support: DeviceArray
    """(d,) probability that a feature is active."""
    change: float
    """|U - U_old|^2/|U|^2."""


@dataclass
class AMPRun:
    """What the iteration ended with.

    Attributes
    ----------
    posteriors : (n, k) probability of each cluster, row by row.
    means : (d, k) posterior means of the clusters, in the units of X, measured from their common mean.
    support : (d,) probability that a feature is active.
    assignments : (n, p) posterior means U of the assignments.
    features : (d, p) posterior means V of the features, prefactor included: X is about U V^T.
    precision : (p, p) matrix A_u = V^T V that `assign` needs.
    directions : (k, p) places of the clusters; U = posteriors @ directions, means = V directions^T.
    weights : (k,) prior probabilities of the clusters.
    outcome : ``"converged"``, ``"trivial"`` (collapsed to zero: nothing found), ``"not converged"`` or ``"diverged"``.
    iterations : sweeps made.
    change : relative squared change of U in the last sweep.
    log_evidence : d * phi_B, the Bethe estimate of the log-evidence over pure noise.
    sparsity, snr : the values used in the last sweep (learnt ones, where they were learnt).
    """

    posteriors: DeviceArray
    means: DeviceArray
    support: DeviceArray
    assignments: DeviceArray
    features: DeviceArray
    precision: DeviceArray
    directions: DeviceArray
    weights: DeviceArray
    outcome: str
    iterations: int
    change: float
    log_evidence: float
    sparsity: float
    snr: float

    @property
    def converged(self) -> bool:
        """Whether a fixed point was reached, the trivial one included."""
        return self.outcome in ("converged", "trivial")

    @property
    def labels(self) -> DeviceArray:
        """(n,) most probable cluster of each row, from 0."""
        return self.posteriors.argmax(axis=1)


def amp(
    X: DeviceArray,
    *,
    clusters: int,
    sparsity: float,
    snr: float,
    weights: Sequence[float] | Floats | None = None,
    mean: Literal["centred", "informative"] = "centred",
    start: str | DeviceArray = "spectral",
    truth: DeviceArray | None = None,
    overlap: float = 0.6,
    max_iterations: int = 400,
    tolerance: float = 1e-9,
    damping: float = 0.0,
    learn: bool | Literal["sparsity", "snr"] = False,
    generator: Any = None,
    observe: Callable[[Sweep], None] | None = None,
) -> AMPRun:
    """Run approximate message passing on a data matrix: two products with X per iteration, O(nd) memory.

    One sweep, with S = (1/tau + A_v)^-1, mu_j = S B_v,j:

        A_v = U^T U,  B_v = X^T U - V Sigma_U
        pi_j = expit(B_v,j.mu_j/2 - log det(1 + tau A_v)/2 + log(rho/(1-rho))),  V_j = pi_j mu_j
        Sigma_V = sum_j pi_j S + sum_j pi_j (1 - pi_j) mu_j mu_j^T
        A_u = V^T V,  B_u = X V - U Sigma_V
        P_ic = softmax_c(B_u,i.q_c - q_c^T A_u q_c/2 + log w_c),  U = P Q,  Sigma_U = sum_i cov(u_i)

    The Onsager terms use the latest V and U, so that one sweep is one step of state evolution; no damping is needed.

    Parameters
    ----------
    X : (n, d) NumPy or CuPy array with noise of unit variance. Centre its columns first, unless ``mean="informative"``.
    clusters : number k of clusters, at least 2.
    sparsity : fraction rho of active features, in (0, 1].
    snr : lambda; the signal is sqrt(lambda/(rho d)) U V^T with V of unit variance.
    weights : prior probabilities of the clusters; equal if left out.
    mean : ``"centred"`` (the mean of the data says nothing) or ``"informative"`` (U is one-hot, not centred).
    start : ``"spectral"`` (leading singular vectors), ``"random"``, ``"thresholding"`` (singular vectors of the
        columns of largest variance), ``"informed"`` (needs `truth`), or an (n, p) array U0 of your own.
    truth : (n,) true labels, for the informed start only.
    overlap : overlap m_u of the informed start with the truth.
    max_iterations, tolerance : stop where |U - U_old|^2/|U|^2 < tolerance.
    damping : share of the old U and V kept in each sweep; a rescue after non-convergence only.
    learn : learn `sparsity` and `snr` (or the one named) by expectation-maximisation, from the values given (needs up
        to 2000 sweeps).
    generator : random generator (NumPy's or CuPy's, as X) of the starts; a fixed one if left out.
    observe : called with a `Sweep` after every iteration.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(400) % 2
    >>> X = np.outer(1 - 2 * labels, np.r_[np.full(10, 1.0), np.zeros(190)]) + rng.standard_normal((400, 200))
    >>> run = amp(X, clusters=2, sparsity=0.05, snr=20.0, generator=rng)
    >>> run.outcome, bool(abs((run.labels == labels).mean() - 0.5) > 0.49)
    ('converged', True)
    """
    _check(X, clusters, sparsity, snr, max_iterations, tolerance, damping, mean)
    xp = array_module(X)
    n, d = X.shape
    rho, tau = float(sparsity), float(snr) / (float(sparsity) * d)
    w = cluster_weights(clusters, weights)
    Q_numpy = cluster_directions(clusters, w, mean)
    Q, log_w = xp.asarray(Q_numpy), xp.asarray(np.log(w))
    p = Q.shape[1]
    generator = _generator(xp) if generator is None else generator
    if isinstance(start, str):
        U = starting_point(
            X, start, clusters=clusters, sparsity=rho, snr=float(snr), weights=w, mean=mean, truth=truth,
            overlap=overlap, generator=generator,
        )  # fmt: skip
    else:
        U = _own_start(start, (n, p), xp)
    V, Sigma_U = xp.zeros((d, p)), xp.zeros((p, p))
    unit = xp.eye(p)
    mu, S = V, unit
    outcome, change, iteration = "not converged", math.inf, 0
    posteriors = xp.tile(xp.asarray(w), (n, 1))
    support, A_u, log_evidence = xp.full(d, rho), xp.zeros((p, p)), 0.0
    for iteration in range(1, max_iterations + 1):
        if learn and iteration > 1:
            new_rho, new_tau = _learnt(rho, tau, support, mu, S, p)
            rho, tau = (
                new_rho if learn != "snr" else rho,
                new_tau if learn != "sparsity" else float(snr) / (new_rho * d),
            )
        A_v = U.T @ U
        B_v = _narrow(X.T, U, xp) - V @ Sigma_U
        S = xp.linalg.inv(unit / tau + A_v)
        mu = B_v @ S
        log_det = float(xp.linalg.slogdet(unit + tau * A_v)[1])
        exponent = 0.5 * (B_v * mu).sum(axis=1) - 0.5 * log_det
        if rho < 1:
            exponent = exponent + (math.log(rho) - math.log1p(-rho))
            support = 0.5 * (1 + xp.tanh(0.5 * exponent))
        else:
            support = xp.ones(d)
        V_new = support[:, None] * mu
        V = V_new if damping == 0 else (1 - damping) * V_new + damping * V
        Sigma_V = support.sum() * S + (mu * (support * (1 - support))[:, None]).T @ mu
        A_u = V.T @ V
        XV = _narrow(X, V, xp)
        B_u = XV - U @ Sigma_V
        fields = Q @ B_u.T + (log_w - 0.5 * ((Q @ A_u) * Q).sum(axis=1))[:, None]  # a row for each cluster: fast sums
        top = fields.max(axis=0)
        fields -= top
        xp.exp(fields, out=fields)
        total = fields.sum(axis=0)
        fields /= total
        posteriors = fields.T
        U_old, U = U, (Q.T @ fields).T
        if damping:
            U = (1 - damping) * U + damping * U_old
        T_U = U.T @ U
        Sigma_U = (Q * fields.sum(axis=1)[:, None]).T @ Q - T_U
        size = float(T_U.trace())
        step = U - U_old
        change = float((step.T @ step).trace()) / max(size, 1e-300)
        if observe is not None:
            observe(Sweep(iteration, posteriors, U, V, support, change))
        if not math.isfinite(change) or not math.isfinite(size):
            outcome = "diverged"
            break
        if mean == "centred" and clusters * size / n < _TRIVIAL:
            outcome = "trivial"
            break
        if change < tolerance:
            outcome = "converged"
            break
    if outcome != "diverged":
        log_Z_u = float((top + xp.log(total)).sum())
        log_Z_v = float((xp.logaddexp(0.0, exponent) + math.log1p(-rho) if rho < 1 else exponent).sum())
        T_V = V.T @ V
        log_evidence = (
            log_Z_u
            + log_Z_v
            + float(
                -(B_u * U).sum()
                - (B_v * V).sum()
                + 0.5 * (A_u * (T_U + Sigma_U)).sum()
                + 0.5 * (A_v * (T_V + Sigma_V)).sum()
                + (XV * U).sum()
                - 0.5 * (T_U * T_V + T_U * Sigma_V + Sigma_U * T_V).sum()
            )
        )
    return AMPRun(
        posteriors=posteriors, means=V @ Q.T, support=support, assignments=U, features=V, precision=A_u, directions=Q,
        weights=xp.asarray(w), outcome=outcome, iterations=iteration, change=change, log_evidence=log_evidence,
        sparsity=rho, snr=tau * rho * d,
    )  # fmt: skip


def assign(run: AMPRun, X: DeviceArray) -> DeviceArray:
    """Return the (m, k) probabilities of the clusters of fresh rows, from what a run has learnt.

    A fresh row has no part in V, so that its field is x V without an Onsager term: as accurate as on the data.
    """
    xp = array_module(X)
    Q = run.directions
    fields = X @ run.features @ Q.T - 0.5 * ((Q @ run.precision) * Q).sum(axis=1) + xp.log(run.weights)
    fields -= fields.max(axis=1, keepdims=True)
    posteriors = xp.exp(fields)
    return posteriors / posteriors.sum(axis=1, keepdims=True)


def helmert(clusters: int) -> Floats:
    """Return a (k, k-1) orthonormal basis of the vectors that sum to zero (Helmert's, first column (1, -1, 0...)).

    >>> helmert(2).round(3).tolist()
    [[0.707], [-0.707]]
    """
    Q = np.zeros((clusters, clusters - 1))
    for j in range(1, clusters):
        Q[:j, j - 1] = 1 / math.sqrt(j * (j + 1))
        Q[j, j - 1] = -j / math.sqrt(j * (j + 1))
    return Q


def cluster_weights(clusters: int, weights: Sequence[float] | Floats | None) -> Floats:
    """Return checked prior probabilities of the clusters, equal ones for None or an empty list."""
    if weights is None or len(weights) == 0:
        return np.full(clusters, 1 / clusters)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (clusters,):
        raise bad_field("weights", list(weights), f"a list of {clusters} numbers, one for each cluster")
    if not np.all(w > 0):
        raise bad_field("weights", list(weights), "all above 0")
    if not math.isclose(w.sum(), 1.0, abs_tol=1e-9):
        raise bad_field("weights", list(weights), f"numbers that sum to one (they sum to {w.sum():g})")
    return w


def cluster_directions(clusters: int, weights: Floats, mean: str = "centred") -> Floats:
    """Return the places q_c of the clusters: row c is Q^T(e_c - weights), or e_c where the mean is informative."""
    if mean == "informative":
        return np.eye(clusters)
    Q = helmert(clusters)
    return Q - weights @ Q


def starting_point(
    X: DeviceArray,
    start: str,
    *,
    clusters: int,
    sparsity: float,
    snr: float,
    weights: Floats | None = None,
    mean: str = "centred",
    truth: DeviceArray | None = None,
    overlap: float = 0.6,
    generator: Any = None,
) -> DeviceArray:
    """Return the (n, p) assignments U0 at which `amp` starts, by name (see `amp`).

    ``spectral``: sqrt(q n/k) times the leading left singular vectors, turned at random, q their predicted squared
    overlap (at least 0.05). ``thresholding``: sqrt(n/k)/2 times those of the rho d columns of largest variance.
    ``random``: 0.01 N(0, 1). ``informed``: softmax of a field of SNR a about the truth, m_u(a) = `overlap`.
    """
    xp = array_module(X)
    n, d = X.shape
    generator = _generator(xp) if generator is None else generator
    w = cluster_weights(clusters, weights)
    Q = xp.asarray(cluster_directions(clusters, w, mean))
    middle = xp.asarray(w) @ Q  # zero where the assignments are centred
    p = clusters - 1
    if start == "informed":
        if truth is None:
            raise bad_field("truth", truth, 'the true labels, for start="informed"')
        if not 0 < overlap < 1:
            raise bad_field("overlap", overlap, "above 0 and below 1")
        a = _informed_snr(overlap, w)
        fields = math.sqrt(a) * _normal(generator, (n, clusters)) + xp.log(xp.asarray(w))
        fields[xp.arange(n), xp.asarray(truth)] += a
        fields = xp.exp(fields - fields.max(axis=1, keepdims=True))
        return (fields / fields.sum(axis=1, keepdims=True)) @ Q
    if start == "random":
        return middle + 1e-2 * _normal(generator, (n, Q.shape[1]))
    turn = xp.linalg.qr(_normal(generator, (p, p)))[0]
    if start == "thresholding":
        kept = max(p + 1, round(sparsity * d))
        columns = xp.argsort(xp.einsum("ij,ij->j", X, X) - X.sum(axis=0) ** 2 / n)[-kept:]
        left, _ = leading_vectors(X[:, columns], p, generator)
        U = 0.5 * math.sqrt(n / clusters) * (left @ turn)
    elif start == "spectral":
        alpha = n / d
        signal = (X - X.mean(axis=0)) if mean == "informative" else X
        left, _ = leading_vectors(signal, p, generator)
        strength = snr * alpha / clusters
        q = 1 - alpha * (1 + strength) / (strength * (strength + alpha)) if strength**2 > alpha else 0.0
        U = math.sqrt(max(q, 0.05) * n / clusters) * (left @ turn)
    else:
        raise bad_field("start", start, "one of " + ", ".join(STARTS))
    return middle + U @ xp.asarray(helmert(clusters)).T if mean == "informative" else U


def leading_vectors(X: DeviceArray, count: int, generator: Any = None) -> tuple[DeviceArray, Floats]:
    """Return the leading `count` left singular vectors, (n, count), and singular values of a matrix.

    They are found in a block Krylov space of 15 blocks (30 products with X); just above the edge of the bulk, where
    they are nearly degenerate, the vectors are those of largest variance in that space.
    """
    xp = array_module(X)
    n, d = X.shape
    generator = _generator(xp) if generator is None else generator
    width = min(count + 2, n, d)
    if min(n, d) <= 4 * BLOCKS * width:
        small = X @ X.T if n <= d else X.T @ X
        values, vectors = xp.linalg.eigh(small)
        values = xp.sqrt(xp.maximum(values[::-1][:count], 1e-300))
        vectors = vectors[:, ::-1][:, :count]
        left = vectors if n <= d else (X @ vectors) / values
        return left, _host(values)
    block = xp.linalg.qr(multiply(X, _normal(generator, (d, width)), xp))[0]
    basis = block
    for _ in range(BLOCKS - 1):
        block = multiply(X, multiply(X.T, xp.ascontiguousarray(block), xp), xp)
        for _ in range(2):
            block = block - basis @ (basis.T @ block)
        block = xp.linalg.qr(block)[0]
        basis = xp.concatenate([basis, block], axis=1)
    small = multiply(X.T, xp.ascontiguousarray(basis), xp)
    values, vectors = xp.linalg.eigh(small.T @ small)
    left = basis @ vectors[:, ::-1][:, :count]
    return left, _host(xp.sqrt(xp.maximum(values[::-1][:count], 0.0)))


def spectral_snr(singular_values: Floats, clusters: int, samples: int, dim: int) -> float:
    """Return the snr that the mean of the leading k-1 squared singular values suggests, a start for learning it.

    y = mean sigma^2/d = (1 + t)(alpha + t)/t with t = snr alpha/k; just above the threshold where y is in the bulk.
    """
    alpha, y = samples / dim, float(np.mean(np.asarray(singular_values) ** 2)) / dim
    root = (y - 1 - alpha) ** 2 - 4 * alpha
    inside = y <= (1 + math.sqrt(alpha)) ** 2
    strength = 1.05 * math.sqrt(alpha) if inside else 0.5 * (y - 1 - alpha + math.sqrt(max(root, 0.0)))
    return clusters * strength / alpha


def _informed_snr(overlap: float, weights: Floats) -> float:
    """Return the SNR a of the field about the truth at which the overlap is m_u = `overlap`."""
    from giantstep.families.subspace_clustering.channels import assignment_channel

    k = len(weights)
    if k == 2 or np.ptp(weights) < 1e-12:
        return assignment_channel(k, None if np.ptp(weights) < 1e-12 else float(weights[0])).snr(overlap)
    from giantstep.families.subspace_clustering.unequal import unequal_clusters

    return unequal_clusters(tuple(weights.tolist()))[0].start_snr(overlap)


def _narrow(matrix: DeviceArray, right: DeviceArray, xp: ModuleType) -> DeviceArray:
    """Return matrix @ right; with up to four columns, one by one, which BLAS does up to five times faster."""
    if xp is not np or right.shape[1] > 4:
        return multiply(matrix, xp.ascontiguousarray(right), xp)
    out = np.empty((right.shape[1], len(matrix)))
    for row, column in zip(out, np.ascontiguousarray(right.T)):
        np.dot(matrix, column, out=row)
    return out.T


def _learnt(
    rho: float, tau: float, support: DeviceArray, mu: DeviceArray, S: DeviceArray, p: int
) -> tuple[float, float]:
    """Return sparsity and slab variance after half a step (in their logarithms) of expectation-maximisation."""
    active = float(support.sum())
    spread = float((support * (mu**2).sum(axis=1)).sum() + support.sum() * S.trace()) / (p * max(active, 1e-300))
    new_rho = min(math.sqrt(rho * active / len(support)), 1 - 1e-12)
    return max(new_rho, 1e-12), max(math.sqrt(tau * spread), 1e-300)


def _check(
    X: DeviceArray,
    clusters: int,
    sparsity: float,
    snr: float,
    max_iterations: int,
    tolerance: float,
    damping: float,
    mean: str,
) -> None:
    if getattr(X, "ndim", 0) != 2:
        raise bad_field("X", type(X).__name__, "a matrix with a row for each sample")
    xp, (n, d) = array_module(X), X.shape
    if isinstance(clusters, bool) or not isinstance(clusters, int | np.integer) or clusters < 2:
        raise bad_field("clusters", clusters, "a whole number at least 2")
    if n < clusters or d < clusters - 1:
        raise bad_field("X", f"{n} x {d}", f"a matrix with at least {clusters} rows and {clusters - 1} columns")
    if X.dtype.kind != "f" or not bool(xp.isfinite(X.sum())):
        raise bad_field("X", str(X.dtype), "a matrix of finite real numbers")
    if not 0 < sparsity <= 1:
        raise bad_field("sparsity", sparsity, "a number above 0 and at most 1")
    if not (snr > 0 and math.isfinite(snr)):
        raise bad_field("snr", snr, "a number above 0, finite")
    if max_iterations < 1:
        raise bad_field("max_iterations", max_iterations, "a whole number at least 1")
    if not tolerance > 0:
        raise bad_field("tolerance", tolerance, "a number above 0")
    if not 0 <= damping < 1:
        raise bad_field("damping", damping, "a number at least 0 and below 1")
    if mean not in ("centred", "informative"):
        raise bad_field("mean", mean, '"centred" or "informative"')


def _own_start(start: DeviceArray, shape: tuple[int, int], xp: ModuleType) -> DeviceArray:
    U = xp.array(start, dtype=np.float64)
    if U.shape != shape or not bool(xp.isfinite(U).all()):
        raise bad_field("start", f"array {U.shape}", f"one of {', '.join(STARTS)} or {shape[0]} x {shape[1]} numbers")
    return U


def _generator(xp: ModuleType) -> Any:
    return xp.random.default_rng(0)


def _normal(generator: Any, shape: tuple[int, ...]) -> DeviceArray:
    return generator.standard_normal(shape, dtype=np.float64)


def _host(array: DeviceArray) -> Floats:
    host: Floats = array.get() if array_module(array) is not np else np.asarray(array)
    return host
