"""The loss on fresh samples from the order parameters: pair moments, conditional means,
and sampled networks.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.maths.gaussian import Function, Target
from giantstep.problems.batch_reuse.population import (
    own_rule,
    pair_moment,
    population_loss,
)

Q1 = 1.3
Q2 = 0.7
C = 0.4


@pytest.mark.parametrize(
    ("activation", "wanted"),
    [
        ("z", C),
        ("z**3", 9 * C * Q1 * Q2 + 6 * C**3),
        ("h2(z)", 2 * C**2 + (Q1 - 1) * (Q2 - 1)),
        (
            "abs",
            2 / np.pi * (np.sqrt(Q1 * Q2 - C**2) + C * np.arcsin(C / np.sqrt(Q1 * Q2))),
        ),
        (
            "2*erf(z/sqrt(2))",
            4 * 2 / np.pi * np.arcsin(C / np.sqrt((1 + Q1) * (1 + Q2))),
        ),
    ],
)
def test_pair_moments_in_closed_form(activation, wanted):
    assert pair_moment(Function(activation), Q1, Q2, C) == pytest.approx(
        wanted, rel=1e-9
    )


def test_the_general_route_gives_what_the_closed_form_of_relu_gives():
    relu = Function("relu")
    same = Function("(z + abs(z))/2")
    assert pair_moment(same, Q1, Q2, C) == pytest.approx(
        pair_moment(relu, Q1, Q2, C), abs=1e-10
    )
    # the same neuron
    assert pair_moment(relu, Q1, Q1, Q1) == pytest.approx(Q1 / 2, rel=1e-7)


@pytest.mark.parametrize(
    "activation", ["relu", "erf(z/sqrt(2))", "tanh", "softplus", "abs"]
)
@pytest.mark.parametrize(
    "target", ["h3(z)", "sign(z)", "z1 + z1*z2", "tanh(z1 + h3(z2))"]
)
@pytest.mark.parametrize("loss", ["square", "correlation"])
def test_it_is_the_mean_over_fresh_samples(activation, target, loss):
    """A million samples; the z-score of the difference, and an error of half a percent
    of the spread is seen.
    """
    g = Target(target)
    sigma = Function(activation)
    a = np.array([0.8, -0.5])
    Q = np.array([[1.2, 0.3], [0.3, 0.9]])
    M = np.array([[0.4, -0.2], [0.1, 0.3]])[:, : g.directions]
    rng = np.random.default_rng(8)
    z = rng.standard_normal((200_000, g.directions))
    root = np.linalg.cholesky(Q - M @ M.T)
    h = z @ M.T + rng.standard_normal((200_000, 2)) @ root.T
    f = sigma(h) @ a
    y = g(z) + 0.5 * rng.standard_normal(200_000)
    values = (f - y) ** 2 / 2 if loss == "square" else -f * y
    loss_of_theory = population_loss(sigma, loss, own_rule(g, 2**14, 0), 0.25, a, M, Q)
    assert abs(loss_of_theory - values.mean()) < 4.5 * values.std() / 200_000**0.5


def test_a_neuron_on_the_target_has_no_spread():
    g = Target("relu(z)")
    relu = Function("relu")
    M = np.array([[1.0]])
    Q = np.array([[1.0]])
    assert population_loss(
        relu, "square", own_rule(g, 2, 0), 0.0, np.array([1.0]), M, Q
    ) == pytest.approx(0, abs=1e-9)


def test_exact_second_moments_of_polynomials():
    assert own_rule(Target("z1*z2*z3 + h3(z4)"), 2**8, 0).power == pytest.approx(
        7, rel=1e-12
    )
    assert own_rule(Target("tanh(z1 + h3(z2))"), 2**16, 0).power == pytest.approx(
        0.642339, abs=5e-6
    )
    start = gs.predict(
        gs.BatchReuse(target="z1*z2*z3 + h3(z4)", samples_per_dim=1, rate=0.1, steps=1),
        nodes=2**14,
    )
    assert float(start.population_loss[0]) == pytest.approx(3.5 + 0.25, abs=1e-9)


@pytest.mark.parametrize("q", [4.0, 25.0, 400.0])
@pytest.mark.parametrize("correlation", [0.5, 0.99])
def test_pair_moments_of_long_neurons(q, correlation):
    """erf, steep where neurons are long, against its closed form."""
    wanted = 2 / np.pi * np.arcsin(correlation * q / (1 + q))
    assert pair_moment(
        Function("erf(z/sqrt(2))"), q, q, correlation * q
    ) == pytest.approx(wanted, rel=1e-9)
