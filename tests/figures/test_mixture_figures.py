"""The figures of convex learning on mixtures: every line runs, the checks against known
values hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import toys

from giantstep.papers import (
    gerace2024gaussian,
    loureiro2021mixtures,
    pesce2023gaussian,
    real_inputs,
    recipes,
)
from giantstep.papers.recipe import Size
from giantstep.papers.runner import answer, draw, judge

MODULES = (pesce2023gaussian, gerace2024gaussian, loureiro2021mixtures)
NAMES = [recipe.name for module in MODULES for recipe in module.RECIPES]


@dataclass(frozen=True)
class Tiny(Size):
    """A size smaller still than the quick one, where it counts points."""

    quick: bool = True

    def __call__(self, quick, full):
        return min(quick, 6) if isinstance(quick, int) and quick < 100 else quick


def tiny(study):
    return {
        "dim": study.experiment["dim"] if study.scenario.data is not None else 40,
        "trials": 2,
    }


KNOWN = ("section", "alpha_c", "matched")
"""Words in the names of checks that do not depend on the size of an experiment."""


@pytest.mark.filterwarnings("ignore:.*points were not measured")
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn(name):
    pytest.importorskip("sklearn")
    recipe = toys.shrunk(recipes()[name], tiny)
    results = answer(recipe, Tiny(), progress=False)
    draw(recipe, results).canvas.draw()
    known = [
        check
        for check in judge(recipe, results).checks
        if any(word in check.name for word in KNOWN)
    ]
    assert len(known) == {
        "logistic-separability": 2,
        "correlated-teacher": 3,
        "sparse-means": 1,
    }.get(name, 0)
    assert all(check.agrees for check in known), known
    for asked in results.studies.values():
        if asked.study.scenario.data is None:
            assert "mixture-glm" in asked.study.to_toml()


def test_a_missing_package_is_said(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(Exception, match="scikit-learn, which is not installed"):
        real_inputs.digit_inputs()
    (digits,) = (
        recipe for recipe in pesce2023gaussian.RECIPES if recipe.name == "digits"
    )
    assert "scikit-learn, which is not installed" in digits.parameters
