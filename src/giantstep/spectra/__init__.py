"""Laws of eigenvalues: densities from Stieltjes transforms, edges, and comparison with eigenvalues."""

from giantstep.spectra.density import Panels as Panels
from giantstep.spectra.density import bulk_panels as bulk_panels
from giantstep.spectra.edges import march_to_edge as march_to_edge
from giantstep.spectra.empirical import kolmogorov_distance as kolmogorov_distance
from giantstep.spectra.empirical import wasserstein_distance as wasserstein_distance
