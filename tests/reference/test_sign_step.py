"""Adam's first step, plain: closed forms, printed values, and the engine on a zoo."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import one_step, sign_readout, sign_step

from .network_zoo import FUNCTIONS, agree, network

SLOPES = {
    "relu": lambda z: np.heaviside(z, 0.5),
    "relu(z + 0.5)": lambda z: np.heaviside(z + 0.5, 0.5),
    "tanh": lambda z: 1 / np.cosh(z) ** 2,
    "tanh(z + 0.7)": lambda z: 1 / np.cosh(z + 0.7) ** 2,
    "softplus": lambda z: 1 / (1 + np.exp(-z)),
}
TARGETS = {
    "sin(z)": np.sin,
    "tanh(z) + 0.4*h2(z)": lambda z: np.tanh(z) + 0.4 * (z**2 - 1),
    "0.5 + z + 0.4*h2(z)": lambda z: 0.5 + z + 0.4 * (z**2 - 1),
    "z + 0.3*h3(z)": lambda z: z + 0.3 * (z**3 - 3 * z),
}
LAWS = {
    "gaussian": ("gaussian", [(1.0, 0.0, 1.0)]),
    "equal": ("equal", [(1.0, 1.0, 0.0)]),
    "sparse": (gs.Coordinates(0.2), [(0.8, 0.0, 0.0), (0.2, 0.0, 5.0)]),
    "sparse, equal": (
        gs.Coordinates(0.2, "equal"),
        [(0.8, 0.0, 0.0), (0.2, np.sqrt(5), 0.0)],
    ),
}


def plain(activation, target, law, zeta, pi, noise=0.0, mesh=0.3):
    sigma, kinks = FUNCTIONS[activation]
    return sign_step.Network(
        activation=sigma,
        slope=SLOPES[activation],
        kinks=kinks,
        target=TARGETS[target],
        zeta=zeta,
        pi=pi,
        noise=noise,
        law=LAWS[law][1],
        mesh=mesh,
    )


def engine(activation, target, law, zeta, pi, rate, batch, **fields):
    return network(
        activation,
        target,
        [gs.SignStep(rate, batch)],
        fields.pop("alpha", 1.5),
        fields.pop("beta", 1.5),
        gs.Ridge(fields.pop("ridge", 0.1)),
        coordinates=LAWS[law][0],
        second_layer=gs.Vocabulary(zeta, pi),
        **fields,
    )


SIGNS = ([1, -1], [0.5, 0.5])
UNEQUAL = ([1, -0.5], [0.7, 0.3])
ONE = ([1.0], [1.0])
STEPS = {
    "odd": ("tanh", "sin(z)", "gaussian", ONE, 1.2, 0.5),
    "odd, equal": ("tanh", "sin(z)", "equal", ONE, 1.2, 2.0),
    "a mean": ("relu", "0.5 + z + 0.4*h2(z)", "gaussian", SIGNS, 1.0, 1.0),
    "sparse": ("relu", "0.5 + z + 0.4*h2(z)", "sparse", UNEQUAL, 1.5, 3.0),
    "atoms": ("relu(z + 0.5)", "tanh(z) + 0.4*h2(z)", "sparse, equal", UNEQUAL, 2.0, 2.0),
    "three values": (
        "softplus", "z + 0.3*h3(z)", "gaussian", ([1, -1, 0.4], [0.35, 0.35, 0.3]), 0.8, 100.0,
    ),
    "population": ("tanh(z + 0.7)", "0.5 + z + 0.4*h2(z)", "sparse", UNEQUAL, 1.3, np.inf),
    "certain signs": ("relu", "z + 0.3*h3(z)", "equal", SIGNS, 1.2, np.inf),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_the_layer(name):
    """Both sides have one rule for a: the step of the page, 0.3."""
    activation, target, law, (zeta, pi), rate, batch = STEPS[name]
    layer = sign_step.step(
        plain(activation, target, law, zeta, pi, noise=0.1), rate, batch
    )
    scenario = engine(activation, target, law, zeta, pi, rate, batch, noise=0.1)
    found = gs.predict(scenario, what="steps").isel(time=1)
    overlap = layer.u * layer.gamma
    across = np.sqrt(layer.row_norm - overlap**2)
    values = {
        "U": overlap,
        "row_norm": layer.row_norm,
        "cosine": overlap / np.sqrt(layer.row_norm),
        "s": across,
        "B": layer.s,
    }
    for field, expected in values.items():
        np.testing.assert_allclose(
            found[field].values.ravel(), expected, rtol=1e-9, err_msg=field
        )


READ_OUTS = {
    "gaussian": ("relu", "0.5 + z + 0.4*h2(z)", "gaussian", SIGNS, 1.0, 1.5, 1.5, 0.1),
    "equal": ("relu", "0.5 + z + 0.4*h2(z)", "equal", SIGNS, 1.0, 1.5, 1.5, 0.1),
    "one value": ("tanh(z + 0.7)", "0.5 + z + 0.4*h2(z)", "gaussian", ([-1.0], [1.0]), 2.0, 3.0, 0.8, 0.01),
    "atoms": ("relu(z + 0.5)", "tanh(z) + 0.4*h2(z)", "sparse, equal", UNEQUAL, 1.5, 0.6, 1.2, 1.0),
    "third moments": ("softplus", "z + 0.3*h3(z)", "gaussian", UNEQUAL, 1.5, 2.0, 1.0, 0.05),
}  # fmt: skip


@pytest.mark.parametrize("name", READ_OUTS)
def test_the_read_out_after_a_step_on_the_population(name):
    """1e-8; both sides have the rule of the page, whose own error is 4e-7: see below."""
    activation, target, law, (zeta, pi), rate, alpha, beta, ridge = READ_OUTS[name]
    described = plain(activation, target, law, zeta, pi, noise=0.1)
    layer = sign_step.step(described, rate)
    errors = sign_readout.read_out(described, layer, alpha, beta, ridge)
    scenario = engine(
        activation,
        target,
        law,
        zeta,
        pi,
        rate,
        np.inf,
        alpha=alpha,
        beta=beta,
        ridge=ridge,
        noise=0.1,
    )
    agree(errors, gs.predict(scenario).isel(time=1), rel=1e-8)


def test_gaussian_coordinates_in_closed_form():
    """E m^2 and E w~ m of section 2, on a finite batch; and the signs at the limit."""
    described = plain(
        "relu", "0.5 + z + 0.4*h2(z)", "gaussian", *SIGNS, noise=0.1, mesh=0.15
    )
    layer = sign_step.step(described, 1.3, alpha0=2.0)
    # c1 = 1/2, c2 = 1/sqrt(2 pi), M1 = 1/2, M2 = 1/4 + 1 + 2 * 0.4^2 + noise.
    M2 = 0.25 + 1 + 0.32 + 0.1
    V = 0.25 + M2 * 0.25 / 2
    tau2 = 0.25 / (2 * np.pi) + M2 * 0.25 / 2
    length = np.sqrt(2 / np.pi * np.arcsin(V / (V + tau2)))
    along = 0.5 * np.sqrt(2 / (np.pi * (V + tau2)))
    np.testing.assert_allclose(layer.u, [1.3 * length, -1.3 * length], rtol=1e-12)
    assert layer.gamma == pytest.approx(along / length, rel=1e-12)
    certain = sign_step.step(plain("tanh", "sin(z)", "gaussian", *ONE), 1.3)
    assert certain.u[0] == pytest.approx(1.3, rel=1e-12)
    assert certain.gamma == pytest.approx(np.sqrt(2 / np.pi), rel=1e-9)


def test_equal_coordinates_without_an_own_part_are_a_planted_spike():
    """Section 8: a small B only, and all coordinates move by the rate."""
    rate = 1.2
    described = plain("relu", "0.5 + z + 0.4*h2(z)", "equal", *SIGNS, noise=0.1)
    # E y = m0 but for 1e-2: the sign is that of w* up to 1e-100.
    described.target = lambda z: 1e-2 + z + 0.4 * (z**2 - 1)
    layer = sign_step.step(described, rate)
    errors = sign_readout.read_out(described, layer, 1.5, 1.2, 0.1)
    model = one_step.Model(
        activation=described.activation,
        activation_kinks=[0.0],
        target=described.target,
        noise=0.1,
    )
    rows = one_step.planted_spike(SIGNS[1], [rate, -rate], [1, 1], gamma=1.0)
    expected = one_step.read_out(one_step.features(model, rows), 1.5, 1.2, 0.1)
    assert errors.test == pytest.approx(expected.test, rel=1e-9)
    assert errors.norm == pytest.approx(expected.norm, rel=1e-9)


def test_the_rule_of_the_page_is_coarse():
    """Digits of section 11 come with steps of 0.3 for a; finer ones change the seventh."""
    described = plain("relu", "0.5 + z + 0.4*h2(z)", "gaussian", *SIGNS, noise=0.1)
    errors = []
    for mesh in (0.3, 0.2, 0.17):
        described.mesh = mesh
        layer = sign_step.step(described, 1.0)
        errors.append(sign_readout.read_out(described, layer, 1.5, 1.5, 0.1).test)
    assert errors[0] == pytest.approx(0.69317864, abs=5.1e-9)
    # Seen: 4e-7 from the first to the second, 1e-9 from the second to the third.
    assert errors[1] == pytest.approx(errors[2], rel=1e-8)
    assert abs(errors[0] / errors[2] - 1) > 1e-7
