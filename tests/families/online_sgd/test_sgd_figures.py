"""The recipes of the papers' figures: the phase diagrams now, everything else in the long checks."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.figures import online_sgd, repetition
from giantstep.figures.recipes import Bench, make, recipes
from giantstep.figures.style import style

RECIPES = (*online_sgd.RECIPES, *repetition.RECIPES)


def test_phase_diagrams_are_drawn_and_their_corners_are_right():
    bench = Bench(quick=True, progress=False)
    with style():
        online_sgd.phase_diagrams(bench).canvas.draw()
    assert bench.checks and all(check.agrees for check in bench.checks)


def test_plot_of_the_phases_is_the_phase_diagram_with_every_run_marked(tmp_path):
    result = gs.predict(gs.OnlineSGD.example(), what="phases", batch_size=[100, 200, 400])
    figure = gs.plot(result, path=tmp_path / "phases.png")
    assert len(figure.axes) == 3
    for axes in figure.axes:
        (stars,) = [line for line in axes.lines if line.get_marker() == "*"]
        np.testing.assert_allclose(stars.get_xdata(), result.mu.values)
    assert len(gs.plot(result, "theta_best").axes) == 1


def test_recipes_are_registered_with_papers_and_times():
    names = {recipe.name for recipe in RECIPES}
    assert names <= recipes().keys()
    assert all(recipe.seconds_quick <= 120 and recipe.parameters for recipe in RECIPES)


def test_cases_have_the_parameters_of_the_papers():
    stairs = repetition.STAIRCASES[-1].scenario("extragradient", quick=False)
    assert (stairs.dim, stairs.width, stairs.directions, stairs.batch_size) == (1024, 4, 3, 1)
    assert stairs.rate == pytest.approx(0.01 * 4 / 1024) and np.array(stairs.initial_overlap)[:, 0].min() == 1
    large = repetition.BATCHES[1].scenario("squared", quick=False)  # n_b = 2d: gamma = 2 gamma0 p
    assert (large.batch_size, large.rate) == (2048, pytest.approx(2 * 0.01 * 8))
    assert large.steps == round(100 * 1024 * np.log(1024) / 2048)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_quick_figures_agree(recipe, tmp_path):
    report = make(recipe, tmp_path, quick=True, progress=False)
    assert report.agrees, str(report)
