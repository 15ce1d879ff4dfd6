"""Hinge loss and hard margin, by their duals in a: an interior-point method, least
distance.

With s_i = y_i x_i the hinge loss has w = sum_i a_i s_i/lambda, 0 <= a_i <= v_i, and
sum_i a_i y_i = 0 with an intercept. What a solver leaves is polished: which a_i are
free decides a linear system, which is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import linprog, nnls

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats
from giantstep.core.readout.losses.fitting.objective import ConvexFit, Objective


def fit_hinge(objective: Objective) -> ConvexFit:
    """Solve the dual by an interior-point method and polish it; with an l1 penalty
    solve a linear programme.
    """
    if objective.l1:
        return _fit_sparse_hinge(objective)
    return _polish(objective, *_follow_interior(objective))


def _polish(objective: Objective, dual: Floats, b: float) -> ConvexFit:
    """Return the best of the solver's weights and of those solved for exactly, by what
    may count as a free a_i.
    """
    best = _fit_of_dual(objective, dual, b)
    for margin in (1e-9, 1e-7, 1e-5, 1e-3):
        exact = _solve_free(objective, dual, margin)
        if exact is not None and exact.gap < best.gap:
            best = exact
        if best.gap < 1e-12:
            break
    return best


def _fit_of_dual(objective: Objective, dual: Floats, b: float) -> ConvexFit:
    """Return the weights of a dual point; the gap is (primal - dual)/primal at the
    feasible point next to it.

    A broken sum_i a_i y_i = 0 counts with |b|.
    """
    signed = objective.signed
    ridge = objective.ridge
    w = signed.T @ dual / ridge
    feasible = np.clip(dual, 0.0, objective.scale)
    back = signed.T @ feasible
    primal = (
        objective.scale @ np.maximum(1 - signed @ w - objective.labels * b, 0.0)
        + 0.5 * ridge * w @ w
    )
    lower = feasible.sum() - 0.5 * back @ back / ridge
    broken = abs(b * (objective.labels @ feasible))
    return ConvexFit(w, b, float((primal - lower + broken) / max(primal, 1e-300)))


def _solve_free(objective: Objective, dual: Floats, margin: float) -> ConvexFit | None:
    """Solve the optimality conditions for the free dual weights: margin 1 there, and
    sum_i a_i y_i = 0.
    """
    signed = objective.signed
    scale = objective.scale
    ridge = objective.ridge
    free = (dual > margin * scale) & (dual < (1 - margin) * scale)
    if not free.any():
        return None
    exact = np.where(dual >= (1 - margin) * scale, scale, 0.0)
    exact[free] = 0.0
    f = signed[free]
    system = f @ f.T / ridge
    right = 1 - f @ (signed.T @ exact / ridge)
    if objective.intercept:
        system = _border(system, objective.labels[free])
        right = np.append(right, -(objective.labels @ exact))
    try:
        solution: Floats = linalg.solve(
            system, right, assume_a="sym", check_finite=False
        )
    except linalg.LinAlgError:
        return None
    if not np.isfinite(solution).all():
        return None
    exact[free] = solution[: len(f)]
    return _fit_of_dual(
        objective, exact, float(solution[-1]) if objective.intercept else 0.0
    )


def _border(gram: Floats, y: Floats) -> Floats:
    """Return the matrix [[gram, y], [y^T, 0]] of the optimality conditions with an
    intercept.
    """
    return np.block([[gram, y[:, None]], [y[None, :], np.zeros((1, 1))]])


# -- interior points -------------------------------------------------------------------


def _follow_interior(objective: Objective) -> tuple[Floats, float]:
    """Minimise |sum_i a_i s_i|^2/(2 lambda) - sum_i a_i over 0 <= a <= v: Mehrotra's
    predictor and corrector.

    Return a, and the intercept b, the multiplier of sum_i a_i y_i = 0 (0 without one).
    """
    n = len(objective.labels)
    a = 0.5 * objective.scale
    low = np.ones(n)
    high = np.ones(n)
    b = 0.0
    for _ in range(60):
        check_time()
        ahead = _advance(objective, a, low, high, b)
        if ahead is None:
            break
        a, low, high, b = ahead
    return a, b


_Point = tuple[Floats, Floats, Floats, float]
"""a, the multipliers of a >= 0 and of a <= v, and b."""


def _advance(
    objective: Objective, a: Floats, low: Floats, high: Floats, b: float
) -> _Point | None:
    """Return the next point, or None where it is reached or rounding lets it go no
    further.
    """
    signed, labels, ridge, count = (
        objective.signed,
        objective.labels,
        objective.ridge,
        2 * len(a),
    )
    slack = objective.scale - a
    if min(a.min(), slack.min()) <= 0:
        return None
    margins = signed @ (signed.T @ a) / ridge + labels * b
    wrong = margins - 1 - low + high
    centre = float(a @ low + slack @ high) / count
    # the dual is of the order of the ridge
    small = 1e-12 * min(1.0, float(a.max())) ** 2
    if centre < small and np.abs(wrong).max() < 1e-9 * (1 + np.abs(margins).max()):
        return None
    try:
        solve = _shifted_solver(signed, low / a + high / slack, ridge)
    except linalg.LinAlgError:
        return None

    def newton(
        target: float, second_low: Floats | float, second_high: Floats | float
    ) -> tuple[_Point, float]:
        """Return the steps towards products a low = slack high = target, and the length
        up to 1 that stays feasible.
        """
        below = (target - second_low) / a - low
        above = (target - second_high) / slack - high
        step = solve(-wrong + below - above)
        db = 0.0
        if objective.intercept:
            along = solve(labels)
            db = float(labels @ (step + a) / (labels @ along))
            step = step - db * along
        dlow = below - low / a * step
        dhigh = above + high / slack * step
        moves = ((a, step), (slack, -step), (low, dlow), (high, dhigh))
        reach = min(
            float((-values[move < 0] / move[move < 0]).min(initial=1.0))
            for values, move in moves
        )
        return (step, dlow, dhigh, db), reach

    (step, dlow, dhigh, _), length = newton(0.0, 0.0, 0.0)
    ahead = float(
        (a + length * step) @ (low + length * dlow)
        + (slack - length * step) @ (high + length * dhigh)
    )
    target = centre * (max(ahead, 0.0) / count / centre) ** 3
    (step, dlow, dhigh, db), length = newton(target, step * dlow, -step * dhigh)
    length *= 0.995
    return (
        a + length * step,
        low + length * dlow,
        high + length * dhigh,
        b + length * db,
    )


def _shifted_solver(
    signed: Floats, diagonal: Floats, ridge: float
) -> Callable[[Floats], Floats]:
    """Return what solves (S S^T/lambda + diagonal) x = v, in the smaller of the two
    dimensions.
    """
    n, d = signed.shape
    if n <= d:
        full = linalg.cho_factor(
            signed @ signed.T / ridge + np.diag(diagonal), check_finite=False
        )
        return lambda v: linalg.cho_solve(full, v, check_finite=False)
    scaled = signed / diagonal[:, None]
    small = linalg.cho_factor(signed.T @ scaled + ridge * np.eye(d), check_finite=False)
    return lambda v: (
        v / diagonal
        - scaled @ linalg.cho_solve(small, scaled.T @ v, check_finite=False)
    )


# -- hard margin, and the hinge with an l1 penalty -------------------------------------


def fit_max_margin(objective: Objective) -> ConvexFit:
    """Minimise |w|^2/2 with all margins at least 1: a least-distance programme, by
    non-negative least squares.

    An intercept enters as a long column (its penalty is 1e-8 of the others'), and the
    support vectors, once known, give w and b exactly.
    """
    labels = objective.labels
    signed = objective.signed
    intercept = objective.intercept
    n, d = signed.shape
    size = np.sqrt(np.mean(signed**2) * d)
    if intercept:
        a = np.hstack([signed, 1e4 * size * labels[:, None]])
    else:
        a = signed
    tall = np.vstack([a.T / size, np.ones((1, n))])
    goal = np.zeros(len(tall))
    goal[-1] = 1.0
    try:
        dual = nnls(tall, goal, maxiter=30 * n)[0]
    except RuntimeError:
        return ConvexFit.missing(d, "the margin was not found")
    residual = tall @ dual - goal
    if -residual[-1] < 1e-9:
        return ConvexFit.missing(d, "the classes are not separable", inseparable=True)
    if intercept:
        support = dual > 0
        s = signed[support]
        y = labels[support]
        solution = linalg.lstsq(
            _border(s @ s.T, y), np.append(np.ones(len(s)), 0.0), check_finite=False
        )[0]
        w = s.T @ solution[:-1]
        b = float(solution[-1])
        dual[support] = solution[:-1]
    else:
        w = residual[:d] / -residual[-1] / size
        b = 0.0
        dual = dual / -residual[-1] / size**2
    worst = float((signed @ w + labels * b).min())
    if not worst > 0:
        return ConvexFit.missing(d, "the classes are not separable", inseparable=True)
    weights = np.maximum(dual, 0.0)
    back = signed.T @ weights
    primal = 0.5 * w @ w / worst**2
    lower = weights.sum() - 0.5 * back @ back
    return ConvexFit(w / worst, b / worst, float((primal - lower) / primal))


def _fit_sparse_hinge(objective: Objective) -> ConvexFit:
    """Minimise the hinge loss with an l1 penalty as a linear programme in (w+, w-, b,
    slack), by HiGHS.
    """
    signed = objective.signed
    n, d = signed.shape
    if objective.ridge > 0:
        return ConvexFit.missing(
            d,
            "the hinge loss with both penalties has no solver here; take ridge = 0 or"
            " l1 = 0",
        )
    if objective.intercept:
        column = objective.labels[:, None]
    else:
        column = np.zeros((n, 0))
    a = np.hstack([-signed, signed, -column, -np.eye(n)])
    cost = np.concatenate(
        [np.full(2 * d, objective.l1), np.zeros(column.shape[1]), objective.scale]
    )
    bounds: list[Any] = (
        [(0, None)] * (2 * d) + [(None, None)] * column.shape[1] + [(0, None)] * n
    )
    optimum = linprog(cost, A_ub=a, b_ub=-np.ones(n), bounds=bounds, method="highs")
    if optimum.status != 0:
        return ConvexFit.missing(
            d, f"the linear programme was not solved ({optimum.message})"
        )
    lower = -float(optimum.ineqlin.marginals.sum())
    gap = abs(optimum.fun - lower) / max(abs(optimum.fun), 1e-300)
    return ConvexFit(
        optimum.x[:d] - optimum.x[d : 2 * d],
        float(optimum.x[2 * d]) if objective.intercept else 0.0,
        gap,
    )
