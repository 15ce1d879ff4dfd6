"""Fixed points, linear systems and roots over a batch, on problems with known
answers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from giantstep.core.maths.solve import solve_each, solve_fixed_point

Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


def scalar_step(
    g: Callable[..., np.ndarray],
    slope: Callable[..., np.ndarray],
    *parameters: np.ndarray,
) -> Step:
    """Return the step of x = g(x, ...) for (B, 1) unknowns."""

    def step(
        x: np.ndarray, active: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        here = [parameter[active, None] for parameter in parameters]
        plain = g(x, *here)
        newton = x + (plain - x) / (1 - slope(x, *here))
        return plain, newton, np.abs((plain - x) / x)[:, 0]

    return step


def square_root(
    start: float, a: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve x = a/x by Newton from `start`."""
    step = scalar_step(lambda x, a: a / x, lambda x, a: -a / x**2, a)
    found = solve_fixed_point(step, np.full((len(a), 1), start))
    return found.x[:, 0], found.residual, found.iterations


def test_newton_finds_square_roots_from_far_above() -> None:
    """Newton halves x and the residual 17 times before it is near: a slow approach is
    no stall.

    The plain map x - 1e-6 (x^2 - a) would need a million steps; its residual leaves
    1e-7 of x.
    """
    a = np.array([1.0, 2.0, 9.0])
    step = scalar_step(lambda x, a: x - 1e-6 * (x**2 - a), lambda x, a: 1 - 2e-6 * x, a)
    found = solve_fixed_point(step, np.full((3, 1), 1e5))
    np.testing.assert_allclose(found.x[:, 0], np.sqrt(a), rtol=1e-7)
    assert found.iterations.max() < 30


def test_answers_do_not_depend_on_the_batch() -> None:
    a = np.geomspace(1e-3, 1e3, 17)
    together, _, together_steps = square_root(5.0, a)
    for place in range(len(a)):
        alone, _, steps = square_root(5.0, a[[place]])
        assert alone[0] == together[place]
        assert steps[0] == together_steps[place]


def test_inadmissible_newton_falls_back_to_the_plain_map() -> None:
    """x = cos x with Newton forbidden: 60 plain steps reach 0.67^60 = 5e-11."""

    def step(
        x: np.ndarray, active: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.cos(x), np.full_like(x, np.nan), np.abs(np.cos(x) - x)[:, 0]

    found = solve_fixed_point(step, np.ones((1, 1)))
    assert found.x[0, 0] == pytest.approx(0.739085133215, abs=1e-9)
    assert found.iterations[0] == 60


def test_the_best_point_is_returned_when_nothing_converges() -> None:
    """x = x + 1/(1 + x^2) has no solution; the residual is honest."""

    def step(
        x: np.ndarray, active: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        change = 1 / (1 + x**2)
        return x + change, np.full_like(x, np.nan), change[:, 0]

    found = solve_fixed_point(step, np.zeros((2, 1)), max_steps=20)
    np.testing.assert_allclose(found.residual, 1 / (1 + found.x[:, 0] ** 2))
    assert np.all(found.residual > 1e-3)


def test_complex_fixed_point() -> None:
    """Marchenko and Pastur: m = 1/(1 - z - m) at z = 1 + 1e-3 i, the root in the upper
    half plane.
    """
    z = np.array([1 + 1e-3j])
    step = scalar_step(
        lambda m, z: 1 / (1 - z - m), lambda m, z: 1 / (1 - z - m) ** 2, z
    )
    m = solve_fixed_point(step, np.full((1, 1), 1j)).x[0, 0]
    assert m.imag > 0
    assert abs(m**2 - (1 - z[0]) * m + 1) < 1e-12


def test_solve_each_passes_over_singular_matrices() -> None:
    draws = np.random.default_rng(0)
    matrices = draws.normal(size=(4, 3, 3))
    right = draws.normal(size=(4, 3, 2))
    matrices[2] = np.ones((3, 3))
    found = solve_each(matrices, right)
    assert np.all(np.isnan(found[2]))
    for place in (0, 1, 3):
        np.testing.assert_array_equal(
            found[place], np.linalg.solve(matrices[place], right[place])
        )
