"""Several giant steps, plain: printed values, a step by hand, and the engine on a zoo."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import one_step, several_steps

from .network_zoo import FUNCTIONS, agree, network

# Directions that no step learns are part of the zoo; the engine says so.
pytestmark = pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")

TARGETS = {
    "z1 + z1*z2": (2, lambda z: z[0] + z[0] * z[1]),
    "z1 + 0.7*h2(z1)*z2": (2, lambda z: z[0] + 0.7 * (z[0] ** 2 - 1) * z[1]),
    "0.5 + z1 + z1*z2 - 0.5*h2(z2)": (
        2,
        lambda z: 0.5 + z[0] + z[0] * z[1] - 0.5 * (z[1] ** 2 - 1),
    ),
    "z + 0.3*h3(z)": (1, lambda z: z[0] + 0.3 * (z[0] ** 3 - 3 * z[0])),
    "z1 + z2*z3": (3, lambda z: z[0] + z[1] * z[2]),
    "relu(z1) + abs(z2)": (2, lambda z: np.maximum(z[0], 0) + np.abs(z[1])),
    "z1 + z1*z2 + z3*tanh(z1)": (
        3,
        lambda z: z[0] + z[0] * z[1] + z[2] * np.tanh(z[0]),
    ),
}


def plain(activation, target, zeta, pi, **more):
    sigma, kinks = FUNCTIONS[activation]
    directions, g = TARGETS[target]
    return several_steps.Network(
        activation=sigma,
        kinks=kinks,
        target=g,
        directions=directions,
        zeta=zeta,
        pi=pi,
        **more,
    )


SIGNS = ([1, -1], [0.5, 0.5])
UNEQUAL = ([1, -0.6], [0.6, 0.4])
THREE = ([1, -1, 0.4], [0.35, 0.35, 0.3])
ZOO = {
    "A3": ("relu", "z1 + z1*z2", SIGNS, [2, 2, 2], 2.0, 1.5, 0.1, {"noise": 0.1}),
    "odd": ("erf", "z1 + 0.7*h2(z1)*z2", UNEQUAL, [2, 2], 3.0, 1.2, 0.05, {"noise": 0.05}),
    "a mean": ("tanh(z + 0.7)", "0.5 + z1 + z1*z2 - 0.5*h2(z2)", UNEQUAL, [1.5, 1], 0.5, 1.0, 1e-3, {}),
    "gaussian rows": ("erf", "z + 0.3*h3(z)", ([1], [1.0]), [3, 1], 1.5, 1.0, 0.1, {"gaussian_rows": True}),
    "correlation": (
        "erf", "z1 + 0.7*h2(z1)*z2", UNEQUAL, [2, 2], 3.0, 1.2, 5.0,
        {"noise": 0.05, "loss": "correlation", "gaussian_rows": True},
    ),
    "three directions": ("relu", "z1 + z2*z3", SIGNS, [2, 2], 2.0, 1.0, 0.1, {"noise": 0.1, "mesh": 0.3}),
    "three values": ("relu(z + 0.5)", "z1 + z1*z2", THREE, [2, 0.5], 1.2, 1.6, 0.05, {"noise": 0.2}),
    "kinks": ("tanh", "relu(z1) + abs(z2)", SIGNS, [2, 1], 0.7, 1.0, 1e-3, {"target_kinks": [0.0]}),
}  # fmt: skip


@pytest.mark.parametrize("name", ZOO)
def test_steps(name):
    """At most 3e-12 was seen where this was written; three directions are on a coarse grid."""
    activation, target, (zeta, pi), rates, alpha, beta, ridge, more = ZOO[name]
    described = plain(activation, target, zeta, pi, **more)
    layer = several_steps.start(described)
    for rate in rates:
        layer = several_steps.step(described, layer, rate)
    errors = several_steps.read_out(
        several_steps.features(described, layer), alpha, beta, ridge
    )
    rows = "gaussian" if described.gaussian_rows else "sphere"
    steps = [gs.MaximalStep(rate, loss=described.loss) for rate in rates]
    law = gs.Vocabulary(zeta, pi)
    scenario = network(
        activation,
        target,
        steps,
        alpha,
        beta,
        gs.Ridge(ridge),
        noise=described.noise,
        second_layer=law,
        rows=rows,
    )
    agree(errors, gs.predict(scenario).isel(time=len(rates)), rel=1e-9)
    if name == "A3":
        # Printed in few_steps_readout section 14.
        assert errors.test == pytest.approx(0.62289614, abs=5.1e-9)
        np.testing.assert_allclose(
            layer.U, [[1.817788, 1.030901], [-1.817788, 1.030901]], atol=5e-7
        )
        np.testing.assert_allclose(layer.s, 0.923152, atol=5e-7)


def test_planted_shifts():
    """Setting E of section 14: two learnt directions of three. The grid is coarse: 1e-7."""
    U = np.array([[1.2, 0.3, 0], [-0.5, 1, 0], [0.4, -1.5, 0]])
    s = np.array([1, 0.8, 1.2])
    described = plain(
        "tanh",
        "z1 + z1*z2 + z3*tanh(z1)",
        [1, 1, 1],
        [0.4, 0.3, 0.3],
        noise=0.1,
        mesh=0.3,
    )
    begin = several_steps.start(described)
    layer = several_steps.Layer(U=U, s=s, J=begin.J * s[:, None, None])
    errors = several_steps.read_out(
        several_steps.features(described, layer), 2.0, 1.5, 0.05
    )
    found = [errors.test, errors.train, errors.norm]
    np.testing.assert_allclose(found, [2.16455174, 0.80018263, 4.31350825], rtol=1e-7)


def test_one_step_by_hand():
    """(8.6): U = (+-e/2, 0), s = 1, and the spread in closed form."""
    described = plain("relu", "z1 + z1*z2", *SIGNS)
    layer = several_steps.step(described, several_steps.start(described), rate=1.3)
    np.testing.assert_allclose(layer.U, [[0.65, 0], [-0.65, 0]], atol=1e-12)
    np.testing.assert_allclose(layer.s, 1, atol=1e-12)
    b = 1.3 / np.sqrt(2 * np.pi)
    expected = [[[1, b], [b, 1], [0, 0]], [[1, -b], [-b, 1], [0, 0]]]
    np.testing.assert_allclose(layer.J, expected, atol=1e-12)


def test_one_step_on_one_direction_is_one_step():
    """Two files, two formulas: (5.5) of spiked_features and (3.3) of few_steps_readout."""
    described = plain(
        "relu", "z + 0.3*h3(z)", *UNEQUAL, noise=0.1, gaussian_rows=True, mesh=0.05
    )
    layer = several_steps.step(described, several_steps.start(described), rate=1.5)
    errors = several_steps.read_out(
        several_steps.features(described, layer), 2.0, 1.3, 0.05
    )
    model = one_step.Model(
        activation=described.activation,
        activation_kinks=[0.0],
        target=lambda z: z + 0.3 * (z**3 - 3 * z),
        noise=0.1,
    )
    rows = one_step.population_step(model, *UNEQUAL, eta=1.5, gaussian_rows=True)
    again = one_step.read_out(one_step.features(model, rows), 2.0, 1.3, 0.05)
    assert errors.test == pytest.approx(again.test, rel=1e-11)
    assert errors.norm == pytest.approx(again.norm, rel=1e-11)
