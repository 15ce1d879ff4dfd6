"""Roots of a batch of functions, each in its own bracket."""

from __future__ import annotations

import numpy as np

from giantstep.solve import crossing, falling_root


def test_roots_of_a_batch():
    goal = np.array([0.1, 2.0, 30.0])
    x, left = falling_root(lambda x, i: (goal[i] - x**3, -3 * x**2), np.zeros(3), np.full(3, 10.0))
    np.testing.assert_allclose(x, np.cbrt(goal), rtol=1e-14)
    assert np.abs(left).max() < 1e-12
    np.testing.assert_allclose(
        crossing(lambda x, i: goal[i] - x**3, np.zeros(3), np.full(3, 10.0)), np.cbrt(goal), rtol=1e-12
    )


def test_a_root_that_need_not_be_known_well_costs_less():
    asked = []

    def function(x, index):
        asked.append(len(index))
        return 2.0 - x**3, -3 * x**2

    rough, _ = falling_root(function, np.zeros(1), np.full(1, 10.0), width=1e-3)
    few = len(asked)
    exact, _ = falling_root(function, np.zeros(1), np.full(1, 10.0))
    assert few < len(asked) - few and 0 < abs(rough[0] - exact[0]) < 1e-3
