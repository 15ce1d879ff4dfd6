"""The first two steps in closed form: reference values, and agreement with the
recursion that knows none of them.
"""

import numpy as np
import pytest

import giantstep as gs

from .cases import C1, C4, HE3
from .closed_forms import two_steps
from .judging import agrees

RELU = [
    (HE3, "square", 3, 0.1, 1.0, 0.0, 0.0, -0.0084629, 0.7525000),
    (HE3, "correlation", 3, 0.1, 1.0, 0.0, 0.0, -0.0082432, 1.0150000),
    ("tanh(z)", "square", 2, 0.3, 0.8, 0.2, 0.1453693, 0.2158700, 0.6402116),
]


@pytest.mark.parametrize(
    ("target", "loss", "alpha", "eta", "a", "decay", "M1", "M2", "Q1"), RELU
)
def test_relu_to_seven_digits(target, loss, alpha, eta, a, decay, M1, M2, Q1):
    s = gs.BatchReuse(
        target=target,
        loss=loss,
        samples_per_dim=alpha,
        rate=eta,
        second_layer=[a],
        decay=decay,
        steps=2,
    )
    closed = two_steps(s)
    np.testing.assert_allclose(closed.M[1:, 0, 0], [M1, M2], rtol=0, atol=6e-8)
    assert closed.Q[1].item() == pytest.approx(Q1, abs=6e-8)
    sampled = gs.predict(s)
    assert (
        agrees(sampled, "M", np.s_[1:, 0, 0], [M1, M2], 6e-8)
        and float(sampled.M_stderr.max()) < 1e-4
    )


def test_an_isolated_zero_of_the_second_step():
    s = gs.BatchReuse(
        target=HE3, second_layer=[-1], samples_per_dim=2, rate=0.5, steps=2
    )
    assert np.abs(two_steps(s).M).max() < 1e-9
    assert two_steps(s.replace(loss="correlation")).M[2].item() == pytest.approx(
        0.0437, abs=5e-5
    )


def test_the_first_relu_step_of_a_wide_network():
    np.testing.assert_allclose(
        two_steps(C1.replace(steps=1)).Q[1],
        [[0.853558, 0.109812], [0.109812, 0.853558]],
        atol=1e-6,
    )
    wide = C4.replace(
        second_layer=[0.5, -0.3, 0.8],
        noise=0.2,
        decay=0.1,
        steps=1,
        target="z1 + z1*z2 + z2**2/2",
    )
    closed = two_steps(wide)
    sampled = gs.predict(wide, scrambles=8)
    assert agrees(sampled, "M", np.s_[1], closed.M[1], 1e-9)
    assert (
        agrees(sampled, "Q", np.s_[1], closed.Q[1], 1e-9)
        and float(sampled.Q_stderr.max()) < 1e-3
    )
    correlation = wide.replace(loss="correlation")
    closed = two_steps(correlation)
    sampled = gs.predict(correlation, scrambles=8)
    assert agrees(sampled, "Q", np.s_[1], closed.Q[1], 1e-9)


def test_hidden_progress_of_a_quadratic_activation():
    s = gs.BatchReuse(
        target="z1 + z1*z2",
        activation="z + h2(z)/2",
        second_layer=[0.6, -0.4],
        loss="correlation",
        samples_per_dim=1.5,
        rate=0.2,
        steps=2,
    )
    closed = two_steps(s)
    np.testing.assert_allclose(closed.M[1:, 0], [[0.18, 0], [0.36, 0.0756]], atol=1e-12)
    sampled = gs.predict(s, scrambles=8)
    assert agrees(sampled, "M", np.s_[1:], closed.M[1:], 1e-9) and agrees(
        sampled, "Q", np.s_[1], closed.Q[1], 1e-9
    )


def test_cubic_activation_on_the_third_hermite_polynomial():
    s = gs.BatchReuse(
        target=HE3,
        activation="z**3/3",
        second_layer=[0.7],
        loss="correlation",
        samples_per_dim=1.5,
        rate=0.2,
        steps=2,
    )
    exact = 1.5 * (0.2 * 0.7) ** 3 * 3 * 324 / 6**1.5
    assert exact == pytest.approx(0.2722166941, abs=1e-10)
    assert two_steps(s).M[2].item() == pytest.approx(exact, abs=1e-12)
