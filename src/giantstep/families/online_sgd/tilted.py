"""Moments of erf networks from the covariance alone.

Of p students and further teachers, rows v_u of a Gaussian vector with covariance C (their scales absorbed, so that
s(x) = erf(x/sqrt 2)), a residual sum_u e_u s(v_u) and the force F_j = s'(v_j) times it. Two factors s'(v_j) s'(v_l)
tilt the Gaussian: with X the columns j, l of C and K = (1 + C_{jl,jl})^-1 the covariance becomes S = C - X K X^T, and

    E[F_j F_l] ~ (det K)^(1/2) sum_uw e_u e_w arctan2(S_uw, sqrt((1 + S_uu)(1 + S_ww) - S_uw^2)).

Its derivative under C -> (1 + t) C, which |x|^2 in an average amounts to, needs dS/dt = S - Y Y^T with Y = X K.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.types import Floats


class Tilted(NamedTuple):
    """Moments of B covariances; pairs (j, l) of students are symmetric matrices (B, p, p).

    Attributes
    ----------
    slopes : (B, p, n), G with E[F_j x] = sum_u G_ju v_u, up to the factor 2/pi of s' s.
    mean : sum_uw e_u e_w arcsin, without its factor 2/pi.
    change : twice the derivative of `mean` under C -> (1 + t) C.
    trace, root : tr K and the square root of det(1 + C_{jl,jl}); twice the derivative of log root under C -> (1 + t) C
        is 2 - tr K.
    """

    slopes: Floats
    mean: Floats
    change: Floats
    trace: Floats
    root: Floats


def tilted_moments(C: Floats, p: int, residual: Floats) -> Tilted:
    """Return the moments of covariances C (B, n, n), students first, with the residual e (n,)."""
    n = C.shape[1]
    students = C[:, :p]
    ones = 1 + C.diagonal(axis1=1, axis2=2)
    first, second, across = ones[:, :p, None], ones[:, None, :p], students[..., :p]
    det = first * second - across * across
    left, right = students[:, :, None], students[:, None]  # the columns j and l of C, for all pairs (j, l)
    X = np.empty((*det.shape, n, 2))
    X[..., 0], X[..., 1] = left, right
    K = np.empty((*det.shape, 2, 2))
    K[..., 0, 0], K[..., 1, 1] = second, first
    K[..., 0, 1] = K[..., 1, 0] = -across
    Y = X @ (K / det[..., None, None])
    S = C[:, None, None] - Y @ X.swapaxes(-1, -2)
    D = S - Y @ Y.swapaxes(-1, -2)
    wide = 1 + S.diagonal(axis1=-2, axis2=-1)
    spread = np.sqrt(wide[..., None] * wide[..., None, :] - S * S)
    shrink = D.diagonal(axis1=-2, axis2=-1) / wide
    mean = np.arctan2(S, spread) @ residual @ residual
    change = ((D - S * shrink[..., None]) / spread) @ residual @ (2 * residual)
    slopes = residual / np.sqrt(first * ones[:, None] - students**2)
    slopes.reshape(len(C), -1)[:, :: n + 1] -= (slopes * students).sum(axis=-1) / ones[:, :p]
    return Tilted(slopes, mean, change, (first + second) / det, np.sqrt(det))
