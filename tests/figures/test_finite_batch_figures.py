"""The stored experiment of the real network, what it says about both theories, and the
figures after one step.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest
import toys

import giantstep as gs
from giantstep.core.result.verdicts import chance_line
from giantstep.papers import cui2024asymptotics as cui
from giantstep.papers import dandi2025random as dandi
from giantstep.papers import giantstep2026batch as of_batches
from giantstep.papers import list_figures, recipes
from giantstep.papers.cui2024asymptotics import BATCHES, NETWORKS, real_network
from giantstep.papers.recipe import Size
from giantstep.papers.runner import answer, draw, judge, rebuild, reproduce

# -- the stored experiment -------------------------------------------------------------


def scores(network, theory, dim=cui.DIM):
    """Return the z-scores of the stored test errors against a theory, its finite-size
    correction included.
    """
    stored = real_network(network, dim)
    grid = {"step.batch_per_dim": stored["step.batch_per_dim"].values}
    result = gs.compare(NETWORKS[network], grid, theory=theory, dim=dim, stored=stored)
    assert result.attrs["trials"] == stored.attrs["trials"] and result.attrs["stored"]
    return result["test_error_z"].values


@pytest.mark.parametrize("network", NETWORKS)
def test_the_stored_experiment_has_every_batch(network):
    stored = real_network(network)
    assert stored["step.batch_per_dim"].values.tolist() == BATCHES
    assert stored.attrs["trials"] == cui.TRIALS[network]
    for name in ("test_error", "train_error", "norm"):
        assert np.all(stored[name] > 0) and np.all(stored[f"{name}_stderr"] > 0)
    assert np.all(stored["test_error_stderr"] < 0.01 * stored["test_error"])
    for dim, trials in ((2000, 64), (8000, 16)):
        other = real_network(network, dim)
        assert other["step.batch_per_dim"].values.tolist() == [0.5, 2, 10]
        assert other.attrs["trials"] == trials


def test_the_network_accepts_the_exact_theory_and_rejects_the_isotropic_map():
    exact = np.array([scores(network, "exact") for network in NETWORKS])
    assert np.abs(exact).max() < chance_line(exact.size)
    assert 0.6 < np.sqrt(np.mean(exact**2)) < 1.4
    for network in NETWORKS:
        assert np.abs(scores(network, "isotropic")).max() > 5


@pytest.mark.parametrize("dim", [2000, 8000])
def test_other_dimensions_say_the_same(dim):
    exact = np.array([scores(network, "exact", dim) for network in NETWORKS])
    assert np.abs(exact).max() < chance_line(exact.size)
    isotropic = [
        np.abs(scores(network, "isotropic", dim)).max() for network in NETWORKS
    ]
    assert max(isotropic) > 5


def test_limits_of_the_three_networks():
    expected = {
        ("tanh-sin", 0.5): (0.28946705, 0.265101),
        ("tanh-sin", 2.0): (0.13485290, 0.131504),
        ("tanh-sin", 100.0): (0.02534368, 0.026612),
        ("relu-tanh", 0.5): (0.50639805, 0.488372),
        ("relu-tanh", 2.0): (0.23444022, 0.240433),
        ("relu-relu", 1.0): (0.37408632, 0.366737),
        ("relu-relu", 100.0): (0.27830197, 0.301014),
    }
    for (network, batch), (exact, isotropic) in expected.items():
        scenario = NETWORKS[network].replace(step__batch_per_dim=batch)
        assert float(gs.predict(scenario)["test_error"]) == pytest.approx(
            exact, abs=2e-7
        )
        assert float(
            gs.predict(scenario, theory="isotropic")["test_error"]
        ) == pytest.approx(isotropic, abs=1e-6)


def test_finite_batch_figure(tmp_path):
    report = rebuild(
        recipes()["finite-batch"], tmp_path, Size(quick=True), progress=False
    )
    assert report.agrees
    names = {file.name for file in report.files}
    assert {"finite-batch.png", "finite-batch.pdf", "finite-batch-report.txt"} < names
    assert {
        f"finite-batch-{network}{part}"
        for network in NETWORKS
        for part in (".csv", ".toml")
    } < names
    study = gs.Study.read(tmp_path / "finite-batch" / "finite-batch-relu-relu.toml")
    assert study.experiment == {"dim": 4000, "trials": 64, "seed": 1}
    checks = {check.name: check.value for check in report.checks}
    assert (
        checks["largest |z| of the exact theory"]
        < 3
        < 10
        < checks["largest |z| of the isotropic map"]
    )
    text = (tmp_path / "finite-batch" / "finite-batch-tanh-sin.csv").read_text()
    rows = csv.DictReader(
        line for line in text.splitlines() if not line.startswith("#")
    )
    measured = [
        float(row["test_error"]) for row in rows if row["source"] == "experiment"
    ]
    np.testing.assert_allclose(measured, real_network("tanh-sin")["test_error"])


def test_on_a_gpu_the_experiment_is_made_again():
    for name, asked in cui.finite_batch(Size(quick=True, device="cuda")).items():
        if name in NETWORKS:
            assert asked.stored is None and asked.verb == "compare"
            assert asked.study.experiment == {
                "dim": 4000,
                "trials": cui.TRIALS[name],
                "seed": cui.STORED_SEED,
            }


# -- the numbers behind the other figures ----------------------------------------------


def test_the_learning_curve_of_the_notebook():
    scenario = cui.curve_scenarios(cui.CURVE_BATCH)["tanh"]
    isotropic = gs.predict(
        scenario, samples_per_dim=cui.CURVE_SAMPLES, theory="isotropic"
    )
    expected = [0.048483, 0.042504, 0.037311, 0.034305, 0.032518]
    np.testing.assert_allclose(isotropic["test_error"], expected, atol=1e-6)
    exact = gs.predict(scenario, samples_per_dim=1.5)["test_error"]
    assert float(exact) == pytest.approx(0.036935, abs=1e-6)


def test_a_gaussian_second_layer_is_reached_with_growing_vocabularies():
    scenario = dandi.size_scenarios()["tanh"]
    gaussian = float(gs.predict(scenario, dim=1000)["test_error"])
    assert gaussian == pytest.approx(0.15372, abs=1e-5)
    gaps = [
        abs(
            float(
                gs.predict(scenario.replace(second_layer=law), dim=1000)["test_error"]
            )
            / gaussian
            - 1
        )
        for law in map(dandi.gaussian_vocabulary, (2, 4, 8))
    ]
    assert gaps[0] > 2 * gaps[1] > 8 * gaps[2]
    # the rule of k nodes has the moments of a Gaussian
    law = dandi.gaussian_vocabulary(4)
    np.testing.assert_allclose(
        [np.dot(law.probabilities, np.power(law.values, j)) for j in (2, 4, 6)],
        [1, 3, 15],
    )


def test_random_features_are_a_vocabulary_of_one_value():
    for scenario in dandi.size_scenarios().values():
        single = scenario.replace(second_layer=dandi.gaussian_vocabulary(1))
        one = gs.predict(single, dim=500)["test_error"]
        none = gs.predict(single.replace(step=gs.NoStep()), dim=500)["test_error"]
        assert float(one) == pytest.approx(float(none), rel=1e-9)


@pytest.mark.filterwarnings("ignore:The steps add.*to the squared length of the mean")
def test_there_is_a_best_step_size():
    rates = np.geomspace(0.1, 30, 25)
    for network, (large, small) in {
        "tanh-sin": (5.3, 2.5),
        "relu-tanh": (8.0, 1.3),
    }.items():
        for batch, best in ((np.inf, large), (cui.STEP_BATCH, small)):
            scenario = NETWORKS[network].replace(step__batch_per_dim=batch)
            error = gs.predict(scenario, step__rate=rates, dim=400)["test_error"].values
            assert rates[np.argmin(error)] == pytest.approx(best, rel=0.35)
            assert error.min() < 0.9 * min(error[0], error[-1])


def test_an_edge_after_the_spike():
    erf = gs.predict(
        dandi.edge_scenario("erf"), what="spectrum", step__strength=1.0, x=[1.0]
    )
    assert float(erf["upper_edge"]) == pytest.approx(2.380627, abs=1e-6)


def test_outliers_of_the_two_spectra():
    spikes = gs.predict(
        dandi.vocabulary_outliers_scenario(), what="spectrum", dim=2000, x=[1.0]
    )["outliers"].values
    assert np.sum(np.isfinite(spikes)) == 3
    assert spikes[2] == pytest.approx(19.919, abs=0.005)  # networks 19.79(7)
    bounded = gs.predict(dandi.bounded_outlier_scenario(), what="spectrum", x=[1.0])
    assert float(bounded["upper_edge"]) == pytest.approx(9.14196, abs=1e-5)
    assert bounded["outliers"].values[:2] == pytest.approx([np.inf, 10.3297], abs=1e-4)


@pytest.mark.filterwarnings("ignore:The steps add.*to the squared length of the mean")
@pytest.mark.parametrize("name", ["step-size", "learning-curves", "vocabulary-size"])
def test_a_recipe_draws_all_its_panels(name):
    recipe = toys.shrunk(recipes()[name], dim=30, trials=3)
    results = answer(recipe, Size(quick=True), progress=False)
    figure = draw(recipe, results)
    report = judge(recipe, results)
    figure.canvas.draw()
    assert len(figure.axes) == 2
    assert all(
        axes.get_xlabel() and axes.get_ylabel() and axes.get_title(loc="left")
        for axes in figure.axes
    )
    assert (
        report.comparisons
        and report.checks
        and results.keys() == results.studies.keys()
    )


SPLIT = {
    "tanh": ([0.35465, 0.34812, 0.34519], [0.29585, 0.28167, 0.27548]),
    "relu": ([0.30631, 0.30017, 0.29727], [0.25477, 0.24293, 0.23728]),
}
"""finite_batches_several_steps section 10: one and two samples per dimension, in one,
two and four steps.
"""


@pytest.mark.parametrize(
    "names", [["tanh"], pytest.param(["tanh", "relu"], marks=pytest.mark.slow)]
)
def test_the_samples_of_a_batch_are_split(names, monkeypatch):
    """The lines are the page's table, at rates of three digits there: a wrong share of
    the batch or rate shows.
    """
    monkeypatch.setattr(of_batches, "DOUBLINGS", 1)
    monkeypatch.setattr(
        of_batches, "SPLIT", {name: of_batches.SPLIT[name] for name in names}
    )
    recipe = toys.shrunk(recipes()["split-the-batch"], dim=30, trials=2)
    results = answer(recipe, Size(quick=True), progress=False)
    draw(recipe, results).canvas.draw()
    for name in names:
        found = [
            results[f"{name}-{steps}"]["test_error"].isel(time=-1)[[0, -1]]
            for steps in of_batches.PARTS
        ]
        np.testing.assert_allclose(np.transpose(found), SPLIT[name], rtol=1e-3)
    report = judge(recipe, results)
    assert report.comparisons and all(check.agrees for check in report.checks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The steps add")  # at the largest rates of step-size
@pytest.mark.parametrize(
    "name",
    [
        "spectral-edge",
        "outliers",
        "finite-batch-spectrum",
        "step-size",
        "vocabulary-size",
    ],
)
def test_quick_figures_agree(name, tmp_path):
    report = reproduce(name, tmp_path, quick=True, progress=False)
    assert report.agrees, str(report)


def test_every_recipe_says_what_it_takes():
    """The quick size takes less than the full one, where one kind of machine has
    measured or scaled both.
    """
    for figure in list_figures():
        measured = [
            seconds
            for seconds in (figure.seconds_quick, figure.seconds_full)
            if seconds is not None
        ]
        assert all(seconds > 0 for seconds in measured)
        if figure.full_time and figure.full_time.how.startswith("scaled"):
            assert sorted(measured) == measured
        assert figure.parameters and figure.description
