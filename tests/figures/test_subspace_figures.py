"""The figures of subspace clustering: every line runs, and what the limit says in them holds."""

from __future__ import annotations

import numpy as np
import pytest
import toys

import giantstep as gs
from giantstep.families.subspace_clustering.curve import snr_at_overlap
from giantstep.papers import lesieur2016phase, pesce2022subspace, recipes
from giantstep.papers.recipe import Size
from giantstep.papers.runner import answer, draw, judge

NAMES = [recipe.name for module in (pesce2022subspace, lesieur2016phase) for recipe in module.RECIPES]
QUICK = Size(quick=True)


def tiny(study):
    fewest = min(study.grid.get("sparsity", [study.scenario.sparsity]))
    return {"dim": max(40, round(1 / fewest)), "trials": 2}  # one active feature at least


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn(name):
    recipe = toys.shrunk(recipes()[name], tiny)
    results = answer(recipe, QUICK, progress=False)
    draw(recipe, results).canvas.draw()
    checks = judge(recipe, results).checks
    if name == "subspace-rivals":  # its check is of an experiment: see the slow test
        assert [check.name for check in checks] == ["lead of the best rival over AMP above the threshold"]
    else:
        assert all(check.agrees for check in checks)


def test_the_curve_of_fixed_points_goes_through_those_of_the_limit():
    scenario = pesce2022subspace.scenario(ratio=0.9)
    result = gs.predict(scenario)["m_u"].sel(branch="informed")
    np.testing.assert_allclose(snr_at_overlap(2, 2.0, 0.05, np.array([float(result)])), scenario.snr, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["subspace-overlaps", "subspace-trajectory", "subspace-rivals"])
def test_what_is_measured_agrees_at_quick_size(name):
    recipe = recipes()[name]
    report = judge(recipe, answer(recipe, QUICK, progress=False))
    assert report.comparisons or report.checks
    assert report.agrees, str(report)
