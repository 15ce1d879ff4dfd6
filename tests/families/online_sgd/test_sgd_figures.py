"""The recipes of the papers' figures: the phase diagrams now, everything else in the long checks."""

import pytest

from giantstep.figures import online_sgd
from giantstep.figures.recipes import Bench, make, recipes
from giantstep.figures.style import style


def test_phase_diagrams_are_drawn_and_their_corners_are_right():
    bench = Bench(quick=True, progress=False)
    with style():
        online_sgd.phase_diagrams(bench).canvas.draw()
    assert bench.checks and all(check.agrees for check in bench.checks)


def test_recipes_are_registered_with_papers_and_times():
    names = {recipe.name for recipe in online_sgd.RECIPES}
    assert names <= recipes().keys()
    assert all(recipe.seconds_quick <= 120 and recipe.parameters for recipe in online_sgd.RECIPES)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", online_sgd.RECIPES, ids=lambda recipe: recipe.name)
def test_quick_figures_agree(recipe, tmp_path):
    report = make(recipe, tmp_path, quick=True, progress=False)
    assert report.agrees, str(report)
