"""`compare(stored=...)`: an experiment that was made before is held against what it is
compared with.
"""

import numpy as np
import pytest
import xarray

import giantstep as gs

NETWORK = gs.Network(
    target="sin(z)",
    activation="tanh",
    noise=0.02,
    width_per_dim=1.0,
    samples_per_dim=1.5,
    readout=gs.Ridge(0.1),
    second_layer=gs.Vocabulary([1]),
    steps=[gs.MaximalStep(3.0, batch_per_dim=2.0)],
)
GRID = {"noise": [0.02, 0.1], "activation": ["relu", "tanh"]}


@pytest.fixture(scope="module")
def measured():
    return gs.simulate(NETWORK, dim=40, trials=3)


@pytest.fixture(scope="module")
def over_a_grid():
    return gs.simulate(NETWORK, GRID, dim=40, trials=2)


def test_the_same_scenario_is_taken(measured):
    stored = gs.compare(NETWORK, dim=40, stored=measured)
    new = gs.compare(NETWORK, dim=40, trials=3)
    assert stored.equals(new)
    assert stored.attrs["trials"] == 3
    from_comparison = gs.compare(
        NETWORK, dim=40, stored=new.sel(source="experiment", drop=True)
    )
    np.testing.assert_array_equal(from_comparison.test_error_z, new.test_error_z)


@pytest.mark.parametrize(
    ("changes", "asked", "said"),
    [
        (
            {"activation": "relu"},
            {},
            (
                r"`activation` is 'tanh\(z\)' in the stored experiment, but 'relu\(z\)'"
                r" here"
            ),
        ),
        (
            {"steps__0__rate": 2.7},
            {},
            r"`steps.0.rate` is 3.0 in the stored experiment, but 2.7 here",
        ),
        (
            {"noise": 0.03},
            {},
            "`noise` is 0.02 in the stored experiment, but 0.03 here",
        ),
        (
            {"steps": ()},
            {},
            "`steps.0.kind` is 'maximal' in the stored experiment, but nothing here",
        ),
        (
            {"readout": gs.Ridge(0.2)},
            {},
            "`readout.ridge` is 0.1 in the stored experiment, but 0.2 here",
        ),
        (
            {"target": gs.Function(np.sin, name="f")},
            {},
            "`target` is 'sin.z.' in the stored experiment, but the call",
        ),
        ({}, {"dim": 60}, "`dim` is 40 in the stored experiment, but 60 here"),
        (
            {},
            {"dim": [40, 60]},
            r"`dim` is 40 in the stored experiment, but \[40, 60\] here",
        ),
        ({}, {"seed": 1}, "`seed` is 0 in the stored experiment, but 1 here"),
        (
            {},
            {"paired": True},
            "`paired` is False in the stored experiment, but True here",
        ),
        (
            {},
            {"what": "spectrum"},
            "`what` is 'errors' in the stored experiment, but 'spectrum' here",
        ),
        (
            {},
            {"noise": [0.02, 0.03]},
            "`noise` varies here, over .0.02, 0.03., but not in the stored experiment",
        ),
    ],
)
def test_another_scenario_question_dimension_or_seed_is_refused(
    measured, changes, asked, said
):
    how = {"dim": 40, "stored": measured, **asked}
    with pytest.raises(gs.InputError, match=said):
        gs.compare(NETWORK.replace(changes), **how)


def test_settings_of_the_experiment_are_held():
    untrained = NETWORK.replace(steps=())
    places = np.array([0.5, 1.0, 2.0])
    spectrum = gs.simulate(untrained, what="spectrum", x=places, dim=40, trials=2)
    same = gs.compare(untrained, what="spectrum", x=places, dim=40, stored=spectrum)
    assert same.sizes["x"] == 3
    with pytest.raises(
        gs.InputError,
        match=r"`x` is \[0.5, 1.0, 2.0\] in the stored experiment, but \[0.5, 1.0\]",
    ):
        gs.compare(untrained, what="spectrum", x=places[:2], dim=40, stored=spectrum)


def test_points_of_a_grid_are_held(over_a_grid):
    assert gs.compare(NETWORK, GRID, dim=40, stored=over_a_grid).sizes["noise"] == 2
    with pytest.raises(
        gs.InputError,
        match=r"`noise` is \[0.02, 0.1\] in the stored experiment, but \[0.02, 0.2\]",
    ):
        gs.compare(NETWORK, {**GRID, "noise": [0.02, 0.2]}, dim=40, stored=over_a_grid)
    with pytest.raises(
        gs.InputError,
        match="`activation` is .'relu', 'tanh'. in the stored experiment, but",
    ):
        gs.compare(
            NETWORK, {**GRID, "activation": ["relu", "erf"]}, dim=40, stored=over_a_grid
        )
    with pytest.raises(
        gs.InputError,
        match=r"`noise` is \[0.02, 0.1\] in the stored experiment, but 0.02 here",
    ):
        gs.compare(NETWORK, dim=40, stored=over_a_grid)


def test_a_part_of_a_grid_is_the_scenario_of_its_point(over_a_grid):
    one = gs.compare(NETWORK, dim=40, stored=over_a_grid.isel(noise=0, activation=1))
    assert np.isfinite(one.test_error_z).all()
    with pytest.raises(
        gs.InputError, match="`noise` is 0.1 in the stored experiment, but 0.02 here"
    ):
        gs.compare(NETWORK, dim=40, stored=over_a_grid.isel(noise=1, activation=1))
    with pytest.raises(
        gs.InputError,
        match="`activation` is 'relu.z.' in the stored experiment, but 'tanh.z.' here",
    ):
        gs.compare(NETWORK, dim=40, stored=over_a_grid.isel(noise=0, activation=0))
    with pytest.raises(gs.InputError, match="does not say any more which `noise`"):
        gs.compare(
            NETWORK,
            dim=40,
            stored=over_a_grid.isel(noise=0, activation=1).drop_vars("noise"),
        )


def test_several_scenarios_are_held_by_name():
    two = {"a": NETWORK, "b": NETWORK.replace(noise=0.1)}
    stored = gs.simulate(two, dim=40, trials=2)
    assert gs.compare(two, dim=40, stored=stored).sizes["scenario"] == 2
    with pytest.raises(
        gs.InputError, match="`noise` is 0.1 in the stored experiment, but 0.2 here"
    ):
        gs.compare({**two, "b": NETWORK.replace(noise=0.2)}, dim=40, stored=stored)
    with pytest.raises(
        gs.InputError, match="`scenario` is .'a', 'b'. in the stored experiment, but"
    ):
        gs.compare({"a": NETWORK}, dim=40, stored=stored)
    assert np.isfinite(
        gs.compare(NETWORK, dim=40, stored=stored.sel(scenario="a")).test_error_z
    ).all()
    with pytest.raises(
        gs.InputError, match="`noise` is 0.1 in the stored experiment, but 0.02 here"
    ):
        gs.compare(NETWORK, dim=40, stored=stored.sel(scenario="b"))


def test_only_an_experiment_is_taken(measured):
    for other in (gs.predict(NETWORK), gs.compare(NETWORK, dim=40, stored=measured)):
        with pytest.raises(gs.InputError, match="`stored` must be an experiment"):
            gs.compare(NETWORK, dim=40, stored=other)
    with pytest.raises(
        gs.InputError, match="`stored` must be a result of simulate or sweep, not a int"
    ):
        gs.compare(NETWORK, dim=40, stored=3)


def test_numbers_from_elsewhere_are_held_by_their_points():
    columns = {
        "test_error": [0.3, 0.2],
        "test_error_stderr": [0.01, 0.01],
        "converged": [True, True],
    }
    data = {name: ("ridge", values) for name, values in columns.items()}
    scenario = gs.OneStep.example()
    own = xarray.Dataset(
        {**data, "status": ("ridge", ["", ""])},
        {"ridge": [0.1, 1.0]},
        attrs={"trials": 9},
    )
    assert (
        gs.compare(scenario, dim=200, stored=own, ridge=[0.1, 1.0]).attrs["trials"] == 9
    )
    with pytest.raises(
        gs.InputError,
        match=r"`ridge` is \[0.1, 1.0\] in the stored experiment, but \[0.1, 2.0\]",
    ):
        gs.compare(scenario, dim=200, stored=own, ridge=[0.1, 2.0])
