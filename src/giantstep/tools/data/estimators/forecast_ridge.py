"""Ridge regression and classification with the learning curve of its features, as
scikit-learn estimators.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
)
from sklearn.linear_model import RidgeCV
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from giantstep.core.base.columns import constant_columns, warn_of_constant
from giantstep.core.base.errors import GiantstepWarning, InputError
from giantstep.core.base.types import Array, Floats
from giantstep.tools.data.forecasts.settings import RIDGES
from giantstep.tools.data.forecasts.table import Forecast, SamplesNeeded
from giantstep.tools.data.forecasts.verb import forecast


class _ForecastBase(BaseEstimator):
    """What both estimators share: the fit, the forecast, the decision values."""

    def __init__(
        self,
        ridges: Any = RIDGES,
        *,
        samples: Any = None,
        trials: int = 8,
        rows: int = 4000,
        random_state: int = 0,
    ) -> None:
        self.ridges = ridges
        self.samples = samples
        self.trials = trials
        self.rows = rows
        self.random_state = random_state

    def samples_needed(
        self, error: float | None = None, mse: float | None = None
    ) -> SamplesNeeded:
        """Return how many samples a wanted error needs; see `giantstep.forecast`."""
        check_is_fitted(self)
        if self.forecast_ is None:
            raise InputError(f"There is no forecast: {self.trust_}")
        return self.forecast_.samples_needed(error=error, mse=mse)

    def _fit_outputs(
        self, X: Floats, outputs: Floats, labels: Array, task: str
    ) -> None:
        """Choose the ridge, fit it, and forecast; where rows are too few for a
        forecast, `trust_` says why.
        """
        ridges = np.unique(np.asarray(self.ridges, dtype=np.float64))
        if not len(ridges) or not np.all(ridges > 0) or not np.all(np.isfinite(ridges)):
            raise InputError(
                "Field `ridges` must be numbers above 0, but is"
                f" ridges={self.ridges!r}."
            )
        warn_of_constant(constant_columns(X), getattr(self, "feature_names_in_", None))
        fit = RidgeCV(ridges, store_cv_results=True).fit(X, outputs)
        self.loo_ = (
            fit.cv_results_.reshape(len(X), -1, len(ridges)).sum(axis=1).mean(axis=0)
        )
        self.ridge_ = float(fit.alpha_)
        self.coef_ = np.atleast_2d(fit.coef_)
        self.intercept_ = fit.intercept_
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GiantstepWarning)
                self.forecast_: Forecast | None = forecast(
                    X,
                    labels,
                    ridge=ridges,
                    samples=self.samples,
                    task=task,
                    trials=self.trials,
                    rows=self.rows,
                    seed=self.random_state,
                )
            self.trust_ = str(self.forecast_.attrs["trust"])
        except InputError as error:
            self.forecast_ = None
            self.trust_ = str(error)

    def _values(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        matrix = validate_data(self, X, reset=False, dtype=np.float64)
        return matrix @ np.atleast_2d(self.coef_).T + self.intercept_


class ForecastRidge(MultiOutputMixin, RegressorMixin, _ForecastBase):
    """Ridge regression, its penalty chosen by exact leave-one-out, with the learning
    curve of its features.

    It minimises ``|y - b - X w|^2 + ridge |w|^2``: `ridge_` is the ``alpha`` of
    scikit-learn.

    Parameters
    ----------
    ridges : array-like, default nine values from 0.1 to 1000
        Penalties to choose from, above 0.
    samples : array-like, default=None
        Sample sizes of the forecast; twelve up to four times the rows if None.
    trials : int, default=8
        Real fits at every sample size beside the forecast; 0 for none.
    rows : int, default=4000
        Random rows that leave-one-out of the forecast looks at where there are more.
    random_state : int, default=0
        Seed of the random rows.

    Attributes
    ----------
    ridge_ : the penalty with the smallest leave-one-out error.
    loo_ : (n_ridges,) mean squared leave-one-out errors, in increasing order of the
        penalties.
    coef_, intercept_ : of the fit.
    forecast_ : the table of `giantstep.forecast`; None where rows do not suffice for
        one.
    trust_ : the statement whether to believe it, or why there is none.
    n_features_in_ : number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from giantstep.estimators import ForecastRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 20))
    >>> y = X[:, 0] + rng.standard_normal(300)
    >>> model = ForecastRidge().fit(X, y)
    >>> model.predict(X[:2]).shape, model.trust_[:24]
    ((2,), 'Mean squared error: good')
    >>> bool(model.samples_needed(mse=1.2).samples < 300)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose the penalty, fit, and forecast the learning curve.

        Parameters
        ----------
        X : (n_samples, n_features) features.
        y : (n_samples,) or (n_samples, n_outputs) numbers.
        """
        matrix, labels = validate_data(
            self,
            X,
            y,
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        outputs = labels.astype(np.float64).reshape(len(labels), -1)
        self._fit_outputs(matrix, outputs, outputs, "regression")
        if labels.ndim == 1:
            self.coef_ = self.coef_[0]
            self.intercept_ = float(self.intercept_[0])
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Return the predicted labels."""
        values = self._values(X)
        return values[:, 0] if np.ndim(self.coef_) == 1 else values


class ForecastRidgeClassifier(ClassifierMixin, _ForecastBase):
    """Ridge classification, its penalty chosen by exact leave-one-out, with the
    learning curve of its features.

    Two classes are fitted as -1 and 1, more as one-hot outputs; the class with the
    largest value wins. Parameters and attributes are those of `ForecastRidge`, and
    `classes_`; `samples_needed(error=...)` takes a misclassified share.

    Examples
    --------
    >>> import numpy as np
    >>> from giantstep.estimators import ForecastRidgeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 20))
    >>> y = np.where(X[:, 0] + rng.standard_normal(300) > 0, "up", "down")
    >>> ForecastRidgeClassifier().fit(X, y).predict(X[:2]).tolist()
    ['up', 'down']
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose the penalty, fit, and forecast the learning curve.

        Parameters
        ----------
        X : (n_samples, n_features) features.
        y : (n_samples,) classes.
        """
        matrix, labels = validate_data(
            self, X, y, dtype=np.float64, ensure_min_samples=2
        )
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "Classifier can't train when only one class is present:"
                f" {self.classes_[0]!r}."
            )
        two = len(self.classes_) == 2
        if two:
            outputs = np.where(numbers == 1, 1.0, -1.0)[:, None]
        else:
            outputs = np.eye(len(self.classes_))[numbers]
        self._fit_outputs(matrix, outputs, labels, "classes")
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return decision values: (n_samples,) for two classes, else one column for
        each class.
        """
        values = self._values(X)
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: ArrayLike) -> Array:
        """Return the predicted classes."""
        values = self.decision_function(X)
        return self.classes_[
            (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
        ]
