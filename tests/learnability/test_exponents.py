"""Exponents and staircases against the tables of gradient_dynamics section 1, in any
basis, and what is refused.
"""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import giantstep as gs
from giantstep.core.maths.gaussian.grids import broken_rule, interval_rule, product_grid
from giantstep.problems.learnability.exponents import samples_needed
from giantstep.problems.learnability.staircase import staircase

from .level_sets import generative_exponent, level_coefficients

PAIR = "(h4(z1)/24 + h2(z1)/2 + z1 + h4(z2)/24 + h2(z2)/2 + z2)/2"

SINGLE = {
    "tanh": (1, 1),
    "erf": (1, 1),
    "sin": (1, 1),
    "relu": (1, 1),
    "sign": (1, 1),
    "abs": (2, 2),
    "cos": (2, 2),
    "h2": (2, 2),
    "sign(abs(z) - 1)": (2, 2),
    "h3": (3, 1),
    "h4": (4, 2),
    "h5": (5, 1),
    "h2(z) + h3(z)": (2, 1),
    "tanh(h3(z))": (1, 1),
    "z**2*exp(-z**2)": (4, 4),
}
STAGES = {
    "z1*z2": ([(2, 2)], [(2, 2)], "d log d", "d log d"),
    "z1 + z1*z2": ([(1, 1), (1, 1)], [(1, 2)], "d", "d"),
    "z1 + h3(z2)": ([(1, 1), (3, 1)], [(1, 2)], "d^2", "d"),
    "z1 + z1*h3(z2)": ([(1, 1), (3, 1)], [(1, 2)], "d^2", "d"),
    "z1*z2*z3": ([(3, 3)], [(2, 3)], "d^2", "d log d"),
    "sign(z1*z2)": ([(2, 2)], [(2, 2)], "d log d", "d log d"),
    "sign(z1*z2*z3)": ([(3, 3)], [(3, 3)], "d^2", "d^2"),
    "z1 + z1*z2 + z1*z2*z3": ([(1, 1)] * 3, [(1, 3)], "d", "d"),
    "h2(z1) + 5*sign(z1*z2*z3)": (
        [(2, 1), (2, 2)],
        [(2, 1), (2, 2)],
        "d log d",
        "d log d",
    ),
    "h4(z1) + 5*sign(z1*z2*z3)": ([(3, 3)], [(2, 1), (2, 2)], "d^2", "d log d"),
    "h3(z1) + z1*z2*z3": ([(3, 3)], [(1, 1), (2, 2)], "d^2", "d log d"),
    "relu(z1) + relu(z2)": ([(1, 1), (2, 1)], [(1, 1), (2, 1)], "d log d", "d log d"),
    PAIR: ([(1, 1), (2, 1)], [(1, 1), (2, 1)], "d log d", "d log d"),
    "(4*z1 + z1**2 + z2)/2": ([(1, 1), (1, 1)], [(1, 2)], "d", "d"),
    "(z1 + z1**2 + z2 - z2**2)/2": ([(1, 1), (1, 1)], [(1, 2)], "d", "d"),
}


@pytest.mark.parametrize("target", SINGLE)
def test_information_and_generative_exponent_of_the_table(target):
    found = gs.exponents(target)
    assert (found.information, found.generative) == SINGLE[target]
    assert found.generative <= found.information
    exact, _ = generative_exponent(gs.Function(target), 6)
    assert exact == found.generative


@pytest.mark.parametrize("target", STAGES)
def test_stages_of_the_table(target):
    found = gs.exponents(target)
    leap, generative, one_pass, repetition = STAGES[target]
    assert found.leap_stages == leap
    assert found.generative_stages == generative
    assert (found.one_pass, found.repetition) == (one_pass, repetition)


def test_hermite_coefficients_of_known_functions():
    tanh = gs.exponents("tanh", "relu")
    np.testing.assert_allclose(
        tanh.hermite[1:6], [0.605706, 0, -0.363595, 0, 0.685174], atol=5e-7
    )
    root = 1 / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(
        tanh.activation_hermite[:7],
        [root, 0.5, root, 0, -root, 0, 3 * root],
        atol=1e-12,
    )
    np.testing.assert_allclose(tanh.products[1], 0.5 * 0.605706, atol=5e-7)


def test_norms_of_the_tensors_of_several_directions():
    found = gs.exponents("z1 + z1*z2")
    np.testing.assert_allclose(found.hermite[:4], [0, 1, math.sqrt(2), 0], atol=1e-12)


@given(angle=st.floats(0.1, 3.0), seed=st.integers(0, 5))
def test_directions_are_found_in_any_basis(angle, seed):
    c = math.cos(angle)
    s = math.sin(angle)
    u = f"({c!r}*z1 + {s!r}*z2)"
    v = f"({-s!r}*z1 + {c!r}*z2)"
    target = [f"{u} + {u}*{v}", f"relu({u}) + h2({v})", f"h3({u}) + {v}"][seed % 3]
    aligned = ["z1 + z1*z2", "relu(z1) + h2(z2)", "h3(z1) + z2"][seed % 3]
    found = gs.exponents(target)
    plain = gs.exponents(aligned)
    assert found.leap_stages == plain.leap_stages
    assert found.generative_stages == plain.generative_stages
    np.testing.assert_allclose(
        found.directions @ found.directions.T, np.eye(2), atol=1e-9
    )
    first = [c, s] if seed % 3 < 2 else [-s, c]
    assert abs(found.directions[0] @ first) == pytest.approx(1, abs=1e-6)


def test_ex2_is_learned_along_its_diagonals():
    found = gs.exponents("(z1 + z1**2 + z2 - z2**2)/2")
    np.testing.assert_allclose(
        found.directions, np.array([[1, 1], [1, -1]]) / math.sqrt(2), atol=1e-9
    )


def test_a_direction_the_target_does_not_depend_on_is_left_out():
    found = gs.exponents("h3((z1 + z2)/sqrt(2)) + 0*z3", "relu")
    assert found.directions.shape == (1, 3)
    assert (found.information, found.generative) == (3, 1)
    assert "never finds" in found.caveats()[0]
    both = gs.exponents(
        "h3(z) + h4(z)", "relu"
    ).caveats()  # c_3 = 0, but c_4 C_4 is there: not never
    assert both == [
        "relu has c_3 = 0 and one-pass SGD with it finds z through order 4 at best"
    ]


def test_symmetry_flags():
    found = gs.exponents("z1 + h2(z2)*z1")
    assert found.symmetry == ("odd", "even")
    assert found.hard == (False, True)
    assert gs.exponents("z1*z2").hard == (True, True)


def test_cap_one_gives_the_steps_of_giant_batches():
    from giantstep.problems.learnability.prepared import PreparedTarget

    view = PreparedTarget.of(gs.Target("z1 + z1*z2 + h2(z3)"))
    found = staircase(*view.samples(repeated=False), cap=1)
    assert (
        found.pairs == [(1, 1), (1, 1)]
        and not found.complete
        and found.exponent == math.inf
    )


@pytest.mark.parametrize(
    ("target", "leap"),
    [
        ("z1*z2*z3*z4*z5*z6", [(6, 6)]),
        ("z1 + z1*z2 + z2*z3 + z3*z4 + z4*z5", [(1, 1)] * 5),
        ("sign(z1*z2*z3*z4)", [(4, 4)]),
    ],
)
def test_many_directions(target, leap):
    assert gs.exponents(target).leap_stages == leap


def test_kinks_across_the_axes_are_integrated_piecewise():
    found = gs.exponents("relu(z1 + z2) + relu(z1)")
    # |sqrt(2) u u^T + e1 e1^T| c_2
    second = math.sqrt(3 + math.sqrt(2)) / math.sqrt(2 * math.pi)
    assert found.hermite[2] == pytest.approx(second, rel=1e-10)
    assert found.leap_stages == [(1, 1), (1, 1)]


def test_breaks_that_cross_and_functions_that_vary_fast():
    assert gs.exponents("relu(z1 + z2)*relu(z1 - z2)*z3").leap_stages == [
        (1, 1),
        (1, 1),
        (2, 1),
    ]
    # the target of a published run: leap 3, generative order 2
    fast = gs.exponents("tanh(z1*z2*z3)")
    assert (fast.leap_stages, fast.generative_stages) == ([(3, 3)], [(2, 3)])


def test_sign_needs_no_false_orders():
    """A Gauss-Hermite rule across the jump would see order 1 in an even function of two
    signs.
    """
    assert gs.exponents("sign(z1*z2) + h4(z1)").information == 2


def test_orders_beyond_those_looked_at():
    found = gs.exponents("h5(z1)*h5(z2)")
    assert (found.information, found.generative, found.leap, found.generative_leap) == (
        np.inf,
        2,
        np.inf,
        2,
    )
    assert found.to_dict()[
        "information"
    ] == "inf" and "nothing more up to order 8" in str(found)


def test_level_sets_are_exact_where_orders_vanish():
    sizes = np.sqrt(
        np.mean(level_coefficients(lambda z: z**2 * np.exp(-(z**2)), 4) ** 2, axis=1)
    )
    assert np.all(sizes[:3] < 1e-14) and sizes[3] > 1e-3
    # {relu <= t} with t = 0 is z <= 0
    flat = level_coefficients(lambda z: np.maximum(z, 0.0), 1)
    assert np.min(flat) == pytest.approx(-1 / math.sqrt(2 * math.pi), rel=1e-9)


def test_interval_rules_are_exact():
    nodes, weights = interval_rule(0.0, math.inf, 20)
    assert weights @ nodes**16 == pytest.approx(
        math.prod(range(1, 16, 2)) / 2, rel=1e-12
    )
    nodes, weights = broken_rule([-0.5, 0.5], 12)
    assert weights @ np.sign(np.abs(nodes) - 0.5) == pytest.approx(
        1 - 2 * math.erf(0.5 / math.sqrt(2)), abs=1e-14
    )
    with pytest.raises(gs.InputError, match="nodes"):
        product_grid(6, (), (np.zeros(40), np.full(40, 1 / 40)), 8)


def test_report_and_data():
    found = gs.exponents("z1 + z1*z2", "tanh")
    text = str(found)
    for line in (
        "information exponent   1",
        "order 1: z1; then order 1: z2",
        "never finds z2",
        "1e-07",
    ):
        assert line in text
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["leap_stages"][1]["degrees"] == [2]
    assert data["products"][1] == pytest.approx(0.605706, abs=1e-6)


def test_samples_by_order():
    assert [samples_needed(k) for k in (1, 2, 3, 4, math.inf)] == [
        "d",
        "d log d",
        "d^2",
        "d^3",
        "not found",
    ]


def jumpy(z):
    return np.where(z[..., 0] > 0.4, 1.0, -1.0) * z[..., 1] + z[..., 0]


def test_jumps_on_planes_are_found_and_others_are_refused():
    assert gs.exponents(gs.Target(jumpy, directions=2)).information == 1
    with pytest.raises(gs.InputError, match="not declared"):
        gs.exponents(gs.Target(lambda z: jumpy(z + z[..., ::-1] ** 2), directions=2))
    declared = gs.Target(jumpy, directions=2, kinks=[([1.0, 0.0], -0.4)])
    assert gs.exponents(declared).information == 1
    # found in one variable
    assert gs.exponents(gs.Target(lambda z: np.sign(z[..., 0] - 0.3))).information == 1
    with pytest.raises(gs.InputError, match="not declared"):
        gs.exponents("sign(z1**2 + z2**2 - 1)")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("z1 + z7", "at most 6"),
        ("z**2 - z**2", "constant"),
        ("1/z1", "square integrable"),
        ("z1 +", "formula"),
        (3.0, "target"),
    ],
)
def test_bad_targets_are_one_sentence(target, words):
    with pytest.raises(gs.InputError, match=words) as caught:
        gs.exponents(target)
    assert "\n" not in str(caught.value)
