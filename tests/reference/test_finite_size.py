"""A finite dimension, plain: printed values, closed forms, and the engine on a zoo."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import finite_size, several_steps

from .network_zoo import FUNCTIONS, network

TARGETS = {
    "sin(z)": (1, lambda z: np.sin(z[0])),
    "tanh(z)": (1, lambda z: np.tanh(z[0])),
    "z + 0.5*h2(z)": (1, lambda z: z[0] + 0.5 * (z[0] ** 2 - 1)),
    "z1 + 0.7*h2(z1)*z2": (2, lambda z: z[0] + 0.7 * (z[0] ** 2 - 1) * z[1]),
}


def plain(activation, target, zeta, pi, **more):
    sigma, kinks = FUNCTIONS[activation]
    directions, g = TARGETS[target]
    return finite_size.Network(
        activation=sigma,
        kinks=kinks,
        target=g,
        directions=directions,
        zeta=zeta,
        pi=pi,
        **more,
    )


ONE = ([1], [1.0])
TWICE = ([2], [1.0])
SIGNS = ([1, -1], [0.6, 0.4])
UNEQUAL = ([1, -0.5], [0.7, 0.3])
THREE = ([1, -1, 0.5], [0.4, 0.3, 0.3])
# Activation, target, second layer, rates, alpha, beta, ridge, d, noise and more.
ZOO = {
    "A1": ("tanh", "sin(z)", ONE, [3], 1.5, 1.0, 0.1, 200, {"noise": 0.02}),
    "B2": ("tanh", "sin(z)", TWICE, [2.5, 1], 1.5, 1.0, 0.02, 200, {"noise": 0.01}),
    "a mean": ("softplus", "tanh(z)", SIGNS, [4, 2], 1.5, 1.2, 0.02, 100, {"noise": 0.01}),
    "rounding": ("erf", "tanh(z)", UNEQUAL, [3, 2], 2.03, 0.77, 1e-3, 31, {"noise": 0.05}),
    "kinks": ("relu", "z + 0.5*h2(z)", ONE, [1.5], 2.0, 1.0, 5.0, 80, {}),
    "correlation": ("tanh(z + 0.7)", "sin(z)", ONE, [2, 1], 0.7, 1.5, 0.1, 60, {"loss": "correlation"}),
    "three values": ("softplus", "tanh(z)", THREE, [3], 0.5, 1.2, 0.05, 120, {"noise": 0.1}),
    "two directions": (
        "erf", "z1 + 0.7*h2(z1)*z2", SIGNS, [2, 2], 3.0, 1.2, 0.05, 200, {"noise": 0.05, "mesh": 0.3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ZOO)
def test_steps_and_read_out(name):
    """Two directions are on a coarse grid: 6e-11 was seen, else 2e-13."""
    activation, target, (zeta, pi), rates, alpha, beta, ridge, dim, more = ZOO[name]
    described = plain(activation, target, zeta, pi, **more)
    size = finite_size.Size(described, alpha, beta, dim)
    layer = finite_size.start(size)
    for rate in rates:
        layer = finite_size.step(size, layer, rate)
    errors = finite_size.read_out(size, layer, ridge)
    scenario = network(
        activation,
        target,
        [gs.MaximalStep(rate, loss=described.loss) for rate in rates],
        alpha,
        beta,
        gs.Ridge(ridge),
        noise=described.noise,
        second_layer=gs.Vocabulary(zeta, pi),
    )
    result = gs.predict(scenario, dim=dim, theory="exact").isel(time=len(rates))
    assert "all terms" in result.attrs["finite_size"]
    found = [
        float(result[one]) for one in ("test_error", "train_error", "norm", "objective")
    ]
    expected = [errors.test, errors.train, errors.norm, errors.objective]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    # few_steps_readout (4.10) before the parameters are counted.
    assert errors.identity < 1e-11
    # Printed in finite_size_steps section 11.
    if name == "A1":
        assert errors.test == pytest.approx(0.05052866, abs=5.1e-9)
    if name == "B2":
        assert errors.test == pytest.approx(0.03839818, abs=5.1e-9)


def test_one_step_in_closed_form():
    """(2.3), (2.5) and (2.6) for relu, whose integrals are known."""
    zeta = np.array([1, -0.5])
    described = plain("relu", "tanh(z)", *UNEQUAL)
    size = finite_size.Size(described, alpha=1.5, beta=1.0, dim=90)
    np.testing.assert_array_equal(size.p_q, [63, 27])
    layer = finite_size.step(size, finite_size.start(size), rate=1.3)
    # c0 = c2 = 1/sqrt(2 pi), c1 = 1/2, and tanh has no mean.
    e = 1.3 * zeta
    pi_zeta = np.array([0.7, 0.3]) * zeta
    s = 1 - e * pi_zeta.sum() / (2 * np.pi)
    F = np.diag(s) - np.outer(e, pi_zeta) / 4
    np.testing.assert_allclose(layer.F, F, rtol=1e-12)
    f = e * zeta / 90 * (1 / 2 - 1 / 4 - 1 / (2 * np.pi))
    np.testing.assert_allclose(layer.beside, s - f, rtol=1e-12)
    length = (s - f) ** 2 * (1 - 1 / size.p_q) + F**2 @ (1 / size.p_q)
    np.testing.assert_allclose(layer.rows.s**2, length, rtol=1e-12)
    # The second line of (2.3), with the products of the means before (2.4) scales them.
    Gamh = finite_size.gram_of_means(size, layer)
    Gamma = Gamh * np.outer(layer.rows.s, layer.rows.s)
    bracket = (pi_zeta @ zeta) / 4 - (s[:, None] + s) / 1.3
    expected = np.diag(s**2 / [0.7, 0.3]) + np.outer(e, e) / 4 * bracket
    np.testing.assert_allclose(90 * Gamma, expected, rtol=1e-12)


def test_a_large_dimension_is_the_limit():
    """All of it is of order 1/d."""
    described = plain("tanh", "sin(z)", *TWICE, noise=0.02)
    layer = several_steps.step(described, several_steps.start(described), rate=2.5)
    features = several_steps.features(described, layer)
    limit = several_steps.read_out(features, 1.5, 1.0, 0.1)
    away = []
    for dim in (10**6, 10**7):
        size = finite_size.Size(described, alpha=1.5, beta=1.0, dim=dim)
        finite = finite_size.step(size, finite_size.start(size), rate=2.5)
        away.append(finite_size.read_out(size, finite, ridge=0.1).test - limit.test)
    assert abs(away[0]) < 1e-4 * limit.test
    assert away[0] / away[1] == pytest.approx(10, rel=1e-3)


def test_a_direction_that_is_not_learnt_is_refused():
    described = plain("erf", "z1 + 0.7*h2(z1)*z2", *SIGNS, mesh=0.5)
    size = finite_size.Size(described, alpha=1.5, beta=1.0, dim=100)
    layer = finite_size.step(size, finite_size.start(size), rate=2.0)
    with pytest.raises(ValueError, match="not been learnt"):
        finite_size.read_out(size, layer, ridge=0.1)


def test_gaussian_rows_are_refused():
    described = plain("erf", "tanh(z)", *ONE, gaussian_rows=True)
    with pytest.raises(ValueError, match="sphere"):
        finite_size.Size(described, alpha=1.5, beta=1.0, dim=100)
