"""Laws of eigenvalues: densities from Stieltjes transforms, and edges."""

from giantstep.spectra.density import Panels as Panels
from giantstep.spectra.density import bulk_panels as bulk_panels
from giantstep.spectra.edges import march_to_edge as march_to_edge
from giantstep.spectra.edges import stability_at as stability_at
