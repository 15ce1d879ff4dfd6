"""Minima in lockstep against functions whose minima are known."""

import numpy as np

from giantstep.tools.design import minimum
from giantstep.tools.design.minimum import minimise_each


def search(function, start, radius=1.0, low=-10.0, high=10.0):
    start = np.atleast_2d(np.asarray(start, dtype=float))
    k = start.shape[1]
    return minimise_each(
        function, start, np.full(k, radius), np.full(k, low), np.full(k, high)
    )


def test_quartic_with_mixed_terms_each_member_its_own():
    centres = np.array([[0.3, -1.2], [2.0, 0.5], [-3.0, 4.0]])

    def function(x, index):
        u, v = (x - centres[index]).T
        return 1.0 + u**2 + u * v + 2 * v**2 + 0.3 * u**4 + 0.1 * v**3 * (np.abs(v) < 1)

    found = search(function, np.zeros((3, 2)))
    np.testing.assert_allclose(found.x, centres, atol=1e-5)
    np.testing.assert_allclose(found.value, 1.0, rtol=1e-11)


def test_a_bound_is_met_exactly_also_in_a_corner():
    found = search(
        lambda x, index: x[:, 0] + 2 * x[:, 1] + x[:, 0] ** 2 / 100,
        [[1.0, 2.0]],
        low=-3.0,
    )
    assert found.x.tolist() == [[-3.0, -3.0]]


def test_points_without_value_are_walked_around():
    def function(x, index):
        return np.where(x[:, 0] < 0.5, np.nan, (x[:, 0] + 1) ** 2)

    found = search(function, [[3.0]])
    assert 0.5 <= found.x[0, 0] < 0.502


def test_a_search_that_is_stopped_says_so(monkeypatch):
    assert search(lambda x, index: x[:, 0] ** 4, [[3.0]]).settled.all()
    monkeypatch.setattr(minimum, "_ROUNDS", 2)
    assert not search(lambda x, index: x[:, 0] ** 4, [[3.0]]).settled.any()


def test_a_kink_is_found():
    found = search(lambda x, index: np.abs(x[:, 0] - 0.7) + 0.1 * x[:, 0] ** 2, [[4.0]])
    np.testing.assert_allclose(found.x, 0.7, atol=2e-3)


def test_a_flat_direction_does_not_wander():
    calls = []

    def function(x, index):
        calls.append(len(x))
        return 1 + (x[:, 0] - 1) ** 2

    np.testing.assert_allclose(
        search(function, [[0.0, 2.0]]).x, [[1.0, 2.0]], atol=1e-6
    )
    assert len(calls) < 13


def test_nothing_is_found_where_nothing_has_a_value():
    assert search(lambda x, index: np.full(len(x), np.nan), [[1.0]]).value == np.inf


def test_members_do_not_depend_on_each_other():
    def function(x, index):
        return np.cosh(x[:, 0] - index) + 0.2 * x[:, 0]

    together = search(function, [[0.0], [0.0], [0.0]])
    alone = search(lambda x, index: function(x, index + 2), [[0.0]])
    assert together.x[2] == alone.x[0] and together.value[2] == alone.value[0]
