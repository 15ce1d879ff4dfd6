"""Derivatives of Gaussian-smoothed functions: D_j(A, s) = d^j/dA^j E f(A + s xi), xi ~ N(0, 1), j = 0..4."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from giantstep.gaussian.functions import Function
from giantstep.gaussian.quadrature import trapezoid_rule
from giantstep.types import Floats

_STEP, _REACH = 0.25, 8.5
_CHUNK = 1 << 12


def smoothed_derivatives(function: Function, A: ArrayLike, s: ArrayLike) -> Floats:
    """Return D_j(A, s) = E[He_j(xi) f(A + s xi)]/s^j for j = 0..4, shape (5, ...); even in s, which is not zero.

    D_0, D_1 and D_2 are moments of the function. Smoothing by s is smoothing by s/sqrt(2) twice, and derivatives may
    be shared between the two: D_3 and D_4 are E[eta D_2] and E[He_2(eta) D_2] over the second half, whose integrand is
    analytic whatever the kinks of f.

    >>> D = smoothed_derivatives(Function("z**4"), 0.5, 2.0)
    >>> D.round(9).tolist()
    [54.0625, 24.5, 51.0, 12.0, 24.0]
    """
    A, s = np.broadcast_arrays(np.asarray(A, dtype=float), np.abs(np.asarray(s, dtype=float)))
    shape, A, s = A.shape, A.ravel(), s.ravel()
    derivatives = np.empty((5, A.size))
    eta, weights = trapezoid_rule(_STEP, _REACH)
    weights = weights / weights.sum()
    for start in range(0, A.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        whole = function.moments(A[part], s[part])
        derivatives[:3, part] = whole.mean, whole.slope / s[part], whole.curvature / s[part]
        half = s[part] / np.sqrt(2)
        curvature = function.moments(A[part, None] + half[:, None] * eta, half[:, None]).curvature / half[:, None]
        derivatives[3, part] = curvature @ (weights * eta) / half
        derivatives[4, part] = curvature @ (weights * (eta**2 - 1)) / half**2
    return derivatives.reshape(5, *shape)
