import numpy as np
import pytest
from numpy.polynomial import hermite_e

from giantstep.core.base.errors import InputError
from giantstep.core.maths.gaussian import (
    gauss_legendre_panels,
    hermite_functions,
    hermite_values,
)
from giantstep.core.maths.gaussian.hermite import root_factorials

ORDER = 60


def test_values_agree_with_numpy():
    z = np.linspace(-4, 4, 9)
    values = hermite_values(z, 12)
    for j in range(13):
        expected = hermite_e.hermeval(z, [0.0] * j + [1.0]) / root_factorials(j)[-1]
        np.testing.assert_allclose(values[j], expected, rtol=1e-12, atol=1e-12)


def test_values_keep_the_shape():
    assert hermite_values(np.zeros((2, 3)), 4).shape == (5, 2, 3)
    assert hermite_values(1.0, 0).shape == (1,)


def test_orthonormal_up_to_order_60():
    z, weights = gauss_legendre_panels(np.linspace(-24, 24, 97), 16)
    functions = hermite_functions(z, ORDER)
    np.testing.assert_allclose(
        (functions * weights) @ functions.T, np.eye(ORDER + 1), atol=1e-13
    )


def test_negative_order_is_refused():
    with pytest.raises(InputError, match="order"):
        hermite_values(0.0, -1)
