"""Two directions and more: the reference values of bayes_multi_index section 7,
invariances, thresholds of stages.
"""

import math

import numpy as np
import pytest
from scipy.special import erf

import giantstep as gs
from giantstep.problems.bayes_limit import pairs
from giantstep.problems.bayes_limit import product as product_channel
from giantstep.problems.bayes_limit.pairs import PairLabels, PairNoisy
from giantstep.problems.bayes_limit.problem import problem_of
from giantstep.problems.bayes_limit.product import Parity, Product
from giantstep.problems.bayes_limit.reading import read_target

COMMITTEE = "sign(z1)+sign(z2)"


def labels(target, flip=0.0):
    return PairLabels(read_target(gs.Target(target)), flip)


def test_parity_of_two_signs_has_the_printed_values():
    s = gs.BayesLimit(target="sign(z1*z2)", samples_per_dim=3.0)
    r = gs.predict(s, samples_per_dim=[3, 4, 6]).sel(branch="bayes")
    np.testing.assert_allclose(
        r.q, [0.24270621, 0.64384109, 0.89692497], rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(
        r.mse, [0.97564209, 0.80168971, 0.49815737], rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(
        r.error, [0.44622602, 0.32424388, 0.18642624], rtol=0, atol=1e-8
    )
    t = gs.predict(s.replace(flip=0.1), what="thresholds")
    assert float(t.alpha_weak) == pytest.approx(math.pi**2 / 4 / 0.8**2, abs=1e-8)
    assert str(t.transition.values) == "continuous"


@pytest.mark.parametrize(
    ("alpha", "M", "mse", "error"),
    [
        (1.5, (0.30723708, 0.30723708, 0.30723708), 1.20476432, 0.38263),
        (3.0, (0.65291564, 0.16146173, 0.65291564), 0.88769908, 0.29829),
    ],
)
def test_the_committee_has_the_printed_values(alpha, M, mse, error):
    r = gs.predict(gs.BayesLimit(target=COMMITTEE, samples_per_dim=alpha)).sel(
        branch="uninformed"
    )
    np.testing.assert_allclose(r.M.values[[0, 0, 1], [0, 1, 1]], M, rtol=0, atol=1e-8)
    assert float(r.mse) == pytest.approx(mse, abs=1e-8)
    # as far as the page states it
    assert float(r.error) == pytest.approx(error, abs=2e-5)


@pytest.mark.slow
def test_noisy_targets_of_two_directions_have_the_printed_values():
    r = gs.predict(
        gs.BayesLimit(target="z1 + z1*z2", noise=0.25, samples_per_dim=1.5)
    ).sel(branch="bayes")
    np.testing.assert_allclose(
        r.M.values[[0, 0, 1], [0, 1, 1]], [0.57597543, 0, 0.39976909], rtol=0, atol=1e-8
    )
    assert float(r.mse) == pytest.approx(1.44376739, abs=1e-8)
    r = gs.predict(gs.BayesLimit(target="z1*z2", noise=0.25, samples_per_dim=2.0)).sel(
        branch="bayes"
    )
    np.testing.assert_allclose(
        [r.q, r.mse], [0.48855927, 1.01130984], rtol=0, atol=1e-8
    )
    r = gs.predict(gs.BayesLimit(target="z1*z2", samples_per_dim=1.2)).sel(
        branch="bayes"
    )
    np.testing.assert_allclose(
        [r.q, r.mse], [0.36254795, 0.86855898], rtol=0, atol=1e-8
    )


def test_one_step_from_a_printed_fixed_point_stays():
    problem = problem_of(gs.Target("z1 + z1*z2"), 0.25, 0.0)
    M = np.diag([0.57597543, 0.39976909])
    np.testing.assert_allclose(problem.step(M, 1.5), M, atol=1e-8)
    assert problem.errors(M)[0] == pytest.approx(
        2.25 - M[0, 0] * (1 + M[1, 1]), abs=1e-8
    )


@pytest.mark.parametrize("target", ["z1 + z1*z2", "z1*z2", "z1 + h2(z2)"])
def test_reflections_of_the_target_change_nothing(target, monkeypatch):
    # the y at hand are not symmetric: their rule is as fine as rounding
    monkeypatch.setattr(pairs, "_Y_STEP", 0.4)
    channel = PairNoisy(read_target(gs.Target(target)), 0.5)
    M = np.diag([0.5, 0.3])
    assert channel.reading.reflections
    halved, psi = channel.information(M)
    monkeypatch.setattr(PairNoisy, "_halve", lambda self, rules, basis: False)
    whole, same = channel.information(M)
    np.testing.assert_allclose(halved, whole, atol=1e-12)
    assert psi == pytest.approx(same, abs=1e-12)


def test_the_product_without_noise():
    product = Product(1.0)
    assert 1 / product.onset()[1] == pytest.approx(0.59375110, abs=5e-9)
    q = 0.36254795
    assert q / ((1 - q) * product.information(q)[0]) == pytest.approx(1.2, abs=5e-8)
    assert 0.8 / (0.2 * product.information(0.8)[0]) == pytest.approx(
        1.727993, abs=5e-7
    )


@pytest.mark.parametrize("q", [0.2, 0.9, 0.97, 0.9999])
def test_the_entropy_of_the_product_has_the_information_as_slope(q):
    """Near full recovery too, where the printed tables end: dPsi/dq = r I/2 with
    r = 2.
    """
    product = Product(3.0)
    h = 1e-4 * (1 - q)
    slope = (product.information(q + h)[1] - product.information(q - h)[1]) / (2 * h)
    assert slope == pytest.approx(product.information(q)[0], rel=1e-6)


def test_the_product_far_from_the_origin_is_that_of_the_level_sets():
    """Two ways to integrate over a level set: convolutions in log x, and sums over x1
    where it is positive.
    """
    far = np.array([13.0, 15.0, 20.0]), np.array([0.5, 10.0, 19.0])
    np.testing.assert_allclose(
        product_channel._at(*far), product_channel._at_large(*far), rtol=1e-9
    )


def test_the_product_is_recovered_at_two_samples_per_dimension():
    alpha = [1.89, 1.95, 1.9999, 2.0, 2.01]
    r = gs.predict(
        gs.BayesLimit(target="z1*z2", samples_per_dim=1.0), samples_per_dim=alpha
    )
    assert (r.status == "").all()
    q = r.q.sel(branch="uninformed").values
    assert (np.diff(q[:4]) > 0).all() and q[3] == q[4] == 1 and 1 - q[2] < 1e-4
    np.testing.assert_allclose(r.mse.sel(branch="bayes"), 1 - q**2, atol=1e-12)


def test_stages_of_the_committee():
    t = gs.predict(
        gs.BayesLimit(target=COMMITTEE, samples_per_dim=1.0), what="thresholds"
    )
    np.testing.assert_allclose(t.alpha_direction, [0, 2.05238243], atol=5e-8)
    np.testing.assert_allclose(
        np.abs(t.vector), np.full((2, 2), math.sqrt(0.5)), atol=1e-9
    )


def test_a_known_direction_lowers_the_threshold_of_the_next():
    t = gs.predict(
        gs.BayesLimit(target="z1 + h2(z2)", noise=0.25, samples_per_dim=1.0),
        what="thresholds",
    )
    np.testing.assert_allclose(t.alpha_direction, [0, 0.64491200], atol=1e-8)
    np.testing.assert_allclose(t.vector, np.eye(2), atol=1e-9)
    channel = PairNoisy(read_target(gs.Target("z1 + h2(z2)")), 0.25)
    _, growth = channel.slab(np.array([1.0, 0.0])).information_and_growth(0.0)
    assert 1 / growth[0, 0] == pytest.approx(0.68009929, abs=1e-8)
    assert problem_of(gs.Target("h2(z)"), 1.25, 0.0).curve.weak == pytest.approx(
        0.68009929, abs=1e-8
    )


def test_directions_that_grow_at_nearly_the_same_rate_have_thresholds_of_their_own():
    s = gs.BayesLimit(target="h2(z1) + 1.01*h2(z2)", noise=0.25, samples_per_dim=1.0)
    alpha, rows = s.direction_thresholds()
    # both 1.05249 where they are alike
    np.testing.assert_allclose(alpha, [1.04119, 1.06284], rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.abs(rows), [[0, 1], [1, 0]], rtol=0, atol=1e-12)


def test_weak_recovery_of_the_noisy_product():
    problem = problem_of(gs.Target("z1*z2"), 0.25, 0.0)
    assert problem.curve.weak == pytest.approx(0.74924951, abs=1e-8)


@pytest.mark.parametrize("eps", [1e-3, 1e-4])
def test_a_perturbation_stands_still_at_its_threshold(eps):
    m = 0.71094793
    alpha = 2.05238243
    v = np.array([1.0, -1.0]) / math.sqrt(2)
    problem = problem_of(gs.Target(COMMITTEE), 0.0, 0.0)
    moved = problem.step(m * np.full((2, 2), 0.5) + eps * np.outer(v, v), alpha)
    expected = {1e-3: 0.99866, 1e-4: 0.999865}[eps]
    assert v @ moved @ v / eps == pytest.approx(
        expected, abs=6e-6 if eps == 1e-3 else 2e-6
    )


def test_information_has_the_printed_entries():
    M = np.array([[0.4, 0.1], [0.1, 0.3]])
    information, _ = labels(COMMITTEE).information(M)
    np.testing.assert_allclose(
        information, [[0.515633, 0.392465], [0.392465, 0.501898]], atol=5e-7
    )


@pytest.mark.parametrize("q", [0.3, 0.9])
def test_parity_is_the_same_in_closed_form_and_by_tables(q):
    closed = Parity(2, 0.1)
    table = labels("sign(z1*z2)", 0.1)
    information, psi = table.information(q * np.eye(2))
    np.testing.assert_allclose(
        information, closed.information(q)[0] * np.eye(2), atol=1e-9
    )
    assert psi == pytest.approx(closed.information(q)[1], abs=1e-9)
    assert table.errors(q * np.eye(2)) == pytest.approx(closed.errors(q), abs=2e-5)


def test_parity_of_three_signs():
    assert Parity(3, 0.0).information(0.6)[0] == pytest.approx(0.14870111, abs=1e-8)
    assert Parity(3, 0.0).errors(0.929466)[1] == pytest.approx(0.215271, abs=1e-6)
    r = gs.predict(
        gs.BayesLimit(target="sign(z1*z2*z3)", samples_per_dim=9.0),
        what="branches",
        overlap=[0.829035],
    )
    assert float(r.alpha[0]) == pytest.approx(8.719833, abs=5e-7)


def test_parity_of_six_signs():
    """Against plain sampling of the six coordinates; without knowledge the label is a
    fair coin.
    """
    q = 0.9
    V = 0.1
    x = np.random.default_rng(1).standard_normal((400_000, 6)) * math.sqrt(q / (2 * V))
    t = erf(np.abs(x))
    slope = (
        math.sqrt(2 / (math.pi * V)) * np.exp(-(x[:, 0] ** 2)) * t[:, 1:].prod(axis=1)
    )
    samples = slope**2 / (1 - t.prod(axis=1) ** 2)
    information, psi = Parity(6, 0.0).information(q)
    assert abs(samples.mean() - information) < 4 * samples.std() / math.sqrt(
        len(samples)
    )
    assert Parity(6, 0.0).information(1e-6)[1] == pytest.approx(
        -math.log(2), abs=1e-12
    ) and psi > -math.log(2)


@pytest.mark.slow
def test_thresholds_of_three_signs():
    t = gs.predict(
        gs.BayesLimit(target="sign(z1*z2*z3)", samples_per_dim=9.0), what="thresholds"
    )
    assert math.isinf(t.alpha_weak) and math.isinf(t.alpha_amp)
    np.testing.assert_allclose(
        [t.alpha_dyn, t.alpha_it], [8.719833, 9.567059], atol=1e-6
    )
    np.testing.assert_allclose([t.q_dyn, t.q_it], [0.829035, 0.929466], atol=1e-6)


def test_a_linear_form_of_two_directions_is_one_direction():
    slope = np.array([0.6, 0.8])
    channel = PairNoisy(read_target(gs.Target("tanh(z1) + z1*z2")), 0.3)
    assert channel.reading.rank == 2
    r = gs.predict(
        gs.BayesLimit(target="0.6*z1 + 0.8*z2", noise=0.25, samples_per_dim=2.0)
    ).sel(branch="bayes")
    np.testing.assert_allclose(r.M, 0.82460947 * np.outer(slope, slope), atol=1e-8)


def test_a_rotated_target_has_the_rotated_overlap():
    c = math.cos(math.pi / 5)
    s = math.sin(math.pi / 5)
    rotated = f"sign({c}*z1 + {s}*z2) + sign({-s}*z1 + {c}*z2)"
    R = np.array([[c, s], [-s, c]])
    M = np.array([[0.4, 0.1], [0.1, 0.3]])
    plain, psi = labels(COMMITTEE).information(M)
    turned, same = labels(rotated).information(R.T @ M @ R)
    np.testing.assert_allclose(turned, R.T @ plain @ R, atol=1e-7)
    assert same == pytest.approx(psi, abs=1e-8)


def test_symmetries_of_the_target_are_symmetries_of_the_information():
    channel = labels(COMMITTEE)
    M = np.array([[0.5, 0.2], [0.2, 0.3]])
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(
        channel.information(swap @ M @ swap)[0],
        swap @ channel.information(M)[0] @ swap,
        atol=1e-9,
    )


def test_state_evolution_of_parity_alternates_as_printed():
    s = gs.BayesLimit(target="sign(z1*z2)", samples_per_dim=4.0)
    r = gs.predict(s, what="trajectory", overlap=[0.15, 0.1], steps=4)
    printed = [(0.142659, 0.199118), (0.251516, 0.194981), None, (0.352800, 0.315233)]
    for sweep, expected in enumerate(printed, start=1):
        if expected:
            np.testing.assert_allclose(np.diag(r.M[sweep]), expected, atol=5e-7)


@pytest.mark.parametrize(
    ("fields", "overlap"),
    [
        ({"target": COMMITTEE, "samples_per_dim": 3.0}, [0.15, 0.05, 0.05, 0.1]),
        ({"target": "z1*z2", "noise": 0.25, "samples_per_dim": 2.0}, [0.2, 0.15]),
    ],
)
def test_gamp_follows_state_evolution(fields, overlap):
    both = gs.compare(
        gs.BayesLimit(**fields),
        what="trajectory",
        dim=150,
        trials=6,
        overlap=overlap,
        steps=2,
        seed=2,
    )
    assert (
        np.nanmax(np.abs(both.M_z[1:])) < 4.5
        and np.nanmax(np.abs(both.mse_z[1:])) < 4.5
    )


def test_what_has_no_channel_is_refused():
    with pytest.raises(gs.InputError, match="noise"):
        gs.BayesLimit(target="z1 + z1*z2", samples_per_dim=1.0)
    with pytest.raises(gs.InputError, match="planes"):
        gs.BayesLimit(target="sign(z1**2 + z2**2 - 1)", samples_per_dim=1.0)


@pytest.mark.slow
def test_three_directions_are_learnt_through_the_first():
    s = gs.BayesLimit(target="z1**2 + sign(z1*z2*z3)", noise=0.25, samples_per_dim=1.0)
    t = gs.predict(s, what="thresholds")
    np.testing.assert_allclose(
        t.alpha_direction, [0.65786433, 4.43985613, 4.43985613], rtol=0, atol=2e-8
    )
    np.testing.assert_allclose(t.vector, np.eye(3), atol=1e-9)


def test_a_sum_across_the_axes_is_seen_and_what_follows_is_not_known():
    t = gs.predict(
        gs.BayesLimit(target="sign(z1)+sign(z2)+sign(z3)", samples_per_dim=1.0),
        what="thresholds",
    )
    assert float(t.alpha_direction[0]) == 0 and np.isnan(t.alpha_direction[1:]).all()
    np.testing.assert_allclose(
        np.abs(t.vector[0]), np.full(3, math.sqrt(1 / 3)), atol=1e-8
    )


def test_exponents_and_verdicts_name_the_thresholds():
    assert float(
        gs.exponents("h2(z)").thresholds(noise=0.5).alpha_direction[0]
    ) == pytest.approx(0.57798706, abs=5e-9)
    assert float(
        gs.learnable("abs(z)", "relu").thresholds().alpha_amp
    ) == pytest.approx(1.12847141, abs=5e-9)
    assert "z above n = 0.5 d" in str(gs.exponents("abs(z)"))
    assert "z above n = 0.5 d" in str(gs.learnable("abs(z)", "relu"))
    assert "thresholds(noise=...)" in str(gs.exponents("z1 + h2(z2)"))
