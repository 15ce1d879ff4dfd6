"""The small step, plain: printed values, a closed form, and the engine on a zoo."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import small_step

from .network_zoo import FUNCTIONS, network

# That a small step learns nothing but a line is said by the engine.
pytestmark = pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")

ZOO = {
    "odd": ("tanh", "sin(z)", 2.0, 1.0, 1.5, 1.0, 0.1, 0.1, 0),
    "from its own output": ("tanh", "z + 0.5*h2(z)", 4.0, 2.0, 0.7, 2.0, 1e-3, 0.1, 1),
    "a mean": ("relu", "relu(z)", 3.0, 5.0, 3.0, 0.5, 1.0, 0.0, 0),
    "a large step": ("gelu", "tanh(2*z)", 10.0, 0.5, 0.3, 1.5, 0.01, 0.2, 0),
    "nothing linear": ("erf", "h2(z)", 1.0, 1.0, 1.0, 1.0, 5.0, 0.2, 1),
    "no step": ("softplus", "tanh(2*z)", 0.0, 1.0, 2.0, 1.0, 0.1, 0.0, 0),
}


@pytest.mark.parametrize("name", ZOO)
def test_small_steps(name):
    """1e-10; at most 3e-13 was seen where this was written."""
    activation, target, eta, batch, alpha, beta, ridge, noise, f0 = ZOO[name]
    sigma, kinks = FUNCTIONS[activation]
    g, target_kinks = FUNCTIONS[target]
    model = small_step.Model(
        activation=sigma,
        kinks=kinks,
        target=g,
        target_kinks=target_kinks,
        noise=noise,
        f0=f0,
    )
    errors = small_step.read_out(model, eta, batch, alpha, beta, ridge)
    steps = [gs.SmallStep(eta, batch_per_dim=batch, initial_output=f0)]
    scenario = network(
        activation, target, steps, alpha, beta, gs.Ridge(ridge), noise=noise
    )
    result = gs.predict(scenario).isel(time=1)
    found = [
        float(result[name])
        for name in ("test_error", "train_error", "norm", "objective")
    ]
    expected = [errors.test, errors.train, errors.norm, errors.objective]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("f0", [0, 1])
def test_printed_errors(f0):
    """step_size_regimes section 12.2: Setting 1 from both starts; lambda = ridge p/n there."""
    model = small_step.Model(
        activation=lambda z: np.maximum(z, 0) - 1 / np.sqrt(2 * np.pi),
        kinks=[0.0],
        target=lambda z: z,
        noise=1.0,
        f0=f0,
    )
    printed = {
        1: (1.535326, 1.530789),
        2: (1.480040, 1.463914),
        4: (1.404448, 1.391031),
        8: (1.360034, 1.370062),
        100: (1.340085, 1.378981),
    }
    for eta, expected in printed.items():
        errors = small_step.read_out(
            model, eta, alpha0=4.0, alpha=4.0, beta=2.0, ridge=0.2
        )
        assert errors.test == pytest.approx(expected[f0], abs=5.1e-7)


def test_many_samples_leave_the_best_line():
    """With no mean of its own tanh cannot say one; this target has none."""
    model = small_step.Model(
        activation=np.tanh, target=lambda z: z + 0.5 * (z**2 - 1), noise=0.2
    )
    errors = small_step.read_out(
        model, 5.0, alpha0=1e4, alpha=1e7, beta=1e3, ridge=1e-3
    )
    assert errors.test == pytest.approx(0.2 + 0.5, rel=2e-3)
    assert errors.test > 0.7
