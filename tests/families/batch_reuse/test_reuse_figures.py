"""The recipes of the paper's figures: every line runs on tiny experiments, and the verdicts agree with the limit."""

import pytest

from giantstep.figures import batch_reuse
from giantstep.figures.recipes import Bench
from giantstep.figures.style import style


class ToyBench(Bench):
    """A bench with tiny experiments and few points: nothing is learned from the numbers."""

    def sized(self, quick, full):
        return min(quick, 2**12)

    def compare(self, name, scenario, grid, **asked):
        settings = {**(asked.pop("settings", None) or {}), "nodes": 2**11, "scrambles": 3}
        return super().compare(name, scenario, grid, **{**asked, "dim": 40, "trials": 3, "settings": settings})


@pytest.mark.filterwarnings("ignore:The mean square of the labels")  # few points, on purpose
@pytest.mark.parametrize("recipe", batch_reuse.RECIPES, ids=lambda recipe: recipe.name)
def test_every_figure_is_drawn(recipe):
    bench = ToyBench(quick=True, progress=False)
    with style():
        figure = recipe.make(bench)
    figure.canvas.draw()
    assert bench.results and set(bench.studies) == set(bench.results)
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert any("z-scores" in text for text in texts)
    assert recipe.name != "reuse-phases" or len(bench.checks) == 2
