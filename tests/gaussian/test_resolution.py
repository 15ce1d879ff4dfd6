"""Targets that are narrow, fast or rough where nobody said so: the rules resolve them,
or the error is said.
"""

import math
import pickle

import numpy as np
import pytest
from random_targets import brute_force, random_expression, random_target

import giantstep as gs
from giantstep.core.maths.gaussian import Target
from giantstep.core.maths.gaussian.grids import hermite_rule, product_grid
from giantstep.core.maths.gaussian.planes import find_planes
from giantstep.core.maths.gaussian.quadrature import expectation
from giantstep.core.maths.gaussian.resolution import HERMITE_STEP

# some of these targets are not learnt, or flagged, which is said in a warning
pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)

NARROW = (
    "1/(1 + 400*(z - 0.5)**2)",
    "sin(50*z)",
    "sin(30*z)",
    "cos(40*z)",
    "tanh(50*(z - 0.3))",
    "exp(-1e4*(z - 0.4)**2)",
)
NETWORK = {
    "activation": "relu",
    "width_per_dim": 1.5,
    "samples_per_dim": 2.0,
    "readout": gs.Ridge(0.1),
    "noise": 0.05,
    "steps": [gs.MaximalStep(1.0)],
}


def xor(z):
    return np.sign(z[..., 0] * z[..., 1])


def two_kinks(z):
    return np.abs(z[..., 0]) + np.maximum(z[..., 1] - 0.3, 0)


def crossed(z):
    return np.abs(z[..., 0] + z[..., 1]) - np.abs(z[..., 0] - z[..., 1])


CALLABLES = [
    (xor, "sign(z1*z2)"),
    (two_kinks, "abs(z1) + relu(z2 - 0.3)"),
    (crossed, "abs(z1 + z2) - abs(z1 - z2)"),
]


@pytest.mark.parametrize("text", NARROW)
@pytest.mark.parametrize("as_callable", [False, True])
def test_a_narrow_target_has_its_exact_second_moment(text, as_callable):
    target = Target(text)
    exact, _ = expectation(
        lambda z: np.square(target(z[..., None])), np.linspace(-2, 2, 401)
    )
    given = gs.Function(lambda z: target(z[..., None])) if as_callable else text
    step = gs.OneStep(
        activation="relu",
        target=given,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        step=gs.PlantedSpike(1.0),
    )
    one_step = gs.predict(step)
    network = gs.predict(gs.Network(target=given, **NETWORK))
    assert float(one_step.null_error) == pytest.approx(exact, rel=1e-9)
    assert float(network.null_error) - 0.05 == pytest.approx(exact, rel=1e-9)
    assert float(network.residual) < 1e-8


@pytest.mark.parametrize(("function", "text"), CALLABLES)
def test_planes_of_a_callable_that_nobody_declared_are_found(function, text):
    own = gs.predict(gs.Network(target=gs.Target(function, directions=2), **NETWORK))
    known = gs.predict(gs.Network(target=text, **NETWORK))
    np.testing.assert_allclose(own.test_error, known.test_error, rtol=1e-9)
    assert float(own.null_error) == pytest.approx(float(known.null_error), rel=1e-9)
    declared = gs.Target(text).planes
    found = gs.Target(function, directions=2).planes
    assert len(found) == len(declared)
    assert all(any(plane.is_near(other) for other in declared) for plane in found)


def test_oblique_planes_are_found_in_many_directions():
    def rough(z):
        return np.abs(z[..., 0] + 2 * z[..., 1] - 0.5 * z[..., 2] - 0.2) * z[
            ..., 4
        ] + np.sign(z[..., 2] * z[..., 3])

    planes = find_planes(rough, 5)
    normals = {tuple(np.round(np.abs(plane.normal), 6)) for plane in planes}
    length = math.sqrt(1 + 4 + 0.25)
    oblique = (
        round(1 / length, 6),
        round(2 / length, 6),
        round(0.5 / length, 6),
        0.0,
        0.0,
    )
    assert normals == {oblique, (0.0, 0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0, 0.0)}


@pytest.mark.parametrize(
    "function",
    [lambda z: np.tanh(z[..., 0] * z[..., 1]), lambda z: z[..., 0] ** 2 + z[..., 1]],
)
def test_a_smooth_callable_has_no_planes(function):
    assert find_planes(function, 2) == ()


@pytest.mark.parametrize(
    "text",
    [*NARROW, "z1 + tanh(20*z2)", "z1 + 1/(1 + 100*(z1 - z2)**2)", "sin(30*z1)*z2"],
)
def test_rules_of_a_fixed_number_of_nodes_break_at_narrow_places(text):
    target = Target(text)
    k = target.directions
    narrow = target.narrow_places(HERMITE_STEP)
    second = []
    for nodes, piece in ((96, 24), (110, 30)):
        grid = product_grid(k, target.planes, hermite_rule(nodes), piece, narrow)
        second.append(float(grid.weights @ np.square(target(grid.points))))
    exact = brute_force(target, 0)[0]
    assert second[0] == pytest.approx(second[1], rel=1e-7)
    # four standard errors of the mesh in two directions
    assert second[0] == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("family", [gs.OnlineSGD, gs.GiantSteps])
def test_other_families_resolve_a_steep_target(family):
    steep = gs.predict(family.example().replace(target="tanh(50*(z - 0.3))"))
    assert bool(steep.converged)
    assert float(steep.residual) < 1e-4


@pytest.mark.parametrize(
    "text",
    ["tanh(z)", "relu(z)", "z1 + z1*z2", "sign(z1)", "exp(z1)*sign(z2)", "h3(z)"],
)
def test_an_ordinary_target_needs_nothing(text):
    resolution = Target(text).resolution
    assert resolution.breaks == ()
    assert (resolution.steps, resolution.panels) == (1, 1)
    assert resolution.error < 1e-6


def test_one_pass_training_is_not_answered_on_a_target_that_its_rules_do_not_see():
    scenario = gs.OnlineSGD.example().replace(
        target="sin(20*z1*z2) + z1", initial_overlap=[[0.3, 0.1]]
    )
    answer = gs.predict(scenario)
    assert not answer.converged.any()
    assert np.isnan(answer.M).all()
    assert "varies on too small a scale" in str(answer.status.values.ravel()[0])


def test_what_cannot_be_resolved_is_flagged_with_its_reason():
    jumps = gs.predict(gs.Network(target="sign(z1**2 + z2**2 + z3**2 - 2)", **NETWORK))
    assert not bool(jumps.converged)
    assert np.isnan(float(jumps.null_error))
    rough = gs.Target(
        lambda z: np.sign(np.sin(9 * z[..., 0] * z[..., 1])),
        directions=2,
        name="checks",
    )
    answer = gs.predict(gs.Network(target=rough, **NETWORK))
    assert "declare planes with gs.Target(f, kinks=...)" in str(answer.status.values)


DOUBT = {1: 3e-5, 2: 1.5e-3, 3: 2e-3}
"""Four standard errors of the mean of two meshes, as eight of them differ; set after
276 targets were seen.
"""
# a mesh in three directions takes seconds
QUICK = [number for number in range(36) if number % 3 < 2]


@pytest.mark.parametrize("number", QUICK)
def test_the_error_of_a_hard_target_is_bounded(number):
    _check_bound(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted({*range(300)} - {*QUICK}))
def test_the_error_of_300_hard_targets_is_bounded(number):
    _check_bound(number)


def _check_bound(number):
    text, k = random_expression(number)
    answer = gs.predict(gs.Network(target=random_target(number), **NETWORK))
    if not bool(answer.converged):
        assert str(answer.status.values)
        return
    target = Target(text, directions=k)
    exact = np.mean([brute_force(target, seed)[0] for seed in (1, 2)])
    assert (
        abs((float(answer.null_error) - 0.05) / exact - 1)
        < float(answer.residual) + DOUBT[k]
    )


# -- a callable of one variable means one thing everywhere -----------------------------


@pytest.mark.parametrize(
    "function", [np.abs, lambda z: np.abs(z), lambda z: np.abs(z[..., 0])]
)
def test_a_callable_of_one_variable_is_taken_by_every_scenario(function):
    network = gs.predict(gs.Network(target=function, **NETWORK)).test_error
    np.testing.assert_allclose(
        network,
        gs.predict(gs.Network(target="abs(z)", **NETWORK)).test_error,
        rtol=1e-9,
    )
    one = {
        "activation": "relu",
        "width_per_dim": 1.5,
        "samples_per_dim": 2.0,
        "ridge": 0.1,
        "step": gs.NoStep(),
    }
    step = gs.predict(gs.OneStep(target=function, **one)).test_error
    np.testing.assert_allclose(
        step, gs.predict(gs.OneStep(target="abs(z)", **one)).test_error, rtol=1e-9
    )
    assert gs.exponents(function).information == 2
    for family in (gs.OnlineSGD, gs.BayesLimit, gs.GiantSteps, gs.BatchReuse):
        assert family.example().replace(target=function).target.directions == 1


def product_and_slope(z1, z2):
    return z1 * z2 + z1


def test_a_callable_of_two_arguments_has_two_directions():
    target = gs.Target(product_and_slope)
    assert target.directions == 2
    assert pickle.loads(pickle.dumps(target)) == target
    own = gs.predict(gs.Network(target=product_and_slope, **NETWORK)).test_error
    np.testing.assert_allclose(
        own,
        gs.predict(gs.Network(target="z1*z2 + z1", **NETWORK)).test_error,
        rtol=1e-9,
    )
