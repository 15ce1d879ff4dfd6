"""The recipes of the paper's figures: every line runs, and the checks of the phase diagram hold."""

from __future__ import annotations

import pytest

from giantstep.figures import subspace
from giantstep.figures.recipes import Bench
from giantstep.figures.style import style


class ToyBench(Bench):
    """A bench whose experiments are tiny: every line of a recipe runs, nothing is learned from the numbers."""

    def compare(self, name, scenario, grid, **asked):
        return super().compare(name, scenario, grid, **{**asked, "dim": 40, "trials": 2})


@pytest.mark.parametrize("recipe", subspace.RECIPES, ids=lambda recipe: recipe.name)
def test_every_figure_is_drawn(recipe):
    bench = ToyBench(quick=True, progress=False)
    with style():
        figure = recipe.make(bench)
    figure.canvas.draw()
    assert bench.results and set(bench.studies) == set(bench.results)
    measured = recipe.name == "subspace-rivals"  # its check is of an experiment, which says nothing at this size
    assert measured or all(check.line is None or check.value < check.line for check in bench.checks)
