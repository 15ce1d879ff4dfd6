"""The figures of inputs with a covariance: every line of every recipe, and what they
claim.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import toys

from giantstep.papers import recipes
from giantstep.papers.recipe import Size
from giantstep.papers.runner import answer, draw, judge

QUICK = Size(quick=True)
pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)


def thinned(recipe):
    """Return a recipe with the first and the last value of every grid."""

    def few(asked):
        grid = {
            name: list(np.asarray(values)[:: max(1, len(values) // 2)])
            for name, values in asked.study.grid.items()
        }
        return replace(asked, study=replace(asked.study, grid=grid))

    return replace(
        recipe,
        studies=lambda size: {
            name: few(asked) for name, asked in recipe.studies(size).items()
        },
    )


@pytest.mark.parametrize(
    "name",
    [
        "input-targets",
        "input-spectra",
        "input-digits",
        pytest.param("input-patches", marks=pytest.mark.slow),
    ],
)
def test_a_recipe_is_drawn_and_judged(name):
    """The checks hold on coarse grids too."""
    if name in ("input-digits", "input-patches"):
        sizes = {"trials": 8}
    else:
        sizes = {"dim": 80, "trials": 2}
    recipe = toys.shrunk(thinned(recipes()[name]), **sizes)
    results = answer(recipe, QUICK, progress=False)
    draw(recipe, results).canvas.draw()
    report = judge(recipe, results)
    assert all(check.agrees for check in report.checks)
    if name == "input-targets":  # eigenvalues 4 and 0.25: r_eff = d/3.25
        assert [part.allow for part in report.comparisons] == pytest.approx(
            [7 * 3.25 / 80] * 3
        )
