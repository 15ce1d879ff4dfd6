"""Roots of a batch of functions, each in its own bracket."""

from __future__ import annotations

import numpy as np

from giantstep.core.maths.solve import crossing, falling_root


def test_roots_of_a_batch():
    goal = np.array([0.1, 2.0, 30.0])
    x, left = falling_root(
        lambda x, i: (goal[i] - x**3, -3 * x**2), np.zeros(3), np.full(3, 10.0)
    )
    np.testing.assert_allclose(x, np.cbrt(goal), rtol=1e-14)
    assert np.abs(left).max() < 1e-12
    np.testing.assert_allclose(
        crossing(lambda x, i: goal[i] - x**3, np.zeros(3), np.full(3, 10.0)),
        np.cbrt(goal),
        rtol=1e-12,
    )
