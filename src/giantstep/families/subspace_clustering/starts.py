"""Where message passing starts, subspace_clustering section 9, and the strength that the spectrum suggests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.subspace_clustering.channels import assignment_channel
from giantstep.families.subspace_clustering.mixture import ClusterMixture, helmert
from giantstep.families.subspace_clustering.unequal import unequal_clusters
from giantstep.lab.algebra import leading_vectors
from giantstep.lab.devices import array_module
from giantstep.types import DeviceArray, Floats

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
    """Return the (n, p) assignments U0 that a name stands for.

    ``spectral``: sqrt(q n/k) times the leading left singular vectors, turned at random, q their predicted squared
    overlap (at least 0.05). ``thresholding``: sqrt(n/k)/2 times those of the rho d columns of largest variance.
    ``random``: 0.01 N(0, 1). ``informed``: softmax of a field of SNR a about the labels `truth`, m_u(a) = `overlap`.
    """
    if start not in STARTS:
        raise bad_field("start", start, "one of " + ", ".join(STARTS))
    xp = array_module(X)
    generator = xp.random.default_rng(0) if generator is None else generator
    if start == "informed":
        return _informed(mixture, truth, overlap, generator, xp)
    Q = xp.asarray(mixture.directions)
    centre = xp.asarray(mixture.weights) @ Q  # zero where the assignments are centred
    if start == "random":
        return centre + 1e-2 * _normal(generator, (len(X), Q.shape[1]))
    p = mixture.clusters - 1
    rotation = xp.linalg.qr(_normal(generator, (p, p)))[0]
    U = (_spectral if start == "spectral" else _thresholding)(X, mixture, generator, rotation)
    return centre + U @ xp.asarray(helmert(mixture.clusters)).T if mixture.mean == "informative" else U


def _informed(mixture: ClusterMixture, truth: Any, overlap: float, generator: Any, xp: Any) -> DeviceArray:
    if truth is None:
        raise bad_field("truth", truth, 'the true labels, for start="informed"')
    if not 0 < overlap < 1:
        raise bad_field("overlap", overlap, "above 0 and below 1")
    n, a = len(truth), informed_snr(mixture.weights, overlap)
    fields = math.sqrt(a) * _normal(generator, (n, mixture.clusters)) + xp.log(xp.asarray(mixture.weights))
    fields[xp.arange(n), xp.asarray(truth)] += a
    fields = xp.exp(fields - fields.max(axis=1, keepdims=True))
    return (fields / fields.sum(axis=1, keepdims=True)) @ xp.asarray(mixture.directions)


def informed_snr(weights: Any, overlap: float) -> float:
    """Return the SNR a of the field about the truth at which the overlap is m_u = `overlap`."""
    equal = np.ptp(weights) < 1e-12
    if len(weights) == 2 or equal:
        return assignment_channel(len(weights), None if equal else float(weights[0])).snr(overlap)
    return unequal_clusters(tuple(np.asarray(weights).tolist()))[0].start_snr(overlap)


def _spectral(X: DeviceArray, mixture: ClusterMixture, generator: Any, rotation: DeviceArray) -> DeviceArray:
    n, d = X.shape
    signal = (X - X.mean(axis=0)) if mixture.mean == "informative" else X
    left, _ = leading_vectors(signal, len(rotation), generator)
    q = float(spectral_overlap(mixture.snr, n / d, mixture.clusters))
    return math.sqrt(max(q, 0.05) * n / mixture.clusters) * (left @ rotation)


def _thresholding(X: DeviceArray, mixture: ClusterMixture, generator: Any, rotation: DeviceArray) -> DeviceArray:
    xp, (n, d), p = array_module(X), X.shape, len(rotation)
    kept = max(p + 1, round(mixture.sparsity * d))
    columns = xp.argsort(xp.einsum("ij,ij->j", X, X) - X.sum(axis=0) ** 2 / n)[-kept:]
    left, _ = leading_vectors(X[:, columns], p, generator)
    return 0.5 * math.sqrt(n / mixture.clusters) * (left @ rotation)


def spectral_overlap(snr: float | Floats, alpha: float | Floats, clusters: int) -> Floats:
    """Return the squared overlap of the leading left singular vectors with the assignments, zero up to lam_alg.

    q = 1 - alpha(1 + t)/(t(t + alpha)) with t = theta^2 = snr alpha/k, subspace_clustering section 6.
    """
    t = np.asarray(snr * alpha / clusters)
    with np.errstate(divide="ignore", invalid="ignore"):  # 1/t at snr = 0, where the overlap is zero
        return np.where(t**2 > alpha, 1 - alpha * (1 + t) / (t * (t + alpha)), 0.0)


def spectral_snr(singular_values: Floats, clusters: int, samples: int, dim: int) -> float:
    """Return the snr that the mean of the leading k-1 squared singular values suggests.

    y = mean sigma^2/d = (1 + t)(alpha + t)/t with t = snr alpha/k, subspace_clustering section 10; just above the
    threshold where y is in the bulk.
    """
    alpha, y = samples / dim, float(np.mean(np.asarray(singular_values) ** 2)) / dim
    root = (y - 1 - alpha) ** 2 - 4 * alpha
    inside = y <= (1 + math.sqrt(alpha)) ** 2
    t = 1.05 * math.sqrt(alpha) if inside else 0.5 * (y - 1 - alpha + math.sqrt(max(root, 0.0)))
    return clusters * t / alpha


def _normal(generator: Any, shape: tuple[int, ...]) -> DeviceArray:
    return generator.standard_normal(shape, dtype=np.float64)
