"""Closed forms at an unchanged bulk: random features, one small step, growing steps with polynomial spikes.

The bulk is that of random features, F0 = c1 X W0^T + c_{>1} Z with population covariance
Omega = c1^2 W0 W0^T + c_{>1}^2. With q = p/n, lambda = ridge q and nu the effective ridge, every error follows from the
nu-regularised population risk V(nu) (section 3 of the notes on step sizes):

    test = (V - nu V')/(1 - gamma),   train = (lambda/nu)^2 test,   objective = (lambda/nu) V

The steps differ in V only: one spike of finite strength (small step, section 5), or the free regressors kappa^k of the
spikes that diverge (growing step, section 7). Coefficients are c_k = E[sigma He_k]/k!.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import numpy as np

from giantstep.gaussian import Function
from giantstep.types import Floats


@dataclass(frozen=True)
class Bulk:
    """Random-features bulk of B points at its effective ridge nu: traces t, tau1 and their derivatives in nu."""

    ridge: Floats  # lambda = ridge p/n
    load: Floats  # q = p/n
    nu: Floats
    t: Floats
    dt: Floats
    tau: Floats
    dtau: Floats
    slope: Floats  # 1 - gamma

    def errors(self, V: Floats, dV: Floats) -> tuple[Floats, Floats, Floats]:
        """Return (test, train, objective) of the population risk V with derivative dV."""
        test = (V - self.nu * dV) / self.slope
        with np.errstate(divide="ignore", invalid="ignore"):
            shrink = np.where(self.nu > 0, self.ridge / self.nu, 1 - self.load)
        return test, shrink**2 * test, shrink * V


def random_features_bulk(activation: Function, samples: Floats, width: Floats, ridge: Floats) -> Bulk:
    """Solve lambda(nu) = lambda for every point by bisection and Newton; all arrays (B,), ratios per dimension."""
    c0, c1 = activation.hermite(1)
    rest = activation.second_moment(np.zeros(1), np.ones(1))[0] - c0**2 - c1**2
    rest = max(float(rest), 0.0)
    r, q = width, width / samples
    goal = ridge * q
    top = q * (c1**2 + rest)

    def traces(nu: Floats) -> tuple[Floats, Floats]:
        x = nu + rest
        A, B = c1**2 * r * x, x + c1**2 * (1 - r)
        t = 2 / (B + np.sqrt(B**2 + 4 * A))
        return t, -(c1**2 * r * t**2 + t) / (2 * A * t + B)

    def excess(nu: Floats) -> Floats:
        return nu * (1 - q * (1 - nu * traces(nu)[0])) - goal

    # lambda(nu) increases above its last zero; the bracket starts there because it is negative below
    low, high = np.zeros_like(goal), goal + top + 1e-300
    for _ in range(200):
        middle = np.where(low > 0, np.sqrt(low * high), np.where(high > 1e-290, high * 1e-3, 0.0))
        middle = np.where(high < 4 * low, 0.5 * (low + high), middle)
        below = excess(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    nu = np.where((goal == 0) & (q < 1), 0.0, 0.5 * (low + high))
    t, dt = traces(nu)
    x = nu + rest
    tau, dtau = r * (1 - x * t) / c1**2, -r * (t + x * dt) / c1**2
    return Bulk(goal, q, nu, t, dt, tau, dtau, 1 - q + q * (2 * nu * t + nu**2 * dt))


@dataclass(frozen=True)
class Target:
    """What the closed forms need of the target: c_*k = E[g He_k]/k!, k = 0..K, and E y^2 (B,)."""

    coefficients: Floats
    power: Floats

    @classmethod
    def of(cls, target: Function, noise: Floats, order: int) -> Target:
        """Read the coefficients up to `order` off a target function."""
        normalised = target.hermite(order) / np.sqrt([float(factorial(k)) for k in range(order + 1)])
        return cls(normalised, target.second_moment(np.zeros(1), np.ones(1))[0] + noise)


def untrained(activation: Function, target: Target, bulk: Bulk) -> tuple[Floats, Floats]:
    """Return V and V' of random features (section 3); a constant is learnt for free where c0 is not 0."""
    c0, c1 = activation.hermite(1)
    free = target.coefficients[0] ** 2 if abs(c0) > 1e-12 else 0.0
    weight = (c1 * target.coefficients[1]) ** 2
    return target.power - free - weight * bulk.tau, -weight * bulk.dtau


def small_step(activation: Function, target: Target, bulk: Bulk, eta: Floats, power: Floats) -> tuple[Floats, Floats]:
    """Return V and V' after a step of size eta = O(1) (section 5).

    `power` is eta^2 b^2, b = |beta|, which may be negative where the initial output matters.
    """
    c1 = activation.hermite(1)[1]
    V, dV = untrained(activation, target, bulk)
    t, dt = c1**4 * bulk.t, c1**4 * bulk.dt
    w, dw = 1 - c1**2 * bulk.tau, -(c1**2) * bulk.dtau
    up, down = t * w**2, 1 + power * t * w
    dup, ddown = dt * w**2 + 2 * t * w * dw, power * (dt * w + t * dw)
    weight = target.coefficients[1] ** 4 * eta**2
    return V - weight * up / down, dV - weight * (dup / down - up * ddown / down**2)


def plateau(activation: Function, target: Target, bulk: Bulk, cosine: Floats, degree: int) -> tuple[Floats, Floats]:
    """Return V and V' where the spikes of degree 1..`degree` diverge: their monomials are fitted free (section 7)."""
    active = active_degrees(activation, degree)
    c1 = activation.hermite(1)[1]
    learnt = projected_power(target, cosine, active)
    sine = 1 - cosine**2 if 1 in active else np.ones_like(cosine)
    weight = (c1 * target.coefficients[1]) ** 2 * sine
    return target.power - learnt - weight * bulk.tau, -weight * bulk.dtau


def active_degrees(activation: Function, degree: int) -> list[int]:
    """Return the degrees up to `degree` whose coefficient of the activation does not vanish; 0 is the constant."""
    coefficients = activation.hermite(max(degree, 1))
    return [k for k in range(degree + 1) if abs(coefficients[k]) > 1e-10]


def projected_power(target: Target, cosine: Floats, degrees: list[int]) -> Floats:
    """Return |P y|^2, the squared norm of the projection of y on the monomials kappa^k, k in `degrees`."""
    top = max(degrees, default=0)
    monomials = np.zeros((top + 1, len(degrees)))
    for column, k in enumerate(degrees):
        for m in range(k // 2 + 1):
            weight = factorial(k) / (2**m * factorial(m) * factorial(k - 2 * m))
            monomials[k - 2 * m, column] = weight * np.sqrt(factorial(k - 2 * m))
    basis, _ = np.linalg.qr(monomials)
    orders = np.arange(top + 1)
    scale = np.sqrt([float(factorial(k)) for k in orders]) * target.coefficients[: top + 1]
    values = scale * cosine[:, None] ** orders  # h_j^y = sqrt(j!) c_*j cos^j
    return np.sum((values @ basis) ** 2, axis=1)


def spikes_of(exponent: float) -> int:
    """Return how many degrees of spikes diverge for eta = n0^exponent: l with (l-1)/(2l) < exponent < l/(2l+2)."""
    return int(np.floor(1 / (1 - 2 * exponent))) if exponent < 0.5 else 0
