"""Which directions a reused batch and a single pass learn: batch_reuse_dmft section 5,
symmetries, the public verb.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.maths.gaussian import Target
from giantstep.core.maths.gaussian.subspaces import direction_text
from giantstep.problems.learnability.reuse import learned_rounds, symmetries

TWO_ROUNDS = "sign(z1*z2)*(1 + sign(1 - abs(z1)))/2 + sign(z1)*(1 - sign(1 - abs(z1)))"
TABLE = [
    ("tanh(z)", (1,), (1,), 1),
    ("h2(z)", (), (), 0),
    ("h3(z)", (1,), (1,), 1),
    ("h4(z)", (), (), 0),
    ("tanh(z1 + h3(z2))", (2,), (2,), 2),
    ("z1 + z1*z2", (2,), (1,), 2),
    ("tanh(z1) + tanh(z2)", (1,), (1,), 1),
    ("z1*z2", (), (), 0),
    ("z1*z2*z3", (), (), 0),
    ("h2(z1)*z2", (1,), (1,), 1),
    ("z1 + z1*z2*z3", (1,), (1,), 1),
    ("z1 + z1*z2 + z1*z2*z3", (3,), (1,), 3),
    ("z1*z2*z3 + h3(z4)", (1,), (1,), 1),
    ("h3(z2)*(1 + z1)", (2,), (1,), 2),
    (TWO_ROUNDS, (1, 1), (1,), 2),
]


@pytest.mark.parametrize(
    ("target", "generic", "odd", "allowed"), TABLE, ids=[row[0][:25] for row in TABLE]
)
def test_the_table_of_known_targets(target, generic, odd, allowed):
    found = learned_rounds(target, "relu")
    assert found.dimensions == generic and found.symmetry.rank == allowed
    assert learned_rounds(target, "tanh").dimensions == odd


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("target", [row[0] for row in TABLE[4:13]])
def test_what_is_learned_lies_inside_what_symmetry_allows(target, activation):
    for data in ("reused", "single-pass"):
        found = learned_rounds(target, activation, data=data)
        allowed = found.symmetry.allowed
        np.testing.assert_allclose(
            found.learned @ allowed.T @ allowed, found.learned, atol=1e-6
        )


def test_a_single_pass_climbs_leap_by_leap():
    assert learned_rounds("h3(z)", "relu", data="single-pass").dimensions == ()
    assert learned_rounds("z1 + z1*z2", "relu", data="single-pass").dimensions == (1, 1)
    assert learned_rounds("z1 + z1*z2", "tanh", data="single-pass").dimensions == (1,)
    third = "z1 + z1*z2 + z1*z2*z3"
    assert learned_rounds(third, "exp(z/2)", data="single-pass").dimensions == (1, 1, 1)
    # z1 z2 z3 needs c_3, which is zero
    assert learned_rounds(third, "relu", data="single-pass").dimensions == (
        1,
        1,
    )
    limit = gs.predict(
        gs.learnable(third, "relu", "single-pass").scenario(), nodes=2**14
    )
    assert abs(float(limit.M[-1, 0, 2])) < 4e-3 < 0.05 < float(limit.M[-1, 0, 1])


def test_the_case_of_the_authors_needs_an_even_function_of_the_first_direction():
    """E[y He2(h_V) h_perp] = 0.387, but the derivative of a ReLU gives 1 and odd
    functions, that of tanh even ones.
    """
    relu, tanh = (
        learned_rounds("tanh(z1 + h3(z2))", name, data="single-pass")
        for name in ("relu", "tanh")
    )
    assert (relu.dimensions, tanh.dimensions) == ((1,), (1, 1))
    np.testing.assert_allclose(
        np.abs(relu.rounds[0]), [[0.767832, 0.640651]], atol=1e-6
    )


def test_the_limit_says_the_same():
    """Hidden directions have overlap zero in the limit after four steps; the learned
    ones have not.
    """
    for target, activation in (
        ("z1 + z1*z2", "relu"),
        ("z1 + z1*z2", "tanh"),
        ("tanh(z1) + tanh(z2)", "relu"),
    ):
        for algorithm in ("reused", "single-pass"):
            verdict = gs.learnable(target, activation, algorithm)
            r = gs.predict(verdict.scenario(), nodes=2**14)
            found = learned_rounds(target, activation, data=algorithm)
            error = float(r.M_stderr.max())
            assert (
                np.all(np.abs(r.M.values[-1] @ found.learned.T) > 0.02) and error < 4e-3
            )
            assert np.all(np.abs(r.M.values[-1] @ found.hidden.T) < 5 * error)


def test_even_linear_and_silent_networks():
    assert learned_rounds("z1 + h3(z2)", "z**2").dimensions == ()
    assert learned_rounds("z1 + h3(z2)", "linear").dimensions == (1,)
    assert learned_rounds("z1 + h3(z2)", "relu").dimensions == (2,)
    assert learned_rounds("z1", "relu", [0.0]).dimensions == ()


def test_symmetries_are_a_group_with_its_fixed_space():
    found = symmetries(Target("z1*z2*z3 + h3(z4)"))
    # permutations of three with an even number of sign flips
    assert len(found.elements) == 24
    np.testing.assert_array_equal(found.allowed, [[0, 0, 0, 1]])
    products = {tuple((a @ b).ravel()) for a in found.elements for b in found.elements}
    assert products == {tuple(a.ravel()) for a in found.elements}
    assert found.certificate() == ["(z1, z2) -> (-z1, -z2)", "(z1, z3) -> (-z1, -z3)"]
    assert (
        symmetries(Target("z1 + z1*z2"), odd=True).rank == 1
        and symmetries(Target("z1 + z1*z2")).rank == 2
    )


def test_reasons_and_directions_read():
    rounds = learned_rounds("z1*z2*z3 + h3(z4)", "relu")
    assert direction_text(rounds.learned[0]) == "z4"
    assert [direction_text(row) for row in rounds.hidden] == ["z1", "z2", "z3"]
    assert rounds.symmetry.rank == 1 and learned_rounds("z1*z2", "relu").rounds == ()
    assert "even" in learned_rounds("z", "z**2").reason
    assert (
        direction_text(learned_rounds("tanh(z1) + tanh(z2)", "relu").learned[0])
        == "0.707 z1 + 0.707 z2"
    )
    with pytest.raises(gs.InputError, match="data"):
        learned_rounds("z", "relu", data="twice")


def test_the_public_verb():
    reused, single = (
        gs.learnable("h3(z)", "relu", name) for name in ("reused", "single-pass")
    )
    assert reused.learned and not single.learned
    assert (
        "a single pass learns nothing" in reused.reason
        and "a reused batch learns z" in single.reason
    )
    assert reused.data["rounds"] == [1] and reused.scenario().data == "reused"


@pytest.mark.parametrize(
    ("target", "activation", "data", "rounds"),
    [
        ("sign(z)", "h3(z)/sqrt(6)", "reused", (1,)),
        ("sign(z)", "h3(z) + h5(z)", "single-pass", (1,)),
        ("z1 + z1*z2", "z + h4(z)/5", "single-pass", (1, 1)),
        ("z1 + z1*z2", "z", "reused", (1,)),
    ],
)
def test_coefficients_at_length_one_do_not_decide(target, activation, data, rounds):
    """An activation without a linear or quadratic part at length one has both once a
    step has changed the lengths.
    """
    assert learned_rounds(target, activation, data=data).dimensions == rounds


def test_a_pure_third_order_activation_learns_in_the_limit():
    """What the verdict above says, by the recursion: the overlap after two steps is far
    from zero.
    """
    s = gs.BatchReuse(
        target="sign(z)",
        activation="h3(z)/sqrt(6)",
        samples_per_dim=4.0,
        rate=0.1,
        steps=2,
        loss="correlation",
        data="fresh",
    )
    r = gs.predict(s, nodes=2**12).isel(time=2, neuron=0, direction=0)
    assert float(r.M) > 20 * float(r.M_stderr) > 0
