"""The plain ridge read-out: closed forms of its own, and the engine on untrained features."""

import numpy as np
import pytest
from scipy import optimize

import giantstep as gs
from giantstep.reference import one_step, ridge_readout

from .network_zoo import FUNCTIONS, agree, network


def untrained(activation, target, noise):
    sigma, sigma_kinks = FUNCTIONS[activation]
    g, g_kinks = FUNCTIONS[target]
    model = one_step.Model(activation=sigma, activation_kinks=sigma_kinks, target=g, target_kinks=g_kinks, noise=noise)
    rows = one_step.planted_spike(pi=[1.0], u=[0.0], s=[1.0], gamma=1.0)
    return model, one_step.features(model, rows)


def closed_form(model, alpha, beta, ridge):
    """Return the test and training error of random features, from one scalar root.

    step_size_regimes section 3: a resolvent t(nu) in closed form, and nu by bisection.
    """
    c0, c1 = one_step.coefficients(model.activation, model.activation_kinks)[:2]
    g0, g1 = one_step.coefficients(model.target, model.target_kinks)[:2]
    kappa, weights = ridge_readout_rule(model)
    power = weights @ model.target(kappa) ** 2
    sigma2 = weights @ model.activation(kappa) ** 2
    rest = sigma2 - c0**2 - c1**2
    q = beta / alpha
    penalty = ridge * q

    def resolvent(nu):
        x = nu + rest
        a = c1**2 * beta * x
        b = x + c1**2 * (1 - beta)
        t = 2 / (b + np.sqrt(b**2 + 4 * a))
        return t, -(c1**2 * beta * t**2 + t) / (2 * a * t + b)

    def excess(log_nu):
        nu = np.exp(log_nu)
        return nu * (1 - q * (1 - nu * resolvent(nu)[0])) - penalty

    top = np.log(penalty + q * (c1**2 + rest))
    nu = np.exp(optimize.brentq(excess, np.log(penalty) - 1e-9, top + 1e-9, xtol=1e-15, rtol=1e-15))
    t, dt = resolvent(nu)
    x = nu + rest
    # A constant is learnt when the features have a mean.
    free = g0**2 if abs(c0) > 1e-12 else 0.0
    value = power + model.noise - free - g1**2 * beta * (1 - x * t)
    slope = g1**2 * beta * (t + x * dt)
    test = (value - nu * slope) / (1 - q + q * (2 * nu * t + nu**2 * dt))
    return test, (penalty / nu) ** 2 * test


def ridge_readout_rule(model):
    kinks = [*model.activation_kinks, *model.target_kinks]
    return one_step.normal_rule(kinks)


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
    test, train = closed_form(model, alpha, beta, ridge)
    assert errors.test == pytest.approx(test, rel=1e-10)
    assert errors.train == pytest.approx(train, rel=1e-10)
    scenario = network(activation, target, [], alpha, beta, gs.Ridge(ridge), noise=noise)
    agree(errors, gs.predict(scenario).isel(time=0), rel=1e-9)


def test_means_of_a_finite_dimension():
    """The bracket of (4.5) and (4.7): the printed table of spiked_features section 4.4."""
    sigma, _ = FUNCTIONS["tanh"]
    model = one_step.Model(activation=sigma, target=np.sin)
    printed = {0.0: 0.24222, 0.03: 0.20206, 0.06: 0.15153, 0.12: 0.11133, 0.25: 0.09053, 0.5: 0.06772}
    for u, expected in printed.items():
        rows = one_step.planted_spike(pi=[1.0], u=[u], s=[1.0], gamma=1.0)
        features = one_step.features(model, rows)
        errors = ridge_readout.read_out(features, alpha=1.5, beta=1.2, ridge=0.1, dim=500)
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
