"""The engine of giant steps beside `giantstep.reference.giant_steps`."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import giant_steps, online_sgd

EX1 = "(4*z1 + z1**2 + z2)/2"
EX2 = "(z1 + z1**2 + z2 - z2**2)/2"
TARGETS = {
    EX1: lambda z: (4 * z[0] + z[0] ** 2 + z[1]) / 2,
    EX2: lambda z: (z[0] + z[0] ** 2 + z[1] - z[1] ** 2) / 2,
    "h3(z)": lambda z: z[0] ** 3 - 3 * z[0],
    "z + h2(z)/2": lambda z: z[0] + (z[0] ** 2 - 1) / 2,
}


def tanh_slope(x):
    return 1 - np.tanh(x) ** 2


RELU = giant_steps.relu_averages
TANH = giant_steps.smooth_averages(np.tanh, tanh_slope)
ZOO = {
    "first example of the paper": (EX1, "relu", RELU, {"rate": 2.0}, 2),
    "second example, noise": (EX2, "relu", RELU, {"rate": 1.0, "noise": 0.5}, 2),
    "the population": (EX2, "relu", RELU, {"rate": 1.0, "batch_per_dim": np.inf}, 2),
    "three types": (
        "z + h2(z)/2",
        "relu",
        RELU,
        {"rate": 1.0, "values": [1, -1, 2.0], "fractions": [0.5, 0.25, 0.25]},
        2,
    ),
    "tanh": ("z + h2(z)/2", "tanh", TANH, {"rate": 1.0, "noise": 0.3}, 3),
    "one type, large batch": (
        "h3(z)",
        "tanh",
        TANH,
        {"rate": 0.2, "values": [1.0], "fractions": [1.0], "batch_per_dim": 20.0},
        3,
    ),
}


@pytest.mark.parametrize("name", list(ZOO))
def test_the_engine_has_the_map_of_the_page(name):
    target, activation, private, changes, steps = ZOO[name]
    fields = {
        "values": [1, -1],
        "fractions": [0.5, 0.5],
        "batch_per_dim": 1.0,
        "noise": 0.0,
    }
    fields |= changes
    nodes = 60 if activation == "tanh" else 24
    problem = giant_steps.Problem(TARGETS[target], private, nodes=nodes, **fields)
    state = giant_steps.start(problem, directions=2 if "z2" in target else 1)
    for _ in range(steps):
        state, cosine = giant_steps.step(problem, state)
    values = fields.pop("values")
    second_layer = gs.Vocabulary(values, fields.pop("fractions"))
    scenario = gs.GiantSteps(
        target=target,
        activation=activation,
        second_layer=second_layer,
        steps=steps,
        width=gs.inf,
        **fields,
    )
    found = gs.predict(scenario)
    # The engine's product rules have 8 digits at the most.
    accuracy = {"rtol": 2e-7, "atol": 2e-7}
    np.testing.assert_allclose(found.M.values[-1], state.M, **accuracy)
    np.testing.assert_allclose(found.norm.values[-1], state.q, **accuracy)
    np.testing.assert_allclose(
        found.gradient_cosine.values[steps - 1], cosine, **accuracy
    )


@pytest.mark.parametrize("target", [EX1, "z + h2(z)/2"])
def test_few_neurons_follow_the_map_of_one_pass_sgd(target):
    """At finite width it is the map of section 2 with d/n_b = 1/alpha0."""
    directions = 2 if "z2" in target else 1
    dim = 1e12
    second_layer = [1.0, -0.5]
    run = online_sgd.Run(
        TARGETS[target],
        lambda x: x + (x * x - 1) / 2,
        lambda x: 1 + x,
        second_layer=second_layer,
        dim=dim,
        batch=3.0 * dim,
        rate=0.5 * len(second_layer),
        noise=0.2,
        nodes=12,
    )
    M = np.zeros((2, directions))
    Q = np.eye(2)
    M, Q = online_sgd.step(run, M, Q)
    scenario = gs.GiantSteps(
        target=target,
        activation="z + h2(z)/2",
        second_layer=second_layer,
        rate=0.5,
        batch_per_dim=3.0,
        noise=0.2,
        steps=1,
    )
    found = gs.predict(scenario)
    np.testing.assert_allclose(found.M.values[-1], M, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.norm.values[-1], np.diag(Q), rtol=1e-7)


@pytest.mark.parametrize(
    ("target", "plain", "order", "cleaned"),
    [
        ("z1*z2", lambda z: z[0] * z[1], 2, False),
        ("z1*z2 + z1/2 + 0.3", lambda z: z[0] * z[1] + z[0] / 2 + 0.3, 2, True),
        ("z1*z2*z3", lambda z: z[0] * z[1] * z[2], 3, False),
        ("z1 + h2(z2)/2", lambda z: z[0] + (z[1] ** 2 - 1) / 2, 1, False),
    ],
)
def test_the_first_gradient_points_where_the_page_says(target, plain, order, cleaned):
    directions = 3 if "z3" in target else 2

    # 1/(1 + |omega|^2) has poles: the rule converges slowly.
    count = 30 if directions == 3 else 80

    def slope(x):
        return 1 + x + (x * x - 1) / 2

    expected = giant_steps.orientation(
        plain,
        slope,
        order,
        directions,
        alpha0=1.5,
        noise=0.2,
        cleaned=cleaned,
        count=count,
    )
    scenario = gs.GiantSteps(
        target=target,
        activation="z + h2(z)/2 + h3(z)/6",
        second_layer=gs.Vocabulary([1, -1]),
        rate=1.0,
        batch_per_dim=1.5,
        batch_exponent=order,
        noise=0.2,
        steps=1,
    )
    labels = "cleaned" if cleaned else "raw"
    found = gs.predict(scenario, what="specialisation", labels=labels)
    assert found.alignment.item() == pytest.approx(expected, rel=1e-5)


def test_the_first_step_of_relu_in_closed_form():
    """At order one the cosine is (5.2a), with c_1 = 1/2, C_0 = 0 and E s'^2 = 1/2."""
    problem = giant_steps.Problem(
        TARGETS["z + h2(z)/2"], RELU, [1, -1], [0.5, 0.5], 1.0, 2.0, noise=0.25
    )
    _, cosine = giant_steps.step(problem, giant_steps.start(problem, directions=1))
    label = 1 + 0.5 + 0.25
    expected = 0.5 / np.sqrt(0.25 + label * 0.5 / 2.0)
    np.testing.assert_allclose(cosine[:, 0], [expected, -expected], rtol=1e-12)
