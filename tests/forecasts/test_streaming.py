"""Rows in blocks: the same numbers as in memory, and an experiment that reads no row twice."""

import json

import numpy as np
import pytest

import giantstep as gs
from giantstep.forecasts import preparation
from giantstep.lab.seeds import Draws

COLUMNS = ("mse", "mse_se", "gcv", "df1", "df2", "kappa", "train_mse", "loo_over_gcv")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    features = (100 + rng.standard_normal((700, 30))) * np.linspace(0.5, 2, 30)
    return features, features @ rng.standard_normal(30) / 8 + rng.standard_normal(700)


def forecast(features, labels, **options):
    options = {"ridge": [0.0, 1.0, 50.0], "samples": [100, 350, 700, 3000], "trials": 0, **options}
    return gs.forecast(features, labels, **options)


def test_blocks_give_the_same_numbers(table):
    features, labels = table
    whole = forecast(features, labels)
    for blocks in ((features[i : i + 64] for i in range(0, 700, 64)), [features[:1], features[1:]]):
        streamed = forecast(blocks, labels)
        for name in COLUMNS:
            np.testing.assert_allclose(streamed[name], whole[name], rtol=1e-8, err_msg=name)


def test_memory_maps(table, tmp_path):
    features, labels = table
    np.save(tmp_path / "features.npy", features.astype(np.float32))
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    whole, streamed = (forecast(rows, labels) for rows in (features.astype(np.float32), mapped))
    np.testing.assert_allclose(streamed["mse"], whole["mse"], rtol=1e-8)
    few = [forecast(rows, labels, rows=200) for rows in (features.astype(np.float32), mapped)]
    np.testing.assert_allclose(few[1]["mse"], few[0]["mse"], rtol=1e-8)


def test_some_of_the_rows_stand_for_all(table):
    """m of N rows: (4) is the same, (8) close to it by the difference to generalised cross-validation."""
    features, labels = table
    whole, some = forecast(features, labels), forecast(features, labels, rows=200)
    np.testing.assert_allclose(some["gcv"], whole["gcv"], rtol=1e-9)
    np.testing.assert_allclose(some["mse"], whole["mse"], rtol=0.01)
    np.testing.assert_allclose(some["mse_se"], whole["mse_se"], rtol=0.25)


def test_parts_of_the_rows_are_fitted_from_their_sums(table, monkeypatch):
    """The errors that sums give are those of fits to the rows of the parts."""
    features, labels = table
    monkeypatch.setattr(preparation, "MOST_WORK", 0)
    t = forecast(features, labels, trials=8, samples=[175, 350], ridge=[1.0, 50.0])
    found = json.loads(t.attrs["trust_numbers"])["probes"]
    assert [(probe["samples"], probe["trials"]) for probe in found] == [(175, 4), (350, 6)]
    assert (t["trials_done"] == [4, 6]).all()
    part = preparation._parts(700, None, Draws(0, "forecast", 0))
    errors = []
    for number in range(4):
        train, test = part == number, part != number
        mean, intercept = features[train].mean(axis=0), labels[train].mean()
        X = features[train] - mean
        weights = np.linalg.solve(X.T @ X + 50 * np.eye(30), X.T @ (labels[train] - intercept))
        errors.append(np.mean((labels[test] - intercept - (features[test] - mean) @ weights) ** 2))
    assert t["mse"].sel(source="experiment", samples=175, ridge=50.0).item() == pytest.approx(np.mean(errors), rel=1e-9)
    assert all(abs(probe["gap"][1]) < 0.1 for probe in found)


def test_parts_keep_groups_together_and_count_the_misclassified(table):
    features, labels = table
    groups = np.arange(700) // 7
    blocks = (features[i : i + 100] for i in range(0, 700, 100))
    t = forecast(blocks, labels > labels.mean(), trials=8, rows=300, groups=groups, samples=[175, 350], ridge=[10.0])
    assert t["trials_done"].values.tolist() == [4, 6]
    real = t["error"].sel(source="experiment").values
    assert np.all(np.abs(real - t["error"].sel(source="limit").values) < 0.06)


def test_blocks_must_fit_together(table):
    features, labels = table
    with pytest.raises(gs.InputError, match="has 29 columns, those before it 30"):
        forecast([features[:10], features[10:, :29]], labels)
    with pytest.raises(gs.InputError, match="no blocks"):
        forecast(iter([]), labels)
    with pytest.raises(gs.InputError, match="699 rows of features but 700 labels"):
        forecast((features[i : i + 233] for i in range(0, 699, 233)), labels)


def test_wide_features_in_blocks():
    rng = np.random.default_rng(1)
    features, labels = rng.standard_normal((50, 80)), rng.standard_normal(50)
    whole = forecast(features, labels, ridge=[5.0], samples=[20, 50])
    streamed = forecast(iter([features[:20], features[20:]]), labels, ridge=[5.0], samples=[20, 50], trials=2)
    np.testing.assert_allclose(streamed["mse"].sel(source="limit"), whole["mse"][0], rtol=1e-9)
