"""What families answer about spectra: checked abscissae, and the table of one point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, Booleans, Floats
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.solve.roots import require_finite
from giantstep.core.readout.counts import shift_of_counts
from giantstep.core.readout.finite_size import FiniteSize
from giantstep.core.readout.left_open import (
    count_resolution,
    line_of_outliers,
    neurons_of,
    outlier_resolution,
)
from giantstep.core.readout.outliers import (
    OUTLIER_ROOM,
    find_outliers,
    find_outliers_inside,
)
from giantstep.core.readout.spectral_law import Law, bulk_law
from giantstep.core.readout.spectrum import LEAST_ATOM, Spectrum, is_physical

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
        # no numbers at all: the caller says what is wanted
        return np.empty(0, kind)
    if numbers.ndim == 1 and np.all(np.isfinite(numbers)):
        return numbers
    return np.empty(0, kind)


def check_x(x: Any) -> Floats:
    """Return the checked abscissae of a density."""
    values = list_numbers(x, float)
    is_list = np.ndim(x) > 0 and values.size > 0
    if not is_list or np.any(values <= 0) or np.any(np.diff(values) <= 0):
        raise bad_field("x", x, "an increasing list of positive numbers")
    return values


def check_z(z: Any) -> Array:
    """Return the checked points of a resolvent."""
    values = list_numbers(z, complex)
    if z is None or not values.size:
        raise bad_field("z", z, "a list of complex numbers off the positive real axis")
    on_spectrum = (values.imag == 0) & (values.real >= 0)
    if np.any(on_spectrum):
        raise bad_field("z", values[on_spectrum][0], "off the positive real axis")
    return values


def choose_x(spectra: Iterable[tuple[Spectrum, float]]) -> Floats:
    """Return cells of equal width from 0 to beyond the largest upper edge; every
    spectrum with its unit.
    """
    reach = []
    for spectrum, unit in spectra:
        edge = spectrum.upper_edge()
        if not np.isfinite(edge):
            # some way into the tail: Marchenko-Pastur's edge at six times the mean
            edge = 6 * spectrum.mean * (1 + 1 / np.sqrt(spectrum.ratio)) ** 2
        reach.append(edge / unit)
    width = 1.08 * max(reach, default=1.0) / CELLS
    return (np.arange(CELLS, dtype=np.float64) + 0.5) * width


def grows_linearly(activation: Function) -> bool:
    """Tell whether the activation grows at most linearly, so that the bulk has an upper
    edge for every spike.
    """
    # differences over one unit, far out and on the way: they agree for linear growth
    far = np.array([1e4, -1e4])
    near = np.array([1e2, -1e2])
    with np.errstate(over="ignore", invalid="ignore"):
        slope_far = np.max(np.abs(activation(far + 1) - activation(far)))
        slope_near = np.max(np.abs(activation(near + 1) - activation(near)))
    return bool(np.isfinite(slope_far) and slope_far <= 1.5 * max(slope_near, 1.0))


def is_bounded(labels: Function) -> bool:
    """Tell whether labels are bounded, so that the bulk after a finite batch has an
    upper edge.
    """
    z = np.concatenate([-np.geomspace(1, 1e4, 200), np.geomspace(1, 1e4, 200)])
    # what it reaches far out, beside what it reaches where inputs are
    values = np.abs(labels(z))
    return bool(np.max(values) <= 1.5 * np.max(values[np.abs(z) < 5]))


def along_first_axis(
    name: str, values: Floats, kappa: Floats, weights: Floats, positions: Floats
) -> Floats:
    """Return a variable at nodes (B, N), averaged over all axes of the nodes but
    `kappa` (N,), at positions on it.
    """
    # nodes with the same first coordinate differ in the others
    axis, place_of_node = np.unique(kappa, return_inverse=True)
    mass = np.bincount(place_of_node, weights)
    sums = [np.bincount(place_of_node, weights * row) for row in values]
    means = np.stack(sums) / mass
    require_finite(name, means)
    spline = scipy.interpolate.make_interp_spline(axis, means, k=5, axis=1)
    return np.asarray(spline(positions))


def describe_spectrum(
    spectrum: Spectrum, x: Floats, size: FiniteSize, unit: float = 1.0
) -> tuple[dict[str, Any], str, float, int]:
    """Return what is known of one point, x in multiples of `unit`, and how it was
    solved: status, residual, steps.
    """
    law = bulk_law(spectrum)
    # this starts from the solutions that the law has left
    density, first = spectrum.density(unit * x)
    # the largest first, as above the bulk
    inside = [find_outliers_inside(spectrum, gap, size) for gap in reversed(law.gaps)]
    above = find_outliers(spectrum, law.upper, size)
    outliers = np.concatenate([above, *inside])[:OUTLIER_ROOM]
    neurons = neurons_of(spectrum, size)
    cdf, bulk_mass = _of_all_eigenvalues(
        spectrum, law, above=len(above), size=size, neurons=neurons, x=unit * x
    )
    # solutions leave a little density outside the bulk
    in_bulk = np.where(_outside(law, unit * x), 0.0, density)
    line = line_of_outliers(law.upper, above, neurons)
    outlier_count = np.nan
    if np.isfinite(line):
        outlier_count = float(np.sum(above > line))
    gaps = _widest(law.gaps)
    left_open = outlier_resolution(spectrum, size, outliers, law.upper)
    values = {
        "density": unit * (bulk_mass * in_bulk),
        "cdf": cdf,
        "cdf_resolution": count_resolution(spectrum, size, unit * x, in_bulk),
        "lower_edge": law.lower / unit,
        "upper_edge": law.upper / unit,
        "atom": _whole_atom(law, spectrum),
        "mean_eigenvalue": spectrum.mean / unit,
        "outliers": _in_room(outliers) / unit,
        "outliers_resolution": _in_room(left_open) / unit,
        "outlier_count": outlier_count,
        "gap_lower": gaps[0] / unit,
        "gap_upper": gaps[1] / unit,
    }
    status = _status(law, spectrum, density)
    # the worst of the law and of the abscissae
    residual = max(law.residual, float(np.max(first.residual)))
    return values, status, residual, max(law.iterations, int(np.max(first.iterations)))


def _outside(law: Law, x: Floats) -> Booleans:
    """Tell which x lie beyond the edges of the bulk or in one of its gaps."""
    outside = (x > law.upper) | (x < law.lower)
    for low, high in law.gaps:
        outside |= (x > low) & (x < high)
    return outside


def _widest(gaps: list[tuple[float, float]]) -> Floats:
    """Return the widest gaps in the order of x, lower and upper ends (2, GAP_ROOM);
    NaN for those that are not there.
    """
    # the difference is negative: the widest comes first
    widest = sorted(gaps, key=lambda gap: gap[0] - gap[1])[:GAP_ROOM]
    ends = np.full((2, GAP_ROOM), np.nan)
    for position, gap in enumerate(sorted(widest)):
        ends[:, position] = gap
    return ends


def _in_room(outliers: Floats) -> Floats:
    """Return outliers in an array of fixed length, which ends with NaN."""
    return np.append(outliers, np.full(OUTLIER_ROOM - len(outliers), np.nan))


def _status(law: Law, spectrum: Spectrum, density: Floats) -> str:
    """Return why an answer is not to be trusted; empty where it is."""
    if np.isnan(law.upper) or np.isnan(law.lower):
        return "an edge of the bulk was not found"
    if not _is_whole(law, spectrum):
        return f"the density has mass {law.mass:.3f} beside an atom of {law.atom:.3f}"
    lost = np.isnan(density).sum()
    if lost:
        return f"the density was not solved at {lost} of {len(density)} values of x"
    return ""


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
    # per eigenvalue that is not zero
    lacking = above / neurons / (1 - law.atom)
    # where the shift is not known the bulk lacks them evenly
    # the zeros, which the law counts from the start, lack none
    evenly = -lacking * (cdf - law.atom)
    shift = shift_of_counts(spectrum, size, x) / neurons
    shift = np.where(np.isfinite(shift), shift, evenly)
    # outside the bulk it is known: none below, all of them above
    shift = np.where(x < law.lower, 0.0, shift)
    shift = np.where(x > law.upper, -above / neurons, shift)
    # the shift must not take zeros away, nor add up to more than all eigenvalues
    whole = np.clip(cdf + shift, law.atom, 1.0)
    # no eigenvalue is below 0
    return np.where(x < 0, 0.0, whole), 1 - lacking


def _whole_atom(law: Law, spectrum: Spectrum) -> float:
    """Return the fraction of zeros, exactly where it is that of n samples among p
    neurons.

    Every network has exactly p - n zeros there, and would differ from the last digits
    of an extrapolation.
    """
    # p - n of p, if there are fewer samples than neurons
    of_samples = max(0.0, 1 - spectrum.ratio)
    if abs(law.atom - of_samples) < LEAST_ATOM:
        return of_samples
    return law.atom


def _is_whole(law: Law, spectrum: Spectrum) -> bool:
    """Tell whether the mass of a law is one; features that hardly vary make eigenvalues
    below the panels, too.
    """
    if abs(law.mass + law.atom - 1) <= MASS_TOLERANCE:
        return True
    # a bulk that begins above 0 has nothing below its panels
    if law.lower != 0:
        return False
    below = law.mass_below(spectrum)
    return abs(law.mass + below - 1) <= MASS_TOLERANCE


def describe_resolvent(
    spectrum: Spectrum, z: Array
) -> tuple[Array, Array, str, float, int]:
    """Return the traces V1 (Z, k, k) and V2 (Z, k) of the resolvent of Phi^T Phi/p at
    one point, and how solved.
    """
    # the equations are solved in the upper half-plane; below it they are conjugate,
    # and on the negative axis a height beyond rounding tells the branch
    below = z.imag < 0
    upper = np.where(below, z.conj(), z)
    upper = upper + 1j * np.where(upper.imag == 0, 1e-14 * np.abs(upper), 0.0)
    first = spectrum.solve(upper)
    V1 = first.response.S / spectrum.width
    V2 = first.response.R / spectrum.width
    V1 = np.where(below[:, None, None], V1.conj(), V1)
    V2 = np.where(below[:, None], V2.conj(), V2)
    lost = int(np.sum(~is_physical(first)))
    status = ""
    if lost:
        status = f"not solved at {lost} of {len(z)} values of z"
    return V1, V2, status, float(np.max(first.residual)), int(np.max(first.iterations))
