"""The square loss without an l1 penalty, by LAPACK."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from giantstep.lab import array_module, to_numpy
from giantstep.risk.fitting.objective import ConvexFit, LeastSquares, Objective
from giantstep.types import Floats


def fit_ridge(objective: Objective) -> ConvexFit:
    """Solve the normal equations, in the smaller of the two dimensions; without a ridge by least squares."""
    ridge, xp = objective.ridge, array_module(objective.rows)
    squares = LeastSquares.of(objective.rows, objective.labels, objective.scale, objective.intercept)
    a, y = squares.rows, squares.labels
    n, d = a.shape
    curvature = ridge
    if ridge == 0:
        if n - objective.intercept < d:
            return ConvexFit.missing(d, "there are fewer samples than dimensions and no ridge")
        w, _, _, singular = xp.linalg.lstsq(a, y, rcond=None)
        curvature = max(float(singular[-1]) ** 2, 1e-300)
    elif n < d:
        w = a.T @ xp.linalg.solve(a @ a.T + ridge * xp.eye(n), y)
    else:
        w = xp.linalg.solve(a.T @ a + ridge * xp.eye(d), a.T @ y)
    residual = y - a @ w
    value = float(0.5 * residual @ residual + 0.5 * ridge * w @ w)
    slope = a.T @ residual - ridge * w
    gap = 0.5 * float(slope @ slope) / curvature / max(value, 1e-300)
    return ConvexFit(to_numpy(w), squares.intercept(w), gap)


def fit_interpolation(objective: Objective) -> ConvexFit:
    """Return the least norm that fits every label; with n > d there is none."""
    squares = LeastSquares.of(objective.rows, objective.labels, np.ones(len(objective.labels)), objective.intercept)
    a, y = squares.rows, squares.labels
    w: Floats = linalg.lstsq(a, y, lapack_driver="gelsd", check_finite=False)[0]
    missed = float(np.linalg.norm(y - a @ w) / max(float(np.linalg.norm(y)), 1e-300))
    return ConvexFit(w, squares.intercept(w), missed**2, "no weights fit every label" if missed > 1e-8 else "")
