"""The limit of several steps: printed values, a second route, closed forms,
invariances, and what must be refused.
"""

import dataclasses
import warnings

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.maths.gaussian import Function, conditional
from giantstep.core.maths.gaussian.functions import tabulated
from giantstep.core.result.layers import judged_side
from giantstep.problems.network.start import start

from .inside import (
    advanced,
    described,
    labelled,
    layers_of,
    only_the_experiment_answers,
    problem_of,
)
from .second_route import read_out
from .settings import ISOTROPIC, SETTINGS, B, D, G, network

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)


@pytest.mark.parametrize("name", SETTINGS)
def test_printed_values(name):
    """few_steps_readout section 14: every printed digit, all times from one
    trajectory.
    """
    scenario, expected = SETTINGS[name]
    result = gs.predict(scenario)
    assert bool(result.converged) and float(result.identity.max()) < 1e-12
    for time, value in enumerate(expected):
        if value is not None:
            digits = 1e-6 if value == 3.148724 else 5.1e-9
            assert float(result.test_error[time]) == pytest.approx(value, abs=digits)


@pytest.mark.parametrize("name", ISOTROPIC)
def test_printed_values_of_isotropic_noise(name):
    """few_steps_readout section 6 is asked for by name; below 100 samples per dimension
    it warns how far off it was.
    """
    scenario, expected = ISOTROPIC[name]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = gs.predict(scenario, theory="isotropic")
    of_size = [
        str(one.message)
        for one in said
        if "an approximation, where theory=None is exact" in str(one.message)
    ]
    assert len(of_size) == (scenario.batch_per_dim < 100) and all(
        "14%" in text for text in of_size
    )
    assert float(result.test_error[2]) == pytest.approx(expected[2], abs=5.1e-9)
    assert (
        result.attrs["theory"] == "isotropic"
        and gs.predict(scenario).attrs["theory"] == "exact"
    )


@pytest.mark.slow
def test_three_learnt_directions():
    """Setting C3: half a million nodes."""
    result = gs.predict(
        network(
            "relu",
            "z1 + z1*z2 + z2*z3",
            [0.35, 0.35, 0.3],
            [1, -1, 0.4],
            [2, 2, 2],
            4,
            2,
            0.1,
            0.1,
        )
    )
    assert float(result.test_error[3]) == pytest.approx(1.58374737, abs=2e-8)
    assert float(result.train_error[3]) == pytest.approx(0.73591738, abs=2e-8)
    assert result.learned.values.tolist() == [0, 1, 2, 3]


PLANTED = {
    "E": (
        network(
            "tanh",
            "z1 + z1*z2 + z3*tanh(z1)",
            [0.4, 0.3, 0.3],
            [1, 1, 1],
            [],
            2,
            1.5,
            0.05,
            0.1,
        ),
        gs.PlantedShifts([[1.2, 0.3, 0], [-0.5, 1, 0], [0.4, -1.5, 0]], [1, 0.8, 1.2]),
        (2.16455174, 0.80018263, 4.31350825),
    ),
    "F": (
        network(
            "relu",
            "abs(z1) + relu(z2 - z1)",
            [0.5, 0.25, 0.25],
            [1, 1, 1],
            [],
            1.5,
            2,
            0.02,
            0.05,
        ),
        gs.PlantedShifts([[1.5, 0.5], [-1, 1], [0.3, -2]], [1, 1, 0.7]),
        (0.48087138, 0.01952426, 1.06104099),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_shifts(name):
    """Two learnt directions beside an unlearnt one (E), kinks on planes across the axes
    (F).
    """
    scenario, planted, expected = PLANTED[name]
    result = gs.predict(scenario.replace(planted=planted))
    assert bool(result.converged)
    found = [float(result[v][0]) for v in ("test_error", "train_error", "norm")]
    np.testing.assert_allclose(found, expected, atol=5.1e-9)


@pytest.mark.parametrize(("ridge", "samples"), [(0.1, 2.0), (1e-3, 0.7), (5.0, 4.0)])
def test_a_second_route(ridge, samples):
    """The same features through a plain damped iteration and dense normal equations."""
    scenario, _ = SETTINGS["D2"]
    scenario = scenario.replace(ridge=ridge, samples_per_dim=samples)
    problem = problem_of(scenario)
    features = labelled(problem, described(problem, layers_of(problem)[-1]))
    plain = read_out(features, features.pi, samples, scenario.width_per_dim, ridge)
    result = gs.predict(scenario).isel(time=2)
    for ours, theirs in (
        ("test_error", "test"),
        ("train_error", "train"),
        ("norm", "norm"),
    ):
        assert float(result[ours]) == pytest.approx(plain[theirs], rel=1e-8)


@pytest.mark.usefixtures("independent_means")
def test_finite_dimension():
    """The option of section 4.5: B1 moves from 1.1552 to 1.1708 at d = 400."""
    scenario, _ = SETTINGS["B2"]
    result = gs.predict(scenario, dim=[400])
    assert float(result.test_error.sel(dim=400, time=1)) == pytest.approx(
        1.170828, abs=1e-6
    )
    assert float(result.test_error.sel(dim=400, time=2)) == pytest.approx(
        1.068177, abs=1e-6
    )


def test_table_of_samples():
    """Section 13, target A: four numbers of steps, six sample sizes, in one call."""
    scenario, _ = SETTINGS["A3"]
    result = gs.predict(scenario, samples_per_dim=[0.5, 1, 1.5, 2, 3, 5])
    expected = [
        [2.220904, 2.221526, 2.163621, 2.090728, 1.958054, 1.786290],
        [1.165057, 1.144019, 1.083894, 1.019108, 0.916304, 0.804165],
        [0.731134, 0.747987, 0.726012, 0.690772, 0.626340, 0.551395],
        [0.587593, 0.635942, 0.639729, 0.622896, 0.579349, 0.519882],
    ]
    np.testing.assert_allclose(
        result.test_error.transpose("time", "samples_per_dim"), expected, atol=1e-6
    )


def test_floors():
    """Sections 8 and 13: all data at one width, all widths; a richer vocabulary lowers
    the floor.
    """
    scenario, _ = SETTINGS["D2"]
    result = gs.predict(scenario)
    assert float(result.all_data_error[2]) == pytest.approx(1.4571868054, abs=1e-9)
    many = gs.predict(scenario.replace(samples_per_dim=1e8))
    assert float(many.test_error[2]) == pytest.approx(1.4571868206, abs=1e-9)
    strong = gs.predict(scenario.replace(ridge=1e8))
    assert float(strong.test_error[2]) == pytest.approx(1.7325415812, abs=1e-8)
    target = "z1 + z1*z2 + z2*z3"
    for values, all_data, floor in (
        ([1, -1], 1.35371, 1.07432),
        ([1, -1, 0.5, -0.5], 1.19792, 0.56511),
        ([1, -1, 0.6, -0.6, 0.3, -0.3], 1.07994, 0.22996),
    ):
        law = [1 / len(values)] * len(values)
        rich = gs.predict(network("relu", target, law, values, [2, 2], 4, 2, 0.1, 0.1))
        assert float(rich.all_data_error[2]) == pytest.approx(all_data, abs=6e-6)
        assert float(rich.floor[2]) == pytest.approx(floor, abs=6e-6)


@pytest.mark.parametrize(
    ("activation", "target", "rate", "expected"),
    [("tanh", "sin(z)", 3.0, 0.0223381752), ("relu", "relu(z)", 1.0, None)],
)
def test_one_step_on_one_direction_is_one_step(activation, target, rate, expected):
    """The two families answer the same network alike."""
    sizes = {"width_per_dim": 1.0, "samples_per_dim": 1.5, "ridge": 0.1}
    few = gs.predict(
        network(activation, target, [1.0], [1], [rate], 1.5, 1.0, 0.1, 0.0)
    ).isel(time=1)
    step = gs.MaximalStep(rate=rate)
    one = gs.predict(
        gs.OneStep(
            activation=activation,
            target=target,
            second_layer=gs.Vocabulary([1]),
            step=step,
            **sizes,
        )
    )
    for name in ("test_error", "train_error", "objective", "norm"):
        assert float(few[name]) == pytest.approx(float(one[name]), rel=1e-10)
    if expected is not None:
        assert float(few.test_error) == pytest.approx(expected, abs=1e-10)


def test_two_classes_and_noise_are_one_step_too():
    fields = {
        "noise": 0.1,
        "width_per_dim": 1.3,
        "samples_per_dim": [0.6, 2.0],
        "ridge": 0.05,
    }
    law = gs.Vocabulary([1, -0.5], [0.7, 0.3])
    single = {
        **fields,
        "samples_per_dim": 1.0,
        "activation": "relu",
        "target": "tanh(2*z)",
        "second_layer": law,
    }
    few = gs.predict(
        gs.FewSteps(rate=1.5, steps=1, **single), samples_per_dim=[0.6, 2.0]
    ).isel(time=1)
    one = gs.predict(
        gs.OneStep(step=gs.MaximalStep(rate=1.5), **single), samples_per_dim=[0.6, 2.0]
    )
    for name in ("test_error", "train_error", "norm"):
        np.testing.assert_allclose(few[name], one[name], rtol=1e-10)


def errors(scenario):
    return gs.predict(scenario).test_error.values


def test_invariances():
    """Section 11: rotation, duplicated class, idle direction, scale, odd signs, a step
    of rate 0.
    """
    law = ([0.5, 0.5], [1, -1])
    base = errors(network("relu", "z1 + z1*z2", *law, [2, 1], 2, 1.5, 0.1, 0.1))
    turned = "(0.6*z1 + 0.8*z2) + (0.6*z1 + 0.8*z2)*(0.8*z1 - 0.6*z2)"
    np.testing.assert_allclose(
        errors(network("relu", turned, *law, [2, 1], 2, 1.5, 0.1, 0.1)),
        base,
        rtol=1e-10,
    )
    double = ([0.2, 0.3, 0.5], [1, 1, -1])
    np.testing.assert_allclose(
        errors(network("relu", "z1 + z1*z2", *double, [2, 1], 2, 1.5, 0.1, 0.1)),
        base,
        rtol=1e-10,
    )
    idle = network(
        "relu", gs.Target("z1 + z1*z2", directions=3), *law, [2, 1], 2, 1.5, 0.1, 0.1
    )
    np.testing.assert_allclose(errors(idle), base, rtol=1e-10)
    scaled = network(
        "relu", "3*(z1 + z1*z2)", law[0], [3, -3], [2 / 9, 1 / 9], 2, 1.5, 0.1, 0.9
    )
    np.testing.assert_allclose(errors(scaled), 9 * base, rtol=1e-10)
    waiting = errors(network("relu", "z1 + z1*z2", *law, [2, 0, 1], 2, 1.5, 0.1, 0.1))
    np.testing.assert_allclose(
        waiting, [base[0], base[1], base[1], base[2]], rtol=1e-10
    )
    odd = [
        errors(network("erf", B[1], [0.6, 0.4], zeta, [2, 2], 3, 1.2, 0.05, 0.05))
        for zeta in ([1, -0.6], [1, 0.6])
    ]
    np.testing.assert_allclose(*odd, rtol=1e-10)


@np.errstate(invalid="ignore")  # no neurons of infinitely many
@pytest.mark.parametrize("setting", [B, D, G])
def test_the_spread_is_the_derivative_of_the_map(setting):
    """J against central differences: a spectator class (fraction 0) that starts beside
    its own.
    """
    activation, target, pi, zeta = setting
    scenario = network(activation, target, pi, zeta, [1.5, 1.0], 2, 1.5, 0.1, 0.1)
    problem = problem_of(scenario, zeta=[*zeta, zeta[0], zeta[0]], pi=[*pi, 0.0, 0.0])
    h = 1e-4
    begin = start(problem)
    k = len(pi)
    JU, Js, lengths = advanced(problem, begin).rows.independent(problem)
    for c in range(2):
        U = begin.means.copy()
        U[0, k, c], U[0, k + 1, c] = h, -h
        end = advanced(problem, dataclasses.replace(begin, means=U))
        np.testing.assert_allclose(
            (end.means[0, k] - end.means[0, k + 1]) / (2 * h),
            JU[0, 0, :, lengths + c],
            atol=1e-6,
        )
        s = end.scale(problem)[0]
        assert (s[k] - s[k + 1]) / (2 * h) == pytest.approx(
            Js[0, 0, lengths + c], abs=1e-6
        )


def test_dropping_the_spread_is_wrong():
    """What the test above protects: with J = s I in place of J the first step of A
    gives 1.190 for 1.019.
    """
    scenario, _ = SETTINGS["A3"]
    problem = problem_of(scenario)
    after = layers_of(problem)[1]
    begin = start(problem)
    bulk = after.rows.B[..., 0]
    planted = begin.rows.shifted(problem, begin, after.means, bulk)
    features = labelled(problem, described(problem, planted))
    plain = read_out(features, features.pi, 2.0, 1.5, 0.1)
    assert plain["test"] == pytest.approx(1.190, abs=6e-4)


def test_a_direction_that_is_never_learnt_is_named():
    with pytest.warns(gs.GiantstepWarning, match="z2, z3 are not learnt"):
        gs.predict(SETTINGS["K2"][0])


UNLEARNT = "^After 1 step z is not learnt: no step sees a linear part along it"
SIZES = {"noise": 0.1, "width_per_dim": 1.0, "samples_per_dim": 1.5}


@pytest.mark.parametrize("target", ["h2(z)", "h3(z)", "z**2"])
@pytest.mark.parametrize("batch", [gs.inf, 2.0])
@pytest.mark.parametrize("settings", [{}, {"dim": 300}])
def test_one_direction_that_is_not_learnt_is_said(target, batch, settings):
    """A finite batch gives the rows a direction all the same, that of its noise."""
    step = gs.MaximalStep(1.0, batch_per_dim=batch)
    network = gs.Network(target=target, steps=[step], readout=gs.Ridge(0.1), **SIZES)
    with pytest.warns(gs.GiantstepWarning, match=UNLEARNT) as said:
        found = gs.predict(network, **settings)
    assert len(said) == 1 and str(said[0].message).count("not learnt") == 1
    assert found.learned.values.tolist() == [0, 0]
    one_step = gs.OneStep(target=target, step=step, ridge=0.1, **SIZES)
    with pytest.warns(gs.GiantstepWarning, match=UNLEARNT):
        assert float(gs.predict(one_step, **settings).learned) == 0


def test_nothing_is_said_of_a_step_that_learns_or_is_not_made():
    """Every warning is an error here."""
    network = gs.Network(
        target="tanh(z)", steps=[gs.MaximalStep(0.0)], readout=gs.Ridge(0.1), **SIZES
    )
    found = gs.predict(network, steps__0__rate=[0.0, 1.0])
    assert found.learned.values.tolist() == [[0, 0], [0, 1]]
    assert gs.predict(network).learned.values.tolist() == [0, 0]
    assert gs.predict(network.replace(target="h2(z)")).learned.values.tolist() == [0, 0]
    one_step = gs.OneStep(target="tanh(z)", ridge=0.1, **SIZES)
    assert float(gs.predict(one_step).learned) == 0
    assert float(gs.predict(one_step.replace(step=gs.MaximalStep(1.0))).learned) == 1
    assert (
        float(
            gs.predict(one_step.replace(step=gs.MaximalStep(1.0)), what="steps").learned
        )
        == 1
    )


def test_a_small_step_says_it_once():
    network = gs.OneStep(
        target="h2(z)",
        activation="tanh",
        step=gs.SmallStep(1.0, batch_per_dim=2.0),
        ridge=0.1,
        **SIZES,
    )
    for settings in ({}, {"dim": 300}):
        with pytest.warns(gs.GiantstepWarning, match="no linear part") as said:
            gs.predict(network, **settings)
        assert "not learnt" not in str(said[0].message)


def test_directions_of_inputs_with_a_covariance_are_those_of_the_target():
    """Two steps of two blocks turn rows along Sigma w* and Sigma^2 w*; the target has
    one direction.
    """
    inputs = gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])
    steps = [gs.MaximalStep(1.0), gs.MaximalStep(1.0)]
    network = gs.Network(
        target="tanh(z)",
        activation="relu",
        second_layer=gs.Vocabulary([1, -0.5], [0.5, 0.5]),
        steps=steps,
        readout=gs.Ridge(0.1),
        inputs=inputs,
        **SIZES,
    )
    assert gs.predict(network).learned.values.tolist() == [0, 1, 1]
    assert gs.predict(network, what="steps").learned.values.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("target", "activation", "rates"),
    [("tanh(z)", "relu", [0.5, 2.0, 9.0]), ("z1 + z1*z2", "erf", [0.5, 3.0])],
)
def test_rates_in_one_batch_are_the_rates_alone(target, activation, rates):
    """Steep features have more nodes; a diverging step beside them costs them
    nothing.
    """
    scenario = network(
        activation, target, [0.5, 0.5], [1, -1], [1, 1], 2, 1.5, 0.1, 0.1
    ).replace(rate=1.0)
    grid = gs.predict(scenario, rate=[*rates, 1e9], noise=[0.1, 0.3], ridge=[0.01, 0.1])
    assert (
        not grid.converged.sel(rate=1e9).any() and grid.converged.sel(rate=rates).all()
    )
    for rate, noise, ridge in ((rates[0], 0.1, 0.1), (rates[-1], 0.3, 0.01)):
        alone = gs.predict(scenario.replace(rate=rate, noise=noise, ridge=ridge))
        inside = grid.sel(rate=rate, noise=noise, ridge=ridge)
        for name in (
            "test_error",
            "train_error",
            "norm",
            "theta",
            "all_data_error",
            "floor",
            "null_error",
            "learned",
        ):
            np.testing.assert_allclose(
                inside[name], alone[name], rtol=1e-12, atol=1e-14
            )


def test_a_diverging_step_keeps_what_came_before():
    scenario = network(
        "relu", "z1 + z1*z2", [0.5, 0.5], [1, -1], [2.0, 1e6], 2, 1.5, 0.1, 0.1
    )
    with pytest.warns(gs.GiantstepWarning, match="without bound"):
        result = gs.predict(scenario)
    assert not bool(result.converged)
    assert np.isfinite(result.test_error.values).tolist() == [True, True, False]


FOUR = (
    "relu",
    "z1 + z1*z2 + z2*z3 + z3*z4",
    [0.25] * 4,
    [1, -1, 0.5, -0.4],
    [1.0] * 4,
    2,
    1.5,
    0.1,
    0.1,
)


def test_a_rule_with_too_many_nodes_is_sampled(monkeypatch):
    """Two learnt directions need thousands of nodes; where they are not affordable
    random points answer to 1e-3.
    """
    monkeypatch.setattr(conditional, "MOST_NODES", 1000)
    scenario, expected = SETTINGS["A3"]
    result = gs.predict(scenario)
    assert bool(result.converged) and 1e-8 < float(result.residual) < 1e-3
    np.testing.assert_allclose(result.test_error[:2], expected[:2], atol=5.1e-9)
    np.testing.assert_allclose(result.test_error[2:], expected[2:], rtol=1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The inputs have the effective ranks")
def test_steep_blocks_have_a_rule_that_is_fine_where_they_are_steep():
    """A product rule as fine along both directions would need 1.3e7 nodes after the
    second step.
    """
    inputs = gs.PowerLaw(exponent=1.2)
    fields = {
        "target": "z1 + z1*z2",
        "width_per_dim": 1.5,
        "samples_per_dim": 2.0,
        "ridge": 0.1,
    }
    result = gs.predict(
        gs.FewSteps(**fields, rate=1.0, steps=2, inputs=inputs), cpu_limit=200
    )
    assert bool(result.converged) and float(result.residual) < 1e-6


def test_four_learnt_directions_are_sampled():
    """The trajectory finds all four, and the error of the sampled points is measured:
    three digits.
    """
    result = gs.predict(network(*FOUR))
    assert result.learned.values.tolist() == [0, 1, 2, 3, 4]
    assert bool(result.converged) and 1e-7 < float(result.residual) < 1e-3
    assert float(result.test_error[-1]) < float(result.test_error[-2])


def test_sampled_points_agree_with_the_product_rule(monkeypatch):
    """Three directions both ways; 2^13 points would be off by 1%."""
    fields = (
        "relu",
        "z1 + z1*z2 + z2*z3",
        [0.4, 0.3, 0.3],
        [1, -1, 0.5],
        [1.0] * 3,
        2,
        1.5,
        0.1,
        0.1,
    )
    product = gs.predict(network(*fields)).test_error.values
    monkeypatch.setattr(conditional, "MOST_AXES", 2)
    np.testing.assert_allclose(
        gs.predict(network(*fields)).test_error.values, product, rtol=1e-3
    )


@pytest.mark.slow
def test_networks_that_learn_four_directions():
    """8 networks of d = 300: 4 standard errors and 2% for what is of order 1/d."""
    result = gs.compare(network(*FOUR), dim=300, trials=8, seed=11, progress=False)
    limit = judged_side(result.test_error)
    measured = result.test_error.sel(source="experiment")
    error = result.test_error_stderr.sel(source="experiment")
    assert (abs(measured - limit) < 4 * error + 0.02 * limit).all()


def sentence(**fields):
    with pytest.raises(gs.InputError) as caught:
        gs.FewSteps(
            **{
                **{
                    "target": "z1 + z1*z2",
                    "width_per_dim": 1.0,
                    "samples_per_dim": 1.0,
                    "ridge": 0.1,
                },
                **fields,
            }
        )
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"ridge": 0.0}, "`ridge` must be"),
        ({"samples_per_dim": -1}, "`samples_per_dim` must be"),
        (
            {"rate": [1.0, 2.0, 3.0], "steps": 2},
            "a number or a list of 2, one for each step",
        ),
        ({"activation": "sign"}, "must have a derivative"),
        (
            {"planted": gs.PlantedShifts([[1.0, 0.0]]), "steps": 0},
            "2 rows (blocks) of 2 numbers",
        ),
        (
            {"planted": gs.PlantedShifts([[1.0, 0.0], [0.0, 1.0]]), "steps": 1},
            "0 where shifts are planted",
        ),
        ({"target": "z1*z7"}, "at most 6"),
        ({"target": "z2*exp(z1**2)"}, "`target` must be finite and square integrable"),
        ({"target": "z1 + log(z2)"}, "`target` must be finite and square integrable"),
    ],
)
def test_bad_input(fields, part):
    assert part in sentence(**fields)


def test_finite_batches_outside_the_exact_theory_say_so():
    """Momentum and Gaussian rows together have no theory; momentum alone is an
    approximation, declared.
    """
    network = ISOTROPIC["N20"][0].network(2)
    moving = network.replace({"steps.0.batch_per_dim": gs.inf, "steps.1.momentum": 0.5})
    with pytest.warns(
        gs.GiantstepWarning,
        match=r"as steps\.1\.momentum, .* isotropic, an approximation",
    ):
        gs.predict(moving)
    with pytest.raises(
        gs.InputError, match="the exact theory of a finite batch, because .* momentum"
    ):
        gs.predict(moving, theory="exact")
    only_the_experiment_answers(
        moving.replace(rows="gaussian"),
        "steps.1",
        "a theory of finite batches on Gaussian",
    )


@pytest.mark.parametrize("first", [gs.PlantedSpike(1.0), gs.NoStep()])
def test_the_step_that_no_exact_theory_covers_is_called_what_it_is(first):
    """It used to be called "none", whatever it was."""
    scenario = gs.Network(
        target="tanh(z)",
        width_per_dim=1.0,
        samples_per_dim=1.5,
        readout=gs.Ridge(0.1),
        steps=[first, gs.MaximalStep(1.0, batch_per_dim=2.0)],
    )
    with pytest.warns(
        gs.GiantstepWarning,
        match=rf"maximal steps, not steps\.0\.kind='{first.kind}', the noise",
    ):
        gs.predict(scenario)


@pytest.mark.parametrize("samples", [0.7, 3.0])
def test_ridgeless_fits_are_the_limit_of_small_ridges(samples):
    """After every one of two steps, with fewer and with more samples than neurons; it
    used to be refused.
    """
    scenario = SETTINGS["A3"][0].replace(
        samples_per_dim=samples, ridge=0.0, steps=2, rate=[2.0, 2.0]
    )
    none = gs.predict(scenario)
    small = gs.predict(scenario.replace(ridge=1e-9))
    assert bool(none.converged)
    for name in ("test_error", "train_error", "norm", "all_data_error", "floor"):
        np.testing.assert_allclose(
            none[name], small[name], rtol=1e-6, atol=1e-12, err_msg=name
        )


def test_a_gaussian_second_layer_after_two_steps():
    """Nodes of the law in place of blocks; 12 networks of d = 150 see about 3%."""
    scenario = SETTINGS["A3"][0].replace(
        second_layer="gaussian", steps=2, rate=[1.5, 1.0]
    )
    both = gs.compare(scenario, dim=150, trials=12, seed=3, test_samples=3000)
    limit = judged_side(both.test_error)
    seen = both.test_error.sel(source="experiment")
    error = both.test_error_stderr.sel(source="experiment")
    assert (error < 0.03 * limit).all()
    assert (abs(seen - limit) < 4 * error + 0.02 * limit).all()


def test_a_field_of_another_family_is_refused_with_the_way_to_it():
    said = sentence(loss="logistic")
    assert (
        said.startswith("There is no field `loss` in FewSteps: ")
        and "Network(readout=gs.Logistic(0.1))" in said
    )


@pytest.mark.parametrize("s", [1.3, 0.4])
def test_tables_of_the_activation_are_as_good_as_its_moments(s):
    activation = Function("tanh(z + 0.3)")
    A = np.linspace(-5, 4, 4001)
    scale = np.array([[s]])
    table = tabulated(activation, Function.smoothed, A[None, None], scale)
    np.testing.assert_allclose(
        table[:, 0, 0], activation.smoothed(A, s), rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("values", [[1], [1, -1], [1, -0.5, 0.3]])
def test_an_odd_activation_cannot_fit_a_constant_before_the_first_step(values):
    """The even part of the target, its mean included, is noise to features of mean
    zero: |z|/2 has the variance 1/4.

    It would catch a fit that divides the rounding of a mean by itself, which made the
    error 0.264 in place of 0.487.
    """
    sizes = {"width_per_dim": 1.5, "samples_per_dim": 2.0, "readout": gs.Ridge(0.1)}
    network = gs.Network(activation="tanh", second_layer=gs.Vocabulary(values), **sizes)
    whole = gs.predict(network.replace(target="relu(z1)", noise=0.05))
    odd = gs.predict(network.replace(target="z1/2", noise=0.05 + 0.25))
    assert float(whole.test_error[0]) == pytest.approx(
        float(odd.test_error[0]), rel=1e-9
    )
    assert np.all(whole.theta.values == 0)
