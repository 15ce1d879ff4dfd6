"""Proximal maps: optimal, inverse to their origin, smooth away from their kinks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from giantstep.core.readout.losses.functions import (
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    MaxMarginLoss,
)

LOSSES = {
    "square": HuberLoss(np.inf),
    "logistic": LogisticLoss(),
    "hinge": HingeLoss(),
    "huber": HuberLoss(0.7),
    "maxmargin": MaxMarginLoss(),
}
SMOOTH = ["square", "logistic", "huber", "hinge"]
margins = st.floats(-50, 50)
strengths = st.floats(-6, 6).map(lambda exponent: 10.0**exponent)


@pytest.mark.parametrize("name", SMOOTH)
@given(s=margins, V=strengths)
def test_the_proximal_point_is_a_minimum(name, s, V):
    loss = LOSSES[name]
    u = float(loss.pull(np.array([s]), np.array([V])).u[0])

    def energy(point):
        return V * loss.value(np.array([point]))[0] + 0.5 * (point - s) ** 2

    for step in (1e-3, 1.0):
        size = step * max(1.0, abs(u - s))
        assert energy(u) <= min(energy(u - size), energy(u + size)) + 1e-12 * (
            1 + abs(energy(u))
        )


@pytest.mark.parametrize("name", SMOOTH)
@given(s=margins, V=strengths)
def test_pull_is_the_way_to_the_proximal_point(name, s, V):
    pull = LOSSES[name].pull(np.array([s]), np.array([V]))
    assert pull.u[0] == pytest.approx(s + V * pull.g[0], rel=1e-13, abs=1e-12)


@given(s=margins, V=st.floats(-8, 8).map(lambda exponent: 10.0**exponent))
def test_logistic_equation_to_rounding(s, V):
    u = LogisticLoss().pull(np.array([s]), np.array([V])).u[0]
    g = 1 / (1 + np.exp(u)) if u < 700 else 0.0
    assert abs(u - s - V * g) <= 4e-15 * (1 + abs(s) + abs(u) + V * g * (1 + abs(u)))


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("V", [0.05, 1.3, 40.0])
def test_slope_is_the_derivative_of_the_pull_between_kinks(name, V):
    loss = LOSSES[name]
    s = np.linspace(-45, 20, 1201) + 0.0123
    kinks = loss.kinks(np.array(V))
    kinks = kinks[np.isfinite(kinks)]
    if kinks.size:
        away = np.all(np.abs(s[:, None] - kinks) > 1e-3, axis=1)
    else:
        away = np.ones(s.shape, bool)
    s = s[away]
    width = np.full(away.sum(), V)
    step = 1e-5
    difference = (loss.pull(s + step, width).g - loss.pull(s - step, width).g) / (
        2 * step
    )
    np.testing.assert_allclose(loss.pull(s, width).slope, difference, atol=2e-8)


@pytest.mark.parametrize("name", ["square", "logistic", "huber", "hinge"])
@pytest.mark.parametrize("V", [0.05, 1.3, 40.0])
def test_origin_undoes_the_proximal_map(name, V):
    loss = LOSSES[name]
    u = np.linspace(-8, 8, 161) + 0.013
    width = np.full(u.shape, V)
    s, stretch = loss.origin(u, width)
    np.testing.assert_allclose(loss.pull(s, width).u, u, atol=1e-12)
    ahead, _ = loss.origin(u + 1e-6, width)
    np.testing.assert_allclose((ahead - s) / 1e-6, stretch, rtol=1e-4)


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("V", [0.05, 1.3, 40.0])
def test_turning_point_is_where_the_proximal_point_changes_sign(name, V):
    loss = LOSSES[name]
    turning = loss.turning_point(np.array([V]))
    if np.isinf(turning[0]):
        assert loss.pull(np.array([-100.0]), np.array([V])).u[0] > 0
        return
    assert (
        loss.pull(turning - 1e-6, np.array([V])).u[0]
        < 0
        < loss.pull(turning + 1e-6, np.array([V])).u[0]
    )


def test_hinge_atom_is_mapped_onto_the_margin():
    V = np.array([0.8])
    low, high = HingeLoss().atom(V)
    inside = np.linspace(low[0], high[0], 11)[1:-1]
    assert np.array_equal(HingeLoss().pull(inside, np.full(9, 0.8)).u, np.ones(9))
    assert (
        HingeLoss().pull(low - 0.1, V).u[0] < 1 < HingeLoss().pull(high + 0.1, V).u[0]
    )


def test_huber_of_a_large_threshold_is_the_square_loss():
    s = np.linspace(-5, 5, 41)
    V = np.full(41, 0.9)
    for wide, square in zip(HuberLoss(1e9).pull(s, V), HuberLoss(np.inf).pull(s, V)):
        np.testing.assert_allclose(wide, square, atol=1e-14)
    np.testing.assert_allclose(
        HuberLoss(1e9).value(s), HuberLoss(np.inf).value(s), atol=1e-13
    )


def test_a_batch_of_thresholds_is_one_loss_for_each_row():
    thresholds = np.array([0.3, 2.0])
    rows = np.array([0, 0, 1])
    s = np.array([-3.0, 0.5, -3.0])
    V = np.ones(3)
    together = HuberLoss(thresholds).at(rows).pull(s, V).g
    alone = [
        HuberLoss(float(thresholds[row])).pull(s[[i]], V[[i]]).g[0]
        for i, row in enumerate(rows)
    ]
    np.testing.assert_array_equal(together, alone)
