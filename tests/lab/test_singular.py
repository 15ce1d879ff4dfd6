"""Leading singular vectors of large and of small matrices."""

from __future__ import annotations

import numpy as np
import pytest

from giantstep.core.lab.algebra import leading_vectors


def test_leading_vectors_are_those_of_the_decomposition():
    rng = np.random.default_rng(0)
    X = (
        rng.standard_normal((900, 400))
        + 3 * np.outer(rng.standard_normal(900), rng.standard_normal(400)) / 10
    )
    exact = np.linalg.svd(X, full_matrices=False)
    left, values = leading_vectors(X, 1, rng)
    assert values[0] == pytest.approx(exact.S[0], rel=1e-8)
    assert abs(left[:, 0] @ exact.U[:, 0]) == pytest.approx(1, abs=1e-6)
    for small in (X[:50], X[:, :50]):  # by the Gram matrix of the shorter side
        left, values = leading_vectors(small, 2, rng)
        np.testing.assert_allclose(
            values, np.linalg.svd(small, compute_uv=False)[:2], rtol=1e-10
        )
        np.testing.assert_allclose(left.T @ left, np.eye(2), atol=1e-8)
