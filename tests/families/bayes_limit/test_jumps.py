"""First-order transitions of two directions: a target of z1 told beside the sign of z2 jumps where it does alone."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.families.bayes_limit.jumps import find_jump
from giantstep.families.bayes_limit.problem import problem_of


def alone(first):
    return gs.predict(gs.BayesLimit(target=first.replace("z1", "z"), samples_per_dim=1.0), what="thresholds")


def beside_a_sign(first):
    return find_jump(problem_of(gs.Target(f"{first} + 3*sign(z2)"), 0.0, 0.0))


@pytest.mark.slow
def test_a_direction_that_is_never_learnt_alone_jumps_for_the_best_possible():
    first = "sign(z1*(abs(z1) - 1.17741))"  # E[z|y] = E[z^2 - 1|y] = 0
    jump, expected = beside_a_sign(first), alone(first)
    assert jump.alpha_dyn == pytest.approx(float(expected.alpha_dyn), rel=1e-6)
    assert jump.alpha_it == pytest.approx(float(expected.alpha_it), rel=1e-7)
    assert jump.alpha_amp == float(expected.alpha_amp) == np.inf
    half_space = gs.predict(gs.BayesLimit(target="sign(z)", samples_per_dim=jump.alpha_it)).q.sel(branch="bayes")
    assert jump.q_it == pytest.approx(0.5 * (float(expected.q_it) + float(half_space)), abs=1e-5)


@pytest.mark.slow
def test_message_passing_jumps_at_a_fold():
    first = "sign(z1*(abs(z1) - 1.05))"
    jump, expected = beside_a_sign(first), alone(first)
    for name in ("alpha_dyn", "alpha_it", "alpha_amp"):
        assert getattr(jump, name) == pytest.approx(float(expected[name]), rel=1e-6), name


@pytest.mark.slow
def test_branches_differ_between_the_ends_alone():
    s = gs.BayesLimit(target="sign(z1*z2*(z1+z2))", samples_per_dim=6.0)
    t = gs.predict(s, what="thresholds", search="jumps", cpu_limit=60)
    assert str(t.transition.values) == "first-order" and t.alpha_dyn < t.alpha_it < t.alpha_amp
    ends = [
        float(t.alpha_dyn) * 0.998,
        float(t.alpha_it) * 0.999,
        float(t.alpha_it) * 1.001,
        float(t.alpha_amp) * 1.02,
    ]
    r = gs.predict(s, samples_per_dim=ends)
    low, high, best = (r.q.sel(branch=name).values for name in ("uninformed", "informed", "bayes"))
    assert ((high - low > 0.1) == [False, True, True, False]).all()
    np.testing.assert_allclose(best, [low[0], low[1], high[2], high[3]], atol=1e-9)


@pytest.mark.slow
def test_the_committee_has_no_jump():
    s = gs.BayesLimit(target="sign(z1)+sign(z2)", samples_per_dim=1.0)
    assert str(gs.predict(s, what="thresholds").transition.values) == "not looked for"
    t = gs.predict(s, what="thresholds", search="jumps")
    assert str(t.transition.values) == "continuous" and float(t.alpha_amp) == 0.0


def test_three_directions_without_symmetry_are_refused():
    with pytest.raises(gs.InputError, match="three or more directions"):
        gs.predict(
            gs.BayesLimit(target="z1 + z2*z3", noise=0.25, samples_per_dim=1.0), what="thresholds", search="jumps"
        )
