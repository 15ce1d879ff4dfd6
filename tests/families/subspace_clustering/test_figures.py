"""The recipes of the paper's figures: every line runs, and what the limit says in them holds."""

from __future__ import annotations

import pytest

from giantstep.figures import subspace
from giantstep.figures.recipes import Bench
from giantstep.figures.style import style


class ToyBench(Bench):
    """A bench whose experiments are tiny: every line of a recipe runs, nothing is learned from the measured numbers."""

    def compare(self, name, scenario, grid, **asked):
        fewest = min(grid.get("sparsity", [scenario.sparsity]))
        dim = max(40, round(1 / fewest))  # one active feature at least
        return super().compare(name, scenario, grid, **{**asked, "dim": dim, "trials": 2})


@pytest.mark.parametrize("recipe", subspace.RECIPES, ids=lambda recipe: recipe.name)
def test_every_figure_is_drawn(recipe):
    bench = ToyBench(quick=True, progress=False)
    with style():
        figure = recipe.make(bench)
    figure.canvas.draw()
    assert bench.results and set(bench.studies) == set(bench.results)
    if recipe.name == "subspace-rivals":  # its check is of an experiment: see the slow test
        assert [check.name for check in bench.checks] == ["lead of the best rival over AMP above the threshold"]
    else:
        assert all(check.agrees for check in bench.checks)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["subspace-overlaps", "subspace-trajectory", "subspace-rivals"])
def test_what_is_measured_agrees_at_quick_size(name):
    (recipe,) = (one for one in subspace.RECIPES if one.name == name)
    bench = Bench(quick=True, progress=False)
    with style():
        recipe.make(bench)
    assert bench.comparisons or bench.checks
    for one in bench.comparisons:
        assert one.agrees, f"{one.name}\n{one.agreement}"
    assert all(check.agrees for check in bench.checks)
