"""Gradients of fitted networks: the reference values and identities of beyond_the_error
section 5, and networks.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import InputError
from giantstep.core.readout.output_law import Blocks, Fitted, LayerAt, OutputLaw
from giantstep.core.readout.sensitivity import GradientLaw
from giantstep.problems.network.beyond.fresh_inputs import FOR_MEANS, FOR_QUANTILES

from .beyond_settings import CLASSES, P1, P5, REGRESSION, RIDGE_ON_CLASSES, TABLE_D
from .test_calibration import fitted_point

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)


def asked(network, **more):
    return gs.predict(network, what="sensitivity", progress=False, **more).isel(time=-1)


@pytest.mark.parametrize("name", TABLE_D)
def test_gradients_are_those_printed(name):
    """Catches an error in the law of the gradient, and in its correlation with the
    output (the middle term).
    """
    result = asked(REGRESSION[name], eps=[0.0, 0.5])
    norm, across, cross, attacked = TABLE_D[name]
    assert float(result.gradient_norm2) == pytest.approx(norm, abs=6e-7)
    assert float(result.gradient_rest) == pytest.approx(across, abs=6e-7)
    plain, found = result.attacked_error.values
    assert found == pytest.approx(attacked, abs=3e-6)
    assert found - plain - 0.25 * float(result.gradient_norm2) == pytest.approx(
        cross, abs=3e-6
    )


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("L1", (6.643768, 0.608735, 0.408102)), ("L2", (5.790313, 2.387748, 0.560732))],
)
def test_gradients_of_classifiers_are_those_printed(name, wanted):
    """Catches an error in (5.7), and a rule that does not resolve the sign of the
    output.
    """
    result = asked(CLASSES[name], eps=[0.0, 0.5])
    found = [
        float(result.gradient_norm2),
        float(result.gradient_rest),
        float(result.attacked_error[1]),
    ]
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    error = gs.predict(CLASSES[name], progress=False).test_error[-1]
    assert float(result.attacked_error[0]) == pytest.approx(float(error), rel=1e-7)


def test_gradients_of_ridge_on_classes_are_those_printed():
    """R1 of section 8: the labels jump, the gradient of the output does not know."""
    result = asked(RIDGE_ON_CLASSES, eps=[0.0])
    np.testing.assert_allclose(
        [result.gradient_norm2, result.gradient_rest], [0.668855, 0.115817], atol=6e-7
    )


@pytest.mark.parametrize("name", ["P4", "T2", "T3"])
def test_a_rule_is_finer_only_where_it_must_be(name):
    """Counts nodes in place of time: of 137,000 a question with two learnt directions
    took 19 times the errors.
    """
    point = fitted_point(REGRESSION[name])
    plain, means, quantiles = (
        len(inputs.z)
        for inputs, _ in (
            point.plain(point.own_law),
            point.residuals(point.own_law, point.noise, FOR_MEANS),
            point.residuals(point.own_law, point.noise, FOR_QUANTILES),
        )
    )
    assert means <= 2 * plain
    assert means <= quantiles <= 7 * plain


def test_without_perturbation_the_error_is_the_error():
    network = REGRESSION["T2"]
    result = gs.predict(network, what="sensitivity", dim=400, progress=False)
    np.testing.assert_allclose(
        result.attacked_error.sel(eps=0),
        gs.predict(network, dim=400, progress=False).test_error,
        rtol=1e-12,
    )


def test_a_linear_activation_has_the_gradient_of_its_variance():
    """Poincare: Var f <= E|grad f|^2, with equality for a linear network: here f = <b,
    x>, of variance |b|^2.
    """
    network = P5.replace(activation="z", target="tanh(z1)", steps=[])
    norm = float(asked(network).gradient_norm2)
    parts = gs.predict(network, what="variance", progress=False)
    law = gs.predict(network, progress=False)
    variance = float(law.test_error[0]) - 0.1  # E(g - f)^2 = E g^2 - 2 E g f + E f^2
    z, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    # of <b, x> only its part along z1 is correlated with tanh(z1)
    power = w @ np.tanh(z) ** 2
    slope = w @ (z * np.tanh(z))
    along = float(asked(network).gradient_learnt)
    b1 = np.sqrt(along)
    assert norm == pytest.approx(variance - power + 2 * b1 * slope, rel=1e-8)
    assert float(parts.bias[0]) > 0


def law_at(z):
    rng = np.random.default_rng(3)
    k = 2
    C = 3
    blocks = Blocks(
        gs.Function("tanh"),
        np.array([[1.2, 0.3], [-0.5, 1.0]]),
        np.array([1.0, 0.8]),
        np.array([1.0, -0.8]),
        rng.normal(size=(k, 2, C)),
        rng.normal(size=(k, C)),
    )
    Q1 = np.array([[0.5, 0.1], [0.1, 0.3]])
    fitted = Fitted(
        rng.normal(size=k), rng.normal(size=(C, k)), Q1, np.array([0.4, 0.2])
    )
    return OutputLaw(LayerAt(blocks, z), fitted)


def test_the_mean_gradient_is_the_slope_of_the_mean():
    """Holds (5.1) against a difference quotient of (1.1)."""
    z = np.random.default_rng(0).normal(size=(7, 2))
    step = 1e-5
    law = law_at(z)
    for axis in range(2):
        shift = step * np.eye(2)[axis]
        quotient = (law_at(z + shift).mean - law_at(z - shift).mean) / (2 * step)
        np.testing.assert_allclose(
            law.gradient[:, axis], quotient, rtol=1e-8, atol=1e-9
        )


def test_output_and_gradient_have_a_covariance_matrix():
    """Catches a wrong (5.3): the joint law of output and gradient must be positive."""
    law = law_at(np.random.default_rng(0).normal(size=(50, 2)))
    gradient = GradientLaw(law)
    joint = np.concatenate([gradient.covariance, gradient.with_output[:, None]], axis=1)
    column = np.concatenate([gradient.with_output, law.variance[:, None]], axis=1)
    joint = np.concatenate([joint, column[:, :, None]], axis=2)
    assert np.linalg.eigvalsh(joint).min() > -1e-12


@pytest.mark.parametrize(
    ("network", "settings", "message"),
    [
        (P1, {"eps": [-0.1]}, "Field `eps` must be different finite numbers from 0 on"),
        (
            P1,
            {"eps": [gs.inf]},
            "Field `eps` must be different finite numbers from 0 on",
        ),
        (P1.replace(activation="sign", steps=[]), {}, "whose activation jumps"),
    ],
)
def test_what_is_refused(network, settings, message):
    with pytest.raises(InputError, match=message):
        gs.predict(network, what="sensitivity", progress=False, **settings)


def test_networks_at_d_400():
    """Catches a gradient that is 2% off: every neuron's slope is taken at fresh
    inputs.
    """
    theory = gs.predict(P5, what="sensitivity", dim=400, progress=False).isel(time=0)
    networks = gs.simulate(
        P5,
        what="sensitivity",
        dim=400,
        trials=12,
        seed=1,
        test_samples=2000,
        progress=False,
    ).isel(time=0)
    for name in ("gradient_norm2", "gradient_rest", "attacked_error"):
        gap = networks[name] - theory[name]
        error = networks[f"{name}_stderr"]
        assert np.all(np.abs(gap) < 0.02 * theory[name] + 3 * error), name
        assert np.all(error < 0.02 * theory[name]), name
