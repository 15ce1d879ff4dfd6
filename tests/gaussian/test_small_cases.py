"""Small cases whose answers are known by heart."""

import numpy as np
import pytest

from giantstep.core.maths.gaussian import (
    expectation,
    gauss_legendre_panels,
    gram_factor,
    hermite_values,
    parse_expression,
    semidefinite_factor,
    trapezoid_rule,
)
from giantstep.core.maths.gaussian.edges import find_edges
from giantstep.core.maths.gaussian.grids import gauss_rule, interval_rule
from giantstep.core.maths.gaussian.subspaces import direction_text


def test_edges():
    assert find_edges(lambda z: np.maximum(z - 0.3, 0) + 0.1 * np.sign(z + 1.25)) == (
        -1.25,
        0.3,
    )
    assert find_edges(lambda z: np.tanh(300 * z)) == ()


def test_rules():
    nodes, weights = interval_rule(0.0, np.inf, 6)
    assert (weights @ nodes**2, weights @ nodes) == pytest.approx(
        (0.5, 0.398942280401), abs=1e-12
    )
    points = np.linspace(0.0, 1.0, 50)
    nodes, weights = gauss_rule(points, np.full(50, 0.02), 6)
    assert weights @ nodes**11 == pytest.approx(np.mean(points**11), abs=1e-12)
    nodes, weights = gauss_legendre_panels([0.0, 1.0, 3.0], 4)
    assert round(float(weights @ nodes**3), 12) == 20.25
    nodes, weights = trapezoid_rule(0.5, 10.0)
    assert round(float(weights @ nodes**4), 12) == 3.0
    value, error = expectation(lambda z: np.maximum(z, 0.0), kinks=[0.0])
    assert abs(value - 1 / np.sqrt(2 * np.pi)) < error < 1e-11


def test_factors_and_polynomials():
    L = semidefinite_factor([[1.0, 1.0], [1.0, 1.0]])
    assert (L @ L.T).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert L[1, 1] == 0
    assert gram_factor(np.array([[3.0, 1.0, 2.0]])).T.tolist() == [[3.0, 1.0, 2.0]]
    assert np.array_equal(hermite_values(2.0, 2) * np.sqrt([1, 1, 2]), [1.0, 2.0, 3.0])
    assert direction_text(np.array([0.70710678, -0.70710678])) == "0.707 z1 - 0.707 z2"


def test_expressions():
    assert parse_expression("2*erf(z/sqrt(4)) - 1 + 0").text == "2*erf(z/2) - 1"
    assert parse_expression("relu(z) - 1/sqrt(2*pi)").variables == ("z",)
    assert parse_expression("z1*z2**2").derivative({"z1": 2.0, "z2": 3.0}, "z2") == 12.0
    assert [
        kink.position for kink in parse_expression("relu(2*z - 1) + sign(z)").kinks()
    ] == [0.0, 0.5]
    assert parse_expression("h2(z)/2 + h1(z)").as_polynomial().tolist() == [
        -0.5,
        1.0,
        0.5,
    ]
    form = parse_expression("1 - tanh(2*(z - 3))").as_affine_of_known()
    assert (form.function, form.factor, form.scale, form.shift, form.constant) == (
        "tanh",
        -1.0,
        2.0,
        -6.0,
        1.0,
    )
