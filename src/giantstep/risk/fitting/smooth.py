"""Smooth losses: Newton's method with a line search, and quadratic models of it under an l1 penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from giantstep.deadline import check_time
from giantstep.lab import array_module, to_numpy
from giantstep.risk.fitting.objective import ConvexFit, LeastSquares, Objective
from giantstep.risk.fitting.quadratic import descend_coordinates
from giantstep.types import DeviceArray, Floats

Slopes = Callable[[DeviceArray], tuple[DeviceArray, DeviceArray, DeviceArray]]
"""Predictions z -> the losses, their first and second derivatives."""

_STEPS = 200
"""Newton steps at most; ten are usual, and small ridges on separable classes take some dozen."""


def fit_logistic(objective: Objective) -> ConvexFit:
    """Minimise the logistic loss; without a penalty there is no minimum where the classes are separable."""
    fit = _fit_smooth(objective, _logistic(objective.labels, objective.scale))
    if objective.ridge == 0 and not objective.l1:
        weights = array_module(objective.rows).asarray(fit.weights)
        if bool((objective.labels * (objective.rows @ weights + fit.intercept) > 0).all()):
            return replace(fit, problem="the classes are separable, so that w grows for ever")
    return fit


def fit_huber(objective: Objective, threshold: float) -> ConvexFit:
    """Minimise Huber's loss."""
    free = int(objective.intercept) + (0 if objective.ridge > 0 or objective.l1 else objective.rows.shape[1])
    return _fit_smooth(objective, _huber(objective.labels, objective.scale, threshold, free))


def fit_elastic_net(objective: Objective) -> ConvexFit:
    """Minimise the square loss with both penalties."""

    def slopes(z: DeviceArray) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        residual = z - objective.labels
        return 0.5 * objective.scale * residual**2, objective.scale * residual, objective.scale

    return _fit_sparse(objective, slopes)


def _fit_smooth(objective: Objective, slopes: Slopes) -> ConvexFit:
    if objective.l1:
        return _fit_sparse(objective, slopes)
    return _newton(objective.rows, slopes, objective.ridge, objective.intercept)


def _logistic(labels: DeviceArray, scale: DeviceArray) -> Slopes:
    xp = array_module(labels)

    def slopes(z: DeviceArray) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        margin = labels * z
        miss = 0.5 * (1 - xp.tanh(margin / 2))
        sure = 0.5 * (1 + xp.tanh(margin / 2))
        return scale * xp.logaddexp(0.0, -margin), -scale * labels * miss, scale * miss * sure

    return slopes


def _huber(labels: DeviceArray, scale: DeviceArray, threshold: float, free: int) -> Slopes:
    """Return Huber's loss; where fewer samples curve it than `free` coordinates need, with the curvature of parabolas.

    The parabola through a point of the loss that lies above it everywhere curves as threshold/|residual|: steps with it
    go down, where those of Newton's method would have no length of their own.
    """

    def slopes(z: DeviceArray) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        residual = z - labels
        clipped = residual.clip(-threshold, threshold)
        curvature = 1.0 * (abs(residual) <= threshold)
        if float(curvature.sum()) < free:
            curvature = threshold / abs(residual).clip(threshold, None)
        return scale * clipped * (residual - 0.5 * clipped), scale * clipped, scale * curvature

    return slopes


@dataclass
class _Smooth:
    """sum_i l_i((a x)_i) + sum_j penalty_j x_j^2/2 + <linear, x>."""

    a: DeviceArray
    slopes: Slopes
    penalty: DeviceArray
    linear: DeviceArray

    def value(self, x: DeviceArray, z: DeviceArray) -> float:
        """Return the objective at x, with z = a x."""
        return float(self.slopes(z)[0].sum() + 0.5 * self.penalty @ x**2 + self.linear @ x)

    def search_line(self, x: DeviceArray, z: DeviceArray, step: DeviceArray, value: float, fall: float) -> DeviceArray:
        """Halve the step until the objective falls as it should; near the optimum, where it cannot be seen, keep it."""
        along, length = self.a @ step, 1.0
        for _ in range(40):
            check_time()
            trial = self.value(x + length * step, z + length * along)
            if trial <= value - 1e-4 * length * 2 * fall + 1e-13 * abs(value):
                break
            length /= 2
        return length * step


def _newton(rows: DeviceArray, slopes: Slopes, ridge: float, intercept: bool, tilt: DeviceArray = None) -> ConvexFit:
    """Minimise a smooth loss by Newton's method with a line search; `tilt` adds <tilt, w>.

    With fewer samples than dimensions (and a ridge) w lies in the span of the samples, and the equations are solved
    there. The gap is Newton's decrement.
    """
    xp = array_module(rows)
    n, d = rows.shape
    basis = None
    if n < d and ridge > 0 and tilt is None:
        basis, small = xp.linalg.qr(rows.T)
        rows = small.T
    size = rows.shape[1]
    a = xp.hstack([rows, xp.ones((n, 1))]) if intercept else rows
    penalty, linear = xp.full(a.shape[1], float(ridge)), xp.zeros(a.shape[1])
    if intercept:
        penalty[-1] = 0.0
    if tilt is not None:
        linear[:size] = tilt
    problem = _Smooth(a, slopes, penalty, linear)
    x, decrement, value = xp.zeros(a.shape[1]), np.inf, np.inf
    for _ in range(_STEPS):
        check_time()
        z = a @ x
        value = problem.value(x, z)
        _, slope, curvature = slopes(z)
        gradient = a.T @ slope + penalty * x + linear
        hessian = (a.T * curvature) @ a
        floor = 1e-14 * max(float(xp.trace(hessian)) / len(x), 1e-30)
        try:
            step = xp.linalg.solve(hessian + xp.diag(penalty + floor), -gradient)
        except np.linalg.LinAlgError:
            step = -gradient / float(abs(hessian).sum(axis=1).max() + penalty.max())
        decrement = -0.5 * float(gradient @ step)
        if not np.isfinite(decrement) or decrement <= 1e-18 * max(abs(value), 1.0):
            break
        x = x + problem.search_line(x, z, step, value, decrement)
    w = x[:size] if basis is None else basis @ x[:size]
    gap = max(decrement, 0.0) / max(abs(value), 1e-300) if np.isfinite(decrement) else np.inf
    return ConvexFit(to_numpy(w), float(x[-1]) if intercept else 0.0, gap)


# -- with an l1 penalty --------------------------------------------------------------------------------------


def _fit_sparse(objective: Objective, slopes: Slopes) -> ConvexFit:
    """Minimise a smooth loss with an l1 penalty: quadratic models by coordinate descent, then Newton on the support."""
    rows = objective.rows
    w, b = np.zeros(rows.shape[1]), 0.0
    value = _value(objective, slopes, w, b)
    for _ in range(100):
        check_time()
        _, slope, curvature = slopes(rows @ w + b)
        weight = np.maximum(curvature, 1e-3 * max(curvature.max(), 1e-12))
        model = LeastSquares.of(rows, rows @ w + b - slope / weight, weight, objective.intercept)
        new = descend_coordinates(model, objective.ridge, objective.l1, w, 1e-10)
        new_b = model.intercept(new)
        length = 1.0
        while length > 1e-6:
            trial = w + length * (new - w), b + length * (new_b - b)
            lower = _value(objective, slopes, *trial)
            if lower < value:
                break
            length /= 2
        else:
            break
        fallen = value - lower
        w, b, value = *trial, lower
        if fallen < 1e-11 * abs(value):
            break
    return _finish_on_support(objective, slopes, w, b)


def _finish_on_support(objective: Objective, slopes: Slopes, w: Floats, b: float) -> ConvexFit:
    """Finish on the support with its signs held; the gap counts what the optimality conditions still miss."""
    rows, ridge, l1 = objective.rows, objective.ridge, objective.l1
    support = np.abs(w) > 1e-10 * max(np.abs(w).max(), 1e-300)
    if support.any() or objective.intercept:
        exact = _newton(rows[:, support], slopes, ridge, objective.intercept, tilt=l1 * np.sign(w[support]))
        if np.all(np.sign(exact.weights) == np.sign(w[support])):
            b, w = exact.intercept, np.zeros_like(w)
            w[support] = exact.weights
    slope = slopes(rows @ w + b)[1]
    gradient = rows.T @ slope + ridge * w
    wrong = np.where(w != 0, gradient + l1 * np.sign(w), np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0))
    missed = float(np.abs(wrong) @ np.maximum(np.abs(w), np.abs(w).mean())) + abs(slope.sum() * b) * objective.intercept
    return ConvexFit(w, b, missed / max(abs(_value(objective, slopes, w, b)), 1e-300))


def _value(objective: Objective, slopes: Slopes, w: Floats, b: float) -> float:
    losses = slopes(objective.rows @ w + b)[0]
    return float(losses.sum() + 0.5 * objective.ridge * w @ w + objective.l1 * np.abs(w).sum())
