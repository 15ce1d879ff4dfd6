"""Moments of f(A + s z) under z ~ N(0,1) that have a closed form.

Every routine takes ``A`` and ``s > 0`` of one shape; :mod:`giantstep.gaussian.functions` deals with the sign
of s, with s = 0 and with shifts and scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from giantstep.gaussian.quadrature import normal_density, normal_distribution


class Moments(NamedTuple):
    """Moments of f(A + s z) under z ~ N(0,1).

    ``mean`` is E f(A + s z), ``slope`` E z f(A + s z), and ``noise`` E f(A + s z)^2 - mean^2 - slope^2 >= 0, what is
    left after the best affine fit in z; ``curvature`` is d/ds E f(A + s z) = E[(z^2 - 1) f(A + s z)]/s.
    """

    mean: np.ndarray
    slope: np.ndarray
    noise: np.ndarray
    curvature: np.ndarray


ClosedForm = Callable[..., Moments]
Tail = tuple[np.ndarray, np.ndarray]
"""D_j = E[He_j(z) f(A + s z)]/s^j for j = 3 and 4."""


def hinge(A: np.ndarray, s: np.ndarray, linear: float = 0.0, factor: float = 1.0) -> Moments:
    """Moments of linear*x + factor*relu(x), at x = A + s z; |x| = 2 relu(x) - x.

    relu(x) and relu(-x) differ by a linear function, so the noise is even in A and taken at -|A|, where
    nothing cancels.
    """
    t = A / s
    size = np.abs(t)
    density = normal_density(t)
    outside = normal_distribution(-size)
    excess = np.maximum(density - size * outside, 0.0)
    noise = np.maximum((1 + t * t) * outside - size * density - excess**2 - outside**2, 0.0)
    return Moments(
        mean=linear * A + factor * (s * excess + np.maximum(A, 0.0)),
        slope=s * (linear + factor * np.where(t > 0, 1 - outside, outside)),
        noise=(factor * s) ** 2 * noise,
        curvature=factor * density,
    )


def sign(A: np.ndarray, s: np.ndarray) -> Moments:
    """Moments of sign(x)."""
    from scipy.special import erf

    t = A / s
    density = normal_density(t)
    return Moments(
        mean=erf(t / np.sqrt(2)),
        slope=2 * density,
        noise=4 * np.maximum(normal_distribution(t) * normal_distribution(-t) - density**2, 0.0),
        curvature=-2 * t / s * density,
    )


def erf(A: np.ndarray, s: np.ndarray) -> Moments:
    """Moments of erf(x); the noise, by Owen's T, is a difference of numbers near 1."""
    from scipy.special import erf, owens_t

    q = 1 + 2 * s * s
    mean = erf(A / np.sqrt(q))
    bell = 2 / np.sqrt(np.pi * q) * np.exp(-A * A / q)
    second = 1 - 8 * owens_t(A * np.sqrt(2 / q), 1 / np.sqrt(1 + 4 * s * s))
    noise = np.maximum(second - mean**2 - (s * bell) ** 2, 0.0)
    return Moments(mean, s * bell, noise, -2 * A * s / q * bell)


def sin(A: np.ndarray, s: np.ndarray) -> Moments:
    """Moments of sin(x); the noise is summed over its Hermite orders."""
    damping, even, odd = _trigonometric(s)
    sine, cosine = np.sin(A), np.cos(A)
    mean = damping * sine
    return Moments(mean, s * damping * cosine, sine**2 * even + cosine**2 * odd, -s * mean)


def cos(A: np.ndarray, s: np.ndarray) -> Moments:
    """Moments of cos(x)."""
    damping, even, odd = _trigonometric(s)
    sine, cosine = np.sin(A), np.cos(A)
    mean = damping * cosine
    return Moments(mean, -s * damping * sine, cosine**2 * even + sine**2 * odd, -s * mean)


def _trigonometric(s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """exp(-s^2/2), exp(-s^2) (cosh s^2 - 1) and exp(-s^2) (sinh s^2 - s^2)."""
    x = s * s
    direct = -0.5 * np.expm1(-2 * x) - x * np.exp(-x)
    return np.exp(-0.5 * x), 0.5 * np.expm1(-x) ** 2, np.where(x < 0.5, np.exp(-x) * _sinh_rest(x), direct)


def _sinh_rest(x: np.ndarray) -> np.ndarray:
    """Return sinh x - x for x < 0.5, where the difference would lose digits."""
    x = np.minimum(x, 0.5)
    term = total = x**3 / 6
    for n in range(5, 17, 2):
        term = term * x * x / (n * (n - 1))
        total = total + term
    return total


def exp(A: np.ndarray, s: np.ndarray) -> Moments:
    """Moments of exp(x); e^x - 1 - x would lose digits, sinh x - x + 2 sinh(x/2)^2 loses none."""
    x = s * s
    mean = np.exp(A + 0.5 * x)
    rest = np.where(x < 0.5, _sinh_rest(x) + 2 * np.sinh(0.5 * x) ** 2, np.expm1(x) - x)
    return Moments(mean, s * mean, mean**2 * rest, s * mean)


def polynomial(A: np.ndarray, s: np.ndarray, coefficients: np.ndarray) -> Moments:
    """Moments of p(x) by its Hermite projections, for s of either sign or zero.

    p(A + s z) = sum_j c_j He_j(z), c_j = (s^j/j!) sum_i (s^2/2)^i/i! p^(j+2i)(A), noise sum_{j>=2} j! c_j^2.
    """
    degree = len(coefficients) - 1
    derivatives = [np.polynomial.polynomial.polyval(A, coefficients)]
    for order in range(1, max(degree, 2) + 1):
        derivatives.append(np.polynomial.polynomial.polyval(A, np.polynomial.polynomial.polyder(coefficients, order)))
    heat = 0.5 * s * s

    def smoothed(order: int) -> np.ndarray:
        """E p^(order)(A + s z)."""
        total, factor = np.zeros_like(A * s), np.ones_like(s)
        for i, derivative in enumerate(derivatives[order::2]):
            factor = factor * heat / i if i else factor
            total = total + factor * derivative
        return total

    noise, factor = np.zeros_like(A * s), np.ones_like(s)
    for j in range(2, degree + 1):
        factor = factor * s * s / j if j > 2 else 0.5 * s**4
        noise = noise + factor * smoothed(j) ** 2
    return Moments(smoothed(0), s * smoothed(1), noise, s * smoothed(2))


def polynomial_tail(A: np.ndarray, s: np.ndarray, coefficients: np.ndarray) -> Tail:
    """D_3 and D_4 of p(x)."""
    third, fourth = (polynomial(A, s, np.polynomial.polynomial.polyder(coefficients, order)).mean for order in (3, 4))
    return third, fourth


def _hinge_tail(A: np.ndarray, s: np.ndarray, factor: float = 1.0) -> Tail:
    t = A / s
    bell = factor * normal_density(t) / s**2
    return -t * bell, (t * t - 1) * bell / s


def _sign_tail(A: np.ndarray, s: np.ndarray) -> Tail:
    t = A / s
    bell = 2 * normal_density(t) / s**3
    return (t * t - 1) * bell, (3 - t * t) * t * bell / s


def _erf_tail(A: np.ndarray, s: np.ndarray) -> Tail:
    q = 1 + 2 * s * s
    bell = 4 / (q * np.sqrt(np.pi * q)) * np.exp(-A * A / q)
    return (2 * A * A / q - 1) * bell, (6 - 4 * A * A / q) * A / q * bell


CLOSED_FORMS: dict[str, ClosedForm] = {
    "relu": hinge,
    "leaky_relu": lambda A, s, slope=0.01: hinge(A, s, slope, 1 - slope),
    "abs": lambda A, s: hinge(A, s, -1.0, 2.0),
    "sign": sign,
    "erf": erf,
    "sin": sin,
    "cos": cos,
    "exp": exp,
}

CLOSED_TAILS: dict[str, Callable[..., Tail]] = {
    "relu": _hinge_tail,
    "leaky_relu": lambda A, s, slope=0.01: _hinge_tail(A, s, 1 - slope),
    "abs": lambda A, s: _hinge_tail(A, s, 2.0),
    "sign": _sign_tail,
    "erf": _erf_tail,
    "sin": lambda A, s: (-np.exp(-0.5 * s * s) * np.cos(A), np.exp(-0.5 * s * s) * np.sin(A)),
    "cos": lambda A, s: (np.exp(-0.5 * s * s) * np.sin(A), np.exp(-0.5 * s * s) * np.cos(A)),
    "exp": lambda A, s: (np.exp(A + 0.5 * s * s),) * 2,
}
"""D_3 and D_4 of the functions with closed moments: d/dA and d^2/dA^2 of curvature/s."""
