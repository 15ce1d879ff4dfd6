"""What the equations of the read-out owe to themselves: closed forms, limits, and
invariances, features by hand.
"""

import dataclasses

import numpy as np
import pytest
from problems import planted, ridge_fit, trapezoid

from giantstep.core.readout import Features, Spectrum, ridge_errors, solve_first_order
from giantstep.core.readout.floors import floors

RIDGES = np.array([1e-3, 0.1, 3.0])


def on_a_line(
    pi=(0.6, 0.4), U=((1.2,), (-0.8,)), s=(1.0, 0.9), activation="relu", step=0.1
) -> Features:
    rule = trapezoid(step, 1)
    h = np.sin(2 * rule[0][0])
    return planted(
        activation,
        pi,
        U,
        s,
        rule,
        h,
        np.cos(rule[0][0]),
        h**2 + np.cos(rule[0][0]) ** 2 + 0.1,
    )


def errors_of(features, samples=2.0, width=1.2, ridge=RIDGES, **options):
    first = solve_first_order(ridge_fit(features, samples, width, ridge), **options)
    assert first.residual.max() < 1e-12
    return ridge_errors(first, **options)


def same(found, expected, rtol=1e-9):
    for name in ("test", "train", "objective", "norm"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=rtol, err_msg=name
        )


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_noise_alone_is_marchenko_pastur(ratio):
    """Features that are independent noise of variance mu2: the trace of their resolvent
    solves a quadratic equation.
    """
    plain = on_a_line(pi=(1.0,), U=((0.0,),), s=(1.0,))
    noise = dataclasses.replace(
        plain, mu0=0 * plain.mu0, mu1=0 * plain.mu1, mu2=0 * plain.mu2 + 0.7
    )
    width = 1.3
    first = solve_first_order(ridge_fit(noise, ratio * width, width, RIDGES))
    # below n = p in units of the ridge
    m = first.response.R[:, 0] / width / (RIDGES if ratio < 1 else 1.0)
    # m = 1/(ridge + r mu2/(1 + mu2 m))
    np.testing.assert_allclose(
        m * (RIDGES + ratio * 0.7 / (1 + 0.7 * m)), 1, rtol=1e-12
    )


def test_the_norm_is_the_slope_of_the_objective():
    """d objective/d ridge = |a|^2/n, since the fit is stationary: second order from
    first.
    """
    h = 1e-5
    for samples in (0.7, 2.5):
        found = errors_of(on_a_line(), samples)
        up, down = (
            errors_of(on_a_line(), samples, ridge=RIDGES * (1 + sign * h)).objective
            for sign in (1, -1)
        )
        np.testing.assert_allclose(
            (up - down) / (2 * h * RIDGES), found.norm / (samples / 1.2), rtol=1e-6
        )


def test_packed_coordinates_and_nodes_are_two_ways_to_one_solution():
    same(errors_of(on_a_line(), packed=True), errors_of(on_a_line(), packed=False))


def test_equal_blocks_are_one():
    """A block may be cut into two that are alike; a block of no neurons that is like
    another adds nothing.
    """
    whole = errors_of(on_a_line())
    for share in (0.5, 1e-3):
        pi = (0.6, 0.4 * (1 - share), 0.4 * share)
        U = ((1.2,), (-0.8,), (-0.8,))
        s = (1.0, 0.9, 0.9)
        same(errors_of(on_a_line(pi, U, s)), whole)


def test_nothing_depends_on_the_unit_of_the_features():
    """Features c times as large with a ridge c^2 as large have the same errors, and a
    norm smaller by c^2.
    """
    c = 3.0
    plain = on_a_line()
    large = dataclasses.replace(
        plain,
        mu0=c * plain.mu0,
        mu1=c * plain.mu1,
        mu2=c**2 * plain.mu2,
        T0=c * plain.T0,
    )
    found = errors_of(large, ridge=c**2 * RIDGES)
    expected = errors_of(plain)
    same(dataclasses.replace(found, norm=c**2 * found.norm), expected)


def test_a_large_ridge_predicts_nothing():
    """Without means, whose strength is infinite in the limit: they are fitted at any
    ridge.
    """
    plain = on_a_line()
    found = errors_of(
        dataclasses.replace(plain, mu0=0 * plain.mu0), ridge=np.array([1e8])
    )
    np.testing.assert_allclose(
        [found.test, found.train, found.objective], found.null[0], rtol=1e-6
    )


def test_all_data_is_the_limit_of_many_samples():
    """The errors at n/d = 1e6 are those of `floors`, which are computed by another
    route; width only lowers them.
    """
    features = on_a_line()
    found = errors_of(features, samples=1e6, ridge=np.array([1e-9]))
    equations = ridge_fit(features, 2.0, 1.2, 0.1)
    all_data, floor = floors(equations, np.zeros(1, dtype=int), np.zeros(1))
    np.testing.assert_allclose([found.test[0], found.train[0]], all_data[0], rtol=1e-4)
    assert floor[0] < all_data[0] < errors_of(features).test.min()


def test_nodes_where_nothing_happens_may_be_one():
    """Features that do not depend on kappa are solved at one node; by a part in 1e6 of
    a change, at all of them.
    """
    still = on_a_line(U=((0.0,), (0.0,)), activation="tanh")
    assert still.even
    moved = dataclasses.replace(
        still, mu1=still.mu1 * (1 + 1e-6 * np.linspace(-1, 1, still.mu1.shape[2]))
    )
    assert not moved.even
    same(errors_of(still), errors_of(moved), rtol=1e-5)


def test_the_stieltjes_transform_at_large_z_and_below_the_axis():
    """m(z) = -1/z - mean/z^2 far away, and a positive measure: Im m > 0 above the axis,
    decreasing on the left.
    """
    spectrum = Spectrum(ridge_fit(on_a_line(), 2.0, 1.2, 1.0))
    far = np.array([1e4j, -1e4 + 1e-3j])
    m = spectrum.stieltjes(spectrum.solve(far))
    np.testing.assert_allclose(m * far, -1 - spectrum.mean / far, rtol=1e-6)
    near = spectrum.stieltjes(spectrum.solve(np.array([0.2, 1.0, 2.0]) + 0.1j))
    assert np.all(near.imag > 0)


def test_sums_over_nodes():
    """Packed functions: the moments and the quadratic form are those of the matrices
    written out.
    """
    features = on_a_line()
    rng = np.random.default_rng(0)
    N = features.weights.shape[1]
    k = 2
    weights = rng.random((3, N))
    matrix = rng.normal(size=(3, k, k))
    vector = rng.normal(size=(3, k))
    matrix = matrix + np.swapaxes(matrix, 1, 2)
    mu1 = features.mu1[0]
    mu2 = features.mu2[0]
    pairs, singles = features.moments(weights)
    np.testing.assert_allclose(
        pairs, np.einsum("bn,qn,rn->bqr", weights, mu1, mu1), rtol=1e-12
    )
    np.testing.assert_allclose(singles, weights @ mu2.T, rtol=1e-12)
    expected = np.einsum("bqr,qn,rn->bn", matrix, mu1, mu1) + vector @ mu2
    np.testing.assert_allclose(
        features.quadratic(matrix, vector), expected, rtol=1e-12, atol=1e-13
    )
