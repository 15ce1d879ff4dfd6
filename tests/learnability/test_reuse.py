"""Which directions a reused batch and a single pass learn: batch_reuse_dmft section 5, symmetries, the public verb."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.gaussian import Target
from giantstep.learnability.reuse import describe_span, learned_rounds, symmetries

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


@pytest.mark.parametrize(("target", "generic", "odd", "allowed"), TABLE, ids=[row[0][:25] for row in TABLE])
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
        np.testing.assert_allclose(found.learned @ allowed.T @ allowed, found.learned, atol=0.02)


def test_a_single_pass_climbs_leap_by_leap():
    assert learned_rounds("h3(z)", "relu", data="single-pass").dimensions == ()
    assert learned_rounds("z1 + z1*z2", "relu", data="single-pass").dimensions == (1, 1)
    assert learned_rounds("z1 + z1*z2", "tanh", data="single-pass").dimensions == (1,)
    assert learned_rounds("z1 + z1*z2 + z1*z2*z3", "relu", data="single-pass").dimensions == (1, 1, 1)


def test_the_case_of_the_authors_needs_an_even_function_of_the_first_direction():
    """E[y He2(h_V) h_perp] = 0.387, but the derivative of a ReLU gives 1 and odd functions, that of tanh even ones."""
    relu, tanh = (learned_rounds("tanh(z1 + h3(z2))", name, data="single-pass") for name in ("relu", "tanh"))
    assert (relu.dimensions, tanh.dimensions) == ((1,), (1, 1))
    np.testing.assert_allclose(np.abs(relu.rounds[0]), [[0.767832, 0.640651]], atol=2e-3)


def test_the_limit_says_the_same():
    """Hidden directions have overlap zero in the limit after four steps; the learned ones have not."""
    for target, activation in (("z1 + z1*z2", "relu"), ("z1 + z1*z2", "tanh"), ("tanh(z1) + tanh(z2)", "relu")):
        for algorithm in ("reused", "single-pass"):
            verdict = gs.learnable(target, activation, algorithm)
            r = gs.predict(verdict.scenario(), nodes=2**14)
            found = learned_rounds(target, activation, data=algorithm)
            error = float(r.M_stderr.max())
            assert np.all(np.abs(r.M.values[-1] @ found.learned.T) > 0.02) and error < 4e-3
            assert np.all(np.abs(r.M.values[-1] @ found.hidden.T) < 5 * error)


def test_even_linear_and_silent_networks():
    assert learned_rounds("z1 + h3(z2)", "z**2").dimensions == ()
    assert learned_rounds("z1 + h3(z2)", "linear").dimensions == (1,)
    assert learned_rounds("z1 + h3(z2)", "relu").dimensions == (2,)
    assert learned_rounds("z1", "relu", [0.0]).dimensions == ()


def test_symmetries_are_a_group_with_its_fixed_space():
    found = symmetries(Target("z1*z2*z3 + h3(z4)"))
    assert len(found.elements) == 24  # permutations of three with an even number of sign flips
    np.testing.assert_array_equal(found.allowed, [[0, 0, 0, 1]])
    products = {tuple((a @ b).ravel()) for a in found.elements for b in found.elements}
    assert products == {tuple(a.ravel()) for a in found.elements}
    assert found.certificate() == ["(z1, z2) -> (-z1, -z2)", "(z1, z3) -> (-z1, -z3)"]
    assert symmetries(Target("z1 + z1*z2"), odd=True).rank == 1 and symmetries(Target("z1 + z1*z2")).rank == 2


def test_reasons_and_directions_read():
    rounds = learned_rounds("z1*z2*z3 + h3(z4)", "relu")
    assert [describe_span(new) for new in rounds.rounds] == ["z4"] and describe_span(rounds.hidden) == "z1, z2, z3"
    assert rounds.symmetry.rank == 1 and learned_rounds("z1*z2", "relu").rounds == ()
    assert "even" in learned_rounds("z", "z**2").reason
    assert describe_span(learned_rounds("tanh(z1) + tanh(z2)", "relu").learned) == "0.71 z1 + 0.71 z2"
    with pytest.raises(gs.InputError, match="data"):
        learned_rounds("z", "relu", data="twice")


def test_the_public_verb():
    reused, single = (gs.learnable("h3(z)", "relu", name) for name in ("reused", "single-pass"))
    assert reused.learned and not single.learned
    assert "a single pass learns nothing" in reused.reason and "a reused batch learns z1" in single.reason
    assert reused.data["rounds"] == [1] and reused.scenario().data == "reused"
