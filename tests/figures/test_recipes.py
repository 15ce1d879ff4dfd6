"""The mechanism of recipes, on a toy, and the numbers behind the published figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

import giantstep as gs
from giantstep.errors import InputError
from giantstep.figures import cui2024, dandi2025, mei2022, recipes
from giantstep.figures.recipes import Bench, Recipe, list_figures, make, reproduce
from giantstep.figures.report import Check, Report
from giantstep.figures.style import new_figure
from giantstep.references import BIBTEX


def toy_figure(bench: Bench):
    scenario = gs.OneStep(activation="tanh", target="sin(z)", width_per_dim=1.0, samples_per_dim=1.0, ridge=0.1)
    result = bench.compare(
        "curve", scenario, {"samples_per_dim": [0.5, 1.5]}, meaning="a toy", judged=("test_error",),
        dim=bench.sized(30, 60), trials=6, seed=1,
    )  # fmt: skip
    bench.predict("line", scenario, {"samples_per_dim": np.linspace(0.5, 1.5, 5)}, dim=60)
    bench.check("a number", 1.0, "it is small", line=2.0)
    figure, (axes,) = new_figure(1, 1, width=3, height=2)
    axes.plot(result["samples_per_dim"], result["test_error"].sel(source="limit"))
    return figure


TOY = Recipe("toy", "A toy", "mei2022generalization", "one panel", "few", 1, 2, toy_figure)


def test_a_recipe_writes_figure_data_studies_and_report(tmp_path):
    told = []
    report = make(TOY, tmp_path, quick=True, progress=lambda *step: told.append(step))
    names = {file.name for file in (tmp_path / "toy").iterdir()}
    assert names == {
        "toy.png", "toy.pdf", "toy-curve.csv", "toy-curve.toml", "toy-line.csv", "toy-line.toml",
        "toy-report.txt", "toy-report.json",
    }  # fmt: skip
    assert {file.name for file in report.files} == names
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy"]
    data = json.loads((tmp_path / "toy" / "toy-report.json").read_text())
    assert data["agrees"] is report.agrees is True
    assert data["comparisons"][0]["variables"][0]["variable"] == "test_error"
    assert (tmp_path / "toy" / "toy-report.txt").read_text() == f"{report}\n"
    assert told[-1][2].startswith(("curve", "line"))
    study = gs.Study.read(tmp_path / "toy" / "toy-curve.toml")
    assert study.experiment == {"dim": 30, "trials": 6, "seed": 1}


def test_the_study_beside_the_figure_gives_its_numbers_again(tmp_path):
    make(TOY, tmp_path, quick=True, progress=False)
    again = gs.Study.read(tmp_path / "toy" / "toy-curve.toml").compare(progress=False)
    gs.save(again, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "toy" / "toy-curve.csv").read_text()


def test_a_figure_that_fails_leaves_nothing(tmp_path):
    def broken(bench):
        toy_figure(bench)
        raise RuntimeError("no figure")

    with pytest.raises(RuntimeError, match="no figure"):
        make(Recipe("broken", "", "", "", "", 1, 1, broken), tmp_path / "out", quick=True, progress=False)
    assert not (tmp_path / "out").exists()


def test_a_file_that_cannot_be_written_leaves_the_old_ones(tmp_path, monkeypatch):
    make(TOY, tmp_path, quick=True, progress=False)
    old = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "toy").iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("giantstep.files.save", full)
    with pytest.raises(OSError, match="space"):
        make(TOY, tmp_path, quick=True, progress=False)
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "toy").iterdir()} == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy"]


def test_a_bad_name_is_refused_with_the_nearest_one(tmp_path):
    with pytest.raises(InputError, match="did you mean `double-descent`"):
        reproduce("duoble-descent", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`out` must be a folder"):
        reproduce("double-descent", tmp_path / "file")


def test_a_report_agrees_only_where_all_of_it_does():
    good, bad = Check("a", "", 0.5, line=1.0), Check("b", "", 0.5, line=1.0, above=True)
    assert Report("n", "t", "p", True, "cpu", 1.0, checks=[good]).agrees
    report = Report("n", "t", "p", True, "cpu", 1.0, checks=[good, bad])
    assert not report.agrees
    assert "NO" in str(report)
    assert "do NOT agree" in str(report)


def test_every_recipe_is_described():
    figures = list_figures()
    names = [figure.name for figure in figures]
    assert len(set(names)) == len(names)
    assert {"learned-features", "stairs", "double-descent", "subspace-phases"} <= set(names)
    for figure in figures:
        assert figure.paper in BIBTEX
        assert figure.seconds_quick <= 120
        assert figure.name in str(figure)
    assert recipes.recipes().keys() == {figure.name for figure in figures}


# -- the numbers behind the figures ----------------------------------------------------------------------

# after the decimal point, at n/p = 0.3 ... 2.5
VOCABULARY_ERRORS = {
    1: "524416 575078 605028 611241 590811 547779 494535 443369 400234 365914 339090 318081 301449 288096 277219",
    2: "350152 384146 414906 432371 428026 402356 365971 329801 298960 274216 254693 239246 226887 216863 208616",
    4: "329478 356878 388600 412631 414451 391285 355505 319935 289972 266165 247486 232739 220944 211367 203476",
}


@pytest.mark.parametrize("k", [1, 2, 4])
def test_errors_of_the_vocabularies(k):
    scenario = dandi2025.vocabulary_scenario(k)
    found = gs.predict(scenario, samples_per_dim=1.5 * dandi2025.SAMPLES_PER_WIDTH)["test_error"]
    expected = np.array(VOCABULARY_ERRORS[k].split(), float) / 1e6
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert round(1.5 * 1365) == 2048


def test_errors_of_the_relu_network():
    found = gs.predict(dandi2025.relu_scenario(), samples_per_dim=4 * np.linspace(0.3, 2.4, 7))
    expected = [0.180888, 0.125849, 0.106942, 0.099173, 0.095206, 0.092796, 0.091126]
    np.testing.assert_allclose(found["test_error"], expected, atol=1e-6)
    linear = found["null_error"][0] - dandi2025.relu_scenario().target.hermite(1)[1] ** 2
    assert float(linear) == pytest.approx(0.25)


def test_densities_of_the_spectra():
    scenario = dandi2025.bulk_scenario()
    assert scenario.numeric_fields()["step.strength"][0] == pytest.approx(1.0008, abs=1e-4)
    x = [0.25, 0.5, 1, 1.5, 2, 3]
    found = gs.predict(scenario, what="spectrum", step__strength=[0.0, 1.0], x=x)
    density = found["density"] / (1 - found["atom"])
    trained = [0.630672, 0.307034, 0.145575, 0.088653, 0.057961, 0.019997]
    untrained = [0.818193, 0.405872, 0.184952, 0.096889, 0.033076, 0.0]
    np.testing.assert_allclose(density, [untrained, trained], atol=1e-5)
    np.testing.assert_allclose(found["upper_edge"], [2.118913, 3.337269], atol=1e-5)


def test_the_trained_spectrum_follows_the_trained_law_only():
    scenario = dandi2025.bulk_scenario()
    strength = scenario.numeric_fields()["step.strength"][0]
    result = gs.compare(
        scenario, what="spectrum", step__strength=[0.0, strength], x=dandi2025.spectrum_points(3.6)[::3],
        dim=512, trials=3, seed=5,
    )  # fmt: skip
    assert dandi2025.kolmogorov(result, 1, 1) < 0.01
    assert dandi2025.kolmogorov(result, 0, 0) < 0.01
    assert dandi2025.kolmogorov(result, 0, 1) == pytest.approx(0.093, abs=0.01)


def test_errors_after_a_population_step():
    exact = [gs.predict(scenario) for scenario in (cui2024.tanh_scenario(), cui2024.relu_scenario())]
    assert float(exact[0]["test_error"]) == pytest.approx(0.02233818, abs=1e-7)
    assert float(exact[1]["test_error"]) == pytest.approx(0.27687782, abs=1e-7)
    isotropic = gs.predict(cui2024.tanh_scenario(), theory="isotropic", step__batch_per_dim=1000.0)
    assert float(isotropic["test_error"]) == pytest.approx(0.02398, abs=1e-5)
    for scenario, samples in ((cui2024.tanh_scenario(), 1.5), (cui2024.relu_scenario(), 2.0)):
        assert scenario.samples_per_dim == samples


def test_double_descent_peaks_where_the_network_interpolates():
    scenario = mei2022.scenario()
    width = np.linspace(0.5, 2, 61)
    error = gs.predict(scenario, width_per_dim=3 * width)["test_error"].values
    assert width[np.argmax(error)] == pytest.approx(1.0, abs=0.026)
    assert error[0] < error.max() > 2 * error[-1]
    floor = gs.predict(scenario, width_per_dim=100.0, samples_per_dim=3000.0)
    assert 1.0 < float(floor["test_error"] / floor["affine_error"]) < 1.08
