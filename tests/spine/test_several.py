"""Several scenarios in one table are the tables of each, side by side, whichever verb
is asked.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.provenance import grid_of

from .test_grids import same

SIZES = {"width_per_dim": 1.5, "samples_per_dim": 2.0, "readout": gs.Ridge(0.1)}
NONE = gs.Network(target="tanh(2*z1)", noise=0.1, activation="relu", **SIZES)
ONE = NONE.replace(steps=[gs.MaximalStep(2.0)])
TWO = NONE.replace(steps=[gs.MaximalStep(2.0), gs.MaximalStep(1.0)])
BOTH = {"no step": NONE, "one step": ONE}
SHARED = gs.OneStep(
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
    step=gs.MaximalStep(2.0, batch_per_dim=2.0),
)
GRID = {"samples_per_dim": [0.5, 2.0]}
DRAWN = {"dim": 20, "trials": 2}


@pytest.mark.parametrize(
    "verb",
    [
        lambda s: gs.predict(s, **GRID),
        lambda s: gs.predict(s, GRID, what="steps"),
        lambda s: gs.simulate(s, **GRID, **DRAWN),
        lambda s: gs.compare(s, **GRID, **DRAWN),
        lambda s: gs.sweep(s, **GRID, **DRAWN, progress=False),
        lambda s: gs.optimize(
            s, over={"readout.ridge": (0.01, 10)}, minimise="test_error"
        ),
        lambda s: gs.sensitivity(s, to=["noise"]),
    ],
    ids=["predict", "steps", "simulate", "compare", "sweep", "optimize", "sensitivity"],
)
def test_a_scenario_in_a_table_has_the_numbers_it_has_alone(verb):
    together = verb(BOTH)
    assert together.scenario.values.tolist() == list(BOTH)
    for name, scenario in BOTH.items():
        same(together.sel(scenario=name), verb(scenario))


@pytest.mark.parametrize("theory", [None, "isotropic"])
@pytest.mark.parametrize("dim", [None, 60])
def test_a_preset_with_a_step_is_not_answered_as_the_first_of_the_table_without_one(
    theory, dim
):
    sizes = {
        "target": "tanh(z)",
        "width_per_dim": 1.5,
        "samples_per_dim": 2.0,
        "ridge": 0.1,
    }
    steps = {
        "none": gs.NoStep(),
        "all": gs.MaximalStep(2.0),
        "few": gs.MaximalStep(2.0, batch_per_dim=2.0),
    }
    scenarios = {name: gs.OneStep(step=step, **sizes) for name, step in steps.items()}
    together = gs.predict(scenarios, GRID, theory=theory, dim=dim)
    for name, scenario in scenarios.items():
        same(
            together.sel(scenario=name),
            gs.predict(scenario, GRID, theory=theory, dim=dim),
        )
    assert (
        float(together.test_error.sel(scenario="all").max())
        < 0.1
        < float(together.test_error.sel(scenario="none").min())
    )


def test_efficiencies_and_bounds_are_those_of_each_scenario():
    result = gs.predict(
        {"little noise": NONE.replace(noise=0.01), "much noise": NONE},
        samples_per_dim=[1.0, 2.0],
    )
    ratios = gs.efficiency(result)
    for name in ("little noise", "much noise"):
        alone = gs.efficiency(result.sel(scenario=name))
        np.testing.assert_allclose(
            ratios.test_error_ratio.sel(scenario=name),
            alone.test_error_ratio,
            rtol=1e-12,
        )


def test_the_scenarios_of_a_part_are_read_back(tmp_path):
    result = gs.predict({**BOTH, "two": TWO}, **GRID)
    gs.save(result, tmp_path / "several.nc")
    result = gs.load(tmp_path / "several.nc")
    assert grid_of(result).shape == (3, 2)
    assert (
        grid_of(result.isel(scenario=[0, 2])).scenarios()[2].content()
        == TWO.replace(samples_per_dim=0.5).content()
    )
    assert grid_of(result.sel(scenario="two")).scenario.content() == TWO.content()


def test_a_scenario_without_a_theory_is_measured_beside_one_that_has_one(tmp_path):
    same = SHARED.replace(fit_sample="same")
    with pytest.warns(
        gs.GiantstepWarning,
        match="1 of 2 points were not solved .*own sample of a maximal step",
    ) as seen:
        both = gs.compare({"fresh": SHARED, "same": same}, **DRAWN)
    assert len(seen) == 1
    with pytest.raises(
        gs.InputError, match="`fit_sample` has no limit here"
    ) as refused:
        gs.compare(same, **DRAWN)  # alone it is refused, as before
    assert both.source.values.tolist() == ["limit", "theory", "experiment"]
    assert both.status.sel(scenario="same").values.tolist() == [
        str(refused.value)
    ] * 2 + [""]
    alone = gs.compare(SHARED, **DRAWN)
    np.testing.assert_array_equal(
        both.test_error.sel(scenario="fresh"), alone.test_error
    )
    measured = gs.simulate(same, **DRAWN).test_error
    assert both.test_error.sel(scenario="same", source="experiment") == measured
    assert both.test_error.sel(scenario="same").isnull().values.tolist() == [
        True,
        True,
        False,
    ]
    gs.save(both, tmp_path / "both.nc")
    for result in (both, gs.load(tmp_path / "both.nc")):
        said = str(gs.agreement(result))
        assert (
            "No theory: scenario = same (Field `fit_sample` has no limit here: what is"
            " missing is" in said
        )
        assert gs.agreement(result).rows[0].points == 1
    assert "No theory" not in str(gs.agreement(both.sel(scenario=["fresh"])))


def test_a_name_without_a_theory_is_one_point_of_a_grid():
    with pytest.warns(gs.GiantstepWarning, match="1 of 2 points were not solved"):
        both = gs.compare(SHARED, fit_sample=["fresh", "same"], **DRAWN)
    assert "No theory: fit_sample = same (Field" in str(gs.agreement(both))
    with pytest.warns(gs.GiantstepWarning, match="1 of 2 points were not solved"):
        limit = gs.predict(SHARED, fit_sample=["fresh", "same"])
    assert limit.converged.values.tolist() == [True, False]
    # a small step on its own sample has a theory at a finite dimension, and no bare
    # limit
    small = gs.SmallStep(1.0, batch_per_dim=2.0, update="rank-one")
    weak = gs.OneStep(
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        second_layer="gaussian",
        step=small,
    )
    both = gs.compare(weak, fit_sample=["fresh", "same"], dim=40, trials=2)
    assert np.isfinite(both.test_error.sel(source="theory")).all()
    assert both.converged.sel(source="limit").values.tolist() == [True, False]
    assert "No theory" not in str(gs.agreement(both))


def test_lists_that_must_vary_together_are_told_how():
    same = SHARED.replace(fit_sample="same")
    with pytest.raises(
        gs.InputError,
        match="lists that vary together are DataArrays over one dimension",
    ):
        gs.simulate(
            same, samples_per_dim=[1.0, 2.0], step__batch_per_dim=[1.0, 2.0], **DRAWN
        )


def test_theories_are_a_dimension():
    scenario = gs.FewSteps(
        batch_per_dim=3.0,
        steps=1,
        target="tanh(2*z1)",
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
    )
    with pytest.warns(gs.GiantstepWarning, match="isotropic"):
        both = gs.compare(
            scenario, theory=["exact", "isotropic"], finite_size=False, **DRAWN
        )
    assert both.theory.values.tolist() == ["exact", "isotropic"]
    measured = both.test_error.sel(source="experiment")
    assert (measured.isel(theory=0) == measured.isel(theory=1)).all()
    exact, other = both.test_error.sel(source="limit")
    assert float(abs(exact - other).max()) > 1e-4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "at least one scenario"),
        ({"a": 3}, "Scenario 'a' must be a scenario, not a int"),
        ([NONE, ONE], "name them"),
        ({1: NONE}, "must be named by text"),
        (
            {"a": NONE, "b": gs.GiantSteps.example()},
            "of one family, not of Network and GiantSteps",
        ),
    ],
)
def test_bad_input(given, words):
    with pytest.raises(gs.InputError, match=words):
        gs.predict(given)


def test_a_field_that_one_scenario_lacks_is_refused_with_its_name():
    with pytest.raises(gs.InputError, match="Scenario 'no step': .*steps"):
        gs.predict({"one step": ONE, "no step": NONE}, steps__0__rate=[1.0, 2.0])


@pytest.mark.parametrize("theory", [3, [], {"exact": 1}, ["exact", 3]])
def test_theories_that_are_none_are_refused(theory):
    for verb in (gs.predict, gs.compare):
        with pytest.raises(gs.InputError, match="Field `theory` must be one of exact"):
            verb(
                NONE,
                theory=theory,
                **({} if verb is gs.predict else {"dim": 20, "trials": 1}),
            )
