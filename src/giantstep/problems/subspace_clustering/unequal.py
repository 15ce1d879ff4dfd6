"""State evolution of three or more clusters of unequal sizes: overlaps are p-by-p
matrices, p = k - 1.

    A_v = (alpha lam/rho) M_u, M_v = E[w_hat w^T]; A_u = (lam/rho) M_v, M_u = E[u_hat
    u^T]

with u = Q^T(e_c - weights), subspace_clustering section 8.3. The integrals over p
normal variables are sums over the nodes of a product rule for three clusters, and over
scrambled Sobol points for more; those are taken four times, which gives a standard
error. In the eigenbasis of A_v, eigenvalues b, the matrix M_v is diagonal with rho
b_i/(1+b_i) E[z_i^2 expit(sum_j b_j z_j^2/2 - L)].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from scipy import special

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats
from giantstep.core.maths.solve.roots import brent_root
from giantstep.problems.subspace_clustering.mixture import (
    assignment_covariance,
    cluster_directions,
)

_SIDE = 96
_EDGE = 8001
_END = 8.0
"""Nodes of the product rule in each of two dimensions, of the rule for kinks, and the
end of both.
"""
_DRAWS = 13
_REPEATS = 4
"""Sobol points (a power of two) and repetitions in more dimensions."""
_SMALL = 1e-9
"""Share of the assignments' variance below which an overlap is zero."""
_STEPS = 2000
_TOLERANCE = 1e-9
_SAMPLED_TOLERANCE = 1e-6
"""Steps at most, and the relative change of m_u at which they end (the error of Sobol
points is some 1e-4).
"""


@dataclass(frozen=True)
class Fixed:
    """A fixed point: overlap matrices and what is measured there."""

    M_u: Floats
    M_v: Floats
    values: dict[str, float]
    change: float


class UnequalClusters:
    """The two channels of k clusters on nodes z (N, p) of the normal law, those of
    kinks on `edge` (N', p - 1).
    """

    def __init__(
        self,
        weights: Sequence[float],
        nodes: Floats,
        masses: Floats,
        edge: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.weights = np.asarray(weights, dtype=np.float64)
        self.rank = len(self.weights) - 1
        self.directions = cluster_directions(self.weights)
        self.covariance = assignment_covariance(self.weights)
        self.full = float(np.trace(self.covariance))
        self.nodes = nodes
        self.masses = masses
        self.edge = (nodes[:, :-1], masses) if edge is None else edge
        self.tolerance = _SAMPLED_TOLERANCE if edge is None else _TOLERANCE

    def assignments(self, A: Floats) -> tuple[Floats, float, float]:
        """Return M_u = E[u_hat u_hat^T], psi_u and the accuracy E max_c P_c at the
        matrix SNR A.
        """
        b, basis = _spectrum(A)
        noise = self.nodes @ ((basis * np.sqrt(b)) @ basis.T)
        shift = 0.5 * np.einsum(
            "cp,pq,cq->c", self.directions, A, self.directions
        ) - np.log(self.weights)
        M = np.zeros_like(A)
        psi = 0.0
        accuracy = 0.0
        for direction, weight in zip(self.directions, self.weights):
            fields = (noise + A @ direction) @ self.directions.T - shift
            top = fields.max(axis=1)
            P = np.exp(fields - top[:, None])
            total = P.sum(axis=1)
            P /= total[:, None]
            u = P @ self.directions
            M += weight * (u * self.masses[:, None]).T @ u
            psi += weight * float(self.masses @ (top + np.log(total)))
            accuracy += weight * float(self.masses @ P.max(axis=1))
        return M, psi, accuracy

    def features(self, A: Floats, rho: float) -> Floats:
        """Return M_v at the matrix SNR A."""
        b, basis = _spectrum(A)
        gain = rho * b / (1 + b)
        if rho < 1:
            squares = self.nodes**2
            active = special.expit(0.5 * squares @ b - _threshold(b, rho)) * self.masses
            gain = gain * (active @ squares)
        return (basis * gain) @ basis.T

    def features_entropy(self, A: Floats, rho: float) -> float:
        """Return psi_v at the matrix SNR A."""
        b, _ = _spectrum(A)
        if rho == 1:
            return float(0.5 * np.sum(b - np.log1p(b)))
        squares = self.nodes**2
        L = _threshold(b, rho)
        active, idle = (
            float(self.masses @ np.logaddexp(0, 0.5 * squares @ c - L))
            for c in (b, b / (1 + b))
        )
        return math.log1p(-rho) + rho * active + (1 - rho) * idle

    def selection(self, A: Floats, rho: float) -> tuple[float, float]:
        """Return the true and false positive rates of features that are active more
        likely than not.
        """
        if rho == 1:
            return 1.0, 0.0
        b, _ = _spectrum(A)
        L, (nodes, masses) = _threshold(b, rho), self.edge
        rates = []
        for scale in (
            b,
            b / (1 + b),
        ):  # the last coordinate, of the largest SNR, is integrated in closed form
            left = (
                2
                * np.maximum(L - 0.5 * nodes**2 @ scale[:-1], 0.0)
                / max(scale[-1], 1e-300)
            )
            rates.append(float(masses @ special.chdtrc(1, left)))
        return rates[0], rates[1]

    def step(
        self, M_u: Floats, lam: float, alpha: float, rho: float
    ) -> tuple[Floats, Floats, float, float]:
        """Return (M_v, M_u, psi_u, accuracy) after one step of state evolution."""
        M_v = self.features(alpha * lam / rho * M_u, rho)
        return M_v, *self.assignments(lam / rho * M_v)

    def fixed_point(
        self, lam: float, alpha: float, rho: float, informed: bool
    ) -> Fixed:
        """Iterate from full knowledge, or from nearly none, until nothing changes."""
        M_u = self.covariance if informed else 1e-4 * self.covariance
        for _ in range(_STEPS):
            check_time()
            M_v, new, psi, accuracy = self.step(M_u, lam, alpha, rho)
            change = abs(float(np.trace(new - M_u))) / max(float(np.trace(new)), 1e-300)
            M_u = new
            if np.trace(M_u) < _SMALL * self.full:
                M_u = np.zeros_like(M_u)
                M_v = np.zeros_like(M_v)
                psi = 0.0
                accuracy = self.weights.max()
                change = 0.0
                break
            if change < self.tolerance:
                break
        A_v = alpha * lam / rho * M_u
        phi = (
            alpha * psi
            + self.features_entropy(A_v, rho)
            - 0.5 * alpha * lam / rho * float((M_u * M_v).sum())
        )
        tpr, fpr = self.selection(A_v, rho)
        values = {
            **self.overlaps(M_u, M_v, rho),
            "accuracy": float(accuracy),
            "tpr": tpr,
            "fpr": fpr,
            "phi": phi,
        }
        return Fixed(M_u, M_v, values, change)

    def overlaps(self, M_u: Floats, M_v: Floats, rho: float) -> dict[str, float]:
        """Return overlaps and errors: m_u = tr M_u/tr Cov(u), m_v = tr M_v/(rho p)."""
        m_u = float(np.trace(M_u)) / self.full
        m_v = float(np.trace(M_v)) / (rho * self.rank)
        return {
            "m_u": m_u,
            "m_v": m_v,
            "mse_u": self.full * (1 - m_u),
            "mse_v": rho * (1 - m_v),
        }

    def start_snr(self, overlap: float) -> float:
        """Return the a at which tr M_u(a 1) = `overlap` tr Cov(u)."""

        def missing(x: float) -> float:
            return overlap * self.full - float(
                np.trace(self.assignments(math.exp(x) * np.eye(self.rank))[0])
            )

        return math.exp(brent_root(missing, math.log(1e-9), math.log(300.0)))


def unequal_clusters(weights: tuple[float, ...]) -> tuple[UnequalClusters, ...]:
    """Return the channels of such clusters, once for each independent set of nodes."""
    p = len(weights) - 1
    if p == 2:
        z, mass = _trapezoid(_SIDE)
        dense, thin = _trapezoid(_EDGE)
        nodes = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
        return (
            UnequalClusters(
                weights, nodes, np.outer(mass, mass).ravel(), (dense[:, None], thin)
            ),
        )
    flat = np.full(2**_DRAWS, 2.0**-_DRAWS)
    samplers = (
        scipy.stats.qmc.Sobol(p, rng=np.random.default_rng([p, repeat]))
        for repeat in range(_REPEATS)
    )
    return tuple(
        UnequalClusters(weights, special.ndtri(sobol.random_base2(_DRAWS)), flat)
        for sobol in samplers
    )


def _trapezoid(count: int) -> tuple[Floats, Floats]:
    z = np.linspace(-_END, _END, count)
    mass = np.exp(-(z**2) / 2)
    return z, mass / mass.sum()


def _threshold(b: Floats, rho: float) -> float:
    """Return L = log((1 - rho)/rho) + log det(1 + A_v)/2."""
    return 0.5 * float(np.log1p(b).sum()) - float(special.logit(rho))


def _spectrum(A: Floats) -> tuple[Floats, Floats]:
    b, basis = np.linalg.eigh(0.5 * (A + A.T))
    return np.maximum(b, 0.0), basis
