import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from giantstep.core.lab import Gram, Rows, accumulate, ridge_path
from giantstep.core.lab.algebra import outer_gram
from giantstep.core.lab.ridge import EIGEN_PENALTIES

P = 40
N = 130


def data(seed=0, mean=0.5):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, P)) + mean, rng.standard_normal(N)


def cut(features, labels, length=37):
    """Hand out blocks through one buffer, as an experiment does."""
    buffer = np.empty((length, features.shape[1]))
    for start in range(0, len(features), length):
        part = features[start : start + length]
        buffer[: len(part)] = part
        yield buffer[: len(part)], labels[start : start + length]


def dense(features, labels, size, penalty):
    F = features[:size]
    y = labels[:size]
    if penalty == 0:
        return np.linalg.pinv(F) @ y
    taller = np.concatenate([F, np.sqrt(penalty) * np.eye(F.shape[1])])
    return np.linalg.lstsq(taller, np.concatenate([y, np.zeros(F.shape[1])]))[0]


@pytest.mark.parametrize("length", [7, 37, 500])
def test_streaming_equals_the_dense_fit(length):
    features, labels = data()
    sizes = np.array([1, 10, 39, 40, 41, 77, 130, 10, 130, 10, 130, 20, 39])
    penalties = np.array(
        [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 5.0, 5.0, 0.0, 0.0, 1e-6, 0.0]
    )
    found, train = ridge_path(cut(features, labels, length), P, sizes, penalties, np)
    for b, (size, penalty) in enumerate(zip(sizes, penalties)):
        expected = dense(features, labels, size, penalty)
        np.testing.assert_allclose(found[:, b], expected, rtol=0, atol=1e-9)
        residual = labels[:size] - features[:size] @ expected
        assert train[b] == pytest.approx(
            residual @ residual / size, rel=1e-9, abs=1e-13
        )


def test_small_training_errors_keep_their_digits():
    features, labels = data()
    penalties = np.array([1e-6, 1e-8, 1e-10])
    _, train = ridge_path(
        cut(features, labels), P, np.array([20, 20, 20]), penalties, np
    )
    kernel = features[:20] @ features[:20].T
    dual = np.linalg.solve(kernel, labels[:20])
    np.testing.assert_allclose(train, penalties**2 * (dual @ dual) / 20, rtol=1e-5)


@pytest.mark.parametrize("size", [15, 90])
def test_many_penalties_by_one_eigendecomposition(size):
    features, labels = data()
    penalties = np.geomspace(1e-3, 1e3, EIGEN_PENALTIES + 5)
    sizes = np.full(len(penalties), size)
    found, train = ridge_path(cut(features, labels), P, sizes, penalties, np)
    for b in (0, 3, len(penalties) - 1):
        alone, error = ridge_path(
            cut(features, labels), P, sizes[b : b + 1], penalties[b : b + 1], np
        )
        np.testing.assert_allclose(found[:, b], alone[:, 0], rtol=0, atol=1e-11)
        assert train[b] == pytest.approx(error[0], rel=1e-9)


@pytest.mark.parametrize("size", [30, 90])
@pytest.mark.parametrize("penalty", [0.0, 1e-20])
def test_features_without_full_rank_give_the_shortest_solution(size, penalty):
    features, labels = data()
    features[:, 10:] = features[:, :10] @ np.random.default_rng(1).standard_normal(
        (10, 30)
    )
    found, train = ridge_path(
        cut(features, labels), P, np.array([size]), np.array([penalty]), np
    )
    expected = dense(features, labels, size, 0.0)
    np.testing.assert_allclose(found[:, 0], expected, rtol=0, atol=1e-10)
    residual = labels[:size] - features[:size] @ expected
    assert train[0] == pytest.approx(residual @ residual / size, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, N), min_size=1, max_size=6),
    penalties=st.lists(st.floats(1e-4, 1e3), min_size=6, max_size=6),
    length=st.integers(1, N),
)
def test_a_point_alone_equals_the_point_in_a_grid(sizes, penalties, length):
    features, labels = data()
    sizes, penalties = np.array(sizes), np.array(penalties[: len(sizes)])
    found, train = ridge_path(cut(features, labels, length), P, sizes, penalties, np)
    for b in range(len(sizes)):
        alone, error = ridge_path(
            cut(features, labels), P, sizes[b : b + 1], penalties[b : b + 1], np
        )
        np.testing.assert_allclose(found[:, b], alone[:, 0], rtol=0, atol=1e-9)
        assert train[b] == pytest.approx(error[0], rel=1e-6, abs=1e-13)


def test_stages_come_in_order_and_hold_the_sums():
    features, labels = data()
    stages = accumulate(cut(features, labels), P, [100, 20, 41, 5, 20], np)
    rows = next(stages)
    assert isinstance(rows, Rows) and rows.sizes == (5, 20)
    np.testing.assert_array_equal(rows.features, features[:20])
    np.testing.assert_allclose(
        np.tril(outer_gram(rows.features, np)),
        np.tril(features[:20] @ features[:20].T),
        atol=1e-12,
    )
    for size, stage in zip((41, 100), stages):
        assert isinstance(stage, Gram) and stage.size == size
        expected = features[:size].T @ features[:size]
        np.testing.assert_allclose(np.tril(stage.matrix), np.tril(expected), atol=1e-11)
        np.testing.assert_allclose(
            stage.moment, labels[:size] @ features[:size], atol=1e-12
        )
        assert stage.energy == pytest.approx(labels[:size] @ labels[:size])


def test_every_size_can_ask_for_the_gram_matrix():
    features, labels = data()
    sizes = [
        stage.size
        for stage in accumulate(cut(features, labels), P, [3, 50], np, keep_rows=False)
    ]
    assert sizes == [3, 50]
