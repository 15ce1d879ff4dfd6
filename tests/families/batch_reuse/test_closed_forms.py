"""The first two steps in closed form: reference values, and agreement with the recursion that knows none of them."""

import numpy as np
import pytest

import giantstep as gs

from .cases import C1, C4, HALF, HE3
from .judging import agrees

RELU = [
    (HE3, "square", 3, 0.1, 1.0, 0.0, 0.0, -0.0084629, 0.7525000),
    (HE3, "correlation", 3, 0.1, 1.0, 0.0, 0.0, -0.0082432, 1.0150000),
    ("tanh(z)", "square", 2, 0.3, 0.8, 0.2, 0.1453693, 0.2158700, 0.6402116),
]


@pytest.mark.parametrize(("target", "loss", "alpha", "eta", "a", "decay", "M1", "M2", "Q1"), RELU)
def test_relu_to_seven_digits(target, loss, alpha, eta, a, decay, M1, M2, Q1):
    s = gs.BatchReuse(target=target, loss=loss, samples_per_dim=alpha, rate=eta, second_layer=[a], decay=decay, steps=2)
    r = gs.predict(s, theory="closed-form")
    np.testing.assert_allclose(r.M.values[1:, 0, 0], [M1, M2], rtol=0, atol=6e-8)
    assert float(r.Q[1, 0, 0]) == pytest.approx(Q1, abs=6e-8)
    sampled = gs.predict(s)
    assert agrees(sampled, "M", np.s_[1:, 0, 0], [M1, M2], 6e-8) and float(sampled.M_stderr.max()) < 1e-4


def test_an_isolated_zero_of_the_second_step():
    s = gs.BatchReuse(target=HE3, second_layer=[-1], samples_per_dim=2, rate=0.5, steps=2)
    assert float(abs(gs.predict(s, theory="closed-form").M).max()) < 1e-9
    assert float(gs.predict(s, theory="closed-form", loss="correlation").M[2, 0, 0]) == pytest.approx(0.0437, abs=5e-5)


def test_the_first_relu_step_of_a_wide_network():
    r = gs.predict(C1, theory="closed-form", steps=1)
    np.testing.assert_allclose(r.Q.values[1], [[0.853558, 0.109812], [0.109812, 0.853558]], atol=1e-6)
    wide = C4.replace(second_layer=[0.5, -0.3, 0.8], noise=0.2, decay=0.1, steps=1, target="z1 + z1*z2 + z2**2/2")
    closed, sampled = gs.predict(wide, theory="closed-form"), gs.predict(wide, scrambles=8)
    assert agrees(sampled, "M", np.s_[1], closed.M.values[1], 1e-9)
    assert agrees(sampled, "Q", np.s_[1], closed.Q.values[1], 1e-9) and float(sampled.Q_stderr.max()) < 1e-3
    correlation = wide.replace(loss="correlation")
    closed, sampled = gs.predict(correlation, theory="closed-form"), gs.predict(correlation, scrambles=8)
    assert agrees(sampled, "Q", np.s_[1], closed.Q.values[1], 1e-9)


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
    r = gs.predict(s, theory="closed-form")
    np.testing.assert_allclose(r.M.values[1:, 0], [[0.18, 0], [0.36, 0.0756]], atol=1e-12)
    sampled = gs.predict(s, scrambles=8)
    assert agrees(sampled, "M", np.s_[1:], r.M.values[1:], 1e-9) and agrees(sampled, "Q", np.s_[1], r.Q.values[1], 1e-9)


def test_cubic_activation_on_the_third_hermite_polynomial():
    s = gs.BatchReuse(
        target=HE3, activation="z**3/3", second_layer=[0.7], loss="correlation", samples_per_dim=1.5, rate=0.2, steps=2
    )
    exact = 1.5 * (0.2 * 0.7) ** 3 * 3 * 324 / 6**1.5
    assert exact == pytest.approx(0.2722166941, abs=1e-10)
    assert float(gs.predict(s, theory="closed-form").M[2, 0, 0]) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        dict(activation="tanh"),
        dict(momentum=0.5),
        dict(constraint="spherical"),
        dict(data="fresh"),
        dict(second_layer_rate=0.1),
        dict(initial_overlap=[[0.1, 0.0], [0.0, 0.0]]),
    ],
)
def test_where_none_is_known_the_status_says_so(change):
    s = C1.replace(second_layer=[HALF, -HALF], **change)
    with pytest.warns(gs.GiantstepWarning, match="no closed form is known"):
        r = gs.predict(s, theory="closed-form")
    assert not bool(r.converged) and bool(r.M.isnull().all())


def test_the_experiment_beside_the_closed_form():
    """What is not known is not compared; 100 trials of d = 2000 see 5% of M."""
    s = gs.BatchReuse(target="tanh(z)", samples_per_dim=2, rate=0.3, second_layer=[0.8], decay=0.2, steps=2)
    report = gs.agreement(gs.compare(s, dim=2000, trials=100, theory="closed-form"))
    assert [row.variable for row in report.rows] == ["M", "Q", "cosine"]
    assert report.passes() and report.rows[0].smallest_visible < 0.05
    with pytest.raises(gs.InputError, match="theory.*exact.*kernels"):
        gs.predict(s, what="kernels", theory="closed-form")
