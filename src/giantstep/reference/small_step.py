"""Random features, and one small gradient step before the read-out, in closed form.

Page: "Step-size regimes of one gradient step" (step_size_regimes), sections 1, 2, 3 and 5.

Problem. Labels y = f(<x, beta*>) + noise. The first layer is random, or has made one step of
the plain size eta = O(1) on n_g = alpha0 d samples. Such a step adds one spike of finite
strength to the features, and the fit stays linear in x. Ridge regression on n samples.

Order of the argument.

1. `coefficients`: of the activation and the target only two Hermite coefficients and two
   powers matter, section 1.
2. `trace` and `tau`: traces of the population covariance of the features, (3a) to (3c).
3. `effective_ridge`: n samples at the ridge lambda act like all samples at nu, (3d).
4. `risk`: the error with all samples at nu, (3e) and (5a).
5. `read_out`: its derivative in nu gives the errors on n samples, (3f).

Derivatives in nu are complex steps. An example, section 12.1 and 12.2: the base point with
Setting 1, without a step and with eta = 4. The page's ridge is lambda = ridge p/n.

>>> relu = lambda z: np.maximum(z, 0) - 1 / np.sqrt(2 * np.pi)
>>> model = Model(activation=relu, kinks=[0.0], target=lambda z: z, noise=1.0)
>>> for eta in (0.0, 4.0):
...     errors = read_out(model, eta, alpha0=4.0, alpha=4.0, beta=2.0, ridge=0.2)
...     print(round(errors.test, 6))
1.564194
1.404448
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from giantstep.reference.gaussian import Function, normal_rule
from giantstep.reference.solving import TINY


@dataclass
class Model:
    """The functions of section 1 with the places of their kinks, and the label noise."""  # noqa: E501

    activation: Function
    target: Function
    kinks: Sequence[float] = ()
    target_kinks: Sequence[float] = ()
    noise: float = 0.0
    f0: float = 0.0  # 1: the network's output at the start is in the residual


@dataclass
class Coefficients:
    """Section 1, with k! taken out of each: c_0, c_1, and E f^2 without them."""

    mean: float
    slope: float
    rest: float


@dataclass
class Errors:
    """What (3f) measures; the norm is |a|^2/p, with b = a/sqrt(p)."""

    test: float
    train: float
    norm: float
    objective: float


def coefficients(function: Function, kinks: Sequence[float]) -> Coefficients:
    """Return the Hermite coefficients of degree 0 and 1, and the power of the others."""  # noqa: E501
    z, weights = normal_rule(kinks)
    values = function(z)
    mean = float(weights @ values)
    slope = float(weights @ (z * values))
    power = float(weights @ values**2)
    return Coefficients(mean=mean, slope=slope, rest=power - mean**2 - slope**2)


def trace(nu: complex, sigma: Coefficients, r: float) -> complex:
    """Return t(nu) = tr (Omega + nu)^-1/N, (3a); r = N/d."""
    x = nu + sigma.rest
    A = sigma.slope**2 * r * x
    B = x + sigma.slope**2 * (1 - r)
    return 2 / (B + np.sqrt(B**2 + 4 * A))


def tau(nu: complex, sigma: Coefficients, r: float) -> complex:
    """Return tau_1(nu), the same trace along the inputs, (3c)."""
    x = nu + sigma.rest
    return r * (1 - x * trace(nu, sigma, r)) / sigma.slope**2


def ridge_of(nu: complex, sigma: Coefficients, r: float, q: float) -> complex:
    """Return lambda(nu) of (3d); q = N/n."""
    return nu * (1 - q * (1 - nu * trace(nu, sigma, r)))


def effective_ridge(lambda_: float, sigma: Coefficients, r: float, q: float) -> float:
    """Return nu, where lambda(nu) = lambda."""
    top = lambda_ + q * (sigma.slope**2 + sigma.rest)
    return float(
        optimize.brentq(
            lambda nu: ridge_of(nu, sigma, r, q) - lambda_,
            lambda_ * (1 - 1e-12),
            top * (1 + 1e-12),
            xtol=1e-300,
            rtol=1e-15,
        )
    )


def derivative(function: Callable[[complex], complex], x: float) -> float:
    """Return the derivative by a complex step."""
    return (function(complex(x, TINY)) / TINY).imag


def risk(
    nu: complex,
    sigma: Coefficients,
    target: Coefficients,
    noise: float,
    step: float,
    strength: float,
    r: float,
) -> complex:
    """Return V(nu): (3e), and (5a) with step = eta^2 and strength = eta^2 b^2."""
    c1 = sigma.slope
    spread = tau(nu, sigma, r)
    V = target.slope**2 + target.rest + noise - c1**2 * target.slope**2 * spread
    if abs(sigma.mean) < 1e-12:
        # Without a mean the features cannot say the mean of the target.
        V = V + target.mean**2
    w = 1 - c1**2 * spread
    pull = c1**4 * trace(nu, sigma, r) * w
    # (5a): c_{*1}^4 g w^2/(1 + b^2 g w), with g = eta^2 c_1^4 t.
    return V - target.slope**4 * step * pull * w / (1 + strength * pull)


def read_out(
    model: Model, eta: float, alpha0: float, alpha: float, beta: float, ridge: float
) -> Errors:
    """Return (3f) after one step of size eta on alpha0 d samples."""
    sigma = coefficients(model.activation, model.kinks)
    target = coefficients(model.target, model.target_kinks)
    c1 = sigma.slope
    q = beta / alpha
    lambda_ = ridge * q
    # (2a), times eta^2: E r^2, then b^2. With f0 = 1 the page centres the activation.
    residual = target.mean**2 + target.slope**2 + target.rest + model.noise
    residual += model.f0**2 * (c1**2 + sigma.rest)
    strength = eta**2 * (target.slope**2 + residual / alpha0 + model.f0**2 * c1**2)
    strength -= 2 * model.f0 * eta
    nu = effective_ridge(lambda_, sigma, beta, q)

    def V(nu: complex) -> complex:
        return risk(nu, sigma, target, model.noise, eta**2, strength, beta)

    slack = derivative(lambda nu: ridge_of(nu, sigma, beta, q), nu)  # 1 - gamma
    test = (V(nu).real - nu * derivative(V, nu)) / slack
    train = (lambda_ / nu) ** 2 * test
    objective = lambda_ / nu * V(nu).real
    return Errors(
        test=test,
        train=train,
        norm=(objective - train) / lambda_,
        objective=objective,
    )
