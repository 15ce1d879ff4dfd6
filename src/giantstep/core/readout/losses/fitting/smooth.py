"""Fits of smooth losses.

Newton's method with a line search; with an l1 penalty L-BFGS-B, then Newton on the
support.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import DeviceArray, Floats
from giantstep.core.lab import array_module, to_numpy
from giantstep.core.readout.losses.fitting.objective import ConvexFit, Objective

Slopes = Callable[[DeviceArray], tuple[DeviceArray, DeviceArray, DeviceArray]]
"""Predictions z -> the losses, their first and second derivatives."""

_STEPS = 200
"""Newton steps at most; ten are usual, and small ridges on separable classes take some
dozen.
"""
_SUPPORTS = 50
"""Supports tried at most where a penalised fit is finished; one or two are usual."""
_HALVINGS = 40
"""Times that a step is halved at most."""
_PERFECT = 1e-6
"""An objective below this part of that without weights is no scale; gaps are relative
to this part of it then.
"""


def fit_logistic(objective: Objective) -> ConvexFit:
    """Minimise the logistic loss; without a penalty there is no minimum where the
    classes are separable.
    """
    result = _fit_smooth(objective, _logistic(objective.labels, objective.scale))
    if objective.ridge == 0 and not objective.l1:
        weights = array_module(objective.rows).asarray(result.weights)
        outputs = objective.rows @ weights + result.intercept
        if bool((objective.labels * outputs > 0).all()):
            return replace(
                result, problem="the classes are separable, so that w grows for ever"
            )
    return result


def fit_huber(objective: Objective, threshold: float) -> ConvexFit:
    """Minimise Huber's loss; with an infinite threshold it is the square loss."""
    # coordinates that no penalty curves
    free = int(objective.intercept)
    if not (objective.ridge > 0 or objective.l1):
        free += objective.rows.shape[1]
    slopes = _huber(objective.labels, objective.scale, threshold, free)
    return _fit_smooth(objective, slopes)


def _fit_smooth(objective: Objective, slopes: Slopes) -> ConvexFit:
    if objective.l1:
        return _fit_sparse(objective, slopes)
    return _newton(objective.rows, slopes, objective.ridge, objective.intercept)


def _logistic(labels: DeviceArray, scale: DeviceArray) -> Slopes:
    xp = array_module(labels)

    def slopes(z: DeviceArray) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        margin = labels * z
        # the chances of either label, by a function that does not overflow
        miss = 0.5 * (1 - xp.tanh(margin / 2))
        sure = 0.5 * (1 + xp.tanh(margin / 2))
        losses = scale * xp.logaddexp(0.0, -margin)
        return losses, -scale * labels * miss, scale * miss * sure

    return slopes


def _huber(
    labels: DeviceArray, scale: DeviceArray, threshold: float, free: int
) -> Slopes:
    """Return Huber's loss; where fewer samples curve it than `free` coordinates need,
    with the curvature of parabolas.

    The parabola through a point of the loss that lies above it everywhere curves as
    threshold/|residual|: steps with it go down, where those of Newton's method would
    have no length of their own.
    """

    def slopes(z: DeviceArray) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        residual = z - labels
        clipped = residual.clip(-threshold, threshold)
        curvature = 1.0 * (abs(residual) <= threshold)
        if float(curvature.sum()) < free:
            curvature = threshold / abs(residual).clip(threshold, None)
        # t^2/2 inside, threshold (|t| - threshold/2) outside
        losses = scale * clipped * (residual - 0.5 * clipped)
        return losses, scale * clipped, scale * curvature

    return slopes


def _newton(
    rows: DeviceArray,
    slopes: Slopes,
    ridge: float,
    intercept: bool,
    tilt: DeviceArray = None,
) -> ConvexFit:
    """Minimise a smooth loss by Newton's method with a line search; `tilt` adds <tilt,
    w>.

    With fewer samples than dimensions (and a ridge) w lies in the span of the samples,
    and the equations are solved there. The gap is Newton's decrement.
    """
    xp = array_module(rows)
    n, d = rows.shape
    basis = None
    if n < d and ridge > 0 and tilt is None:
        basis, triangle = xp.linalg.qr(rows.T)
        rows = triangle.T
    size = rows.shape[1]
    a = rows
    if intercept:
        # one more coordinate, which no penalty holds
        a = xp.hstack([rows, xp.ones((n, 1))])
    penalty = xp.full(a.shape[1], float(ridge))
    linear = xp.zeros(a.shape[1])
    if intercept:
        # the intercept costs nothing
        penalty[-1] = 0.0
    if tilt is not None:
        linear[:size] = tilt

    def value_at(x: DeviceArray) -> float:
        return float(slopes(a @ x)[0].sum() + 0.5 * penalty @ x**2 + linear @ x)

    x = xp.zeros(a.shape[1])
    decrement = np.inf
    value = np.inf
    value_of_zero = value_at(x)
    for _ in range(_STEPS):
        check_time()
        value = value_at(x)
        _, slope, curvature = slopes(a @ x)
        gradient = a.T @ slope + penalty * x + linear
        step = _newton_step((a.T * curvature) @ a, penalty, gradient)
        # half of what the quadratic model promises: the gap, near the minimum
        decrement = -0.5 * float(gradient @ step)
        if not np.isfinite(decrement) or decrement <= 1e-18 * max(abs(value), 1.0):
            break
        for _ in range(_HALVINGS):
            # until the objective falls as it should, or too little for rounding
            enough = value + 1e-4 * float(gradient @ step) + 1e-13 * abs(value)
            if value_at(x + step) <= enough:
                break
            step = step / 2
        x = x + step
    w = x[:size]
    if basis is not None:
        w = basis @ w
    b = 0.0
    if intercept:
        b = float(x[-1])
    gap = np.inf
    if np.isfinite(decrement):
        gap = _relative(max(decrement, 0.0), value, value_of_zero)
    return ConvexFit(to_numpy(w), b, gap)


def _newton_step(
    hessian: DeviceArray, penalty: DeviceArray, gradient: DeviceArray
) -> DeviceArray:
    """Return Newton's step, or one down the gradient where there is none."""
    xp = array_module(gradient)
    # coordinates that no sample curves must not leave the matrix singular
    floor = 1e-14 * max(float(xp.trace(hessian)) / max(len(gradient), 1), 1e-30)
    try:
        return xp.linalg.solve(hessian + xp.diag(penalty + floor), -gradient)
    except np.linalg.LinAlgError:
        # the largest row sum bounds the largest eigenvalue
        steepest = float(abs(hessian).sum(axis=1).max() + penalty.max())
        return -gradient / steepest


def _fit_sparse(objective: Objective, slopes: Slopes) -> ConvexFit:
    """Minimise a smooth loss with an l1 penalty over w = u - v, u and v at least 0, and
    finish it on its support.
    """
    rows = objective.rows
    l1 = objective.l1
    ridge = objective.ridge
    d = rows.shape[1]
    # intercepts at the end of x: one or none
    intercepts = int(objective.intercept)

    def value(x: Floats) -> tuple[float, Floats]:
        check_time()
        # |w| = u + v where one of them is zero, as it is at the minimum
        w = x[:d] - x[d : 2 * d]
        # the sum of no intercept is zero
        b = x[2 * d :].sum()
        losses, slope, _ = slopes(rows @ w + b)
        gradient = rows.T @ slope + ridge * w
        total = losses.sum() + 0.5 * ridge * w @ w + l1 * x[: 2 * d].sum()
        of_intercept = [slope.sum()] * intercepts
        return float(total), np.concatenate(
            [l1 + gradient, l1 - gradient, of_intercept]
        )

    start = np.zeros(2 * d + intercepts)
    bounds = [(0, None)] * (2 * d) + [(None, None)] * intercepts
    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9 * l1}
    x = scipy.optimize.minimize(
        value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).x
    return _finish_on_support(objective, slopes, np.sign(x[:d] - x[d : 2 * d]))


def _finish_on_support(
    objective: Objective, slopes: Slopes, signs: Floats
) -> ConvexFit:
    """Solve for the weights with these signs; drop those that turn, add those that want
    to leave zero, and repeat.

    The gap counts what the optimality conditions still miss.
    """
    rows = objective.rows
    ridge = objective.ridge
    l1 = objective.l1
    for _ in range(_SUPPORTS):
        # weights at zero stay there for now
        support = signs != 0
        # with known signs the penalty is linear
        exact = _newton(
            rows[:, support],
            slopes,
            ridge,
            objective.intercept,
            tilt=l1 * signs[support],
        )
        b = exact.intercept
        w = np.zeros(len(signs))
        w[support] = exact.weights
        slope = slopes(rows @ w + b)[1]
        gradient = rows.T @ slope + ridge * w
        # weights that have crossed zero, and zeros that the loss pulls at more than l1
        turned = w * signs < 0
        pulled = ~support & (np.abs(gradient) > l1 * (1 + 1e-9))
        if not turned.any() and not pulled.any():
            break
        # none is added before those that turned are dropped: they may come back
        if turned.any():
            signs = np.where(turned, 0.0, signs)
        else:
            signs = np.where(pulled, -np.sign(gradient), signs)
    # the optimality conditions, on the support and beside it
    on_support = gradient + l1 * np.sign(w)
    beside = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    wrong = np.where(w != 0, on_support, beside)
    missed = float(np.abs(wrong) @ np.maximum(np.abs(w), np.abs(w).mean()))
    if objective.intercept:
        missed = missed + abs(slope.sum() * b)
    losses = slopes(rows @ w + b)[0]
    value = float(losses.sum() + 0.5 * ridge * w @ w + l1 * np.abs(w).sum())
    value_of_zero = float(slopes(0 * slope)[0].sum())
    return ConvexFit(w, b, _relative(missed, value, value_of_zero))


def _relative(missed: float, value: float, value_of_zero: float) -> float:
    """Return what a fit misses, relative to its objective; one without an error (labels
    of one class) has no scale.
    """
    return missed / max(abs(value), _PERFECT * value_of_zero, 1e-300)
