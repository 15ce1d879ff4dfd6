"""The ridge learning curve of one dataset, mixture_glm section 7: transported
cross-validation, debiased plug-in.

Both take N rows (x_i, y_i) in R^d and predict training and test error of the ridge fit
at any n <= N. The transport needs only the singular values of X and residuals; it is
consistent at any d/N. The plug-in puts the empirical covariance and the correlations
with the label into the Gaussian covariate model, less their share of noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats
from giantstep.core.maths.solve.roots import brent_root


class Prediction(NamedTuple):
    """What a theory says at one n and lambda: E(y - z)^2 of fresh samples, E(y - z)^2/2
    of fitted ones, |w|^2/d.
    """

    mse: float
    train: float
    norm: float


NO_PREDICTION = Prediction(*[np.nan] * 3)


def singular_rows(inputs: Floats) -> tuple[Floats, Floats, int]:
    """Return left singular vectors (N, k) and values (k,) of centred inputs (N, d) over
    sqrt(d), and d.
    """
    left, values, _ = np.linalg.svd(
        inputs / np.sqrt(inputs.shape[1]), full_matrices=False
    )
    return left, values, inputs.shape[1]


class RidgeCurve:
    """Predictions for the ridge fit sum_i (y_i - <w,x_i>/sqrt(d))^2/2 + lambda/2 |w|^2
    on n rows of a dataset.
    """

    def __init__(self, rows: tuple[Floats, Floats, int], labels: Floats) -> None:
        left, values, self.dim = rows  # `singular_rows`
        self.rows = len(labels)
        self.alpha = len(labels) / self.dim
        keep = values > 1e-10 * values.max()
        self.values: Floats = values[keep] ** 2  # eigenvalues of X^T X/d that are not 0
        self._along: Floats = left[:, keep].T @ labels
        self._square = float(labels @ labels)

    # -- generalised cross-validation, transported -------------------------------------

    def _freedom(self, ridge: float) -> float:
        return float((self.values / (self.values + ridge)).sum()) / self.dim

    def transport(self, n: int, ridge: float) -> Prediction:
        """Carry the cross-validated error of N rows over to n: the same kappa means the
        same shrinkage.

        test_n = GCV (1 - df2/alpha_N)/(1 - df2/alpha_n), train_n = test_n (ridge/(kappa
        alpha_n))^2/2. kappa = ridge/ (N/d - df1) is the ridge an infinite dataset would
        need for the same shrinkage; df2 = df1 + kappa ddf1/dkappa.
        """
        alpha = n / self.dim
        values = self.values

        def excess(log_ridge: float) -> float:
            whole = float(np.exp(log_ridge))
            df1 = self._freedom(whole)
            return whole * (alpha - df1) / (self.alpha - df1) - ridge

        low = np.log(1e-13 * values.min())
        high = np.log(max(ridge, 1e-3 * values.max()) * 10.0)
        while excess(high) <= 0:
            check_time()
            high += 2.0
        # no ridge and n > d: the fit of all rows has none either
        if excess(low) >= 0:
            root = low
        else:
            root = brent_root(excess, low, high, xtol=1e-12, rtol=1e-14)
        whole = float(np.exp(root))
        df1 = self._freedom(whole)
        spare = self.alpha - df1
        slope = -float((values / (values + whole) ** 2).sum()) / self.dim
        df2 = df1 + whole / spare * slope / (1 / spare + whole * slope / spare**2)
        shrunk = (self._along * whole / (values + whole)) ** 2
        residual = float(shrunk.sum()) + self._square - float(self._along @ self._along)
        gcv = residual / self.rows / (1 - df1 / self.alpha) ** 2
        mse = gcv * (1 - df2 / self.alpha) / (1 - df2 / alpha)
        shrinkage = (
            alpha - df1
        ) / alpha  # = ridge/(kappa alpha), also where both vanish
        return Prediction(mse, 0.5 * mse * shrinkage**2, self.plug_in(n, ridge).norm)

    # -- the Gaussian covariate model --------------------------------------------------

    def plug_in(self, n: int, ridge: float) -> Prediction:
        """Solve the equations of one Gaussian with this spectrum and these squared
        correlations, less their noise.
        """
        spectrum, total, share = (
            self.values / self.alpha,
            self._square / self.rows,
            len(self.values) / self.rows,
        )
        squares = self.dim * spectrum * self._along**2 / self.rows
        if share < 1:
            noise = (total - float((squares / spectrum).sum()) / self.dim) / (1 - share)
        else:
            noise = 0.0
        squares = squares - self.dim * spectrum * noise / self.rows
        alpha = n / self.dim
        bare = ridge == 0 and n < self.dim
        offset = 1.0 if bare else ridge

        def hat(response: float) -> float:
            return alpha / (response if bare else 1 + response)

        def excess(log_response: float) -> float:
            response = float(np.exp(log_response))
            return (
                float((spectrum / (offset + hat(response) * spectrum)).sum()) / self.dim
                - response
            )

        low = -30.0
        high = np.log(spectrum.sum() / self.dim / max(offset, 1e-12)) + 30.0
        response = float(np.exp(brent_root(excess, low, high, xtol=1e-13, rtol=1e-14)))
        resolvent = offset + hat(response) * spectrum
        factor = 1 / response if bare else 1 / (1 + response)
        signal = hat(response) / resolvent
        bias = total - 2 * float((squares * signal).sum()) / self.dim
        bias += float((spectrum * squares * signal**2).sum()) / self.dim
        spread = alpha * factor**2 / self.dim
        mse = bias / (1 - spread * float((spectrum**2 / resolvent**2).sum()))
        norm = float((squares * signal**2).sum()) / self.dim + spread * mse * float(
            (spectrum / resolvent**2).sum()
        )
        return Prediction(mse, 0.0 if bare else 0.5 * mse * factor**2, norm)
