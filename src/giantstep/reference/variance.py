"""Pairs of networks: what two fits have in common, and where their variance comes from.

Page: "Beyond the mean error" (beyond_the_error), section 2, for ridge read-outs.

Problem. Networks a and b learn one target. They have the first layer in common, or
alpha_12 d training samples, or both, or nothing. How far are their outputs apart, how
much of the error of one network is the fault of its layer, its samples or their label
noise, and what is the mean of K networks worth?

Order of the argument.

1. `fitted`: each network alone. Given kappa, its output has a mean and a variance.
2. `same_layer`, `own_layers`: Q_ab, the part of that variance that both outputs share.
3. `disagreement`, `opposite_signs`: how far the outputs are apart.
4. `parts`: pairs of networks alike, each of which shares one thing more.
5. `error_of_mean`: the mean of K networks keeps only what its members share.

Left out: terms of order 1/d, (2.12) to (2.14), so all is in the limit; classifiers,
(2.10) and (2.11); the best weights of a mean of networks, (2.9). Both networks have their features at the same nodes kappa;
with one layer in common the features are the same, and only samples and ridge differ.

An example: tanh after one step on sin. The parts and the noise sum to the test error.

>>> import numpy as np
>>> from giantstep.reference.one_step import Model, features, population_step
>>> model = Model(activation=np.tanh, target=np.sin, noise=0.1)
>>> rows = population_step(model, zeta=[1.0], pi=[1.0], eta=3.0)
>>> fit = fitted(features(model, rows), alpha=1.5, beta=1.0, ridge=0.1)
>>> split = parts(fit, noise=0.1)
>>> print(round(sum(split.values()) + 0.1 - fit.test, 10))
0.0
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import owens_t

from giantstep.reference.gaussian import Array
from giantstep.reference.ridge_readout import (
    Features,
    FirstOrder,
    Signal,
    errors,
    first_order,
    signal,
)


@dataclass
class Fit:
    """One network: its features, its read-out, and the law of its output (1.2)."""

    features: Features
    alpha: float
    beta: float
    first: FirstOrder
    mean: Signal
    test: float
    Q: Array  # the variance of the output at each node kappa


@dataclass
class Pair:
    """What two outputs share at each node kappa."""

    Q: Array  # Q_ab, their covariance given kappa and xi: (2.1)
    RES: Array  # RES_ab, the product of their errors: (2.2)


Answer = Callable[[Array], tuple[Array, Array]]
"""What gives Q1_ab and Q2_ab from RES_ab: (2.3) and (2.4), or (2.5)."""


def fitted(features: Features, alpha: float, beta: float, ridge: float) -> Fit:
    """Return one network by itself, with the equations of few_steps_readout."""
    first = first_order(features, alpha, beta, ridge)
    alone = errors(features, first, alpha, beta, ridge)
    mu1 = features.mu1
    Q = np.sum(mu1 * (alone.Q1 @ mu1), axis=0) + alone.Q2 @ features.mu2
    return Fit(
        features=features,
        alpha=alpha,
        beta=beta,
        first=first,
        mean=signal(features, first, alpha, beta),
        test=alone.test,
        Q=Q,
    )


def error_of_means(a: Fit, b: Fit, own_noise: float) -> Array:
    """Return (2.2) without Q_ab: the product of the errors of the two means.

    Label noise counts where both fits see the same. `own_noise` is the variance of
    noise that each fit has for itself.
    """
    label = a.features
    along_kappa = label.hh - (a.mean.c0 + b.mean.c0) * label.h + a.mean.c0 * b.mean.c0
    product = a.mean.c1 * b.mean.c1
    along_xi = product - label.h1 * (a.mean.c1 + b.mean.c1)
    return along_kappa + np.sum(along_xi, axis=0) - own_noise


def samples_in_common(a: Fit, b: Fit, alpha_12: float) -> Array:
    """Return the weight of each node in the means of (2.3) and (2.5), times alpha_12.

    A common sample moves both fits, each less by the 1 + V that the fit itself moves.
    """
    return alpha_12 * a.features.weights / ((1 + a.first.V) * (1 + b.first.V))


def solved(a: Fit, b: Fit, own_noise: float, answer: Answer) -> Pair:
    """Return the pair of which `answer` gives back the Q1 and Q2 that are in RES_ab."""
    base = error_of_means(a, b, own_noise)
    mu1_a = a.features.mu1
    mu1_b = b.features.mu1
    mu2 = a.features.mu2
    shape = (len(mu1_a), len(mu1_b))
    k2 = shape[0] * shape[1]

    def shared(packed: Array) -> Array:
        Q1 = packed[:k2].reshape(shape)
        return np.sum(mu1_a * (Q1 @ mu1_b), axis=0) + packed[k2:] @ mu2  # (2.1)

    def answered(packed: Array) -> Array:
        Q1, Q2 = answer(base + shared(packed))
        return np.concatenate([Q1.ravel(), Q2])

    # The answer is affine in Q_ab, so its values at zero and at unit vectors are all.
    units = np.eye(k2 + len(mu2))
    constant = answered(0 * units[0])
    linear = np.stack([answered(unit) - constant for unit in units], axis=1)
    Q = shared(np.linalg.solve(units - linear, constant))
    return Pair(Q=Q, RES=base + Q)


def same_layer(a: Fit, b: Fit, alpha_12: float, own_noise: float = 0.0) -> Pair:
    """Return the pair of two fits on one first layer: (2.3) and (2.4)."""
    mu1 = a.features.mu1
    mu2 = a.features.mu2
    beta = a.beta
    beta_q = beta * a.features.pi
    RR = a.first.R * b.first.R
    S_a = a.first.S
    S_b = b.first.S
    eye = np.eye(len(beta_q))
    Theta_a = eye - S_a @ a.first.Vh1
    Theta_b = eye - S_b @ b.first.Vh1
    transfer = eye - (RR / beta_q)[:, None] * a.first.G * b.first.G
    node = samples_in_common(a, b, alpha_12) / beta
    # Both fits express their means by the same rows. What that leaves in the bulk is
    # common to them even where they have no sample in common.
    of_means = beta / RR * np.sum(a.mean.t * b.mean.t, axis=1)

    def answer(RES: Array) -> tuple[Array, Array]:
        A = (mu1 * (node * RES)) @ mu1.T  # (2.3)
        e = mu2 @ (node * RES) + of_means
        pull = e + np.diag(Theta_a.T @ A @ Theta_b)
        Delta = np.linalg.solve(transfer, RR / beta_q * pull)  # (2.4)
        Q1 = S_a @ A @ S_b + (S_a * (Delta / RR)) @ S_b
        return Q1 / beta, Delta / beta

    return solved(a, b, own_noise, answer)


def own_layers(a: Fit, b: Fit, alpha_12: float, own_noise: float = 0.0) -> Pair:
    """Return the pair of two fits with layers of their own: (2.5).

    Independent layers see the same sample alike only through what is linear in it.
    """
    mu1_a = a.features.mu1
    mu1_b = b.features.mu1
    node = samples_in_common(a, b, alpha_12)
    no_rest = np.zeros(len(mu1_a))

    def answer(RES: Array) -> tuple[Array, Array]:
        moved = (mu1_a * (node * RES)) @ mu1_b.T
        Q1 = a.first.S @ moved @ b.first.S
        return Q1 / (a.beta * b.beta), no_rest

    return solved(a, b, own_noise, answer)


def disagreement(a: Fit, b: Fit, pair: Pair) -> float:
    """Return E(f_a - f_b)^2 at a fresh input, the first of (2.6)."""
    along_kappa = (a.mean.c0 - b.mean.c0) ** 2
    along_xi = np.sum((a.mean.c1 - b.mean.c1) ** 2, axis=0)
    apart = along_kappa + along_xi + a.Q + b.Q - 2 * pair.Q
    return float(a.features.weights @ apart)


def opposite_signs(fit: Fit, pair: Pair) -> float:
    """Return P(f_a f_b < 0) of two networks alike, the second of (2.6).

    Given kappa, xi moves both outputs alike, so it is part of what they share.
    """
    along_xi = np.sum(fit.mean.c1**2, axis=0)
    whole = fit.Q + along_xi
    # Rounding can make the correlation larger than one.
    c = np.minimum(1.0, (pair.Q + along_xi) / whole)
    size = np.abs(fit.mean.c0) / np.sqrt(whole)
    chance = owens_t(size, np.sqrt((1 - c) / (1 + c)))
    return float(4 * fit.features.weights @ chance)


def parts(fit: Fit, noise: float) -> dict[str, float]:
    """Return (2.7): where the error of a network comes from, without the label noise.

    W is the layer, X the inputs of the samples, E their label noise; WX and WE are what
    only both together do.
    """
    weights = fit.features.weights
    alpha = fit.alpha

    def q(pair: Pair) -> float:
        return float(weights @ pair.Q)

    # Pair i has one layer and no sample in common, pair ii the samples and no layer.
    W = q(same_layer(fit, fit, alpha_12=0.0))
    X = q(own_layers(fit, fit, alpha, own_noise=noise))
    E = q(own_layers(fit, fit, alpha)) - X
    without_noise = q(same_layer(fit, fit, alpha, own_noise=noise))
    whole = float(weights @ fit.Q)
    return {
        "bias2": float(weights @ error_of_means(fit, fit, own_noise=noise)),
        "W": W,
        "X": X,
        "E": E,
        "WX": without_noise - W - X,
        "WE": whole - without_noise - E,
    }


def error_of_mean(fit: Fit, pair: Pair, K: float) -> float:
    """Return (2.8): the test error of the mean of K networks alike."""
    not_shared = float(fit.features.weights @ (fit.Q - pair.Q))
    return fit.test - (1 - 1 / K) * not_shared
