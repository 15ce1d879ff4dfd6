"""Identities and limits of forecast section 11."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.data.forecasts.decomposition import (
    decompose,
    forecast_curve,
    resolvent,
    solve_ridge,
)
from giantstep.tools.data.forecasts.rowwise import sum_rows


def decomposed(features, labels):
    return decompose(
        features - features.mean(axis=0),
        labels.reshape(len(labels), -1),
        np.arange(len(labels)),
    )


def limits(features, labels, n, ridge, **options):
    return gs.forecast(
        features, labels, samples=n, ridge=ridge, trials=0, task="regression", **options
    ).isel(source=0)


def fit(features, labels, ridge):
    mean, intercept = features.mean(axis=0), labels.mean(axis=0)
    X = features - mean
    weights = np.linalg.solve(
        X.T @ X + ridge * np.eye(X.shape[1]), X.T @ (labels - intercept)
    )
    return lambda rows: intercept + (rows - mean) @ weights


@pytest.mark.parametrize("columns", [12, 90])
def test_leave_one_out_is_that_of_refits(columns):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((40, columns))
    labels = rng.standard_normal((40, 2))
    refits = []
    for row in range(40):
        others = np.delete(np.arange(40), row)
        refits.append(
            labels[row] - fit(features[others], labels[others], 0.7)(features[row])
        )
    t = limits(features, labels, 40, 0.7)
    assert t.mse.item() == pytest.approx(
        np.mean(np.sum(np.square(refits), axis=1)), rel=1e-10
    )


def test_traces_without_a_row_are_those_of_fewer_rows(gaussian):
    """(9): what the jackknife takes off equals a decomposition of N - 1 rows."""
    features, labels = gaussian
    ridge = np.array([0.8])
    found = decomposed(features, labels)
    at = resolvent(found, ridge)
    without = decomposed(features[1:], labels[1:])
    fewer = resolvent(without, ridge)
    rows = []
    sum_rows(
        forecast_curve(found, np.array([60.0]), ridge),
        lambda _, point: rows.append(point),
    )
    first = rows[0].diagonal[0]
    second = rows[0].square[0]
    left_out = rows[0].left_out[0, 0]
    assert at.t1[0] - second / first == pytest.approx(fewer.t1[0], rel=1e-10)
    X = features - features.mean(axis=0)
    centring = np.eye(60) - 1 / 60
    M = 0.8 * centring @ np.linalg.inv(X @ X.T + 0.8 * np.eye(60)) @ centring
    y = labels - labels.mean()
    cubed = (M @ M @ M)[0, 0]
    image = (M @ M @ y)[0]
    assert at.t2[0] - 2 * cubed / first + (second / first) ** 2 == pytest.approx(
        fewer.t2[0], rel=1e-10
    )
    assert at.q2[0] - 2 * left_out * image + left_out**2 * second == pytest.approx(
        fewer.q2[0], rel=1e-10
    )


@pytest.mark.parametrize("columns", [12, 90])
def test_all_rows(columns):
    rng = np.random.default_rng(1)
    features = rng.standard_normal((40, columns))
    labels = rng.standard_normal(40)
    ridge = 1.3
    t = limits(features, labels, 40, ridge)
    residual = labels - fit(features, labels, ridge)(features)
    X = features - features.mean(axis=0)
    df1 = np.trace(X @ np.linalg.solve(X.T @ X + ridge * np.eye(columns), X.T))
    assert t.df1.item() == pytest.approx(df1, rel=1e-10)
    assert t.train_mse.item() == pytest.approx(np.mean(residual**2), rel=1e-10)
    gcv = (1 - 1 / 40**2) * 40 * np.sum(residual**2) / (39 - df1) ** 2
    assert t.gcv.item() == pytest.approx(gcv, rel=1e-10)


COLUMNS = ["mse", "mse_se", "gcv", "train_mse", "df2", "loo_over_gcv"]


@pytest.mark.parametrize(
    "change",
    [
        lambda X, y: (
            X @ np.linalg.qr(np.random.default_rng(5).standard_normal((12, 12)))[0],
            y,
        ),
        lambda X, y: (X + 7.0, y),
        lambda X, y: (X[::-1], y[::-1]),
        lambda X, y: (X, y + 100.0),
        # the branch of more columns than rows
        lambda X, y: (
            X @ np.linalg.qr(np.random.default_rng(6).standard_normal((62, 12)))[0].T,
            y,
        ),
    ],
    ids=["rotation", "shift", "order", "label shift", "more columns"],
)
def test_what_changes_nothing(gaussian, change):
    features, labels = gaussian
    grid = {"n": [10, 30, 60, 200], "ridge": [0.1, 1.0, 20.0]}
    before = limits(features, labels, **grid)
    after = limits(*change(features, labels), **grid)
    for name in COLUMNS:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-8, err_msg=name)


def test_outputs_may_be_turned(gaussian):
    features, _ = gaussian
    labels = np.random.default_rng(7).standard_normal((60, 3))
    turn = np.linalg.qr(np.random.default_rng(8).standard_normal((3, 3)))[0]
    before, after = (
        limits(features, y, [20, 60, 90], 2.0) for y in (labels, labels @ turn)
    )
    for name in COLUMNS:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-9)


def test_units(gaussian):
    features, labels = gaussian
    before = limits(features, labels, [20, 60, 90], 2.0)
    scaled = limits(5 * features, 3 * labels, [20, 60, 90], 50.0)
    for name, factor in (
        ("mse", 9),
        ("mse_se", 9),
        ("gcv", 9),
        ("df1", 1),
        ("kappa", 25),
    ):
        np.testing.assert_allclose(scaled[name], factor * before[name], rtol=1e-9)


def test_endless_ridge_and_endless_samples(gaussian):
    features, labels = gaussian
    t = limits(features, labels, 25, 1e12)
    assert t.gcv.item() == pytest.approx(
        labels.var() * (1 + 1 / 25) * 60 / 59, rel=1e-6
    )
    t = limits(features, labels, 10**9, 0.0)
    residual = labels - fit(features, labels, 0.0)(features)
    assert t.gcv.item() == pytest.approx(np.sum(residual**2) / (60 - 1 - 12), rel=1e-6)


@pytest.mark.parametrize("columns", [12, 59, 90])
def test_the_matched_ridge_solves_its_equation(columns):
    rng = np.random.default_rng(2)
    found = decomposed(
        rng.standard_normal((60, columns)) * rng.uniform(0.01, 3, columns),
        rng.standard_normal(60),
    )
    n = np.array([3.0, 8.0, 8.0, 30.0, 61.0, 1e9, 3.0])
    ridge = np.array([0.0, 0.0, 1e-6, 5.0, 5.0, 1e9 * found.kappa_min * 1.5 + 1, 1e6])
    matched = solve_ridge(found, n, ridge)
    assert np.isfinite(matched).all()
    at = resolvent(found, matched)
    weight = np.maximum(matched, np.abs(60 - n) * at.kappa)
    np.testing.assert_allclose(
        (matched - ridge - (60 - n) * at.kappa) / weight, 0, atol=1e-12
    )
    curve = forecast_curve(found, n, ridge)
    # ridge 0 interpolates: df1 = n - 1
    assert curve.df1[:2] == pytest.approx([2, 7], rel=1e-10)


def test_more_samples_never_hurt_at_the_best_ridge(gaussian):
    t = limits(*gaussian, [10, 20, 40, 60, 120, 1000], np.geomspace(1e-3, 1e3, 13))
    assert np.all(np.diff(t.gcv.min("ridge")) < 0)


@pytest.mark.parametrize(
    ("columns", "ridge", "allowed"), [(8, 1.0, 0.01), (70, 0.05, 0.06)]
)
def test_the_jackknife_is_that_of_refits(columns, ridge, allowed):
    rng = np.random.default_rng(4)
    features = rng.standard_normal((40, columns))
    labels = features[:, 0] + rng.standard_normal(40)
    n = np.array([25.0])
    risks = []
    for row in range(40):
        others = decomposed(np.delete(features, row, 0), np.delete(labels, row))
        risks.append(float(forecast_curve(others, n, np.array([ridge])).gcv[0]))
    refits = np.sqrt(39 / 40 * np.sum((np.array(risks) - np.mean(risks)) ** 2))
    t = limits(features, labels, 25, ridge)
    assert (t.mse_se * t.gcv / t.mse).item() == pytest.approx(refits, rel=allowed)


def test_beyond_the_rows_the_error_stays_between_zero_and_leave_one_out():
    rng = np.random.default_rng(6)
    features = rng.standard_normal((50, 45)) * rng.standard_t(2.5, 50)[:, None]
    labels = features[:, 0] + rng.standard_normal(50)
    found = decomposed(features, labels)
    n, ridge = (
        axis.ravel() for axis in np.meshgrid([60.0, 100.0, 1e4], [0.01, 1.0, 30.0])
    )
    curve = forecast_curve(found, n, ridge)
    sums = sum_rows(curve)
    at = curve.resolvent
    loo = sums.loo_over_gcv * 50 * at.q2 / at.t1**2
    assert np.all(sums.mse > 0) and np.all(sums.mse < loo)


def test_isotropic_least_squares_has_its_closed_form():
    """n - 1 > p: noise (n - 1)/(n - 1 - p) times 1 + 1/n; below, the formula of the
    shortest solution.
    """
    rng = np.random.default_rng(9)
    p = 40
    noise = 0.5
    weights = rng.standard_normal(p)
    features = rng.standard_normal((600, p))
    labels = features @ weights + np.sqrt(noise) * rng.standard_normal(600)
    t = limits(features, labels, [21, 81, 400], 0.0)
    share = 20 / p
    below = weights @ weights * (1 - share) + noise / (1 - share)
    truth = np.array([below, noise * 80 / (80 - p), noise * 399 / (399 - p)]) * (
        1 + 1 / np.array([21, 81, 400])
    )
    assert np.all(
        np.abs(t.gcv.values[:, 0] - truth) < 3 * (t.mse_se * t.gcv / t.mse).values[:, 0]
    )


@pytest.mark.slow
def test_gaussian_power_law_has_no_bias():
    """The population equations (1), solved by bisection, against 100 samples of 120
    rows.
    """
    rng = np.random.default_rng(10)
    p = 60
    rows = 120
    n = 360.0
    ridge = 2.0
    spectrum = np.arange(1, p + 1.0) ** -1.2
    teacher = np.arange(1, p + 1.0) ** -0.5
    low = 1e-9
    high = 1e3
    for _ in range(200):
        kappa = np.sqrt(low * high)
        if kappa * (n - 1 - np.sum(spectrum / (spectrum + kappa))) < ridge:
            low = kappa
        else:
            high = kappa
    df2 = np.sum((spectrum / (spectrum + kappa)) ** 2)
    error = 0.3 + np.sum(spectrum * (teacher * kappa / (spectrum + kappa)) ** 2)
    truth = (1 + 1 / n) * (n - 1) * error / (n - 1 - df2)
    z = []
    for _ in range(100):
        features = rng.standard_normal((rows, p)) * np.sqrt(spectrum)
        labels = features @ teacher + np.sqrt(0.3) * rng.standard_normal(rows)
        t = limits(features, labels, int(n), ridge)
        z.append(((t.gcv - truth) / (t.mse_se * t.gcv / t.mse)).item())
    assert abs(np.mean(z)) < 0.3 and 0.4 < np.std(z) < 1.3
