"""Ridge estimators that know their learning curve."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.linear_model import RidgeClassifier, RidgeCV

import giantstep as gs
from giantstep.estimators import ForecastRidge, ForecastRidgeClassifier

RNG = np.random.default_rng(0)
X = RNG.standard_normal((200, 15))
Y = X @ RNG.standard_normal(15) / 3 + RNG.standard_normal(200)


def test_it_is_ridge_with_leave_one_out() -> None:
    ridges = [0.5, 5.0, 50.0, 500.0]
    model = ForecastRidge(ridges, trials=0).fit(X, Y)
    usual = RidgeCV(ridges, store_cv_results=True).fit(X, Y)
    assert model.ridge_ == usual.alpha_
    np.testing.assert_allclose(model.coef_, usual.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), usual.predict(X), rtol=1e-8)
    np.testing.assert_allclose(
        model.loo_[1], np.mean(usual.cv_results_[:, 1]), rtol=1e-8
    )


def test_several_outputs_and_more_columns_than_rows() -> None:
    wide = RNG.standard_normal((60, 90))
    labels = wide[:, :2] + 0.1
    model = ForecastRidge([3.0], trials=0, samples=[30]).fit(wide, labels)
    assert model.predict(wide).shape == (60, 2) and model.coef_.shape == (2, 90)
    assert model.forecast_["mse"].shape == (1, 1, 1)


def test_classes() -> None:
    labels = np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)]
    model = ForecastRidgeClassifier([10.0]).fit(X, labels)
    usual = RidgeClassifier(10.0).fit(X, labels)
    assert np.mean(model.predict(X) == usual.predict(X)) == 1
    assert (
        model.trust_.startswith("Misclassified share: fair")
        and model.forecast_.attrs["task"] == "classes"
    )
    needed = model.samples_needed(error=0.25)
    assert needed.low <= needed.samples <= needed.high


def test_too_few_rows_are_fitted_without_a_forecast() -> None:
    model = ForecastRidge().fit(X[:8], Y[:8])
    assert (
        model.forecast_ is None
        and "at least 10" in model.trust_
        and model.predict(X[:3]).shape == (3,)
    )
    with pytest.raises(gs.InputError, match="There is no forecast"):
        model.samples_needed(mse=1.0)
    with pytest.raises(gs.InputError, match="`ridges`"):
        ForecastRidge([-1.0]).fit(X, Y)
