"""The scalar channels: reference values, second routes, identities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from giantstep.problems.subspace_clustering.channels import (
    assignment_channel,
    features_entropy,
    features_overlap,
    selection,
)


@pytest.mark.parametrize(
    ("k", "a", "overlap", "entropy"),
    [
        (2, 0.5, 0.2040542656, 0.0135785178),
        (2, 2.0, 0.5504004908, 0.1631691797),
        (3, 1.0, 0.2783113004, 0.0492973290),
        (5, 4.0, 0.6247259772, 0.5648453341),
        (20, 10.0, 0.8137061081, 2.1364454314),
    ],
)
def test_assignments_have_the_reference_values(k, a, overlap, entropy):
    channel = assignment_channel(k)
    assert float(channel.overlap(a)) == pytest.approx(overlap, abs=6e-11)
    assert float(channel.entropy(a)) == pytest.approx(entropy, abs=6e-11)


def test_accuracy_has_the_reference_values():
    assert float(assignment_channel(3).accuracy(1.0)) == pytest.approx(
        0.6337020458, abs=6e-11
    )
    assert float(assignment_channel(5).accuracy(4.0)) == pytest.approx(
        0.7878389827, abs=6e-11
    )
    a = np.array([0.0, 0.3, 2.0, 50.0])
    np.testing.assert_allclose(
        assignment_channel(2).accuracy(a), special.ndtr(np.sqrt(a / 2)), atol=1e-14
    )
    np.testing.assert_allclose(
        [assignment_channel(k).accuracy(0.0) for k in (2, 7)],
        [1 / 2, 1 / 7],
        atol=1e-14,
    )


@pytest.mark.parametrize(
    ("b", "rho", "p", "overlap", "entropy"),
    [
        (1.0, 0.1, 1, 0.1445769940, 0.0031847415),
        (20.0, 0.05, 1, 0.8837404129, 0.3319019194),
        (5.0, 0.3, 2, 0.7354588692, 0.7288908201),
        (50.0, 0.01, 4, 0.9781835143, 0.8668737783),
    ],
)
def test_features_have_the_reference_values(b, rho, p, overlap, entropy):
    assert float(features_overlap([b], rho, p)[0][0]) == pytest.approx(
        overlap, abs=6e-11
    )
    assert float(features_entropy([b], rho, p)[0]) == pytest.approx(entropy, abs=6e-11)


def test_two_clusters_by_another_quadrature():
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    for a in (1e-4, 0.1, 1.0, 6.0):
        x = a / 2
        field = x + np.sqrt(x) * nodes
        channel = assignment_channel(2)
        assert float(channel.overlap(a)) == pytest.approx(
            float(weights @ np.tanh(field) ** 2), rel=1e-7
        )
        entropy = float(weights @ np.log(np.cosh(field))) - x / 2
        assert float(channel.entropy(a)) == pytest.approx(entropy, rel=1e-6, abs=1e-12)


def test_three_clusters_by_quadrature_in_three_dimensions():
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(
        -1, 3
    )
    w = np.einsum("i,j,k->ijk", weights, weights, weights).ravel()
    for a in (0.3, 2.0):
        field = np.sqrt(a) * z + a * np.array([1.0, 0, 0])
        right = special.softmax(field, axis=1)[:, 0]
        assert float(assignment_channel(3).overlap(a)) == pytest.approx(
            (3 * float(w @ right) - 1) / 2, abs=1e-7
        )
        entropy = (
            float(w @ special.logsumexp(field, axis=1))
            - np.log(3)
            - a / 2 * (1 + 1 / 3)
        )
        assert float(assignment_channel(3).entropy(a)) == pytest.approx(
            entropy, abs=1e-7
        )


@pytest.mark.parametrize("k", [2, 3, 7, 50])
def test_small_signals_follow_the_series_with_relative_accuracy(k):
    a = np.array([1e-9, 1e-7, 1e-5, 1e-3])
    series = 1 + (k - 4) / (2 * k) * a + (k**2 - 18 * k + 42) / (6 * k**2) * a**2
    np.testing.assert_allclose(
        assignment_channel(k).overlap(a) * k / a, series, rtol=3e-9
    )
    np.testing.assert_allclose(
        assignment_channel(k).overlap(a[:3]) * k / a[:3], series[:3], rtol=1e-11
    )
    rho = 0.2
    p = k - 1
    b = np.array([1e-7, 1e-5])
    beta = rho * b
    np.testing.assert_allclose(
        features_overlap(b, rho, p)[0] / beta, 1 - beta, rtol=1e-7
    )


@pytest.mark.parametrize("k", [2, 5, 50])
def test_large_signals_saturate(k):
    a = np.array([390.0, 410.0, 1e6])
    channel = assignment_channel(k)
    np.testing.assert_allclose(channel.overlap(a), 1.0, atol=1e-11)
    np.testing.assert_allclose(
        channel.entropy(a), a / 2 * (1 - 1 / k) - np.log(k), rtol=1e-10
    )


@given(st.sampled_from([2, 3, 6]), st.floats(-5, 5))
@settings(max_examples=30)
def test_slopes_and_entropies_are_derivatives_of_each_other(k, log_a):
    channel = assignment_channel(k)
    a = np.exp(log_a)
    e = 1e-4
    up = channel.overlap(a * np.exp(e))
    down = channel.overlap(a * np.exp(-e))
    assert float(channel.slope(a)) == pytest.approx(
        float(np.log(up / down)) / (2 * e), abs=1e-6
    )
    rise = channel.entropy(a + e * a) - channel.entropy(a - e * a)
    assert float(rise) / (2 * e * a) == pytest.approx(
        (1 - 1 / k) * float(channel.overlap(a)) / 2, rel=1e-5
    )


@given(st.integers(1, 6), st.floats(-4, 5), st.floats(-6, 0))
@settings(max_examples=40)
def test_features_slopes_and_entropies_are_derivatives_of_each_other(p, log_b, log_rho):
    b = np.exp(log_b)
    rho = np.exp(log_rho)
    e = 1e-4
    m, slope, _ = (float(x[0]) for x in features_overlap([b], rho, p))
    up, down = (features_overlap([b * np.exp(s)], rho, p)[0] for s in (e, -e))
    assert slope == pytest.approx(float(np.log(up / down)[0]) / (2 * e), abs=1e-5)
    high, low = (features_entropy([b * (1 + s)], rho, p)[0] for s in (e, -e))
    assert float(high - low) / (2 * e * b) == pytest.approx(
        rho * p * m / 2, rel=1e-5, abs=1e-9
    )
    assert 0 < m < 1


def test_features_by_adaptive_quadrature():
    for b, rho, p in ((0.7, 0.3, 1), (300.0, 1e-3, 1), (12.0, 0.05, 3)):
        line = np.log((1 - rho) / rho) + p / 2 * np.log1p(b)
        middle = 2 * line / b
        value, _ = integrate.quad(
            lambda t, b=b, p=p, line=line: (
                stats.chi2.pdf(t, p + 2) * special.expit(b * t / 2 - line)
            ),
            0,
            200,
            points=[middle, middle * 1.5 + 1],
            limit=400,
            epsabs=1e-12,
        )
        assert float(features_overlap([b], rho, p)[0][0]) == pytest.approx(
            b / (1 + b) * value, abs=1e-9
        )


def test_all_features_active_is_closed():
    b = np.array([1e-8, 0.5, 30.0])
    overlap, slope, _ = features_overlap(b, 1.0, 3)
    np.testing.assert_allclose(overlap, b / (1 + b), rtol=1e-15)
    np.testing.assert_allclose(slope, 1 / (1 + b), rtol=1e-15)
    np.testing.assert_allclose(
        features_entropy(b, 1.0, 3), 1.5 * (b - np.log1p(b)), rtol=1e-12
    )
    near = features_overlap(b, 1 - 1e-12, 3)[0]
    np.testing.assert_allclose(near, overlap, rtol=1e-10)
    assert [rates.tolist() for rates in selection(b, 1.0, 3)] == [[1, 1, 1], [0, 0, 0]]


def test_a_known_mean_of_no_strength_changes_nothing():
    b = np.array([0.3, 4.0])
    rho = 0.1
    for with_mean, without in zip(
        features_overlap(b, rho, 2, 0.0), features_overlap(b, rho, 2)
    ):
        np.testing.assert_allclose(with_mean, without, rtol=1e-9)
    np.testing.assert_allclose(
        features_entropy(b, rho, 2, 0.0), features_entropy(b, rho, 2), rtol=1e-10
    )
    # a mean known at the same SNR is one more dimension of the slab
    joint, by_b, by_mean = features_overlap(b, rho, 2, b)
    np.testing.assert_allclose(joint, features_overlap(b, rho, 3)[0], rtol=1e-9)
    np.testing.assert_allclose(
        by_b + by_mean, features_overlap(b, rho, 3)[1], rtol=1e-8
    )
    np.testing.assert_allclose(
        features_entropy(b, rho, 2, b), features_entropy(b, rho, 3), rtol=1e-10
    )


def test_unequal_weights_meet_equal_ones():
    even = assignment_channel(2)
    nearly = assignment_channel(2, 0.5 - 1e-7)
    a = np.array([1e-5, 0.3, 3.0, 40.0])
    for name in ("overlap", "slope", "entropy", "accuracy"):
        np.testing.assert_allclose(
            getattr(nearly, name)(a), getattr(even, name)(a), rtol=1e-6
        )
    assert float(assignment_channel(2, 0.2).accuracy(0.0)) == pytest.approx(0.8)


def test_the_overlap_is_inverted():
    for k in (2, 5):
        channel = assignment_channel(k)
        assert float(channel.overlap(channel.snr(0.37))) == pytest.approx(
            0.37, abs=1e-12
        )
