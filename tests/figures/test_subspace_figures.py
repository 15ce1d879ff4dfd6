"""The figures of subspace clustering: every line runs, and what the limit says in them
holds.
"""

from __future__ import annotations

import numpy as np
import pytest
import toys

import giantstep as gs
from giantstep.papers import lesieur2016phase, pesce2022subspace, recipes
from giantstep.papers.recipe import Size
from giantstep.papers.runner import answer, draw, judge
from giantstep.problems.subspace_clustering.curve import snr_at_overlap

NAMES = [
    recipe.name
    for module in (pesce2022subspace, lesieur2016phase)
    for recipe in module.RECIPES
]
QUICK = Size(quick=True)


def tiny(study):
    fewest = min(study.grid.get("sparsity", [study.scenario.sparsity]))
    # one active feature at least
    return {
        "dim": max(40, round(1 / fewest)),
        "trials": 2,
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn(name):
    recipe = toys.shrunk(recipes()[name], tiny)
    results = answer(recipe, QUICK, progress=False)
    draw(recipe, results).canvas.draw()
    checks = judge(recipe, results).checks
    if name == "subspace-rivals":  # its check is of an experiment: see the slow test
        assert [check.name for check in checks] == [
            "lead of the best rival over AMP above the threshold"
        ]
    else:
        assert all(check.agrees for check in checks)


def test_the_curve_of_fixed_points_goes_through_those_of_the_limit():
    scenario = pesce2022subspace.scenario(ratio=0.9)
    result = gs.predict(scenario)["m_u"].sel(branch="informed")
    np.testing.assert_allclose(
        snr_at_overlap(2, 2.0, 0.05, np.array([float(result)])), scenario.snr, rtol=1e-8
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name", ["subspace-overlaps", "subspace-trajectory", "subspace-rivals"]
)
def test_what_is_measured_agrees_at_quick_size(name):
    recipe = recipes()[name]
    report = judge(recipe, answer(recipe, QUICK, progress=False))
    assert report.comparisons or report.checks
    assert report.agrees, str(report)


def test_the_limit_beside_an_experiment_keeps_its_jumps():
    """Five points of AMP; the curves between them jump where the thresholds are."""
    scenario = gs.SubspaceClustering(
        clusters=2, sparsity=0.05, snr=1.0, samples_per_dim=2.0
    )
    both = gs.compare(
        scenario,
        snr=[0.6, 1.1, 1.6, 2.1, 2.6],
        dim=60,
        trials=2,
        max_iterations=5,
        progress=False,
    )
    (axes,) = gs.plot(both, "m_u").axes
    thresholds = gs.predict(scenario, what="thresholds")
    lines = [line for line in axes.lines if len(line.get_xdata()) > 40]
    for line, name in zip(lines, ("lam_alg", "lam_dyn", "lam_it"), strict=True):
        snr, overlap = line.get_data()
        steps = np.diff(overlap)
        jump = int(np.argmax(steps))
        width = snr[jump + 1] - snr[jump]
        assert width <= 5e-3 * (snr[-1] - snr[0])  # of the fixed grid
        assert (
            snr[jump] - width <= float(thresholds[name]) <= snr[jump + 1]
            and steps[jump] > 0.1
        )
        # and is smooth everywhere else
        assert np.all(np.delete(steps, range(max(jump - 1, 0), jump + 2)) < 0.03)
