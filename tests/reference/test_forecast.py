"""The engine of forecasts beside `giantstep.reference.forecast`."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import forecast


def gaussian(rng, N, p):
    return rng.normal(size=(N, p)) * np.arange(1, p + 1) ** -0.5


def uneven(rng, N, p):
    return gaussian(rng, N, p) * rng.standard_t(5, size=(N, 1))


# features, N, p, outputs, ridge, n
ZOO = {
    "few features, fewer rows": (gaussian, 60, 10, 1, 0.5, 25),
    "few features, the same rows": (gaussian, 60, 10, 1, 3.0, 60),
    "few features, more rows": (gaussian, 60, 10, 1, 3.0, 400),
    "many features, small ridge": (gaussian, 40, 90, 1, 0.05, 20),
    "many features, more rows": (gaussian, 40, 90, 1, 30.0, 80),
    "three outputs, large ridge": (gaussian, 50, 20, 3, 200.0, 30),
    "uneven rows, fewer": (uneven, 60, 10, 2, 1.0, 20),
    "uneven rows, more": (uneven, 60, 10, 2, 1.0, 150),
}


@pytest.mark.parametrize("name", list(ZOO))
def test_the_engine_has_the_numbers_of_the_page(name):
    kind, N, p, outputs, ridge, n = ZOO[name]
    rng = np.random.default_rng(5)
    X = kind(rng, N, p)
    Y = X @ rng.normal(size=(p, outputs)) + rng.normal(size=(N, outputs)) + 2.0
    found = gs.forecast(X, Y, ridge=[ridge], samples=[n], task="regression", trials=0)
    rows = forecast.Rows(X, Y, forecast.other_ridge(X, n, ridge))
    plain = {
        "mse": forecast.mse(rows, n),
        "gcv": forecast.gcv(rows, n),
        "train_mse": forecast.train_mse(rows, n),
        "mse_se": forecast.standard_error(rows, n),
        "kappa": rows.kappa,
        "df1": rows.df1,
        "df2": rows.df2,
    }
    for variable, value in plain.items():
        np.testing.assert_allclose(
            found[variable].values.ravel(), [value], rtol=1e-8, err_msg=variable
        )


@pytest.mark.parametrize("n", [20, 45])
def test_two_classes(n):
    rng = np.random.default_rng(6)
    X = gaussian(rng, 60, 10)
    labels = np.sign(X @ rng.normal(size=10) + 0.5 * rng.normal(size=60))
    found = gs.forecast(X, labels, ridge=[1.0], samples=[n], trials=0)
    rows = forecast.Rows(X, labels[:, None], forecast.other_ridge(X, n, 1.0))
    expected = forecast.misclassified(rows, labels[:, None], n)
    assert found["error"].item() == pytest.approx(expected, rel=1e-8)


def test_residuals_are_those_of_refits():
    """(5) is exact, intercept included: fit without a row, and predict it."""
    rng = np.random.default_rng(7)
    X = gaussian(rng, 15, 4)
    Y = X[:, :1] + rng.normal(size=(15, 1)) + 1.0
    ridge = 0.7
    rows = forecast.Rows(X, Y, ridge)
    for i in range(15):
        others = np.delete(np.arange(15), i)
        mean = X[others].mean(axis=0)
        centred = X[others] - mean
        inner = centred.T @ centred + ridge * np.eye(4)
        w = np.linalg.solve(inner, centred.T @ (Y[others] - Y[others].mean()))
        left = Y[i] - Y[others].mean() - (X[i] - mean) @ w
        np.testing.assert_allclose(rows.residuals[i], left, rtol=1e-10)


def test_at_the_same_rows_it_is_cross_validation():
    """n = N: lambda' = lambda, mse = LOO, gcv = (1 - 1/N^2) N RSS/(N - 1 - df1)^2."""
    rng = np.random.default_rng(8)
    X = gaussian(rng, 30, 6)
    Y = X[:, :1] + rng.normal(size=(30, 1))
    ridge = forecast.other_ridge(X, 30, 2.0)
    assert ridge == pytest.approx(2.0, rel=1e-12)
    rows = forecast.Rows(X, Y, ridge)
    RSS = ridge**2 * rows.Q
    expected = (1 - 1 / 30**2) * 30 * RSS / (30 - 1 - rows.df1) ** 2
    assert forecast.gcv(rows, 30) == pytest.approx(expected, rel=1e-10)
    assert forecast.mse(rows, 30) == pytest.approx(rows.loo, rel=1e-12)
    assert forecast.train_mse(rows, 30) == pytest.approx(RSS / 30, rel=1e-10)
