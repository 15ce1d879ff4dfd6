"""The figures of convex learning on mixtures: every line runs, the checks against known values hold."""

from __future__ import annotations

import pytest

from giantstep.figures import mixtures
from giantstep.figures.recipes import Bench
from giantstep.figures.style import style


class ToyBench(Bench):
    """A bench whose experiments are tiny: every line of a recipe runs, nothing is learned from their numbers."""

    def sized(self, quick, full):
        """Return a size smaller still than the quick one, where it counts points."""
        return min(quick, 6) if isinstance(quick, int) and quick < 100 else quick

    def compare(self, name, scenario, grid, **asked):
        dim = asked["dim"] if scenario.data is not None else 40
        return super().compare(name, scenario, grid, **{**asked, "dim": dim, "trials": 2})


KNOWN = ("notes", "alpha_c", "matched")
"""Words in the names of checks that do not depend on the size of an experiment."""


@pytest.mark.filterwarnings("ignore:.*points were not measured")
@pytest.mark.parametrize("recipe", mixtures.RECIPES, ids=lambda recipe: recipe.name)
def test_every_figure_is_drawn(recipe):
    pytest.importorskip("sklearn")
    bench = ToyBench(quick=True, progress=False)
    with style():
        figure = recipe.make(bench)
    figure.canvas.draw()
    assert bench.results and set(bench.studies) == set(bench.results)
    for check in bench.checks:
        if any(word in check.name for word in KNOWN):
            assert check.agrees, str(check)
    for study in bench.studies.values():
        if study.scenario.data is None:
            assert "mixture-glm" in study.to_toml()
    assert recipe.seconds_quick <= 120


def test_a_missing_package_is_said(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(Exception, match="scikit-learn, which is not installed"):
        mixtures.digit_inputs()
