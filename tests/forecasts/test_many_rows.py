"""Many rows: some of them stand for all in leave-one-out, and the experiment makes few
fits where they are dear.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.data.forecasts import experiment


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    features = (100 + rng.standard_normal((700, 30))) * np.linspace(0.5, 2, 30)
    return features, features @ rng.standard_normal(30) / 8 + rng.standard_normal(700)


def forecast(features, labels, **options):
    options = {
        "ridge": [0.0, 1.0, 50.0],
        "samples": [100, 350, 700, 3000],
        "trials": 0,
        **options,
    }
    return gs.forecast(features, labels, **options)


def test_memory_maps(table, tmp_path):
    features, labels = table
    np.save(tmp_path / "features.npy", features.astype(np.float32))
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    whole, from_file = (
        forecast(rows, labels, rows=200)
        for rows in (features.astype(np.float32), mapped)
    )
    np.testing.assert_array_equal(from_file["mse"], whole["mse"])


def test_some_of_the_rows_stand_for_all(table):
    """m of N rows: (4) is the same, (8) close to it by the difference to generalised
    cross-validation.
    """
    features, labels = table
    whole = forecast(features, labels)
    some = forecast(features, labels, rows=200)
    np.testing.assert_allclose(some["gcv"], whole["gcv"], rtol=1e-9)
    np.testing.assert_allclose(some["mse"], whole["mse"], rtol=0.01)
    np.testing.assert_allclose(some["mse_se"], whole["mse_se"], rtol=0.25)


def test_dear_fits_are_few(table, monkeypatch):
    monkeypatch.setattr(experiment, "MOST_WORK", 0)
    t = forecast(*table, trials=8, ridge=[1.0, 50.0], samples=[100, 175, 350])
    assert t["trials_done"].values.tolist() == [0, 3, 3]
    assert np.abs(t["mse_gap"].values[1:] / t["mse"].values[0, 1:]).max() < 0.1
