"""Joint Gaussian moments: closed forms and rules against the reference values of
gradient_dynamics section 2.2.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf

from giantstep.core.base.errors import InputError
from giantstep.core.maths.gaussian import (
    Function,
    Plane,
    gram_factor,
    joint_rule,
    semidefinite_factor,
)
from giantstep.problems.batch_reuse.population import pair_moment

A = np.array(
    [[1, 0, 0, 0], [0.3, 0.9, 0, 0], [-0.2, 0.4, 0.7, 0], [0.5, -0.1, 0.2, 0.6]]
)
C = A @ A.T


def s(x):
    return erf(x / np.sqrt(2))


def slope(x):
    return np.sqrt(2 / np.pi) * np.exp(-0.5 * x * x)


def erf_products(v):
    a, b, c, d = (v[..., i] for i in range(4))
    return np.stack(
        [
            s(a) * s(b),
            slope(a) * slope(b),
            slope(a) * b * s(c),
            slope(a) * slope(b) * s(c) * s(d),
        ],
        -1,
    )


def relu_products(v):
    a, b, c = (v[..., i] for i in range(3))
    return np.stack(
        [
            np.maximum(a, 0) * np.maximum(b, 0),
            (a > 0) * (b > 0.0),
            (a > 0) * b * np.maximum(c, 0),
        ],
        -1,
    )


ERF = [0.098364635, 0.330516518, 0.114953138, 0.007048241]
RELU = [0.233601906, 0.301208191, 0.101884369]
"""E of the products, to nine digits."""


def expectation(rule, f, C):
    """E f(v), v ~ N(0, C)."""
    v = rule.nodes @ semidefinite_factor(C).T
    return np.einsum("n,n...->...", rule.weights, f(v))


def erf_i2(C, a, b):
    """E s(u_a) s(u_b) in closed form."""
    return (
        2
        / np.pi
        * np.arcsin(C[..., a, b] / np.sqrt((1 + C[..., a, a]) * (1 + C[..., b, b])))
    )


def test_closed_forms():
    assert erf_i2(C, 0, 1) == pytest.approx(ERF[0], abs=5e-10)
    assert pair_moment(Function("relu"), C[0, 0], C[1, 1], C[0, 1]) == pytest.approx(
        RELU[0], abs=5e-10
    )
    batch = np.stack([C, 2 * C, np.eye(4)])
    np.testing.assert_array_equal(
        erf_i2(batch, 0, 1), [erf_i2(each, 0, 1) for each in batch]
    )


def test_a_product_rule_knows_its_error():
    rule = joint_rule(4)
    value = expectation(rule, erf_products, C)
    error = np.abs(value - expectation(rule.coarser(), erf_products, C))
    np.testing.assert_allclose(value, ERF, atol=1e-8)
    assert np.all(np.abs(value - ERF) <= error + 5e-10)


def test_sobol_points_give_three_digits_and_exact_second_moments():
    rule = joint_rule(4, kind="sobol", points=1 << 14)
    value = expectation(rule, erf_products, C)
    error = np.abs(value - expectation(rule.coarser(), erf_products, C))
    np.testing.assert_allclose(value, ERF, atol=2e-4)
    assert np.all(np.abs(value - ERF) <= 5 * error)
    second = expectation(rule, lambda v: v[..., :, None] * v[..., None, :], C)
    np.testing.assert_allclose(second, C, atol=1e-12)
    assert np.abs(expectation(rule, lambda v: v[..., 0] ** 3, C)) < 1e-14


def test_relu_against_sobol_points():
    value = expectation(
        joint_rule(3, kind="sobol", points=1 << 16), relu_products, C[:3, :3]
    )
    np.testing.assert_allclose(value, RELU, atol=5e-4)


def test_polynomials_are_exact():
    """E[(v1 v2 v3)^2] by Isserlis; one node less per dimension misses it, so that the
    test can fail.
    """
    three = C[:3, :3]
    exact = (
        three[0, 0] * three[1, 1] * three[2, 2]
        + 8 * three[0, 1] * three[1, 2] * three[0, 2]
    )
    exact += 2 * (
        three[0, 0] * three[1, 2] ** 2
        + three[1, 1] * three[0, 2] ** 2
        + three[2, 2] * three[0, 1] ** 2
    )

    def square(v):
        return (v[..., 0] * v[..., 1] * v[..., 2]) ** 2

    assert joint_rule(3, degree=6).kind == "polynomial"
    assert expectation(joint_rule(3, degree=6), square, three) == pytest.approx(
        exact, rel=1e-13
    )
    assert abs(expectation(joint_rule(3, degree=4), square, three) - exact) > 1e-3


def test_a_declared_plane_restores_the_accuracy_that_a_jump_destroys():
    def jump(v):
        return np.sign(v[..., 0] + v[..., 1]) * v[..., 0]

    exact = np.sqrt(2 / np.pi) / np.sqrt(2)
    plane = Plane((np.sqrt(0.5), np.sqrt(0.5)), 0.0)
    told = expectation(joint_rule(2, planes=[plane]), jump, np.eye(2))
    untold = expectation(joint_rule(2), jump, np.eye(2))
    assert abs(told - exact) < 1e-8 < 1e-5 < abs(untold - exact)


def test_the_rule_is_chosen_by_what_is_known():
    assert joint_rule(2).kind == "tensor"
    assert joint_rule(2, planes=None).kind == "sobol"
    assert joint_rule(5).kind == "sobol"
    assert joint_rule(5, degree=12).kind == "polynomial"
    with pytest.raises(InputError, match="nodes"):
        joint_rule(7, kind="tensor", nodes=16)


@given(st.integers(1, 5), st.integers(0, 4), st.integers(0, 1000))
def test_singular_covariances_are_factored(size, rank, seed):
    columns = np.random.default_rng(seed).standard_normal((size, rank))
    gram = columns @ columns.T
    factor = semidefinite_factor(gram)
    np.testing.assert_allclose(
        factor @ factor.T, gram, atol=1e-9 * max(1.0, np.trace(gram))
    )
    assert np.all(np.triu(factor, 1) == 0)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 3), st.integers(0, 1000))
def test_gram_matrices_are_factored_from_their_samples(size, count, silent, seed):
    """The factor of F^T F without its formation; columns of zeros (neurons that no
    sample moves) are no exception.
    """
    samples = np.random.default_rng(seed).standard_normal((2, count, size))
    samples[1, :, :silent] = 0.0
    factor = gram_factor(samples)
    gram = samples.transpose(0, 2, 1) @ samples
    np.testing.assert_allclose(
        factor @ factor.transpose(0, 2, 1), gram, atol=1e-9 * max(1.0, gram.max())
    )
    plain = semidefinite_factor(gram)[..., : factor.shape[-1]]
    np.testing.assert_allclose(factor, plain, atol=1e-5 * max(1.0, gram.max()))
