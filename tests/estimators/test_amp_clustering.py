"""The estimator: what it finds, what it says where there is nothing, and data as people
have them.
"""

from __future__ import annotations

import pickle
import re
import sys

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import giantstep as gs
from giantstep.estimators import AMPClustering

EASY = (800, 400, 2, 20, 1.5)


@pytest.fixture
def easy(mixture):
    return mixture(*EASY)


def limit_accuracy(
    n: int, d: int, k: int, active: int, ratio: float, branch: str = "uninformed"
) -> float:
    scenario = gs.SubspaceClustering(
        clusters=k, samples_per_dim=n / d, sparsity=active / d, snr=1.0
    )
    found = gs.predict(scenario, snr=ratio * scenario.threshold)
    return float(found["accuracy"].sel(branch=branch))


class TestWhatItFinds:
    @pytest.mark.parametrize(
        "case", [EASY, (800, 400, 3, 40, 1.6), (400, 800, 2, 80, 1.8)]
    )
    def test_it_is_as_accurate_as_the_limit_without_knowing_a_parameter(
        self, mixture, accuracy, case
    ) -> None:
        """A mean of 4 has a standard error of 0.010 (12 data sets each); PCA with
        k-means fails, 0.08 to 0.15 lower.
        """
        scores = []
        for seed in range(4):
            X, labels, _ = mixture(*case, seed=seed)
            scores.append(
                accuracy(
                    AMPClustering(case[2], random_state=0).fit(3 * X + 7).labels_,
                    labels,
                )
            )
        assert np.mean(scores) == pytest.approx(limit_accuracy(*case), abs=0.035)

    def test_parameters_features_and_means_are_those_of_the_data(self, easy) -> None:
        X, _, means = easy
        model = AMPClustering(random_state=0).fit(2 * X + 5)
        n, d, k, active, ratio = EASY
        assert model.found_ and model.converged_ and model.n_clusters_ == 2
        assert model.snr_ == pytest.approx(ratio * k * np.sqrt(d / n), rel=0.25)
        assert model.sparsity_ == pytest.approx(active / d, rel=0.4)
        assert model.noise_level_ == pytest.approx(np.full(d, 2.0), rel=0.01)
        truly = np.arange(d) < active
        assert (
            model.support_[truly].mean() > 0.4 and model.support_[~truly].mean() < 0.01
        )
        assert np.array_equal(
            model.get_support(indices=True), np.flatnonzero(model.support_)
        )
        difference = model.means_[0] - model.means_[1]
        true = 2 * (means[0] - means[1])
        assert abs(np.corrcoef(difference, true)[0, 1]) > 0.9
        assert model.means_.mean(axis=0) == pytest.approx(
            X.mean(axis=0) * 2 + 5, abs=1e-9
        )

    def test_it_knows_how_accurate_it_is(self, easy, accuracy) -> None:
        X, labels, _ = easy
        model = AMPClustering(random_state=0).fit(X)
        assert model.expected_accuracy_ == pytest.approx(
            accuracy(model.labels_, labels), abs=0.04
        )
        assert model.probabilities_.sum(axis=1) == pytest.approx(np.ones(len(X)))

    def test_fresh_samples_are_labelled_as_well_as_those_of_the_fit(
        self, easy, accuracy
    ) -> None:
        X, labels, means = easy
        model = AMPClustering(random_state=0).fit(X)
        rng = np.random.default_rng(9)
        truth = rng.integers(2, size=4000)
        fresh = means[truth] + rng.standard_normal((4000, X.shape[1]))
        probabilities = model.predict_proba(fresh)
        assert np.array_equal(model.predict(fresh), probabilities.argmax(axis=1))
        assert accuracy(model.predict(fresh), truth) == pytest.approx(
            accuracy(model.labels_, labels), abs=0.04
        )
        assert probabilities.max(axis=1).mean() == pytest.approx(
            accuracy(model.predict(fresh), truth), abs=0.04
        )

    def test_few_active_features_are_found_in_the_hard_phase(
        self, mixture, accuracy
    ) -> None:
        case = (1500, 750, 2, 3, 0.85)
        assert limit_accuracy(*case) == pytest.approx(0.5)
        X, labels, _ = mixture(*case)
        model = AMPClustering(random_state=0).fit(X)
        assert (
            model.start_ == "thresholding"
            and model.support_[:3].all()
            and model.support_.sum() < 10
        )
        assert accuracy(model.labels_, labels) == pytest.approx(
            limit_accuracy(*case, branch="bayes"), abs=0.04
        )

    def test_plain_clusters_in_few_dimensions_are_found_too(self, accuracy) -> None:
        data = load_iris()
        model = AMPClustering(3, random_state=0).fit(data.data)
        assert accuracy(model.labels_, data.target) > 0.9

    def test_clusters_just_above_the_threshold_are_more_than_chance(
        self, mixture
    ) -> None:
        """As many as AMP can find at d = 400: the test of the noise costs next to
        nothing there.
        """
        models = [
            AMPClustering(random_state=0).fit(
                mixture(800, 400, 2, 20, 1.2, seed=seed)[0]
            )
            for seed in range(4)
        ]
        assert all(model.found_ and model.p_value_ < 1e-3 for model in models)

    def test_heavy_tails_do_not_hide_clusters(self, mixture, accuracy) -> None:
        X, labels, means = mixture(800, 200, 2, 20, 3.0)
        noise = np.random.default_rng(0).standard_t(5, X.shape) / np.sqrt(5 / 3)
        model = AMPClustering(random_state=0).fit(means[labels] + noise)
        assert model.found_ and accuracy(model.labels_, labels) > 0.8

    @pytest.mark.parametrize("share", [0.1, 0.25])
    def test_clusters_of_unequal_sizes_are_found(self, accuracy, share) -> None:
        rng = np.random.default_rng(2)
        labels = (rng.random(800) < share).astype(int)
        X = rng.standard_normal((800, 300))
        X[:, :10] += 1.4 * labels[:, None]
        model = AMPClustering(random_state=0).fit(X)
        assert accuracy(model.labels_, labels) > 0.97
        assert np.sort(model.weights_) == pytest.approx([share, 1 - share], abs=0.03)

    def test_the_fit_does_not_hold_the_data(self, easy) -> None:
        assert (
            len(pickle.dumps(AMPClustering(random_state=0).fit(easy[0])))
            < easy[0].nbytes / 10
        )

    def test_given_parameters_are_used(self, easy) -> None:
        model = AMPClustering(
            sparsity=0.1, snr=3.0, noise_level=1.0, random_state=0
        ).fit(easy[0])
        assert model.sparsity_ == 0.1 and model.snr_ == pytest.approx(3.0)
        assert np.all(model.noise_level_ == 1.0)
        assert AMPClustering(sparsity=0.1, random_state=0).fit(easy[0]).sparsity_ == 0.1
        assert AMPClustering(snr=3.0, random_state=0).fit(
            easy[0]
        ).snr_ == pytest.approx(3.0)

    @pytest.mark.parametrize(("k", "active"), [(2, 15), (3, 20), (4, 30)])
    def test_the_number_of_clusters_is_chosen_by_evidence(
        self, mixture, k, active
    ) -> None:
        X, _, _ = mixture(500, 250, k, active, 2.0)
        model = AMPClustering("auto", max_clusters=5, random_state=0).fit(X)
        assert (
            model.n_clusters_
            == k
            == len(model.means_)
            == max(model.evidence_by_clusters_, key=model.evidence_by_clusters_.get)
        )

    def test_more_clusters_than_tried_are_pointed_out(self, mixture) -> None:
        with pytest.warns(gs.GiantstepWarning, match="still grows at max_clusters=3"):
            AMPClustering("auto", max_clusters=3, random_state=0).fit(
                mixture(500, 250, 4, 30, 2.5)[0]
            )

    def test_an_integer_makes_it_repeatable(self, easy) -> None:
        first, second = (AMPClustering(random_state=3).fit(easy[0]) for _ in range(2))
        assert np.array_equal(first.probabilities_, second.probabilities_)

    def test_it_goes_into_a_pipeline(self, easy, accuracy) -> None:
        labels = make_pipeline(
            StandardScaler(), AMPClustering(random_state=0)
        ).fit_predict(easy[0])
        assert accuracy(labels, easy[1]) > 0.75


LAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "t 5": lambda rng, shape: rng.standard_t(5, shape),
    "t 3": lambda rng, shape: rng.standard_t(3, shape),
    "t 1.5": lambda rng, shape: rng.standard_t(1.5, shape),
    "binary": lambda rng, shape: 1.0 * (rng.random(shape) < 0.5),
    "rare": lambda rng, shape: 1.0 * (rng.random(shape) < 0.05),
    "counts": lambda rng, shape: 1.0 * rng.poisson(1.0, shape),
    "units": lambda rng, shape: (
        rng.standard_normal(shape) * np.exp(2 * rng.standard_normal(shape[1]))
    ),
}


def draw_noise(law: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    return LAWS[law](np.random.default_rng([seed, *law.encode()]), shape)


class TestWhereThereIsNothing:
    def test_pure_noise_is_one_cluster_and_says_so(self) -> None:
        X = np.random.default_rng(0).standard_normal((400, 200))
        with pytest.warns(gs.GiantstepWarning, match="No clusters were found"):
            model = AMPClustering(3, random_state=0).fit(X)
        assert (
            not model.found_
            and model.n_clusters_ == 1
            and not model.labels_.any()
            and not model.support_.any()
        )
        assert model.p_value_ > 0.01 and model.snr_ == 0 and np.isnan(model.sparsity_)
        assert (
            np.array_equal(model.predict_proba(X[:3]), np.ones((3, 1)))
            and not model.predict(X).any()
        )
        assert model.means_ == pytest.approx(X.mean(axis=0)[None])

    @pytest.mark.filterwarnings("ignore:No clusters")
    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize(
        "law",
        ["heavy tails", "skewed", "noisier columns", "other units", "wide", "small"],
    )
    def test_strange_noise_is_no_cluster(self, law, seed) -> None:
        rng = np.random.default_rng(seed)
        X = rng.standard_normal(
            {"wide": (80, 300), "small": (50, 5)}.get(law, (300, 100))
        )
        if law == "heavy tails":
            X = rng.standard_t(5, X.shape)
        elif law == "skewed":
            X = rng.exponential(size=X.shape)
        elif law == "noisier columns":
            X[:, :5] *= [1.2, 1.5, 2, 3, 10]
        elif law == "other units":
            X = X * np.exp(
                3 * rng.standard_normal(X.shape[1])
            ) + 100 * rng.standard_normal(X.shape[1])
        assert not AMPClustering("auto", max_clusters=3, random_state=0).fit(X).found_

    @pytest.mark.filterwarnings("ignore:No clusters")
    def test_the_evidence_alone_would_raise_alarms_where_ranks_do_not(self) -> None:
        models = [
            AMPClustering(random_state=0).fit(draw_noise("t 1.5", (100, 40), seed))
            for seed in range(6)
        ]
        assert max(model.evidence_ for model in models) > 5 and not any(
            model.found_ for model in models
        )

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore:No clusters")
    @pytest.mark.parametrize("shape", [(200, 100), (60, 150), (50, 5)])
    def test_false_alarms_are_as_rare_as_they_are_said_to_be(self, shape) -> None:
        """320 fits each; at a rate of 1% more than 10 alarms have a chance below 0.1%,
        and none bounds it by 0.94%.
        """
        tried = [
            AMPClustering((2, 3, "auto")[seed % 3], max_clusters=4, random_state=0).fit(
                draw_noise(law, shape, seed)
            )
            for law in LAWS
            for seed in range(320 // len(LAWS))
        ]
        alarms = sum(model.found_ for model in tried)
        assert alarms <= scipy.stats.binom.ppf(0.999, len(tried), 0.01)

    def test_one_cluster_can_be_asked_for(self) -> None:
        model = AMPClustering(1).fit(np.random.default_rng(0).standard_normal((20, 5)))
        assert not model.found_ and not model.labels_.any()

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_clusters_can_be_had_at_any_chance(self) -> None:
        X = np.random.default_rng(3).standard_normal((300, 150))
        model = AMPClustering(2, false_alarm=1.0, snr=1.9, sparsity=0.5, random_state=0)
        assert set(model.fit(X).labels_) == {0, 1} or model.evidence_ == 0

    def test_a_run_that_was_cut_short_says_so(self, easy) -> None:
        with pytest.warns(ConvergenceWarning, match="did not converge"):
            model = AMPClustering(max_iter=3, random_state=0).fit(easy[0])
        assert not model.converged_ and model.n_iter_ >= 3


class TestDataAsPeopleHaveThem:
    def test_units_and_offsets_of_the_columns_do_not_matter_much(
        self, easy, accuracy
    ) -> None:
        X, labels, _ = easy
        rng = np.random.default_rng(1)
        units = np.exp(3 * rng.standard_normal(X.shape[1]))
        offsets = 100 * rng.standard_normal(X.shape[1])
        model = AMPClustering(random_state=0).fit(X * units + offsets)
        assert (
            accuracy(model.labels_, labels)
            > accuracy(AMPClustering(random_state=0).fit(X).labels_, labels) - 0.03
        )
        assert model.noise_level_ == pytest.approx(units, rel=0.15)

    @pytest.mark.filterwarnings("ignore:10 of 410 columns are constant")
    def test_constant_columns_change_nothing(self, easy) -> None:
        X = easy[0]
        plain = AMPClustering(random_state=0).fit(X)
        wide = np.hstack([np.full((len(X), 7), 0.1), X, np.zeros((len(X), 3))])
        model = AMPClustering(random_state=0).fit(wide)
        assert np.array_equal(model.labels_, plain.labels_)
        assert not model.support_[:7].any() and np.array_equal(
            model.support_[7:-3], plain.support_
        )
        assert not model.noise_level_[:7].any() and model.means_[
            :, :7
        ] == pytest.approx(0.1)
        assert model.predict(wide[:5]).shape == (5,)

    @pytest.mark.filterwarnings(
        "ignore:No clusters", "ignore:4 of 4 columns are constant"
    )
    def test_columns_that_are_all_constant_are_no_clusters(self) -> None:
        assert not AMPClustering(random_state=0).fit(np.ones((20, 4))).found_

    def test_single_precision_gives_the_same_labels(self, easy) -> None:
        X = easy[0].astype(np.float32)
        same = (
            AMPClustering(random_state=0).fit(X).labels_
            == AMPClustering(random_state=0).fit(X.astype(float)).labels_
        )
        assert same.all()

    @pytest.mark.parametrize(("value", "said"), [(np.nan, "NaN"), (np.inf, "inf")])
    def test_missing_values_are_refused_with_their_place(
        self, easy, value, said
    ) -> None:
        X = easy[0].copy()
        X[4, 2] = value
        with pytest.raises(
            gs.InputError, match=rf"{said}.*1 of 320000 entries.*row 4, column 2"
        ):
            AMPClustering().fit(X)
        with pytest.raises(ValueError, match="row 4, column 2"):
            AMPClustering(random_state=0).fit(easy[0]).predict(X)

    def test_huge_finite_numbers_are_not_infinite(self) -> None:
        X = np.random.default_rng(0).standard_normal((30, 4))
        X[:, 0] *= 1e150
        with pytest.warns(gs.GiantstepWarning, match="No clusters"):
            AMPClustering(random_state=0).fit(X)

    def test_sparse_matrices_are_refused(self) -> None:
        with pytest.raises(TypeError, match="dense"):
            AMPClustering().fit(scipy.sparse.csr_matrix(np.eye(10)))

    def test_fewer_rows_than_clusters_are_refused_in_a_sentence(self) -> None:
        with pytest.raises(
            gs.InputError,
            match=r"^n_samples=3 should be >= n_clusters=4: .* rows than clusters\.$",
        ):
            AMPClustering(4).fit(np.eye(3))
        with pytest.raises(gs.InputError, match="n_features=2 is too few"):
            AMPClustering(4).fit(np.random.default_rng(0).standard_normal((10, 2)))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("n_clusters", 0),
            ("n_clusters", 2.5),
            ("n_clusters", "many"),
            ("n_clusters", True),
            ("sparsity", 0.0),
            ("sparsity", 1.1),
            ("sparsity", "some"),
            ("snr", -1.0),
            ("snr", np.inf),
            ("noise_level", "loud"),
            ("noise_level", 0.0),
            ("noise_level", [1.0, 2.0]),
            ("max_iter", 0),
            ("false_alarm", np.nan),
            ("false_alarm", 0.0),
        ],
    )
    def test_bad_parameters_are_refused_by_name(self, name, value) -> None:
        with pytest.raises(gs.InputError, match=re.escape(f"Field `{name}` must be")):
            AMPClustering(**{name: value}).fit(
                np.random.default_rng(0).standard_normal((20, 5))
            )

    def test_bad_max_clusters_are_refused(self) -> None:
        with pytest.raises(gs.InputError, match="max_clusters"):
            AMPClustering("auto", max_clusters=1).fit(np.eye(5))


def test_without_scikit_learn_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(
        ImportError, match=r"needs scikit-learn.*giantstep\[estimators\]"
    ):
        gs.estimators.AMPClustering  # noqa: B018
