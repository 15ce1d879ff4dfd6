"""The plain ridge read-out: closed forms of its own, and the engine on untrained features."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import one_step, ridge_readout, small_step

from .network_zoo import FUNCTIONS, agree, network


def untrained(activation, target, noise):
    sigma, sigma_kinks = FUNCTIONS[activation]
    g, g_kinks = FUNCTIONS[target]
    model = one_step.Model(
        activation=sigma,
        activation_kinks=sigma_kinks,
        target=g,
        target_kinks=g_kinks,
        noise=noise,
    )
    rows = one_step.planted_spike(pi=[1.0], u=[0.0], s=[1.0], gamma=1.0)
    return model, one_step.features(model, rows)


def closed_form(model, alpha, beta, ridge):
    """Return the errors of random features from one scalar root: another theory, another file."""
    same = small_step.Model(
        activation=model.activation,
        kinks=model.activation_kinks,
        target=model.target,
        target_kinks=model.target_kinks,
        noise=model.noise,
    )
    return small_step.read_out(same, 0.0, 1.0, alpha, beta, ridge)


ZOO = {
    "tanh": ("tanh", "sin(z)", 1.5, 1.0, 0.1, 0.1),
    "many samples": ("relu", "tanh(2*z)", 8.0, 1.2, 0.01, 0.0),
    "few samples": ("erf", "sign(z)", 0.3, 2.0, 1e-3, 0.2),
    "large ridge": ("softplus", "relu(z)", 1.0, 1.0, 20.0, 0.1),
    "even target": ("gelu", "h2(z)", 2.0, 0.5, 0.1, 0.0),
    "a mean": ("tanh(z + 0.7)", "z + 0.5*h2(z)", 1.0, 3.0, 0.05, 0.5),
}


@pytest.mark.parametrize("name", ZOO)
def test_untrained_features(name):
    """The closed form holds to 1e-10, the engine to 1e-9: rounding of both, times n = p."""
    activation, target, alpha, beta, ridge, noise = ZOO[name]
    model, features = untrained(activation, target, noise)
    errors = ridge_readout.read_out(features, alpha, beta, ridge)
    expected = closed_form(model, alpha, beta, ridge)
    for name in ("test", "train", "norm", "objective"):
        assert getattr(errors, name) == pytest.approx(
            getattr(expected, name), rel=1e-10
        )
    scenario = network(
        activation, target, [], alpha, beta, gs.Ridge(ridge), noise=noise
    )
    agree(errors, gs.predict(scenario).isel(time=0), rel=1e-9)


def test_means_of_a_finite_dimension():
    """The bracket of (4.5) and (4.7): the printed table of spiked_features section 4.4."""
    sigma, _ = FUNCTIONS["tanh"]
    model = one_step.Model(activation=sigma, target=np.sin)
    printed = {
        0.0: 0.24222,
        0.03: 0.20206,
        0.06: 0.15153,
        0.12: 0.11133,
        0.25: 0.09053,
        0.5: 0.06772,
    }
    for u, expected in printed.items():
        rows = one_step.planted_spike(pi=[1.0], u=[u], s=[1.0], gamma=1.0)
        features = one_step.features(model, rows)
        errors = ridge_readout.read_out(
            features, alpha=1.5, beta=1.2, ridge=0.1, dim=500
        )
        assert errors.test == pytest.approx(expected, abs=5.1e-6)
        assert errors.identity < 1e-11


def test_a_block_in_two_parts_is_one_block():
    model = one_step.Model(activation=np.tanh, target=np.sin, noise=0.1)
    whole = one_step.planted_spike(pi=[1.0], u=[1.2], s=[0.9], gamma=0.7)
    parts = one_step.planted_spike(pi=[0.3, 0.7], u=[1.2, 1.2], s=[0.9, 0.9], gamma=0.7)
    one = ridge_readout.read_out(one_step.features(model, whole), 1.5, 1.2, 0.05)
    two = ridge_readout.read_out(one_step.features(model, parts), 1.5, 1.2, 0.05)
    assert two.test == pytest.approx(one.test, rel=1e-12)
    assert two.Q2.sum() == pytest.approx(one.norm, rel=1e-12)
