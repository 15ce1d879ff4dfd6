"""Local exponents: known powers, chords of an experiment, floors, several fields at once."""

import numpy as np
import pytest
import xarray

import giantstep as gs

NET = gs.Network(
    target="tanh(2*z1)",
    activation="relu",
    width_per_dim=1.5,
    samples_per_dim=2.0,
    steps=[gs.MaximalStep(2.0)],
    readout=gs.Ridge(0.1),
)


def test_above_the_error_of_all_data_a_network_gains_as_one_over_n():
    """It would catch a floor that is not subtracted (slopes near zero) or a factor in the widths."""
    result = gs.predict(NET, samples_per_dim=[200.0, 400.0])
    found = gs.slopes(result, floor="all_data_error")
    np.testing.assert_allclose(found.slope, -1, atol=0.01)
    assert float(found.slope_error.max()) < 1e-6
    assert found.slope.dims == ("samples_per_dim", "time")


def test_local_slopes_are_those_of_chords_of_a_fine_grid():
    fine = np.geomspace(1.9, 2.1, 3)
    curve = gs.predict(NET, samples_per_dim=fine).test_error.isel(time=1).values
    chord = np.log(curve[2] / curve[0]) / np.log(fine[2] / fine[0])
    found = gs.slopes(gs.predict(NET, samples_per_dim=[fine[1]]))
    assert float(found.slope.isel(time=1)[0]) == pytest.approx(chord, abs=5e-4)


def test_fields_that_grow_together_add_their_slopes():
    result = gs.predict(NET, samples_per_dim=[1.0, 3.0])
    each = [gs.slopes(result, along=name).slope for name in ("samples_per_dim", "width_per_dim")]
    both = gs.slopes(result, along=["samples_per_dim", "width_per_dim"]).slope
    np.testing.assert_allclose(both, each[0] + each[1], atol=1e-7)


def test_scenarios_have_their_own_slopes():
    both = gs.predict({"step": NET, "none": NET.replace(steps=[])}, samples_per_dim=[1.0, 3.0])
    alone = gs.slopes(both.sel(scenario="step").isel(time=slice(0, 2))).slope
    np.testing.assert_allclose(gs.slopes(both).slope.sel(scenario="step"), alone, rtol=1e-9)


def test_an_experiment_has_chords_with_errors_that_its_theory_explains():
    """Bounds: five standard errors of 8 trials; a slope off by a factor of two would be ten of them away."""
    asked = {"dim": 60, "samples_per_dim": [1.0, 2.0, 4.0, 8.0], "trials": 8}
    both = gs.slopes(gs.compare(NET, **asked))
    theory, measured = (both.sel(source=name) for name in ("theory", "experiment"))
    assert (abs(measured.slope - theory.slope) < 5 * measured.slope_error).all()
    assert float(measured.slope_error.max()) < 0.1 and float(abs(theory.slope).max()) > 0.1
    kept = gs.slopes(gs.simulate(NET, keep_trials=True, **asked))
    np.testing.assert_allclose(kept.slope, measured.slope, rtol=1e-9)
    assert 0.1 < float((kept.slope_error / measured.slope_error).mean()) < 1.2  # draws are shared: paired is less


def test_chords_of_a_power_are_its_exponent():
    n = np.array([1.0, 2.0, 8.0])
    attrs = gs.simulate(NET, dim=8, trials=2, samples_per_dim=n).attrs
    columns = {"test_error": ("samples_per_dim", 3 * n**-0.7), "test_error_stderr": ("samples_per_dim", 0 * n)}
    found = gs.slopes(xarray.Dataset(columns, {"samples_per_dim": n}, attrs))
    np.testing.assert_allclose(found.slope, -0.7, rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"of": "test_eror"}, "Field `of` must be a variable of the result"),
        ({"along": "activation"}, "Field `along` must be a field that is one finite number"),
        ({"floor": "nothing"}, "Field `floor` must be a number"),
    ],
)
def test_bad_input(given, words):
    with pytest.raises(gs.InputError, match=words):
        gs.slopes(gs.predict(NET, samples_per_dim=[1.0, 2.0]), **given)


def test_an_experiment_at_one_size_has_no_slope():
    with pytest.raises(gs.InputError, match="need a result along samples_per_dim"):
        gs.slopes(gs.simulate(NET, dim=8, trials=2))
