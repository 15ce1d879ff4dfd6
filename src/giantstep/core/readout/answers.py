"""What families answer about spectra: checked abscissae, and the table of one point."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import scipy

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.solve.roots import brent_root, require_finite
from giantstep.core.readout.counts import (
    count_resolution,
    line_of_outliers,
    neurons_of,
    outlier_resolution,
    shift_of_counts,
)
from giantstep.core.readout.finite_size import FiniteSize, mean_penalty
from giantstep.core.readout.first_order import FirstOrder
from giantstep.core.readout.signal import direction_error, prior_factor
from giantstep.core.readout.spectrum import SEEN, Law, Spectrum, bulk_law, is_physical

MASS_TOLERANCE = 0.02
"""How far the mass of a law may be from one; a density that diverges at 0 leaves a
little below the finest panel.
"""
CELLS = 120
GAP_ROOM = 4
"""Gaps that an answer has room for, the widest."""
UNBOUNDED = (
    "The bulk has no upper edge: the activation's slope or the batch's residuals are"
    " unbounded."
)


def list_numbers(value: Any, kind: type) -> Array:
    """Return a list of numbers as an array; an empty one where it is none."""
    try:
        numbers: Array = np.atleast_1d(
            np.asarray(value).astype(kind, casting="same_kind")
        )
    except (TypeError, ValueError):
        return np.empty(0, kind)
    if numbers.ndim == 1 and np.all(np.isfinite(numbers)):
        return numbers
    return np.empty(0, kind)


def check_x(x: Any) -> Floats:
    """Return the checked abscissae of a density."""
    values = list_numbers(x, float)
    if (
        np.ndim(x) == 0
        or not values.size
        or np.any(values <= 0)
        or np.any(np.diff(values) <= 0)
    ):
        raise bad_field("x", x, "an increasing list of positive numbers")
    return values


def check_z(z: Any) -> Array:
    """Return the checked points of a resolvent."""
    values = list_numbers(z, complex)
    if z is None or not values.size:
        raise bad_field("z", z, "a list of complex numbers off the positive real axis")
    if np.any((values.imag == 0) & (values.real >= 0)):
        raise bad_field(
            "z",
            values[(values.imag == 0) & (values.real >= 0)][0],
            "off the positive real axis",
        )
    return values


def choose_x(spectra: Iterable[tuple[Spectrum, float]]) -> Floats:
    """Return cells of equal width from 0 to beyond the largest upper edge; every
    spectrum with its unit.
    """
    reach = []
    for spectrum, unit in spectra:
        edge = spectrum.upper_edge()
        if np.isfinite(edge):
            edge = edge
        else:
            edge = 6 * spectrum.mean * (1 + 1 / np.sqrt(spectrum.ratio)) ** 2
        reach.append(edge / unit)
    return (np.arange(CELLS, dtype=np.float64) + 0.5) * (
        1.08 * max(reach, default=1.0) / CELLS
    )


def grows_linearly(activation: Function) -> bool:
    """Tell whether the activation grows at most linearly, so that the bulk has an upper
    edge for every spike.
    """
    far = np.array([1e4, -1e4])
    near = np.array([1e2, -1e2])
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = [
            np.max(np.abs(activation(z + 1) - activation(z))) for z in (far, near)
        ]
    return bool(np.isfinite(slopes[0]) and slopes[0] <= 1.5 * max(slopes[1], 1.0))


def is_bounded(labels: Function) -> bool:
    """Tell whether labels are bounded, so that the bulk after a finite batch has an
    upper edge.
    """
    z = np.concatenate([-np.geomspace(1, 1e4, 200), np.geomspace(1, 1e4, 200)])
    values = np.abs(labels(z))
    return bool(np.max(values) <= 1.5 * np.max(values[np.abs(z) < 5]))


def along_first_axis(
    name: str, values: Floats, kappa: Floats, weights: Floats, positions: Floats
) -> Floats:
    """Return a variable at nodes (B, N), averaged over all axes of the nodes but
    `kappa` (N,), at positions on it.
    """
    axis, which = np.unique(kappa, return_inverse=True)
    means = np.stack(
        [np.bincount(which, weights * row) for row in values]
    ) / np.bincount(which, weights)
    require_finite(name, means)
    return np.asarray(
        scipy.interpolate.make_interp_spline(axis, means, k=5, axis=1)(positions)
    )


def describe_spectrum(
    spectrum: Spectrum, x: Floats, size: FiniteSize, unit: float = 1.0
) -> tuple[dict[str, Any], str, float, int]:
    """Return what is known of one point, x in multiples of `unit`, and how it was
    solved: status, residual, steps.
    """
    law = bulk_law(spectrum)
    density, first = spectrum.density(unit * x)
    outside = (unit * x > law.upper) | (unit * x < law.lower)
    for low, high in law.gaps:
        outside |= (unit * x > low) & (unit * x < high)
    inside = [find_outliers_inside(spectrum, gap, size) for gap in reversed(law.gaps)]
    above = find_outliers(spectrum, law.upper, size)
    outliers = np.concatenate([above, *inside])[:OUTLIER_ROOM]
    neurons = neurons_of(spectrum, size)
    left_open = outlier_resolution(spectrum, size, outliers, law.upper)
    cdf, bulk_mass = _of_all_eigenvalues(
        spectrum, law, len(above), size, neurons, unit * x
    )
    line = line_of_outliers(law.upper, above, neurons)
    gaps = np.full((2, GAP_ROOM), np.nan)
    for position, gap in enumerate(
        sorted(sorted(law.gaps, key=lambda gap: gap[0] - gap[1])[:GAP_ROOM])
    ):
        gaps[:, position] = gap
    values = {
        "density": unit * np.where(outside, 0.0, bulk_mass * density),
        "cdf": cdf,
        "cdf_resolution": count_resolution(
            spectrum, size, unit * x, np.where(outside, 0.0, density)
        ),
        "lower_edge": law.lower / unit,
        "upper_edge": law.upper / unit,
        "atom": _whole_atom(law, spectrum),
        "mean_eigenvalue": spectrum.mean / unit,
        "outliers": np.append(
            outliers / unit, np.full(OUTLIER_ROOM - len(outliers), np.nan)
        ),
        "outliers_resolution": (
            np.append(left_open, np.full(OUTLIER_ROOM - len(outliers), np.nan)) / unit
        ),
        "outlier_count": float(np.sum(above > line)) if np.isfinite(line) else np.nan,
        "gap_lower": gaps[0] / unit,
        "gap_upper": gaps[1] / unit,
    }
    status = ""
    if np.isnan(law.upper) or np.isnan(law.lower):
        status = "an edge of the bulk was not found"
    elif not _is_whole(law, spectrum):
        status = f"the density has mass {law.mass:.3f} beside an atom of {law.atom:.3f}"
    elif np.isnan(density).any():
        status = (
            f"the density was not solved at {np.isnan(density).sum()} of {len(x)}"
            " values of x"
        )
    residual = max(law.residual, float(np.max(first.residual)))
    return values, status, residual, max(law.iterations, int(np.max(first.iterations)))


def _of_all_eigenvalues(
    spectrum: Spectrum,
    law: Law,
    above: int,
    size: FiniteSize,
    neurons: float,
    x: Floats,
) -> tuple[Floats, float]:
    """Return the fraction of all p eigenvalues that are in the bulk and up to x, and
    what is left of its density.

    The outliers `above` the bulk are among the p eigenvalues: the bulk has so many
    fewer.
    """
    cdf = law.cdf(x)
    if size.in_limit:
        return cdf, 1.0
    lacking = above / neurons / (1 - law.atom)
    evenly = -lacking * (cdf - law.atom)
    shift = shift_of_counts(spectrum, size, x) / neurons
    shift = np.where(np.isfinite(shift), shift, evenly)
    shift = np.where(
        x > law.upper, -above / neurons, np.where(x < law.lower, 0.0, shift)
    )
    return np.where(x < 0, 0.0, np.clip(cdf + shift, law.atom, 1.0)), 1 - lacking


def _whole_atom(law: Law, spectrum: Spectrum) -> float:
    """Return the fraction of zeros, exactly where it is that of n samples among p
    neurons.

    Every network has exactly p - n zeros there, and would differ from the last digits
    of an extrapolation.
    """
    of_samples = max(0.0, 1 - spectrum.ratio)
    return of_samples if abs(law.atom - of_samples) < SEEN else law.atom


def _is_whole(law: Law, spectrum: Spectrum) -> bool:
    """Tell whether the mass of a law is one; features that hardly vary make eigenvalues
    below the panels, too.
    """
    if abs(law.mass + law.atom - 1) <= MASS_TOLERANCE:
        return True
    return (
        law.lower == 0
        and abs(law.mass + law.mass_below(spectrum) - 1) <= MASS_TOLERANCE
    )


def describe_resolvent(
    spectrum: Spectrum, z: Array
) -> tuple[Array, Array, str, float, int]:
    """Return the traces V1 (Z, k, k) and V2 (Z, k) of the resolvent of Phi^T Phi/p at
    one point, and how solved.
    """
    upper = np.where(z.imag < 0, z.conj(), z)
    upper = upper + 1j * np.where(upper.imag == 0, 1e-14 * np.abs(upper), 0.0)
    first = spectrum.solve(upper)
    V1 = first.response.S / spectrum.width
    V2 = first.response.R / spectrum.width
    below = z.imag < 0
    V1 = np.where(below[:, None, None], V1.conj(), V1)
    V2 = np.where(below[:, None], V2.conj(), V2)
    lost = int(np.sum(~is_physical(first)))
    if lost:
        status = f"not solved at {lost} of {len(z)} values of z"
    else:
        status = ""
    return V1, V2, status, float(np.max(first.residual)), int(np.max(first.iterations))


# -- Eigenvalues above the bulk of the feature covariance: spiked_features 7.4 ---------


GAP_POINTS = 33
EDGE_MARGIN = 1e-5
"""Distance from an edge, relative to it, from which outliers are looked for."""
OUTLIER_ROOM = 8
"""Eigenvalues above the bulk that an answer has room for."""


def find_outliers(spectrum: Spectrum, edge: float, size: FiniteSize) -> Array:
    """Return the eigenvalues above the edge, largest first (7.4); inf for those that
    grow with the dimension.
    """
    if not np.isfinite(edge):
        edge = spectrum.end
    if not np.isfinite(edge):
        return np.empty(0)
    spikes = _Spikes(spectrum, size)
    just_above = edge * (1 + EDGE_MARGIN)
    outliers = []
    for rank in range(int(np.sum(spikes.at(just_above) < 0))):
        low = just_above
        high = 2 * edge
        while spikes.at(high)[rank] < 0:
            check_time()
            low = high
            high = 2 * high
        outliers.append(spikes.root(rank, low, high))
    growing = spikes.growing if size.in_limit else 0
    return np.concatenate([np.full(growing, np.inf), np.sort(outliers)[::-1]])[
        :OUTLIER_ROOM
    ]


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
        for rank in np.flatnonzero(factors[left] * factors[left + 1] < 0):
            with suppress(ValueError):  # NaN between two points that were solved
                roots.append(spikes.root(int(rank), z[left], z[left + 1]))
    return np.sort(roots)[::-1]


class _Spikes:
    """Factors of the determinant at real z outside the bulk, of which one vanishes at
    an outlier.
    """

    def __init__(self, spectrum: Spectrum, size: FiniteSize) -> None:
        self.spectrum = spectrum
        self.size = size
        features = spectrum.equations.features
        eigenvalues = np.linalg.eigvalsh(
            (features.mu0[0] * features.weights[0]) @ features.mu0[0].T
        )
        if eigenvalues[-1] > 1e-14:
            self.growing = int(np.sum(eigenvalues > 1e-10 * max(1.0, eigenvalues[-1])))
        else:
            self.growing = 0

    def root(self, rank: int, low: float, high: float) -> float:
        """Return where the factor number `rank` vanishes."""
        return brent_root(
            lambda z: float(self.at(z)[rank]), low, high, xtol=1e-12 * high, rtol=1e-12
        )

    def at(self, z: float) -> Array:
        """Return the factors at one z."""
        return self.factors(np.array([z]))[0]

    def factors(self, z: Floats) -> Array:
        """Return 1 + sign(R) times the eigenvalues, increasing (Z, .); NaN where the
        blocks have different signs.
        """
        first = self.spectrum.beside(z)
        sign = np.sign(first.response.R.real).mean(axis=1)
        sign = np.where(is_physical(first) & (np.abs(sign) == 1), sign, np.nan)
        eigenvalues = [
            self._eigenvalues(first.take(np.array([number])))
            for number in range(len(z))
        ]
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
        R = first.response.R.real
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
            penalty = mean_penalty(
                first.equations.bulk, features, response, first.node_weights, self.size
            )[0].real
            matrix[:k, :k] += dim * root * penalty * root.T - np.diag(np.sign(R[0]))
            return np.linalg.eigvalsh(matrix)[::-1]
        means = matrix[:k, :k]
        cross = matrix[:k, k:]
        rest = matrix[k:, k:]
        eliminated = (
            rest - cross.T @ np.linalg.pinv(means, rcond=1e-10, hermitian=True) @ cross
        )
        return np.linalg.eigvalsh(0.5 * (eliminated + eliminated.T))[::-1]
