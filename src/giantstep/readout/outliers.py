"""Eigenvalues above the bulk of the feature covariance: spiked_features 7.4, few_steps_readout (7.3)."""

from __future__ import annotations

from functools import partial

import numpy as np

from giantstep.readout.signal import direction_error, prior_factor
from giantstep.readout.spectrum import RealSolver, Spectrum
from giantstep.types import Array

GAP_POINTS = 33
OUTLIER_ROOM = 8
"""Eigenvalues above the bulk that an answer has room for."""


def find_outliers(spectrum: Spectrum, edge: float, dim: float) -> Array:
    """Return the eigenvalues above the edge, largest first (7.4); inf for those that grow with the dimension."""
    from scipy.optimize import brentq

    if not np.isfinite(edge):
        edge = spectrum.end()
    if not np.isfinite(edge):
        return np.empty(0)
    solver = RealSolver(spectrum, lambda z: (-z, 1.0), sign=-1)
    spikes = _Spikes(spectrum, solver, dim)
    just_above = edge * (1 + spectrum.equations.bulk.edge_margin)
    if solver(4 * edge) is None or solver(just_above) is None:
        return np.empty(0)
    count = int(np.sum(spikes(just_above) > 1))
    outliers = []
    for rank in range(count):
        low, high = just_above, 2 * edge
        while spikes(high)[rank] > 1:
            low, high = high, 2 * high
        outliers.append(brentq(partial(spikes.excess, rank), low, high, xtol=1e-12 * high, rtol=1e-12))
    growing = spikes.growing if np.isinf(dim) else 0
    return np.concatenate([np.full(growing, np.inf), np.sort(outliers)[::-1]])[:OUTLIER_ROOM]


def find_outliers_inside(spectrum: Spectrum, gap: tuple[float, float], dim: float) -> Array:
    """Return the eigenvalues in a gap of the bulk, largest first: where one of the spikes' eigenvalues is -sign R."""
    from scipy.optimize import brentq

    low, high = gap
    margin = max(spectrum.equations.bulk.edge_margin, 1e-3) * (high - low)
    z = np.linspace(low + margin, high - margin, GAP_POINTS)
    middle = GAP_POINTS // 2
    solver = RealSolver(spectrum, lambda z: (-z, 1.0), sign=None)
    solver.begin(spectrum.density(z[middle : middle + 1])[1])
    spikes = _Spikes(spectrum, solver, dim)
    outward = (*range(middle, GAP_POINTS), *range(middle - 1, -1, -1))
    balances = np.stack([row for _, row in sorted((index, spikes.balance(z[index])) for index in outward)])
    changes = np.argwhere(np.sign(balances[:-1]) * np.sign(balances[1:]) < 0)
    roots = [
        brentq(lambda at, rank=rank: spikes.balance(at)[rank], z[left], z[left + 1], xtol=1e-12 * high)
        for left, rank in changes
    ]
    return np.sort(roots)[::-1]


class _Spikes:
    """Eigenvalues of the spike matrix at real z above the edge; an outlier sits where one of them crosses 1."""

    def __init__(self, spectrum: Spectrum, solver: RealSolver, dim: float) -> None:
        self.spectrum, self.solver, self.dim = spectrum, solver, dim
        features = spectrum.equations.features
        eigenvalues = np.linalg.eigvalsh((features.mu0[0] * features.weights[0]) @ features.mu0[0].T)
        self.growing = int(np.sum(eigenvalues > 1e-10 * max(1.0, eigenvalues[-1]))) if eigenvalues[-1] > 1e-14 else 0

    def excess(self, rank: int, z: float) -> float:
        """Return by how much the eigenvalue number `rank` exceeds 1."""
        return float(self(z)[rank]) - 1

    def balance(self, z: float) -> Array:
        """Return the eigenvalues plus the sign of R: one of them vanishes at an outlier. NaN where R has no sign."""
        first = self.solver.at(z)
        sign = np.nan if first is None else np.sign(first.response.R).mean()
        return self(z) + (sign if abs(sign) == 1 else np.nan)

    def __call__(self, z: float) -> Array:
        """Return the eigenvalues of C^T r E[(B0 B0^T + sum_l B1_l B1_l^T)/(1+V)] C, largest first.

        B0 = (sqrt(d) mu0, T0) and B1_l = (0, Jp_l mu1); C C^T = |R| for the means, |P0| for the channels.
        """
        first = self.solver.at(z)
        features = self.spectrum.equations.features
        k = len(features.pi)
        if first is None:
            means = k if np.isfinite(self.dim) else 0
            return np.full(means + features.T0.shape[1], np.nan)
        if not any(known == z for known, _ in self.solver.solved):
            self.solver.solved.append((z, first))
        response, weights = first.response, first.node_weights[0]
        P, absorbed = first.equations.bulk.covariance(response, features.omega)
        C = prior_factor(P, -absorbed, response.R)[0]
        root = np.sqrt(np.abs(response.R[0]))[:, None]
        functions = np.concatenate([features.mu0[0] * root, C.T @ features.T0[0]])
        matrix = (functions * weights) @ functions.T
        matrix[k:, k:] += C.T @ direction_error(first.equations, response)[0] @ C
        if np.isfinite(self.dim):
            scale = np.concatenate([np.full(k, np.sqrt(self.dim)), np.ones(len(C))])
            matrix = matrix * scale[:, None] * scale
            if features.stretch is not None:  # the means follow the stretch chi/sqrt(2 d) of the inputs
                stretch = features.stretch[0] * root
                matrix[:k, :k] += 0.5 * (stretch * weights) @ stretch.T
            return np.linalg.eigvalsh(matrix)[::-1]
        means, cross, rest = matrix[:k, :k], matrix[:k, k:], matrix[k:, k:]
        eliminated = rest - cross.T @ np.linalg.pinv(means, rcond=1e-10, hermitian=True) @ cross
        return np.linalg.eigvalsh(0.5 * (eliminated + eliminated.T))[::-1]
