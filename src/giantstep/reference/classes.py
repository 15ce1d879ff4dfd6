"""A logistic or hinge read-out of features that are Gaussian given kappa.

Page: "Spiked random features" (spiked_features), section 9. Numbers such as (4.5) are
those of "A few giant steps on a multi-index target" (few_steps_readout).

Problem. Labels are classes, y = sign(<w*, x>), turned with probability `flip`. The second
layer minimises sum l(y f) + (lambda/2) |a|^2. The features are those of `one_step` or of
`several_steps`, for the target sign(z).

Order of the argument.

1. The output of a new sample is omega ~ N(c, Q) given kappa. In the fit it moves to f*,
   which minimises l(y f) + (f - omega)^2/(2V): the sample pulls with G = (f* - omega)/V.
2. `pulls`: the means given kappa of G, of its slope G' and of its square.
3. With G' in the place of 1/(1 + V) the equations are those of the ridge read-out.
4. `classify` iterates 1 to 3 and counts the misclassified.

An example, from section 16: tanh, a planted spike, logistic loss.

>>> from giantstep.reference import one_step
>>> model = one_step.Model(activation=np.tanh, target=np.sign, target_kinks=[0.0])
>>> rows = one_step.planted_spike(pi=[1.0], u=[1.2], s=[1.0], gamma=0.8)
>>> found = classify(one_step.features(model, rows), alpha=1.5, beta=1.2, ridge=0.1)
>>> print(round(found.test, 6), round(found.norm, 5))
0.175403 1.64566
"""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from giantstep.reference.gaussian import REACH, Array, panels
from giantstep.reference.ridge_readout import (
    Features,
    FirstOrder,
    design,
    response,
    spread,
)

PART = 0.8
"""How much of the change of a sweep is made: the whole of it can swing."""


@dataclass
class Outputs:
    """The law of a new sample's output omega given kappa, and how far the fit moves it.

    Given kappa, omega ~ N(c0 + c1 xi, .) where xi is the input along an unlearnt part of
    w*; Q is the variance of omega with that of c1 xi.
    """  # noqa: E501

    c0: Array
    c1: Array
    Q: Array
    V: Array


@dataclass
class Pulls:
    """Means over omega, xi and y given kappa, each of shape (N,)."""

    G: Array
    G_xi: Array
    slope: Array
    G2: Array
    wrong: Array  # the misclassified among new samples
    wrong_in_fit: Array
    loss: Array


@dataclass
class Errors:
    """Fractions of misclassified samples, |a|^2/p and the minimised sum over n."""

    test: float
    train: float
    norm: float
    objective: float


def proximal_margin(loss: str, margin: Array, V: Array) -> Array:
    """Return u = y f* from y omega: the minimiser of l(u) + (u - y omega)^2/(2V)."""
    if loss == "hinge":
        # Beyond 1 nothing pulls; far below it everything pulls alike; between: the edge.  # noqa: E501
        return np.where(margin >= 1, margin, np.minimum(margin + V, 1.0))
    u = margin + V * special.expit(-margin)
    for _ in range(100):
        pull = special.expit(-u)
        move = (u - margin - V * pull) / (1 + V * pull * (1 - pull))
        # The pull is between 0 and 1, which keeps Newton's steps inside.
        u = np.clip(u - move, margin, margin + V)
        if np.max(np.abs(move)) < 1e-13:
            break
    return u


def places(loss: str, V: Array) -> Array:
    """Return where functions of y omega bend: (N, places)."""
    zero = 0 * V
    if loss == "hinge":
        return np.stack([zero, -V, 1 - V, zero + 1], axis=1)
    # At y omega = -V/2 the proximal point changes its sign.
    return np.stack([zero, -V / 2], axis=1)


def offset(features: Features) -> Array:
    """Return b(kappa) with <w*, x> > 0 when b + xi > 0: gamma kappa/rho of (4.8)."""
    # E[sign(b + xi)] = h = 1 - 2 P(xi < -b); a target that is learnt has b = +-infinity.  # noqa: E501
    return -np.sign(features.h) * special.ndtri((1 - np.abs(features.h)) / 2)


def pulls(features: Features, outputs: Outputs, flip: float, loss: str) -> Pulls:
    """Return the means of section 9 over both classes."""
    c0 = outputs.c0[:, None]
    root = np.sqrt(outputs.Q)[:, None]
    V = outputs.V[:, None]
    b = offset(features)[:, None]
    # xi given omega is normal, with the mean m_s and the variance v_s of the page.
    share = outputs.c1[:, None] / root
    v_s = 1 - share**2
    total = np.zeros((7, len(outputs.V)))
    for y in (1, -1):
        breaks = (y * places(loss, outputs.V) - c0) / root
        regular = np.tile(np.linspace(-REACH, REACH, 8), (len(breaks), 1))
        edges = np.hstack([regular, np.clip(breaks, -REACH, REACH)])
        x, weights = panels(np.sort(edges, axis=1))
        omega = c0 + root * x
        m_s = share * x
        B = (b + m_s) / np.sqrt(v_s)
        clean = special.ndtr(y * B)
        density = np.exp(-(B**2) / 2) / np.sqrt(2 * np.pi)
        # The probability of the label y, and the mean of xi where it is y.
        P = flip + (1 - 2 * flip) * clean
        P_xi = flip * m_s
        P_xi = P_xi + (1 - 2 * flip) * (m_s * clean + y * np.sqrt(v_s) * density)
        u = proximal_margin(loss, y * omega, V)
        G = y * (u - y * omega) / V
        if loss == "hinge":
            slope = np.where((u == 1) & (y * omega < 1), 1 / V, 0.0)
            value = np.maximum(1 - u, 0)
        else:
            curvature = special.expit(u) * special.expit(-u)
            slope = curvature / (1 + V * curvature)
            value = np.logaddexp(0, -u)
        measured = [
            P * G,
            P_xi * G,
            P * slope,
            P * G**2,
            P * (y * omega < 0),
            P * (u < 0),
            P * value,
        ]
        for place, function in enumerate(measured):
            total[place] += np.sum(weights * function, axis=1)
    return Pulls(*total)


def newton_move(
    columns: Array, node: Array, mean: Pulls, solution: Array, penalty: Array
) -> Array:
    """Return how far (theta, t) is from E[mu0 G] = 0 and t/R = rho E[T G]."""
    missing = columns[0] @ (node * mean.G) - penalty * solution
    matrix = (columns[0] * node * mean.slope) @ columns[0].T + np.diag(penalty)
    # The channels of an unlearnt direction are T1 xi.
    for T1 in columns[1:]:
        missing = missing + T1 @ (node * mean.G_xi)
        matrix = matrix + (T1 * node * mean.slope) @ T1.T
    return np.linalg.lstsq(matrix, missing, rcond=1e-14)[0]


def classify(
    features: Features,
    alpha: float,
    beta: float,
    ridge: float,
    loss: str = "logistic",
    flip: float = 0.0,
) -> Errors:
    """Iterate section 9 until nothing changes, each sweep a part of the way."""
    rho = alpha / beta
    beta_q = beta * features.pi
    node = rho * features.weights
    k, channels, _ = features.T0.shape
    mu1 = features.mu1
    mu2 = features.mu2
    columns = design(features)
    R = beta_q / ridge
    V = (R @ mu1**2 + R @ mu2) / beta
    Q1 = np.diag(features.pi)
    Q2 = features.pi
    solution = np.zeros(k + k * channels)
    for _ in range(500):
        c = np.tensordot(solution, columns, axes=(0, 1))
        c1 = c[1:].sum(axis=0)
        Q = c1**2 + np.sum(mu1 * (Q1 @ mu1), axis=0) + Q2 @ mu2
        mean = pulls(features, Outputs(c0=c[0], c1=c1, Q=Q, V=V), flip, loss)
        # (4.3) and (4.4) with G' for 1/(1 + V).
        Vh1 = (mu1 * node * mean.slope) @ mu1.T
        Lambda = ridge + mu2 @ (node * mean.slope)
        R, G, S = response(Vh1, Lambda, beta_q, R)
        first = FirstOrder(V=V, Vh1=Vh1, R=R, G=G, S=S)
        new_V = (np.sum(mu1 * (S @ mu1), axis=0) + R @ mu2) / beta
        # (4.7) and (4.8) with G^2 for RES/(1 + V)^2.
        t = solution[k:].reshape(k, channels)
        A = (mu1 * node * mean.G2) @ mu1.T
        eh = mu2 @ (node * mean.G2) + beta / R**2 * np.sum(t**2, axis=1)
        new_Q1, new_Q2 = spread(first, A, eh, beta_q)
        penalty = np.concatenate([np.zeros(k), np.repeat(1 / R, channels)])
        move = newton_move(columns, node, mean, solution, penalty)
        longest = np.max(np.abs(move))
        change = max(
            np.max(np.abs(new_V / V - 1)),
            np.max(np.abs(new_Q2 / Q2 - 1)),
            longest / (1 + np.max(np.abs(solution))),
        )
        V = V + PART * (new_V - V)
        Q1 = Q1 + PART * (new_Q1 - Q1)
        Q2 = Q2 + PART * (new_Q2 - Q2)
        solution = solution + PART * move / max(1.0, longest)
        if change < 1e-12:
            break
    else:
        raise RuntimeError(f"no solution: the last change is {change:.1e}")
    norm = float(Q2.sum())
    loss_of_fit = float(features.weights @ mean.loss)
    return Errors(
        test=float(features.weights @ mean.wrong),
        train=float(features.weights @ mean.wrong_in_fit),
        norm=norm,
        objective=loss_of_fit + ridge / (2 * rho) * norm,
    )
