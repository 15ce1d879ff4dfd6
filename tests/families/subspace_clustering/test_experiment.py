"""AMP on real matrices: it follows state evolution, from every start, and says when it
finds nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy

import giantstep as gs
from giantstep.core.lab.algebra import leading_vectors
from giantstep.problems.subspace_clustering.amp import amp, spectral_snr, starting_point
from giantstep.problems.subspace_clustering.mixture import (
    ClusterMixture,
    cluster_directions,
)

from .test_limit import scenario

LEARN = {"max_iterations": 2000, "learn": ("sparsity", "snr")}
FINITE_SIZE = 12.0
"""Relative gaps up to this over d are granted beyond chance; at d = 600 that is 2 %."""


def draw(k=2, alpha=2.0, rho=0.1, ratio=2.0, d=300, seed=0, rows=None):
    """Return (X, labels, snr) with exactly balanced clusters and rho d active features
    of equal strength.
    """
    rng = np.random.default_rng(seed)
    n = round(alpha * d)
    s = round(rho * d)
    snr = ratio * k / np.sqrt(alpha)
    n = n if rows is None else rows
    V = np.zeros((d, k - 1))
    V[:s] = np.linalg.qr(rng.standard_normal((s, k - 1)))[0] * np.sqrt(s)
    labels = np.arange(n) % k
    return (
        np.sqrt(snr / s) * scipy.linalg.helmert(k).T[labels] @ V.T
        + rng.standard_normal((n, d)),
        labels,
        snr,
    )


def best_accuracy(found, labels, k):
    from scipy.optimize import linear_sum_assignment

    table = np.array(
        [[np.sum((found == a) & (labels == b)) for b in range(k)] for a in range(k)]
    )
    return table[linear_sum_assignment(-table)].sum() / len(labels)


def judged(result, names, allow):
    """Check the named variables of a comparison; return the report by name."""
    report = gs.agreement(result)
    rows = {row.variable: row for row in report.rows}
    assert set(names) <= set(rows)
    for name in names:
        assert rows[name].points > 0 and rows[name].passes(allow), f"{name}\n{report}"
    return rows


@pytest.mark.parametrize(
    ("k", "alpha", "rho", "ratio", "start"),
    [
        (2, 2.0, 0.1, 1.6, "spectral"),
        (2, 0.5, 0.2, 1.8, "random"),
        (2, 1.0, 1.0, 2.0, "spectral"),
        (3, 2.0, 0.1, 1.5, "spectral"),
        (5, 2.0, 0.2, 1.6, "random"),
    ],
)
def test_amp_reaches_the_fixed_point(k, alpha, rho, ratio, start):
    d = 600
    result = gs.compare(scenario(k, alpha, rho, ratio), dim=d, trials=12, start=start)
    names = ("m_u", "m_v", "mse_u", "mse_v", "accuracy", "tpr", "fpr", "phi")
    rows = judged(result, names, FINITE_SIZE / d)
    # what a wrong formula would have to hide below
    assert rows["accuracy"].smallest_visible < 0.05
    measured = result.sel(source="experiment")
    assert float(measured.amp_converged) > 0.9
    assert np.isnan(measured.m_u.sel(branch=["informed", "bayes"])).all()
    assert np.isfinite(measured.m_u.sel(branch="uninformed"))


def test_a_wrong_formula_is_seen():
    """The same experiment against the theory of one cluster more, or of half the
    sparsity: both fail.
    """
    d = 600
    s = scenario(3, 2.0, 0.1, 1.5)
    measured = gs.simulate(s, dim=d, trials=20).sel(branch="uninformed")
    for wrong in (s.replace(clusters=4), s.replace(sparsity=0.05)):
        limit = gs.predict(wrong).sel(branch="uninformed")
        gaps = [
            abs(float(measured[n] - limit[n])) / float(measured[n + "_stderr"])
            for n in ("m_u", "accuracy", "tpr")
        ]
        assert max(gaps) > 5


def test_amp_follows_state_evolution_step_by_step():
    d = 800
    result = gs.compare(
        scenario(3, 2.0, 0.1, 1.5),
        dim=d,
        trials=10,
        what="trajectory",
        steps=6,
        overlap=0.15,
    )
    judged(result, ("m_u", "m_v", "mse_u", "accuracy"), FINITE_SIZE / d)
    assert result.m_u.dims == ("source", "time")
    assert float(result.m_u.sel(source="experiment", time=0)) == pytest.approx(
        0.15, abs=0.01
    )


def test_without_the_onsager_terms_it_would_not():
    """The naive iteration leaves state evolution by far more than the experiment's
    error.
    """
    rho = 0.1
    d = 600
    gaps = []
    for seed in range(6):
        X, labels, snr = draw(2, 2.0, rho, 1.5, d, seed)
        Q = cluster_directions([0.5, 0.5])
        tau = snr / (rho * d)
        U = starting_point(
            X, ClusterMixture(2, rho, snr), "informed", truth=labels, overlap=0.15
        )
        for _ in range(5):
            A = float((U**2).sum())
            B = X.T @ U
            mu = B / (1 / tau + A)
            pi = 1 / (
                1
                + np.exp(
                    -(B * mu / 2 - np.log1p(tau * A) / 2 + np.log(rho / (1 - rho)))
                )
            )
            V = pi * mu
            U = np.tanh((X @ V) / np.sqrt(2)) / np.sqrt(2)
        gaps.append(2 * (U[:, 0] * Q[labels, 0]).mean())
    expected = gs.predict(
        scenario(2, 2.0, rho, 1.5), what="trajectory", overlap=0.15, steps=5
    ).m_u.values[5]
    naive = np.mean(gaps), np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    followed = gs.simulate(
        scenario(2, 2.0, rho, 1.5),
        dim=d,
        trials=6,
        what="trajectory",
        overlap=0.15,
        steps=5,
    )
    assert abs(naive[0] - expected) > 5 * naive[1]
    assert abs(float(followed.m_u[5]) - expected) < 4 * float(followed.m_u_stderr[5])


def test_in_the_hard_phase_only_knowledge_helps():
    d = 800
    s = scenario(2, 2.0, 0.05, 0.9)
    blind = gs.simulate(s, dim=d, trials=6, start="random").sel(branch="uninformed")
    assert float(blind.m_u) < 0.1  # 0.33 is possible
    informed = gs.compare(s, dim=d, trials=10, start="informed")
    # close to the spinodal finite-size terms are large: 64/d
    judged(informed, ("m_u", "accuracy"), 0.08)
    assert float(informed.m_u.sel(source="experiment", branch="informed")) > 0.2
    assert np.isnan(float(informed.m_u.sel(source="experiment", branch="uninformed")))


def test_few_active_features_are_found_by_their_variance():
    """Inside the hard phase a start from the columns of largest variance works where so
    few are active.
    """
    s = scenario(2, 2.0, 0.01, 0.8)
    accuracy = {
        start: float(
            gs.simulate(s, dim=500, trials=6, start=start).accuracy.sel(
                branch="uninformed"
            )
        )
        for start in ("random", "thresholding")
    }
    assert accuracy["thresholding"] > 0.7
    assert accuracy["random"] < 0.65


def test_an_informative_mean_is_used():
    d = 600
    s = scenario(2, 2.0, 0.1, 1.0, mean="informative")
    judged(
        gs.compare(s, dim=d, trials=10, start="random"),
        ("m_u", "m_v", "accuracy"),
        FINITE_SIZE / d,
    )
    measured = gs.simulate(
        scenario(2, 2.0, 0.1, 0.8, mean="informative"),
        dim=d,
        trials=4,
        start="spectral",
    )
    # centred data gives zero there
    assert float(measured.m_u.sel(branch="uninformed")) > 0.1
    trajectory = gs.compare(s, dim=d, trials=8, what="trajectory", steps=4)
    judged(trajectory, ("m_u", "m_v"), FINITE_SIZE / d)


def test_unequal_weights_break_the_sign():
    d = 600
    s = scenario(2, 2.0, 0.1, 1.5, weights=[0.2, 0.8])
    result = gs.compare(s, dim=d, trials=12)
    judged(result, ("m_u", "m_v", "mse_u", "accuracy", "phi"), 2 * FINITE_SIZE / d)


def test_three_unequal_clusters_are_told_apart():
    """A run that takes one cluster for another would lower m_u by a third."""
    d = 600
    s = gs.SubspaceClustering(
        clusters=3, sparsity=0.1, snr=5.0, samples_per_dim=2.0, weights=[0.5, 0.3, 0.2]
    )
    result = gs.compare(s, dim=d, trials=8)
    rows = judged(
        result, ("m_u", "m_v", "mse_u", "accuracy", "tpr", "phi"), 2 * FINITE_SIZE / d
    )
    assert rows["accuracy"].smallest_visible < 0.02
    trajectory = gs.compare(s, dim=d, trials=8, what="trajectory", steps=5, overlap=0.2)
    judged(trajectory, ("m_u", "m_v", "accuracy"), FINITE_SIZE / d)
    assert float(trajectory.m_u.sel(source="experiment", time=0)) == pytest.approx(
        0.2, abs=0.01
    )


def test_two_unequal_clusters_start_where_they_are_told():
    d = 600
    s = scenario(2, 2.0, 0.1, 1.5, weights=[0.8, 0.2])
    result = gs.compare(s, dim=d, trials=8, what="trajectory", steps=4, overlap=0.3)
    judged(result, ("m_u", "m_v", "mse_u", "accuracy"), FINITE_SIZE / d)
    assert float(result.m_u.sel(source="experiment", time=0)) == pytest.approx(
        0.3, abs=0.02
    )


def test_clusters_of_the_same_weight_may_change_names():
    s = gs.SubspaceClustering(
        clusters=4,
        sparsity=0.2,
        snr=6.0,
        samples_per_dim=2.0,
        weights=[0.4, 0.2, 0.2, 0.2],
    )
    measured = gs.simulate(s, dim=300, trials=3)
    assert float(measured.m_u.sel(branch="uninformed")) == pytest.approx(
        0.7614, abs=0.08
    )


def test_rivals_run_on_the_same_data():
    """Few active features, above the threshold: AMP leads PCA by 0.11 in the limit;
    k-means of the raw data is lost.
    """
    s = scenario(2, 2.0, 0.02, 1.5)
    accuracy = gs.compare(s, dim=300, trials=3, what="rivals").accuracy.sel(
        source="experiment"
    )
    best = accuracy.sel(algorithm="amp-thresholding")
    assert (
        best > accuracy.sel(algorithm="pca") + 0.03
        and best > accuracy.sel(algorithm="kmeans") + 0.1
    )
    assert np.isfinite(accuracy.sel(algorithm=["sparse-pca", "thresholding"])).all()
    assert np.isnan(accuracy.sel(algorithm="bayes"))
    some = gs.simulate(
        s, dim=100, trials=2, what="rivals", algorithms="pca, amp"
    ).accuracy
    assert some.algorithm.values[np.isfinite(some.values)].tolist() == ["amp", "pca"]
    with pytest.raises(gs.InputError, match="`algorithms` must be all, or some of amp"):
        gs.simulate(s, dim=100, trials=2, what="rivals", algorithms="amp, magic")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"rival": "magic"},
            "`rival` must be one of pca, sparse-pca, thresholding, kmeans",
        ),
        ({"clusters": 1}, "`clusters` must be at least 2"),
        ({"rival": "thresholding"}, "`active` must be the number of active features"),
        ({"active": 99}, "`active` must be at least 1 and at most 10"),
        ({"X": np.full((20, 10), np.nan)}, "finite numbers"),
    ],
)
def test_bad_input_to_the_rivals_is_one_sentence(change, said):
    given = {
        "X": np.random.default_rng(0).standard_normal((20, 10)),
        "clusters": 2,
        "rival": "pca",
        **change,
    }
    with pytest.raises(gs.InputError, match=said):
        gs.estimators.rival_labels(
            given.pop("X"), given.pop("clusters"), given.pop("rival"), **given
        )


def test_the_penalty_of_sparse_pca_leaves_as_many_features():
    from sklearn.decomposition import SparsePCA

    from giantstep.problems.subspace_clustering.rivals import sparse_penalty

    X, _, _ = draw(2, 2.0, 0.1, 2.0, 120)
    model = SparsePCA(1, alpha=sparse_penalty(X, 12), random_state=0).fit(X)
    assert abs(np.count_nonzero(model.components_[0]) - 12) <= 2


def test_random_instances_have_the_same_limit():
    d = 600
    result = gs.compare(scenario(2, 2.0, 0.3, 2.0), dim=d, trials=16, instance="random")
    judged(result, ("m_u", "m_v", "accuracy", "tpr"), FINITE_SIZE / d)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("k", "alpha", "rho", "ratio", "d"),
    [(2, 2.0, 0.05, 1.5, 4000), (3, 2.0, 0.1, 1.3, 3000), (4, 1.0, 0.3, 1.5, 4000)],
)
def test_amp_reaches_the_fixed_point_at_large_dimension(k, alpha, rho, ratio, d):
    result = gs.compare(scenario(k, alpha, rho, ratio), dim=d, trials=10, seed=1)
    judged(
        result, ("m_u", "m_v", "mse_u", "mse_v", "accuracy", "tpr", "fpr", "phi"), 2 / d
    )
    trajectory = gs.compare(
        scenario(k, alpha, rho, ratio),
        dim=d,
        trials=10,
        seed=2,
        what="trajectory",
        steps=8,
    )
    judged(trajectory, ("m_u", "m_v", "mse_u", "mse_v", "accuracy"), 2 / d)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_amp_follows_state_evolution_at_ten_thousand_dimensions():
    """Finite-size terms of 24/d, as at d = 400 ... 1600, would be a quarter of a
    percent: too small to be seen here.
    """
    d = 10_000
    result = gs.compare(
        scenario(2, 0.5, 0.2, 1.8),
        dim=d,
        trials=10,
        seed=3,
        what="trajectory",
        steps=8,
        overlap=0.2,
    )
    rows = judged(result, ("m_u", "m_v", "mse_u", "mse_v", "accuracy"), 2 / d)
    assert (
        rows["m_u"].smallest_visible < 0.05 and rows["accuracy"].smallest_visible < 0.02
    )


# -- the table -------------------------------------------------------------------------


def test_more_points_and_more_rows_change_no_number():
    s = scenario(2, 2.0, 0.2, 1.5)
    alone = gs.simulate(s, dim=100, trials=2)
    grid = gs.simulate(
        s, dim=100, trials=2, samples_per_dim=[0.5, 2.0, 12.0], snr=[1.0, s.snr]
    )
    np.testing.assert_array_equal(alone.m_u, grid.m_u.isel(samples_per_dim=1, snr=1))
    other = gs.simulate(s, dim=100, trials=2, seed=1)
    assert not np.array_equal(
        alone.m_u.sel(branch="uninformed"), other.m_u.sel(branch="uninformed")
    )


def test_trials_are_kept_with_their_branch():
    kept = gs.simulate(
        scenario(2, 2.0, 0.2, 1.5), dim=60, trials=3, keep_trials=True, start="informed"
    )
    assert kept.m_u.dims == ("trial", "branch")
    assert (
        np.isfinite(kept.m_u.sel(branch="informed")).all()
        and np.isnan(kept.m_u.sel(branch="bayes")).all()
    )


def test_a_run_that_stops_early_is_told():
    measured = gs.simulate(
        scenario(2, 2.0, 0.2, 1.2), dim=200, trials=2, max_iterations=2
    )
    assert float(measured.amp_converged) == 0 and float(measured.amp_iterations) == 2
    assert np.isfinite(measured.m_u.sel(branch="uninformed"))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ({"dim": 10}, "Field `dim` must be large enough for 2 active features"),
        ({"dim": 2}, "Field `dim` must be large enough for 3 samples and 3 features"),
        (
            {"dim": 60, "start": "best"},
            "Field `start` must be one of spectral, random, thresholding, informed",
        ),
        (
            {"dim": 60, "overlap": 1.0},
            "Field `overlap` must be a number above 0 and below 1, but is overlap=1.0.",
        ),
        (
            {"dim": 60, "max_iterations": 0},
            "Field `max_iterations` must be a whole number at least 1",
        ),
        (
            {"dim": 60, "instance": "fair"},
            "Field `instance` must be one of balanced, random",
        ),
    ],
)
def test_bad_settings_are_one_sentence(call, sentence):
    with pytest.raises(gs.InputError) as caught:
        gs.simulate(scenario(3, 2.0, 0.1, 1.5), trials=2, **call)
    assert sentence in str(caught.value)


def test_memory_is_refused_beforehand():
    with pytest.raises(gs.InputError, match="memory"):
        gs.simulate(scenario(), dim=2_000_000, trials=1)


# -- the algorithm ---------------------------------------------------------------------


def test_the_basis_is_orthonormal_and_centred():
    for k in (2, 3, 7):
        Q = scipy.linalg.helmert(k).T
        np.testing.assert_allclose(Q.T @ Q, np.eye(k - 1), atol=1e-14)
        np.testing.assert_allclose(Q.sum(axis=0), 0, atol=1e-14)
        np.testing.assert_allclose((Q**2).sum(axis=1), 1 - 1 / k)
    w = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(w @ cluster_directions(w), 0, atol=1e-15)


def test_the_spectrum_tells_the_snr():
    X, _, snr = draw(3, 2.0, 0.2, 2.5, 600)
    rng = np.random.default_rng(0)
    _, values = leading_vectors(X, 2, rng)
    assert spectral_snr(values, 3, *X.shape) == pytest.approx(snr, rel=0.1)
    noise = np.random.default_rng(1).standard_normal((600, 300))
    assert spectral_snr(
        leading_vectors(noise, 1, rng)[1], 2, 600, 300
    ) == pytest.approx(1.05 * np.sqrt(2), rel=0.25)


def test_fresh_samples_are_assigned_as_well():
    X, labels, snr = draw(2, 2.0, 0.1, 2.0, 500, rows=3000)
    X *= 1.0
    run = amp(X[:1000], ClusterMixture(2, 0.1, snr))
    fresh = run.assign(X[1000:])
    np.testing.assert_allclose(fresh.sum(axis=1), 1)
    expected = float(
        gs.predict(scenario(2, 2.0, 0.1, 2.0)).accuracy.sel(branch="bayes")
    )
    assert best_accuracy(fresh.argmax(axis=1), labels[1000:], 2) == pytest.approx(
        expected, abs=0.03
    )
    assert (
        run.means.shape == (500, 2)
        and run.posteriors.shape == (1000, 2)
        and run.converged
    )
    np.testing.assert_allclose(
        run.assignments, run.posteriors @ run.mixture.directions, atol=1e-12
    )


def test_order_of_rows_and_columns_and_signs_do_not_matter():
    X, labels, snr = draw(3, 2.0, 0.2, 2.0, 150)
    U = starting_point(X, ClusterMixture(3, 0.2, snr), "informed", truth=labels)
    rng = np.random.default_rng(3)
    rows = rng.permutation(len(X))
    columns = rng.permutation(X.shape[1])
    one = amp(X, ClusterMixture(3, 0.2, snr), U)
    two = amp(X[rows][:, columns], ClusterMixture(3, 0.2, snr), U[rows])
    np.testing.assert_allclose(one.posteriors[rows], two.posteriors, atol=1e-8)
    np.testing.assert_allclose(one.support[columns], two.support, atol=1e-8)
    assert one.log_evidence == pytest.approx(two.log_evidence, rel=1e-8)
    again = amp(np.asfortranarray(X), ClusterMixture(3, 0.2, snr), U)
    np.testing.assert_allclose(one.posteriors, again.posteriors, atol=1e-10)


def test_noise_has_no_clusters():
    for seed in range(4):
        X = np.random.default_rng(seed).standard_normal((600, 300))
        run = amp(
            X,
            ClusterMixture(2, 0.1, 0.8 * np.sqrt(2)),
            generator=np.random.default_rng(seed),
        )
        assert run.outcome in ("trivial", "converged") and run.log_evidence < 5


def test_it_learns_what_it_is_not_told():
    X, labels, snr = draw(2, 2.0, 0.05, 1.8, 800)
    told = amp(X, ClusterMixture(2, 0.05, snr))
    learnt = amp(X, ClusterMixture(2, 0.2, 1.3 * snr), **LEARN)
    assert learnt.converged
    assert learnt.mixture.sparsity == pytest.approx(0.05, rel=0.6)
    assert learnt.mixture.snr == pytest.approx(snr, rel=0.3)
    accuracies = [best_accuracy(run.labels, labels, 2) for run in (told, learnt)]
    assert accuracies[1] == pytest.approx(accuracies[0], abs=0.02)


def test_the_number_of_clusters_has_the_largest_evidence():
    X, _, snr = draw(3, 2.0, 0.1, 1.8, 500)
    evidence = {
        k: amp(X, ClusterMixture(k, 0.1, snr * k / 3), **LEARN).log_evidence
        for k in (2, 3, 4)
    }
    assert max(evidence, key=evidence.get) == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"X": np.zeros(5)}, "Field `X` must be a matrix with a row for each sample"),
        ({"X": np.zeros((1, 5))}, "Field `X` must be a matrix with at least 2 rows"),
        (
            {"X": np.full((9, 5), np.nan)},
            "Field `X` must be a matrix of finite real numbers",
        ),
        (
            {"X": np.zeros((9, 5), dtype=int)},
            "Field `X` must be a matrix of finite real numbers",
        ),
        (
            {"clusters": 1},
            "Field `clusters` must be a whole number at least 2, but is clusters=1.",
        ),
        ({"clusters": 2.0}, "Field `clusters` must be a whole number at least 2"),
        ({"sparsity": 0.0}, "Field `sparsity` must be a number above 0 and at most 1"),
        ({"snr": np.inf}, "Field `snr` must be a number above 0, finite"),
        ({"tolerance": 0.0}, "Field `tolerance` must be a number above 0"),
        (
            {"max_iterations": 0},
            "Field `max_iterations` must be a whole number at least 1",
        ),
        ({"mean": "none"}, 'Field `mean` must be "centred" or "informative"'),
        (
            {"start": "best"},
            "Field `start` must be one of spectral, random, thresholding, informed",
        ),
        ({"start": np.zeros((3, 3))}, "Field `start` must be one of spectral"),
        ({"start": "informed"}, "Field `truth` must be the true labels"),
        (
            {"weights": [0.5, 0.4]},
            "Field `weights` must be numbers that sum to one (they sum to 0.9)",
        ),
        ({"weights": [1.0, 0.0]}, "Field `weights` must be all above 0"),
        (
            {"weights": [1.0]},
            "Field `weights` must be a list of 2 numbers, one for each cluster",
        ),
    ],
)
def test_bad_input_to_amp_is_one_sentence(change, sentence):
    given = {"clusters": 2, "sparsity": 0.5, "snr": 1.0, **change}
    X = given.pop("X", np.random.default_rng(0).standard_normal((20, 10)))
    start = given.pop("start", "spectral")
    settings = {
        name: given.pop(name)
        for name in ("tolerance", "max_iterations")
        if name in given
    }
    with pytest.raises(gs.InputError) as caught:
        amp(X, ClusterMixture(**given), start, **settings)
    assert sentence in str(caught.value)


def test_the_overlap_of_a_start_is_checked():
    with pytest.raises(gs.InputError, match="`overlap` must be above 0 and below 1"):
        starting_point(
            np.zeros((4, 3)),
            ClusterMixture(2, 0.5, 1.0),
            "informed",
            truth=np.zeros(4, int),
            overlap=1.0,
        )


@pytest.mark.gpu
def test_a_gpu_agrees_too():
    d = 1000
    result = gs.compare(scenario(3, 2.0, 0.1, 1.5), dim=d, trials=10, device="cuda")
    judged(result, ("m_u", "m_v", "accuracy", "tpr", "phi"), FINITE_SIZE / d)
    trajectory = gs.compare(
        scenario(3, 2.0, 0.1, 1.5), dim=d, trials=10, device="cuda", what="trajectory"
    )
    judged(trajectory, ("m_u", "m_v"), FINITE_SIZE / d)
