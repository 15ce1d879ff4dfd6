"""Batched Anderson and Newton: each point on its own, hard ones too."""

import numpy as np

from giantstep.core.maths.solve import solve_accelerated


def linear(gains):
    """x -> gain (A x) + 1, contracting only where the gain is below 1."""
    A = np.array([[0.6, 0.3], [-0.2, 0.5]])

    def mapping(x, active):
        return gains[active][:, None] * (x @ A.T) + 1.0

    solution = np.stack(
        [np.linalg.solve(np.eye(2) - gain * A, np.ones(2)) for gain in gains]
    )
    return mapping, solution


def test_slow_and_diverging_maps_are_solved():
    mapping, solution = linear(np.array([0.5, 1.3, 3.0, -4.0]))
    found = solve_accelerated(mapping, np.zeros((4, 2)))
    np.testing.assert_allclose(found.x, solution, rtol=1e-10)
    assert np.all(found.residual < 1e-12)


def test_a_point_does_not_depend_on_its_neighbours():
    def mapping(x, active):
        return np.cos(x * (1 + active[:, None] % 3))

    together = solve_accelerated(mapping, np.full((6, 1), 0.3))
    alone = solve_accelerated(lambda x, active: np.cos(x * 3), np.full((1, 1), 0.3))
    np.testing.assert_allclose(
        together.x[[2, 5]], np.repeat(alone.x, 2, axis=0), rtol=1e-14
    )


def test_newton_takes_over_where_mixing_fails():
    def mapping(x, active):
        return x + np.arctan(50 * (x - 0.7))  # repelling: every plain step leads away

    found = solve_accelerated(mapping, np.array([[0.71]]))
    assert abs(found.x[0, 0] - 0.7) < 1e-10


def test_what_has_no_solution_keeps_a_large_residual_and_spares_the_others():
    def mapping(x, active):
        return np.where(active[:, None] == 0, x + 1.0, 0.5 * x)

    found = solve_accelerated(mapping, np.ones((2, 1)))
    assert found.residual[0] > 0.9
    assert found.residual[1] < 1e-12


def test_a_map_that_leaves_its_domain_is_reported():
    found = solve_accelerated(lambda x, active: np.log(x - 2.0), np.ones((1, 1)))
    assert np.isinf(found.residual[0])
