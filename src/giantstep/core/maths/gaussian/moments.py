"""Moments of f(A + s z) under z ~ N(0,1) that have a closed form.

Every routine takes ``A`` and ``s > 0`` of one shape;
:mod:`giantstep.core.maths.gaussian.functions` deals with the sign of s, with s = 0 and
with shifts and scales.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.polynomial.polynomial import polyder, polyval

from giantstep.core.maths.gaussian.quadrature import (
    normal_density,
    normal_distribution,
)


class Moments(NamedTuple):
    """E f(A + s z), E z f, E f^2 - mean^2 - slope^2 >= 0 and d/ds E f(A + s z) =
    E[(z^2 - 1) f]/s, z ~ N(0,1).
    """

    mean: np.ndarray
    slope: np.ndarray
    noise: np.ndarray
    curvature: np.ndarray


def hinge(
    A: np.ndarray, s: np.ndarray, linear: float = 0.0, factor: float = 1.0
) -> Moments:
    """Moments of linear*x + factor*relu(x); the noise is even in A and taken at -|A|,
    where nothing cancels.
    """
    t = A / s
    size = np.abs(t)
    density = normal_density(t)
    outside = normal_distribution(-size)
    excess = np.maximum(density - size * outside, 0.0)
    noise = np.maximum(
        (1 + t * t) * outside - size * density - excess**2 - outside**2, 0.0
    )
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
        noise=4
        * np.maximum(
            normal_distribution(t) * normal_distribution(-t) - density**2, 0.0
        ),
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


def wave(value: np.ndarray, slope: np.ndarray, s: np.ndarray) -> Moments:
    """Moments of sin(x) or cos(x) from its value and slope at A; the noise is summed
    over its Hermite orders.
    """
    x = s * s
    mean = np.exp(-0.5 * x) * value
    # exp(-s^2) (cosh s^2 - 1), and the same of sinh s^2 - s^2
    even = 0.5 * np.expm1(-x) ** 2
    odd = np.where(
        x < 0.5, np.exp(-x) * _sinh_rest(x), -0.5 * np.expm1(-2 * x) - x * np.exp(-x)
    )
    return Moments(
        mean, s * np.exp(-0.5 * x) * slope, value**2 * even + slope**2 * odd, -s * mean
    )


def _sinh_rest(x: np.ndarray) -> np.ndarray:
    """Return sinh x - x for x < 0.5, where the difference would lose digits."""
    x = np.minimum(x, 0.5)
    term = total = x**3 / 6
    for n in range(5, 17, 2):
        term = term * x * x / (n * (n - 1))
        total = total + term
    return total


def exp(A: np.ndarray, s: np.ndarray) -> Moments:
    """Moments of exp(x); e^x - 1 - x would lose digits, sinh x - x + 2 sinh(x/2)^2
    loses none.
    """
    x = s * s
    mean = np.exp(A + 0.5 * x)
    rest = np.where(x < 0.5, _sinh_rest(x) + 2 * np.sinh(0.5 * x) ** 2, np.expm1(x) - x)
    return Moments(mean, s * mean, mean**2 * rest, s * mean)


def polynomial(A: np.ndarray, s: np.ndarray, coefficients: np.ndarray) -> Moments:
    """Moments of p(x) by its Hermite projections, for s of either sign or zero."""
    # p(A + s z) = sum_j c_j He_j(z), c_j = (s^j/j!) sum_i (s^2/2)^i/i! p^(j+2i)(A),
    # noise sum_{j>=2} j! c_j^2
    orders = range(max(len(coefficients), 3))
    derivatives = [polyval(A, polyder(coefficients, order)) for order in orders]
    powers = list(
        accumulate(
            orders[1:],
            lambda power, i: power * 0.5 * s * s / i,
            initial=np.ones_like(s),
        )
    )
    smoothed = [
        sum(power * p for power, p in zip(powers, derivatives[order::2]))
        for order in orders
    ]
    noise = sum(2**j * powers[j] * smoothed[j] ** 2 for j in orders[2:])
    return Moments(smoothed[0], s * smoothed[1], noise, s * smoothed[2])


CLOSED_FORMS: dict[str, Callable[..., Moments]] = {
    "relu": hinge,
    "leaky_relu": lambda A, s, slope=0.01: hinge(A, s, slope, 1 - slope),
    "abs": lambda A, s: hinge(A, s, -1.0, 2.0),
    "sign": sign,
    "erf": erf,
    "sin": lambda A, s: wave(np.sin(A), np.cos(A), s),
    "cos": lambda A, s: wave(np.cos(A), -np.sin(A), s),
    "exp": exp,
}


def closed_tail(
    name: str, A: np.ndarray, s: np.ndarray, moments: Moments
) -> tuple[np.ndarray, np.ndarray]:
    """D_3 and D_4 of the functions with closed moments, D_j = E[He_j(z) f(A + s
    z)]/s^j = d/dA D_{j-1}.
    """
    first = moments.slope / s
    second = moments.curvature / s
    v = s * s
    if name == "exp":
        return moments.mean, moments.mean
    if name in ("sin", "cos"):
        return -first, -second
    if name in ("sign", "erf"):  # D_1 is a Gaussian in A of variance v
        v = v + 0.5 if name == "erf" else v
        return (A * A / v - 1) / v * first, (3 - A * A / v) * A / v**2 * first
    return -A / v * second, (A * A / v - 1) / v * second
