"""Cubic splines against SciPy's."""

import numpy as np
from scipy.interpolate import CubicSpline

from giantstep.solve.spline import spline_through


def test_values_slopes_and_turns_are_those_of_scipy():
    x = np.sort(np.random.default_rng(0).uniform(-3, 5, 30))
    y = np.sin(2 * x) + 0.1 * x
    ours, theirs, t = spline_through(x, y), CubicSpline(x, y), np.linspace(-3.2, 5.3, 999)
    np.testing.assert_allclose(ours(t), theirs(t), rtol=0, atol=1e-11)
    np.testing.assert_allclose(ours(t, 1), theirs(t, 1), rtol=0, atol=1e-10)
    np.testing.assert_allclose(ours.turns(), theirs.derivative().roots(extrapolate=False), atol=1e-10)


def test_a_falling_piece_is_crossed_where_scipy_crosses_it():
    x = np.linspace(0.0, 3.0, 12)
    ours, theirs = spline_through(x, np.cos(x)), CubicSpline(x, np.cos(x))
    for level in (0.9, 0.0, -0.7):
        np.testing.assert_allclose(
            ours.crossing(level, 0.05, 2.95), theirs.solve(level, extrapolate=False)[0], atol=1e-10
        )
