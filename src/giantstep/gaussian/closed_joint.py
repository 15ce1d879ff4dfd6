"""Two- to four-point moments of erf and relu networks in closed form, for a covariance matrix C (..., n, n).

With s the activation and (u, ..) jointly Gaussian of covariance C: I2 = E[s(a) s(b)], J2 = E[s'(a) s'(b)],
I3 = E[s'(a) b s(c)], I4 = E[s'(a) s'(b) s(c) s(d)]. The erf here is s(x) = erf(x/sqrt(2)); for erf(scale x) multiply
rows and columns of C by scale sqrt(2). Indices a, b, c, d are places in C.
"""

from __future__ import annotations

import numpy as np

from giantstep.types import Floats


def erf_i2(C: Floats, a: int, b: int) -> Floats:
    """Return E[s(a) s(b)] for s(x) = erf(x/sqrt 2)."""
    ratio = C[..., a, b] / np.sqrt((1 + C[..., a, a]) * (1 + C[..., b, b]))
    return np.asarray(2 / np.pi * np.arcsin(ratio))


def erf_j2(C: Floats, a: int, b: int) -> Floats:
    """Return E[s'(a) s'(b)] for s(x) = erf(x/sqrt 2)."""
    return np.asarray(2 / np.pi / np.sqrt((1 + C[..., a, a]) * (1 + C[..., b, b]) - C[..., a, b] ** 2))


def erf_i3(C: Floats, a: int, b: int, c: int) -> Floats:
    """Return E[s'(a) b s(c)] for s(x) = erf(x/sqrt 2)."""
    one = 1 + C[..., a, a]
    lead = C[..., b, c] * one - C[..., a, b] * C[..., a, c]
    return np.asarray(2 / np.pi * lead / (one * np.sqrt(one * (1 + C[..., c, c]) - C[..., a, c] ** 2)))


def erf_i4(C: Floats, a: int, b: int, c: int, d: int) -> Floats:
    """Return E[s'(a) s'(b) s(c) s(d)] for s(x) = erf(x/sqrt 2).

    s'(a) s'(b) tilts the Gaussian: what is left is I2 under the covariance (C^-1 + e_a e_a^T + e_b e_b^T)^-1.
    """
    one, two, cross = 1 + C[..., a, a], 1 + C[..., b, b], C[..., a, b]
    weight = one * two - cross**2

    def tilted(u: int, w: int) -> Floats:
        ua, ub, wa, wb = C[..., u, a], C[..., u, b], C[..., w, a], C[..., w, b]
        change = (ua * wa * two + ub * wb * one - cross * (ua * wb + ub * wa)) / weight
        return np.asarray(C[..., u, w] - change)

    ratio = tilted(c, d) / np.sqrt((1 + tilted(c, c)) * (1 + tilted(d, d)))
    return np.asarray(4 / np.pi**2 / np.sqrt(weight) * np.arcsin(ratio))


def _correlation(C: Floats, a: int, b: int) -> Floats:
    ratio = C[..., a, b] / np.sqrt(C[..., a, a] * C[..., b, b])
    return np.asarray(np.clip(ratio, -1.0, 1.0))


def relu_i2(C: Floats, a: int, b: int) -> Floats:
    """Return E[relu(a) relu(b)]."""
    r = _correlation(C, a, b)
    size = np.sqrt(C[..., a, a] * C[..., b, b])
    return np.asarray(size / (2 * np.pi) * (np.sqrt(1 - r**2) + r * (np.pi - np.arccos(r))))


def relu_j2(C: Floats, a: int, b: int) -> Floats:
    """Return P(a > 0, b > 0)."""
    return np.asarray(0.25 + np.arcsin(_correlation(C, a, b)) / (2 * np.pi))


def relu_i3(C: Floats, a: int, b: int, c: int) -> Floats:
    """Return E[1(a > 0) b relu(c)]."""
    spread = np.sqrt(np.maximum(C[..., a, a] * C[..., c, c] - C[..., a, c] ** 2, 0.0))
    first = C[..., a, b] * spread / (2 * np.pi * C[..., a, a])
    return np.asarray(first + C[..., b, c] * relu_j2(C, a, c))
