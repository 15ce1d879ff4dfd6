"""Eigenvalues above the bulk of the feature covariance: spiked_features 7.4, few_steps_readout (7.3)."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from giantstep.deadline import check_time
from giantstep.readout.finite_size import FiniteSize, mean_penalty
from giantstep.readout.first_order import FirstOrder
from giantstep.readout.signal import direction_error, prior_factor
from giantstep.readout.spectrum import Spectrum, is_physical
from giantstep.solve.finite import brent_root
from giantstep.types import Array, Floats

GAP_POINTS = 33
EDGE_MARGIN = 1e-5
"""Distance from an edge, relative to it, from which outliers are looked for."""
OUTLIER_ROOM = 8
"""Eigenvalues above the bulk that an answer has room for."""


def find_outliers(spectrum: Spectrum, edge: float, size: FiniteSize) -> Array:
    """Return the eigenvalues above the edge, largest first (7.4); inf for those that grow with the dimension."""
    if not np.isfinite(edge):
        edge = spectrum.end
    if not np.isfinite(edge):
        return np.empty(0)
    spikes = _Spikes(spectrum, size)
    just_above = edge * (1 + EDGE_MARGIN)
    outliers = []
    for rank in range(int(np.sum(spikes.at(just_above) < 0))):
        low, high = just_above, 2 * edge
        while spikes.at(high)[rank] < 0:
            check_time()
            low, high = high, 2 * high
        outliers.append(spikes.root(rank, low, high))
    growing = spikes.growing if size.in_limit else 0
    return np.concatenate([np.full(growing, np.inf), np.sort(outliers)[::-1]])[:OUTLIER_ROOM]


def find_outliers_inside(spectrum: Spectrum, gap: tuple[float, float], size: FiniteSize) -> Array:
    """Return the eigenvalues in a gap of the bulk, largest first: where a factor of the determinant vanishes."""
    low, high = gap
    margin = EDGE_MARGIN * (high - low)
    z = np.linspace(low + margin, high - margin, GAP_POINTS)
    spikes = _Spikes(spectrum, size)
    factors = spikes.factors(z)
    roots = []
    for left in range(GAP_POINTS - 1):
        check_time()
        for rank in np.flatnonzero(factors[left] * factors[left + 1] < 0):
            with suppress(ValueError):  # NaN between two points that were solved
                roots.append(spikes.root(int(rank), z[left], z[left + 1]))
    return np.sort(roots)[::-1]


class _Spikes:
    """Factors of the determinant at real z outside the bulk, of which one vanishes at an outlier."""

    def __init__(self, spectrum: Spectrum, size: FiniteSize) -> None:
        self.spectrum, self.size = spectrum, size
        features = spectrum.equations.features
        eigenvalues = np.linalg.eigvalsh((features.mu0[0] * features.weights[0]) @ features.mu0[0].T)
        self.growing = int(np.sum(eigenvalues > 1e-10 * max(1.0, eigenvalues[-1]))) if eigenvalues[-1] > 1e-14 else 0

    def root(self, rank: int, low: float, high: float) -> float:
        """Return where the factor number `rank` vanishes."""
        return brent_root(lambda z: float(self.at(z)[rank]), low, high, xtol=1e-12 * high, rtol=1e-12)

    def at(self, z: float) -> Array:
        """Return the factors at one z."""
        return self.factors(np.array([z]))[0]

    def factors(self, z: Floats) -> Array:
        """Return 1 + sign(R) times the eigenvalues, increasing (Z, .).

        They pass smoothly through 1 where R changes its sign; NaN where the blocks have different signs.
        """
        first = self.spectrum.beside(z)
        sign = np.sign(first.response.R.real).mean(axis=1)
        sign = np.where(is_physical(first) & (np.abs(sign) == 1), sign, np.nan)
        eigenvalues = [self._eigenvalues(first.take(np.array([number]))) for number in range(len(z))]
        return np.sort(1 + sign[:, None] * np.array(eigenvalues))

    def _eigenvalues(self, first: FirstOrder) -> Array:
        """Return the eigenvalues of C^T r E[(B0 B0^T + sum_l B1_l B1_l^T)/(1+V)] C, largest first.

        B0 = (sqrt(d) mu0, T0) and B1_l = (0, Jp_l mu1); C C^T = |R| for the means, |P0| for the channels. What the
        penalty of the means is at a finite size beside 1/(d R) is added.
        """
        features = self.spectrum.equations.features
        k = len(features.pi)
        response, weights, R = first.response, first.node_weights[0].real, first.response.R.real
        P, absorbed = first.equations.bulk.covariance(response, features.omega)
        C = prior_factor(P.real, -absorbed.real, R)[0]
        root = np.sqrt(np.abs(R[0]))[:, None]
        functions = np.concatenate([features.mu0[0] * root, C.T @ features.T0[0]])
        matrix = (functions * weights) @ functions.T
        matrix[k:, k:] += C.T @ direction_error(first.equations, response)[0].real @ C
        if not self.size.in_limit:
            dim = 1 / self.size.inverse_dim[0]
            scale = np.concatenate([np.full(k, np.sqrt(dim)), np.ones(len(C))])
            matrix = matrix * scale[:, None] * scale
            penalty = mean_penalty(first.equations.bulk, features, response, first.node_weights, self.size)[0].real
            matrix[:k, :k] += dim * root * penalty * root.T - np.diag(np.sign(R[0]))
            return np.linalg.eigvalsh(matrix)[::-1]
        means, cross, rest = matrix[:k, :k], matrix[:k, k:], matrix[k:, k:]
        eliminated = rest - cross.T @ np.linalg.pinv(means, rcond=1e-10, hermitian=True) @ cross
        return np.linalg.eigvalsh(0.5 * (eliminated + eliminated.T))[::-1]
