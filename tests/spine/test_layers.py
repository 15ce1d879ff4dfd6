"""The layers of a comparison: the bare limit, the theory at the experiment's dimension,
and what each is called.
"""

import csv
import json
import warnings

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.layers import called, judged_side, judged_source
from giantstep.core.scenario.families import family_class, family_names

from .toy import Toy


def test_a_correction_is_not_called_the_limit(tmp_path):
    """Catches a table, a file or a sentence that says "limit" where the numbers are
    those of d = 50.
    """
    both = gs.compare(Toy(), dim=50, trials=5)
    assert [called(both, source) for source in both.source.values] == [
        "limit",
        "theory at d = 50",
        "experiment",
    ]
    assert (
        float(both["mean"].sel(source="limit"))
        == float(gs.predict(Toy())["mean"])
        == 1.0
    )
    assert float(judged_side(both)["mean"]) == float(gs.predict(Toy(), dim=50)["mean"])
    assert both.attrs["compared_with"] == judged_source(both) == "theory"
    text = str(gs.agreement(both))
    assert (
        "Compared with theory at d = 50; the bare limit (d to infinity) differs from"
        " that by up to 1.96% in" in text
    )
    assert (
        "Theory at d = 50 and experiment" in text and "Limit and experiment" not in text
    )
    gs.save(both, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open() as file:
        assert [row["source"] for row in csv.DictReader(file)] == [
            "limit",
            "theory at d = 50",
            "experiment",
        ]


def test_predict_at_a_dimension_is_called_by_it():
    assert called(gs.predict(Toy(), dim=50), "limit") == "theory at d = 50"
    assert called(gs.predict(Toy()), "limit") == "limit"


def test_a_grid_of_dimensions_has_the_theory_of_each(tmp_path):
    both = gs.compare(Toy(), dim=[50, 100], trials=3, level=[1, 3])
    assert called(both, "theory") == "theory at each d"
    assert called(both.isel(dim=1), "theory") == "theory at d = 100"
    gs.save(both, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open() as file:
        named = {
            (row["dim"], row["source"])
            for row in csv.DictReader(file)
            if row["source"].startswith("theory")
        }
    assert named == {("50", "theory at d = 50"), ("100", "theory at d = 100")}


def test_without_a_correction_there_is_one_limit():
    bare = gs.compare(Toy(), dim=50, trials=5, finite_size=False)
    assert (
        bare.source.values.tolist() == ["limit", "experiment"]
        and called(bare, "limit") == "limit"
    )
    assert (
        "Compared with the bare limit (d to infinity), without a finite-size"
        " correction." in str(gs.agreement(bare))
    )
    exact = gs.compare(gs.MixtureGLM.example(), dim=40, trials=2)
    assert (
        exact.source.values.tolist() == ["limit", "experiment"]
        and exact.attrs["compared_with"] == "limit"
    )
    assert "ompared with" not in str(gs.agreement(exact))


def test_a_bare_limit_that_nobody_asked_for_warns_of_nothing():
    step = gs.GrowingStep(rate=1.0, exponent=0.45, batch_per_dim=4.0, update="rank-one")
    grows = gs.OneStep(
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        second_layer="gaussian",
        step=step,
    )
    # a warning would fail this test
    both = gs.compare(grows, what="spectrum", dim=40, trials=2)
    # the layer says why it is empty
    assert "grow without bound" in str(both.status.sel(source="limit").values)
    assert np.isfinite(both.cdf.sel(source="theory")).all()
    report = gs.agreement(both)
    assert np.isnan(
        [row.from_limit for row in report.rows]
    ).all() and "bare limit" not in str(report)
    with pytest.warns(gs.GiantstepWarning, match="grow without bound"):
        # here it is asked for
        gs.compare(grows, what="spectrum", dim=40, trials=2, finite_size=False)


def test_a_theory_that_exists_at_a_finite_dimension_only_has_no_limit_beside_it():
    both = gs.compare(gs.OneStep.example_for("spikes"), what="along", dim=40, trials=2)
    assert (
        both.source.values.tolist() == ["theory", "experiment"]
        and called(both, "theory") == "theory at d = 40"
    )
    assert gs.agreement(both).rows[0].points > 0 and np.isnan(
        gs.agreement(both).rows[0].from_limit
    )


def test_a_comparison_stored_before_there_were_three_layers_is_read_as_what_it_is():
    both = gs.compare(Toy(), dim=50, trials=5)
    old = both.sel(source=["theory", "experiment"]).assign_coords(
        source=["limit", "experiment"]
    )
    del old.attrs["compared_with"]
    assert called(old, "limit") == "theory at d = 50" and judged_source(old) == "limit"
    ours = gs.agreement(both).rows[0]
    theirs = gs.agreement(old).rows[0]
    assert (ours.largest_z, ours.largest_relative_gap) == (
        theirs.largest_z,
        theirs.largest_relative_gap,
    )


@pytest.mark.parametrize("suffix", [".nc", ".json"])
def test_a_part_of_a_comparison_is_a_comparison(tmp_path, suffix):
    both = gs.compare(Toy(), dim=50, trials=5, level=[1, 3])
    gs.save(both, tmp_path / f"r{suffix}")
    whole = gs.agreement(both, "parts")
    for result in (both, gs.load(tmp_path / f"r{suffix}")):
        part = result[["parts"]]
        assert {"parts", "parts_stderr", "parts_gap", "parts_z", "converged"} == set(
            part.data_vars
        )
        assert gs.agreement(part).rows == whole.rows
        assert gs.agreement(part.isel(level=[0])).rows[0].points == 4


LIMITED = [
    (name, what)
    for name in family_names()
    for what, question in family_class(name).questions.items()
    if any("limit" in variable.engines for variable in question.variables)
]


@pytest.mark.parametrize(("family", "what"), LIMITED)
def test_a_limit_that_depends_on_the_dimension_says_so(family, what):
    """Catches a family whose limit at a finite `dim` would be laid over an experiment
    as if it were the bare one.
    """
    scenario = family_class(family).example_for(what)
    if "dim" in type(scenario).model_fields:
        pytest.skip("the dimension is a field, which is never left out")
    try:
        bare, finite = (
            gs.predict(scenario, what=what, cpu_limit=3, **more)
            for more in ({}, {"dim": 37})
        )
    except gs.InputError:
        return  # exists at a finite dimension only
    names = [
        v.name
        for v in family_class(family).questions[what].variables
        if v.name in bare and v.name in finite
    ]
    same = all(
        bare[n].shape == finite[n].shape
        and np.allclose(bare[n], finite[n], rtol=1e-9, atol=1e-12, equal_nan=True)
        for n in names
        if bare[n].dtype.kind == "f"
    )
    assert same or finite.attrs.get("finite_size"), names
    assert "finite_size" not in bare.attrs


def test_approximations_are_said_wherever_the_curve_is_named():
    """Catches a figure or a report that calls the isotropic description of a finite
    batch "limit".
    """
    network = gs.FewSteps.example().replace(target="z1", batch_per_dim=4.0, steps=2)
    with pytest.warns(gs.GiantstepWarning, match="from 14% below to 10% above"):
        both = gs.compare(network, dim=30, trials=3, theory="isotropic")
    assert (
        called(both, "theory") == "approximate theory at d = 30"
        and called(both, "limit") == "approximate limit"
    )
    assert list(json.loads(both.attrs["approximations"])) == [
        "the noise of a finite batch is described as isotropic"
    ]
    assert "approximations" not in gs.predict(network).attrs
    assert "The theory is an approximation: the noise of a finite batch" in str(
        gs.agreement(both)
    )


def test_a_bare_limit_that_does_not_exist_is_no_reason_to_warn():
    """Nobody asked for it: its status says why it is not there, and the report gives no
    distance from it.
    """
    step = gs.GrowingStep(rate=1.0, exponent=0.1, batch_per_dim=4.0, update="rank-one")
    scenario = gs.OneStep(
        activation="relu(z) - 1/sqrt(2*pi)",
        target="h1(z)+h2(z)/sqrt(2)",
        width_per_dim=2.0,
        samples_per_dim=4.0,
        ridge=0.2,
        second_layer=gs.Vocabulary([1, -1]),
        step=step,
    )
    asked = {
        "what": "spectrum",
        "dim": 60,
        "trials": 2,
        "x": [0.5, 1.0, 2.0],
        "step__exponent": [0.05, 0.45],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = gs.compare(scenario, strict=True, **asked)
    assert "grow without bound" in str(both.status.sel(source="limit").values[0])
    assert both.converged.sel(source="theory").all()
    report = gs.agreement(both)
    assert all(np.isnan(row.from_limit) for row in report.rows)
    assert "the bare limit" not in str(report)
