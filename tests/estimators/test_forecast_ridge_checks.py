"""scikit-learn's own checks of the estimators that forecast."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from giantstep.estimators import ForecastRidge, ForecastRidgeClassifier


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        ForecastRidge([1.0, 10.0], samples=[30], trials=2),
        ForecastRidgeClassifier([1.0, 10.0], samples=[30], trials=0),
    ]
)
def test_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)
