"""The ready-made trade-offs: their optima are optima, they draw, and networks confirm
the split of a budget.
"""

from dataclasses import replace

import numpy as np
import pytest

import giantstep as gs
from giantstep.papers import giantstep2026design as design
from giantstep.papers.recipe import Size
from giantstep.papers.runner import rebuild

QUICK = Size(quick=True)


def test_every_trade_off_has_a_study_that_a_file_can_hold():
    for recipe in design.RECIPES:
        assert any(not study.paired for study in recipe.studies(QUICK).values())


@pytest.mark.filterwarnings(
    "ignore:The limit leaves out the overlap:giantstep.core.base.errors.GiantstepWarning"
)
def test_the_best_split_beats_its_neighbours_and_spends_the_budget():
    best = design.best_split(12.0)
    split = float(best["step.batch_per_dim"])
    rest = float(best["samples_per_dim"])
    assert split + rest == pytest.approx(12.0, rel=1e-9)
    batches = split * np.array([0.9, 0.98, 1.0, 1.02, 1.1])
    grid = design.path(samples_per_dim=12 - batches, **{"step.batch_per_dim": batches})
    errors = gs.predict(design.STEP, grid).test_error.values
    assert np.argmin(errors) == 2 and float(best.test_error) == pytest.approx(
        errors[2], rel=1e-9
    )


def test_a_search_that_meets_missing_points_does_not_go_to_and_fro():
    # it once ended at 0.898, its stencils doubled and halved for ever
    best = design.best_shape(64.0)
    widths = 8.0 * np.geomspace(0.5, 1.6, 9)
    along = gs.optimize(
        design.FEATURES,
        design.path(samples_per_dim=64 / widths, width_per_dim=widths),
        over={"ridge": (1e-2, 1.0)},
    )
    assert float(best.test_error) <= float(along.test_error.min())
    assert str(best.remark.values) == ""


def test_the_best_shape_costs_what_it_may():
    best = design.best_shape(4.0, starts=5)
    assert float(best.width_per_dim * best.samples_per_dim) == pytest.approx(
        4.0, rel=1e-9
    )
    for factor in (0.8, 1.25):
        width = factor * float(best.width_per_dim)
        samples = float(best.samples_per_dim) / factor
        there = gs.best_ridge(
            design.FEATURES.replace(width_per_dim=width, samples_per_dim=samples)
        )
        assert there.value > float(best.test_error)


def test_a_trade_off_draws_its_optimum(tmp_path):
    def small(size):
        few = {"samples_per_dim": list(design.PATH_SAMPLES), "ridge": [0.1, 1.0, 10.0]}
        return {
            "networks": design.comparison(
                design.FEATURES, few, judged=("test_error",), dim=40, trials=3, seed=1
            ),
            "paths": design.limit(design.FEATURES, few),
        }

    (recipe,) = (recipe for recipe in design.RECIPES if recipe.name == "ridge-path")
    rebuild(replace(recipe, studies=small), tmp_path, QUICK, progress=False)
    assert (tmp_path / "ridge-path" / "ridge-path.png").stat().st_size > 10_000
    assert (
        "samples_per_dim,ridge"
        in (tmp_path / "ridge-path" / "ridge-path-best.csv").read_text()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [recipe.name for recipe in design.RECIPES])
def test_every_trade_off_agrees_with_its_networks(name, tmp_path):
    (recipe,) = (recipe for recipe in design.RECIPES if recipe.name == name)
    assert rebuild(recipe, tmp_path, QUICK, progress=False).agrees


@pytest.mark.slow
def test_networks_at_d_500_confirm_the_split_of_the_budget():
    split = float(design.best_split(12.0)["step.batch_per_dim"])
    three = np.array([1.2, split, 10.8])
    grid = design.path(samples_per_dim=12 - three, **{"step.batch_per_dim": three})
    measured = gs.simulate(design.STEP, grid, dim=500, trials=12, seed=5)
    errors = measured.test_error.values
    spread = measured.test_error_stderr.values
    for end in (0, 2):
        assert (errors[end] - errors[1]) / np.hypot(spread[end], spread[1]) > 3
    limit = gs.predict(design.STEP, grid).test_error.values
    np.testing.assert_allclose(errors, limit, rtol=0.03)
