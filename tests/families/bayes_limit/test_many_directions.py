"""Three and more directions by sampling: against closed forms and tables, standard
errors, and what is refused.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.bayes_limit.many import ManyDirections, SampledChannel, draw
from giantstep.problems.bayes_limit.problem import problem_of
from giantstep.problems.bayes_limit.product import Parity
from giantstep.problems.bayes_limit.reading import read_target


def sampled(target, noise, M, scrambles=6):
    draws = [draw(len(M), seed, noise > 0) for seed in range(scrambles)]
    channels = [
        SampledChannel(read_target(gs.Target(target)), noise, 0.0, points)
        for points in draws
    ]
    runs = np.array(
        [
            [*channel.information(M)[np.triu_indices(len(M))], *channel.errors(M)]
            for channel in channels
        ]
    )
    return runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(scrambles)


def test_sampled_parity_is_the_closed_form():
    closed = Parity(3, 0.0)
    M = 0.6 * np.eye(3)
    means, errors = sampled("sign(z1*z2*z3)", 0.0, M)
    information = closed.information(0.6)[0] * np.eye(3)[np.triu_indices(3)]
    expected = np.array([*information, *closed.errors(0.6)])
    assert (
        np.abs(means - expected) <= 4.5 * errors + 3e-4
    ).all()  # what symmetry forbids is zero
    assert errors.max() < 3e-3


def test_sampled_entropies_of_a_parity_are_the_closed_form():
    """Psi summed up on the way from 0 to M; half of the nodes say how large the bias
    may be.
    """
    draws = [
        SampledChannel(
            read_target(gs.Target("sign(z1*z2*z3)")), 0.0, 0.0, draw(3, s, False)
        )
        for s in range(3)
    ]
    fine, coarse = (
        np.array([c.slopes(0.6 * np.eye(3)) for c in cs])
        for cs in (draws, [c.coarser() for c in draws])
    )
    expected = Parity(3, 0.0).information(0.6)[1] + np.log(2)
    spread = fine.sum(axis=1).std(ddof=1) / np.sqrt(3)
    doubt = np.hypot(spread, np.abs((coarse - fine).mean(axis=0)).sum())
    assert abs(fine.sum(axis=1).mean() - expected) < 4.5 * doubt + 1e-4 < 0.02


@pytest.mark.parametrize(
    ("target", "noise"), [("z1 + h2(z2)", 0.25), ("sign(z1*z2)", 0.0)]
)
def test_the_entropy_of_the_output_is_that_of_two_directions(target, noise):
    reading = read_target(gs.Target(target))
    if noise == 0:
        known = -np.log(2)
    else:
        known = problem_of(gs.Target(target), noise, 0.0).channel.information(
            np.zeros((2, 2))
        )[1]
    assert ManyDirections(reading, noise, 0.0).entropy_at_zero == pytest.approx(
        known, abs=1e-9
    )


def test_sampled_noise_is_the_table_of_two_directions():
    M = np.diag([0.57597543, 0.39976909])
    problem = problem_of(gs.Target("z1 + z1*z2"), 0.25, 0.0)
    means, errors = sampled("z1 + z1*z2", 0.25, M)
    expected = [
        *problem.channel.information(M)[0][np.triu_indices(2)],
        problem.errors(M)[0],
    ]
    assert (np.abs(means[:4] - expected) <= 4.5 * errors[:4] + 1e-3).all()
    assert errors[:4].max() < 1.2e-2


@pytest.mark.slow
def test_three_signs_that_are_all_told_are_three_half_spaces():
    r = gs.predict(
        gs.BayesLimit(
            target="sign(z1) + 2*sign(z2) + 4*sign(z1*z3)", samples_per_dim=3.0
        )
    )
    one = gs.predict(gs.BayesLimit(target="sign(z)", samples_per_dim=3.0)).sel(
        branch="bayes"
    )
    assert bool(r.converged) and str(r.phase.values) == "optimal"
    assert (np.abs(r.q - float(one.q)) <= 4.5 * r.q_stderr + 3e-4).all() and (
        r.q_stderr < 1e-3
    ).all()
    assert (np.abs(r.phi - 3 * float(one.phi)) <= 4.5 * r.phi_stderr).all() and (
        r.phi_stderr < 0.02
    ).all()
    wrong = 1 - (1 - float(one.error)) ** 3
    assert (np.abs(r.error - wrong) <= 4.5 * r.error_stderr + 5e-4).all()


def test_nothing_is_decided_where_thresholds_are_not_known():
    with pytest.warns(gs.GiantstepWarning, match="not known which directions"):
        r = gs.predict(
            gs.BayesLimit(target="sign(z1)+sign(z2)+sign(z3)", samples_per_dim=1.0)
        )
    assert np.isnan(r.q).all()


@pytest.mark.slow
def test_three_smooth_directions_have_thresholds():
    """z2 z3 beside a known z1, in whatever order; three equal ones are learnt
    together.
    """
    first, other = (
        gs.predict(
            gs.BayesLimit(target=target, noise=0.25, samples_per_dim=1.0),
            what="thresholds",
        )
        for target in ("z1 + z2*z3", "z1*z2 + z3")
    )
    np.testing.assert_allclose(first.alpha_direction, other.alpha_direction, rtol=1e-9)
    assert float(first.alpha_direction[0]) == 0.0 < float(first.alpha_direction[1])
    # with z1 averaged out instead of known it is z2 z3 with noise 1.25, which is harder
    alone = gs.predict(
        gs.BayesLimit(target="z1*z2", noise=1.25, samples_per_dim=1.0),
        what="thresholds",
    )
    pure = gs.predict(
        gs.BayesLimit(target="z1*z2", noise=0.25, samples_per_dim=1.0),
        what="thresholds",
    )
    assert (
        float(pure.alpha_weak)
        < float(first.alpha_direction[1])
        < float(alone.alpha_weak)
    )
