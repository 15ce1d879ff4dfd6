"""Factors and triangular systems in blocks are those of LAPACK."""

import numpy as np
import pytest

from giantstep.families.batch_reuse import points


@pytest.mark.parametrize("rows", [1, 7, 8, 29])
def test_blocks_change_no_number(rows, monkeypatch):
    monkeypatch.setattr(points, "_ROWS", 8)
    monkeypatch.setattr(points, "_NUMBERS", 40)  # five right sides at a time
    rng = np.random.default_rng(rows)
    square = rng.standard_normal((rows, 2 * rows))
    matrix, right = square @ square.T / rows + np.eye(rows), rng.standard_normal((rows, 12))
    factor = points.cholesky_in_blocks(np.tril(matrix))
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrix), rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        points.solve_lower_in_blocks(factor, right), np.linalg.solve(factor, right), rtol=0, atol=1e-13
    )


def test_a_matrix_that_is_not_positive_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        points.cholesky_in_blocks(np.diag([1.0, -1.0]))
