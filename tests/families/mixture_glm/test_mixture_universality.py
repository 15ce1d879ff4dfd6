"""One Gaussian in place of the mixture: when it is enough, which Gaussian is meant, and
when it is not enough.
"""

import math

import numpy as np
import pytest

import giantstep as gs

SCALES = {"weights": [0.5, 0.5], "covariances": [0.2, 1.8]}
R3 = math.sqrt(3)
APART = {
    "weights": [0.5, 0.5],
    "mean_gram": [[4, -4], [-4, 4]],
    "teacher_means": [R3, -R3],
}
POINT = {"ridge": 0.1, "samples_per_dim": 2.0}
OBSERVABLES = ("train_loss", "train_error", "test_error", "test_mse", "test_loss")


def triple(scenario, variable):
    """Return the value of the mixture, of the matched and of the within Gaussian."""
    own = float(gs.predict(scenario)[variable])
    gaps = gs.predict(scenario, what="universality")[variable]
    return [
        own,
        own - float(gaps.sel(reference="matched")),
        own - float(gaps.sel(reference="within")),
    ]


@pytest.mark.parametrize(
    ("fields", "variable", "expected"),
    [
        (
            {**SCALES, "labels": "linear", "noise": 0.1},
            "train_loss",
            [0.0280178, 0.0271107, 0.0271107],
        ),
        (
            {**SCALES, "labels": "linear", "noise": 0.1},
            "test_mse",
            [0.2207100, 0.1844289, 0.1844289],
        ),
        ({**SCALES}, "train_loss", [0.1372205, 0.0931083, 0.0931083]),
        ({**SCALES}, "test_error", [0.2290420, 0.1955327, 0.1955327]),
        (
            {**SCALES, "loss": "logistic"},
            "train_loss",
            [0.2476412, 0.1821496, 0.1821496],
        ),
        (
            {**SCALES, "loss": "logistic"},
            "test_error",
            [0.1878422, 0.1796624, 0.1796624],
        ),
        ({**SCALES, "loss": "hinge"}, "train_loss", [0.0896221, 0.0214608, 0.0214608]),
        ({**SCALES, "loss": "hinge"}, "test_error", [0.1980112, 0.1855429, 0.1855429]),
        (
            {**APART, "labels": "linear"},
            "train_loss",
            [0.0007622, 0.0007622, 0.0018039],
        ),
        ({**APART}, "train_loss", [0.0511805, 0.0920812, 0.0931083]),
        ({**APART}, "test_error", [0.0766953, 0.1850309, 0.1955327]),
        (
            {**APART, "loss": "logistic"},
            "train_loss",
            [0.0690927, 0.1062484, 0.1821496],
        ),
        (
            {**APART, "loss": "logistic"},
            "test_error",
            [0.0392258, 0.0970136, 0.1796624],
        ),
    ],
)
def test_reference_values(fields, variable, expected):
    np.testing.assert_allclose(
        triple(gs.MixtureGLM(**fields, **POINT), variable),
        expected,
        rtol=1e-6,
        atol=6e-8,
    )


@pytest.mark.parametrize("loss", ["square", "logistic", "hinge"])
def test_a_teacher_orthogonal_to_the_means_sees_one_gaussian(loss):
    """Common covariance, symmetric clusters, tau = 0: no gap to either reference, for
    any loss (U1).
    """
    s = gs.MixtureGLM(
        weights=[0.5, 0.5], mean_gram=[[4, -4], [-4, 4]], noise=0.1, loss=loss, **POINT
    )
    gaps = gs.predict(s, what="universality")
    for variable in OBSERVABLES:
        np.testing.assert_allclose(gaps[variable], 0, atol=1e-9, err_msg=variable)


def test_linear_labels_and_square_loss_see_the_matched_gaussian_only():
    """U2: no gap to `matched` at any ridge; the published gap is one to `within`."""
    s = gs.MixtureGLM(
        weights=[0.3, 0.7],
        mean_gram=[[1.5, 0.3], [0.3, 0.8]],
        teacher_means=[0.7, -0.4],
        labels="linear",
        noise=0.2,
        **POINT,
    )
    gaps = gs.predict(s, what="universality", ridge=[0.1, 1.0])
    for variable in ("train_loss", "test_mse"):
        np.testing.assert_allclose(
            gaps[variable].sel(reference="matched"), 0, atol=1e-12, err_msg=variable
        )
        assert np.all(np.abs(gaps[variable].sel(reference="within")) > 1e-5)
    nonlinear = gs.predict(s.replace(labels="sign"), what="universality")
    assert abs(float(nonlinear.train_loss.sel(reference="matched"))) > 1e-3


@pytest.mark.parametrize("labels", ["linear", "random"])
def test_ridgeless_training_loss_is_universal(labels):
    """U3: 2 train = (1 - 1/alpha) sigma^2 for heterogeneous covariances, while the test
    error is not universal.
    """
    noise = {"noise": 0.3} if labels == "linear" else {}
    s = gs.MixtureGLM(
        weights=[0.3, 0.7],
        covariances=gs.Blocks([0.4, 0.6], [[0.1, 2.0], [1.7, 0.4]]),
        labels=labels,
        samples_per_dim=2.0,
        **noise,
    )
    alpha = np.array([1.3, 2.0, 5.0])
    result = gs.predict(s, samples_per_dim=alpha)
    sigma2 = 0.3 if labels == "linear" else 1.0
    np.testing.assert_allclose(
        2 * result.train_loss, (1 - 1 / alpha) * sigma2, rtol=1e-10
    )
    assert np.all(np.abs(result.test_mse / (sigma2 * alpha / (alpha - 1)) - 1) > 1e-3)


def test_ridgeless_training_loss_is_not_universal_where_the_noise_differs():
    s = gs.MixtureGLM(**SCALES, labels="phase", samples_per_dim=3.0)
    gap = gs.predict(s, what="universality").train_loss
    assert np.all(np.abs(gap) > 1e-3)


def test_correlated_teacher_figure():
    """Figure 3 of the paper: mixture = matched, a gap to within that closes at
    Omega = 1.
    """
    omegas = [0, 0.25, 0.5, 0.75, 1]
    expected = [0.0955166, 0.0962628, 0.0985015, 0.1022326, 0.1074561]
    for omega, value in zip(omegas, expected):
        tau = math.sqrt(1 - omega**2)
        s = gs.MixtureGLM(
            weights=[0.5, 0.5],
            mean_gram=[[1, -1], [-1, 1]],
            teacher_means=[tau, -tau],
            labels="linear",
            ridge=0.7,
            samples_per_dim=1.2,
        )
        np.testing.assert_allclose(
            triple(s, "train_error"), [value, value, 0.1074561], atol=6e-8
        )


def test_dense_and_isotropic_references_agree():
    shared = {
        "weights": [0.3, 0.7],
        "mean_gram": [[1.5, 0.3], [0.3, 0.8]],
        "teacher_means": [0.7, -0.4],
        "noise": 0.2,
        "loss": "logistic",
        **POINT,
    }
    one = gs.predict(
        gs.MixtureGLM(covariances=[0.6, 1.4], **shared), what="universality"
    )
    matrices = gs.Dense([0.6 * np.eye(5), 1.4 * np.eye(5)])
    other = gs.predict(
        gs.MixtureGLM(covariances=matrices, **shared), what="universality"
    )
    for variable in OBSERVABLES:
        np.testing.assert_allclose(one[variable], other[variable], atol=1e-10)


def test_matched_gaussian_has_the_moments_of_the_mixture():
    """The spiked representation of `matched` beside its dense covariance, built by
    hand.
    """
    rng = np.random.default_rng(5)
    dim = 400
    p = np.array([0.3, 0.7])
    values = np.array([0.6, 1.4])
    means = rng.normal(size=(2, dim)) / math.sqrt(dim)
    theta = rng.normal(size=dim)
    mixture = gs.MixtureGLM(
        weights=p,
        covariances=gs.Dense(
            [v * np.eye(dim) for v in values], means=means, teacher=theta
        ),
        noise=0.2,
        loss="hinge",
        **POINT,
    )
    mean = p @ means
    covariance = (p @ values) * np.eye(dim) + sum(
        w * np.outer(m - mean, m - mean) for w, m in zip(p, means)
    )
    by_hand = gs.MixtureGLM(
        covariances=gs.Dense([covariance], means=[mean], teacher=theta),
        noise=0.2,
        loss="hinge",
        **POINT,
    )
    matched = triple(mixture, "test_error")[1]
    # equal up to 1/d
    assert matched == pytest.approx(float(gs.predict(by_hand).test_error), rel=3e-3)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"labels": "cluster"}, "cluster"),
        ({"loss_weights": [1.0, 2.0]}, "weigh"),
        ({"l1": 0.1, "labels": "linear", "mean_gram": [[1, 0], [0, 1]]}, "l1"),
    ],
)
def test_references_that_do_not_exist_are_refused(fields, match):
    s = gs.MixtureGLM(weights=[0.5, 0.5], **fields, **POINT)
    with pytest.raises(gs.InputError, match=match):
        gs.predict(s, what="universality")
