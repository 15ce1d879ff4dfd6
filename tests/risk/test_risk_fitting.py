"""The estimators against other solvers, and against what an optimum must satisfy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from giantstep.core.readout.losses.fitting import fit, smooth
from giantstep.problems.mixture_glm.samples import loss_of


def problem(n, d=20, seed=0, real=False):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) / np.sqrt(d) + 0.1 * rng.standard_normal(
        d
    ) / np.sqrt(d)
    field = rows @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    return rows, (field if real else np.sign(field)), rng.choice([0.5, 2.0], n)


def objective(rows, labels, scale, loss, ridge, l1, w, b):
    losses = loss_of(loss, 0.7)(labels, rows @ w + b)
    return scale @ losses + 0.5 * ridge * w @ w + l1 * np.abs(w).sum()


def separable(rows, labels, intercept=False):
    """Tell by a linear programme whether some weights have all margins at least 1."""
    signed = rows * labels[:, None]
    columns = np.hstack([signed, labels[:, None]]) if intercept else signed
    found = linprog(
        np.zeros(columns.shape[1]),
        A_ub=-columns,
        b_ub=-np.ones(len(labels)),
        bounds=(None, None),
    )
    return found.status == 0


CASES = [
    (loss, ridge, l1, intercept, n)
    for loss in ("square", "logistic", "hinge", "huber")
    for ridge, l1 in ((0.3, 0.0), (0.01, 0.0), (0.0, 0.2), (0.1, 0.2))
    for intercept in (False, True)
    for n in (12, 60)
    if not (loss == "hinge" and ridge and l1)
]


@pytest.mark.parametrize("loss", ["square", "huber"])
@pytest.mark.parametrize(("ridge", "l1"), [(0.1, 0.0), (0.0, 0.1), (0.1, 0.1)])
def test_an_intercept_alone_may_fit_every_label(loss, ridge, l1):
    """Its objective is rounding: a gap relative to it said that the fit was not
    optimal.
    """
    rows = np.random.default_rng(0).standard_normal((4, 10))
    found = fit(
        rows, np.ones(4), loss, ridge=ridge, l1=l1, intercept=True, threshold=0.7
    )
    assert found.solved, found
    assert abs(found.intercept - 1) < 1e-10 and np.abs(found.weights).max() < 1e-10


@pytest.mark.parametrize(("loss", "ridge", "l1", "intercept", "n"), CASES)
def test_nothing_near_an_estimate_is_better(loss, ridge, l1, intercept, n):
    rows, labels, scale = problem(n, real=loss == "huber")
    found = fit(
        rows,
        labels,
        loss,
        ridge=ridge,
        l1=l1,
        intercept=intercept,
        weights=scale,
        threshold=0.7,
    )
    assert found.solved
    assert found.gap < 1e-8
    best = objective(
        rows, labels, scale, loss, ridge, l1, found.weights, found.intercept
    )
    rng = np.random.default_rng(1)
    for size in (1e-1, 1e-3):
        for _ in range(40):
            step = size * rng.standard_normal(rows.shape[1])
            shift = size * rng.standard_normal() * intercept
            moved = objective(
                rows,
                labels,
                scale,
                loss,
                ridge,
                l1,
                found.weights + step,
                found.intercept + shift,
            )
            assert moved >= best * (1 - 1e-9)


@pytest.mark.parametrize("loss", ["square", "logistic", "huber"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n", [12, 60])
def test_smooth_losses_agree_with_another_minimiser(loss, intercept, n):
    rows, labels, scale = problem(n, real=loss == "huber")
    found = fit(
        rows, labels, loss, ridge=0.2, intercept=intercept, weights=scale, threshold=0.7
    )

    def value(x):
        return objective(rows, labels, scale, loss, 0.2, 0.0, x[:20], x[20] * intercept)

    other = minimize(
        value, np.zeros(21), method="BFGS", options={"gtol": 1e-9, "maxiter": 3000}
    )
    assert value(np.append(found.weights, found.intercept)) <= other.fun * (1 + 1e-9)
    np.testing.assert_allclose(found.weights, other.x[:20], atol=2e-4)


def test_hinge_agrees_with_smooth_approximations_of_it():
    rows, labels, scale = problem(60)
    found = fit(rows, labels, "hinge", ridge=0.3, intercept=True, weights=scale)

    def value(x, width=1e-3):
        slack = 1 - labels * (rows @ x[:20] + x[20])
        return (
            scale @ (width * np.logaddexp(0.0, slack / width)) + 0.15 * x[:20] @ x[:20]
        )

    other = minimize(
        value,
        np.append(found.weights, found.intercept) * 0.9,
        method="BFGS",
        options={"maxiter": 2000},
    )
    np.testing.assert_allclose(found.weights, other.x[:20], atol=0.02)
    np.testing.assert_allclose(found.intercept, other.x[20], atol=0.02)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_largest_margin_is_the_limit_of_the_hinge(intercept):
    rows, labels, _ = problem(24)
    hard = fit(rows, labels, "maxmargin", ridge=0.0, intercept=intercept)
    assert hard.solved
    margins = labels * (rows @ hard.weights + hard.intercept)
    np.testing.assert_allclose(margins.min(), 1.0, rtol=1e-9)
    soft = fit(rows, labels, "hinge", ridge=1e-5, intercept=intercept)
    np.testing.assert_allclose(soft.weights, hard.weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_least_norm_that_fits(intercept):
    rows, labels, _ = problem(12, real=True)
    found = fit(rows, labels, "interpolate", ridge=0.0, intercept=intercept)
    assert found.solved
    np.testing.assert_allclose(
        rows @ found.weights + found.intercept, labels, atol=1e-10
    )
    nearly = fit(rows, labels, "square", ridge=1e-8, intercept=intercept)
    np.testing.assert_allclose(found.weights, nearly.weights, rtol=1e-5, atol=1e-6)
    assert (
        "fit every label"
        in fit(*problem(40, real=True)[:2], "interpolate", ridge=0.0).problem
    )


def test_what_does_not_exist_is_said():
    rows, labels, _ = problem(120)
    assert not separable(rows, labels)
    assert "not separable" in fit(rows, labels, "maxmargin", ridge=0.0).problem
    rows, labels, _ = problem(24)
    assert separable(rows, labels)
    assert "separable" in fit(rows, labels, "logistic", ridge=0.0).problem
    assert "fewer samples" in fit(rows[:10], labels[:10], "square", ridge=0.0).problem
    assert not fit(rows, labels, "logistic", ridge=0.0).solved


@pytest.mark.parametrize("intercept", [False, True])
def test_a_margin_is_found_exactly_where_a_linear_programme_finds_one(intercept):
    found = {True: 0, False: 0}
    for seed in range(24):
        rows, labels, _ = problem(68, seed=seed)
        exists = separable(rows, labels, intercept)
        assert (
            fit(rows, labels, "maxmargin", ridge=0.0, intercept=intercept).solved
            == exists
        )
        found[exists] += 1
    assert min(found.values()) >= 3, found  # both kinds were there


def test_a_fit_that_stops_early_is_no_optimum(monkeypatch):
    monkeypatch.setattr(smooth, "_STEPS", 2)
    rows, labels, _ = problem(60)
    found = fit(rows, labels, "logistic", ridge=0.01)
    assert found.gap > 1e-6
    assert not found.solved


def test_separability_with_an_intercept():
    rows = np.array([[1.0], [2.0], [3.0], [4.0]])
    labels = np.array([-1.0, -1.0, 1.0, 1.0])
    assert not separable(rows, labels)
    assert separable(rows, labels, intercept=True)
    found = fit(rows, labels, "maxmargin", ridge=0.0, intercept=True)
    np.testing.assert_allclose(
        [found.weights[0], found.intercept], [2.0, -5.0], rtol=1e-8
    )


@pytest.mark.parametrize(("ridge", "l1"), [(0.3, 0.0), (0.0, 0.0), (0.3, 0.2)])
def test_huber_starts_where_no_sample_curves_the_loss(ridge, l1):
    """At w = 0 every label lies beyond the threshold: Newton's step has no length of
    its own there.
    """
    rows, labels, _ = problem(60, d=5)
    labels = 30.0 * labels + 50.0
    found = fit(
        rows, labels, "huber", ridge=ridge, l1=l1, intercept=True, threshold=0.7
    )
    assert found.solved
    ones = np.ones(60)
    own = objective(
        rows, labels, ones, "huber", ridge, l1, found.weights, found.intercept
    )
    other = minimize(
        lambda x: objective(rows, labels, ones, "huber", ridge, l1, x[:-1], x[-1]),
        np.append(found.weights, found.intercept) * 0.99,
        method="Powell",
        options={"maxiter": 20000, "xtol": 1e-9, "ftol": 1e-13},
    )
    assert own <= other.fun * (1 + 1e-9)


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_large_l1_penalty_leaves_no_weights(loss, intercept):
    rows, labels, _ = problem(30)
    found = fit(
        rows, labels, loss, ridge=0.1, l1=1e4, intercept=intercept, threshold=0.7
    )
    assert found.solved and not found.weights.any()


def test_one_class_alone():
    """Without an intercept it is a problem like others; an intercept alone would fit
    it.
    """
    rows = problem(8)[0]
    found = fit(rows, np.ones(8), "hinge", ridge=0.1)
    assert found.solved
    assert objective(
        rows, np.ones(8), np.ones(8), "hinge", 0.1, 0.0, 1.01 * found.weights, 0.0
    ) > objective(rows, np.ones(8), np.ones(8), "hinge", 0.1, 0.0, found.weights, 0.0)
    for loss in ("logistic", "hinge", "maxmargin"):
        assert (
            "one class"
            in fit(rows, np.ones(8), loss, ridge=0.1, intercept=True).problem
        )


def test_hinge_fits_are_solved_at_small_ridges():
    """The dual is of the order of the ridge: a stop that does not know it leaves a
    tenth of these unsolved.
    """
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((40, 80)) / np.sqrt(80)
        labels = np.where(rng.random(40) < 0.5, -1.0, 1.0)
        assert fit(rows, labels, "hinge", ridge=1e-6).solved, seed
