"""The recipes of the papers' figures: small ones now, everything else in the long
checks.
"""

import numpy as np
import pytest
import toys

import giantstep as gs
from giantstep.papers import arnaboldi2024online, arnaboldi2024repetita, recipes
from giantstep.papers.loss_change import errors_with_change
from giantstep.papers.recipe import Size
from giantstep.papers.runner import answer, draw, judge, rebuild

NAMES = [
    recipe.name
    for module in (arnaboldi2024online, arnaboldi2024repetita)
    for recipe in module.RECIPES
]
QUICK = Size(quick=True)


def test_phase_diagrams_are_drawn_and_their_corners_are_right():
    recipe = recipes()["sgd-phases"]
    results = answer(recipe, QUICK, progress=False)
    draw(recipe, results).canvas.draw()
    checks = judge(recipe, results).checks
    assert checks and all(check.agrees for check in checks)


def test_plot_of_the_phases_is_the_phase_diagram_with_every_run_marked(tmp_path):
    result = gs.predict(
        gs.OnlineSGD.example(), what="phases", batch_size=[100, 200, 400]
    )
    figure = gs.plot(result, path=tmp_path / "phases.png")
    assert len(figure.axes) == 3
    for axes in figure.axes:
        (stars,) = [line for line in axes.lines if line.get_marker() == "*"]
        np.testing.assert_allclose(stars.get_xdata(), result.mu.values)
    assert len(gs.plot(result, "theta_best").axes) == 1


@pytest.mark.parametrize("name", ["repetition-batches", "sgd-erf"])
def test_a_figure_is_drawn_from_tiny_experiments(name):
    recipe = toys.shrunk(recipes()[name], trials=2)
    results = answer(recipe, QUICK, progress=False)
    figure = draw(recipe, results)
    figure.canvas.draw()
    assert all(axes.lines and axes.get_title(loc="left") for axes in figure.axes)
    assert [
        check.name for check in judge(recipe, results).checks if check.line is not None
    ] == (
        []
        if name == "sgd-erf"
        else [
            "|log ratio| of the cosine's size, h4(z1), extragradient",
            "|log ratio| of the cosine's size, h4(z1), squared",
            "largest gap of the cosine, z1 + h3(z2), extragradient",
            "largest gap of the cosine, z1 + h3(z2), squared",
        ]
    )


def test_a_run_goes_on_with_another_loss_once_its_error_has_fallen():
    first = arnaboldi2024online.hermite(1.85, "correlation", 0.05, 64, 40)
    plain = errors_with_change(first)
    same = errors_with_change(first, first, decay=1.0)
    np.testing.assert_array_equal(plain, same)
    np.testing.assert_allclose(
        plain[:-1], gs.predict(first)["mse"].values[: len(plain) - 1], rtol=1e-12
    )
    slower = errors_with_change(first, first.replace(rate=0.1 * first.rate))
    changed = int(np.flatnonzero(plain < 0.6 * plain[0])[0])
    np.testing.assert_array_equal(plain[: changed + 1], slower[: changed + 1])
    assert slower[changed + 1] < slower[changed]
    assert slower[changed + 1] != plain[changed + 1]
    runs = [errors_with_change(first, seed=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_recipes_have_parameters_and_times():
    for name in NAMES:
        recipe = recipes()[name]
        assert recipe.seconds_quick <= 120 and recipe.parameters


def test_cases_have_the_parameters_of_the_papers():
    stairs = arnaboldi2024repetita.STAIRCASES[-1].scenario("extragradient", quick=False)
    assert (stairs.dim, stairs.width, stairs.directions, stairs.batch_size) == (
        128,
        4,
        3,
        1,
    )
    assert {case.published for case in arnaboldi2024repetita.STAIRCASES} == {1024}
    assert (
        stairs.rate == pytest.approx(0.01 * 4 / 128)
        and np.array(stairs.initial_overlap)[:, 0].min() == 1
    )
    # n_b = 2d: gamma = 2 gamma0 p
    large = arnaboldi2024repetita.BATCHES[1].scenario("squared", quick=False)
    assert (large.batch_size, large.rate) == (2048, pytest.approx(2 * 0.01 * 8))
    assert large.steps == round(100 * 1024 * np.log(1024) / 2048)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_quick_figures_agree(name, tmp_path):
    report = rebuild(recipes()[name], tmp_path, QUICK, progress=False)
    assert report.agrees, str(report)
