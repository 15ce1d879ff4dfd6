"""Spikes of the updated weights and of the features: step_size_regimes sections 4, 6,
12.4, 12.7 and 13.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.layers import judged_side
from giantstep.tools.figures.panels import sides

from .inside import only_the_experiment_answers

CENTRED_RELU = "relu(z) - 1/sqrt(2*pi)"
UNIT_RELU = "(relu(z) - 1/sqrt(2*pi))/sqrt(1/2 - 1/(2*pi))"
QUADRATIC = "z + (z**2 - 1)/sqrt(2)"


def weights_scenario(rate=3.0, initial_output=0, **changes):
    fields = dict(
        activation=CENTRED_RELU,
        target="z",
        noise=1.0,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        second_layer="gaussian",
        rows="gaussian",
        step=gs.SmallStep(rate, batch_per_dim=2, initial_output=initial_output),
    )
    return gs.OneStep(**{**fields, **changes})


def features_scenario(exponent=0.36, rate=1.0, update="rank-one", **changes):
    fields = dict(
        activation=CENTRED_RELU,
        target=QUADRATIC,
        width_per_dim=2.0,
        samples_per_dim=4.0,
        ridge=0.1,
        second_layer="gaussian",
        step=gs.GrowingStep(rate, exponent, batch_per_dim=4, update=update),
    )
    return gs.OneStep(**{**fields, **changes})


def numbers(result, name):
    return result[name].values


# -- weights ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "initial_output", "top", "left", "right"),
    [
        (2, 0, 2.291288, 0.357143, 0.208333),
        (3, 0, 2.708013, 0.694444, 0.378788),
        (3, 1, 2.612678, 0.654764, 0.411093),
    ],
)
def test_weights_reproduce_the_reference_values(rate, initial_output, top, left, right):
    found = gs.predict(weights_scenario(rate, initial_output), what="weights")
    for name, value in (
        ("top_singular_value", top),
        ("left_alignment", left),
        ("right_alignment", right),
    ):
        assert float(found[name]) == pytest.approx(value, abs=6e-7)


def test_weights_have_no_outlier_below_the_threshold():
    found = gs.predict(weights_scenario(1), what="weights")
    assert float(found["spike_strength"]) == pytest.approx(1.5)
    assert float(found["threshold"]) == pytest.approx(2.224745, abs=1e-6)
    assert float(found["top_singular_value"]) == float(found["bulk_upper"])
    assert float(found["bulk_lower"]) == pytest.approx(np.sqrt(1.5) - 1)
    assert np.isnan(found["left_alignment"]) and np.isnan(found["right_alignment"])


def test_the_outlier_leaves_the_bulk_continuously():
    critical = np.sqrt(np.sqrt(1.5) / 0.5)  # ell = 1 + rate^2 c1^2 b0^2, b0^2 = 2
    rates = critical * np.array([0.999, 1.001, 1.1])
    found = gs.predict(weights_scenario(), what="weights", step__rate=rates)
    top = numbers(found, "top_singular_value")
    left = numbers(found, "left_alignment")
    assert top[0] == numbers(found, "bulk_upper")[0] < top[1] < top[2]
    assert top[1] == pytest.approx(top[0], abs=1e-5)
    assert np.isnan(left[0]) and 0 < left[1] < 0.005 < left[2]


def test_only_the_power_of_the_second_layer_matters_for_the_weights():
    double = weights_scenario(1.5, second_layer=gs.Vocabulary([2, -2]), rows="sphere")
    one = gs.predict(weights_scenario(3), what="weights")
    two = gs.predict(double, what="weights")
    for name in ("top_singular_value", "left_alignment", "right_alignment"):
        assert float(one[name]) == pytest.approx(float(two[name]), rel=1e-12)


@pytest.mark.parametrize(("rate", "initial_output"), [(3, 0), (3, 1)])
def test_weights_agree_with_networks(rate, initial_output):
    found = gs.compare(
        weights_scenario(rate, initial_output), what="weights", dim=500, trials=6
    )
    for name in ("top_singular_value", "left_alignment", "right_alignment"):
        assert abs(float(found[name + "_z"])) < 4, name
    gap = float(found["top_singular_value_gap"]) / float(
        judged_side(found["top_singular_value"])
    )
    assert abs(gap) < 0.03


def test_weights_of_networks_below_the_threshold_point_nowhere():
    wide = weights_scenario(1)
    # the other side of the matrix is the smaller one
    narrow = wide.replace(width_per_dim=0.6)
    for scenario in (wide, narrow):
        found = gs.compare(scenario, what="weights", dim=400, trials=2)
        top = found["top_singular_value"]
        assert float(top.sel(source="experiment")) == pytest.approx(
            float(judged_side(top)), rel=0.02
        )
        assert float(found["left_alignment"].sel(source="experiment")) < 0.1


# -- features --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exponent", "values", "degrees"),
    [
        (0.2, [1.760892], [1]),
        (0.29, [2.957156], [1]),
        (0.36, [4.831486, 1.697491], [1, 2]),
        (0.45, [9.417729, 4.693924], [1, 2]),
    ],
)
def test_spikes_reproduce_the_reference_values(exponent, values, degrees):
    found = gs.predict(features_scenario(exponent), what="spikes", dim=500)
    assert float(found["bulk_edge"]) == pytest.approx(1.433826, abs=6e-7)
    singular_values = numbers(found, "singular_values")
    np.testing.assert_allclose(singular_values[: len(values)], values, atol=6e-7)
    assert np.isnan(singular_values[len(values) :]).all()
    np.testing.assert_array_equal(
        numbers(found, "spike_degree")[: len(values)], degrees
    )


def test_alignments_reproduce_the_reference_values():
    found = gs.predict(
        features_scenario(),
        what="spikes",
        dim=500,
        step__exponent=[0.2, 0.29, 0.36, 0.45],
    )
    alignment = found["alignment"]
    np.testing.assert_allclose(
        alignment.isel(spike=0).sel(degree=1)[:2], [0.8007, 0.9543], atol=6e-5
    )
    second = alignment.isel(spike=1).sel(degree=[0, 2, 4])[2:]
    np.testing.assert_allclose(
        second, [[0.2739, 0.4699, 0.0027], [0.4041, 0.5621, 0.0131]], atol=6e-5
    )


@pytest.mark.parametrize(
    ("exponent", "rate", "values"),
    [(0.2, 0.0, []), (0.2, 1.0, [4.973035]), (0.3, 1.0, [10.582210, 3.647930])],
)
def test_spectra_of_the_figure(exponent, rate, values):
    scenario = features_scenario(
        exponent, rate, activation=UNIT_RELU, width_per_dim=1.5, samples_per_dim=3.0
    )
    found = gs.predict(scenario.replace(step__batch_per_dim=3), what="spikes", dim=1000)
    assert float(found["bulk_edge"]) == pytest.approx(2.315171, abs=6e-7)
    singular_values = numbers(found, "singular_values")
    np.testing.assert_allclose(singular_values[: len(values)], values, atol=6e-7)
    assert np.isnan(singular_values[len(values) :]).all()


def test_a_small_step_without_dimension_is_the_limit_of_large_ones():
    for activation in (CENTRED_RELU, "relu"):
        for rows in ("sphere", "gaussian"):
            step = gs.SmallStep(6, batch_per_dim=4, update="rank-one")
            law = gs.Vocabulary([1, -0.5], [0.7, 0.3])
            scenario = features_scenario(
                activation=activation, rows=rows, second_layer=law, step=step
            )
            bare, large = (
                gs.predict(scenario, what="spikes", **size)
                for size in ({}, {"dim": 10**10})
            )
            # relu has a constant: its spike grows with the dimension
            first = int(activation == "relu")
            if first:
                assert (
                    numbers(bare, "singular_values")[0] == np.inf
                    and numbers(large, "singular_values")[0] > 1e4
                )
                assert float(bare["alignment"].isel(spike=0).sel(degree=0)) == 1
            for name in ("singular_values", "alignment", "norm_alignment"):
                one = numbers(bare, name)[first:]
                other = numbers(large, name)[first:]
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-8)


def test_the_spectrum_finds_the_same_outliers():
    # a second route: the equations with a bulk that depends on the learnt feature
    scenario = features_scenario(0.3, second_layer=gs.Vocabulary([1, -1]))
    spikes = gs.predict(scenario, what="spikes", dim=2000)
    spectrum = gs.predict(
        scenario, what="spectrum", dim=2000, normalisation="n", x=[1.0]
    )
    outliers = np.sqrt(numbers(spectrum, "outliers"))
    known = np.isfinite(numbers(spikes, "singular_values"))
    assert known.any() and np.isfinite(outliers).sum() == known.sum()
    np.testing.assert_allclose(
        outliers[: known.sum()], numbers(spikes, "singular_values")[known], rtol=0.01
    )
    untrained = scenario.replace(step__rate=0)
    edge = gs.predict(untrained, what="spikes", dim=2000)["bulk_edge"]
    upper = gs.predict(
        untrained, what="spectrum", dim=2000, normalisation="n", x=[1.0]
    )["upper_edge"]
    assert float(edge) ** 2 == pytest.approx(float(upper), rel=1e-6)


def test_spikes_agree_with_networks():
    found = gs.compare(features_scenario(0.45), what="spikes", dim=500, trials=8).isel(
        spike=slice(2)
    )
    assert np.all(np.abs(numbers(found, "singular_values_z")) < 4)
    limit, measured = (side["alignment"].values for side in sides(found))
    assert np.all(np.abs(measured - limit) < 0.03 + 0.02 * (limit > 0.1))
    np.testing.assert_array_equal(
        found["spike_degree"].sel(source="experiment"), [1, 2]
    )


def test_a_linear_target_agrees_within_three_percent():
    scenario = features_scenario(0.29, target="z", noise=1.0)
    found = gs.compare(scenario, what="spikes", dim=500, trials=6).isel(spike=0)
    limit, measured = (side["singular_values"] for side in sides(found))
    assert abs(float(found["singular_values_z"])) < 4
    assert float(measured) == pytest.approx(float(limit), rel=0.03)


def test_the_whole_gradient_moves_the_second_spike_towards_the_constant():
    scenario = features_scenario(0.45, update="exact")
    with pytest.warns(gs.GiantstepWarning, match="isotropic"):
        found = gs.compare(scenario, what="spikes", dim=500, trials=4).isel(spike=1)
    rank_one = gs.predict(features_scenario(0.45), what="spikes", dim=500).isel(spike=1)
    limit, measured = (side["alignment"].sel(degree=[0, 2]) for side in sides(found))
    np.testing.assert_allclose(measured, limit, atol=0.05)
    assert float(limit[0]) > 0.1 + float(rank_one["alignment"].sel(degree=0))


def test_degrees_can_be_chosen():
    scenario = features_scenario()
    found = gs.predict(scenario, what="spikes", dim=500, degree=[2, 6])
    np.testing.assert_array_equal(found["degree"], [2, 6])
    every = gs.predict(scenario, what="spikes", dim=500)
    np.testing.assert_array_equal(
        found["alignment"].sel(degree=2), every["alignment"].sel(degree=2)
    )
    measured = gs.simulate(
        scenario,
        what="spikes",
        dim=60,
        trials=1,
        degree=[2, 6],
        samples_per_dim=[0.5, 4.0],
    )
    assert measured["alignment"].shape == (2, 6, 2)


def test_an_initial_output_that_cancels_the_step_is_flagged():
    scenario = features_scenario(
        step=gs.SmallStep(1, batch_per_dim=4, update="rank-one", initial_output=1)
    )
    with pytest.warns(gs.GiantstepWarning, match="initial_output"):
        found = gs.predict(scenario, what="spikes", dim=500)
    assert not bool(found["converged"])
    bare = gs.predict(scenario, what="spikes")
    assert bool(bare["converged"]) and np.isnan(bare["singular_values"]).all()


# -- refusals --------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["weights", "spikes"])
def test_they_refuse_what_they_do_not_cover(what):
    for step in (gs.NoStep(), gs.PlantedSpike(1.0), gs.MaximalStep(1.0)):
        scenario = features_scenario(step=step)
        missing = (
            f'a theory of what="{what}" other than after one SmallStep or GrowingStep'
        )
        only_the_experiment_answers(scenario, "step", missing, what)
    with pytest.raises(gs.InputError, match="Field `dim` must be given"):
        gs.predict(features_scenario(), what=what)
    with pytest.raises(gs.InputError, match="fit_sample"):
        gs.predict(features_scenario(fit_sample="same"), what=what, dim=500)


def test_bad_settings_are_refused():
    with pytest.raises(gs.InputError, match="theory"):
        gs.predict(weights_scenario(), what="weights", theory="isotropic")
    for degree in ([0.5], [1, 1], [8], [-1]):
        with pytest.raises(gs.InputError, match="degree"):
            gs.predict(features_scenario(), what="spikes", dim=500, degree=degree)


def test_a_singular_value_below_the_bulk():
    """A step against the network's own output shortens W^T a: an outlier at the bottom,
    with its vectors.

    8 networks of d = 400, 4 standard errors and 2% (1/d); without the outlier the value
    would be the edge, 0.5.
    """
    scenario = gs.OneStep(
        activation="relu(z) - 1/sqrt(2*pi)",
        target="0.3*z",
        width_per_dim=0.25,
        samples_per_dim=1.0,
        ridge=0.1,
        second_layer=gs.Vocabulary([1, -1]),
        step=gs.SmallStep(3.0, batch_per_dim=100, update="rank-one", initial_output=1),
    )
    limit = gs.predict(scenario, what="weights")
    measured = gs.simulate(
        scenario, what="weights", dim=400, trials=8, seed=3, progress=False
    )
    assert float(limit.bottom_singular_value) == pytest.approx(0.42427809, abs=1e-8)
    assert float(limit.bulk_lower) == 0.5 and float(limit.top_singular_value) == 1.5
    for name in (
        "bottom_singular_value",
        "bottom_left_alignment",
        "bottom_right_alignment",
    ):
        bound = 4 * float(measured[f"{name}_stderr"]) + 0.02 * float(limit[name])
        assert abs(float(measured[name]) - float(limit[name])) < bound, name
