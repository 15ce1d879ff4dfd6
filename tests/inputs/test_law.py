"""The two measures that equations take from a covariance: sums that stay, known
spectra, their limits.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.inputs.law import InputLaw, InputSpectrum


def law_of(count, directions=2, seed=0):
    rng = np.random.default_rng(seed)
    target = np.linalg.qr(rng.standard_normal((count, directions)))[0].T
    moments = np.einsum("aj,bj->jab", target, target)
    return InputLaw.normalised(
        rng.exponential(size=count), np.full(count, 1 / count), moments
    )


@pytest.mark.parametrize("count", [7, 400, 1300])
def test_bins_keep_mass_trace_and_the_target(count):
    law = law_of(count)
    binned = law.binned()
    assert len(binned.masses) == (count if count <= 400 else 90)
    np.testing.assert_allclose(
        [binned.masses.sum(), binned.masses @ binned.eigenvalues], 1, rtol=1e-12
    )
    np.testing.assert_allclose(binned.moments.sum(axis=0), np.eye(2), atol=1e-12)
    # means of bins vary less than what is in them
    assert binned.second_moment() <= law.second_moment() * (1 + 1e-12)


def test_the_coordinates_of_a_spectrum_make_up_the_target():
    """Rows of V are orthonormal, and their parts in every eigenspace are the moments of
    the law.
    """
    law = law_of(9)
    spectrum = law.spectrum()
    np.testing.assert_allclose(spectrum.frame @ spectrum.frame.T, np.eye(2), atol=1e-12)
    for atom, moment in enumerate(law.moments):
        inside = spectrum.frame[:, spectrum.atoms == atom]
        np.testing.assert_allclose(inside @ inside.T, moment, atol=1e-12)
    np.testing.assert_allclose(spectrum.average(spectrum.eigenvalues), 1, rtol=1e-12)
    np.testing.assert_allclose(law.spectrum(0.5).factor, law.eigenvalues**-0.5)


def test_isotropic_inputs_are_one_atom():
    equal = gs.InputBlocks([3.0, 3.0], [0.3, 0.7], [1.0, 2.0]).law(np.inf, 1)
    assert equal.isotropic and equal.effective_ranks() == pytest.approx((1.0, 1.0))
    one = InputSpectrum.isotropic(2)
    np.testing.assert_array_equal(one.frame, np.eye(2))
    np.testing.assert_array_equal(one.coordinate_eigenvalues, 1.0)


def test_whole_multiplicities_approach_the_law():
    """At dimension d every atom has a whole number of coordinates; the error is of
    order 1/d, and the trace stays d.
    """
    law = gs.InputBlocks([2.5, 0.5], [1 / 3, 2 / 3], [0.5, 0.5]).law(np.inf, 1)
    for dim in (10, 100, 1000):
        assert law.counts(dim).sum() == dim
        finite = law.at_dimension(dim)
        assert finite.masses @ finite.eigenvalues == pytest.approx(1, rel=1e-12)
        assert np.abs(finite.masses - law.masses).max() < 1 / dim


def test_a_power_law_has_its_exponents():
    law = gs.PowerLaw(0.8, 0.4, atoms=50).law(np.inf, 1)
    j = np.arange(1.0, 51)
    np.testing.assert_allclose(law.eigenvalues / law.eigenvalues[0], j**-0.8)
    np.testing.assert_allclose(
        law.moments[:, 0, 0] / law.moments[0, 0, 0], ((j - 0.5) / 0.5) ** -0.4
    )
    assert law.leading_variance() == pytest.approx(
        float(law.eigenvalues @ law.moments[:, 0, 0])
    )
