"""The figures of all step sizes: numbers of the notes behind them, and every line of every recipe."""

from __future__ import annotations

import numpy as np
import pytest

import giantstep as gs
from giantstep.figures import stairs, step_spikes
from giantstep.figures.recipes import Bench, list_figures, make, recipes
from giantstep.figures.style import style

NAMES = ["stairs", "crossover", "small-step", "feature-spikes", "weights-spike"]


@pytest.fixture
def bench() -> Bench:
    return Bench(quick=True, progress=False)


@pytest.fixture
def toy_sizes(monkeypatch):
    """Make every experiment tiny: every line of a recipe runs, nothing is learned from the numbers."""
    compare, simulate = gs.Study.compare, gs.Study.simulate
    monkeypatch.setattr(gs.Study, "compare", lambda self, **asked: compare(self, **asked, dim=30, trials=3))
    monkeypatch.setattr(gs.Study, "simulate", lambda self, **asked: simulate(self, **asked, dim=30, trials=3))
    monkeypatch.setattr(stairs, "FINE_EXPONENTS", np.linspace(-0.1, 0.48, 5))
    monkeypatch.setattr(stairs, "FINE_RATES", np.geomspace(0.2, 200.0, 5))


def drawn(recipe, bench):
    with style():
        figure = recipe(bench)
    figure.canvas.draw()
    return figure


def test_the_recipes_are_listed():
    listed = {figure.name: figure for figure in list_figures()}
    assert [name for name in listed if name in NAMES] == NAMES
    for name in NAMES:
        assert listed[name].seconds_quick <= 120 and listed[name].description


# -- the numbers behind the figures --------------------------------------------------------------------------


def test_plateaus(bench):
    # section 12.1 of the notes
    test, train = stairs.plateaus(bench, "quadratic")
    np.testing.assert_allclose(test, [1.564193813, 1.339945587, 0.976146632, 0.976146632, 0.939766736], atol=6e-10)
    np.testing.assert_allclose(train, [0.793462195, 0.679708715, 0.495165908, 0.495165908, 0.476711627], atol=6e-10)
    test, train = stairs.plateaus(bench, "linear")
    np.testing.assert_allclose(test, [1.564193813] + [1.339945587] * 4, atol=6e-10)
    np.testing.assert_allclose(train, [0.793462195] + [0.679708715] * 4, atol=6e-10)
    assert {"linear-untrained", "quadratic-plateaus"} < bench.results.keys() == bench.studies.keys()


def test_curves_at_a_finite_size(bench):
    # section 12.3
    exponents = np.array(stairs.EXPONENTS)
    first, second = (stairs.curve(bench, name, exponents, 2000) for name in stairs.TARGETS)
    np.testing.assert_allclose(
        first["test_error"], [1.535435, 1.473247, 1.394303, 1.360399, 1.355484, 1.364212], atol=2e-6
    )
    np.testing.assert_allclose(
        first["train_error"], [0.778814, 0.747085, 0.706332, 0.686869, 0.680081, 0.674825], atol=2e-6
    )
    np.testing.assert_allclose(
        second["test_error"], [1.534487, 1.467815, 1.350624, 1.134479, 0.995091, 0.918439], atol=2e-6
    )
    np.testing.assert_allclose(
        second["train_error"], [0.778195, 0.743710, 0.681740, 0.567755, 0.492517, 0.445015], atol=2e-6
    )


def test_the_stairs_are_sharp_at_astronomical_sizes_only(bench):
    inside = np.array([0.1, 0.2, 0.29, 0.35])
    exact = np.array([1.339945587, 1.339945587, 0.976146632, 0.976146632])
    gaps = [
        np.max(np.abs(stairs.curve(bench, "quadratic", inside, n)["test_error"].values / exact - 1))
        for n in (2000, 10**6, 10**15)
    ]
    assert gaps[0] > 0.1 > gaps[1] > 5 * gaps[2]
    # the slowest is n^(-2l(alpha - alpha_l)) = n^-0.16 at alpha = 0.29, l = 2
    assert gaps[2] < 10 ** (-15 * 0.16)


def test_regimes_of_the_crossover():
    rates = np.geomspace(0.2, 200.0, 601)
    bands = stairs.regimes(stairs.small("quadratic"), rates, 500)
    names = ["small step", "growing step, 1 spike", "growing step, 2 spikes", "growing step, 3 or more", "maximal step"]
    assert [band[0] for band in bands] == names
    # centred ReLU has no degree 3: a third spike comes with degree 4, at 3/8
    ends = np.log([band[2] for band in bands[:-1]]) / np.log(2000)
    np.testing.assert_allclose(ends, [0, 1 / 4, 3 / 8, 1 / 2], atol=2e-3)
    assert bands[0][1] == rates[0] and bands[-1][2] == rates[-1]


def test_the_crossover_ends_in_the_maximal_step():
    base = stairs.small("quadratic", 100.0, update="exact")
    maximal = base.replace(step=gs.MaximalStep(100.0 / np.sqrt(1000), batch_per_dim=4.0))
    one, other = (float(gs.predict(s, dim=500, theory="isotropic")["test_error"]) for s in (base, maximal))
    assert one == pytest.approx(other, rel=0.015)


@pytest.mark.parametrize("initial", [0, 1])
def test_errors_of_small_steps(initial):
    # section 12.2
    base = stairs.small("linear", update="exact", initial_output=initial)
    found = gs.predict(base, step__rate=[1, 2, 4, 8, 100])
    expected = [[1.535326, 1.480040, 1.404448, 1.360034, 1.340085], [1.530789, 1.463914, 1.391031, 1.370062, 1.378981]]
    np.testing.assert_allclose(found["test_error"], expected[initial], atol=6e-7)
    np.testing.assert_allclose(found["affine_error"], 1.0)


def test_spikes_of_the_features():
    # section 13, F2: n = 3000
    found = gs.predict(step_spikes.features_scenario(), what="spikes", dim=1000, step__exponent=step_spikes.EXPONENTS)
    values, degrees = (found[name].values[:, :3] for name in ("singular_values", "spike_degree"))
    np.testing.assert_allclose(values, [[4.973035, np.nan, np.nan], [10.582210, 3.647930, np.nan]], atol=2e-6)
    np.testing.assert_array_equal(degrees, [[1, np.nan, np.nan], [1, 2, np.nan]])
    bulk = gs.predict(step_spikes.bulk_scenario(), what="spectrum", normalisation="n", x=[1.0])
    assert float(bulk["upper_edge"]) ** 0.5 == pytest.approx(2.315171, abs=1e-6)
    np.testing.assert_allclose(found["bulk_edge"], 2.315171, atol=1e-6)
    assert np.isnan(bulk["outliers"]).all()


def test_the_spike_of_the_first_layer():
    # section 12.7
    plain, fed = (
        gs.predict(step_spikes.weights_scenario(initial), what="weights", step__rate=[1, 2, 3]) for initial in (0, 1)
    )
    np.testing.assert_allclose(plain["top_singular_value"][1:], [2.291288, 2.708013], atol=1e-6)
    np.testing.assert_allclose(plain["left_alignment"], [np.nan, 0.357143, 0.694444], atol=1e-6)
    np.testing.assert_allclose(plain["right_alignment"], [np.nan, 0.208333, 0.378788], atol=1e-6)
    last = [float(fed[name][2]) for name in ("top_singular_value", "left_alignment", "right_alignment")]
    np.testing.assert_allclose(last, [2.612678, 0.654764, 0.411093], atol=1e-6)


# -- the figures ---------------------------------------------------------------------------------------------


def test_feature_spikes_figure(tmp_path):
    report = make(recipes()["feature-spikes"], tmp_path, quick=True, progress=False)
    assert report.agrees, report
    names = {file.name for file in report.files}
    assert {"feature-spikes.png", "feature-spikes.pdf", "feature-spikes-report.txt"} < names
    parts = ("bulk-limit", "bulk-0", "bulk-0.2", "bulk-0.3", "spikes")
    assert {f"feature-spikes-{part}{ending}" for part in parts for ending in (".csv", ".toml")} < names
    study = gs.Study.read(tmp_path / "feature-spikes" / "feature-spikes-spikes.toml")
    assert study.what == "spikes" and study.experiment["seed"] == step_spikes.SEED


def test_stairs_figure(bench, toy_sizes):
    figure = drawn(stairs.stairs, bench)
    assert len(figure.axes) == 2
    assert {"linear-n2000", "linear-n500", "quadratic-n1e6", "quadratic-n1e15"} < bench.results.keys()
    assert "astronomically" in bench.notes[0]


def test_crossover_figure(bench, toy_sizes):
    (axes,) = drawn(stairs.crossover, bench).axes
    texts = [text.get_text().replace("\n", " ") for text in axes.texts]
    assert texts[0] == "random features" and texts[-1] == "maximal step" and len(texts) == 6
    assert bench.results["whole"].attrs["theory"] == "isotropic"
    assert bench.results["rank-one"].attrs["theory"] == "exact"


@pytest.mark.parametrize(("recipe", "panels"), [(stairs.small_step, 1), (step_spikes.weights_spike, 3)])
def test_figures_with_and_without_initial_output(bench, toy_sizes, recipe, panels):
    figure = drawn(recipe, bench)
    assert len(figure.axes) == panels
    assert {"output0", "output1", "output0-limit", "output1-limit"} <= bench.results.keys()
    assert bench.studies["output1"].limit == {"finite_size": False}
