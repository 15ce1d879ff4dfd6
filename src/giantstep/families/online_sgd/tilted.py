"""Moments of erf networks from the covariance alone, in place: few array calls on tables made once.

Of p students and further teachers, rows v_u of a Gaussian vector with covariance C (their scales absorbed, so that
s(x) = erf(x/sqrt 2)), a residual sum_u e_u s(v_u) and the force F_j = s'(v_j) times it. Two factors s'(v_j) s'(v_l)
tilt the Gaussian: with X the columns j, l of C and K = (1 + C_{jl,jl})^-1 the covariance becomes S = C - X K X^T, and

    E[F_j F_l] ~ (det K)^(1/2) sum_uw e_u e_w arctan2(S_uw, sqrt((1 + S_uu)(1 + S_ww) - S_uw^2)).

Its derivative under C -> (1 + t) C, which |x|^2 in an average amounts to, needs dS/dt = S - Y Y^T with Y = X K. The
untilted covariance is carried along as one more pair with X = 0: the drift needs its root.
"""

from __future__ import annotations

import numpy as np

from giantstep.types import Floats


class TiltedMoments:
    """Workspace for `count` covariances; write into `C`, call `update`, read the attributes.

    Attributes
    ----------
    C : (count, n, n), students first.
    slopes : (count, p, n), G with E[F_j x] = sum_u G_ju v_u, up to the factor 2/pi of s' s.
    mean : (count, pairs), sum_uw e_u e_w arcsin over the pairs j >= l, without its factor 2/pi.
    change : (count, pairs), twice the derivative of `mean` under C -> (1 + t) C.
    trace, root : (count, pairs), tr K and the square root of det(1 + C_{jl,jl}); twice the derivative of log root
        under C -> (1 + t) C is 2 - tr K.
    unpack : (p, p), the pair of each entry of a symmetric matrix.
    """

    def __init__(self, count: int, p: int, residual: Floats) -> None:
        n = len(residual)
        row, column = np.tril_indices(p)
        pairs = len(row)
        self.unpack = np.empty((p, p), dtype=np.intp)
        self.unpack[row, column] = self.unpack[column, row] = np.arange(pairs)
        self._flat = np.zeros((count, n * n + 1))  # the last entry stays zero: it stands for X of the untilted pair
        self.C = self._flat[:, :-1].reshape(count, n, n)
        self._students = self.C[:, :p]
        nothing = np.full((1, n, 2), n * n)
        columns = np.stack([np.arange(n) * n + row[:, None], np.arange(n) * n + column[:, None]], axis=-1)
        self._columns = np.concatenate([columns, nothing])
        own, cross, second = row * (n + 1), row * n + column, column * (n + 1)
        adjugate = np.stack([second, cross, cross, own], axis=-1).reshape(pairs, 2, 2)
        self._adjugate = np.concatenate([adjugate, nothing[:, :2]])
        self._signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
        self._eye = np.eye(2)
        self._weights = np.outer(residual, residual).ravel()
        self._doubled = 2 * self._weights
        self._residual = residual
        every = pairs + 1
        self._X, self._Y = np.empty((2, count, every, n, 2))
        self._K, self._det = np.empty((count, every, 2, 2)), np.empty((count, every))
        self._S, self._D, self._spread, self._work = np.empty((4, count, every, n, n))
        self._ones, self._shrink = np.empty((2, count, every, n))
        flat = (count, every, n * n)
        self._angles, self._changes = self._work.reshape(flat)[:, :-1], self._D.reshape(flat)[:, :-1]
        self._tilted_variances = self._S.reshape(flat)[..., :: n + 1]
        self._variance_changes = self._D.reshape(flat)[..., :: n + 1]
        self._floor = self._spread[:, -1, :p]
        self._student_ones = self._ones[:, -1, :p]
        self.slopes = np.empty((count, p, n))
        self._pulled = np.empty((count, p, n))
        self._own = self.slopes.reshape(count, p * n)[:, :: n + 1]
        self.trace, self.root = np.empty((2, count, pairs))
        self.mean = self.change = np.empty((count, pairs))
        K = self._K
        self._first, self._second, self._cross = K[..., 0, 0], K[..., 1, 1], K[..., 0, 1]
        self._tilted_first, self._tilted_second = self._first[:, :-1], self._second[:, :-1]
        self._tilted_det, self._wide_det = self._det[:, :-1], self._det[..., None, None]
        self._X_turned, self._Y_turned = self._X.swapaxes(-1, -2), self._Y.swapaxes(-1, -2)
        self._ones_down, self._ones_right = self._ones[..., :, None], self._ones[..., None, :]
        self._shrink_down, self._every_C = self._shrink[..., :, None], self.C[:, None]
        self._squares = np.empty((count, every))

    def update(self) -> None:
        """Compute the moments of the covariances in `C`."""
        X, Y, K, S, D, det, ones = self._X, self._Y, self._K, self._S, self._D, self._det, self._ones
        spread, work = self._spread, self._work
        self._flat.take(self._columns, axis=1, out=X, mode="clip")
        self._flat.take(self._adjugate, axis=1, out=K, mode="clip")
        np.multiply(K, self._signs, K)
        np.add(K, self._eye, K)
        np.multiply(self._first, self._second, det)
        np.multiply(self._cross, self._cross, self._squares)
        np.subtract(det, self._squares, det)
        np.divide(K, self._wide_det, K)
        np.matmul(X, K, Y)
        np.matmul(Y, self._X_turned, S)
        np.subtract(self._every_C, S, S)
        np.matmul(Y, self._Y_turned, D)
        np.subtract(S, D, D)
        np.add(self._tilted_variances, 1.0, ones)
        np.multiply(self._ones_down, self._ones_right, spread)
        np.multiply(S, S, work)
        np.subtract(spread, work, spread)
        np.sqrt(spread, spread)
        np.divide(self._variance_changes, ones, self._shrink)
        np.multiply(S, self._shrink_down, work)
        np.subtract(D, work, D)
        np.divide(D, spread, D)
        np.arctan2(S, spread, work)
        self.mean = self._angles @ self._weights
        self.change = self._changes @ self._doubled
        np.add(self._tilted_first, self._tilted_second, self.trace)
        np.sqrt(self._tilted_det, self.root)
        np.divide(self._residual, self._floor, self.slopes)
        np.multiply(self.slopes, self._students, self._pulled)
        np.subtract(self._own, np.add.reduce(self._pulled, axis=-1) / self._student_ones, self._own)
