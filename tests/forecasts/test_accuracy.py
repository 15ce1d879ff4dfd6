"""Forecasts against real fits to random rows: forecast section 9 on bundled data, and a
larger set made here.
"""

import numpy as np
import pytest

import giantstep as gs

CASES = [
    # data, sizes, ridges, range of the relative error of mse in forecast section 9
    ("digits ten", [91, 200, 500, 1200], [1.0, 10.0, 100.0], -0.029, 0.006),
    ("breast cancer", [200, 284, 400], [1.0, 10.0], -0.05, 0.06),
    ("diabetes", [60, 110, 221, 300], [1.0, 10.0], -0.03, 0.03),
    ("wine", [44, 60, 89, 120], [10.0], -0.05, 0.05),
]


@pytest.mark.filterwarnings(
    "ignore:Do not trust this forecast of error"
)  # of wine: 12 samples of a class at n = 44
@pytest.mark.parametrize(
    ("name", "sizes", "ridges", "low", "high"), CASES, ids=lambda case: str(case)[:14]
)
def test_bundled_data(name, sizes, ridges, low, high, datasets):
    """Every point is inside the published range, with three standard errors of the
    trials granted.
    """
    t = gs.forecast(*datasets[name], samples=sizes, ridge=ridges, trials=20)
    gap = (t["mse"].sel(source="limit") / t["mse"].sel(source="experiment") - 1).values
    error = (t["mse_stderr"] / t["mse"]).sel(source="experiment").values
    assert np.all(gap > low - 3 * error) and np.all(gap < high + 3 * error), (
        gap,
        error,
    )
    if "error" in t:
        counted = t["error"].sel(source="limit") - t["error"].sel(source="experiment")
        allowed = (
            0.12 * t["error"].sel(source="limit")
            + 3 * t["error_stderr"].sel(source="experiment")
            + 0.002
        )
        assert np.all(np.abs(counted) < allowed)


def test_a_larger_set_beyond_its_rows():
    """From 500 of 12,000 rows to 4000, against fits to fresh rows: within 2.5 total
    standard errors.
    """
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((20, 150)) / np.sqrt(20)
    inputs = rng.standard_normal((12000, 20))
    features = np.maximum(inputs @ weights, 0)
    labels = (
        np.tanh(inputs[:, 0])
        + 0.5 * inputs[:, 1] * inputs[:, 2]
        + 0.5 * rng.standard_normal(12000)
    )
    sizes = [125, 500, 1000, 4000]
    ridges = [1.0, 30.0]
    t = gs.forecast(features[:500], labels[:500], samples=sizes, ridge=ridges)
    from sklearn.linear_model import Ridge

    for number, size in enumerate(sizes):
        for column, ridge in enumerate(ridges):
            errors = []
            for repeat in range(max(2, min(12, 8000 // size))):
                order = np.random.default_rng([size, repeat]).permutation(
                    np.arange(500, 12000)
                )
                train = order[:size]
                test = order[-3000:]
                fitted = (
                    Ridge(alpha=ridge)
                    .fit(features[train], labels[train])
                    .predict(features[test])
                )
                errors.append(np.mean((fitted - labels[test]) ** 2))
            forecast = t["mse"].values[0, number, column]
            total = np.hypot(
                t["mse_se_total"].values[0, number, column],
                np.std(errors) / np.sqrt(len(errors)),
            )
            assert abs(forecast - np.mean(errors)) < 2.5 * total < 0.45 * forecast
