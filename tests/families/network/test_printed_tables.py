"""Tables and spectra that the page few_steps_readout prints, to all their digits:
sections 6, 7, 8 and 13.
"""

import numpy as np
import pytest

import giantstep as gs

from .settings import SETTINGS, C, network

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)

SAMPLES = [0.5, 1, 2, 4, 8, 16]
TABLE = [
    [3.390537, 3.486469, 3.415079, 3.148724, 2.833418, 2.603078],
    [2.412853, 2.575935, 2.574608, 2.324024, 2.042552, 1.858718],
    [1.831341, 1.981854, 2.001948, 1.806574, 1.592541, 1.456840],
    [1.582124, 1.715718, 1.739142, 1.583747, 1.410889, 1.300148],
]
ALL_DATA = [2.328300, 1.654948, 1.307676, 1.175620]
FLOOR = [2.1, 1.100656, 0.638483, 0.674333]


@pytest.mark.parametrize("steps", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_the_staircase(steps):
    """Section 13, target C: every number of steps and samples, with both floors."""
    result = gs.predict(
        network(*C, [2.0] * steps, 4, 2, 0.1, 0.1), samples_per_dim=SAMPLES
    )
    times = slice(steps + 1)
    np.testing.assert_allclose(
        result.test_error.transpose("time", "samples_per_dim"),
        TABLE[times],
        atol=1.1e-6,
    )
    np.testing.assert_allclose(
        result.all_data_error.isel(samples_per_dim=0), ALL_DATA[times], atol=1.1e-6
    )
    np.testing.assert_allclose(
        result.floor.isel(samples_per_dim=0), FLOOR[times], atol=1.1e-6
    )


A2 = SETTINGS["A3"][0].replace(rate=[2.0, 2.0], steps=2)
D2 = SETTINGS["D2"][0]


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (
            A2,
            {
                0.2: -0.7547775 + 2.9711706j,
                1: -0.8444019 + 0.7203357j,
                2.5: -0.5287651 + 0.1857786j,
            },
        ),
        (D2, {1: -0.7247838 + 0.8448213j}),
    ],
)
def test_resolvents_after_two_steps(scenario, expected):
    """Section 7."""
    seen = gs.predict(
        scenario, what="resolvent", z=np.array(list(expected)) + 0.1j
    ).isel(time=2)
    np.testing.assert_allclose(
        seen.m_real + 1j * seen.m_imag, list(expected.values()), atol=1e-7
    )


@pytest.mark.usefixtures("independent_means")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "edge", "spikes"),
    [(A2, 3.3654059, (924, 719)), (D2, 5.4739186, (906.9, 72.45))],
)
def test_spectra_after_two_steps(scenario, edge, spikes):
    """Section 7: the upper edge of the bulk, and the eigenvalues above it at
    d = 600.
    """
    spectrum = gs.predict(scenario, what="spectrum", x=[0.5, 1.0], dim=600).isel(time=2)
    assert float(spectrum.upper_edge) == pytest.approx(edge, abs=1e-7)
    np.testing.assert_allclose(spectrum.outliers[:2], spikes, rtol=6e-4)


@pytest.mark.parametrize(
    ("activation", "target", "sizes", "batches"),
    [
        (
            "tanh",
            "sin(z)",
            (3.0, 1.5, 1.0, 0.1, 0.0),
            {100: (0.025210, 0.025344), 0.5: (0.26771, 0.289467)},
        ),
        (
            "relu",
            "relu(z)",
            (1.5, 2.0, 1.3, 0.05, 0.1),
            {100: (0.277646, 0.278302), 1: (0.345860, 0.374086)},
        ),
    ],
)
def test_the_isotropic_batch_beside_the_exact_one(activation, target, sizes, batches):
    """Section 6: one step along one direction, where `OneStep` answers the same network
    exactly.
    """
    rate, samples, width, ridge, noise = sizes
    common = {
        "activation": activation,
        "target": target,
        "noise": noise,
        "second_layer": gs.Vocabulary([1]),
        "samples_per_dim": samples,
        "width_per_dim": width,
        "ridge": ridge,
    }
    for batch, (isotropic, exact) in batches.items():
        several = gs.FewSteps(rate=rate, steps=1, batch_per_dim=batch, **common)
        one = gs.OneStep(step=gs.MaximalStep(rate=rate, batch_per_dim=batch), **common)
        assert float(
            gs.predict(several, theory="isotropic").test_error[1]
        ) == pytest.approx(isotropic, abs=2e-6)
        assert float(gs.predict(one).test_error) == pytest.approx(exact, abs=1e-6)


def test_random_features_with_a_target_of_one_direction():
    """Equation (8.4)."""
    scenario = gs.FewSteps(
        target="sin(z)",
        activation="tanh",
        noise=0.1,
        second_layer=gs.Vocabulary([1]),
        steps=0,
        samples_per_dim=1.5,
        width_per_dim=1.0,
        ridge=0.1,
    )
    assert float(gs.predict(scenario).test_error[0]) == pytest.approx(
        0.4089149768, abs=6e-11
    )
