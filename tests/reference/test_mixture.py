"""The engine of Gaussian mixtures beside `giantstep.reference.mixture`."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.reference import mixture, mixture_channels

LINKS = {"linear": lambda nu: nu, "phase": np.abs, "square": np.square}
TWO = {
    "weights": [0.3, 0.7],
    "covariances": gs.Isotropic([0.6, 1.4]),
    "mean_gram": [[1.5, 0.3], [0.3, 0.8]],
    "teacher_means": [0.7, -0.4],
    "samples_per_dim": 2.0,
    "ridge": 0.1,
}
ZOO = {
    "ridge, linear labels": {**TWO, "labels": "linear", "noise": 0.3},
    "large ridge, phase": {**TWO, "labels": "phase", "ridge": 50.0},
    "square labels, intercept": {**TWO, "labels": "square", "intercept": True},
    "interpolation": {
        **TWO,
        "labels": "linear",
        "noise": 0.5,
        "loss": "interpolate",
        "samples_per_dim": 0.6,
        "ridge": 0.0,
    },
    "logistic, signs, intercept": {
        **TWO,
        "labels": "sign",
        "noise": 0.1,
        "loss": "logistic",
        "intercept": True,
    },
    "logistic, logit labels, flips": {
        **TWO,
        "labels": "logit",
        "flip": 0.05,
        "loss": "logistic",
        "ridge": 1.0,
    },
    "weighted logistic": {
        **TWO,
        "labels": "sign",
        "loss": "logistic",
        "loss_weights": [3.0, 0.5],
        "noise": 0.1,
    },
    "hinge, flips": {
        **TWO,
        "labels": "sign",
        "noise": 0.2,
        "flip": 0.1,
        "loss": "hinge",
        "ridge": 0.3,
    },
    "square loss, signs": {**TWO, "labels": "sign", "flip": 0.1},
    "hinge, labels of the clusters": {
        **TWO,
        "labels": "cluster",
        "loss": "hinge",
        "intercept": True,
    },
    "random labels": {**TWO, "labels": "random", "loss": "logistic"},
    "largest margin": {
        "weights": [1.0],
        "labels": "sign",
        "loss": "maxmargin",
        "samples_per_dim": 1.5,
    },
    "Huber": {
        **TWO,
        "labels": "linear",
        "noise": 1.0,
        "loss": "huber",
        "huber_threshold": 0.5,
        "intercept": True,
    },
    "blocks": {
        "covariances": gs.Blocks([0.25, 0.75], [[2.0, 0.3]], teacher=[2.8, 0.4]),
        "labels": "sign",
        "noise": 0.1,
        "loss": "logistic",
        "ridge": 0.05,
        "samples_per_dim": 1.5,
    },
    "two clusters in blocks, lasso": {
        "weights": [0.4, 0.6],
        "covariances": gs.Blocks(
            [0.5, 0.5], [[1.5, 0.5], [0.6, 1.2]], teacher=[1.5, 0.5]
        ),
        "labels": "linear",
        "noise": 0.2,
        "l1": 0.3,
        "samples_per_dim": 0.8,
    },
}


def data_of(scenario):
    """Return the reference's data of the engine's covariances."""
    K = len(scenario.weights)
    parts = scenario.covariances
    if isinstance(parts, gs.Isotropic):
        mean_gram = np.zeros((K, K))
        teacher_means = np.zeros(K)
        if len(scenario.mean_gram):
            mean_gram = scenario.mean_gram
            teacher_means = scenario.teacher_means
        return mixture.isotropic(
            parts.values, mean_gram, scenario.teacher_norm, teacher_means
        )
    pi = np.array(parts.weights)
    sigma = np.array(parts.values)
    teacher = np.array(parts.teacher)
    G = np.zeros((len(pi), 2 * K, 2 * K))
    for block in range(len(pi)):
        variances = sigma[:, block]
        G[block, :K, :K] = teacher[block] * np.outer(variances, variances)
    return mixture.Data(pi, sigma, G, rho=sigma @ (pi * teacher), tau=np.zeros(K))


@pytest.mark.parametrize("name", list(ZOO))
def test_the_engine_has_the_fixed_point_of_the_page(name):
    scenario = gs.MixtureGLM(**ZOO[name])
    data = data_of(scenario)
    problem = mixture_channels.Problem(
        weights=list(scenario.weights),
        rho=data.rho,
        tau=data.tau,
        alpha=scenario.samples_per_dim,
        loss=scenario.loss,
        labels=LINKS.get(scenario.labels, scenario.labels),
        noise=scenario.noise,
        flip=scenario.flip,
        huber=scenario.huber_threshold,
        loss_weights=ZOO[name].get("loss_weights"),
    )
    answer = mixture.solve(
        problem, data, scenario.ridge, scenario.l1, scenario.intercept
    )
    found = gs.predict(scenario)
    for variable, plain in answer.items():
        np.testing.assert_allclose(
            found[variable].values, plain, rtol=1e-8, atol=1e-10, err_msg=variable
        )


@pytest.mark.parametrize(("alpha", "ridge"), [(0.5, 0.01), (2.0, 0.3), (4.0, 20.0)])
def test_isotropic_ridge_in_closed_form(alpha, ridge):
    """Section 5.2: a quadratic equation for V, then the test and the training error."""
    rho = 1.5
    noise = 0.4
    data = mixture.isotropic([1.0], [[0.0]], rho, [0.0])
    problem = mixture_channels.Problem(
        [1.0], data.rho, data.tau, alpha, labels=LINKS["linear"], noise=noise
    )
    answer = mixture.solve(problem, data, ridge)
    shift = ridge + alpha - 1
    V = (-shift + np.sqrt(shift**2 + 4 * ridge)) / (2 * ridge)
    phi = 1 - ridge * V
    test = (rho * (1 - phi) ** 2 + noise) / (1 - alpha * V**2 / (1 + V) ** 2)
    assert answer["V"][0] == pytest.approx(V, rel=1e-10)
    assert answer["m"][0] == pytest.approx(phi * rho, rel=1e-10)
    assert answer["test_error"] == pytest.approx(test, rel=1e-10)
    assert answer["train_loss"] == pytest.approx(test / (1 + V) ** 2 / 2, rel=1e-10)
