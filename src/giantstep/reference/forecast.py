"""The learning curve of a ridge read-out from one data set: sections 1 to 5 of forecast.

Given are N rows of features and their labels. Wanted is the test error after n rows at
ridge lambda, for any n. The order of the argument is that of the page:

1. One matrix M, the inverse of X X^T + lambda' on what is orthogonal to the mean, has
   all that is needed (`Rows`). Here it is made for every lambda' anew, as an inverse.
2. n rows at ridge lambda are like N rows at another ridge lambda' (`other_ridge`, (3)).
3. With even leverages, the error is generalised cross-validation moved to n rows
   (`gcv`, (4)). With uneven ones it is leave-one-out, plus what the variance changes
   between N and n rows (`mse`, (8)).
4. The error bar is a jackknife without refits (`standard_error`, (9) and (10)), and the
   misclassified share adds Gaussian noise to the leave-one-out scores (`misclassified`).

>>> rng = np.random.default_rng(1)
>>> X = rng.normal(size=(50, 5))
>>> y = X[:, :1] + rng.normal(size=(50, 1))
>>> rows = Rows(X, y, other_ridge(X, n=25, ridge=1.0))
>>> bool(mse(rows, 25) > mse(rows, 50))
True
"""  # noqa: E501

import numpy as np
from scipy import optimize
from scipy.special import ndtr


class Rows:
    """The letters of sections 1 to 3 at one lambda' > 0."""

    def __init__(self, features, labels, ridge):
        N = len(features)
        X = features - features.mean(axis=0)
        Y = labels - labels.mean(axis=0)
        # The inverse without the direction of ones, on which X X^T vanishes.
        M = np.linalg.inv(X @ X.T + ridge * np.eye(N)) - np.ones((N, N)) / (N * ridge)
        self.N = N
        self.ridge = ridge
        self.M = M
        self.M2 = M @ M
        self.M3 = self.M2 @ M
        self.t1 = np.trace(M)
        self.t2 = np.trace(self.M2)
        self.t3 = np.trace(self.M3)
        self.MY = M @ Y
        self.M2Y = self.M2 @ Y
        self.Q = np.sum(self.MY**2)
        self.Q3 = np.sum(self.MY * self.M2Y)
        self.kappa = 1 / self.t1  # (2)
        self.df1 = N - 1 - ridge * self.t1
        self.df2 = N - 1 - self.t1**2 / self.t2
        self.E = self.Q / self.t2
        self.residuals = self.MY / np.diag(M)[:, None]  # (5), leave-one-out
        self.loo = np.sum(self.residuals**2) / N
        spread = np.diag(self.M2) / np.diag(M) ** 2
        self.d = (spread - 1) * self.t1**2 / self.t2  # (6)


def other_ridge(features, n, ridge):
    """Return the lambda' at which N rows are like n rows at `ridge`, (3)."""
    N = len(features)
    X = features - features.mean(axis=0)
    squares = np.linalg.eigvalsh(X @ X.T)[1:]

    def mismatch(log_ridge):
        other = np.exp(log_ridge)
        t1 = np.sum(1 / (np.maximum(squares, 0) + other))
        return other - ridge - (N - n) / t1

    # The start of Newton's method on the page is above the root for n < N.
    above = ridge * (N - 1) + max(N - n, 0) * np.sum(squares) / (N - 1)
    top = np.log(max(above / (n - 1), ridge)) + 1
    return np.exp(optimize.brentq(mismatch, top - 40, top, xtol=1e-14))


def gcv(rows, n):
    """Return the test error for even leverages, (4)."""
    size = (n - rows.N) * rows.t2 + rows.t1**2
    return (1 + 1 / n) * (n - 1) * rows.Q / size


def train_mse(rows, n):
    """Return the training error, end of section 2."""
    scale = (n - 1) ** 2 * rows.E / (n * (n - 1 - rows.df2))
    return scale * (1 - rows.df1 / (n - 1)) ** 2


def added_noise(rows, n):
    """Return v_i of (7): variance at n rows without that at N rows."""
    at_n = (rows.d - 1 / n) / (n - 1 - rows.df2)
    at_N = (rows.d - 1 / rows.N) / (rows.N - 1 - rows.df2)
    return at_n - at_N


def mse(rows, n):
    """Return the test error from leave-one-out residuals, (8)."""
    c = 1.0
    if n > rows.N:
        # What is removed sits in leave-one-out residuals, and scales with them.
        at_N = np.mean((rows.d - 1 / rows.N) / (rows.N - 1 - rows.df2))
        c = rows.loo / (rows.E * (1 + at_N))
    return rows.loo + np.mean(added_noise(rows, n)) * rows.E * c


def standard_error(rows, n):
    """Return the jackknife error of the forecast, (9) and (10)."""
    N = rows.N
    t1 = rows.t1
    t2 = rows.t2
    size = (n - N) * t2 + t1**2
    slope = -2 * rows.Q3 / rows.Q + (2 * (n - N) * rows.t3 + 2 * t1 * t2) / size
    values = []
    for i in range(N):
        m = rows.M[i, i]
        m2 = rows.M2[i, i]
        m3 = rows.M3[i, i]
        e = rows.residuals[i]
        # The same sums without row i.
        t1_i = t1 - m2 / m
        t2_i = t2 - 2 * m3 / m + (m2 / m) ** 2
        q_i = rows.Q - 2 * e @ rows.M2Y[i] + e @ e * m2
        # n stays while N falls by one: by (3) lambda' moves, by delta to first order.
        shift = (N - n) / t1 - (N - 1 - n) / t1_i
        delta = -shift / (1 - (N - n) * t2 / t1**2)
        error = (1 + 1 / n) * (n - 1) * q_i / ((n - N + 1) * t2_i + t1_i**2)
        values.append(error * (1 + delta * slope))
    values = np.array(values)
    jackknife = np.sqrt((N - 1) / N * np.sum((values - values.mean()) ** 2))
    return jackknife * mse(rows, n) / gcv(rows, n)


def misclassified(rows, labels, n):
    """Return the share of wrong signs of one output of labels 1 and -1, n < N, (11)."""
    scores = (labels - rows.residuals)[:, 0]
    variance = np.maximum(added_noise(rows, n), 0) * rows.E
    return np.mean(ndtr(-labels[:, 0] * scores / np.sqrt(variance)))
