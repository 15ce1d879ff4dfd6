"""Steps and read-out on inputs with a covariance: the printed values of structured_inputs section 12.

The map of the steps and the bulk carry a spectrum of inputs already; no field of a scenario asks for it yet.
"""

import numpy as np
import pytest

from giantstep.families.few_steps.features import describe_features
from giantstep.families.few_steps.inputs import InputSpectrum
from giantstep.families.few_steps.trajectory import Network, follow
from giantstep.gaussian import Function
from giantstep.gaussian.target import Target
from giantstep.readout import Equations, InputBulk, ridge_errors, solve_first_order

from .second_route import read_out

B1, B2, B3 = ([2.5, 0.5], [0.25, 0.75]), ([4, 1, 0.2], [0.1, 0.4, 0.5]), ([4, 0.25], [0.2, 0.8])
SIGNS, ONE = ([0.5, 0.5], [1, -1]), ([1.0], [1])
T1, T2 = "z + h2(z)/2", "tanh(z) + 0.4*h2(z)"
POSITIONS = (np.arange(1, 41) - 0.5) / 40
DECAYING = (POSITIONS**-0.8, np.full(40, 1 / 40))
SETTINGS = {
    "A": ("relu", T1, B1, (1, 0), SIGNS, [2], (2, 1, 0.1, 0.1), (0.58795838, 0.2262368, 0.7388294)),
    "B": ("relu", T1, B1, (0, 1), SIGNS, [2], (2, 1, 0.1, 0.1), (0.75447612, 0.2835524, 0.9988945)),
    "C": ("tanh", "sin(z)", B1, (0.5, 0.5), ONE, [3], (1.5, 1, 0.1, 0.02), (0.15983567, 0.0668036, 0.3526432)),
    "G": ("tanh", "sin(z)", B1, (0.5, 0.5), ONE, [], (1.5, 1, 0.1, 0.02), (0.26809206, 0.0976187, 0.6770473)),
    "P": ("tanh", "sin(z)", B1, (0.5, 0.5), ONE, [3], (1.5, 1, 0.1, 0.02), (0.04729172, 0.0247014, 0.0601655)),
    "D": ("tanh(z + 0.7)", T2, B1, (0.3, 0.7), ([0.6, 0.4], [1, -1]), [2.5], (2, 1.2, 0.05, 0.05),
          (0.57234704, 0.2455715, 1.5705557)),
    "R": ("tanh(z + 0.7)", T2, B1, (0.3, 0.7), ([0.6, 0.4], [1, -1]), [2.5], (2, 1.2, 0.05, 0.05),
          (0.48770776, 0.1993751, 1.3107912)),
    "E": ("relu", "0.5 + z + 0.4*h2(z)", B2, (0.2, 0.3, 0.5), ([0.7, 0.3], [1, -0.5]), [1.5], (1.5, 1.5, 0.05, 0.1),
          (1.18088993, 0.1416008, 1.9416805)),
    "F": ("relu(z + 0.5)", "sin(1.5*z) + 0.3*cos(z)", DECAYING, POSITIONS**-0.8, SIGNS, [2], (2, 1, 0.02, 0.05),
          (0.62883611, 0.1872550, 1.4420585)),
    "H": ("relu", T1, B2, (0.2, 0.3, 0.5), SIGNS, [1.5, 1], (2, 1.5, 0.1, 0.1), (0.92974496, 0.2741298, 1.4142845)),
    "I": ("erf", "z + 0.3*h3(z)", B1, (0.4, 0.6), ONE, [2, 1], (1.5, 1, 0.1, 0.05), (1.05402381, 0.8344405, 0.9668759)),
    "J": ("tanh(z + 0.7)", T2, B3, (0.5, 0.5), SIGNS, [3], (2, 1, 0.05, 0.05), (0.59155035, 0.3731731, 1.4014228)),
    "M": ("relu(z + 0.5)", "sin(z)", B3, (0.5, 0.5), ONE, [2.5], (1.5, 1.5, 0.02, 0.02),
          (0.50808087, 0.1267916, 1.5844966)),
}  # fmt: skip
FACTORS = {"P": -1.0, "R": -0.5}
"""Steps that are whitened: F = lambda to this power."""


def described(name):
    activation, target, (eigenvalues, masses), shares, (pi, zeta), rates, sizes, expected = SETTINGS[name]
    eigenvalues = np.array(eigenvalues, float) / np.dot(eigenvalues, masses)
    factor = eigenvalues ** FACTORS.get(name, 0.0)
    inputs = InputSpectrum.blocks(eigenvalues, np.array(masses), np.array(shares, float), factor)
    network = Network(
        Function(activation), Target(target), np.array(zeta, float), np.array(pi), inputs, noise=sizes[3],
        gaussian_rows=name == "J",
    )  # fmt: skip
    classes = follow(network, rates)[0][-1]
    product = inputs.eigenvalues[:, None, None] * classes.B.T[:, :, None] * classes.B.T[:, None, :]
    return describe_features(network, classes), InputBulk(product, inputs.masses), sizes, expected


def answer(features, bulk, sizes):
    samples, width, ridge, _ = (np.array([size]) for size in sizes)
    equations = Equations.of_ridge(features, samples / width, width, ridge, bulk)
    return ridge_errors(solve_first_order(equations), np.zeros(1))


@pytest.mark.parametrize("name", SETTINGS)
def test_printed_values(name):
    """One and two steps, up to 40 blocks, whitened steps, Gaussian rows: test to 8 digits, train and norm to 7."""
    features, bulk, sizes, (test, train, norm) = described(name)
    errors = answer(features, bulk, sizes)
    assert errors.identity[0] < 1e-12
    assert errors.test[0] == pytest.approx(test, abs=5.1e-9)
    assert errors.train[0] == pytest.approx(train, abs=5.1e-8)
    assert errors.norm[0] == pytest.approx(norm, abs=5.1e-8)


def test_a_second_route():
    """The integrals over atoms by a plain damped iteration."""
    features, bulk, (samples, width, ridge, _), _ = described("E")
    plain = read_out(features, features.pi, samples, width, ridge, product=bulk.product, masses=bulk.masses)
    assert answer(features, bulk, (samples, width, ridge, 0)).test[0] == pytest.approx(plain["test"], rel=1e-8)


def test_splitting_a_block_changes_nothing():
    features, bulk, sizes, _ = described("C")
    halves = InputBulk(np.repeat(bulk.product, 2, axis=0), np.repeat(bulk.masses / 2, 2))
    assert answer(features, halves, sizes).test[0] == pytest.approx(answer(features, bulk, sizes).test[0], rel=1e-13)


def test_the_derivative_of_the_response():
    """The packed derivative against central differences of the inner solution."""
    features, bulk, (samples, width, ridge, _), _ = described("E")
    sizes = np.array([samples / width]), np.array([float(width)]), np.array([ridge])
    first = solve_first_order(Equations.of_ridge(features, *sizes, bulk))
    response = first.response
    A, e, h = np.array([[[0.3, 0.1], [0.1, -0.2]]]), np.array([[0.2, 0.4]]), 1e-5
    moved = [
        bulk.solve(response.Vh1 + sign * h * A, response.D + sign * h * e, response.block_width, response)
        for sign in (1, -1)
    ]
    dS, dR = bulk.tangents(response).apply(A, e)
    np.testing.assert_allclose((moved[1].S - moved[0].S) / (2 * h), dS, rtol=1e-6)
    np.testing.assert_allclose((moved[1].R - moved[0].R) / (2 * h), dR, rtol=1e-6)
