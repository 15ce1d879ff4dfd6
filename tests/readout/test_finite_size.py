"""The read-out at a finite dimension, from features written by hand: finite_size_steps
section 3.
"""

import dataclasses

import numpy as np
import pytest
from problems import planted, ridge_fit, setting_e, trapezoid

from giantstep.core.readout import (
    FiniteSize,
    InputBulk,
    classify,
    ridge_errors,
    solve_first_order,
)
from giantstep.core.readout.finite_size import stretch_of_atoms
from giantstep.core.readout.input_spread import InputSpread

DIM = 200.0
SCALARS = ("test", "train", "norm", "objective")


def on_a_line(pi=(0.6, 0.4), U=((1.0,), (-0.7,)), s=(1.0, 0.8), activation="relu"):
    """Two classes on a line, with a label that is a sign for who classifies."""
    rule = trapezoid(0.1, 1)
    z = rule[0][0]
    features = planted(
        activation, pi, U, s, rule, np.tanh(2 * z), [], np.tanh(2 * z) ** 2 + 0.05
    )
    features = dataclasses.replace(features, field=z[None], rho=np.zeros((1, 0)))
    return ridge_fit(features, 1.5, 1.2, 0.03)


def independent_rows(equations):
    """Means of independent rows: diag(1/p_q)."""
    return (
        np.eye(len(equations.features.pi)) / (DIM * equations.block_width)[:, :, None]
    )


def some_gram(k):
    F = np.random.default_rng(4).normal(size=(k, k))
    return (F @ F.T / (2 * DIM))[None]


def size(gram=None, **more):
    return FiniteSize(np.array([1 / DIM]), gram, **more)


def assert_same(found, expected, rtol, names=(*SCALARS, "theta", "x", "Q1", "Q2")):
    for name in names:
        np.testing.assert_allclose(
            getattr(found, name),
            getattr(expected, name),
            rtol=rtol,
            atol=1e-15,
            err_msg=name,
        )


@pytest.mark.parametrize(
    ("setting", "packed"), [(setting_e, True), (on_a_line, True), (on_a_line, False)]
)
def test_means_of_independent_rows_have_the_ridge_one_over_dR(setting, packed):
    """Catches a wrong term of (3.1)-(3.5): they must add up to theta^2/(d R)."""
    equations = setting()
    first = solve_first_order(equations, packed=packed)
    plain = ridge_errors(first, size(), packed=packed)
    found = ridge_errors(first, size(independent_rows(equations)), packed=packed)
    assert_same(found, plain, 1e-12)
    for name in SCALARS:
        np.testing.assert_allclose(
            getattr(found, name), getattr(plain, name), rtol=1e-14
        )


def test_the_loss_identity_holds_with_any_means_and_the_stretch():
    equations = on_a_line()
    s_nu = np.gradient(equations.features.mu1, axis=2)  # any function of kappa
    equations = dataclasses.replace(
        equations, features=dataclasses.replace(equations.features, stretch=s_nu)
    )
    first = solve_first_order(equations)
    stretch = stretch_of_atoms(np.array([1 / DIM]), np.ones((1, 1, 2)), np.ones(1))
    for one in (size(some_gram(2)), size(some_gram(2), stretch=stretch)):
        assert ridge_errors(first, one).identity[0] < 1e-13


def test_both_forms_of_the_linear_system_agree():
    equations = on_a_line()
    forms = [
        ridge_errors(
            solve_first_order(equations, packed=packed),
            size(some_gram(2), directions=np.ones(1)),
            packed=packed,
        )
        for packed in (True, False)
    ]
    assert_same(*forms, 1e-11)


def test_a_class_cut_in_two_has_the_same_errors():
    """Two classes with the same features and means m' = m1, m2 whose weighted sum is
    the old one.
    """
    whole = on_a_line((0.6, 0.4))
    cut = on_a_line((0.6, 0.15, 0.25), ((1.0,), (-0.7,), (-0.7,)), (1.0, 0.8, 0.8))
    p = DIM * cut.block_width[0]
    means = np.random.default_rng(1).normal(size=(2, 5)) / np.sqrt(DIM)
    share = p[1:] / p[1:].sum()
    # independent parts of the two halves, across all means and of weighted sum 0, as
    # those of independent rows
    apart = np.array([1.0, -share[0] / share[1]]) * np.sqrt(1 / p[1] - 1 / p[1:].sum())
    full = np.concatenate([means[:1], np.repeat(means[1:], 2, axis=0)])
    gram = full @ full.T
    gram[1:, 1:] += np.outer(apart, apart)
    found = ridge_errors(solve_first_order(cut), size(gram[None]))
    expected = ridge_errors(solve_first_order(whole), size((means @ means.T)[None]))
    assert_same(found, expected, 1e-11, SCALARS)


def input_bulk(equations, s):
    """The isotropic rows of `planted` as one atom; or as two that are alike."""
    k = len(s)
    B = np.asarray(s)
    product = np.repeat((B[:, None] * B)[None], 2, axis=0)
    JU = np.zeros((k, 1, 1))
    JU[:, 0, 0] = B
    spread = InputSpread(
        JU,
        np.zeros((k, 1)),
        B[:, None],
        np.array([0]),
        np.ones((1, 1)),
        np.zeros((k, 1)),
    )
    features = equations.features
    mu1 = features.mu1 / B[:, None]
    kappa = features.kappa[0]
    T0 = np.concatenate([kappa * mu1, np.zeros_like(mu1)], axis=1)
    features = dataclasses.replace(
        features,
        mu1=mu1,
        T0=T0,
        omega=np.ones((1, 2 * k)),
        Jp=np.zeros((1, 0, 2 * k)),
        h1=features.h1[:, :0],
    )
    bulk = InputBulk(product, np.array([0.3, 0.7]), spread)
    return dataclasses.replace(equations, features=features, bulk=bulk)


def test_atoms_that_are_alike_are_isotropic_rows():
    """finite_size_steps (6.2)-(6.4) on two atoms of eigenvalue 1 against (3.1)-(3.5); a
    wrong power of B shows.
    """
    s = np.array([1.0, -0.8])
    equations = on_a_line(s=s)
    gram = some_gram(2)
    at_atoms = np.repeat((gram * s[:, None] * s)[:, None], 2, axis=1)
    found = ridge_errors(solve_first_order(input_bulk(equations, s)), size(at_atoms))
    expected = ridge_errors(solve_first_order(equations), size(gram))
    assert_same(found, expected, 1e-12, SCALARS)
    np.testing.assert_allclose(
        stretch_of_atoms(
            np.array([1 / DIM]), np.ones((1, 2, 2)) * s**2, np.array([0.3, 0.7])
        ),
        np.full((1, 2, 2), 0.5 / DIM),
        rtol=1e-14,
    )


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_classifier_on_means_of_independent_rows(loss):
    equations = dataclasses.replace(
        on_a_line(activation="tanh"), a=np.array([0.1]), b=np.ones(1)
    )
    plain = classify(equations, loss, np.zeros(1), size())
    found = classify(equations, loss, np.zeros(1), size(independent_rows(equations)))
    other = classify(
        equations, loss, np.zeros(1), size(4 * independent_rows(equations))
    )
    assert_same(found, plain, 1e-8, ("test", "train", "norm", "theta"))
    assert other.test[0] > 1.05 * plain.test[0]
    assert other.identity[0] < 1e-8


def test_a_direction_that_nothing_depends_on_is_not_counted():
    """(3.7) with an idle unlearnt direction beyond those of the target; counting it
    would change 2e-5.
    """
    equations = on_a_line()
    features = equations.features
    k = 2
    zeros = np.zeros((1, k, features.h.shape[1]))
    idle = dataclasses.replace(
        features,
        T0=np.concatenate([features.T0, zeros], axis=1),
        omega=np.ones((1, 2 * k)),
        Jp=np.concatenate([np.zeros((1, 1, k)), np.ones((1, 1, k))], axis=2),
        h1=np.zeros((1, 1, features.h.shape[1])),
        rho=np.zeros((1, 1)),
    )
    one = solve_first_order(equations)
    two = solve_first_order(dataclasses.replace(equations, features=idle))
    found = ridge_errors(two, size(some_gram(2), directions=np.ones(1)))
    expected = ridge_errors(one, size(some_gram(2), directions=np.ones(1)))
    assert_same(found, expected, 1e-12, SCALARS)
    assert abs(found.test[0] / ridge_errors(one, size(some_gram(2))).test[0] - 1) > 1e-4
