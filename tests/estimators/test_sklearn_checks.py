"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from giantstep.estimators import AMPClustering


@pytest.mark.filterwarnings("ignore::giantstep.core.base.errors.GiantstepWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [AMPClustering(), AMPClustering(n_clusters="auto", max_clusters=3)]
)
def test_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)
