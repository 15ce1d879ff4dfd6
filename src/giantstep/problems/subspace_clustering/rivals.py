"""The rivals of message passing: PCA, sparse PCA, diagonal thresholding and k-means,
through scikit-learn.

Each ends with k-means; the first three first reduce the data to k - 1 scores per
sample. They are helped where they need it: thresholding and sparse PCA are told how
many features are active.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats, Integers

RIVALS = ("pca", "sparse-pca", "thresholding", "kmeans")
"""The methods that message passing is compared with."""
_BISECTIONS = 18
_SWEEPS = 40
"""Halvings of the penalty of sparse PCA, which leave 4e-6 of it, and sweeps for one
component at most.
"""


def rival_labels(
    X: Floats, clusters: int, rival: str, *, active: int | None = None, seed: int = 0
) -> Integers:
    """Return the labels that a method other than message passing gives to the rows of a
    matrix.

    Parameters
    ----------
    X : (n, d) matrix.
    clusters : number of clusters.
    rival : ``"pca"``, ``"sparse-pca"``, ``"thresholding"`` (PCA of the columns of
        largest variance) or ``"kmeans"``.
    active : number of active features, which sparse PCA (by its penalty) and
        thresholding are told.
    seed : random starts of k-means.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 50))
    >>> X[:100, :5] += 3
    >>> labels = rival_labels(X, 2, "thresholding", active=5)
    >>> bool(abs(labels[:100].mean() - labels[100:].mean()) > 0.9)
    True
    """
    if rival not in RIVALS:
        raise bad_field("rival", rival, "one of " + ", ".join(RIVALS))
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or not np.isfinite(X).all():
        raise InputError("X must be a matrix of finite numbers, rows = samples.")
    n, d = X.shape
    if not 2 <= clusters <= min(n, d):
        raise bad_field(
            "clusters",
            clusters,
            f"at least 2 and at most {min(n, d)} for a matrix of {n} x {d}",
        )
    if active is None and rival in ("sparse-pca", "thresholding"):
        raise bad_field(
            "active", active, f'the number of active features, for "{rival}"'
        )
    if active is not None and not 1 <= active <= d:
        raise bad_field("active", active, f"at least 1 and at most {d}")
    try:
        from sklearn.cluster import KMeans
    except ImportError:
        raise ImportError(
            "The rivals need scikit-learn, which is not installed; `pip install"
            " giantstep[estimators]` brings it."
        ) from None
    from sklearn.decomposition import PCA, SparsePCA

    rank = clusters - 1
    kept = active or d
    model: Any = PCA(rank, svd_solver="covariance_eigh")
    if rival == "sparse-pca":
        model = SparsePCA(
            rank, alpha=sparse_penalty(X, kept), ridge_alpha=1e-3, random_state=seed
        )
    if rival == "thresholding":
        X = X[:, np.argsort(X.var(axis=0))[-max(kept, rank + 1) :]]
    scores = X if rival == "kmeans" else model.fit_transform(X)
    return KMeans(clusters, n_init=4, random_state=seed).fit_predict(scores)


def sparse_penalty(X: Floats, active: int) -> float:
    """Return the penalty g with which the leading sparse component has `active`
    entries, by bisection.
    """
    Y = X - X.mean(axis=0)
    first = Y @ np.linalg.eigh(Y.T @ Y)[1][:, -1]
    first /= np.linalg.norm(first)
    low = 0.0
    high = float(np.abs(Y.T @ first).max())
    for _ in range(_BISECTIONS):
        g = 0.5 * (low + high)
        if _component_entries(Y, first, g) > active:
            low, high = (g, high)
        else:
            low, high = (low, g)
    return math.sqrt(low * high) if low > 0 else 0.5 * high


def _component_entries(Y: Floats, u: Floats, g: float) -> int:
    """Return the number of entries of the v that minimises |Y - u v^T|^2/2 + g |v|_1
    over |u| <= 1.

    It is iterated from `u`: v = soft(Y^T u, g), u = Y v/|Y v|, subspace_clustering
    section 11.
    """
    for _ in range(_SWEEPS):
        check_time()
        v = Y.T @ u
        v = np.sign(v) * np.maximum(np.abs(v) - g, 0)
        image = Y @ v
        size = float(np.linalg.norm(image))
        if size == 0:
            break
        u_old = u
        u = image / size
        if float(np.abs(u - u_old).max()) < 1e-7:
            break
    return int(np.count_nonzero(v))
