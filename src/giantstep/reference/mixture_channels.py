"""Channels of linear estimators on a Gaussian mixture: sections 1 and 3 of mixture_glm.

In cluster c the field omega of a training sample, its own label taken out, is Gaussian
with mean H = h_c + b and variance q_c. Its covariance with the field nu of the teacher is
m_c. What the fit makes of the sample is the prox

    P = argmin_z  loss(y, z) + (z - omega)^2/(2 V),    g = (P - omega)/V.

The channel averages over omega, nu and the label y, and gives the hats (2a). There are
three of them: `class_channel` for labels 1 and -1 and any loss, `square_channel` for
real labels and the square loss, `residual_channel` for linear labels and the Huber
loss. `mixture.py` has the fixed point.

The limits of a vanishing ridge, `interpolate` and `maxmargin`, have rescaled losses:
there V stands for lambda V, and the ridge is 1.

>>> problem = Problem(weights=[1.0], rho=[1.0], tau=[0.0], alpha=2.0, loss="hinge")
>>> hats, seen = channel(problem, 0, V=1.0, q=1.0, m=0.5, H=0.0)
>>> round(float(seen["test_error"]), 10)  # arccos(1/2)/pi
0.3333333333
"""  # noqa: E501

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr

from giantstep.reference.averages import normal_density, panel_points


@dataclass
class Problem:
    """K clusters; the letters of the page are in the comments."""

    weights: list  # p_c
    rho: np.ndarray  # variance of nu (K,)
    tau: np.ndarray  # mean of nu (K,)
    alpha: float
    loss: str = "square"
    labels: str | Callable = "sign"  # or f0(nu) of real labels
    cluster_labels: tuple = (1, -1)  # y_c
    noise: float = 0.0  # Delta
    flip: float = 0.0  # epsilon
    huber: float = 1.0  # delta
    loss_weights: list | None = None  # omega_c


# -- section 3: what the fit makes of a sample ------------------------------------


def prox(problem, s, V):
    """Return u = y P, its slope du/ds and the loss at u, where s = y omega."""
    if problem.loss == "square":
        u = (s + V) / (1 + V)
        return u, 1 / (1 + V), (1 - u) ** 2 / 2
    if problem.loss == "interpolate":
        return 1.0, 0.0, 0.0
    if problem.loss == "maxmargin":
        return np.maximum(s, 1), np.where(s > 1, 1.0, 0.0), 0.0
    if problem.loss == "hinge":
        u = np.where(s > 1, s, np.minimum(1, s + V))
        stuck = (s < 1) & (s > 1 - V)
        return u, np.where(stuck, 0.0, 1.0), np.maximum(1 - u, 0)
    # Logistic: u - s = V expit(-u). From these starts Newton's steps are monotone.
    u = np.where(s + V / 2 > 0, np.maximum(s, 0), np.minimum(0, s + V))
    for _ in range(30):
        u = u - (u - s - V * expit(-u)) / (1 + V * expit(u) * expit(-u))
    return u, 1 / (1 + V * expit(u) * expit(-u)), np.logaddexp(0, -u)


def label_law(problem, c, y, M, v):
    """Return Z0 = P(y | nu ~ N(M, v)) and its slope in M."""
    if problem.labels == "sign":
        width = np.sqrt(v + problem.noise)
        Z = ndtr(y * M / width)
        slope = y * normal_density(M / width) / width
    elif problem.labels == "logit":
        z, mass = panel_points()
        chance = expit(y * (M[:, None] + np.sqrt(v) * z))
        Z = chance @ mass
        slope = y * (chance * (1 - chance)) @ mass
    elif problem.labels == "cluster":
        Z = np.full_like(M, float(y == problem.cluster_labels[c]))
        slope = np.zeros_like(M)
    else:
        Z = np.full_like(M, 0.5)
        slope = np.zeros_like(M)
    return (1 - 2 * problem.flip) * Z + problem.flip, (1 - 2 * problem.flip) * slope


def class_channel(problem, c, V, q, m, H):
    """Return E of -g', g^2, dg/dnu and g, and the observables, for labels 1 and -1."""
    # A search may leave m^2 <= rho q for a moment.
    v = max(problem.rho[c] - m * m / q, 1e-12)
    hats = np.zeros(4)
    seen = {"train_loss": 0.0, "train_error": 0.0, "test_error": 0.0}
    for y in (1, -1):
        edges = [0, y, y * (1 - V), -y * V, -y * V / 2]
        xi, weights = panel_points([(edge - H) / np.sqrt(q) for edge in edges], 0.5)
        omega = H + np.sqrt(q) * xi
        Z, slope = label_law(problem, c, y, problem.tau[c] + m / np.sqrt(q) * xi, v)
        u, du, loss = prox(problem, y * omega, V)
        g = y * (u - y * omega) / V
        mass = weights * Z
        # The label may be discontinuous in nu: Z0 is differentiated, not P(y|nu).
        pull = (weights * slope) @ g
        hats += [mass @ ((1 - du) / V * np.ones_like(g)), mass @ g**2, pull, mass @ g]
        seen["train_loss"] += mass @ (loss * np.ones_like(g))
        seen["train_error"] += mass @ (u * np.ones_like(g) < 0)
        seen["test_error"] += mass @ (y * omega < 0)
    return hats, seen


def square_channel(problem, c, V, q, m, H):
    """Return the same for real labels and the square loss: three moments are enough."""
    nu, weights = panel_points([-problem.tau[c] / np.sqrt(problem.rho[c])])
    f0 = problem.labels(problem.tau[c] + np.sqrt(problem.rho[c]) * nu)
    y0 = weights @ f0
    y1 = weights @ (f0 * nu) / np.sqrt(problem.rho[c])
    y2 = weights @ f0**2 + problem.noise
    k = 1 / (1 + V)
    if problem.loss == "interpolate":
        k = 1 / V
    mse = y2 - 2 * H * y0 - 2 * m * y1 + q + H * H
    train = mse / (1 + V) ** 2 / 2
    if problem.loss == "interpolate":
        train = 0.0
    hats = np.array([k, k * k * mse, k * y1, k * (y0 - H)])
    return hats, {"train_loss": train, "train_error": 2 * train, "test_error": mse}


def residual_channel(problem, c, V, q, m, H):
    """Return the same for linear labels and the Huber loss: y - omega is Gaussian."""
    delta = problem.huber
    mean = problem.tau[c] - H
    width = np.sqrt(problem.rho[c] + problem.noise + q - 2 * m)
    edge = delta * (1 + V)
    xi, weights = panel_points([(-edge - mean) / width, (edge - mean) / width])
    r = mean + width * xi
    g = np.clip(r / (1 + V), -delta, delta)
    inside = weights @ (abs(r) < edge) / (1 + V)
    # At the fit the residual is r - V g, and |g| = delta on the linear part.
    left = r - V * g
    loss = np.where(abs(r) < edge, left**2 / 2, delta * abs(left) - delta**2 / 2)
    seen = {"train_loss": weights @ loss, "train_error": weights @ left**2}
    seen["test_error"] = weights @ r**2
    return np.array([inside, weights @ g**2, inside, weights @ g]), seen


def channel(problem, c, V, q, m, H):
    """Return the hats of cluster c, (2a), and its observables."""
    weight = 1.0
    if problem.loss_weights is not None:
        weight = problem.loss_weights[c]
    chosen = class_channel
    if callable(problem.labels):
        chosen = square_channel
    if problem.loss == "huber":
        chosen = residual_channel
    hats, seen = chosen(problem, c, weight * V, q, m, H)
    # A weighted loss is the loss at weight V, with g times the weight.
    hats = hats * np.array([weight, weight**2, weight, weight])
    return problem.alpha * problem.weights[c] * hats, seen
