"""One direction: the reference values of bayes_multi_index section 7 and the tests of
its section 8.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.bayes_limit.problem import problem_of

MEDIAN = 0.67448975
CUT = f"sign(abs(z)-{MEDIAN})"


def channel_of(target, noise=0.0, flip=0.0):
    return problem_of(gs.Target(target), noise, flip).channel


def curve_of(target, noise=0.0, flip=0.0):
    return problem_of(gs.Target(target), noise, flip).curve


LABELS = [  # target, flip, alpha, q, mse, error
    ("sign(z)", 0.0, 2, 0.72829817, 0.48062319, 0.17453419),
    ("sign(z)", 0.0, 8, 0.97142703, 0.15255005, 0.05406522),
    ("sign(z)", 0.1, 4, 0.74035381, 0.66036222, 0.23615194),
    (CUT, 0.0, 3, 0.92067283, 0.40531376, 0.14386388),
]
CONTINUOUS = [  # target, noise, alpha, q, mse
    ("z", 0.25, 2, 0.82460947, 0.42539053),
    ("abs(z)", 0.0, 0.8, 0.21622749, 0.34843905),
    ("abs(z)", 0.0, 1.05, 0.56844931, 0.25743779),
    ("abs(z)", 0.1, 1.5, 0.65983440, 0.31893971),
    ("relu(z)", 0.0, 1.5, 0.91027717, 0.04081033),
    ("relu(z)", 0.1, 1.5, 0.62503341, 0.25234119),
    ("tanh(z)", 0.1, 1, 0.57115687, 0.28038395),
]
LONG = [
    ("abs(z)", 0.01, 1.2, 0.81793626, 0.14499915),
    ("h2(z)", 0.5, 1.5, 0.57384122, 1.84141252),
    ("h3(z)", 0.0, 1.1, 0.67218054, 4.17774539),
    ("h3(z)", 0.5, 1.5, 0.68801715, 4.54588980),
]


@pytest.mark.parametrize(("target", "flip", "alpha", "q", "mse", "error"), LABELS)
def test_labels_have_the_printed_values(target, flip, alpha, q, mse, error):
    r = gs.predict(gs.BayesLimit(target=target, flip=flip, samples_per_dim=alpha)).sel(
        branch="bayes"
    )
    np.testing.assert_allclose(
        [r.q, r.mse, r.error], [q, mse, error], rtol=0, atol=1e-8
    )


@pytest.mark.parametrize(
    ("target", "noise", "alpha", "q", "mse"),
    [*CONTINUOUS, *(pytest.param(*row, marks=pytest.mark.slow) for row in LONG)],
)
def test_continuous_targets_have_the_printed_values(target, noise, alpha, q, mse):
    r = gs.predict(
        gs.BayesLimit(target=target, noise=noise, samples_per_dim=alpha)
    ).sel(branch="uninformed")
    size = max(1.0, float(gs.Function(target).second_moment(0.0, 1.0)))
    np.testing.assert_allclose(r.q, q, rtol=0, atol=1.0e-8)
    np.testing.assert_allclose(r.mse, mse, rtol=0, atol=1.0e-8 * size)


def test_the_hard_phase_of_phase_retrieval():
    r = gs.predict(gs.BayesLimit(target="abs(z)", samples_per_dim=1.05))
    assert str(r.phase.values) == "hard"
    assert r.q.sel(branch="bayes") == 1 and r.mse.sel(branch="bayes") == 0
    below = gs.predict(gs.BayesLimit(target="abs(z)", samples_per_dim=0.4))
    assert str(below.phase.values) == "impossible" and (below.q == 0).all()
    assert float(below.mse[0]) == pytest.approx(1 - 2 / math.pi, abs=1e-10)


def thresholds(target, **fields):
    return gs.predict(
        gs.BayesLimit(target=target, samples_per_dim=1.0, **fields), what="thresholds"
    )


def test_thresholds_of_phase_retrieval_without_noise():
    t = thresholds("abs(z)")
    values = [t.alpha_weak, t.alpha_it, t.alpha_amp, t.alpha_full, t.q_amp]
    expected = np.array([0.5, 1, 1.12847141, 1.12847141, 0.8466457])
    assert (
        np.abs(np.array(values) - expected) <= [1e-12, 1e-12, 5e-9, 5e-9, 5e-8]
    ).all()
    assert str(t.transition.values) == "first-order"


def test_thresholds_of_relu_without_noise():
    t = thresholds("relu(z)")
    assert [float(x) for x in (t.alpha_weak, t.alpha_it, t.alpha_amp)] == pytest.approx(
        [0, 2, 2], abs=1e-9
    )


def test_thresholds_of_exponent_four():
    t = thresholds("z**2*exp(-z**2)")
    assert (
        math.isinf(t.alpha_weak)
        and math.isinf(t.alpha_amp)
        and float(t.alpha_it) == pytest.approx(1, abs=1e-9)
    )
    curve = curve_of("z**2*exp(-z**2)")
    np.testing.assert_allclose(
        [curve.alpha(0.5), curve.alpha(0.9)],
        [5.93312668, 1.55712707],
        rtol=0,
        atol=1e-8,
    )


@pytest.mark.parametrize(
    ("target", "noise", "alpha"),
    [
        ("abs(z)", 0.1, 0.60428768),
        ("abs(z)", 0.01, 0.51004779),
        ("abs(z)", 0.001, 0.50100049),
        ("h2(z)", 0.5, 0.57798706),
    ],
)
def test_weak_recovery_with_noise(target, noise, alpha):
    assert curve_of(target, noise).weak == pytest.approx(alpha, abs=5e-9)


def test_weak_recovery_of_labels_in_closed_form():
    k = MEDIAN
    density = math.exp(-(MEDIAN**2) / 2) / math.sqrt(2 * math.pi)
    expected = 1 / (4 * k**2 * density**2 / 0.25)
    assert (
        curve_of(CUT).weak
        == pytest.approx(expected, rel=1e-8)
        == pytest.approx(1.36045930, abs=5e-9)
    )


@pytest.mark.slow
def test_the_first_order_line_of_noisy_phase_retrieval():
    t = thresholds("abs(z)", noise=0.001)
    np.testing.assert_allclose(
        [t.alpha_dyn, t.alpha_it, t.alpha_amp],
        [1.12413114, 1.13019321, 1.13745159],
        atol=1e-8,
    )
    np.testing.assert_allclose(
        [t.q_dyn, t.q_it, t.q_amp], [0.9668899, 0.980511, 0.8655824], atol=5e-7
    )
    assert str(thresholds("abs(z)", noise=0.003).transition.values) == "continuous"
    h3 = thresholds("h3(z)")
    np.testing.assert_allclose(
        [h3.alpha_it, h3.alpha_amp, h3.q_amp], [1, 1.19431150, 0.8319935], atol=5e-8
    )
    curve = curve_of("h3(z)")
    np.testing.assert_allclose(
        [curve.alpha(0.5), curve.alpha(0.9)], [0.84372671, 1.17747139], atol=5e-9
    )


@pytest.mark.parametrize(
    ("target", "noise", "alpha"),
    [
        ("sign(z**3 - z)", 0.0, [2.55105996, 3.00463733, 6.18073191]),
        ("sin(2*z)", 0.05, [1.63123278, 1.67767933, 1.80919393]),
    ],
)
def test_branches_are_found_close_to_where_they_are_born(target, noise, alpha):
    """Within 1e-9 of an end both fixed points lie between two nodes of the curve;
    passed over, alpha_it is NaN.
    """
    t = thresholds(target, noise=noise)
    np.testing.assert_allclose(
        [t.alpha_dyn, t.alpha_it, t.alpha_amp], alpha, rtol=0, atol=1e-8
    )


def test_many_samples_of_a_half_space():
    r = gs.predict(gs.BayesLimit(target="sign(z)", samples_per_dim=1e4))
    assert 1e4 * float(r.error[0]) == pytest.approx(0.441700, abs=5e-7)


@pytest.mark.parametrize("alpha", [0.2, 0.7, 0.99])
def test_a_monotone_target_without_noise_is_linear_algebra(alpha):
    for target in ("z", "tanh(2*z)"):
        assert float(
            gs.predict(gs.BayesLimit(target=target, samples_per_dim=alpha)).q[0]
        ) == pytest.approx(alpha, abs=1e-9)
    assert (
        float(gs.predict(gs.BayesLimit(target="z", samples_per_dim=alpha + 1)).q[0])
        == 1
    )


@pytest.mark.parametrize("alpha", [0.1, 1.0, 30.0])
def test_the_linear_target_in_closed_form(alpha):
    V = 1 - float(
        gs.predict(gs.BayesLimit(target="z", noise=0.25, samples_per_dim=alpha)).q[2]
    )
    assert V * (1 + alpha / (V + 0.25)) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("target", "noise", "flip"),
    [
        ("sign(z)", 0, 0.1),
        (CUT, 0, 0),
        ("abs(z)", 0, 0),
        ("relu(z)", 0, 0),
        ("tanh(z)", 0.1, 0),
    ],
)
@pytest.mark.parametrize("q", [0.3, 0.9])
def test_the_entropy_has_the_information_as_slope(target, noise, flip, q):
    channel = channel_of(target, noise, flip)
    h = 1e-4
    slope = (
        8 * (channel.information(q + h)[1] - channel.information(q - h)[1])
        - (channel.information(q + 2 * h)[1] - channel.information(q - 2 * h)[1])
    ) / (12 * h)
    assert slope == pytest.approx(channel.information(q)[0] / 2, rel=1e-8)


def test_a_bijection_of_the_label_changes_no_overlap():
    for q in (0.2, 0.6):
        assert channel_of("abs(z)").information(q)[0] == pytest.approx(
            channel_of("z**2").information(q)[0], rel=1e-9
        )


def test_small_noise_tends_to_none():
    assert channel_of("z + 0.3*tanh(z)", 1e-4).information(0.4)[0] == pytest.approx(
        channel_of("z + 0.3*tanh(z)").information(0.4)[0], rel=3e-4
    )
    curve = curve_of(CUT)
    assert curve.alpha(1e-5) == pytest.approx(curve.weak, rel=1e-4)
    assert curve_of("abs(z)").alpha(1 - 1e-6) == pytest.approx(1, abs=2e-3)


def test_more_samples_and_less_noise_help():
    r = gs.predict(
        gs.BayesLimit(target="sign(z)", samples_per_dim=1.0),
        samples_per_dim=[0.5, 1, 2, 4],
        flip=[0, 0.1, 0.2],
    )
    assert (np.diff(r.error, axis=0) < 0).all() and (np.diff(r.error, axis=1) > 0).all()
    assert (r.q.sel(branch="bayes") >= r.q.sel(branch="uninformed")).all()


def test_the_curve_of_fixed_points():
    r = gs.predict(
        gs.BayesLimit(target="abs(z)", samples_per_dim=1.05),
        what="branches",
        overlap=[0.2, 0.56844931, 0.9],
    )
    assert float(r.alpha[1]) == pytest.approx(1.05, abs=1e-8)
    assert r.stable.values.tolist() == [1, 1, 0]


def test_a_direction_across_the_axes():
    r = gs.predict(gs.BayesLimit(target="z1 + z2", noise=0.5, samples_per_dim=2.0)).sel(
        branch="bayes"
    )
    # z with noise 0.25, times sqrt(2)
    assert float(r.q) == pytest.approx(0.82460947, abs=1e-8)
    np.testing.assert_allclose(r.M, float(r.q) * np.full((2, 2), 0.5), atol=1e-9)


def test_bad_input_is_refused():
    make = gs.BayesLimit
    for fields, words in (
        ({"target": "abs(z)", "flip": 0.1}, "flip.*no label.*noise"),
        ({"target": "sign(z)", "flip": 0.5}, "flip.*below 0.5"),
        ({"target": "sign(z)", "flip": 0.1, "noise": 0.1}, "flip.*one of the two"),
        ({"target": "abs(z)", "noise": -0.1}, "noise.*at least 0"),
        ({"target": "0*z + 1"}, "constant"),
        (
            {"target": gs.Target(lambda z: np.abs(np.sin(60 * z[..., 0])))},
            "not declared",
        ),  # too many to be found
    ):
        with pytest.raises(gs.InputError, match=words):
            make(samples_per_dim=1.0, **fields)
    with pytest.raises(gs.InputError, match="64"):
        gs.predict(make(target="sin(20*z)", samples_per_dim=1.0))
    with pytest.raises(gs.InputError, match="overlap"):
        gs.predict(
            make(target="sign(z)", samples_per_dim=1.0), what="trajectory", overlap=1.5
        )


@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_a_noisy_label_is_the_same_in_finer_steps(noise):
    """Odds of the two labels turn over y ~ noise, and the step in y follows (else wrong
    by 2e-8 at noise 0.1).
    """
    from giantstep.problems.bayes_limit.noisy import Noisy

    channel = channel_of("sign(z)", noise)
    fine = Noisy(channel.line, noise, 3 * channel.jump)
    np.testing.assert_allclose(
        channel.information(0.6), fine.information(0.6), rtol=1e-10
    )


@pytest.mark.parametrize(
    ("target", "noise"),
    [
        ("h3(z)", 0.5),
        ("abs(z)", 0.001),
        ("tanh(4*z) + 0.3*z", 0.001),
        ("z + 0.2*sin(5*z)", 0.01),
        ("relu(z)", 0.1),
        ("exp(-20*z**2)", 0.01),
    ],
)
def test_graded_rules_are_as_good_as_finer_ones(target, noise):
    """Panels follow the slope of the target; with half their width nothing moves."""
    channel = channel_of(target, noise)
    finer = replace(channel, stretch=0.5)
    for q in (0.1, 0.6, 0.9, 0.999):
        np.testing.assert_allclose(
            channel.information(q), finer.information(q), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(
    ("target", "noise", "flip", "alpha"),
    [
        ("z**2", 0.02, 0.0, [0.4, 0.7, 0.95, 1.3, 2.4]),  # through a hard phase
        (
            "abs(z)",
            0.001,
            0.0,
            [1.125, 1.13, 1.1374, 1.1376],
        ),  # within 1e-4 of the end of a branch
        ("sign(z)", 0.0, 0.1, [0.3, 2.0, 60.0]),
        ("abs(z)", 0.0, 0.0, [0.3, 0.7, 1.1, 1.1284, 3.0]),
    ],
)
def test_no_fixed_point_is_passed_over(target, noise, flip, alpha):
    """Fixed points are looked for only where monotone steps may have one: a dense scan
    finds the same number.
    """
    curve = curve_of(target, noise, flip)
    t = np.arange(-7.0, 12.0, 0.05)
    values = np.array([curve.channel.information(1 / (1 + math.exp(-x)))[0] for x in t])
    for wanted in alpha:
        above = t - np.log(values) > math.log(wanted)
        found = [curve._root(wanted, *bracket) for bracket in curve._brackets(wanted)]
        inside = [q for q in found if t[0] < math.log(q / (1 - q)) < t[-1]]
        assert len(inside) == np.count_nonzero(above[1:] != above[:-1])


@pytest.mark.parametrize(
    ("target", "wanted"), [("sign(z - 0.01)", 0.566095), ("sign(z)", None)]
)
def test_a_jump_beside_zero_is_not_taken_for_one_at_zero(target, wanted):
    """Both halves of omega count where the target is only nearly odd: one half alone
    gives 0.570395.
    """
    assert channel_of(target).line.parity == (None if wanted else "odd")
    if wanted is not None:
        assert float(
            gs.predict(gs.BayesLimit(target=target, samples_per_dim=1.5)).mse[0]
        ) == pytest.approx(wanted, abs=1e-6)
