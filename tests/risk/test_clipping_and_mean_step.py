"""Moments of clipped Gaussians and of the rest beside plain integration, and the
implicit mean step.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from giantstep.core.readout.losses.clipping import clipped_moments
from giantstep.core.readout.losses.mean_step import implicit_mean_step, stiffness


def integral(f, mean, scale, breaks):
    edges = [mean - 12 * scale, *sorted(breaks), mean + 12 * scale]
    return sum(
        quad(lambda x: f(x) * norm.pdf(x, mean, scale), a, b, epsabs=1e-13)[0]
        for a, b in zip(edges, edges[1:])
    )


@pytest.mark.parametrize(
    ("mean", "scale", "reach"),
    [
        (0.0, 1.0, 0.5),
        (0.8, 2.0, 1.5),
        (-1.3, 0.3, 2.2),
        (0.8, 2**0.5, 1.5),
        (-1.3, 0.5, 0.2),
    ],
)
def test_clipped_moments(mean, scale, reach):
    def clip(x):
        return np.clip(x, -reach, reach)

    def soft(x):
        return np.sign(x) * max(abs(x) - reach, 0.0)

    moments = clipped_moments(np.array([mean]), np.array([scale]), np.array([reach]))
    functions = {
        "inside": lambda x: float(abs(x) < reach),
        "first": clip,
        "second": lambda x: clip(x) ** 2,
        "outside": lambda x: float(soft(x) != 0),
        "rest": soft,
        "rest_size": lambda x: abs(soft(x)),
        "rest_squared": lambda x: soft(x) ** 2,
    }
    assert moments._fields == tuple(functions)
    for name, f in functions.items():
        expected = integral(f, mean, scale, [-reach, reach])
        assert getattr(moments, name)[0] == pytest.approx(expected, abs=1e-11), name


def test_a_threshold_of_zero_leaves_the_gaussian_as_it_is():
    moments = clipped_moments(np.array([0.5]), np.array([2**0.5]), np.array([0.0]))
    got = [
        float(part[0]) for part in (moments.outside, moments.rest, moments.rest_squared)
    ]
    np.testing.assert_allclose(got, [1.0, 0.5, 2.25], rtol=1e-12)


def test_implicit_step_stays_where_the_explicit_one_diverges():
    """One cluster, h_hat = target - V_hat h, h = response h_hat: the fixed point is
    response target/(1 + gain).
    """
    V_hat, response, target = 2.0, 5.0, 1.0  # a gain of 10
    fixed = response * target / (1 + V_hat * response)
    explicit = 0.9 * fixed
    implicit = np.array([[0.9 * fixed]])
    for _ in range(3):
        explicit = response * (target - V_hat * explicit)
        h_hat = target - V_hat * implicit
        residual = V_hat * (response * h_hat - implicit)
        delta, _ = implicit_mean_step(
            residual, h_hat[:, 0], np.array([[[response]]]), np.array([[V_hat]]), False
        )
        implicit = response * (h_hat + delta)
    assert abs(explicit - fixed) > 50 * fixed
    assert implicit[0, 0] == pytest.approx(fixed, rel=1e-12)
    assert abs(delta[0, 0]) < 1e-12


def test_an_intercept_makes_the_pulls_cancel():
    h_hat = np.array([[0.4, -0.1]])
    response = np.array([[[1.0, 0.2], [0.2, 0.5]]])
    weights = np.array([[0.7, 0.4]])
    residual = weights * np.array([[0.3, 0.1]])
    delta, _ = implicit_mean_step(residual, h_hat.sum(axis=1), response, weights, True)
    assert (h_hat + delta).sum() == pytest.approx(0, abs=1e-15)


def test_stiffness_has_a_floor():
    V_hat = np.array([[0.0, 1.0]])
    V = np.array([[1.0, 1.0]])
    samples = np.array([[2.0, 2.0]])
    np.testing.assert_allclose(stiffness(V_hat, V, samples), [[0.03, 1.0]])
