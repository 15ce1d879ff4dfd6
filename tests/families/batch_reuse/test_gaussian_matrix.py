"""A Gaussian matrix that is never formed is consistent with itself and has the law of
one that is.
"""

import numpy as np
import pytest
from scipy import stats

from giantstep.problems.batch_reuse.experiment import GaussianMatrix


def make(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    return GaussianMatrix(rows, columns, rng.standard_normal, np), rng


def test_both_sides_are_one_matrix():
    matrix, _ = make(30, 20)
    forward = matrix.times(np.eye(20))
    backward = matrix.transposed_times(np.eye(30))
    np.testing.assert_allclose(forward, backward.T, atol=1e-12)


def test_answers_stay_the_same_and_are_linear():
    matrix, rng = make(50, 40)
    v = rng.standard_normal((3, 40))
    f = rng.standard_normal((2, 50))
    first = matrix.times(v)
    back = matrix.transposed_times(f)
    np.testing.assert_allclose(
        matrix.times(2 * v[:1] - v[1:2]), 2 * first[:1] - first[1:2], atol=1e-11
    )
    np.testing.assert_allclose(back @ v.T, f @ first.T, atol=1e-10)


@pytest.mark.parametrize("gap", [0.0, 1e-14, 1e-9, 1e-5])
def test_nearly_equal_vectors_do_no_harm(gap):
    matrix, rng = make(500, 400)
    v = rng.standard_normal((1, 400))
    pair = np.concatenate([v, v + gap * rng.standard_normal((1, 400))])
    first, second = matrix.times(pair)
    assert np.abs(first - second).max() < 1e-5 + 200 * gap
    known, _ = matrix._right
    np.testing.assert_allclose(known @ known.T, np.eye(len(known)), atol=1e-12)


def test_a_power_iteration_has_the_law_of_the_real_one():
    """Four products back and forth mix everything drawn before; 500 draws see a change
    of 20% in the spread.
    """

    def last(times, transposed):
        v = np.ones((1, 12)) / 12**0.5
        for _ in range(2):
            v = transposed(times(v))
        return float(np.linalg.norm(v))

    lazy = []
    dense = []
    for seed in range(500):
        matrix, rng = make(9, 12, seed)
        lazy.append(last(matrix.times, matrix.transposed_times))
        X = np.random.default_rng([seed, 1]).standard_normal((9, 12))
        dense.append(last(lambda v, X=X: v @ X.T, lambda f, X=X: f @ X))
    assert stats.ks_2samp(lazy, dense).pvalue > 1e-3
