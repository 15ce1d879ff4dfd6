"""Moments matched in blocks are those of one triangular system of LAPACK."""

import numpy as np
import pytest

from giantstep.problems.batch_reuse import points


@pytest.mark.parametrize("rows", [1, 7, 8, 29])
def test_blocks_change_no_number(rows, monkeypatch):
    monkeypatch.setattr(points, "_PRODUCT", 40)  # five points at a time
    rng = np.random.default_rng(rows)
    normal = rng.standard_normal((rows, 4 * rows))
    weights = rng.uniform(0.5, 1.5, 4 * rows)
    weights /= weights.sum()
    centred = normal - (normal @ weights)[:, None]
    factor = np.linalg.cholesky((centred * weights) @ centred.T)
    points._match_moments(normal, weights)
    np.testing.assert_allclose(
        normal, np.linalg.solve(factor, centred), rtol=0, atol=1e-13
    )
    np.testing.assert_allclose(
        (normal * weights) @ normal.T, np.eye(rows), rtol=0, atol=1e-13
    )


def test_a_matrix_that_is_not_positive_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        points._match_moments(np.zeros((2, 4)), np.full(4, 0.25))
