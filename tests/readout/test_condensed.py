"""Many atoms of inputs as few: the same resolvent, and edges that an island of leading
atoms does not hide.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.network.rows import covariance

WIDE = gs.FewSteps(
    target="z + 0.5*h2(z)",
    rate=2.0,
    steps=1,
    noise=0.05,
    width_per_dim=1.0,
    samples_per_dim=2.0,
    ridge=0.05,
    inputs=gs.PowerLaw(0.4, 0.4, atoms=150),
)


def test_condensed_atoms_have_the_same_resolvent(monkeypatch):
    z = [1 + 1e-3j, 5.6 + 1e-4j, -0.5]
    few = gs.predict(WIDE, what="resolvent", z=z)
    sizes = []
    monkeypatch.setattr(
        covariance,
        "condense",
        lambda bulk, eigenvalues, gram=None: (
            sizes.append(len(bulk.masses)) or bulk,
            gram,
        ),
    )
    many = gs.predict(WIDE, what="resolvent", z=z)
    assert sizes[0] == 150
    np.testing.assert_allclose(few.m_real, many.m_real, rtol=1e-11)
    np.testing.assert_allclose(few.m_imag, many.m_imag, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
def test_the_upper_edge_is_that_of_the_leading_atoms():
    law = gs.predict(
        WIDE.replace(inputs=gs.PowerLaw(0.4, 0.4, atoms=400)), what="spectrum"
    )
    np.testing.assert_allclose(law.upper_edge, [5.10684443, 5.48933659], rtol=1e-7)
