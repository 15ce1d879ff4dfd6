"""One giant step, plain: printed values of the page, and the engine on a zoo of networks."""

import pytest

import giantstep as gs
from giantstep.reference import one_step

from .network_zoo import FUNCTIONS, agree, network


def model_of(activation, target, noise):
    sigma, sigma_kinks = FUNCTIONS[activation]
    g, g_kinks = FUNCTIONS[target]
    return one_step.Model(
        activation=sigma,
        activation_kinks=sigma_kinks,
        target=g,
        target_kinks=g_kinks,
        noise=noise,
    )


THREE = ([1, -1, 0.4], [0.35, 0.35, 0.3])
TWO = ([1, -0.5], [0.7, 0.3])
STEPS = {
    "odd": ("tanh", "sin(z)", [1.0], [1.0], 3.0, 1.5, 1.0, 0.1, 0.0, {}),
    "a mean before the step": ("relu", "tanh(2*z)", *TWO, 1.5, 0.6, 1.3, 0.05, 0.1, {}),
    "kinks": ("relu", "relu(z)", *THREE, 1.0, 2.0, 1.5, 1e-3, 0.05, {}),
    "correlation": (
        "relu",
        "relu(z)",
        *THREE,
        1.0,
        2.0,
        1.5,
        1e-3,
        0.05,
        {"loss": "correlation"},
    ),
    "gaussian rows": (
        "tanh(z + 0.7)",
        "z + 0.5*h2(z)",
        *TWO,
        2.0,
        4.0,
        0.8,
        10.0,
        0.3,
        {"rows": "gaussian"},
    ),
    "no step": ("gelu", "h2(z)", *TWO, 0.0, 0.5, 2.0, 0.1, 0.1, {}),
    "a jump": (
        "relu(z + 0.5)",
        "sign(z)",
        *TWO,
        1.2,
        1.0,
        1.0,
        0.5,
        0.0,
        {"rows": "gaussian"},
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_on_the_population(name):
    """Both sides integrate to rounding: 1e-9 is a thousand times what was seen, 5e-14."""
    activation, target, zeta, pi, eta, alpha, beta, ridge, noise, more = STEPS[name]
    rows = more.get("rows", "sphere")
    loss = more.get("loss", "square")
    model = model_of(activation, target, noise)
    layer = one_step.population_step(
        model, zeta, pi, eta, loss=loss, gaussian_rows=rows == "gaussian"
    )
    errors = one_step.read_out(one_step.features(model, layer), alpha, beta, ridge)
    steps = [gs.MaximalStep(eta, loss=loss)]
    law = gs.Vocabulary(zeta, pi)
    scenario = network(
        activation,
        target,
        steps,
        alpha,
        beta,
        gs.Ridge(ridge),
        noise=noise,
        second_layer=law,
        rows=rows,
    )
    agree(errors, gs.predict(scenario).isel(time=1), rel=1e-9)


FOUR = ([1.0, -0.5, 1.5, -2.0], [0.7, 0.1, 0.1, 0.1], [1.0, 1.0, 1.0, 1.0])
SPIKES = {
    "R1": (
        "tanh",
        "sin(z)",
        [1.1],
        [1.0],
        [1.05],
        0.95,
        1.5,
        1.0,
        0.1,
        0.0,
        "sphere",
        0.05214127,
    ),
    "R4": ("relu", "tanh", *FOUR, 0.5, 1.5, 1.5, 0.01, 0.0, "sphere", 0.40648905),
    "R5": (
        "erf",
        "sign(z)",
        [1, 2],
        [0.5, 0.5],
        [1, 0.7],
        0.7,
        2.0,
        0.7,
        0.05,
        0.0,
        "sphere",
        0.69916424,
    ),
    "R6": (
        "relu",
        "relu(z)",
        [1.0],
        [1.0],
        [1.0],
        0.5,
        4.0,
        4.0,
        0.1,
        0.0,
        "sphere",
        0.10694249,
    ),
    "R8": (
        "tanh",
        "sin(z)",
        [2.0],
        [1.0],
        [1.0],
        1.0,
        1.0,
        1.0,
        1e-4,
        0.1,
        "sphere",
        3.5671595,
    ),
    "R11": (
        "softplus",
        "relu(z)",
        [1.5, -1.5],
        [0.5, 0.5],
        [1, 1],
        1.0,
        3.0,
        1.2,
        0.02,
        0.1,
        "sphere",
        0.19673843,
    ),
    "5.4": (
        "tanh",
        "sin(z)",
        [1.5],
        [1.0],
        [1.0],
        1.0,
        1.5,
        1.0,
        0.05,
        0.0,
        "gaussian",
        0.01248,
    ),
}


@pytest.mark.parametrize("name", SPIKES)
def test_planted_spikes(name):
    """Printed values of spiked_features sections 5.4 and 16, and the engine."""
    activation, target, u, pi, s, gamma, alpha, beta, ridge, noise, rows, printed = (
        SPIKES[name]
    )
    model = model_of(activation, target, noise)
    layer = one_step.planted_spike(pi, u, s, gamma, gaussian_rows=rows == "gaussian")
    errors = one_step.read_out(one_step.features(model, layer), alpha, beta, ridge)
    assert errors.test == pytest.approx(
        printed, abs=5.1e-6 if name == "5.4" else 5.1e-8
    )
    step = gs.PlantedSpike(strength=u, bulk=s, alignment=gamma)
    law = gs.Vocabulary(u, pi)
    scenario = network(
        activation,
        target if "(" in target else f"{target}(z)",
        [step],
        alpha,
        beta,
        gs.Ridge(ridge),
        noise=noise,
        second_layer=law,
        rows=rows,
    )
    # At the interpolation peak of R8 rounding is magnified.
    agree(errors, gs.predict(scenario).isel(time=1), rel=1e-9)


def test_a_linear_network_learns_the_linear_part():
    """Much data: what is left is the noise and what no line can say, up to beta/alpha."""
    model = one_step.Model(
        activation=lambda z: z, target=lambda z: 2 * z + (z**2 - 1), noise=0.3
    )
    layer = one_step.population_step(model, zeta=[1.0], pi=[1.0], eta=1.0)
    assert layer.u[0] == pytest.approx(2.0, rel=1e-12) and layer.s[0] == pytest.approx(
        1.0, rel=1e-12
    )
    errors = one_step.read_out(
        one_step.features(model, layer), alpha=1e4, beta=1.0, ridge=0.1
    )
    assert errors.test == pytest.approx((0.3 + 2.0) * (1 + 1e-4), rel=1e-6)
    assert errors.train == pytest.approx((0.3 + 2.0) * (1 - 1e-4), rel=1e-6)
