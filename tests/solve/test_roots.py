"""Roots of a batch of functions, each in its own bracket."""

from __future__ import annotations

import numpy as np

from giantstep.solve import bracketed_roots, crossing, falling_root


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


def test_bracketed_roots_rising_falling_and_over_a_jump():
    functions = (lambda x: x**3 - 2, lambda x: np.exp(-x) - 0.01, lambda x: np.where(x < 7.25, -1.0, 2.0))

    def function(x, index):
        return np.array([functions[i](v) for i, v in zip(index, x)], dtype=float)

    low, high = np.zeros(3), np.full(3, 10.0)
    everywhere = np.arange(3)
    roots, left = bracketed_roots(function, low, high, (function(low, everywhere), function(high, everywhere)))
    np.testing.assert_allclose(roots, [np.cbrt(2), np.log(100), 7.25], rtol=1e-12)
    assert np.abs(left[:2]).max() < 1e-12 and abs(left[2]) >= 1


def test_a_bracket_that_meets_nan_has_no_root():
    roots, _ = bracketed_roots(
        lambda x, index: np.full(len(x), np.nan), np.zeros(1), np.ones(1), (np.array([-1.0]), np.array([1.0]))
    )
    assert np.isnan(roots).all()
