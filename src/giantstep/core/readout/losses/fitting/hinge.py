"""Hinge loss and hard margin, by their duals in a: an interior-point method, least
distance.

With s_i = y_i x_i the hinge loss has w = sum_i a_i s_i/lambda, 0 <= a_i <= v_i, and
sum_i a_i y_i = 0 with an intercept. What a solver leaves is polished: which a_i are
free decides a linear system, which is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.optimize import linprog, nnls

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats
from giantstep.core.readout.losses.fitting.objective import ConvexFit, Objective

MOST_INTERIOR_STEPS = 60
"""Steps of the interior-point method at most."""


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
    # how far from its bounds an a_i must be to count as free: the solver does not tell
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
    # any feasible dual point is a lower bound, whether the solver ended there or not
    feasible = np.clip(dual, 0.0, objective.scale)
    back = signed.T @ feasible
    losses = np.maximum(1 - signed @ w - objective.labels * b, 0.0)
    primal = objective.scale @ losses + 0.5 * ridge * w @ w
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
    at_upper = dual >= (1 - margin) * scale
    free = (dual > margin * scale) & ~at_upper
    if not free.any():
        return None
    # the others stay on their bounds
    exact = np.where(at_upper, scale, 0.0)
    free_rows = signed[free]
    system = free_rows @ free_rows.T / ridge
    right = 1 - free_rows @ (signed.T @ exact / ridge)
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
    exact[free] = solution[: len(free_rows)]
    b = 0.0
    if objective.intercept:
        # the multiplier of sum_i a_i y_i = 0
        b = float(solution[-1])
    return _fit_of_dual(objective, exact, b)


def _border(gram: Floats, y: Floats) -> Floats:
    """Return the matrix [[gram, y], [y^T, 0]] of the optimality conditions with an
    intercept.
    """
    return np.block([[gram, y[:, None]], [y[None, :], np.zeros((1, 1))]])


def _follow_interior(objective: Objective) -> tuple[Floats, float]:
    """Minimise |sum_i a_i s_i|^2/(2 lambda) - sum_i a_i over 0 <= a <= v: Mehrotra's
    predictor and corrector.

    Return a, and the intercept b, the multiplier of sum_i a_i y_i = 0 (0 without one).
    """
    n = len(objective.labels)
    point = _InteriorPoint(
        a=0.5 * objective.scale, low=np.ones(n), high=np.ones(n), b=0.0
    )
    for _ in range(MOST_INTERIOR_STEPS):
        check_time()
        ahead = _advance(objective, point)
        if ahead is None:
            break
        point = ahead
    return point.a, point.b


class _InteriorPoint(NamedTuple):
    """A point of the interior, or a step from one to another."""

    a: Floats
    low: Floats  # multipliers of a >= 0
    high: Floats  # multipliers of a <= v
    b: float


def _advance(objective: Objective, point: _InteriorPoint) -> _InteriorPoint | None:
    """Return the next point, or None where it is reached or rounding lets it go no
    further.
    """
    signed = objective.signed
    labels = objective.labels
    a = point.a
    low = point.low
    high = point.high
    count = 2 * len(a)
    slack = objective.scale - a
    if min(a.min(), slack.min()) <= 0:
        return None
    # stationarity: margin - 1 = low - high
    margins = signed @ (signed.T @ a) / objective.ridge + labels * point.b
    wrong = margins - 1 - low + high
    # the mean product of an a and its multiplier, which goes to zero
    centre = float(a @ low + slack @ high) / count
    # the dual is of the order of the ridge
    small = 1e-12 * min(1.0, float(a.max())) ** 2
    if centre < small and np.abs(wrong).max() < 1e-9 * (1 + np.abs(margins).max()):
        return None
    try:
        solve = _shifted_solver(signed, low / a + high / slack, objective.ridge)
    except linalg.LinAlgError:
        return None

    def newton(
        target: float, second_low: Floats | float, second_high: Floats | float
    ) -> tuple[_InteriorPoint, float]:
        """Return the steps towards products a low = slack high = target, and the length
        up to 1 that stays feasible.
        """
        below = (target - second_low) / a - low
        above = (target - second_high) / slack - high
        step = solve(-wrong + below - above)
        db = 0.0
        if objective.intercept:
            # b moves so that sum_i a_i y_i = 0 holds after the step
            along = solve(labels)
            db = float(labels @ (step + a) / (labels @ along))
            step = step - db * along
        dlow = below - low / a * step
        dhigh = above + high / slack * step
        reach = min(
            _reach(a, step),
            _reach(slack, -step),
            _reach(low, dlow),
            _reach(high, dhigh),
        )
        return _InteriorPoint(step, dlow, dhigh, db), reach

    # the predictor aims at zero; how far it gets says how far the corrector may aim
    step, length = newton(0.0, 0.0, 0.0)
    ahead = float(
        (a + length * step.a) @ (low + length * step.low)
        + (slack - length * step.a) @ (high + length * step.high)
    )
    target = centre * (max(ahead, 0.0) / count / centre) ** 3
    # the products of the predictor's steps are what a linear step leaves out
    step, length = newton(target, step.a * step.low, -step.a * step.high)
    # the bounds themselves are never reached
    length *= 0.995
    return _InteriorPoint(
        a=a + length * step.a,
        low=low + length * step.low,
        high=high + length * step.high,
        b=point.b + length * step.b,
    )


def _reach(values: Floats, move: Floats) -> float:
    """Return the part, up to 1, of a move that leaves all values positive."""
    falling = move < 0
    return float((-values[falling] / move[falling]).min(initial=1.0))


def _shifted_solver(
    signed: Floats, diagonal: Floats, ridge: float
) -> Callable[[Floats], Floats]:
    """Return what solves (S S^T/lambda + diagonal) x = v, in the smaller of the two
    dimensions.
    """
    n, d = signed.shape
    if n <= d:
        matrix = signed @ signed.T / ridge + np.diag(diagonal)
        full = linalg.cho_factor(matrix, check_finite=False)
        return lambda v: linalg.cho_solve(full, v, check_finite=False)
    # Woodbury's identity
    scaled = signed / diagonal[:, None]
    small = linalg.cho_factor(signed.T @ scaled + ridge * np.eye(d), check_finite=False)

    def solve(v: Floats) -> Floats:
        inner = linalg.cho_solve(small, scaled.T @ v, check_finite=False)
        return np.asarray(v / diagonal - scaled @ inner)

    return solve


def fit_max_margin(objective: Objective) -> ConvexFit:
    """Minimise |w|^2/2 with all margins at least 1: a least-distance programme, by
    non-negative least squares.

    An intercept enters as a long column (its penalty is 1e-8 of the others'), and the
    support vectors, once known, give w and b exactly.
    """
    labels = objective.labels
    signed = objective.signed
    n, d = signed.shape
    size = np.sqrt(np.mean(signed**2) * d)
    a = signed
    if objective.intercept:
        a = np.hstack([signed, 1e4 * size * labels[:, None]])
    # Lawson and Hanson: min |x| under G x >= h is the residual of [G^T; h^T] u = e,
    # u >= 0
    tall = np.vstack([a.T / size, np.ones((1, n))])
    goal = np.zeros(len(tall))
    goal[-1] = 1.0
    try:
        dual = nnls(tall, goal, maxiter=30 * n)[0]
    except RuntimeError:
        return ConvexFit.missing(d, "the margin was not found")
    residual = tall @ dual - goal
    # without a residual no weights have margins of one
    if -residual[-1] < 1e-9:
        return ConvexFit.missing(d, "the classes are not separable", inseparable=True)
    if objective.intercept:
        support = dual > 0
        w, b, multipliers = _on_support(signed[support], labels[support])
        dual[support] = multipliers
    else:
        w = residual[:d] / -residual[-1] / size
        b = 0.0
        dual = dual / -residual[-1] / size**2
    worst = float((signed @ w + labels * b).min())
    if not worst > 0:
        return ConvexFit.missing(d, "the classes are not separable", inseparable=True)
    # scaled to margins of one w is feasible; so is the dual without negative entries
    weights = np.maximum(dual, 0.0)
    back = signed.T @ weights
    primal = 0.5 * w @ w / worst**2
    lower = weights.sum() - 0.5 * back @ back
    return ConvexFit(w / worst, b / worst, float((primal - lower) / primal))


def _on_support(rows: Floats, labels: Floats) -> tuple[Floats, float, Floats]:
    """Return w and b with margins of one at the support vectors, and the multipliers
    of these.
    """
    system = _border(rows @ rows.T, labels)
    right = np.append(np.ones(len(rows)), 0.0)
    # support vectors may be linearly dependent
    solution = linalg.lstsq(system, right, check_finite=False)[0]
    multipliers = solution[:-1]
    return rows.T @ multipliers, float(solution[-1]), multipliers


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
    column = np.zeros((n, 0))
    if objective.intercept:
        column = objective.labels[:, None]
    # slack_i >= 1 - margin_i, written as <= -1
    a = np.hstack([-signed, signed, -column, -np.eye(n)])
    of_intercept = np.zeros(column.shape[1])
    cost = np.concatenate([np.full(2 * d, objective.l1), of_intercept, objective.scale])
    positive: list[Any] = [(0, None)]
    free: list[Any] = [(None, None)]
    bounds = positive * (2 * d) + free * column.shape[1] + positive * n
    optimum = linprog(cost, A_ub=a, b_ub=-np.ones(n), bounds=bounds, method="highs")
    if optimum.status != 0:
        return ConvexFit.missing(
            d, f"the linear programme was not solved ({optimum.message})"
        )
    lower = -float(optimum.ineqlin.marginals.sum())
    gap = abs(optimum.fun - lower) / max(abs(optimum.fun), 1e-300)
    b = 0.0
    if objective.intercept:
        b = float(optimum.x[2 * d])
    return ConvexFit(optimum.x[:d] - optimum.x[d : 2 * d], b, gap)
