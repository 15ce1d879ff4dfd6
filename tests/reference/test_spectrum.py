"""The spectrum, plain: Marchenko and Pastur, printed values, and the engine on a zoo."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import one_step, several_steps, spectrum

from .network_zoo import FUNCTIONS, network

# Directions that are not learnt are part of the zoo; the engine says so.
pytestmark = pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")

TWO = ([1, -0.5], [0.7, 0.3])
ZOO = {
    "untrained": ("tanh", "sin(z)", [1.0], [1.0], 0.0, 1.5, 1.0, "sphere"),
    "fewer samples": ("erf", "sin(z)", [1.0], [1.0], 1.5, 0.6, 1.5, "sphere"),
    "a mean": ("tanh(z + 0.7)", "z + 0.5*h2(z)", *TWO, 1.5, 3.0, 1.0, "sphere"),
    "kinks": ("relu", "tanh(2*z)", *TWO, 1.5, 2.0, 1.3, "sphere"),
    "gaussian rows": ("softplus", "sin(z)", *TWO, 3.0, 4.0, 0.8, "gaussian"),
    "one value": ("relu(z + 0.5)", "sin(z)", [1.0], [1.0], 1.0, 5.0, 1.0, "sphere"),
}


def features_of(activation, target, zeta, pi, eta, rows):
    sigma, sigma_kinks = FUNCTIONS[activation]
    g, _ = FUNCTIONS[target]
    model = one_step.Model(activation=sigma, activation_kinks=sigma_kinks, target=g)
    layer = one_step.population_step(
        model, zeta, pi, eta, gaussian_rows=rows == "gaussian"
    )
    return one_step.features(model, layer)


@pytest.mark.parametrize("name", ZOO)
def test_bulk(name):
    """1e-7: Im z = 1e-7 x on both sides, and an edge extrapolated from just above it."""
    activation, target, zeta, pi, eta, alpha, beta, rows = ZOO[name]
    features = features_of(activation, target, zeta, pi, eta, rows)
    edge = spectrum.upper_edge(features, alpha, beta)
    x = edge * np.array([0.2, 0.6])
    found = [spectrum.density(features, alpha, beta, place) for place in x]
    steps = [gs.MaximalStep(eta)]
    law = gs.Vocabulary(zeta, pi)
    scenario = network(
        activation,
        target,
        steps,
        alpha,
        beta,
        gs.Ridge(0.1),
        second_layer=law,
        rows=rows,
    )
    result = gs.predict(scenario, what="spectrum", x=x.tolist()).isel(time=1)
    assert edge == pytest.approx(float(result.upper_edge), rel=1e-8)
    np.testing.assert_allclose(found, result.density, rtol=1e-7)


def planted(sigma, kinks, u, pi):
    model = one_step.Model(activation=sigma, activation_kinks=kinks, target=np.sin)
    return one_step.features(
        model, one_step.planted_spike(pi, u, [1.0] * len(u), gamma=1.0)
    )


def test_an_outlier_beside_the_bulk():
    """Section 7.4 of spiked_features: the edge 9.14196, the outlier 10.3297; and the engine."""
    features = planted(lambda z: np.tanh(2 * (z - 2)), [], [0.7], [1.0])
    found = spectrum.outliers(features, alpha=60.0, beta=6.0)
    assert spectrum.upper_edge(features, 60.0, 6.0) == pytest.approx(
        9.14196, abs=5.1e-6
    )
    assert found == pytest.approx([10.3297], abs=5.1e-5)
    steps = [gs.PlantedSpike(strength=0.7)]
    law = gs.Vocabulary([1.0])
    scenario = network(
        "tanh(2*(z - 2))", "sin(z)", steps, 60.0, 6.0, gs.Ridge(0.1), second_layer=law
    )
    outliers = gs.predict(scenario, what="spectrum").isel(time=1).outliers.values
    assert outliers[np.isfinite(outliers)] == pytest.approx(found, rel=1e-9)


def test_outliers_of_a_finite_dimension():
    """A2 of few_steps_readout section 7: the edge 3.3654059, and 924 and 719 at d = 600."""
    sigma, kinks = FUNCTIONS["relu"]
    described = several_steps.Network(
        activation=sigma,
        kinks=kinks,
        target=lambda z: z[0] + z[0] * z[1],
        directions=2,
        zeta=[1, -1],
        pi=[0.5, 0.5],
        mesh=0.4,
    )
    layer = several_steps.step(described, several_steps.start(described), 2.0)
    features = several_steps.features(
        described, several_steps.step(described, layer, 2.0)
    )
    # The grid is coarse.
    assert spectrum.upper_edge(features, 2.0, 1.5) == pytest.approx(3.3654059, abs=1e-4)
    m = spectrum.stieltjes(features, 2.0, 1.5, 1 + 0.1j)
    assert m == pytest.approx(-0.8444019 + 0.7203357j, abs=1e-4)
    found = spectrum.outliers(features, 2.0, 1.5, dim=600)
    assert found == pytest.approx([924, 719], abs=0.5)


@pytest.mark.parametrize("ratio", [0.5, 3.0])
def test_marchenko_pastur(ratio):
    features = planted(lambda z: z**2 - 1, [], [0.0], [1.0])
    low = 2 * (1 - np.sqrt(ratio)) ** 2
    high = 2 * (1 + np.sqrt(ratio)) ** 2
    assert spectrum.upper_edge(features, ratio, 1.0) == pytest.approx(high, rel=1e-9)
    for x in (0.3 * high, 0.8 * high):
        expected = np.sqrt((high - x) * (x - low)) / (4 * np.pi * x)
        assert spectrum.density(features, ratio, 1.0, x) == pytest.approx(
            expected, rel=1e-6
        )
