"""Pairs of networks, plain: ridge regression by hand, and the engine on a zoo."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import one_step, several_steps, variance

from .network_zoo import FUNCTIONS, network

# Where the target has a direction that no step learns, the engine says so.
pytestmark = pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")

ENGINE = {
    "bias2": "bias",
    "W": "from_layer",
    "X": "from_samples",
    "E": "from_noise",
    "WX": "from_layer_samples",
    "WE": "from_layer_noise",
}
"""The engine's name of each part."""

THREE = ([1, -1, 0.4], [0.35, 0.35, 0.3])
TWO = ([1, -0.5], [0.7, 0.3])
ONE = ([1.0], [1.0])
ZOO = {
    "odd": ("tanh", "sin(z)", *ONE, 3.0, 1.5, 1.0, 0.1, 0.1, "sphere"),
    "no noise": ("relu", "tanh(2*z)", *TWO, 1.5, 0.6, 1.3, 0.05, 0.0, "sphere"),
    "three blocks": ("relu", "relu(z)", *THREE, 1.0, 2.0, 1.5, 1e-3, 0.05, "sphere"),
    "gaussian rows": (
        *("tanh(z + 0.7)", "z + 0.5*h2(z)"),
        *TWO,
        *(2.0, 4.0, 0.8, 10.0, 0.3, "gaussian"),
    ),
    "no step": ("gelu", "h2(z)", *ONE, 0.0, 0.5, 2.0, 0.1, 0.1, "sphere"),
    "a jump": ("relu(z + 0.5)", "sign(z)", *TWO, 1.2, 1.0, 0.9, 0.5, 0.0, "gaussian"),
}
MEMBERS = (1, 3, np.inf)


def plain(activation, target, zeta, pi, eta, noise, rows):
    """Return the features that the plain file of one step says."""
    sigma, sigma_kinks = FUNCTIONS[activation]
    g, g_kinks = FUNCTIONS[target]
    model = one_step.Model(
        activation=sigma,
        activation_kinks=sigma_kinks,
        target=g,
        target_kinks=g_kinks,
        noise=noise,
    )
    layer = one_step.population_step(
        model, zeta, pi, eta, gaussian_rows=rows == "gaussian"
    )
    return one_step.features(model, layer)


def scenario(activation, target, zeta, pi, eta, alpha, beta, ridge, noise, rows):
    """Return the engine's description of the same network; no step where eta is 0."""
    steps = []
    if eta > 0:
        steps = [gs.MaximalStep(eta)]
    return network(
        activation,
        target,
        steps,
        alpha,
        beta,
        gs.Ridge(ridge),
        noise=noise,
        second_layer=gs.Vocabulary(zeta, pi),
        rows=rows,
    )


def pairs_alike(fit):
    """Return the pairs that share the layer, the samples, nothing."""
    return {
        "layer": variance.same_layer(fit, fit, alpha_12=0.0),
        "samples": variance.own_layers(fit, fit, alpha_12=fit.alpha),
        "nothing": variance.own_layers(fit, fit, alpha_12=0.0),
    }


@pytest.mark.parametrize("name", ZOO)
def test_networks_alike(name):
    """Parts, disagreements and ensembles, relative to the test error."""
    activation, target, zeta, pi, eta, alpha, beta, ridge, noise, rows = ZOO[name]
    features = plain(activation, target, zeta, pi, eta, noise, rows)
    fit = variance.fitted(features, alpha, beta, ridge)
    answer = gs.predict(
        scenario(*ZOO[name]), what="variance", members=list(MEMBERS), progress=False
    ).isel(time=-1)
    scale = 1e-9 * fit.test
    for part, value in variance.parts(fit, noise).items():
        assert value == pytest.approx(float(answer[ENGINE[part]]), abs=scale), part
    for shared, pair in pairs_alike(fit).items():
        of_pair = answer.sel(shared=shared)
        apart = variance.disagreement(fit, fit, pair)
        assert apart == pytest.approx(float(of_pair.disagreement), abs=scale)
        for K in MEMBERS:
            mean = variance.error_of_mean(fit, pair, K)
            found = float(of_pair.ensemble_error.sel(members=K))
            assert mean == pytest.approx(found, abs=scale)
        if target == "sign(z)":
            opposite = variance.opposite_signs(fit, pair)
            found = float(of_pair.sign_disagreement)
            assert opposite == pytest.approx(found, rel=1e-7)


def test_a_spike_beside_the_target():
    """The part of the target that no row has learnt moves all outputs alike: c1."""
    sigma, _ = FUNCTIONS["erf"]
    model = one_step.Model(
        activation=sigma, target=np.sign, target_kinks=[0.0], noise=0.1
    )
    zeta = [1.0, 2.0]
    pi = [0.5, 0.5]
    bulk = [1.0, 0.7]
    layer = one_step.planted_spike(pi, zeta, bulk, gamma=0.7)
    fit = variance.fitted(one_step.features(model, layer), 2.0, 0.7, 0.05)
    spiked = network(
        "erf",
        "sign(z)",
        [gs.PlantedSpike(strength=zeta, bulk=bulk, alignment=0.7)],
        2.0,
        0.7,
        gs.Ridge(0.05),
        noise=0.1,
        second_layer=gs.Vocabulary(zeta, pi),
    )
    answer = gs.predict(spiked, what="variance", progress=False).isel(time=-1)
    assert np.max(np.abs(fit.mean.c1)) > 0.1
    for part, value in variance.parts(fit, 0.1).items():
        assert value == pytest.approx(float(answer[ENGINE[part]]), rel=1e-8), part
    for shared, pair in pairs_alike(fit).items():
        found = float(answer.sign_disagreement.sel(shared=shared))
        assert variance.opposite_signs(fit, pair) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("shared", ["layer", "samples", "both", "nothing"])
def test_fits_of_one_kind_of_layer_that_differ(shared):
    """Two ridges and two numbers of samples; and two widths where layers are own."""
    functions = ("relu", "relu(z)", *THREE, 1.0)
    features = plain(*functions, 0.2, "sphere")
    sizes = ([2.0, 1.5, 0.01], [0.7, 1.5, 0.3])
    if shared in ("samples", "nothing"):
        sizes[1][1] = 0.6
    a, b = (variance.fitted(features, *numbers) for numbers in sizes)
    common = 0.7 if shared in ("samples", "both") else 0.0
    if shared in ("layer", "both"):
        pair = variance.same_layer(a, b, common)
    else:
        pair = variance.own_layers(a, b, common)
    first, second = (scenario(*functions, *numbers, 0.2, "sphere") for numbers in sizes)
    answer = gs.disagreement(first, second, shared)
    found = float(answer.disagreement.sel(source="limit"))
    assert variance.disagreement(a, b, pair) == pytest.approx(found, rel=1e-9)


def test_a_setting_of_the_page():
    """T2 of section 8, after two steps, to the printed digits."""
    described = several_steps.Network(
        activation=lambda z: np.maximum(z, 0),
        kinks=[0.0],
        target=lambda z: z[0] + z[0] * z[1],
        directions=2,
        zeta=[1, -1],
        pi=[0.5, 0.5],
        noise=0.1,
    )
    layer = several_steps.start(described)
    for _ in range(2):
        layer = several_steps.step(described, layer, 2.0)
    features = several_steps.features(described, layer)
    fit = variance.fitted(features, alpha=2.0, beta=1.5, ridge=0.1)
    printed = [0.301923, 0.0525029, 0.0666979, 0.0200644, 0.119122, 0.0304613]
    found = list(variance.parts(fit, noise=0.1).values())
    np.testing.assert_allclose(found, printed, rtol=3e-6)


def test_linear_features_without_end_are_ridge_regression():
    """All rows together say the inputs, and the layer does not matter.

    With l = ridge/alpha the error of the coefficient is l (S + l)^-1, where S is the
    covariance of the sample: Marchenko and Pastur know its mean m l and its square.
    """
    alpha = 2.0
    ridge = 0.3
    noise = 0.2
    model = one_step.Model(activation=lambda z: z, target=lambda z: z, noise=noise)
    rows = one_step.population_step(model, zeta=[1.0], pi=[1.0], eta=0.0)
    features = one_step.features(model, rows)
    # What is left of the layer is of order 1/beta.
    fit = variance.fitted(features, alpha, beta=1e6, ridge=ridge)

    def m(level):
        ratio = 1 / alpha
        b = 1 - ratio + level
        return (np.sqrt(b**2 + 4 * ratio * level) - b) / (2 * ratio * level)

    level = ridge / alpha
    # The mean of (S + l)^-2 is minus the derivative of m.
    square = (m(level - 1e-5) - m(level + 1e-5)) / 2e-5
    expected = {
        "bias2": (level * m(level)) ** 2,
        "W": 0.0,
        "X": level**2 * (square - m(level) ** 2),
        "E": noise / alpha * (m(level) - level * square),
        "WX": 0.0,
        "WE": 0.0,
    }
    assert variance.parts(fit, noise) == pytest.approx(expected, abs=1e-5)


def test_a_fit_and_itself():
    """One layer and all samples: the pair of a fit with itself has its whole Q."""
    features = plain("relu", "relu(z)", *THREE, 1.0, 0.2, "sphere")
    fit = variance.fitted(features, 2.0, 1.5, 0.01)
    itself = variance.same_layer(fit, fit, alpha_12=fit.alpha)
    np.testing.assert_allclose(itself.Q, fit.Q, rtol=1e-10)
    assert features.weights @ itself.RES == pytest.approx(fit.test, rel=1e-12)
    assert variance.opposite_signs(fit, itself) == pytest.approx(0, abs=1e-7)


def test_disagreement_is_what_the_products_of_errors_leave():
    """(f_a - f_b)^2 is the errors of both less twice their product, with c1 in all."""
    model = one_step.Model(activation=np.tanh, target=np.sin, noise=0.1)
    layer = one_step.planted_spike([1.0], [1.1], [1.05], gamma=0.7)
    features = one_step.features(model, layer)
    a = variance.fitted(features, 2.0, 1.5, 0.1)
    b = variance.fitted(features, 0.7, 1.5, 1.0)
    for pair in (variance.same_layer(a, b, 0.7), variance.own_layers(a, b, 0.7)):
        expected = a.test + b.test - 2 * features.weights @ pair.RES
        assert variance.disagreement(a, b, pair) == pytest.approx(expected, rel=1e-10)
