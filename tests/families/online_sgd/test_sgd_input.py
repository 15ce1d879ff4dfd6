"""Bad input of one-pass SGD: refused in one sentence with the field and what is
allowed; and files.
"""

import numpy as np
import pytest

import giantstep as gs


def jumping(z):
    return (z[..., 0] ** 2 + z[..., 1] > 0.3) * 1.0


BAD = [
    (
        {"target": "z1*z2", "target_gram": [[1, 1], [1, 1]]},
        "target_gram.*positive definite",
    ),
    ({"initial_overlap": [[0.9]], "initial_gram": [[0.5]]}, "initial_gram.*eigenvalue"),
    ({"initial_overlap": [[1.5]]}, "initial_overlap.*length at most 1"),
    (
        {"second_layer": [1.0, 1.0], "initial_overlap": [[0.1]]},
        "initial_overlap.*2 x 1 matrix.*second_layer",
    ),
    ({"second_layer": [1.0, 1.0], "initial_gram": [[1.0]]}, "initial_gram.*2 x 2"),
    ({"second_layer": []}, "second_layer.*at least one"),
    ({"second_layer": [1.0, float("nan")]}, "second_layer.*numbers"),
    ({"batch_size": 0}, "batch_size.*at least 1"),
    ({"batch_size": 2.5}, "batch_size.*whole number"),
    ({"rate": 0.0}, "rate.*above 0"),
    ({"rate": -1.0}, "rate.*above 0"),
    ({"noise": -0.1}, "noise.*at least 0"),
    ({"dim": 4, "second_layer": [1, 1]}, r"dim.*2p \+ k = 5"),
    ({"algorithm": "extragradient", "inner_rate": 1.0}, "inner_rate.*below 1 for relu"),
    (
        {"algorithm": "extragradient", "inner_rate": 0.3, "second_layer": [2.0]},
        "inner_rate.*below 1 for relu",
    ),
    ({"algorithm": "two-step", "rate": 0.01, "dim": 1000}, "rate.*below 1 for relu"),
    ({"algorithm": "two-step", "batch_size": 4}, "batch_size.*1 for two-step"),
    ({"algorithm": "sam", "inner_rate": 0.1}, "inner_rate.*at most 0 for sam"),
    (
        {"algorithm": "extragradient", "inner_rate": -0.1},
        "inner_rate.*at least 0 for extragradient",
    ),
    ({"algorithm": "sqared"}, "`algorithm` must be one of squared, correlation"),
    ({"algorithm": 3}, "algorithm"),
    ({"algorithm": lambda l: l}, "algorithm.*F\\(l, y\\)"),
    (
        {"constraint": "spherical", "initial_gram": [[2.0]]},
        "initial_gram.*one on the diagonal",
    ),
    ({"constraint": "sphere"}, "constraint"),
    ({"initial_overlap": "one"}, "initial_overlap.*'zero', 'random' or 'gaussian'"),
    (
        {"initial_overlap": [[0.1], [0.1, 0.2]]},
        "initial_overlap.*'gaussian', or an array.*rows of equal length, but",
    ),
    (
        {"initial_overlap": [[0.1, "a"]]},
        "initial_overlap.*'gaussian', or an array of numbers, but",
    ),
    (
        {"initial_overlap": [[float("nan")]]},
        "initial_overlap.*'gaussian', or an array of finite numbers, but",
    ),
    (
        {"initial_gram": "zero"},
        "initial_gram.*'orthogonal' or 'random', or an array of numbers, but",
    ),
    ({"target": "log(z1)"}, "target.*finite"),
    ({"target": "z1*z7"}, "target.*at most 6"),
    ({"target": "sign(z1**2 + z2**2 - 1)"}, "target.*not declared"),
    (
        {"target": gs.Target(jumping, directions=2)},
        "target.*not declared",
    ),  # jumps on planes are found
    ({"activation": "sign"}, "activation.*derivative"),
    ({"steps": 0}, "steps.*at least 1"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_bad_fields(fields, message):
    with pytest.raises(gs.InputError, match=message):
        gs.OnlineSGD(**{"rate": 0.1 / 1000, **fields})


def test_a_declared_jump_is_fine():
    jump = gs.OnlineSGD(
        rate=0.1, target=gs.Function(lambda z: (z > 0.3) * 1.0, kinks=[0.3])
    )
    plane = gs.OnlineSGD(rate=0.1, target="sign(z1 + z2)")
    assert [scenario.target.directions for scenario in (jump, plane)] == [1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"times": [0.5]}, "times.*whole numbers"),
        ({"times": [10**9]}, "times.*from 0 to steps"),
        ({"times": [-1]}, "times"),
        ({"what": "recovery", "threshold": 1.5}, "threshold.*below 1"),
        ({"nodes": 1}, "nodes"),
        ({"moments": "grid"}, "moments.*auto, tensor, sobol"),
        ({"theory": "odd"}, "theory.*map"),
        ({"dim": 2}, "dim.*at least 2p"),
    ],
    ids=str,
)
def test_bad_settings(settings, message):
    with pytest.raises(gs.InputError, match=message):
        gs.predict(gs.OnlineSGD.example(), **settings)


def test_a_tensor_grid_above_five_million_points_is_refused():
    wide = gs.OnlineSGD(
        rate=0.1, activation="tanh", target="tanh(z1)", second_layer=[1.0] * 6
    )
    with pytest.raises(gs.InputError, match="nodes, more than can be held"):
        gs.predict(wide, moments="tensor", nodes=16)


def test_memory_that_cannot_fit_is_refused():
    with pytest.raises(gs.GiantstepError, match="memory"):
        gs.simulate(gs.OnlineSGD.example().replace(batch_size=10**12), trials=1)


def test_files_keep_matrices_and_transforms():
    scenario = gs.OnlineSGD(
        rate=0.1,
        target="z1 + z1*z2",
        second_layer=[1, -1],
        algorithm="tanh(z)",
        initial_overlap=[[0.1, 0.2], [0.3, 0.4]],
        initial_gram=np.eye(2) + 0.5,
    )
    study = gs.Study(scenario)
    assert gs.Study.from_toml(study.to_toml()).scenario == scenario
    with pytest.raises(gs.InputError, match="callable"):
        gs.Study.from_toml(
            gs.Study(
                scenario.replace(algorithm=lambda l, y: l * y[..., None])
            ).to_toml()
        )


def test_algorithms_may_vary_over_a_grid():
    result = gs.predict(
        gs.OnlineSGD.example(), algorithm=["squared", "correlation"], times=[5]
    )
    assert result.algorithm.values.tolist() == ["squared", "correlation"]
    assert result.M.values[0] != result.M.values[1]


def test_an_experiment_that_does_not_recover_says_so():
    scenario = gs.OnlineSGD.example().replace(steps=1, initial_overlap=[[0.01]])
    with pytest.warns(gs.GiantstepWarning):
        result = gs.simulate(scenario, what="recovery", trials=2)
    assert str(result.status.values).endswith("did not reach the cosine within `steps`")
