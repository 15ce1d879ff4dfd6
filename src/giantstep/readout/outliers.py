"""Eigenvalues above the bulk of the feature covariance: spiked_features 7.4, few_steps_readout (7.3)."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import numpy as np

from giantstep.deadline import check_time
from giantstep.readout.finite_size import FiniteSize, mean_penalty
from giantstep.readout.first_order import FirstOrder
from giantstep.readout.signal import direction_error, prior_factor
from giantstep.readout.spectrum import RealSolver, Spectrum
from giantstep.solve.finite import brent_root
from giantstep.types import Array

GAP_POINTS = 33
OUTLIER_ROOM = 8
"""Eigenvalues above the bulk that an answer has room for."""


def find_outliers(spectrum: Spectrum, edge: float, size: FiniteSize) -> Array:
    """Return the eigenvalues above the edge, largest first (7.4); inf for those that grow with the dimension."""
    if not np.isfinite(edge):
        edge = spectrum.end
    if not np.isfinite(edge):
        return np.empty(0)
    solver = RealSolver(spectrum, lambda z: (-z, 1.0), sign=-1)
    spikes = _Spikes(spectrum, solver, size)
    just_above = edge * (1 + spectrum.equations.bulk.edge_margin)
    if solver(4 * edge) is None or solver(just_above) is None:
        return np.empty(0)
    count = int(np.sum(spikes(just_above) > 1))
    outliers = []
    for rank in range(count):
        low, high = just_above, 2 * edge
        while spikes(high)[rank] > 1:
            check_time()
            low, high = high, 2 * high
        outliers.append(brent_root(partial(spikes.excess, rank), low, high, xtol=1e-12 * high, rtol=1e-12))
    growing = spikes.growing if size.in_limit else 0
    return np.concatenate([np.full(growing, np.inf), np.sort(outliers)[::-1]])[:OUTLIER_ROOM]


def find_outliers_inside(spectrum: Spectrum, gap: tuple[float, float], size: FiniteSize) -> Array:
    """Return the eigenvalues in a gap of the bulk, largest first: where a factor of the determinant vanishes.

    A stretch of the gap in which the real equations are not solved is passed over.
    """
    low, high = gap
    margin = max(spectrum.equations.bulk.edge_margin, 1e-3) * (high - low)
    z = np.linspace(low + margin, high - margin, GAP_POINTS)
    middle = GAP_POINTS // 2
    solver = RealSolver(spectrum, lambda z: (-z, 1.0), sign=None)
    solver.begin(spectrum.density(z[middle : middle + 1])[1])
    spikes = _Spikes(spectrum, solver, size)
    factors = {index: spikes.factors(z[index]) for index in (*range(middle, GAP_POINTS), *range(middle - 1, -1, -1))}
    roots = []
    for left in range(GAP_POINTS - 1):
        check_time()
        for rank in np.flatnonzero(factors[left] * factors[left + 1] < 0):
            with suppress(ValueError):  # NaN between two points that were solved
                roots.append(brent_root(partial(spikes.factor, int(rank)), z[left], z[left + 1], xtol=1e-12 * high))
    return np.sort(roots)[::-1]


class _Spikes:
    """Eigenvalues of the spike matrix at real z above the edge; an outlier sits where one of them crosses 1."""

    def __init__(self, spectrum: Spectrum, solver: RealSolver, size: FiniteSize) -> None:
        self.spectrum, self.solver, self.size = spectrum, solver, size
        features = spectrum.equations.features
        eigenvalues = np.linalg.eigvalsh((features.mu0[0] * features.weights[0]) @ features.mu0[0].T)
        self.growing = int(np.sum(eigenvalues > 1e-10 * max(1.0, eigenvalues[-1]))) if eigenvalues[-1] > 1e-14 else 0

    def excess(self, rank: int, z: float) -> float:
        """Return by how much the eigenvalue number `rank` exceeds 1."""
        return float(self(z)[rank]) - 1

    def factor(self, rank: int, z: float) -> float:
        """Return the factor number `rank` of the determinant."""
        return float(self.factors(z)[rank])

    def factors(self, z: float) -> Array:
        """Return 1 + sign(R) times the eigenvalues, increasing: one of them vanishes at an outlier.

        They pass smoothly through 1 where R changes its sign; NaN where the blocks have different signs.
        """
        first = self._solve(z)
        sign = np.nan if first is None else float(np.sign(first.response.R).mean())
        return np.sort(1 + (sign if abs(sign) == 1 else np.nan) * self._eigenvalues(first))

    def __call__(self, z: float) -> Array:
        """Return the eigenvalues at z, largest first."""
        return self._eigenvalues(self._solve(z))

    def _solve(self, z: float) -> FirstOrder | None:
        """Return the solution at z, from which the next ones start."""
        first = self.solver.at(z)
        if first is not None and not any(known == z for known, _, _ in self.solver.solved):
            self.solver.solved.append((z, 1.0, first))
        return first

    def _eigenvalues(self, first: FirstOrder | None) -> Array:
        """Return the eigenvalues of C^T r E[(B0 B0^T + sum_l B1_l B1_l^T)/(1+V)] C, largest first, or NaN.

        B0 = (sqrt(d) mu0, T0) and B1_l = (0, Jp_l mu1); C C^T = |R| for the means, |P0| for the channels. What the
        penalty of the means is at a finite size beside 1/(d R) is added.
        """
        features = self.spectrum.equations.features
        k = len(features.pi)
        if first is None:
            means = 0 if self.size.in_limit else k
            return np.full(means + features.T0.shape[1], np.nan)
        response, weights = first.response, first.node_weights[0]
        P, absorbed = first.equations.bulk.covariance(response, features.omega)
        C = prior_factor(P, -absorbed, response.R)[0]
        root = np.sqrt(np.abs(response.R[0]))[:, None]
        functions = np.concatenate([features.mu0[0] * root, C.T @ features.T0[0]])
        matrix = (functions * weights) @ functions.T
        matrix[k:, k:] += C.T @ direction_error(first.equations, response)[0] @ C
        if not self.size.in_limit:
            dim = 1 / self.size.inverse_dim[0]
            scale = np.concatenate([np.full(k, np.sqrt(dim)), np.ones(len(C))])
            matrix = matrix * scale[:, None] * scale
            penalty = mean_penalty(first.equations.bulk, features, response, first.node_weights, self.size)[0]
            matrix[:k, :k] += dim * root * penalty * root.T - np.diag(np.sign(response.R[0]))
            return np.linalg.eigvalsh(matrix)[::-1]
        means, cross, rest = matrix[:k, :k], matrix[:k, k:], matrix[k:, k:]
        eliminated = rest - cross.T @ np.linalg.pinv(means, rcond=1e-10, hermitian=True) @ cross
        return np.linalg.eigvalsh(0.5 * (eliminated + eliminated.T))[::-1]
