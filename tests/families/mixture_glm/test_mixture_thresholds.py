"""Separability thresholds, margins, and the laws of the margins."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

import giantstep as gs
from giantstep.problems.mixture_glm.limit import from_margins, hard_margin
from giantstep.problems.mixture_glm.problem import MixtureProblem

PM = {"weights": [0.5, 0.5], "mean_gram": [[1, -1], [-1, 1]]}
CRITICAL = [
    ({"noise": 0.3}, 3.8635316),
    ({"noise": 3.0}, 2.2548679),
    ({"labels": "logit"}, 2.2782205),
    ({"labels": "logit", "teacher_norm": 4.0}, 2.8991379),
    ({"labels": "logit", "teacher_norm": 25.0}, 5.4038906),
    ({"flip": 0.1}, 2.9922860),
    ({"labels": "random"}, 2.0),
    ({**PM, "labels": "cluster"}, 3.7000335),
    ({**PM, "teacher_means": [0.6, -0.6], "noise": 0.5}, 3.6327961),
    ({"weights": [0.5, 0.5], "covariances": [0.2, 1.8], "noise": 0.3}, 2.98427),
]


def scenario(**fields):
    return gs.MixtureGLM(loss="logistic", ridge=0.1, samples_per_dim=1.5, **fields)


@pytest.mark.parametrize(("fields", "expected"), CRITICAL)
def test_thresholds(fields, expected):
    found = float(gs.predict(scenario(**fields), what="thresholds").alpha_c)
    assert found == pytest.approx(expected, rel=2e-6 if expected == 2.98427 else 2e-8)


@pytest.mark.parametrize(
    "covariances",
    [gs.Blocks([0.3, 0.7], [[2.0, 0.4]]), gs.Dense([np.diag([0.2, 1.0, 3.0])])],
)
def test_whitening_does_not_change_the_threshold(covariances):
    rho = float(covariances.mean_eigenvalues[0])
    found = float(
        gs.predict(
            scenario(covariances=covariances, noise=0.3 * rho), what="thresholds"
        ).alpha_c
    )
    assert found == pytest.approx(3.8635316, rel=2e-8)


def test_noiseless_labels_are_always_separable():
    assert float(gs.predict(scenario(), what="thresholds").alpha_c) == math.inf


@pytest.mark.parametrize(
    "fields",
    [
        {"noise": 0.3},
        {**PM, "labels": "cluster", "covariances": [0.3, 1.5], "intercept": True},
    ],
)
def test_zero_of_the_margin_is_the_threshold(fields):
    """The route for general covariances, where there is a closed formula to check
    it.
    """
    s = scenario(**fields)
    points = {
        name: np.array([value]) for name, (value, _) in s.numeric_fields().items()
    }
    closed = float(gs.predict(s, what="thresholds").alpha_c)
    assert from_margins(hard_margin(MixtureProblem.of(s, points))) == pytest.approx(
        closed, rel=1e-7
    )


def test_general_covariances_have_a_threshold_where_the_margin_closes():
    s = scenario(
        weights=[0.5, 0.5],
        covariances=gs.Blocks([0.5, 0.5], [[1.5, 0.3], [0.2, 1.8]]),
        noise=0.3,
    )
    critical = float(gs.predict(s, what="thresholds").alpha_c)
    near = gs.predict(
        s,
        what="thresholds",
        samples_per_dim=[0.99 * critical, 0.995 * critical, 1.01 * critical],
    ).kappa
    assert float(near[2]) == 0
    assert float(near[1] / near[0]) == pytest.approx(0.5, rel=0.02)


def test_directions_without_variance_do_not_help():
    """Half of the coordinates vanish: alpha_c is that of half the dimension, at twice
    the relative noise.
    """
    flat = gs.predict(
        scenario(covariances=gs.Blocks([0.5, 0.5], [[1.0, 0.0]]), noise=0.3),
        what="thresholds",
    ).alpha_c
    half = gs.predict(scenario(noise=0.6), what="thresholds").alpha_c
    assert float(flat) == pytest.approx(0.5 * float(half), rel=1e-7)


def test_random_labels_have_the_margin_of_gardner():
    kappa = gs.predict(
        scenario(labels="random"), what="thresholds", samples_per_dim=[0.5, 1.0, 1.9]
    ).kappa.values
    alpha = 1 / ((1 + kappa**2) * norm.cdf(kappa) + kappa * norm.pdf(kappa))
    np.testing.assert_allclose(alpha, [0.5, 1.0, 1.9], rtol=1e-11)


@pytest.mark.parametrize(
    ("noise", "alphas", "expected"),
    [
        (0.3, [0.6, 1, 2, 3], [0.3664024, 0.3374445, 0.2953111, 0.2719505]),
        (3.0, [0.6, 1, 2], [0.4610972, 0.4544687, 0.4451266]),
    ],
)
def test_hard_margin_curves(noise, alphas, expected):
    s = gs.MixtureGLM(noise=noise, loss="maxmargin", samples_per_dim=1.0)
    np.testing.assert_allclose(
        gs.predict(s, samples_per_dim=alphas).test_error, expected, atol=6e-8
    )


def test_hard_margin_close_to_the_threshold():
    s = gs.MixtureGLM(noise=0.3, loss="maxmargin", samples_per_dim=1.0)
    result = gs.predict(s, samples_per_dim=[0.999 * 3.8635316])
    assert bool(result.converged.all()) and int(result.iterations[0]) < 100


def test_samples_are_separable_below_and_not_above():
    """Linear programming at d = 100: 20 samples of each side of alpha_c."""
    rng = np.random.default_rng(2)
    dim = 100

    def separable(alpha):
        X = rng.normal(size=(round(alpha * dim), dim))
        y = np.sign(X[:, 0] + math.sqrt(3.0) * rng.normal(size=len(X)))
        solved = linprog(
            np.zeros(dim),
            -y[:, None] * X,
            -np.ones(len(X)),
            bounds=(None, None),
            method="highs",
        )
        return solved.status == 0

    assert all(separable(0.75 * 2.2548679) for _ in range(6))
    assert not any(separable(1.3 * 2.2548679) for _ in range(6))


def test_hard_margin_beyond_a_threshold_without_formula_says_so():
    s = gs.MixtureGLM(
        weights=[0.5, 0.5],
        covariances=gs.Blocks([0.5, 0.5], [[1.5, 0.3], [0.2, 1.8]]),
        noise=0.3,
        loss="maxmargin",
        samples_per_dim=1.0,
    )
    with pytest.warns(gs.GiantstepWarning, match="not separable"):
        result = gs.predict(s, samples_per_dim=[1.0, 3.7, 4.5])
    assert result.converged.values.tolist() == [True, True, False]


def test_real_labels_have_no_threshold():
    s = gs.MixtureGLM(labels="linear", ridge=0.1, samples_per_dim=1.5)
    with pytest.raises(gs.InputError, match="labels"):
        gs.predict(s, what="thresholds")


# -- laws of the margins ---------------------------------------------------------------


def test_support_vectors_of_the_hinge():
    s = gs.MixtureGLM(noise=0.5, loss="hinge", ridge=0.5, samples_per_dim=2.0)
    result = gs.predict(s, what="margins")
    assert float(result.support_vectors) == pytest.approx(0.7060037, abs=6e-8)
    assert float(result.on_margin) == pytest.approx(0.3082044, abs=6e-8)


MARGINS = [
    {"noise": 0.5, "loss": "hinge", "ridge": 0.5},
    {"noise": 0.5, "loss": "logistic", "ridge": 0.05},
    {"noise": 0.5, "loss": "maxmargin"},
    {"noise": 0.5, "loss": "huber", "huber_threshold": 0.6, "ridge": 0.5},
    {"labels": "phase", "noise": 0.1, "loss": "square", "ridge": 0.3},
    {
        "labels": "z + 0.5*z**2",
        "noise": 0.1,
        "loss": "huber",
        "huber_threshold": 0.4,
        "ridge": 0.3,
    },
    {**PM, "labels": "cluster", "loss": "logistic", "intercept": True, "ridge": 0.3},
]


@pytest.mark.parametrize("fields", MARGINS)
def test_laws_of_the_margins_agree_with_the_observables(fields):
    s = gs.MixtureGLM(samples_per_dim=1.5, **fields)
    errors = gs.predict(s)
    low = -40.0
    high = 40.0
    x = np.linspace(low, high, 4001)
    law = gs.predict(s, what="margins", x=x)
    if s.binary:
        zero = gs.predict(s, what="margins", x=[0.0])
        assert float(zero.test_cdf[0]) == pytest.approx(
            float(errors.test_error), abs=1e-12
        )
        assert float(zero.train_cdf[0]) == pytest.approx(
            float(errors.train_error), abs=1e-12
        )
    else:
        second = np.trapezoid(x**2 * law.test_density, x)
        assert second == pytest.approx(float(errors.test_mse), rel=1e-4)
        assert np.trapezoid(x**2 * law.train_density, x) == pytest.approx(
            float(errors.train_error), rel=3e-3
        )
    assert np.trapezoid(law.test_density, x) == pytest.approx(1.0, abs=1e-5)
    assert np.trapezoid(law.train_density, x) + float(law.on_margin) == pytest.approx(
        1.0, abs=0.02
    )
    for name in ("test_cdf", "train_cdf"):
        assert np.all(np.diff(law[name]) >= -1e-15)
        assert float(law[name][-1]) == pytest.approx(1.0, abs=1e-9)
    slope = np.diff(law.test_cdf) / np.diff(x)
    middle = 0.5 * (law.test_density.values[1:] + law.test_density.values[:-1])
    np.testing.assert_allclose(slope, middle, atol=2e-4)


def test_interpolation_has_all_samples_on_the_margin():
    for labels in ("sign", "linear"):
        s = gs.MixtureGLM(
            labels=labels, noise=0.3, loss="interpolate", samples_per_dim=0.5
        )
        law = gs.predict(s, what="margins", x=[-0.5, 0.5, 1.5])
        assert float(law.on_margin) == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(
            law.train_cdf, [0, 0, 1] if labels == "sign" else [0, 1, 1], atol=1e-12
        )


def test_margins_may_be_asked_for_in_any_order():
    s = gs.MixtureGLM(noise=0.5, loss="hinge", ridge=0.5, samples_per_dim=2.0)
    forth, back = (
        gs.predict(s, what="margins", x=x) for x in ([-1.0, 0.3, 2.0], [2.0, 0.3, -1.0])
    )
    np.testing.assert_array_equal(forth.train_cdf, back.train_cdf[::-1])
