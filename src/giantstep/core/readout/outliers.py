"""Eigenvalues above the bulk of the feature covariance, and in its gaps:
spiked_features 7.4.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.solve.roots import brent_root
from giantstep.core.readout.finite_size import FiniteSize, mean_penalty
from giantstep.core.readout.first_order import FirstOrder
from giantstep.core.readout.signal import direction_error, prior_factor
from giantstep.core.readout.spectrum import Spectrum, is_physical

GAP_POINTS = 33
"""Places in a gap between which a factor is looked at for a change of sign."""


EDGE_MARGIN = 1e-5
"""Distance from an edge, relative to it, from which outliers are looked for."""


OUTLIER_ROOM = 8
"""Eigenvalues above the bulk that an answer has room for."""


def find_outliers(spectrum: Spectrum, edge: float, size: FiniteSize) -> Array:
    """Return the eigenvalues above the edge, largest first (7.4); inf for those that
    grow with the dimension.
    """
    # a bulk without an edge ends where its nodes end
    if not np.isfinite(edge):
        edge = spectrum.end
    if not np.isfinite(edge):
        return np.empty(0)
    spikes = _Spikes(spectrum, size)
    just_above = edge * (1 + EDGE_MARGIN)
    # a factor that is negative at the edge is positive far above: it has one zero
    count = int(np.sum(spikes.at(just_above) < 0))
    outliers = []
    for rank in range(count):
        # the bracket moves out by octaves until the factor is positive
        low = just_above
        high = 2 * edge
        while spikes.at(high)[rank] < 0:
            check_time()
            low = high
            high = 2 * high
        outliers.append(spikes.root(rank, low, high))
    growing = np.empty(0)
    if size.in_limit:
        growing = np.full(spikes.growing, np.inf)
    return np.concatenate([growing, np.sort(outliers)[::-1]])[:OUTLIER_ROOM]


def find_outliers_inside(
    spectrum: Spectrum, gap: tuple[float, float], size: FiniteSize
) -> Array:
    """Return the eigenvalues in a gap of the bulk, largest first: where a factor of the
    determinant vanishes.
    """
    low, high = gap
    margin = EDGE_MARGIN * (high - low)
    z = np.linspace(low + margin, high - margin, GAP_POINTS)
    spikes = _Spikes(spectrum, size)
    factors = spikes.factors(z)
    roots = []
    for left in range(GAP_POINTS - 1):
        check_time()
        changes_sign = factors[left] * factors[left + 1] < 0
        for rank in np.flatnonzero(changes_sign):
            # NaN between two points that were solved
            with suppress(ValueError):
                roots.append(spikes.root(int(rank), z[left], z[left + 1]))
    return np.sort(roots)[::-1]


class _Spikes:
    """Factors of the determinant at real z outside the bulk, of which one vanishes at
    an outlier.
    """

    def __init__(self, spectrum: Spectrum, size: FiniteSize) -> None:
        self.spectrum = spectrum
        self.size = size
        # means that cost nothing in the limit make eigenvalues of order d: as many as
        # they have directions
        features = spectrum.equations.features
        weighted = features.mu0[0] * features.weights[0]
        eigenvalues = np.linalg.eigvalsh(weighted @ features.mu0[0].T)
        self.growing = 0
        if eigenvalues[-1] > 1e-14:
            not_rounding = 1e-10 * max(1.0, eigenvalues[-1])
            self.growing = int(np.sum(eigenvalues > not_rounding))

    def root(self, rank: int, low: float, high: float) -> float:
        """Return where the factor number `rank` vanishes."""

        def factor(z: float) -> float:
            return float(self.at(z)[rank])

        return brent_root(factor, low, high, xtol=1e-12 * high, rtol=1e-12)

    def at(self, z: float) -> Array:
        """Return the factors at one z."""
        return self.factors(np.array([z]))[0]

    def factors(self, z: Floats) -> Array:
        """Return 1 + sign(R) times the eigenvalues, increasing (Z, .); NaN where the
        blocks have different signs.
        """
        first = self.spectrum.beside(z)
        # blocks of different signs have no common factor
        sign = np.sign(first.response.R.real).mean(axis=1)
        of_one_sign = is_physical(first) & (np.abs(sign) == 1)
        sign = np.where(of_one_sign, sign, np.nan)
        eigenvalues = []
        for number in range(len(z)):
            eigenvalues.append(self._eigenvalues(first.take(np.array([number]))))
        return np.sort(1 + sign[:, None] * np.array(eigenvalues))

    def _eigenvalues(self, first: FirstOrder) -> Array:
        """Return the eigenvalues of C^T r E[(B0 B0^T + sum_l B1_l B1_l^T)/(1+V)] C,
        largest first.

        B0 = (sqrt(d) mu0, T0) and B1_l = (0, Jp_l mu1); C C^T = |R| for the means, |P0|
        for the channels. What the penalty of the means is at a finite size beside
        1/(d R) is added.
        """
        features = self.spectrum.equations.features
        k = len(features.pi)
        response = first.response
        weights = first.node_weights[0].real
        # outside the bulk all of them are real, up to the height above the axis
        R = response.R.real
        P, absorbed = first.equations.bulk.covariance(response, features.omega)
        C = prior_factor(P.real, -absorbed.real, R)[0]
        root = np.sqrt(np.abs(R[0]))[:, None]
        functions = np.concatenate([features.mu0[0] * root, C.T @ features.T0[0]])
        matrix = (functions * weights) @ functions.T
        matrix[k:, k:] += C.T @ direction_error(first.equations, response)[0].real @ C
        if self.size.in_limit:
            return _without_means(matrix, k)
        # at a finite size the means cost 1/d: they stay among the unknowns
        dim = 1 / self.size.inverse_dim[0]
        scale = np.concatenate([np.full(k, np.sqrt(dim)), np.ones(len(C))])
        matrix = matrix * scale[:, None] * scale
        penalty = mean_penalty(
            first.equations.bulk, features, response, first.node_weights, self.size
        )
        # the unit matrix that is part of a factor stands for the penalty 1/(d R)
        of_means = dim * root * penalty[0].real * root.T
        matrix[:k, :k] += of_means - np.diag(np.sign(R[0]))
        return np.linalg.eigvalsh(matrix)[::-1]


def _without_means(matrix: Array, k: int) -> Array:
    """Return the eigenvalues of the channels, largest first, where the k means cost
    nothing: what they explain is taken out.
    """
    means = matrix[:k, :k]
    cross = matrix[:k, k:]
    rest = matrix[k:, k:]
    # means that are linearly dependent explain no more together
    inverse = np.linalg.pinv(means, rcond=1e-10, hermitian=True)
    eliminated = rest - cross.T @ inverse @ cross
    return np.linalg.eigvalsh(0.5 * (eliminated + eliminated.T))[::-1]
