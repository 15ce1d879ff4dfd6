"""The engine of one-pass SGD beside `giantstep.reference.online_sgd`."""

import numpy as np
import pytest
from scipy.special import erf

import giantstep as gs
from giantstep.reference import escape, online_sgd

ERF = "erf(z/sqrt(2))"
M0 = np.array([[0.3, 0.1], [-0.1, 0.2]])
Q0 = np.array([[1.0, 0.2], [0.2, 1.0]])


def unit_erf(x):
    return erf(x / np.sqrt(2))


def unit_erf_slope(x):
    return np.sqrt(2 / np.pi) * np.exp(-x * x / 2)


def tanh_slope(x):
    return 1 - np.tanh(x) ** 2


FUNCTIONS = {
    ERF: (unit_erf, unit_erf_slope),
    "tanh": (np.tanh, tanh_slope),
    "h2": (lambda x: x * x - 1, lambda x: 2 * x),
    "h3": (lambda x: x**3 - 3 * x, lambda x: 3 * x * x - 3),
    "z + h2(z)/2": (lambda x: x + (x * x - 1) / 2, lambda x: 1 + x),
}
TARGETS = {
    "erf(z1/sqrt(2)) + 0.5*z1*z2": lambda z: unit_erf(z[0]) + 0.5 * z[0] * z[1],
    "erf(z1/sqrt(2))/2 + erf(z2/sqrt(2))/2": lambda z: (
        unit_erf(z[0]) / 2 + unit_erf(z[1]) / 2
    ),
    "z1 + z1*z2": lambda z: z[0] + z[0] * z[1],
    "h3(z1)": lambda z: z[0] ** 3 - 3 * z[0],
    "h2(z1)": lambda z: z[0] ** 2 - 1,
    "tanh(z1) - z2": lambda z: np.tanh(z[0]) - z[1],
}


def both(steps, nodes, initial_overlap, initial_gram, **fields):
    """Return M, Q and error of the reference and of the engine after `steps`."""
    renamed = {"batch_size": "batch", "target_gram": "target_gram", "dim": "dim"}
    same = ("second_layer", "rate", "noise", "algorithm", "inner_rate", "constraint")
    known = {renamed[name]: fields[name] for name in renamed if name in fields}
    known |= {name: fields[name] for name in same if name in fields}
    if "target_gram" in known:
        known["target_gram"] = np.array(known["target_gram"])
    activation, slope = FUNCTIONS[fields["activation"]]
    target = TARGETS[fields["target"]]
    run = online_sgd.Run(target, activation, slope, nodes=nodes, **known)
    M = np.array(initial_overlap)
    Q = np.array(initial_gram)
    for _ in range(steps):
        M, Q = online_sgd.step(run, M, Q)
    plain = [*M.ravel(), *Q.ravel(), online_sgd.error(run, M, Q)]
    scenario = gs.OnlineSGD(
        steps=steps,
        initial_overlap=initial_overlap,
        initial_gram=initial_gram,
        **fields,
    )
    more = {"nodes": nodes} if fields["activation"] == "tanh" else {}
    found = gs.predict(scenario, times=[steps], **more)
    engine = [*found.M.values.ravel(), *found.Q.values.ravel(), found.mse.item()]
    return np.array(plain), np.array(engine)


PAIR = {
    "second_layer": [1, -0.7],
    "dim": 200,
    "batch_size": 20,
    "rate": 0.6,
    "activation": ERF,
    "initial_overlap": M0,
    "initial_gram": Q0,
}
COMMITTEE = {**PAIR, "target": "erf(z1/sqrt(2))/2 + erf(z2/sqrt(2))/2"}
ONE = {
    "second_layer": [1.0],
    "dim": 100,
    "batch_size": 7,
    "activation": "h3",
    "initial_overlap": [[0.3]],
    "initial_gram": [[1.0]],
}
ZOO = {
    # The engine has closed forms for erf, and exact rules for polynomials.
    "erf": (2, 28, 1e-8, {**COMMITTEE, "noise": 0.3}),
    "erf, projected, one sample": (
        1,
        28,
        1e-8,
        {**COMMITTEE, "constraint": "projected", "batch_size": 1, "rate": 0.02},
    ),
    "erf, spherical": (
        1,
        28,
        1e-8,
        {**COMMITTEE, "constraint": "spherical", "noise": 0.3},
    ),
    "erf, correlation": (2, 28, 1e-8, {**COMMITTEE, "algorithm": "correlation"}),
    "targets that are not orthogonal": (
        1,
        28,
        1e-8,
        {**COMMITTEE, "target_gram": [[1.0, 0.4], [0.4, 2.0]], "noise": 0.1},
    ),
    "h3, correlation, projected": (
        5,
        12,
        1e-10,
        {
            **ONE,
            "target": "h3(z1)",
            "rate": 0.002,
            "noise": 0.2,
            "algorithm": "correlation",
            "constraint": "projected",
        },
    ),
    "h3, squared, spherical": (
        5,
        14,
        1e-10,
        {**ONE, "target": "h3(z1)", "rate": 0.002, "constraint": "spherical"},
    ),
    "two directions, repeated samples": (
        2,
        16,
        1e-9,
        {
            **PAIR,
            "target": "z1 + z1*z2",
            "activation": "z + h2(z)/2",
            "algorithm": "extragradient",
            "inner_rate": 0.1,
            "rate": 0.05,
        },
    ),
    "two steps on each sample": (
        2,
        14,
        2e-8,
        {
            **ONE,
            "target": "h2(z1)",
            "activation": "h2",
            "algorithm": "two-step",
            "batch_size": 1,
            "rate": 0.0005,
            "noise": 0.1,
        },
    ),
    # Here both are product rules, which tend to each other like 0.6^nodes.
    "tanh, unlike directions": (
        1,
        44,
        1e-6,
        {
            **ONE,
            "target": "tanh(z1) - z2",
            "activation": "tanh",
            "noise": 0.1,
            "rate": 0.2,
            "initial_overlap": [[0.3, -0.2]],
            "initial_gram": [[0.5]],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(ZOO))
def test_the_engine_has_the_map_of_the_page(name):
    steps, nodes, accuracy, fields = ZOO[name]
    plain, engine = both(steps, nodes, **fields)
    np.testing.assert_allclose(engine, plain, rtol=accuracy, atol=accuracy)


def relu(x):
    return np.maximum(x, 0)


def relu_slope(x):
    return np.where(x > 0, 1.0, 0.0)


@pytest.mark.parametrize(
    "algorithm", ["squared", "extragradient", "two-step", "exponential"]
)
def test_a_relu_neuron_and_the_third_hermite_polynomial(algorithm):
    """Kinks are panel edges in both; the flow of the engine is good to 1e-6.

    Compared is what one update adds.
    """
    dim = 512
    gamma0 = 0.05
    inner = {"extragradient": 0.1, "two-step": gamma0}.get(algorithm, 0.0)

    def kinks(y):
        if algorithm == "exponential":
            # exp(min(-y f, 2)) has a kink at f = -2/y.
            return [0.0, -2 / y]
        # The second look is active where (1 - inner) lambda + inner y > 0.
        return [0.0, -inner * y / (1 - inner)]

    run = online_sgd.Run(
        TARGETS["h3(z1)"],
        relu,
        relu_slope,
        second_layer=[1.0],
        dim=dim,
        batch=1,
        rate=gamma0 / dim,
        algorithm=algorithm,
        inner_rate=inner,
        kinks=kinks,
        target_kinks=(-(3**0.5), 0.0, 3**0.5),
    )
    scenario = gs.OnlineSGD(
        target="h3(z1)",
        activation="relu",
        dim=dim,
        rate=gamma0 / dim,
        algorithm=algorithm,
        inner_rate=0.1,
        initial_overlap=[[-0.2]],
        initial_gram=[[0.7]],
        steps=2 * dim,
    )
    start = np.array([[-0.2]])
    norm = np.array([[0.7]])
    M, Q = online_sgd.step(run, start, norm)
    found = gs.predict(scenario.replace(steps=1), times=[1])
    # The reference has 1e-8 or better here. The engine says how good its averages are:
    # 1e-4 with an inner step (they are 1e-6), 3e-4 with the exponential loss (1e-4).
    known = {"extragradient": 1e-5, "exponential": 1e-3}
    accuracy = known.get(algorithm, 1e-8)
    moved = (M - start).item()
    longer = (Q - norm).item()
    assert found.M.item() + 0.2 == pytest.approx(moved, rel=accuracy)
    assert found.Q.item() - 0.7 == pytest.approx(longer, rel=accuracy)
    if algorithm == "extragradient":
        M, Q = online_sgd.flow(run, start, norm, updates=2 * dim)
        found = gs.predict(scenario, times=[2 * dim], theory="ode")
        assert found.M.item() == pytest.approx(M.item(), rel=1e-6)
        assert found.Q.item() == pytest.approx(Q.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("batch", "gamma0", "threshold"), [(1, 0.1, 0.5), (10, 0.2, 0.3)]
)
def test_the_time_to_leave_a_saddle(batch, gamma0, threshold):
    dim = 4000
    activation, slope = FUNCTIONS["h2"]
    run = online_sgd.Run(
        TARGETS["h2(z1)"],
        activation,
        slope,
        second_layer=[1.0],
        dim=dim,
        batch=batch,
        rate=gamma0 * batch / dim,
        algorithm="correlation",
        constraint="projected",
        nodes=8,
    )
    scenario = gs.OnlineSGD(
        target="h2(z1)",
        activation="h2",
        dim=dim,
        batch_size=batch,
        rate=gamma0 * batch / dim,
        algorithm="correlation",
        constraint="projected",
        initial_overlap="gaussian",
        steps=10,
    )
    with pytest.warns(gs.GiantstepWarning, match="not reached"):
        found = gs.predict(scenario, what="recovery", threshold=threshold)
    expected = escape.escape_time(run, threshold)
    assert found.escape_time.item() == pytest.approx(expected, rel=1e-6)


def test_a_linear_neuron_in_closed_form():
    """With e = w* - a w the residual is e.x, and E[(e.x)^2 |x|^2] = (d + 2) |e|^2."""
    a = 0.8
    m = 0.3
    q = 1.2
    dim = 50
    batch = 4
    rate = 0.3
    run = online_sgd.Run(
        lambda z: z[0], lambda x: x, np.ones_like, [a], dim, batch, rate, nodes=6
    )
    M, Q = online_sgd.step(run, np.array([[m]]), np.array([[q]]))
    square = 1 - 2 * a * m + a * a * q
    scatter = (dim + 2) / batch + 1 - 1 / batch
    assert M.item() == pytest.approx(m + rate * a * (1 - a * m), rel=1e-12)
    moved = q + 2 * rate * a * (m - a * q) + (rate * a) ** 2 * scatter * square
    assert Q.item() == pytest.approx(moved, rel=1e-12)
