"""The estimators of the experiment: sum_i v_i l(y_i, <w,a_i> + b) + lambda/2 |w|^2 + lambda1 |w|_1, to optimality.

Square loss: LAPACK. Logistic and Huber: Newton with a line search. These three run on the device of their rows; the
others on the CPU. Hinge: LIBSVM and LIBLINEAR (scikit-learn), an interior-point method where they do not finish. Hard
margin: non-negative least squares (SciPy). An l1 penalty: coordinate descent (scikit-learn), or a linear programme
(HiGHS, SciPy) for the hinge. What a solver leaves is polished: its active set decides a linear system, which is solved.
Every fit carries a certificate of how far it is from the optimum: a duality gap, or Newton's decrement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import linprog, nnls

from giantstep.errors import InputError
from giantstep.lab import array_module, to_numpy
from giantstep.types import Floats

Slopes = Callable[[Any], tuple[Any, Any, Any]]
"""Margins or predictions z -> the losses, their first and second derivatives."""

OPTIMAL = 1e-7
"""Largest relative gap between a fit and the optimum which still counts as solved."""
_STEPS = 200


@dataclass(frozen=True)
class Fit:
    """A fitted linear model.

    Attributes
    ----------
    weights : w, with the prediction <w, a> + b for a row a.
    intercept : b.
    gap : how far its objective is above the smallest one, relative to it; at most this.
    problem : why there is no such estimator, or nothing.
    """

    weights: Floats
    intercept: float
    gap: float
    problem: str = ""

    @property
    def solved(self) -> bool:
        """Whether it is the optimum, to `OPTIMAL`."""
        return not self.problem and self.gap <= OPTIMAL


def needs_scikit_learn(loss: str, l1: bool) -> bool:
    """Tell whether an estimator is found with the extra package."""
    return loss == "hinge" or (l1 and loss in ("square", "logistic", "huber"))


def check_solvers(loss: str, l1: bool) -> None:
    """Refuse an experiment whose solver is not installed."""
    if needs_scikit_learn(loss, l1):
        try:
            import sklearn  # noqa: F401
        except ImportError:
            about = f"loss={loss!r}" + (" with an l1 penalty" if l1 else "")
            raise InputError(
                f"The experiment with {about} is solved by scikit-learn, which is not installed "
                "(install giantstep[estimators])."
            ) from None


def fit(
    rows: Any,
    labels: Any,
    loss: str,
    *,
    ridge: float,
    l1: float = 0.0,
    intercept: bool = False,
    weights: Any = None,
    threshold: float = 1.0,
) -> Fit:
    """Minimise the penalised loss.

    Parameters
    ----------
    rows : (n, d) array, the samples x_i/sqrt(d), on any device.
    labels : (n,) labels, +1 and -1 for the losses of a margin.
    loss : square, logistic, hinge, huber, interpolate (least norm that fits) or maxmargin (least norm with margins 1).
    ridge, l1 : lambda and lambda1; unused by the two limits.
    intercept : fit b, without a penalty.
    weights : (n,) weight of each sample in the sum; ones if left out.
    threshold : where Huber's loss turns linear.
    """
    xp = array_module(rows)
    if l1 or loss in ("hinge", "interpolate", "maxmargin"):
        rows, labels, weights = to_numpy(rows), to_numpy(labels), None if weights is None else to_numpy(weights)
    if intercept and loss in ("logistic", "hinge", "maxmargin") and bool((labels == labels[0]).all()):
        return _nothing(rows.shape[1], "the samples are all of one class, which an intercept fits alone")
    if loss == "interpolate":
        return _interpolate(rows, labels, intercept)
    if loss == "maxmargin":
        return _max_margin(rows * labels[:, None], labels, intercept)
    here = array_module(rows)
    scale = here.ones(len(labels)) if weights is None else here.asarray(weights)
    if loss == "square":
        if l1:
            return _elastic_net(rows, labels, scale, ridge, l1, intercept)
        return _least_squares(rows, labels, scale, ridge, intercept)
    if loss == "hinge":
        signed = rows * labels[:, None]
        if l1:
            return _sparse_hinge(signed, labels, scale, ridge, l1, intercept)
        return _hinge(signed, labels, scale, ridge, intercept)
    free = int(intercept) + (0 if ridge > 0 or l1 else rows.shape[1])
    slopes = _logistic(labels, scale) if loss == "logistic" else _huber(labels, scale, threshold, free)
    if l1:
        return _sparse_newton(rows, slopes, ridge, l1, intercept)
    found = _newton(rows, slopes, ridge, intercept)
    if loss == "logistic" and ridge == 0 and not found.problem:
        margins = labels * (rows @ xp.asarray(found.weights) + found.intercept)
        if bool((margins > 0).all()):
            return replace(found, problem="the classes are separable, so that w grows for ever")
    return found


# -- least squares -------------------------------------------------------------------------------------------


def _least_squares(rows: Any, labels: Any, scale: Any, ridge: float, intercept: bool) -> Fit:
    """Solve the normal equations, in the smaller of the two dimensions; without a ridge by least squares."""
    xp = array_module(rows)
    centre, mean = _centred(rows, labels, scale, intercept)
    root = xp.sqrt(scale)
    a, y = (rows - centre) * root[:, None], (labels - mean) * root
    n, d = a.shape
    curvature = ridge
    if ridge == 0:
        if n - intercept < d:
            return _nothing(d, "there are fewer samples than dimensions and no ridge")
        w, _, _, singular = xp.linalg.lstsq(a, y, rcond=None)
        curvature = max(float(singular[-1]) ** 2, 1e-300)
    elif n < d:
        w = a.T @ xp.linalg.solve(a @ a.T + ridge * xp.eye(n), y)
    else:
        w = xp.linalg.solve(a.T @ a + ridge * xp.eye(d), a.T @ y)
    residual = y - a @ w
    objective = float(0.5 * residual @ residual + 0.5 * ridge * w @ w)
    slope = a.T @ residual - ridge * w
    gap = 0.5 * float(slope @ slope) / curvature / max(objective, 1e-300)
    return Fit(to_numpy(w), float(mean - centre @ w), gap)


def _interpolate(rows: Floats, labels: Floats, intercept: bool) -> Fit:
    """Return the least norm that fits every label; with n > d there is none."""
    ones = np.ones(len(labels))
    centre, mean = _centred(rows, labels, ones, intercept)
    a, y = rows - centre, labels - mean
    w: Floats = linalg.lstsq(a, y, lapack_driver="gelsd", check_finite=False)[0]
    missed = float(np.linalg.norm(y - a @ w) / max(float(np.linalg.norm(y)), 1e-300))
    problem = "no weights fit every label" if missed > 1e-8 else ""
    return Fit(w, float(mean - centre @ w), missed**2, problem)


def _centred(rows: Any, labels: Any, scale: Any, intercept: bool) -> tuple[Any, Any]:
    """Return what to subtract so that the intercept drops out: weighted means, or zeros."""
    if not intercept:
        return array_module(rows).zeros(rows.shape[1]), 0.0
    share = scale / scale.sum()
    return share @ rows, share @ labels


# -- smooth losses -------------------------------------------------------------------------------------------


def _logistic(labels: Any, scale: Any) -> Slopes:
    xp = array_module(labels)

    def slopes(z: Any) -> tuple[Any, Any, Any]:
        margin = labels * z
        miss = 0.5 * (1 - xp.tanh(margin / 2))
        sure = 0.5 * (1 + xp.tanh(margin / 2))
        return scale * xp.logaddexp(0.0, -margin), -scale * labels * miss, scale * miss * sure

    return slopes


def _huber(labels: Any, scale: Any, threshold: float, free: int) -> Slopes:
    """Return Huber's loss; where fewer samples curve it than `free` coordinates need, with the curvature of parabolas.

    The parabola through a point of the loss that lies above it everywhere curves as threshold/|residual|: steps with it
    go down, where those of Newton's method would have no length of their own.
    """

    def slopes(z: Any) -> tuple[Any, Any, Any]:
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

    a: Any
    slopes: Slopes
    penalty: Any
    linear: Any

    def value(self, x: Any, z: Any) -> float:
        """Return the objective at x, with z = a x."""
        return float(self.slopes(z)[0].sum() + 0.5 * self.penalty @ x**2 + self.linear @ x)


def _newton(rows: Any, slopes: Slopes, ridge: float, intercept: bool, tilt: Any = None) -> Fit:
    """Minimise a smooth loss by Newton's method with a line search; `tilt` adds <tilt, w>.

    With fewer samples than dimensions (and a ridge) w lies in the span of the samples, and the equations are solved
    there.
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
    x, decrement, objective = xp.zeros(a.shape[1]), np.inf, np.inf
    for _ in range(_STEPS):
        z = a @ x
        objective = problem.value(x, z)
        _, slope, curvature = slopes(z)
        gradient = a.T @ slope + penalty * x + linear
        hessian = (a.T * curvature) @ a
        floor = 1e-14 * max(float(xp.trace(hessian)) / len(x), 1e-30)
        try:
            step = xp.linalg.solve(hessian + xp.diag(penalty + floor), -gradient)
        except np.linalg.LinAlgError:
            step = -gradient / float(abs(hessian).sum(axis=1).max() + penalty.max())
        decrement = -0.5 * float(gradient @ step)
        if not np.isfinite(decrement) or decrement <= 1e-18 * max(abs(objective), 1.0):
            break
        x = x + _line_search(problem, x, z, step, objective, decrement) * step
    w = x[:size] if basis is None else basis @ x[:size]
    gap = max(decrement, 0.0) / max(abs(objective), 1e-300) if np.isfinite(decrement) else np.inf
    return Fit(to_numpy(w), float(x[-1]) if intercept else 0.0, gap)


def _line_search(problem: _Smooth, x: Any, z: Any, step: Any, objective: float, decrement: float) -> float:
    """Halve the step until the objective falls as it should; near the optimum, where it cannot be seen, keep it."""
    along, length = problem.a @ step, 1.0
    for _ in range(40):
        value = problem.value(x + length * step, z + length * along)
        if value <= objective - 1e-4 * length * 2 * decrement + 1e-13 * abs(objective):
            break
        length /= 2
    return length


# -- hinge and hard margin -----------------------------------------------------------------------------------


def _hinge(signed: Floats, labels: Floats, scale: Floats, ridge: float, intercept: bool) -> Fit:
    """Solve the dual in a, 0 <= a_i <= v_i, w = sum_i a_i y_i x_i/lambda, and polish it.

    With an intercept by sequential minimal optimisation (LIBSVM). Without one by coordinate descent (LIBLINEAR) or,
    where that does not finish (small ridges on unequal columns), by an interior-point method.
    """
    if intercept:
        dual, b = _minimal_optimisation(signed * labels[:, None], labels, scale, ridge)
        return _finished(signed, labels, scale, ridge, dual, b, intercept)
    if len(np.unique(labels)) > 1:  # LIBLINEAR wants both classes
        found = _finished(signed, labels, scale, ridge, _hinge_dual(signed, labels, scale, ridge), 0.0, intercept)
        if found.solved:
            return found
    return _finished(signed, labels, scale, ridge, _interior_point(signed, scale, ridge), 0.0, intercept)


def _minimal_optimisation(rows: Floats, labels: Floats, scale: Floats, ridge: float) -> tuple[Floats, float]:
    """Return the dual weights and the intercept by LIBSVM."""
    from sklearn.svm import SVC

    model = SVC(kernel="precomputed", C=1 / ridge, tol=1e-9, cache_size=400)
    model.fit(rows @ rows.T, labels, sample_weight=scale)
    dual = np.zeros(len(labels))
    dual[model.support_] = np.abs(model.dual_coef_[0]) * ridge
    return dual, float(model.intercept_[0])


def _interior_point(signed: Floats, scale: Floats, ridge: float) -> Floats:
    """Minimise |sum_i a_i s_i|^2/(2 lambda) - sum_i a_i over 0 <= a <= v: Mehrotra's predictor and corrector."""
    n = len(signed)
    a, low, high = 0.5 * scale, np.ones(n), np.ones(n)
    for _ in range(60):
        room = scale - a
        if min(a.min(), room.min()) <= 0:  # as far as rounding lets it go
            break
        margins = signed @ (signed.T @ a) / ridge
        wrong = margins - 1 - low + high
        centre = float(a @ low + room @ high) / (2 * n)
        if centre < 1e-12 and np.abs(wrong).max() < 1e-9 * (1 + np.abs(margins).max()):
            break
        try:
            newton = _Newton(a, room, low, high, wrong, _shifted(signed, low / a + high / room, ridge))
        except linalg.LinAlgError:
            break
        step, dlow, dhigh = newton.step(0.0, np.zeros(n), np.zeros(n))
        length = min(_reach(a, step), _reach(room, -step), _reach(low, dlow), _reach(high, dhigh))
        ahead = float((a + length * step) @ (low + length * dlow) + (room - length * step) @ (high + length * dhigh))
        target = centre * (max(ahead, 0.0) / (2 * n) / centre) ** 3
        step, dlow, dhigh = newton.step(target, step * dlow, -step * dhigh)
        length = 0.995 * min(_reach(a, step), _reach(room, -step), _reach(low, dlow), _reach(high, dhigh))
        a, low, high = a + length * step, low + length * dlow, high + length * dhigh
    return a


@dataclass(frozen=True)
class _Newton:
    """Newton's equations of an interior-point step: a and its room, the multipliers of both, the slope still wrong."""

    a: Floats
    room: Floats
    low: Floats
    high: Floats
    wrong: Floats
    solve: Callable[[Floats], Floats]

    def step(self, target: float, second_low: Floats, second_high: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the step towards products a low = room high = target, with the second-order terms given."""
        below = (target - second_low) / self.a - self.low
        above = (target - second_high) / self.room - self.high
        step = self.solve(-self.wrong + below - above)
        return step, below - self.low / self.a * step, above + self.high / self.room * step


def _shifted(signed: Floats, diagonal: Floats, ridge: float) -> Callable[[Floats], Floats]:
    """Return what solves (S S^T/lambda + diagonal) x = v, in the smaller of the two dimensions."""
    n, d = signed.shape
    if n <= d:
        full = linalg.cho_factor(signed @ signed.T / ridge + np.diag(diagonal), check_finite=False)
        return lambda v: linalg.cho_solve(full, v, check_finite=False)
    scaled = signed / diagonal[:, None]
    small = linalg.cho_factor(signed.T @ scaled + ridge * np.eye(d), check_finite=False)
    return lambda v: v / diagonal - scaled @ linalg.cho_solve(small, scaled.T @ v, check_finite=False)


def _reach(values: Floats, step: Floats) -> float:
    """Return the largest length up to 1 at which values + length step are not negative."""
    falling = step < 0
    return float(min(1.0, (-values[falling] / step[falling]).min(initial=1.0)))


def _finished(
    signed: Floats, labels: Floats, scale: Floats, ridge: float, dual: Floats, b: float, intercept: bool
) -> Fit:
    """Return the best of the solver's weights and of those polished with some margin for what counts as free."""
    w = signed.T @ dual / ridge
    best = Fit(w, b, _hinge_gap(signed, labels, scale, ridge, w, b, dual))
    for margin in (1e-9, 1e-7, 1e-5, 1e-3):
        if best.gap < 1e-12:
            break
        polished = _polished_hinge(signed, labels, scale, ridge, dual, margin, intercept)
        if polished is not None and polished.gap < best.gap:
            best = polished
    return best


def _hinge_dual(signed: Floats, labels: Floats, scale: Floats, ridge: float) -> Floats:
    """Return the dual weights by LIBLINEAR; it gives w, and the margins decide which of them are free."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    model = LinearSVC(C=1 / ridge, loss="hinge", dual=True, tol=1e-10, fit_intercept=False, max_iter=1_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap says it, in numbers
        model.fit(signed * labels[:, None], labels, sample_weight=scale)
    w = model.coef_[0]
    margins = signed @ w
    near = np.abs(margins - 1) < 1e-4
    dual = np.where(margins < 1, scale, 0.0)
    if near.any():
        rest = ridge * w - signed[~near].T @ dual[~near]
        found: Floats = linalg.lstsq(signed[near].T, rest, check_finite=False)[0]
        dual[near] = np.clip(found, 0.0, scale[near])
    return dual


def _hinge_gap(signed: Floats, labels: Floats, scale: Floats, ridge: float, w: Floats, b: float, dual: Floats) -> float:
    """Return (primal - dual)/primal at a feasible dual point; a broken sum_i a_i y_i = 0 counts with |b|."""
    feasible = np.clip(dual, 0.0, scale)
    back = signed.T @ feasible
    primal = scale @ np.maximum(1 - signed @ w - labels * b, 0.0) + 0.5 * ridge * w @ w
    lower = feasible.sum() - 0.5 * back @ back / ridge
    broken = abs(b * (labels @ feasible))
    return float((primal - lower + broken) / max(primal, 1e-300))


def _polished_hinge(
    signed: Floats, labels: Floats, scale: Floats, ridge: float, dual: Floats, margin: float, intercept: bool
) -> Fit | None:
    """Solve the optimality conditions for the free dual weights: margin 1 there, and sum_i a_i y_i = 0."""
    free = (dual > margin * scale) & (dual < (1 - margin) * scale)
    if not free.any():
        return None
    bound = np.where(dual >= (1 - margin) * scale, scale, 0.0)
    bound[free] = 0.0
    base = signed.T @ bound / ridge
    f = signed[free]
    system, right = f @ f.T / ridge, 1 - f @ base
    if intercept:
        y = labels[free]
        system = np.block([[system, y[:, None]], [y[None, :], np.zeros((1, 1))]])
        right = np.append(right, -(labels @ bound))
    try:
        found: Floats = linalg.solve(system, right, assume_a="sym", check_finite=False)
    except linalg.LinAlgError:
        return None
    exact = bound.copy()
    exact[free] = found[: len(f)]
    w, b = signed.T @ exact / ridge, float(found[-1]) if intercept else 0.0
    if not (np.isfinite(found).all()):
        return None
    return Fit(w, b, _hinge_gap(signed, labels, scale, ridge, w, b, exact))


def _max_margin(signed: Floats, labels: Floats, intercept: bool) -> Fit:
    """Minimise |w|^2/2 with all margins at least 1: a least-distance programme, by non-negative least squares.

    An intercept enters as a long column (its penalty is 1e-8 of the others'), and the support vectors, once
    known, give w and b exactly.
    """
    n, d = signed.shape
    size = np.sqrt(np.mean(signed**2) * d)
    long = 1e4 * size
    a = np.hstack([signed, long * labels[:, None]]) if intercept else signed
    tall = np.vstack([a.T / size, np.ones((1, n))])
    goal = np.zeros(len(tall))
    goal[-1] = 1.0
    try:
        dual = nnls(tall, goal, maxiter=30 * n)[0]
    except RuntimeError:
        return _nothing(d, "the margin was not found")
    residual = tall @ dual - goal
    if -residual[-1] < 1e-9:
        return _nothing(d, "the classes are not separable")
    w = residual[:d] / -residual[-1] / size
    b = float(residual[-2] / -residual[-1] / size * long) if intercept else 0.0
    support = dual > 0
    if intercept:
        s, y = signed[support], labels[support]
        system = np.block([[s @ s.T, y[:, None]], [y[None, :], np.zeros((1, 1))]])
        found = linalg.lstsq(system, np.append(np.ones(len(s)), 0.0), check_finite=False)[0]
        w, b = s.T @ found[:-1], float(found[-1])
        dual = np.zeros(n)
        dual[support] = found[:-1]
    else:
        dual = dual / -residual[-1] / size**2
    margins = signed @ w + labels * b
    worst = float(margins.min())
    if not worst > 0:
        return _nothing(d, "the classes are not separable")
    weights = np.maximum(dual, 0.0)
    back = signed.T @ weights
    primal, lower = 0.5 * w @ w / worst**2, weights.sum() - 0.5 * back @ back
    return Fit(w / worst, b / worst, float((primal - lower) / primal))


# -- l1 ------------------------------------------------------------------------------------------------------


def _elastic_net(rows: Floats, labels: Floats, scale: Floats, ridge: float, l1: float, intercept: bool) -> Fit:
    """Minimise the square loss with both penalties by coordinate descent, and solve exactly on its support."""
    centre, mean = _centred(rows, labels, scale, intercept)
    root = np.sqrt(scale)
    a, y = (rows - centre) * root[:, None], (labels - mean) * root
    w = _coordinate_descent(a, y, ridge, l1, None)
    best = Fit(w, 0.0, _elastic_net_gap(a, y, ridge, l1, w))
    support = w != 0
    if support.any():
        s = a[:, support]
        system = s.T @ s + ridge * np.eye(s.shape[1])
        exact = np.zeros_like(w)
        exact[support] = linalg.lstsq(system, s.T @ y - l1 * np.sign(w[support]), check_finite=False)[0]
        gap = _elastic_net_gap(a, y, ridge, l1, exact)
        best = Fit(exact, 0.0, gap) if gap < best.gap else best
    return Fit(best.weights, float(mean - centre @ best.weights), best.gap)


def _coordinate_descent(
    a: Floats, y: Floats, ridge: float, l1: float, start: Floats | None, tol: float = 1e-13
) -> Floats:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import ElasticNet

    n = len(y)
    model = ElasticNet(
        alpha=(l1 + ridge) / n, l1_ratio=l1 / (l1 + ridge), fit_intercept=False, tol=tol, max_iter=50_000,
        warm_start=start is not None,
    )  # fmt: skip
    if start is not None:
        model.coef_ = start.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap says it, in numbers
        model.fit(np.asfortranarray(a), y)
    found: Floats = model.coef_
    return found


def _elastic_net_gap(a: Floats, y: Floats, ridge: float, l1: float, w: Floats) -> float:
    """Return the relative duality gap; the ridge is counted as more rows sqrt(lambda) of zero labels."""
    residual = y - a @ w
    square = residual @ residual + ridge * w @ w
    primal = 0.5 * square + l1 * np.abs(w).sum()
    correlation = float(np.abs(a.T @ residual - ridge * w).max())
    shrink = min(1.0, l1 / correlation) if correlation > 0 else 1.0
    lower = shrink * (y @ residual) - 0.5 * shrink**2 * square
    return float((primal - lower) / max(primal, 1e-300))


def _sparse_newton(rows: Floats, slopes: Slopes, ridge: float, l1: float, intercept: bool) -> Fit:
    """Minimise a smooth loss with an l1 penalty: quadratic models by coordinate descent, then Newton on the support."""
    n, d = rows.shape
    w, b = np.zeros(d), 0.0
    value = _value(slopes, rows, w, b, ridge, l1)
    for _ in range(100):
        _, slope, curvature = slopes(rows @ w + b)
        weight = np.maximum(curvature, 1e-3 * max(curvature.max(), 1e-12))
        response = rows @ w + b - slope / weight
        centre, mean = _centred(rows, response, weight, intercept)
        root = np.sqrt(weight)
        new = _coordinate_descent((rows - centre) * root[:, None], (response - mean) * root, ridge, l1, w, 1e-10)
        new_b = float(mean - centre @ new) if intercept else 0.0
        length = 1.0
        while length > 1e-6:
            trial = w + length * (new - w), b + length * (new_b - b)
            lower = _value(slopes, rows, *trial, ridge, l1)
            if lower < value:
                break
            length /= 2
        else:
            break
        fallen = value - lower
        w, b, value = *trial, lower
        if fallen < 1e-11 * abs(value):
            break
    return _on_support(rows, slopes, ridge, l1, intercept, w, b, value)


def _on_support(
    rows: Floats, slopes: Slopes, ridge: float, l1: float, intercept: bool, w: Floats, b: float, value: float
) -> Fit:
    """Finish on the support with its signs held; the gap counts what the optimality conditions still miss."""
    support = np.abs(w) > 1e-10 * max(np.abs(w).max(), 1e-300)
    if support.any() or intercept:
        found = _newton(rows[:, support], slopes, ridge, intercept, tilt=l1 * np.sign(w[support]))
        if np.all(np.sign(found.weights) == np.sign(w[support])):
            b, w = found.intercept, np.zeros_like(w)
            w[support] = found.weights
    slope = slopes(rows @ w + b)[1]
    gradient = rows.T @ slope + ridge * w
    wrong = np.where(w != 0, gradient + l1 * np.sign(w), np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0))
    missed = float(np.abs(wrong) @ np.maximum(np.abs(w), np.abs(w).mean())) + abs(slope.sum() * b) * intercept
    return Fit(w, b, missed / max(abs(_value(slopes, rows, w, b, ridge, l1)), 1e-300))


def _value(slopes: Slopes, rows: Floats, w: Floats, b: float, ridge: float, l1: float) -> float:
    return float(slopes(rows @ w + b)[0].sum() + 0.5 * ridge * w @ w + l1 * np.abs(w).sum())


def _sparse_hinge(signed: Floats, labels: Floats, scale: Floats, ridge: float, l1: float, intercept: bool) -> Fit:
    """Minimise the hinge loss with an l1 penalty as a linear programme in (w+, w-, b, slack)."""
    n, d = signed.shape
    if ridge > 0:
        return _nothing(d, "the hinge loss with both penalties has no solver here; take ridge = 0 or l1 = 0")
    column = labels[:, None] if intercept else np.zeros((n, 0))
    a = np.hstack([-signed, signed, -column, -np.eye(n)])
    cost = np.concatenate([np.full(2 * d, l1), np.zeros(column.shape[1]), scale])
    bounds: list[Any] = [(0, None)] * (2 * d) + [(None, None)] * column.shape[1] + [(0, None)] * n
    found = linprog(cost, A_ub=a, b_ub=-np.ones(n), bounds=bounds, method="highs")
    if found.status != 0:
        return _nothing(d, f"the linear programme was not solved ({found.message})")
    lower = -float(found.ineqlin.marginals.sum())
    gap = abs(found.fun - lower) / max(abs(found.fun), 1e-300)
    return Fit(found.x[:d] - found.x[d : 2 * d], float(found.x[2 * d]) if intercept else 0.0, gap)


def _nothing(d: int, problem: str) -> Fit:
    return Fit(np.full(d, np.nan), np.nan, np.inf, problem)
