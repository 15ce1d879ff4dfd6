"""The ridge read-out of features that are Gaussian given a few numbers kappa.

Page: "A few giant steps on a multi-index target", sections 4.2 to 4.4 (few_steps_readout);
with one number kappa it is sections 3 and 4 of "Spiked random features" (spiked_features).
Equation numbers below are those of few_steps_readout.

Problem. The p features of an input are cut into k blocks. Given kappa, a feature of
block q has the mean mu0_q, a slope mu1_q along its own row, and a noise of variance mu2_q.
A second layer is fitted to n samples: minimise sum (y - f)^2 + lambda |a|^2. What are its
errors when n, p and d grow together, n/d = alpha and p/d = beta?

Order of the argument.

1. `first_order`: how much one sample moves the fit, V(kappa). It knows nothing of labels.
2. `signal`: the part of the fit that is the same for every sample, a least squares.
3. `fluctuations`: what is left, linear in the squared errors.

An example: features without noise and slope, mu0 = 1. The fit is a constant, and the
test error is the variance of the label.

>>> import numpy as np
>>> kappa, weights = np.polynomial.hermite_e.hermegauss(20)
>>> one = np.ones((1, 20))
>>> plain = Features(
...     weights=weights / weights.sum(),
...     pi=np.ones(1),
...     mu0=one,
...     mu1=0 * one,
...     mu2=0 * one,
...     h=kappa,
...     hh=kappa**2,
...     h1=np.zeros((0, 20)),
...     T0=np.zeros((1, 0, 20)),
...     T1=np.zeros((1, 0, 0, 20)),
... )
>>> print(round(read_out(plain, alpha=2.0, beta=1.0, ridge=0.1).test, 12))
1.0
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from giantstep.reference.gaussian import Array

MOST_SWEEPS = 200_000


@dataclass
class Features:
    """Features and labels given kappa, at N nodes of a rule for kappa.

    Section 4.1. Shapes: k blocks, C channels for each, L directions of the target that no
    block has learnt. xi in R^L is the input along these.
    """  # noqa: E501

    weights: Array  # (N,), sum 1
    pi: Array  # (k,), the fraction of neurons in each block
    mu0: Array  # (k, N)
    mu1: Array  # (k, N)
    mu2: Array  # (k, N), a variance
    h: Array  # (N,), E[g | kappa]
    hh: Array  # (N,), E[g^2 | kappa] + delta
    h1: Array  # (L, N), E[xi_l g | kappa]
    T0: Array  # (k, C, N), a channel is T0 + sum_l T1_l xi_l: (4.2)
    T1: Array  # (k, C, L, N)


@dataclass
class FirstOrder:
    """The solution of (4.3) and (4.4)."""

    V: Array
    Vh1: Array
    R: Array
    G: Array
    S: Array


Spread = Callable[[FirstOrder, Array, Array, Array], tuple[Array, Array]]
"""What gives Q1 and Q2 from A, eh and beta_q: (4.8)."""


@dataclass
class Signal:
    """The solution of (4.5)."""

    theta: Array
    t: Array
    c0: Array
    c1: Array


@dataclass
class Errors:
    """What (4.9) measures; `identity` is the relative violation of (4.10)."""

    test: float
    train: float
    norm: float
    objective: float
    identity: float
    residual: Array  # RES, the squared error at each node
    Q1: Array
    Q2: Array


def response(
    Vh1: Array, Lambda: Array, beta_q: Array, R: Array, step: float = 1.0
) -> tuple[Array, Array, Array]:
    """Return R, G, S of (4.4) after one sweep from R."""
    eye = np.eye(len(R))
    # Vh1 can be singular, so it is never inverted. Vh1 * R is Vh1 diag(R).
    G = np.linalg.solve(eye + Vh1 * R, Vh1)
    R = R + step * (beta_q / (Lambda + np.diag(G)) - R)
    S = np.linalg.solve(eye + R[:, None] * Vh1, np.diag(R))
    return R, G, S


def spread(
    first: FirstOrder, A: Array, eh: Array, beta_q: Array
) -> tuple[Array, Array]:
    """Return Q1 and Q2 of (4.8): what samples that pull with A and eh do to the fit."""
    R = first.R
    S = first.S
    beta = beta_q.sum()
    eye = np.eye(len(R))
    Theta = eye - S @ first.Vh1
    transfer = eye - (R**2 / beta_q)[:, None] * first.G**2
    pull = eh + np.diag(Theta.T @ A @ Theta)
    delta = np.linalg.solve(transfer, R**2 / beta_q * pull)
    Q1 = S @ A @ S + (S * (delta / R**2)) @ S
    return Q1 / beta, delta / beta


def first_order(
    features: Features,
    alpha: float,
    beta: float,
    ridge: complex,
    start: FirstOrder | None = None,
) -> FirstOrder:
    """Iterate (4.3) and (4.4) until they change nothing.

    The map is monotone for ridge > 0, so plain iteration needs no damping. A complex
    `ridge` = -z gives the resolvent at z, which is then damped.
    """
    rho = alpha / beta
    beta_q = beta * features.pi
    mu1 = features.mu1
    mu2 = features.mu2
    step = 1.0
    if np.iscomplexobj(ridge):
        step = 0.5
    # Without data a weight is free but for the ridge.
    R = beta_q / ridge
    V = (R @ mu1**2 + R @ mu2) / beta
    if start is not None:
        R = start.R
        V = start.V
    for _ in range(MOST_SWEEPS):
        node = rho * features.weights / (1 + V)
        Vh1 = (mu1 * node) @ mu1.T  # (4.3)
        Lambda = ridge + mu2 @ node
        R, G, S = response(Vh1, Lambda, beta_q, R, step)
        change = (np.sum(mu1 * (S @ mu1), axis=0) + R @ mu2) / beta - V
        V = V + step * change
        if np.max(np.abs(change)) < 1e-14 * np.max(np.abs(V)) + 1e-300:
            return FirstOrder(V=V, Vh1=Vh1, R=R, G=G, S=S)
    raise RuntimeError("no fixed point of (4.3) and (4.4)")


def design(features: Features) -> Array:
    """Return the columns of (4.5): (mu0, T0) for h and (0, T1_l) for each h1_l."""
    k, channels, nodes = features.T0.shape
    top = np.concatenate([features.mu0, features.T0.reshape(k * channels, nodes)])
    rows = [top]
    for direction in range(len(features.h1)):
        of_direction = features.T1[:, :, direction].reshape(k * channels, nodes)
        rows.append(np.concatenate([np.zeros((k, nodes)), of_direction]))
    return np.stack(rows)  # (1 + L, columns, N)


def signal(
    features: Features,
    first: FirstOrder,
    alpha: float,
    beta: float,
    dim: float = np.inf,
) -> Signal:
    """Return the least squares (4.5); a finite `dim` adds its bracket (section 4.5)."""
    k, channels, nodes = features.T0.shape
    root = np.sqrt(alpha / beta * features.weights / (1 + first.V))
    # In units of sqrt(R) the penalty is 1 for every channel, and 1/d for the means.
    unit = np.sqrt(np.concatenate([first.R, np.repeat(first.R, channels)]))
    penalty = np.concatenate([np.full(k, 1 / dim), np.ones(k * channels)])
    rows = design(features) * root * unit[:, None]
    labels = np.concatenate([features.h[None], features.h1]) * root
    columns = rows.transpose(0, 2, 1).reshape(-1, len(unit))
    matrix = np.concatenate([columns, np.diag(np.sqrt(penalty))])
    aim = np.concatenate([labels.ravel(), np.zeros(len(unit))])
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    kept = sizes > 1e-14 * sizes[0]
    along = left[:, kept].T @ aim
    solution = unit * (right[kept].T @ (along / sizes[kept]))
    # The fitted values come from the projection: theta itself can lose all its digits.
    fitted = (left[:, kept] @ along)[: len(columns)].reshape(-1, nodes) / root
    t = solution[k:].reshape(k, channels)
    return Signal(theta=solution[:k], t=t, c0=fitted[0], c1=fitted[1:])


def error_of_signal(features: Features, fit: Signal) -> Array:
    """Return E[(y - c0 - c1.xi)^2 | kappa], the first line of (4.6)."""
    along_kappa = features.hh - 2 * fit.c0 * features.h + fit.c0**2
    along_xi = np.sum(fit.c1**2 - 2 * features.h1 * fit.c1, axis=0)
    return along_kappa + along_xi


def fluctuations(
    features: Features,
    first: FirstOrder,
    fit: Signal,
    alpha: float,
    beta: float,
    dim: float = np.inf,
    spread: Spread = spread,
) -> tuple[Array, Array, Array]:
    """Solve (4.6) to (4.8) for the squared error RES and for Q1, Q2."""
    rho = alpha / beta
    beta_q = beta * features.pi
    k = len(beta_q)
    mu1 = features.mu1
    mu2 = features.mu2
    base = error_of_signal(features, fit)
    # A mean that is fitted costs norm: the braces of (4.7).
    source = beta / first.R**2 * (np.sum(fit.t**2, axis=1) + fit.theta**2 / dim)
    node = rho * features.weights / (1 + first.V) ** 2

    def error(Q1: Array, Q2: Array) -> Array:
        return base + np.sum(mu1 * (Q1 @ mu1), axis=0) + Q2 @ mu2  # (4.6)

    def variances(packed: Array) -> Array:
        """Return what the errors of these Q1, Q2 make of them."""
        RES = error(packed[: k * k].reshape(k, k), packed[k * k :])
        A = (mu1 * (node * RES)) @ mu1.T  # (4.7)
        eh = mu2 @ (node * RES) + source
        Q1, Q2 = spread(first, A, eh, beta_q)
        return np.concatenate([Q1.ravel(), Q2])

    # The map is affine, so its values at zero and at unit vectors are all of it.
    units = np.eye(k * k + k)
    constant = variances(0 * units[0])
    linear = np.stack([variances(unit) - constant for unit in units], axis=1)
    packed = np.linalg.solve(units - linear, constant)
    Q1 = packed[: k * k].reshape(k, k)
    Q2 = packed[k * k :]
    return error(Q1, Q2), Q1, Q2


def read_out(
    features: Features,
    alpha: float,
    beta: float,
    ridge: float,
    dim: float = np.inf,
) -> Errors:
    """Return the errors (4.9) of a ridge fit on alpha d samples with beta d neurons."""
    first = first_order(features, alpha, beta, ridge)
    return errors(features, first, alpha, beta, ridge, dim)


def errors(
    features: Features,
    first: FirstOrder,
    alpha: float,
    beta: float,
    ridge: float,
    dim: float = np.inf,
    spread: Spread = spread,
) -> Errors:
    """Return (4.9) from a solution of the first order; `spread` is (4.8) or like it."""
    fit = signal(features, first, alpha, beta, dim)
    RES, Q1, Q2 = fluctuations(features, first, fit, alpha, beta, dim, spread)
    weights = features.weights
    test = float(weights @ RES)
    train = float(weights @ (RES / (1 + first.V) ** 2))
    norm = float(Q2.sum())
    objective = train + ridge * beta / alpha * norm
    # (4.10) has the objective once more, from the signal alone.
    overlap = fit.c0 * features.h + np.sum(features.h1 * fit.c1, axis=0)
    again = float(weights @ ((features.hh - overlap) / (1 + first.V)))
    return Errors(
        test=test,
        train=train,
        norm=norm,
        objective=objective,
        identity=abs(objective - again) / abs(again),
        residual=RES,
        Q1=Q1,
        Q2=Q2,
    )
