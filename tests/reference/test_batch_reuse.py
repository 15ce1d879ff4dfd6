"""The engine of batch reuse beside `giantstep.reference.batch_reuse`.

The engine sums over Sobol points and says how good that is; the reference has product
rules. So they are compared within the standard errors of the engine, which are held
below 2e-4 too, measured from 16 scrambles, and may differ by 5 of them.
"""

import itertools

import numpy as np
import pytest
from scipy.special import erf

import giantstep as gs
from giantstep.reference import batch_reuse, single_pass

H3 = "h3(z)/sqrt(6)"
ERF = "erf(z/sqrt(2))"
FUNCTIONS = {
    ERF: (
        lambda h: erf(h / np.sqrt(2)),
        lambda h: np.sqrt(2 / np.pi) * np.exp(-h * h / 2),
    ),
    "z + h2(z)/2": (lambda h: h + (h * h - 1) / 2, lambda h: 1 + h),
    "softplus": (
        lambda h: np.logaddexp(0, h),
        lambda h: 1 / (1 + np.exp(-h)),
    ),
}
TARGETS = {
    H3: lambda z: (z[0] ** 3 - 3 * z[0]) / np.sqrt(6),
    "sin(z)": lambda z: np.sin(z[0]),
    "sin(z1) - z2/2": lambda z: np.sin(z[0]) - z[1] / 2,
}
STEEP = {"target": H3, "activation": ERF, "samples_per_dim": 2.0, "rate": [0.3, 0.2]}
SINE = {**STEEP, "target": "sin(z)"}
ZOO = {
    "reused": (STEEP, 50),
    "correlation loss": ({**STEEP, "loss": "correlation"}, 50),
    "noise and decay": ({**SINE, "noise": 0.3, "decay": 0.4}, 22),
    "momentum": ({**STEEP, "momentum": 0.5, "decay": 0.1}, 50),
    "on the sphere": ({**STEEP, "constraint": "spherical"}, 50),
    "both layers": ({**SINE, "second_layer_rate": 0.5, "activation": "softplus"}, 50),
    "a start that knows something": (
        {**SINE, "initial_overlap": [[0.2]], "initial_gram": [[1.3]]},
        50,
    ),
    "three steps": ({**SINE, "rate": [0.2, 0.2, 0.2]}, 24),
    "two neurons": (
        {
            **SINE,
            "second_layer": [1.0, -0.5],
            "activation": "z + h2(z)/2",
            "rate": [0.1, 0.1],
        },
        14,
    ),
    "two directions": ({**SINE, "target": "sin(z1) - z2/2"}, 26),
    "paired neurons": (
        {
            **SINE,
            "second_layer": [0.7, -0.7],
            "initial_gram": [[1.0, 1.0], [1.0, 1.0]],
            "rate": [0.2],
        },
        50,
    ),
}
RENAMED = {
    "rate": "rates",
    "initial_overlap": "overlap",
    "initial_gram": "gram",
}


def problem_of(fields):
    """Return the reference's problem of the engine's fields."""
    known = {RENAMED.get(name, name): value for name, value in fields.items()}
    known["target"] = TARGETS[fields["target"]]
    known["activation"], known["slope"] = FUNCTIONS[fields["activation"]]
    known["directions"] = 2 if "z2" in fields["target"] else 1
    known["spherical"] = known.pop("constraint", "none") == "spherical"
    known.setdefault("second_layer", [1.0])
    return batch_reuse.Problem(**known)


def check(found, path, names):
    for name in names:
        plain = np.array(path[name])
        engine = found[name].values[: len(plain)]
        error = found[f"{name}_stderr"].values[: len(plain)]
        assert error.max() < 2e-4
        gap = np.abs(engine - plain)
        assert np.all(gap <= 5 * error + 1e-6), (name, gap.max(), error.max())


@pytest.mark.parametrize("name", list(ZOO))
def test_the_engine_has_the_recursion_of_the_page(name):
    fields, count = ZOO[name]
    problem = problem_of(fields)
    points, weights = batch_reuse.grid(problem, len(problem.rates), count)
    path = batch_reuse.reused(problem, points, weights)
    found = gs.predict(gs.BatchReuse(**fields, steps=len(fields["rate"])), scrambles=16)
    names = ["M", "Q", "train_loss"]
    if "second_layer_rate" in fields:
        names.append("a")
    check(found, path, names)


@pytest.mark.parametrize("data", ["cycle", "replacement"])
def test_parts_of_a_batch_are_masks(data):
    """A mask is one more coordinate of a sample: here it takes a few values."""
    fields = {**SINE, "rate": [0.2, 0.2, 0.2]}
    problem = problem_of(fields)
    points, weights = batch_reuse.grid(problem, 3, 20)
    if data == "cycle":
        kinds = [(1, 0, 1), (0, 1, 0)]
    else:
        kinds = list(itertools.product([0, 1], repeat=3))
    masks = np.repeat(np.array(kinds), len(weights), axis=0).T
    everything = np.tile(points, (len(kinds), 1))
    share = np.tile(weights, len(kinds)) / len(kinds)
    path = batch_reuse.reused(problem, everything, share, masks)
    found = gs.predict(
        gs.BatchReuse(**fields, steps=3, data=data, batches=2), scrambles=16
    )
    check(found, path, ["M", "Q", "train_loss"])


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        (STEEP, 60),
        ({**SINE, "noise": 0.3, "decay": 0.4}, 50),
        ({**SINE, "second_layer": [1.0, -0.5], "target": "sin(z1) - z2/2"}, 26),
    ],
    ids=["steep", "noise and decay", "two neurons"],
)
def test_fresh_samples_have_no_memory(fields, count):
    path = single_pass.single_pass(problem_of(fields), count)
    found = gs.predict(gs.BatchReuse(**fields, steps=2, data="fresh"), scrambles=16)
    check(found, path, ["M", "Q"])


def test_the_linear_network_in_closed_form():
    """Scenario T1 of the page: moments of the Marchenko-Pastur law, to rounding."""
    problem = batch_reuse.Problem(
        lambda z: z[0], lambda h: h, np.ones_like, [1.0], 0.5, [0.3] * 4, noise=0.4
    )
    path = batch_reuse.reused(problem, *batch_reuse.grid(problem, 4, 4))
    overlaps = [M.item() for M in path["M"][1:]]
    norms = [Q.item() for Q in path["Q"][1:]]
    # Both are printed with 8 digits there.
    np.testing.assert_allclose(
        overlaps, [0.15, 0.2325, 0.284625, 0.32071875], rtol=0, atol=5e-9
    )
    np.testing.assert_allclose(
        norms, [0.853, 0.8676175, 0.90216038, 0.93732707], rtol=0, atol=5e-9
    )


def test_a_cubic_neuron_in_closed_form():
    """(4.3): M^2 = alpha (eta a)^3 3 324/6^(3/2)."""
    alpha = 1.5
    eta = 0.2
    a = 0.7
    problem = batch_reuse.Problem(
        TARGETS[H3],
        lambda h: h**3 / 3,
        lambda h: h * h,
        [a],
        alpha,
        [eta, eta],
        loss="correlation",
    )
    path = batch_reuse.reused(problem, *batch_reuse.grid(problem, 2, 8))
    expected = alpha * (eta * a) ** 3 * 3 * 324 / 6**1.5
    assert path["M"][2].item() == pytest.approx(expected, rel=1e-10)
