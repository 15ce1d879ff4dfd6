"""The bulk law of one point: edges, gaps, atom, and the density on panels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array
from giantstep.core.maths.spectra import Panels, bulk_panels
from giantstep.core.readout.spectrum import DARK, Spectrum

ROUGH = 1e-5
"""Mass that a panel of the density may misplace before it is halved."""


MAX_REFINEMENTS = 16


FINEST = 1e-3
"""Part of the largest x below which the density is not refined: each node of kappa may
be a bulk of its own there.
"""


BESIDE = 30.0
"""Distance, as a ratio, from the lowest panel at which the mass below it is measured:
to 1/30 of what is not zero.
"""


@dataclass
class Law:
    """The bulk law of one point: edges, atom, panels with the density on them."""

    lower: float
    upper: float
    atom: float
    panels: Panels
    on_panels: Array
    # intervals between the edges in which there is no density
    gaps: list[tuple[float, float]]
    residual: float
    iterations: int

    @property
    def mass(self) -> float:
        """Mass of the density on the panels."""
        return self.panels.integral(self.on_panels)

    def mass_below(self, spectrum: Spectrum) -> float:
        """Return the mass below the panels, the atom included: what the resolvent at a
        negative z sees beside them.
        """
        # all of what is below the panels counts as smaller than this
        y = BESIDE * self.panels.left[:1]
        above = self.panels.integral(self.on_panels * y / (self.panels.nodes + y))
        return float(spectrum.smaller_than(y)[0]) - above

    def cdf(self, x: Array) -> Array:
        """Return the fraction of eigenvalues up to x, the atom at zero included, the
        outliers left out.
        """
        # from above, so that what the panels miss near zero counts as below them
        below = 1 - self.panels.tail(self.on_panels, x)
        cdf = np.clip(below, self.atom, 1.0)
        cdf = np.where(x < self.lower, self.atom, cdf)
        return np.where(x < 0, 0.0, cdf)


def bulk_law(spectrum: Spectrum) -> Law:
    """Compute the law of one point."""
    upper = spectrum.upper_edge()
    lower = spectrum.lower_edge()
    # where the panels end
    reach = upper
    if not np.isfinite(upper):
        reach = _reach_of_tail(spectrum)
    start = lower if np.isfinite(lower) else 0.0
    density = _DensityOnPanels(bulk_panels(start, reach))
    density.refine(spectrum, finest=FINEST * reach)
    # a bulk that begins well above zero is smooth
    resolved = FINEST * reach
    if lower > 1e-2 * FINEST * reach:
        resolved = 0.0
    return Law(
        lower=lower,
        upper=upper,
        atom=spectrum.atom,
        panels=density.panels,
        on_panels=density.values,
        gaps=_gaps(spectrum, density, resolved),
        residual=density.residual,
        iterations=density.iterations,
    )


def _reach_of_tail(spectrum: Spectrum) -> float:
    """Return a point that leaves a mass below 1e-6 above it."""
    # octaves above the mean
    x = spectrum.mean * 2.0 ** np.arange(0, 16)
    density, _ = spectrum.density(x)
    heavy = np.flatnonzero(np.nan_to_num(density) * x > 1e-6)
    if heavy.size:
        return float(2 * x[heavy[-1]])
    return float(x[4])


class _DensityOnPanels:
    """The density of the bulk at the nodes of panels, which are halved where it is
    rough.
    """

    def __init__(self, panels: Panels) -> None:
        self.panels = panels
        self.values = np.zeros(panels.nodes.shape)
        self.residual = 0.0
        self.iterations = 0

    def refine(self, spectrum: Spectrum, finest: float) -> None:
        """Solve on the panels, and halve rough ones above `finest` until none is:
        towards the edges of gaps, where p/d is large or small.
        """
        fresh = np.ones(len(self.values), dtype=bool)
        for left in reversed(range(MAX_REFINEMENTS + 1)):
            check_time()
            nodes = self.panels.nodes[fresh].ravel()
            density, first = spectrum.density(nodes)
            order = self.panels.order
            self.values[fresh] = np.nan_to_num(density).reshape(-1, order)
            self.residual = max(self.residual, float(np.max(first.residual)))
            self.iterations = max(self.iterations, int(np.max(first.iterations)))
            rough = self.panels.roughness(self.values) > ROUGH
            rough &= self.panels.right > finest
            if not (left and rough.any()):
                break
            self.panels, origin = self.panels.split(rough)
            # halves are solved in the next round, all others keep their values
            fresh = origin < 0
            self.values = np.where(fresh[:, None], 0.0, self.values[origin])


def _gaps(
    spectrum: Spectrum, density: _DensityOnPanels, resolved: float
) -> list[tuple[float, float]]:
    """Return the intervals without a density above `resolved`, between two nodes that
    have one; those too narrow for two nodes are not seen.
    """
    x = density.panels.nodes.ravel()
    bright = (density.values.ravel() * x > DARK) & (x > resolved)
    bright_nodes = np.flatnonzero(bright)
    gaps = []
    for last, first_again in zip(bright_nodes, bright_nodes[1:]):
        if first_again - last > 2:
            # each edge from the node inside the bulk to the one beside it in the gap
            low = spectrum.edge_between(x[last], x[last + 1])
            high = spectrum.edge_between(x[first_again], x[first_again - 1])
            gaps.append((low, high))
    return gaps
