import numpy as np
import pytest
from scipy.special import erf, gamma, ndtr

from giantstep.core.maths.gaussian import (
    expectation,
    gauss_legendre_panels,
    normal_density,
    normal_distribution,
    trapezoid_rule,
)

C = 1 / np.sqrt(2 * np.pi)
TABLE = {
    "one": (lambda z: np.ones_like(z), (), 1.0),
    "z^8": (lambda z: z**8, (), 105.0),
    "z^20": (lambda z: z**20, (), 654729075.0),
    "relu": (lambda z: np.maximum(z, 0), (0.0,), C),
    "relu, kink not declared": (lambda z: np.maximum(z - 0.1234, 0), (), None),
    "sign shifted": (lambda z: np.sign(z - 0.3), (0.3,), -erf(0.3 / np.sqrt(2))),
    "sign shifted, not declared": (
        lambda z: np.sign(z - 0.3),
        (),
        -erf(0.3 / np.sqrt(2)),
    ),
    "cos 5z": (lambda z: np.cos(5 * z), (), np.exp(-12.5)),
    "cos 40z": (lambda z: np.cos(40 * z), (), 0.0),
    "exp 3z": (lambda z: np.exp(3 * z), (), np.exp(4.5)),
    "exp 8z": (lambda z: np.exp(8 * z), (), np.exp(32.0)),
    "exp z^2/4": (lambda z: np.exp(z * z / 4), (), np.sqrt(2)),
    "sqrt|z|": (
        lambda z: np.sqrt(np.abs(z)),
        (0.0,),
        2**0.25 * gamma(0.75) / np.sqrt(np.pi),
    ),
    "log|z|": (lambda z: np.log(np.abs(z)), (0.0,), -(np.euler_gamma + np.log(2)) / 2),
    "|z|^-1/2": (
        lambda z: np.abs(z) ** -0.5,
        (0.0,),
        2**-0.25 * gamma(0.25) / np.sqrt(np.pi),
    ),
    "narrow": (lambda z: np.exp(-1e6 * z * z / 2), (), 1 / np.sqrt(1 + 1e6)),
}


def exact(name):
    value = TABLE[name][2]
    k = 0.1234
    if value is None:
        return normal_density(k) - k * (1 - erf(k / np.sqrt(2))) / 2
    return value


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("tolerance", [1e-4, 1e-8, 1e-12])
def test_reported_error_never_understates(name, tolerance):
    f, kinks, _ = TABLE[name]
    value, error = expectation(f, kinks, tolerance)
    assert abs(value - exact(name)) <= error


@pytest.mark.parametrize("name", [name for name in TABLE if not name.startswith("|z|")])
def test_error_meets_the_tolerance(name):
    f, kinks, _ = TABLE[name]
    value, error = expectation(f, kinks)
    assert error <= 2e-12 * expectation(lambda z: np.abs(f(z)), kinks)[0]


@pytest.mark.parametrize(
    "f",
    [lambda z: np.exp(z * z), lambda z: np.exp(0.6 * z * z), lambda z: 1 / np.abs(z)],
)
def test_divergence_shows_in_the_error(f):
    value, error = expectation(f, (0.0,))
    assert not error < 1e-3 * abs(value)


def test_values_that_are_not_finite_give_an_infinite_error():
    value, error = expectation(lambda z: np.sqrt(z))
    assert error == np.inf


def test_array_valued():
    value, error = expectation(
        lambda z: np.stack([[z, z**2], [np.abs(z), z**4]]), (0.0,)
    )
    np.testing.assert_allclose(value, [[0, 1], [2 * C, 3]], atol=1e-12)
    assert error.shape == (2, 2) and np.all(error < 1e-10)


def test_panels_over_a_batch_of_edges():
    edges = np.array([[0.0, 0.5, 2.0], [-1.0, -1.0, 3.0]])
    nodes, weights = gauss_legendre_panels(edges, 5)
    assert nodes.shape == weights.shape == (2, 10)
    np.testing.assert_allclose(
        (weights * nodes**9).sum(axis=1), (edges[:, -1] ** 10 - edges[:, 0] ** 10) / 10
    )


def test_trapezoid_rule():
    nodes, weights = trapezoid_rule(0.06, 9.6)
    assert nodes[0] == -nodes[-1] == pytest.approx(-9.6)
    assert weights.sum() == pytest.approx(1, abs=1e-15)
    assert weights @ np.tanh(nodes) == pytest.approx(0, abs=1e-16)
    assert weights @ np.cos(nodes) == pytest.approx(np.exp(-0.5), abs=1e-15)


def test_the_normal_distribution_keeps_its_digits_in_both_tails():
    z = np.linspace(-36, 36, 1001)
    np.testing.assert_allclose(normal_distribution(z), ndtr(z), rtol=3e-13)
    assert normal_distribution([-np.inf, 0.0, np.inf]).tolist() == [0.0, 0.5, 1.0]
    assert normal_distribution(np.empty((2, 0))).shape == (2, 0)
