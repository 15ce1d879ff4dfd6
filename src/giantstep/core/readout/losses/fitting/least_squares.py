"""The square loss without an l1 penalty, by LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import linalg

from giantstep.core.base.types import DeviceArray, Floats
from giantstep.core.lab import array_module, to_numpy
from giantstep.core.readout.losses.fitting.objective import ConvexFit, Objective


def fit_ridge(objective: Objective) -> ConvexFit:
    """Solve the normal equations, in the smaller of the two dimensions; without a ridge
    by least squares.
    """
    ridge = objective.ridge
    xp = array_module(objective.rows)
    a, y, intercept = _least_squares(objective)
    n, d = a.shape
    curvature = ridge
    if ridge == 0:
        # an intercept takes one sample for itself
        if n - objective.intercept < d:
            return ConvexFit.missing(
                d, "there are fewer samples than dimensions and no ridge"
            )
        w, _, _, singular = xp.linalg.lstsq(a, y, rcond=None)
        curvature = max(float(singular[-1]) ** 2, 1e-300)
    elif n < d:
        w = a.T @ xp.linalg.solve(a @ a.T + ridge * xp.eye(n), y)
    else:
        w = xp.linalg.solve(a.T @ a + ridge * xp.eye(d), a.T @ y)
    residual = y - a @ w
    value = float(0.5 * residual @ residual + 0.5 * ridge * w @ w)
    # |gradient|^2/(2 least curvature) bounds how far the objective is above its minimum
    slope = a.T @ residual - ridge * w
    gap = 0.5 * float(slope @ slope) / curvature / max(value, 1e-300)
    return ConvexFit(to_numpy(w), intercept(w), gap)


def fit_interpolation(objective: Objective) -> ConvexFit:
    """Return the least norm that fits every label; with n > d there is none."""
    # weights of samples do not matter where every label is fitted
    equal = replace(objective, scale=np.ones(len(objective.labels)))
    a, y, intercept = _least_squares(equal)
    w: Floats = linalg.lstsq(a, y, lapack_driver="gelsd", check_finite=False)[0]
    missed = float(np.linalg.norm(y - a @ w) / max(float(np.linalg.norm(y)), 1e-300))
    problem = ""
    if missed > 1e-8:
        problem = "no weights fit every label"
    return ConvexFit(w, intercept(w), missed**2, problem)


def _least_squares(
    objective: Objective,
) -> tuple[DeviceArray, DeviceArray, Callable[[DeviceArray], float]]:
    """Return rows and labels less weighted means, so that b drops out, times sqrt(v);
    and what b is then, given w.
    """
    rows = objective.rows
    labels = objective.labels
    # sum_i v_i r_i^2 is a plain square of rows times sqrt(v)
    root = array_module(objective.rows).sqrt(objective.scale)
    if not objective.intercept:
        return rows * root[:, None], labels * root, lambda w: 0.0
    # b is what is left of the means: rows and labels are taken from theirs
    share = objective.scale / objective.scale.sum()
    centre = share @ rows
    mean = share @ labels
    return (
        (rows - centre) * root[:, None],
        (labels - mean) * root,
        lambda w: float(mean - centre @ w),
    )
