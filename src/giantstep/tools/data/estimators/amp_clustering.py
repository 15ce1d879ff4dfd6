"""Clustering with few relevant features by approximate message passing, as a
scikit-learn estimator.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from giantstep.core.base.columns import warn_of_constant
from giantstep.core.base.errors import GiantstepWarning, InputError, bad_field
from giantstep.core.base.types import Array, Floats, Integers
from giantstep.core.scenario.checks import check_number, check_whole
from giantstep.tools.data.estimators.detection import FALSE_ALARM
from giantstep.tools.data.estimators.fitting import (
    Clusters,
    Options,
    fit_clusters,
    numbers_to_try,
)
from giantstep.tools.data.estimators.matrices import check_finite, standardise


class AMPClustering(ClusterMixin, BaseEstimator):
    """Clustering of data in which few features tell the clusters apart, by approximate
    message passing.

    The model is a Gaussian mixture whose means differ in a fraction `sparsity` of the
    features only. Message passing is the best fast method known for it, and state
    evolution predicts its accuracy exactly in high dimension: `giantstep.place` says
    whether a dataset is easy, hard or impossible. Noise level, signal strength and
    sparsity are learnt from the data where they are not given.

    Parameters
    ----------
    n_clusters : int or "auto", default=2 Number of clusters; ``"auto"`` takes the
        number from 2 to `max_clusters` with the largest evidence.
    sparsity : float in (0, 1], default=None
        Fraction of features that tell the clusters apart; learnt if None.
    snr : float, default=None Signal-to-noise ratio lambda: the means of two clusters
        lie sqrt(2 lambda) noise levels apart, in all features together, so that
        lambda = 2 is a distance of 2; learnt if None.
    noise_level : {"auto", "common", "feature"}, float or array of shape (n_features,),
        default="auto" Standard deviation of the noise: one for all features, one for
        each, or known. ``"auto"`` takes a common one where the variances of the
        features scatter no more than those of one noise level would; only ``"common"``
        and known levels let a feature's large variance alone count as evidence for
        clusters.
    max_clusters : int, default=8
        The most clusters that ``n_clusters="auto"`` tries.
    false_alarm : float in (0, 1], default=0.01 Chance with which clusters may be
        claimed in pure noise: columns of any law, independent of each other (normal
        noise where `noise_level` is said to be common or known).
    max_iter : int, default=2000
        The most sweeps of one run.
    random_state : int, RandomState instance or None, default=None
        Random starts; an int makes the fit repeatable.

    Attributes
    ----------
    labels_ : (n_samples,) cluster of every sample, from 0; all 0 where nothing was
        found.
    probabilities_ : (n_samples, n_clusters_) posterior probabilities of the clusters of
        the samples.
    support_ : (n_features,) bool, features that tell the clusters apart (probability
        above 1/2).
    support_probabilities_ : (n_features,) probability of each feature to be one of
        them.
    means_ : (n_clusters_, n_features) means of the clusters, in the units of the data.
    weights_ : (n_clusters_,) shares of the clusters that the model reckons with.
    noise_level_ : (n_features,) standard deviation of the noise; 0 in constant columns.
    snr_, sparsity_ : the values used, learnt or given; `snr_` is 0 and `sparsity_` NaN
        where nothing was found.
    n_clusters_ : number of clusters; 1 where nothing was found.
    evidence_ : log-evidence of the clusters over noise in which every feature may have
        its own variance.
    p_value_ : bound on the chance that noise with independent columns looks as
        clustered as these data.
    evidence_by_clusters_ : dict, the evidence for each number of clusters tried.
    expected_accuracy_ : mean probability of the labels, the accuracy to expect; NaN
        where nothing was found.
    found_ : whether `p_value_` is at most `false_alarm`.
    converged_ : whether the winning run converged.
    n_iter_ : sweeps of the winning run.
    start_ : the start that won.
    n_features_in_ : number of features of the data.

    Notes
    -----
    `labels_` and `probabilities_` belong to the samples of the fit. `predict` takes its
    rows for fresh ones: on the
    samples of the fit themselves it counts each one twice and is too sure of itself.

    The model takes the noise of different features to be independent. Features that are
    correlated inside clusters (a continuous gradient among the samples, say) look like
    clusters to it, and ``n_clusters="auto"`` finds too many. Whether there are clusters
    at all is decided on the ranks of each feature, so that tails, skewness and units of
    independent features raise no false alarm; clusters that show in one feature only
    are not told from its law.

    Examples
    --------
    >>> import numpy as np
    >>> from giantstep.estimators import AMPClustering
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) % 2
    >>> X = rng.standard_normal((400, 200))
    >>> X[:, :10] += np.where(truth, 0.5, -0.5)[:, None]
    >>> model = AMPClustering(n_clusters=2, random_state=0).fit(X)
    >>> (
    ...     model.found_,
    ...     bool(abs((model.labels_ == truth).mean() - 0.5) > 0.4),
    ...     int(model.support_[:10].sum()),
    ... )
    (True, True, 10)
    """

    def __init__(
        self,
        n_clusters: int | str = 2,
        *,
        sparsity: float | None = None,
        snr: float | None = None,
        noise_level: Any = "auto",
        max_clusters: int = 8,
        false_alarm: float = FALSE_ALARM,
        max_iter: int = 2000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.sparsity = sparsity
        self.snr = snr
        self.noise_level = noise_level
        self.max_clusters = max_clusters
        self.false_alarm = false_alarm
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : (n_samples, n_features) finite real numbers; sparse matrices and missing
            values are refused.
        y : ignored.
        """
        matrix = self._matrix(X, reset=True)
        options = self._options(matrix.shape[1])
        numbers = self._numbers(*matrix.shape)
        rng = np.random.default_rng(
            check_random_state(self.random_state).randint(2**31 - 1)
        )
        if numbers == [1]:
            fit = Clusters(standardise(matrix, "feature"), None, 0.0, 1, "none", 1)
        else:
            fit = fit_clusters(matrix, numbers, options, rng)
        self._keep(matrix, fit)
        warn_of_constant(~fit.data.varies, getattr(self, "feature_names_in_", None))
        if numbers != [1] and not self.found_:
            self._warn(
                "No clusters were found: noise looks as clustered with a chance of up"
                f" to {fit.p_value:.2g}, and false_alarm={self.false_alarm:g} is asked"
                " for; the data are noise, or their clusters are too weak for any fast"
                " method."
            )
        elif not self.converged_:
            self._warn(
                f"Message passing did not converge in {self.n_iter_} sweeps; another"
                " number of clusters, or a larger max_iter, may.",
                ConvergenceWarning,
            )
        if self.found_ and len(numbers) > 1 and self.n_clusters_ == self.max_clusters:
            self._warn(
                f"The evidence still grows at max_clusters={self.max_clusters}"
                " clusters; features that are correlated inside clusters do that, so"
                " give n_clusters if you know it."
            )
        return self

    def predict(self, X: ArrayLike) -> Integers:
        """Return the most probable cluster of fresh samples."""
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the (n_samples, n_clusters_) posterior probabilities of the clusters
        of fresh samples.
        """
        check_is_fitted(self)
        matrix = self._matrix(X, reset=False)
        if self._clusters is None:
            return np.ones((len(matrix), 1))
        run = self._clusters.run
        data = self._clusters.data
        assert run is not None
        return run.assign(data.apply(matrix))[:, self._order]

    def get_support(self, indices: bool = False) -> Array:
        """Return the features that tell the clusters apart, as a mask or as their
        indices.
        """
        check_is_fitted(self)
        return np.flatnonzero(self.support_) if indices else self.support_

    # -- checks ------------------------------------------------------------------------

    @staticmethod
    def _warn(text: str, kind: type[Warning] = GiantstepWarning) -> None:
        warnings.warn(text, kind, stacklevel=3)

    def _matrix(self, X: ArrayLike, reset: bool) -> Floats:
        least = 2 if reset else 1
        matrix: Floats = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=least,
            ensure_min_features=least,
        )
        check_finite(matrix)
        return matrix

    def _options(self, features: int) -> Options:
        check_number(
            "false_alarm",
            self.false_alarm,
            "a number above 0 and at most 1",
            lambda chance: 0 < chance <= 1,
        )
        sparsity = self.sparsity
        snr = self.snr
        learnt = ", or None to learn it"
        if sparsity is not None:
            allowed = f"a number above 0 and at most 1{learnt}"
            sparsity = check_number(
                "sparsity", sparsity, allowed, lambda rho: 0 < rho <= 1
            )
        if snr is not None:
            snr = check_number(
                "snr",
                snr,
                f"a finite number above 0{learnt}",
                lambda value: 0 < value < math.inf,
            )
        sweeps = check_whole("max_iter", self.max_iter, "a whole number at least 1", 1)
        return Options(sparsity, snr, self._noise_level(features), sweeps)

    def _noise_level(self, features: int) -> Any:
        allowed = f"auto, common, feature, a number above 0, or {features} of them"
        if isinstance(self.noise_level, str) and self.noise_level in (
            "auto",
            "common",
            "feature",
        ):
            return self.noise_level
        try:
            level = np.asarray(self.noise_level, dtype=np.float64)
        except (TypeError, ValueError):
            level = np.array(np.nan)
        if level.shape not in ((), (features,)) or not (
            np.isfinite(level).all() and (level > 0).all()
        ):
            raise bad_field("noise_level", self.noise_level, allowed)
        return level

    def _numbers(self, n: int, d: int) -> list[int]:
        """Return the numbers of clusters to try."""
        if isinstance(self.n_clusters, str) and self.n_clusters == "auto":
            return numbers_to_try(
                check_whole(
                    "max_clusters", self.max_clusters, "a whole number at least 2", 2
                ),
                n,
                d,
            )
        number = check_whole(
            "n_clusters", self.n_clusters, 'a whole number at least 1, or "auto"', 1
        )
        if number > n:
            raise InputError(
                f"n_samples={n} should be >= n_clusters={number}: there are fewer rows"
                " than clusters."
            )
        if number - 1 > d:
            raise InputError(
                f"n_features={d} is too few for n_clusters={number}: at least"
                f" {number - 1} are needed."
            )
        return [number]

    # -- what is kept ------------------------------------------------------------------

    def _keep(self, matrix: Floats, fit: Clusters) -> None:
        (n, d), run = matrix.shape, fit.run
        self.found_ = run is not None and bool(fit.p_value <= self.false_alarm)
        self.evidence_ = float(fit.evidence)
        self.p_value_ = fit.p_value
        self.evidence_by_clusters_ = fit.evidence_by_clusters
        self.n_iter_ = max(1, fit.iterations)
        self.start_ = fit.start
        self.converged_ = run is None or bool(run.converged)
        self.noise_level_ = np.where(fit.data.varies, fit.data.noise, 0.0)
        self.support_probabilities_ = np.zeros(d)
        if run is None or not self.found_:
            self._clusters: Clusters | None = None
            self.snr_ = 0.0
            self.sparsity_ = math.nan
            self.n_clusters_ = 1
            self.means_ = matrix.mean(axis=0)[None, :]
            self.weights_ = np.ones(1)
            self.probabilities_ = np.ones((n, 1))
        else:
            present = np.bincount(np.asarray(run.labels), minlength=fit.n_clusters) > 0
            # clusters that no sample is in come last
            self._order = np.argsort(~present, kind="stable")
            self._clusters = fit
            self.snr_ = float(run.mixture.snr)
            self.sparsity_ = float(run.mixture.sparsity)
            varies = fit.data.varies
            means = np.tile(matrix.mean(axis=0), (fit.n_clusters, 1))
            means[:, varies] += fit.data.noise[varies] * np.asarray(run.means).T
            self.n_clusters_ = fit.n_clusters
            self.means_ = means[self._order]
            self.weights_ = np.asarray(run.mixture.weights)[self._order]
            self.support_probabilities_[varies] = run.support
            self.probabilities_ = np.asarray(run.posteriors)[:, self._order]
        self.support_ = self.support_probabilities_ > 0.5
        self.labels_ = self.probabilities_.argmax(axis=1)
        sureness = float(self.probabilities_.max(axis=1).mean())
        self.expected_accuracy_ = sureness if self.found_ else math.nan
