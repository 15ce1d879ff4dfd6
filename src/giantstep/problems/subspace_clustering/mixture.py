"""The mixture that message passing is told about: cluster sizes, sparsity, strength,
and the coordinates of clusters.

X = sqrt(snr/(sparsity d)) U V^T + Z, subspace_clustering (1a): row i of U is e_c -
weights for its label c, row j of V is zero unless the feature j is active (for all
clusters or for none), Z has unit variance. Only p = k - 1 coordinates of the
assignments matter: cluster c has the coordinates q_c = Q^T(e_c - weights) in an
orthonormal basis Q of the vectors that sum to zero. Where the mean of the data is
informative U is one-hot, and q_c = e_c has all k coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Floats


@dataclass(frozen=True, eq=False)
class ClusterMixture:
    """Parameters of the model."""

    clusters: int  # k, at least 2
    sparsity: float  # fraction rho of active features, in (0, 1]
    # lambda; the signal is sqrt(lambda/(rho d)) U V^T with V of unit variance
    snr: float
    weights: (
        Sequence[float] | Floats
    ) = ()  # (k,) prior probabilities of the clusters; equal if left out
    # the mean of the data says nothing; "informative": U is one-hot, not centred
    mean: str = "centred"

    def __post_init__(self) -> None:
        k = self.clusters
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 2:
            raise bad_field("clusters", k, "a whole number at least 2")
        if len(self.weights):
            w = np.asarray(self.weights, dtype=np.float64)
        else:
            w = np.full(k, 1 / k)
        for name, good, allowed in (
            ("sparsity", 0 < self.sparsity <= 1, "a number above 0 and at most 1"),
            (
                "snr",
                self.snr > 0 and math.isfinite(self.snr),
                "a number above 0, finite",
            ),
            (
                "mean",
                self.mean in ("centred", "informative"),
                '"centred" or "informative"',
            ),
            (
                "weights",
                w.shape == (k,),
                f"a list of {k} numbers, one for each cluster",
            ),
            ("weights", np.all(w > 0), "all above 0"),
            (
                "weights",
                abs(w.sum() - 1) <= 1e-9,
                f"numbers that sum to one (they sum to {w.sum():g})",
            ),
        ):
            if not good:
                raise bad_field(name, getattr(self, name), allowed)
        object.__setattr__(self, "weights", w)

    @property
    def directions(self) -> Floats:
        """(k, p) coordinates q_c of the clusters; U = posteriors @ directions."""
        if self.mean == "informative":
            return np.eye(self.clusters)
        return cluster_directions(self.weights)


def cluster_directions(weights: Sequence[float] | Floats) -> Floats:
    """Return the (k, k-1) coordinates of centred clusters: row c is Q^T(e_c -
    weights).
    """
    Q = scipy.linalg.helmert(len(weights)).T
    return Q - np.asarray(weights) @ Q


def assignment_covariance(weights: Sequence[float] | Floats) -> Floats:
    """Return Cov(u), (p, p); zero overlap is stable up to lam_alg = 1/(sqrt(alpha)
    times its largest eigenvalue).
    """
    directions = cluster_directions(weights)
    return (directions * np.asarray(weights)[:, None]).T @ directions


def largest_variance(weights: Sequence[float] | Floats) -> float:
    """Return the largest eigenvalue of Cov(u): 1/k for equal clusters, 2 w_1 w_2 for
    two.

    >>> round(largest_variance([0.25] * 4), 6), round(largest_variance([0.2, 0.8]), 6)
    (0.25, 0.32)
    """
    return float(np.linalg.eigvalsh(assignment_covariance(weights))[-1])
