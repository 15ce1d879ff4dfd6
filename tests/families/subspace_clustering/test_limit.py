"""State evolution: reference values, a second route, thresholds, phases, closed forms,
bad input.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

import giantstep as gs
from giantstep.problems.subspace_clustering.channels import (
    assignment_channel,
    features_overlap,
)
from giantstep.problems.subspace_clustering.curve import CurveProblems, thresholds
from giantstep.problems.subspace_clustering.unequal import unequal_clusters


def scenario(k=2, alpha=2.0, rho=0.05, ratio=1.0, **more):
    s = gs.SubspaceClustering(
        clusters=k, sparsity=rho, snr=1.0, samples_per_dim=alpha, **more
    )
    return s.replace(snr=ratio * s.threshold)


NAMES = ("m_u", "m_v", "accuracy", "tpr", "fpr", "phi")
FIXED_POINTS = [
    (
        2,
        2,
        0.05,
        1.5,
        "uninformed",
        (0.53528455, 0.89868478, 0.83554684, 0.52775623, 0.00210747, 0.18300503),
    ),
    (
        2,
        2,
        0.05,
        0.9,
        "informed",
        (0.32836762, 0.71965187, 0.75071608, 0.32417068, 0.00255994, 0.02501819),
    ),
    (
        2,
        2,
        0.5,
        1.5,
        "uninformed",
        (0.33485714, 0.44342710, 0.75358126, 0.43020440, 0.21970156, 0.02095170),
    ),
    (
        2,
        0.5,
        0.2,
        1.8,
        "uninformed",
        (0.71003523, 0.64739927, 0.90038497, 0.31934950, 0.01931987, 0.07118284),
    ),
    (2, 1, 1, 2, "uninformed", (0.57073990, 0.53303318, 0.84908217, 1, 0, 0.06745777)),
    (
        3,
        2,
        0.1,
        1.3,
        "uninformed",
        (0.51255373, 0.82185256, 0.76709308, 0.61759413, 0.00658355, 0.19581512),
    ),
    (
        4,
        1,
        0.3,
        1.5,
        "uninformed",
        (0.65078894, 0.64609283, 0.81633623, 0.60290347, 0.04825891, 0.18008719),
    ),
    (
        5,
        2,
        0.2,
        1.5,
        "uninformed",
        (0.66117184, 0.82877245, 0.80973060, 0.81195929, 0.01295500, 0.62427236),
    ),
]


@pytest.mark.parametrize(
    ("k", "alpha", "rho", "ratio", "branch", "values"), FIXED_POINTS
)
def test_fixed_points_have_the_reference_values(k, alpha, rho, ratio, branch, values):
    result = gs.predict(scenario(k, alpha, rho, ratio)).sel(branch=branch)
    np.testing.assert_allclose(
        [float(result[name]) for name in NAMES], values, atol=6e-9, rtol=0
    )
    assert float(result["mse_u"]) == pytest.approx(
        (1 - 1 / k) * (1 - values[0]), abs=1e-8
    )
    assert float(result["mse_v"]) == pytest.approx(rho * (1 - values[1]), abs=1e-8)
    assert float(result["ratio"]) == pytest.approx(ratio)


THRESHOLDS = [
    (2, 2, 0.01, 0.34356350, 0.35932125, 1.00002478, 0.079626, 0.118419),
    (2, 2, 0.05, 0.66245488, 0.68317364, 1.00067605, 0.120531, 0.173047),
    (2, 2, 0.09, 0.81848370, 0.83588264, 1.00242098, 0.126645, 0.177190),
    (2, 2, 0.10, 0.84741455, 0.86356265, 1.00307281, 0.126059, 0.175233),
    (2, 2, 0.15, 0.95478410, 0.96360774, 1.00813887, 0.113805, 0.152294),
    (2, 2, 0.20, 1.01589349, 1.01683677, 1.01863899, 0.079916, 0.095781),
    (3, 2, 0.10, 0.78350595, 0.80222254, 1.00143824, None, None),
    (10, 1, 1.0, 0.95725691, 0.96098704, 1.0, None, None),
]


def test_thresholds_have_the_reference_values():
    for k, alpha, rho, dyn, jump, alg_bayes, m_dyn, m_jump in THRESHOLDS:
        result = gs.predict(scenario(k, alpha, rho), what="thresholds")
        found = [
            float(result[f"ratio_{name}"]) for name in ("dyn", "jump", "algB", "it")
        ]
        np.testing.assert_allclose(
            found, [dyn, jump, alg_bayes, min(jump, 1.0)], atol=6e-9
        )
        assert float(result["lam_alg"]) == pytest.approx(k / np.sqrt(alpha))
        assert str(result["transition"].values) == "first-order"
        if m_dyn:
            assert float(result["m_dyn"]) == pytest.approx(m_dyn, abs=2e-6)
            assert float(result["m_jump"]) == pytest.approx(m_jump, abs=2e-6)


def test_a_continuous_transition_has_one_threshold():
    result = gs.predict(scenario(rho=0.25), what="thresholds")
    assert str(result["transition"].values) == "continuous"
    assert [
        float(result[f"ratio_{name}"]) for name in ("dyn", "it", "jump", "algB")
    ] == [1.0] * 4


def test_a_loop_that_fits_between_two_points_of_the_grid_is_found():
    result = gs.predict(
        scenario(), sparsity=[0.207, 0.2088, 0.20881, 0.2089], what="thresholds"
    )
    assert result["transition"].values.tolist() == ["first-order"] * 3 + ["continuous"]


@pytest.mark.parametrize(
    ("k", "alpha", "expected"),
    [
        (2, 0.5, (0.1743770, 0.0993081, 1.0273496)),
        (2, 2, (0.2088104, 0.0578714, 1.0220096)),
        (5, 2, (0.3592930,)),
    ],
)
def test_the_first_order_line_ends_at_the_reference_values(k, alpha, expected):
    result = gs.predict(scenario(k, alpha), what="critical")
    found = [float(result[name]) for name in ("sparsity_c", "m_c", "ratio_c")]
    np.testing.assert_allclose(found[: len(expected)], expected, atol=1.5e-7)


@pytest.mark.parametrize("alpha", [1e-9, 1e7])
def test_the_end_of_the_line_is_found_far_out(alpha):
    """The curve just beside the end: with a loop below it, rising throughout above
    it.
    """
    found = gs.predict(scenario(2, alpha), what="critical")
    near = float(found["sparsity_c"]) * np.array([0.995, 1.005])
    lines = gs.predict(scenario(2, alpha), what="thresholds", sparsity=near)
    assert lines["transition"].values.tolist() == ["first-order", "continuous"]
    assert float(found["ratio_c"]) == pytest.approx(
        float(lines["ratio_algB"][0]), rel=5e-3
    )


@pytest.mark.slow
def test_the_other_ends_of_the_line():
    for k, alpha, expected in (
        (2, 1, (0.1925173, 0.0764011, 1.0243331)),
        (2, 5, (0.2269010, 0.0392819, 1.0197996)),
        (3, 2, (0.2571173,)),
        (4, 2, (0.3066538,)),
    ):
        result = gs.predict(scenario(k, alpha), what="critical")
        found = [float(result[name]) for name in ("sparsity_c", "m_c", "ratio_c")]
        np.testing.assert_allclose(found[: len(expected)], expected, atol=1.5e-7)


def test_no_end_of_the_line_where_every_transition_is_first_order():
    with pytest.warns(gs.GiantstepWarning, match="first-order at every sparsity"):
        result = gs.predict(scenario(), clusters=[2, 8], what="critical")
    assert result["converged"].values.tolist() == [True, False]
    assert result["sparsity_c"].values[0] == pytest.approx(0.2088104, abs=1e-7)
    assert np.isnan(result["sparsity_c"].values[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "critical", "expected"),
    [
        (0.5, 0.174, 0.1476041),
        (1, 0.192, 0.1643783),
        (2, 0.208, 0.1795452),
        (5, 0.226, 0.1964714),
    ],
)
def test_where_the_jump_crosses_the_algorithmic_threshold(alpha, critical, expected):
    channel = assignment_channel(2)

    def excess(rho):
        found = thresholds(
            CurveProblems(channel, np.array([alpha * 1.0]), np.array([rho]))
        )
        return float(found["lam_jump"][0] / found["lam_alg"][0]) - 1

    assert optimize.brentq(excess, 0.12, critical, xtol=1e-9) == pytest.approx(
        expected, abs=1e-7
    )


def test_a_hard_phase_of_dense_means_needs_many_clusters():
    for alpha in (0.5, 2.0):
        bound = 4 + 2 * np.sqrt(alpha)
        below = int(np.floor(bound))
        above = int(np.floor(bound)) + 2
        result = gs.predict(
            scenario(2, alpha, 1.0), clusters=[2, below, above], what="thresholds"
        )
        assert result["transition"].values.tolist() == [
            "continuous",
            "continuous",
            "first-order",
        ]


def test_small_sparsity_follows_its_laws():
    rho = np.array([1e-2, 1e-3, 1e-4, 1e-6])
    result = gs.predict(scenario(), sparsity=rho, what="thresholds")
    law = result["ratio_it"].values / np.sqrt(rho * np.log(1 / rho))
    np.testing.assert_allclose(law, [1.674403, 1.586075, 1.537439, 1.490897], atol=1e-6)
    D = np.sqrt(2) + 1  # lam_algB/lam_alg - 1 -> D^2 rho^2/(4 alpha (k+1))
    gap = result["ratio_algB"].values[1:3] - 1
    np.testing.assert_allclose(gap, D**2 * rho[1:3] ** 2 / 24, rtol=3e-3)
    np.testing.assert_allclose(
        result["m_algB"].values[1:3], D * rho[1:3] ** 2 / 6, rtol=3e-3
    )
    # the constants at rho -> 0, from chi-squared tails
    for k, kappa, kappa_dyn in (
        (2, 1.376319, 1.296691),
        (3, 1.165822, 1.091114),
        (4, 1.025025, None),
        (5, 0.922975, 0.854014),
        (10, 0.653948, None),
    ):
        p = k - 1
        tail = lambda c, freedom: stats.chi2.sf(1 / c, freedom)  # noqa: E731
        c = optimize.brentq(
            lambda c: c * p / 2 * tail(c, p + 2) - tail(c, p), 0.5 / p, 2.1 / p
        )
        assert np.sqrt(2 * c / tail(c, p + 2)) == pytest.approx(kappa, abs=1e-6)
        if kappa_dyn is None:
            continue
        best = optimize.minimize_scalar(
            lambda c: 2 * c / tail(c, p + 2), bounds=(0.01, 3), method="bounded"
        )
        assert np.sqrt(best.fun) == pytest.approx(kappa_dyn, abs=1e-6)
    tiny = gs.predict(scenario(), sparsity=[1e-12], what="thresholds")
    assert float(tiny["ratio_it"][0] / np.sqrt(1e-12 * np.log(1e12))) == pytest.approx(
        1.443128, abs=1e-4
    )


def test_two_dense_clusters_solve_the_closed_equations():
    s = scenario(2, 1.0, 1.0, 2.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    weights = weights / weights.sum()
    m = 1.0
    for _ in range(500):
        b = s.snr * m / 2
        x = s.snr * b / (1 + b) / 2
        m = float(weights @ np.tanh(x + np.sqrt(x) * nodes))
    assert float(gs.predict(s).m_u.sel(branch="uninformed")) == pytest.approx(
        m, abs=1e-7
    )


@pytest.mark.parametrize(
    ("k", "rho", "ratio"), [(2, 0.05, 0.8), (3, 0.1, 1.4), (6, 0.4, 2.0)]
)
def test_iterating_state_evolution_is_a_second_route(k, rho, ratio):
    s = scenario(k, 2.0, rho, ratio)
    result = gs.predict(s)
    channel = assignment_channel(k)
    for branch, start in (("informed", 1.0), ("uninformed", 1e-9)):
        m = np.array([start])
        for _ in range(400):
            m = channel.overlap(
                s.snr * features_overlap(2.0 * s.snr * m / (rho * k), rho, k - 1)[0]
            )
        assert float(result.m_u.sel(branch=branch)) == pytest.approx(
            float(m[0]), abs=1e-9
        )


def test_information_grows_as_the_error_says():
    s = scenario(3, 1.5, 0.1, 1.2)
    e = 1e-4
    high, low = (
        gs.predict(s, snr=s.snr + shift).sel(branch="bayes") for shift in (e, -e)
    )
    here = gs.predict(s).sel(branch="bayes")
    # d phi/d lam = alpha (k-1)/(2k) m_u m_v
    slope = float(high.phi - low.phi) / (2 * e)
    assert slope == pytest.approx(1.5 / 3 * float(here.m_u * here.m_v), rel=1e-7)


def test_phases_follow_the_thresholds():
    s = scenario(2, 2.0, 0.05)
    limits = gs.predict(s, what="thresholds")
    dyn, it, alg, alg_bayes = (
        float(limits[f"lam_{name}"]) for name in ("dyn", "it", "alg", "algB")
    )
    snr = [
        0.5 * dyn,
        0.5 * (dyn + it),
        1.01 * it,
        0.5 * (alg + alg_bayes),
        1.01 * alg_bayes,
    ]
    result = gs.predict(s, snr=snr)
    assert result["phase"].values.tolist() == [
        "impossible",
        "impossible",
        "hard",
        "suboptimal",
        "optimal",
    ]
    low, high, best = (
        result.m_u.sel(branch=name).values
        for name in ("uninformed", "informed", "bayes")
    )
    assert np.all(low[:3] == 0) and high[0] == 0 and np.all(high[1:] > 0.1)
    assert best.tolist() == [0, 0, high[2], high[3], high[4]]
    assert 0 < low[3] < 0.01 and low[4] == high[4]
    phi = result.phi
    assert np.all(phi.sel(branch="bayes") >= phi.max("branch"))


def test_phase_boundary_of_a_continuous_transition():
    result = gs.predict(
        scenario(rho=0.4), snr=np.array([0.99, 1.0, 1 + 1e-9, 1.01]) * np.sqrt(2)
    )
    assert result["phase"].values.tolist() == [
        "impossible",
        "impossible",
        "optimal",
        "optimal",
    ]
    m = result.m_u.sel(branch="uninformed").values
    onset = 2e-9 / (np.sqrt(2) + 1)  # (lam/lam_alg)^2 = 1 + m (sqrt(alpha) - (k-4)/2)
    assert m[2] == pytest.approx(onset, rel=1e-3)
    assert m[3] == pytest.approx(0.0201 / (np.sqrt(2) + 1), rel=0.05)


def test_published_values_of_the_mean_squared_error():
    result = gs.predict(
        scenario(rho=0.05), snr=np.array([0.7, 1.0, 1.7]) * np.sqrt(2)
    ).sel(branch="informed")
    np.testing.assert_allclose(
        (1 - result.m_u) / 2, [0.4033, 0.3129, 0.2088], atol=6e-5
    )


def test_an_informative_mean_has_the_reference_values():
    for k, values in (
        (2, (0.23925975, 0.53713707, 0.709261)),
        (3, (0.288865, 0.616597, 0.640317)),
    ):
        result = gs.predict(scenario(k, 2.0, 0.1, 0.8, mean="informative")).sel(
            branch="uninformed"
        )
        np.testing.assert_allclose(
            [float(result[n]) for n in ("m_u", "m_v", "accuracy")], values, atol=6e-7
        )
        assert str(result["phase"].values) == "optimal"
        assert gs.predict(scenario(k, 2.0, 0.1, 0.8)).m_u.sel(branch="uninformed") == 0
    found = gs.predict(
        scenario(mean="informative"), sparsity=[0.3, 0.1, 0.05, 0.01], what="thresholds"
    )
    np.testing.assert_allclose(
        found.lam_alg / np.sqrt(2),
        [0.81381255, 0.50993489, 0.35783513, 0.148504],
        atol=5e-7,
    )
    # the mean removes the hard phase of two clusters
    assert found.transition.values.tolist() == ["continuous"] * 4
    np.testing.assert_array_equal(found.lam_algB, found.lam_alg)


def test_an_informative_mean_says_nothing_where_all_features_are_active():
    centred, informed = (
        gs.predict(scenario(10, 1.0, 1.0, mean=mean), what="thresholds")
        for mean in ("centred", "informative")
    )
    for name in (
        "ratio_dyn",
        "ratio_it",
        "ratio_jump",
        "ratio_algB",
        "m_dyn",
        "m_jump",
    ):
        assert float(informed[name]) == pytest.approx(float(centred[name]), abs=1e-8)
    assert float(informed["ratio_it"]) == pytest.approx(0.96098704, abs=6e-9)


def test_many_clusters_have_a_hard_phase_though_the_mean_is_informative():
    s = scenario(10, 1.0, 0.5, mean="informative")
    limits = gs.predict(s, what="thresholds")
    dyn, it, alg = (float(limits[f"lam_{name}"]) for name in ("dyn", "it", "alg"))
    assert str(limits.transition.values) == "first-order" and dyn < it < alg
    phases = gs.predict(s, snr=[0.99 * it, 1.01 * it, 1.01 * alg])
    assert phases.phase.values.tolist() == ["impossible", "hard", "optimal"]
    # a second route to the informed branch: iterate from full knowledge
    channel = assignment_channel(10)
    snr = 1.01 * it
    m = np.array([1.0])
    for _ in range(300):
        gamma = snr / (0.5 * 10)
        m = channel.overlap(snr * features_overlap(gamma * m, 0.5, 9, gamma)[0])
    assert float(phases.m_u.sel(branch="informed")[1]) == pytest.approx(
        float(m[0]), abs=1e-8
    )


def test_the_end_of_the_line_is_not_computed_for_an_informative_mean():
    with pytest.warns(
        gs.GiantstepWarning, match="not computed where the mean is informative"
    ):
        assert np.isnan(
            gs.predict(scenario(mean="informative"), what="critical")["sparsity_c"]
        )


def test_an_informative_mean_obeys_the_same_identity():
    s = scenario(2, 2.0, 0.1, 0.9, mean="informative")
    e = 1e-4
    phi = [
        gs.predict(s, snr=s.snr + shift).phi.sel(branch="uninformed")
        for shift in (e, -e)
    ]
    here = gs.predict(s).sel(branch="uninformed")
    # the overlap of the known direction, by simulation of its scalar channel, completes
    # the identity
    gamma = 2.0 * s.snr / (0.1 * 2)
    b = 2.0 * s.snr * float(here.m_u) / (0.1 * 2)
    rng = np.random.default_rng(0)
    t1 = rng.chisquare(3, 400_000)
    t2 = rng.chisquare(1, 400_000)
    line = np.log(9.0) + np.log1p(gamma) / 2 + np.log1p(b) / 2
    parallel = (
        gamma / (1 + gamma) * special.expit(gamma * t1 / 2 + b * t2 / 2 - line).mean()
    )
    expected = 2.0 / 4 * (float(here.m_u * here.m_v) + parallel)
    assert float(phi[0] - phi[1]) / (2 * e) == pytest.approx(expected, rel=3e-3)


@pytest.mark.parametrize(
    ("w", "alpha", "rho", "strength", "values"),
    [
        (0.2, 2.0, 0.1, 1.5, (0.60331950, 0.83783343)),
        (0.3, 1.0, 0.3, 1.6, (0.554497, 0.571043)),
    ],
)
def test_unequal_weights_have_the_reference_values(w, alpha, rho, strength, values):
    s = scenario(2, alpha, rho, strength, weights=[w, 1 - w])
    assert s.threshold == pytest.approx(1 / (2 * w * (1 - w) * np.sqrt(alpha)))
    result = gs.predict(s).sel(branch="uninformed")
    np.testing.assert_allclose(
        [float(result.m_u), float(result.m_v)], values, atol=6e-7
    )


def test_three_unequal_clusters_have_the_reference_values():
    (nodes,) = unequal_clusters((0.5, 0.3, 0.2))
    fixed = nodes.fixed_point(5.0, 2.0, 0.1, informed=False)
    np.testing.assert_allclose(
        fixed.M_u, [[0.29526, 0.02938], [0.02938, 0.17437]], atol=6e-6
    )
    np.testing.assert_allclose(
        fixed.M_v, [[0.09468, 0.00081], [0.00081, 0.09135]], atol=6e-6
    )
    # the reference was sampled
    assert fixed.values["accuracy"] == pytest.approx(0.8971, abs=3e-4)
    s = gs.SubspaceClustering(
        clusters=3, sparsity=0.1, snr=5.0, samples_per_dim=2.0, weights=[0.5, 0.3, 0.2]
    )
    result = gs.predict(s)
    assert str(result.phase.values) == "optimal"
    assert float(result.m_u.sel(branch="bayes")) == pytest.approx(
        np.trace(fixed.M_u) / 0.62, abs=1e-8
    )
    low, high = (
        gs.predict(s, snr=5.0 + shift).phi.sel(branch="bayes")
        for shift in (-1e-3, 1e-3)
    )
    # d phi/d lam = alpha tr(M_u M_v)/(2 rho)
    rate = 2.0 / (2 * 0.1) * float((fixed.M_u * fixed.M_v).sum())
    assert float(high - low) / 2e-3 == pytest.approx(rate, rel=1e-5)


@pytest.mark.parametrize("case", [FIXED_POINTS[5], FIXED_POINTS[6]])
def test_matrix_state_evolution_of_equal_clusters_is_the_scalar_one(case):
    k, alpha, rho, ratio, branch, values = case
    sets = unequal_clusters((1 / k,) * k)
    found = np.array(
        [
            list(
                nodes.fixed_point(
                    ratio * k / np.sqrt(alpha), alpha, rho, False
                ).values.values()
            )
            for nodes in sets
        ]
    )
    names = list(sets[0].fixed_point(1.0, alpha, rho, False).values)
    for name, value in zip(NAMES, values):
        column = found[:, names.index(name)]
        error = column.std(ddof=1) / np.sqrt(len(sets)) if len(sets) > 1 else 0.0
        assert column.mean() == pytest.approx(value, abs=2e-5 + 5 * error), name
    assert gs.predict(scenario(k, alpha, rho, ratio, weights=[1 / k] * k)).m_u.sel(
        branch=branch
    ) == pytest.approx(values[0], abs=6e-9)


def test_unequal_weights_of_many_clusters():
    w = [0.4, 0.2, 0.2, 0.1, 0.1]
    covariance = np.diag(w) - np.outer(w, w)
    s = scenario(5, 2.0, 0.2, 0.5, weights=w)
    assert s.threshold == pytest.approx(
        1 / (np.sqrt(2) * np.linalg.eigvalsh(covariance)[-1])
    )
    with pytest.warns(gs.GiantstepWarning, match="only lam_alg is computed"):
        limits = gs.predict(s, what="thresholds")
    assert float(limits.lam_alg) == pytest.approx(s.threshold) and np.isnan(
        limits.lam_it
    )
    with pytest.warns(
        gs.GiantstepWarning, match="not computed for three or more clusters"
    ):
        gs.predict(s, what="critical")
    result = gs.predict(s)
    assert (
        str(result.phase.values) == "impossible"
        and float(result.accuracy.sel(branch="bayes")) == 0.4
    )
    assert "m_u_stderr" in result  # Sobol points


def test_rivals_have_the_reference_values():
    for k, alpha, ratio, expected in (
        (3, 2.0, 2.0, 0.7735380),
        (4, 1.0, 2.5, 0.8997133),
    ):
        accuracy = gs.predict(scenario(k, alpha, 0.3, ratio), what="rivals").accuracy
        assert float(accuracy.sel(algorithm="pca")) == pytest.approx(expected, abs=6e-8)
        assert accuracy.sel(algorithm="amp") >= accuracy.sel(algorithm="pca")
        assert np.isnan(accuracy.sel(algorithm=["kmeans", "sparse-pca"])).all()
    below = gs.predict(scenario(2, 2.0, 0.3, 0.9), what="rivals").accuracy
    assert float(below.sel(algorithm="pca")) == pytest.approx(0.5, abs=1e-12)


def test_the_trajectory_has_the_reference_values():
    result = gs.predict(scenario(3, 2.0, 0.1, 1.3), what="trajectory", steps=40)
    assert result["time"].values.tolist() == list(range(41))
    np.testing.assert_allclose(
        result.m_u[:6],
        [0.1, 0.256281, 0.436620, 0.499174, 0.510496, 0.512245],
        atol=6e-7,
    )
    assert float(result.m_u[-1]) == pytest.approx(0.51255373, abs=1e-8)


@given(
    st.sampled_from([2, 3, 5, 10]),
    st.floats(-3, 0),
    st.floats(-2, 3),
    st.floats(-1.5, 2),
)
@settings(max_examples=10)
def test_every_point_is_solved_and_ordered(k, log_rho, log_alpha, log_ratio):
    s = scenario(
        k, float(np.exp(log_alpha)), float(10**log_rho), float(np.exp(log_ratio))
    )
    result = gs.predict(s)
    assert bool(result.converged) and float(result.residual) < 1e-10
    low, high, best = (
        float(result.m_u.sel(branch=name))
        for name in ("uninformed", "informed", "bayes")
    )
    assert 0 <= low <= best <= high <= 1
    assert float(result.phi.sel(branch="bayes")) >= 0
    limits = gs.predict(s, what="thresholds")
    dyn, it, jump, bayes = (
        float(limits[f"ratio_{name}"]) for name in ("dyn", "it", "jump", "algB")
    )
    assert 0 < dyn <= jump <= bayes + 1e-12 and it == min(jump, 1.0) and bayes >= 1


def test_extreme_points_are_solved():
    grid = {
        "sparsity": [1e-12, 1e-3, 0.999999, 1.0],
        "samples_per_dim": [1e-3, 1e4],
        "snr": [1e-6, 1.0, 1e8],
    }
    for k in (2, 50):
        result = gs.predict(scenario(), clusters=k, **grid)
        assert bool(result.converged.all())
        assert all(
            bool(np.isfinite(result[name]).all()) for name in (*NAMES, "mse_u", "mse_v")
        )


def test_a_point_that_fails_leaves_its_neighbours(monkeypatch):
    from giantstep.problems.subspace_clustering import limit

    whole = gs.predict(scenario(), sparsity=[0.05, 0.1, 0.3])
    solve = limit.branches

    def broken(problems, turning, lam):
        low, (high, residual) = solve(problems, turning, lam)
        return low, (high, np.where(problems.rho == 0.1, 1.0, residual))

    monkeypatch.setattr(limit, "branches", broken)
    with pytest.warns(gs.GiantstepWarning, match="no root of the state evolution"):
        result = gs.predict(scenario(), sparsity=[0.05, 0.1, 0.3])
    assert result["converged"].values.tolist() == [True, False, True]
    assert np.isnan(result.m_u.values[1]).all() and result["phase"].values[1] == ""
    np.testing.assert_array_equal(result.m_u.values[::2], whole.m_u.values[::2])


def test_a_phase_diagram_has_every_phase():
    # the last lies between lam_alg and lam_algB at rho = 0.15
    ratios = np.append(np.linspace(0.02, 1.5, 49), 1.005)
    result = gs.predict(
        scenario(), sparsity=np.linspace(0.01, 0.36, 26), snr=ratios * np.sqrt(2)
    )
    assert bool(result.converged.all())
    assert set(np.unique(result.phase)) == {
        "impossible",
        "hard",
        "suboptimal",
        "optimal",
    }


def test_names_survive_files(tmp_path):
    result = gs.predict(scenario(), snr=[1.0, 1.2, 2.0])
    for ending in ("nc", "json"):
        gs.save(result, tmp_path / f"r.{ending}")
        again = gs.load(tmp_path / f"r.{ending}")
        assert again["phase"].values.tolist() == ["hard", "hard", "optimal"]
        assert again["branch"].values.tolist() == ["uninformed", "informed", "bayes"]
        np.testing.assert_array_equal(again.m_u, result.m_u)
    gs.save(result, tmp_path / "r.csv")
    head, first, *_ = (tmp_path / "r.csv").read_text().splitlines()
    assert "m_u[informed]" in head and "hard" in first


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"clusters": 1},
            (
                "Field `clusters` must be a whole number at least 2 and at most 50, but"
                " is clusters=1."
            ),
        ),
        (
            {"clusters": 51},
            (
                "Field `clusters` must be a whole number at least 2 and at most 50, but"
                " is clusters=51."
            ),
        ),
        ({"clusters": 2.5}, "Field `clusters` must be a whole number"),
        (
            {"sparsity": 0.0},
            (
                "Field `sparsity` must be a number above 0 and at most 1, but is"
                " sparsity=0.0."
            ),
        ),
        (
            {"sparsity": 1.5},
            (
                "Field `sparsity` must be a number above 0 and at most 1, but is"
                " sparsity=1.5."
            ),
        ),
        ({"snr": 0}, "Field `snr` must be a number above 0, but is snr=0"),
        (
            {"snr": float("inf")},
            "Field `snr` must be a number above 0, finite, but is snr=inf.",
        ),
        ({"samples_per_dim": -1}, "Field `samples_per_dim` must be a number above 0"),
        (
            {"mean": "none"},
            (
                "Field `mean` must be one of 'centred' or 'informative', but is"
                " mean='none'."
            ),
        ),
        ({"weights": [0.5, 0.6]}, "Field `weights` must be above 0 and sum to one"),
        ({"weights": [1.5, -0.5]}, "Field `weights` must be above 0 and sum to one"),
        (
            {"weights": [0.2, 0.3, 0.5]},
            "Field `weights` must be left out (equal) or 2 numbers, as clusters",
        ),
        (
            {"weights": [0.3, 0.7], "clusters": 3},
            "Field `weights` must be left out (equal) or 3 numbers, as clusters",
        ),
        (
            {"weights": [0.5, 0.4995, 0.0005], "clusters": 3},
            "Field `weights` must be at least 0.001 each",
        ),
        (
            {"weights": [0.3, 0.7], "mean": "informative"},
            "Field `weights` must be left out (equal) where mean=",
        ),
        ({"sparcity": 0.1}, "did you mean `sparsity`?"),
    ],
)
def test_bad_input_is_one_sentence(change, sentence):
    fields = {"clusters": 2, "sparsity": 0.1, "snr": 1.0, "samples_per_dim": 2.0}
    with pytest.raises(gs.InputError) as caught:
        gs.SubspaceClustering(**{**fields, **change})
    assert sentence in str(caught.value)


def test_weights_do_not_go_with_a_grid_of_clusters():
    with pytest.raises(gs.InputError, match="`clusters`|`weights`"):
        gs.predict(scenario(weights=[0.3, 0.7]), clusters=[2, 3])
