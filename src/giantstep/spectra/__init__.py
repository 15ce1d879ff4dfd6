"""Laws of eigenvalues: densities on panels, from which masses, moments and distribution functions follow."""

from giantstep.spectra.density import Panels as Panels
from giantstep.spectra.density import bulk_panels as bulk_panels
