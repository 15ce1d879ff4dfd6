"""How often two correlated normals have opposite signs."""

import numpy as np
import pytest

from giantstep.core.readout.signs import negative_positive, opposite_signs


def test_opposite_signs():
    """Owen's formula against scipy's bivariate normal (good to 1e-7), zeros and far
    tails included.
    """
    from scipy import stats

    for x in (0.0, -0.0, 1e-12, 0.3, -2.0, 40.0):
        for y in (0.0, -1e-9, 0.3, -1.0, -1e5):
            for correlation in (-0.9, 0.0, 0.5, 0.99):
                joint = stats.multivariate_normal(
                    [0, 0], [[1, correlation], [correlation, 1]]
                )
                expected = (
                    stats.norm.cdf(-x) + stats.norm.cdf(-y) - 2 * joint.cdf([-x, -y])
                )
                with np.errstate(all="ignore"):
                    laws = [np.array([value]) for value in (x, y, correlation)]
                    probability = opposite_signs(*laws)[0]
                    one_way = negative_positive(*laws)[0]
                assert probability == pytest.approx(expected, abs=1e-6)
                assert one_way == pytest.approx(
                    stats.norm.cdf(-x) - joint.cdf([-x, -y]), abs=1e-6
                )
    certain = negative_positive(
        np.array([0.3, 0.3, 0.0]), np.array([np.inf, -np.inf, np.inf]), np.zeros(3)
    )
    np.testing.assert_allclose(certain, [stats.norm.cdf(-0.3), 0, 0.5], atol=1e-15)
