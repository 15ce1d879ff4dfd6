"""The mechanism of recipes, on a toy, and the numbers behind the published figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import giantstep as gs
from giantstep import papers
from giantstep.core.base.errors import InputError
from giantstep.core.scenario.references import BIBTEX
from giantstep.papers import (
    cui2024asymptotics,
    dandi2025random,
    list_figures,
    mei2022generalization,
    recipes,
)
from giantstep.papers.recipe import (
    FullTime,
    Recipe,
    Size,
    comparison,
    experiment,
    limit,
)
from giantstep.papers.report import Check, Report
from giantstep.papers.runner import answer, judge, rebuild, reproduce
from giantstep.tools.figures.style import new_figure


def toy_studies(size):
    scenario = gs.OneStep(
        activation="tanh",
        target="sin(z)",
        width_per_dim=1.0,
        samples_per_dim=1.0,
        ridge=0.1,
    )
    few = [0.5, 1.5]
    many = np.linspace(0.5, 1.5, 5)
    sizes = {"dim": size(30, 60), "trials": 6, "seed": 1}
    return {
        "curve": comparison(
            scenario,
            {"samples_per_dim": few},
            meaning="a toy",
            judged=["test_error"],
            **sizes,
        ),
        "line": limit(scenario, {"samples_per_dim": many}, dim=60),
        "network": experiment(scenario, **sizes),
    }


def toy_figure(results):
    figure, (axes,) = new_figure(1, 1, width=3, height=2)
    axes.plot(
        results["curve"]["samples_per_dim"],
        results["curve"]["test_error"].sel(source="limit"),
    )
    return figure


def toy_checks(results):
    yield Check("a number", "it is small", results["line"]["test_error"][0], line=2.0)


TOY = Recipe(
    "toy", "A toy", "one panel", toy_studies, toy_figure, toy_checks, notes=["a note"]
)
QUICK = Size(quick=True)


def test_a_recipe_writes_figure_data_studies_and_report(tmp_path):
    told = []
    report = rebuild(TOY, tmp_path, QUICK, progress=lambda *step: told.append(step))
    names = {file.name for file in (tmp_path / "toy").iterdir()}
    parts = {
        f"toy-{part}{ending}"
        for part in ("curve", "line", "network")
        for ending in (".csv", ".toml")
    }
    assert names == {"toy.png", "toy.pdf", "toy-report.txt", "toy-report.json", *parts}
    assert {file.name for file in report.files} == names
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy"]
    data = json.loads((tmp_path / "toy" / "toy-report.json").read_text())
    assert data["agrees"] is report.agrees is True
    assert data["comparisons"][0]["variables"][0]["variable"] == "test_error"
    assert (tmp_path / "toy" / "toy-report.txt").read_text() == f"{report}\n"
    assert told[-1][2].startswith("network: ")
    study = gs.Study.read(tmp_path / "toy" / "toy-curve.toml")
    assert study.experiment == {"dim": 30, "trials": 6, "seed": 1}


def test_a_comparison_is_judged_up_to_a_time():
    scenario = gs.OnlineSGD(
        target="z1", activation="z", dim=40, rate=0.05, steps=40, initial_overlap="zero"
    )
    points = []
    for until in (math.inf, 20):
        asked = comparison(
            scenario,
            judged=["mse"],
            until=until,
            dim=40,
            trials=4,
            seed=1,
            times=[10, 20, 30, 40],
        )
        recipe = Recipe(
            "toy",
            "A toy",
            "one panel",
            lambda size, asked=asked: {"path": asked},
            toy_figure,
        )
        rows = (
            judge(recipe, answer(recipe, QUICK, progress=False))
            .comparisons[0]
            .agreement.rows
        )
        points.append(rows[0].points)
    assert points == [4, 2]


def test_the_study_beside_the_figure_gives_its_numbers_again(tmp_path):
    rebuild(TOY, tmp_path, QUICK, progress=False)
    again = gs.Study.read(tmp_path / "toy" / "toy-curve.toml").compare(progress=False)
    gs.save(again, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (
        tmp_path / "toy" / "toy-curve.csv"
    ).read_text()


def test_a_figure_that_fails_leaves_nothing(tmp_path):
    def broken(results):
        raise RuntimeError("no figure")

    with pytest.raises(RuntimeError, match="no figure"):
        rebuild(replace(TOY, draw=broken), tmp_path / "out", QUICK, progress=False)
    assert not (tmp_path / "out").exists()


def test_a_file_that_cannot_be_written_leaves_the_old_ones(tmp_path, monkeypatch):
    rebuild(TOY, tmp_path, QUICK, progress=False)
    old = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "toy").iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("giantstep.papers.runner.save", full)
    with pytest.raises(OSError, match="space"):
        rebuild(TOY, tmp_path, QUICK, progress=False)
    assert {
        file.name: file.stat().st_mtime_ns for file in (tmp_path / "toy").iterdir()
    } == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy"]


def test_studies_that_need_results_come_after_them(tmp_path):
    def then(results):
        line = results["line"]
        sides = ["test_error", "test_error_stderr", "converged", "status"]
        base = results.studies["line"].study.scenario
        best = np.argmin(line["test_error"].values)
        measured = results["curve"].sel(source="experiment", drop=True)[sides]
        other = limit(base, {"samples_per_dim": [0.5, 1.5]}, theory="isotropic")
        study = replace(
            other.study, experiment=results.studies["curve"].study.experiment
        )
        return {
            "best": limit(
                base.replace(samples_per_dim=float(line["samples_per_dim"][best]))
            ),
            "laid": replace(other, study=study, verb="compare", stored=measured),
        }

    report = rebuild(replace(TOY, then=then), tmp_path, QUICK, progress=False)
    assert {"toy-best.csv", "toy-best.toml"} < {file.name for file in report.files}
    rows = (tmp_path / "toy" / "toy-laid.csv").read_text().splitlines()
    assert "test_error_z" in rows[0] and "experiment" in rows[-1]


def test_with_a_store_a_figure_goes_on_where_it_stopped(tmp_path, monkeypatch):
    plain = rebuild(TOY, tmp_path / "plain", QUICK, progress=False)
    store = tmp_path / "kept.db"
    ran = []
    trial = gs.OneStep.trial

    def stopping(self, *asked):
        ran.append(asked)
        if len(ran) == 4:
            raise KeyboardInterrupt
        return trial(self, *asked)

    monkeypatch.setattr(gs.OneStep, "trial", stopping)
    with pytest.raises(KeyboardInterrupt):
        rebuild(TOY, tmp_path / "kept", QUICK, progress=False, store=store)
    assert not (tmp_path / "kept").exists()
    kept = rebuild(TOY, tmp_path / "kept", QUICK, progress=False, store=store)
    # six trials of each experiment, and the one that was interrupted
    assert len(ran) == 3 + 1 + 3 + 6
    for ours, theirs in zip(plain.files, kept.files):
        assert ours.name == theirs.name
        if ours.suffix in (".csv", ".toml"):
            assert ours.read_bytes() == theirs.read_bytes()
    rebuild(TOY, tmp_path / "kept", QUICK, progress=False, store=store)
    assert len(ran) == 13


def test_a_figure_needs_nothing_but_its_recipe_in_the_module_of_its_paper(
    monkeypatch, tmp_path
):
    from giantstep.faces.page.presets import figure_preset

    monkeypatch.setattr(
        mei2022generalization, "RECIPES", (*mei2022generalization.RECIPES, TOY)
    )
    (listed,) = (recipe for recipe in list_figures() if recipe.name == "toy")
    # they are read from the text of the module
    monkeypatch.setattr(papers, "figure_names", lambda: list(recipes()))
    assert listed == replace(TOY, paper="mei2022generalization") == recipes()["toy"]
    assert reproduce("toy", tmp_path, quick=True, progress=False).files
    preset = figure_preset(listed)
    assert preset["paper"] == "mei2022generalization" and "error" not in preset


def test_the_parameters_are_those_of_the_studies():
    fields = (
        "sigma = tanh(z); g = sin(z); beta = p/d = 1; alpha = n/d = 0.5, 0.75, 1, 1.25,"
        " 1.5; lambda = 0.1"
    )
    assert TOY.parameters == f"{fields}; d = 60; 6 trials; seed 1."
    assert replace(TOY, remark="Ours.").parameters.endswith("seed 1. Ours.")
    assert "not measured with --quick" in str(TOY)
    measured = replace(TOY, seconds=5, full_time=FullTime(120, "measured"))
    assert "about 5 s with --quick, about 2 min of a core (measured) in full" in str(
        measured
    )


def test_a_bad_name_is_refused_with_the_nearest_one(tmp_path):
    with pytest.raises(InputError, match="did you mean `double-descent`"):
        reproduce("duoble-descent", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`out` must be a folder"):
        reproduce("double-descent", tmp_path / "file")


def test_a_report_agrees_only_where_all_of_it_does():
    good = Check("a", "", 0.5, line=1.0)
    bad = Check("b", "", 0.5, line=1.0, above=True)
    assert Report("n", "t", "p", True, "cpu", 1.0, checks=[good]).agrees
    report = Report("n", "t", "p", True, "cpu", 1.0, checks=[good, bad])
    assert not report.agrees
    assert "NO" in str(report)
    assert str(report).endswith("A check does NOT hold: b.")


def test_a_figure_without_an_experiment_does_not_say_that_it_agrees():
    report = Report("n", "t", "p", True, "cpu", 1.0)
    assert report.verdict().verdict == "cannot tell"
    assert str(report).endswith("This figure has no experiment: nothing was compared.")
    assert json.loads(report.to_json())["verdict"] == "cannot tell"


def test_every_recipe_is_described():
    figures = list_figures()
    names = [figure.name for figure in figures]
    assert len(set(names)) == len(names)
    assert {"learned-features", "stairs", "double-descent", "subspace-phases"} <= set(
        names
    )
    for figure in figures:
        assert figure.paper in BIBTEX
        assert figure.seconds_quick <= 120
        assert figure.name in str(figure)


# -- the numbers behind the figures ----------------------------------------------------

# after the decimal point, at n/p = 0.3 ... 2.5
VOCABULARY_ERRORS = {
    1: (
        "524416 575078 605028 611241 590811 547779 494535 443369 400234 365914 339090"
        " 318081 301449 288096 277219"
    ),
    2: (
        "350152 384146 414906 432371 428026 402356 365971 329801 298960 274216 254693"
        " 239246 226887 216863 208616"
    ),
    4: (
        "329478 356878 388600 412631 414451 391285 355505 319935 289972 266165 247486"
        " 232739 220944 211367 203476"
    ),
}


@pytest.mark.parametrize("k", [1, 2, 4])
def test_errors_of_the_vocabularies(k):
    scenario = dandi2025random.vocabulary_scenario(k)
    found = gs.predict(
        scenario, samples_per_dim=1.5 * dandi2025random.SAMPLES_PER_WIDTH
    )["test_error"]
    expected = np.array(VOCABULARY_ERRORS[k].split(), float) / 1e6
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert round(1.5 * 1365) == 2048


def test_errors_of_the_relu_network():
    found = gs.predict(
        dandi2025random.relu_scenario(), samples_per_dim=4 * np.linspace(0.3, 2.4, 7)
    )
    expected = [0.180888, 0.125849, 0.106942, 0.099173, 0.095206, 0.092796, 0.091126]
    np.testing.assert_allclose(found["test_error"], expected, atol=1e-6)
    linear = (
        found["null_error"][0]
        - dandi2025random.relu_scenario().target.hermite(1)[1] ** 2
    )
    assert float(linear) == pytest.approx(0.25)


def test_densities_of_the_spectra():
    scenario = dandi2025random.bulk_scenario()
    assert scenario.numeric_fields()["step.strength"][0] == pytest.approx(
        1.0008, abs=1e-4
    )
    x = [0.25, 0.5, 1, 1.5, 2, 3]
    found = gs.predict(scenario, what="spectrum", step__strength=[0.0, 1.0], x=x)
    density = found["density"] / (1 - found["atom"])
    trained = [0.630672, 0.307034, 0.145575, 0.088653, 0.057961, 0.019997]
    untrained = [0.818193, 0.405872, 0.184952, 0.096889, 0.033076, 0.0]
    np.testing.assert_allclose(density, [untrained, trained], atol=1e-5)
    np.testing.assert_allclose(found["upper_edge"], [2.118913, 3.337269], atol=1e-5)


def test_the_trained_spectrum_follows_the_trained_law_only():
    scenario = dandi2025random.bulk_scenario()
    strength = scenario.numeric_fields()["step.strength"][0]
    result = gs.compare(
        scenario,
        what="spectrum",
        step__strength=[0.0, strength],
        x=dandi2025random.SPECTRUM_POINTS[::3],
        dim=512,
        trials=3,
        seed=5,
    )
    assert dandi2025random.kolmogorov(result, 1, 1) < 0.01
    assert dandi2025random.kolmogorov(result, 0, 0) < 0.01
    assert dandi2025random.kolmogorov(result, 0, 1) == pytest.approx(0.093, abs=0.01)


def test_errors_after_a_population_step():
    tanh, relu = cui2024asymptotics.curve_scenarios(np.inf).values()
    exact = [gs.predict(scenario) for scenario in (tanh, relu)]
    assert float(exact[0]["test_error"]) == pytest.approx(0.02233818, abs=1e-7)
    assert float(exact[1]["test_error"]) == pytest.approx(0.27687782, abs=1e-7)
    isotropic = gs.predict(tanh, theory="isotropic", step__batch_per_dim=1000.0)
    assert float(isotropic["test_error"]) == pytest.approx(0.02398, abs=1e-5)
    for scenario, samples in ((tanh, 1.5), (relu, 2.0)):
        assert scenario.samples_per_dim == samples


def test_double_descent_peaks_where_the_network_interpolates():
    scenario = mei2022generalization.SCENARIO
    width = np.linspace(0.5, 2, 61)
    error = gs.predict(scenario, width_per_dim=3 * width)["test_error"].values
    assert width[np.argmax(error)] == pytest.approx(1.0, abs=0.026)
    assert error[0] < error.max() > 2 * error[-1]
    floor = gs.predict(scenario, width_per_dim=100.0, samples_per_dim=3000.0)
    assert 1.0 < float(floor["test_error"] / floor["affine_error"]) < 1.08
