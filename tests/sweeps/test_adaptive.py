"""Adaptive sampling: more trials until an error is small, more points where a curve bends."""

import numpy as np
import pytest
import xarray

import giantstep as gs
from giantstep.sweeps.adaptive import trials_needed

from .faulty import RAISES, Faulty


def test_trials_are_added_until_the_error_is_small_enough(store, diary):
    settings = {"trials": 4, "dim": [4, 100], "level": [1, 2]}
    result = gs.sweep(Faulty(), store=store, until={"mean": 0.1}, **settings)
    assert (result["mean_stderr"] < 0.1).all()
    done = result["trials_done"].values
    assert (done[1] == 4).all() and (done[0] > 8).all()  # the error of a trial is 1/sqrt(dim)
    assert len(diary()) == done.sum()
    for place, dim in enumerate((4, 100)):
        for level in (1, 2):
            alone = gs.simulate(Faulty(), dim=dim, level=level, trials=int(done[place, level - 1]))
            assert float(alone["mean"]) == float(result["mean"].sel(dim=dim, level=level))
            assert float(alone["mean_stderr"]) == float(result["mean_stderr"].sel(dim=dim, level=level))
    diary()
    again = gs.sweep(Faulty(), store=store, until={"mean": 0.1}, **settings)
    assert diary() == []
    xarray.testing.assert_identical(again, result)


def test_there_is_an_end_to_trials():
    result = gs.sweep(Faulty(), until={"mean": 1e-6}, trials=2, most_trials=5, dim=10)
    assert int(result["trials_done"]) == 5
    with pytest.warns(gs.GiantstepWarning, match="boom"):
        failed = gs.sweep(Faulty(trouble=RAISES, since=1), until={"mean": 1e-6}, trials=2, most_trials=9, dim=10)
    assert int(failed["trials_done"]) == 1


@pytest.mark.parametrize(
    ("done", "most", "errors", "expected"),
    [
        (4, 100, [(0.1, 0.2)], 4),
        (4, 100, [(0.11, 0.1)], 5),
        (4, 100, [(0.4, 0.1), (0.1, 0.1)], 8),
        (4, 6, [(0.4, 0.1)], 6),
        (1, 100, [(np.nan, 0.1)], 2),
        (5, 100, [(np.nan, 0.1)], 5),
    ],
)
def test_trials_needed(done, most, errors, expected):
    assert trials_needed(done, most, errors) == expected


def test_points_are_added_where_the_curve_bends(store):
    # the limit is level + |level - 2|: it bends at 2 only
    result = gs.sweep(Faulty(), source="limit", store=store, level=[0.1, 1, 3, 4, 5], refine={"level": 0.01})
    levels = result["level"].values
    assert len(levels) > 9
    inside = levels[(levels > 3.5) & (levels < 5)]
    assert inside.tolist() == [4.0]
    assert np.min(np.abs(levels - 2)) < 0.1
    dense = np.linspace(0.1, 5, 500)
    between = np.interp(dense, levels, result["mean"])
    exact = gs.predict(Faulty(), level=dense)["mean"].values
    assert np.max(np.abs(between - exact)) < 0.02 * np.ptp(exact)
    few = gs.sweep(
        Faulty(), source="limit", store=store, level=[0.1, 1, 3, 4, 5], refine={"level": 1e-6}, most_points=8
    )
    assert few.sizes["level"] == 8


def test_straight_curves_and_noise_are_left_alone():
    straight = gs.sweep(Faulty(), source="limit", offset=[0, 1, 2, 5], refine={"offset": 1e-3})
    assert straight.sizes["offset"] == 4
    noise = gs.sweep(Faulty(), dim=10, trials=5, level=[1, 1.001, 1.002, 1.003], refine={"level": 0.01})
    assert noise.sizes["level"] < 8


def test_whole_numbers_stay_whole():
    result = gs.sweep(Faulty(), source="limit", level=[1, 2, 3], trouble=[0, 4, 8], refine={"trouble": 0.01})
    assert result["trouble"].values.tolist() == [0, 4, 8]
    dims = gs.sweep(Faulty(), trials=2, dim=[10, 20, 40], seed=3, refine={"dim": 1e-3}, most_points=5)
    assert all(float(dim).is_integer() for dim in dims["dim"].values)
