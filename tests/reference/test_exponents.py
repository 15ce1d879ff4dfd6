"""The engine of exponents and staircases beside `giantstep.reference.exponents`."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import exponents
from giantstep.reference.averages import hermite_points, panel_points

KINK = (0.0,)
ONE = [
    ("tanh(z)", np.tanh, ()),
    ("relu(z)", lambda z: np.maximum(z, 0), KINK),
    ("sign(z)", np.sign, KINK),
    ("abs(z)", np.abs, KINK),
    ("cos(z)", np.cos, ()),
    ("h3(z)", lambda z: z**3 - 3 * z, ()),
    ("h4(z)", lambda z: z**4 - 6 * z**2 + 3, ()),
    ("h2(z) + h3(z)", lambda z: z**2 - 1 + z**3 - 3 * z, ()),
    ("z**2*exp(-z**2)", lambda z: z**2 * np.exp(-(z**2)), ()),
]


@pytest.mark.parametrize(("target", "h", "kinks"), ONE)
def test_one_direction(target, h, kinks):
    found = gs.exponents(target)
    assert found.information == exponents.information(h, kinks=kinks)
    assert found.generative == exponents.generative(h)


MANY = [
    ("z1*z2", lambda z: z[0] * z[1]),
    ("z1 + z1*z2", lambda z: z[0] + z[0] * z[1]),
    ("z1 + h3(z2)", lambda z: z[0] + z[1] ** 3 - 3 * z[1]),
    ("z1 + z2*z3", lambda z: z[0] + z[1] * z[2]),
    ("z1*z2*z3", lambda z: z[0] * z[1] * z[2]),
    ("h3(z1) + z1*z2*z3", lambda z: z[0] ** 3 - 3 * z[0] + z[0] * z[1] * z[2]),
    (
        "(z1 + z1**2 + z2 - z2**2)/2",
        lambda z: (z[0] + z[0] ** 2 + z[1] - z[1] ** 2) / 2,
    ),
]


@pytest.mark.parametrize(("target", "h"), MANY)
def test_the_staircase_of_a_polynomial(target, h):
    """Gauss-Hermite is exact: powers to 4 of a cubic times tests of degree 4 each."""
    points, weights = hermite_points(3 if "z3" in target else 2, 12)
    found = gs.exponents(target)
    one_pass = exponents.stages(h, points, weights, [exponents.identity])
    repeated = exponents.stages(h, points, weights, exponents.powers(4))
    assert found.leap_stages == one_pass
    assert found.generative_stages == repeated


@pytest.mark.parametrize("factors", [2, 3])
def test_the_staircase_of_a_parity(factors):
    line, mass = panel_points(KINK, width=2.5, count=14)
    axes = np.meshgrid(*[line] * factors, indexing="ij")
    weights = np.prod(np.meshgrid(*[mass] * factors, indexing="ij"), axis=0).ravel()
    heavy = weights > 1e-18
    points = np.stack([axis.ravel() for axis in axes], axis=1)[heavy]
    weights = weights[heavy]

    def h(z):
        return np.sign(np.prod(z, axis=0))

    target = "sign(" + "*".join(f"z{r + 1}" for r in range(factors)) + ")"
    found = gs.exponents(target)
    transforms = exponents.indicators([-1.0, 1.0])
    expected = exponents.stages(h, points, weights, transforms, highest=3)
    assert found.generative_stages == expected


def test_coefficients_in_closed_form():
    """Those of relu, and those of tanh as the page prints them."""
    root = 1 / np.sqrt(2 * np.pi)
    relu = exponents.coefficients(lambda z: np.maximum(z, 0), 6, kinks=KINK)
    np.testing.assert_allclose(
        relu, [root, 0.5, root, 0, -root, 0, 3 * root], atol=1e-12
    )
    tanh = exponents.coefficients(np.tanh, 5)
    np.testing.assert_allclose(
        tanh, [0, 0.605706, 0, -0.363595, 0, 0.685174], atol=5e-7
    )
