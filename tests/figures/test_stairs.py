"""The figures of all step sizes: numbers of step_size_regimes behind them, and every
line of every recipe.
"""

from __future__ import annotations

import numpy as np
import pytest
import toys

import giantstep as gs
from giantstep.papers import ba2022high, list_figures, moniri2024theory, recipes
from giantstep.papers.recipe import Results, Size
from giantstep.papers.runner import answer, draw, judge, reproduce

NAMES = ["stairs", "crossover", "small-step", "feature-spikes", "weights-spike"]
QUICK = Size(quick=True)


@pytest.fixture
def few_points(monkeypatch):
    """Make the curves of the figures coarse: every line of a recipe runs, nothing is
    learned from the numbers.
    """
    monkeypatch.setattr(moniri2024theory, "FINE_EXPONENTS", np.linspace(-0.1, 0.48, 5))
    monkeypatch.setattr(moniri2024theory, "FINE_RATES", np.geomspace(0.2, 200.0, 5))


def drawn(name):
    recipe = toys.shrunk(recipes()[name], dim=30, trials=3)
    results = answer(recipe, QUICK, progress=False)
    figure = draw(recipe, results)
    figure.canvas.draw()
    return figure, results, judge(recipe, results)


def test_the_recipes_are_listed():
    listed = {figure.name: figure for figure in list_figures()}
    assert set(NAMES) <= listed.keys()
    for name in NAMES:
        assert listed[name].seconds_quick <= 120 and listed[name].description


# -- the numbers behind the figures ----------------------------------------------------


def test_plateaus():
    # step_size_regimes section 12.1
    studies = moniri2024theory.stairs(QUICK)
    results = Results(QUICK)
    for name in ("linear", "quadratic"):
        for part in ("untrained", "plateaus"):
            results[f"{name}-{part}"] = studies[f"{name}-{part}"].study.predict()
    expected = {
        "test_error": [1.564193813, 1.339945587, 0.976146632, 0.976146632, 0.939766736],
        "train_error": [
            0.793462195,
            0.679708715,
            0.495165908,
            0.495165908,
            0.476711627,
        ],
    }
    for variable, (first, second, *rest) in expected.items():
        quadratic, linear = (
            moniri2024theory.plateaus(results, name, variable)
            for name in ("quadratic", "linear")
        )
        np.testing.assert_allclose(quadratic, [first, second, *rest], atol=6e-10)
        np.testing.assert_allclose(linear, [first] + [second] * 4, atol=6e-10)


def curve(name, exponents, samples):
    return moniri2024theory.curve(name, exponents, samples).study.predict()


def test_curves_at_a_finite_size():
    # step_size_regimes section 12.3
    exponents = np.array(moniri2024theory.EXPONENTS)
    first, second = (curve(name, exponents, 2000) for name in moniri2024theory.TARGETS)
    np.testing.assert_allclose(
        first["test_error"],
        [1.535435, 1.473247, 1.394303, 1.360399, 1.355484, 1.364212],
        atol=2e-6,
    )
    np.testing.assert_allclose(
        first["train_error"],
        [0.778814, 0.747085, 0.706332, 0.686869, 0.680081, 0.674825],
        atol=2e-6,
    )
    np.testing.assert_allclose(
        second["test_error"],
        [1.534487, 1.467815, 1.350624, 1.134479, 0.995091, 0.918439],
        atol=2e-6,
    )
    np.testing.assert_allclose(
        second["train_error"],
        [0.778195, 0.743710, 0.681740, 0.567755, 0.492517, 0.445015],
        atol=2e-6,
    )


def test_the_stairs_are_sharp_at_astronomical_sizes_only():
    inside = np.array([0.1, 0.2, 0.29, 0.35])
    exact = np.array([1.339945587, 1.339945587, 0.976146632, 0.976146632])
    gaps = [
        np.max(np.abs(curve("quadratic", inside, n)["test_error"].values / exact - 1))
        for n in (2000, 10**6, 10**15)
    ]
    assert gaps[0] > 0.1 > gaps[1] > 5 * gaps[2]
    # the slowest is n^(-2l(alpha - alpha_l)) = n^-0.16 at alpha = 0.29, l = 2
    assert gaps[2] < 10 ** (-15 * 0.16)


def test_regimes_of_the_crossover():
    rates = np.geomspace(0.2, 200.0, 601)
    bands = moniri2024theory.regimes(moniri2024theory.small("quadratic"), rates, 500)
    names = [
        "small step",
        "growing step, 1 spike",
        "growing step, 2 spikes",
        "growing step, 3 or more",
        "maximal step",
    ]
    assert [band[0] for band in bands] == names
    # centred ReLU has no degree 3: a third spike comes with degree 4, at 3/8
    ends = np.log([band[2] for band in bands[:-1]]) / np.log(2000)
    np.testing.assert_allclose(ends, [0, 1 / 4, 3 / 8, 1 / 2], atol=2e-3)
    assert bands[0][1] == rates[0] and bands[-1][2] == rates[-1]


def test_the_crossover_ends_in_the_maximal_step():
    base = moniri2024theory.small("quadratic", 100.0, update="exact")
    maximal = base.replace(
        step=gs.MaximalStep(100.0 / np.sqrt(1000), batch_per_dim=4.0)
    )
    one, other = (
        float(gs.predict(s, dim=500, theory="isotropic")["test_error"])
        for s in (base, maximal)
    )
    assert one == pytest.approx(other, rel=0.015)


@pytest.mark.parametrize("initial", [0, 1])
def test_errors_of_small_steps(initial):
    # step_size_regimes section 12.2
    base = moniri2024theory.small("linear", update="exact", initial_output=initial)
    found = gs.predict(base, step__rate=[1, 2, 4, 8, 100])
    expected = [
        [1.535326, 1.480040, 1.404448, 1.360034, 1.340085],
        [1.530789, 1.463914, 1.391031, 1.370062, 1.378981],
    ]
    np.testing.assert_allclose(found["test_error"], expected[initial], atol=6e-7)
    np.testing.assert_allclose(found["affine_error"], 1.0)


def test_spikes_of_the_features():
    # step_size_regimes section 13, F2: n = 3000
    found = gs.predict(
        moniri2024theory.features_scenario(),
        what="spikes",
        dim=1000,
        step__exponent=moniri2024theory.SPIKE_EXPONENTS,
    )
    values, degrees = (
        found[name].values[:, :3] for name in ("singular_values", "spike_degree")
    )
    np.testing.assert_allclose(
        values, [[4.973035, np.nan, np.nan], [10.582210, 3.647930, np.nan]], atol=2e-6
    )
    np.testing.assert_array_equal(degrees, [[1, np.nan, np.nan], [1, 2, np.nan]])
    bulk = gs.predict(
        moniri2024theory.bulk_scenario(), what="spectrum", normalisation="n", x=[1.0]
    )
    assert float(bulk["upper_edge"]) ** 0.5 == pytest.approx(2.315171, abs=1e-6)
    np.testing.assert_allclose(found["bulk_edge"], 2.315171, atol=1e-6)
    assert np.isnan(bulk["outliers"]).all()


def test_the_spike_of_the_first_layer():
    # step_size_regimes section 12.7
    plain, fed = (
        gs.predict(
            ba2022high.weights_scenario(initial), what="weights", step__rate=[1, 2, 3]
        )
        for initial in (0, 1)
    )
    np.testing.assert_allclose(
        plain["top_singular_value"][1:], [2.291288, 2.708013], atol=1e-6
    )
    np.testing.assert_allclose(
        plain["left_alignment"], [np.nan, 0.357143, 0.694444], atol=1e-6
    )
    np.testing.assert_allclose(
        plain["right_alignment"], [np.nan, 0.208333, 0.378788], atol=1e-6
    )
    last = [
        float(fed[name][2])
        for name in ("top_singular_value", "left_alignment", "right_alignment")
    ]
    np.testing.assert_allclose(last, [2.612678, 0.654764, 0.411093], atol=1e-6)


# -- the figures -----------------------------------------------------------------------


def test_feature_spikes_figure(tmp_path):
    report = reproduce("feature-spikes", tmp_path, quick=True, progress=False)
    assert report.agrees, report
    names = {file.name for file in report.files}
    assert {
        "feature-spikes.png",
        "feature-spikes.pdf",
        "feature-spikes-report.txt",
    } < names
    parts = ("bulk-limit", "bulk-0", "bulk-0.2", "bulk-0.3", "spikes")
    assert {
        f"feature-spikes-{part}{ending}"
        for part in parts
        for ending in (".csv", ".toml")
    } < names
    study = gs.Study.read(tmp_path / "feature-spikes" / "feature-spikes-spikes.toml")
    assert (
        study.what == "spikes"
        and study.experiment["seed"] == moniri2024theory.SPIKES_SEED
    )


def test_stairs_figure(few_points):
    figure, results, report = drawn("stairs")
    assert len(figure.axes) == 2
    assert {
        "linear-n2000",
        "linear-n500",
        "quadratic-n1e6",
        "quadratic-n1e15",
    } < results.keys()
    assert "astronomically" in report.notes[0]


# with a Gaussian second layer the overlaps are followed to first order, which is said
@pytest.mark.filterwarnings(
    "ignore:.*multiply the overlap:giantstep.core.base.errors.GiantstepWarning"
)
def test_crossover_figure(few_points):
    figure, results, _ = drawn("crossover")
    (axes,) = figure.axes
    texts = [text.get_text().replace("\n", " ") for text in axes.texts]
    assert (
        texts[0] == "random features"
        and texts[-1] == "maximal step"
        and len(texts) == 6
    )
    assert results["whole"].attrs["theory"] == "isotropic"
    assert results["rank-one"].attrs["theory"] == "exact"


@pytest.mark.parametrize(("name", "panels"), [("small-step", 1), ("weights-spike", 3)])
def test_figures_with_and_without_initial_output(name, panels):
    figure, results, _ = drawn(name)
    assert len(figure.axes) == panels
    assert {"output0", "output1", "output0-limit", "output1-limit"} <= results.keys()
    assert results.studies["output1"].study.limit == {"finite_size": False}
