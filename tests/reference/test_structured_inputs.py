"""Inputs with a covariance, plain: printed values, Sigma = 1, and the engine on a zoo."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import one_step, structured_inputs, structured_readout

from .network_zoo import FUNCTIONS, agree, network

TARGETS = {
    "sin(z)": (np.sin, []),
    "z + 0.5*h2(z)": (lambda z: z + 0.5 * (z**2 - 1), []),
    "tanh(z) + 0.4*h2(z)": (lambda z: np.tanh(z) + 0.4 * (z**2 - 1), []),
    "0.5 + z + 0.4*h2(z)": (lambda z: 0.5 + z + 0.4 * (z**2 - 1), []),
    "relu(z)": (lambda z: np.maximum(z, 0), [0.0]),
}
B1 = {"eigenvalues": [2.5, 0.5], "fractions": [0.25, 0.75]}
B2 = {
    "eigenvalues": [4, 1, 0.2],
    "fractions": [0.1, 0.4, 0.5],
    "shares": [0.2, 0.3, 0.5],
}
B3 = {"eigenvalues": [4, 0.25], "fractions": [0.2, 0.8], "shares": [0.5, 0.5]}
HALVES = ([1, -1], [0.5, 0.5])
ONE = ([1.0], [1.0])
WHITE = {"precondition": 1.0}
ZOO = {
    "one block": ("relu", "z + 0.5*h2(z)", {**B1, "shares": [1, 0]}, HALVES, [2], 2, 1, 0.1, 0.1, {}),
    "C": ("tanh", "sin(z)", {**B1, "shares": [0.5, 0.5]}, ONE, [3], 1.5, 1, 0.1, 0.02, {}),
    "P": ("tanh", "sin(z)", {**B1, "shares": [0.5, 0.5]}, ONE, [3], 1.5, 1, 0.1, 0.02, WHITE),
    "E": ("relu", "0.5 + z + 0.4*h2(z)", B2, ([1, -0.5], [0.7, 0.3]), [1.5], 1.5, 1.5, 0.05, 0.1, {}),
    "two steps": ("relu", "z + 0.5*h2(z)", B3, HALVES, [1.5, 1], 2, 1.5, 0.1, 0.1, {"mesh": 0.2}),
    "J": (
        "tanh(z + 0.7)", "tanh(z) + 0.4*h2(z)", B3, HALVES, [3], 2, 1, 0.05, 0.05, {"gaussian_rows": True},
    ),
    "G": ("tanh", "sin(z)", {**B1, "shares": [0.5, 0.5]}, ONE, [], 1.5, 1, 0.1, 0.02, {}),
    "kinks, correlation": ("erf", "relu(z)", B3, ([1, -0.5], [0.7, 0.3]), [2, 1], 0.5, 1.2, 2.0, 0.0, {
        "loss": "correlation", "mesh": 0.25,
    }),
}  # fmt: skip
PRINTED = {
    "one block": (0.58795838, 0.2262368, 0.7388294),
    "C": (0.15983567, 0.0668036, 0.3526432),
    "P": (0.04729172, 0.0247014, 0.0601655),
    "E": (1.18088993, 0.1416008, 1.9416805),
    "J": (0.59155035, 0.3731731, 1.4014228),
    "G": (0.26809206, 0.0976187, 0.6770473),
}


@pytest.mark.parametrize("name", ZOO)
def test_structured_inputs(name):
    """1e-9; settings of section 12 with their printed values."""
    activation, target, covariance, law, rates, alpha, beta, ridge, noise, more = ZOO[
        name
    ]
    sigma, kinks = FUNCTIONS[activation]
    g, target_kinks = TARGETS[target]
    described = structured_inputs.Network(
        activation=sigma,
        kinks=kinks,
        target=g,
        target_kinks=target_kinks,
        zeta=law[0],
        pi=law[1],
        noise=noise,
        **more,
    )
    inputs = structured_inputs.Inputs(**covariance)
    layer = structured_inputs.start(described, inputs)
    for rate in rates:
        layer = structured_inputs.step(described, inputs, layer, rate)
    errors = structured_readout.read_out(described, inputs, layer, alpha, beta, ridge)
    steps = [
        gs.MaximalStep(rate, loss=described.loss, precondition=described.precondition)
        for rate in rates
    ]
    scenario = network(
        activation,
        target,
        steps,
        alpha,
        beta,
        gs.Ridge(ridge),
        noise=noise,
        second_layer=gs.Vocabulary(*law),
        rows="gaussian" if described.gaussian_rows else "sphere",
        inputs=gs.InputBlocks(**covariance),
    )
    agree(errors, gs.predict(scenario).isel(time=len(rates)), rel=1e-9)
    if name in PRINTED:
        found = [errors.test, errors.train, errors.norm]
        np.testing.assert_allclose(found, PRINTED[name], atol=5.1e-8)


def test_equal_eigenvalues_are_isotropic_inputs():
    """Three blocks that are one: the file without a covariance."""
    described = structured_inputs.Network(
        activation=np.tanh, target=np.sin, zeta=[1, -0.5], pi=[0.7, 0.3], noise=0.1
    )
    inputs = structured_inputs.Inputs([1, 1, 1], [0.2, 0.3, 0.5], [0.3, 0.3, 0.4])
    layer = structured_inputs.start(described, inputs)
    layer = structured_inputs.step(described, inputs, layer, 2.0)
    found = structured_readout.read_out(described, inputs, layer, 1.5, 1.2, 0.1)
    model = one_step.Model(activation=np.tanh, target=np.sin, noise=0.1)
    rows = one_step.population_step(model, [1, -0.5], [0.7, 0.3], eta=2.0)
    expected = one_step.read_out(one_step.features(model, rows), 1.5, 1.2, 0.1)
    assert found.test == pytest.approx(expected.test, rel=1e-11)
    assert found.norm == pytest.approx(expected.norm, rel=1e-11)
