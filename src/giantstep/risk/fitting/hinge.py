"""Hinge loss and hard margin, by their duals in a: an interior-point method, least distance.

With s_i = y_i x_i the hinge loss has w = sum_i a_i s_i/lambda, 0 <= a_i <= v_i, and sum_i a_i y_i = 0 with an
intercept. What a solver leaves is polished: which a_i are free decides a linear system, which is solved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import linprog, nnls

from giantstep.deadline import check_time
from giantstep.risk.fitting.objective import ConvexFit, Objective
from giantstep.types import Floats


def fit_hinge(objective: Objective) -> ConvexFit:
    """Solve the dual by an interior-point method and polish it; with an l1 penalty solve a linear programme."""
    if objective.l1:
        return _fit_sparse_hinge(objective)
    return _polish(objective, *_follow_interior(objective))


def _polish(objective: Objective, dual: Floats, b: float) -> ConvexFit:
    """Return the best of the solver's weights and of those solved for exactly, by what may count as a free a_i."""
    best = _fit_of_dual(objective, dual, b)
    for margin in (1e-9, 1e-7, 1e-5, 1e-3):
        exact = _solve_free(objective, dual, margin)
        if exact is not None and exact.gap < best.gap:
            best = exact
        if best.gap < 1e-12:
            break
    return best


def _fit_of_dual(objective: Objective, dual: Floats, b: float) -> ConvexFit:
    """Return the weights of a dual point; the gap is (primal - dual)/primal at the feasible point next to it.

    A broken sum_i a_i y_i = 0 counts with |b|.
    """
    signed, ridge = objective.signed, objective.ridge
    w = signed.T @ dual / ridge
    feasible = np.clip(dual, 0.0, objective.scale)
    back = signed.T @ feasible
    primal = objective.scale @ np.maximum(1 - signed @ w - objective.labels * b, 0.0) + 0.5 * ridge * w @ w
    lower = feasible.sum() - 0.5 * back @ back / ridge
    broken = abs(b * (objective.labels @ feasible))
    return ConvexFit(w, b, float((primal - lower + broken) / max(primal, 1e-300)))


def _solve_free(objective: Objective, dual: Floats, margin: float) -> ConvexFit | None:
    """Solve the optimality conditions for the free dual weights: margin 1 there, and sum_i a_i y_i = 0."""
    signed, scale, ridge = objective.signed, objective.scale, objective.ridge
    free = (dual > margin * scale) & (dual < (1 - margin) * scale)
    if not free.any():
        return None
    exact = np.where(dual >= (1 - margin) * scale, scale, 0.0)
    exact[free] = 0.0
    f = signed[free]
    system, right = f @ f.T / ridge, 1 - f @ (signed.T @ exact / ridge)
    if objective.intercept:
        system, right = _border(system, objective.labels[free]), np.append(right, -(objective.labels @ exact))
    try:
        solution: Floats = linalg.solve(system, right, assume_a="sym", check_finite=False)
    except linalg.LinAlgError:
        return None
    if not np.isfinite(solution).all():
        return None
    exact[free] = solution[: len(f)]
    return _fit_of_dual(objective, exact, float(solution[-1]) if objective.intercept else 0.0)


def _border(gram: Floats, y: Floats) -> Floats:
    """Return the matrix [[gram, y], [y^T, 0]] of the optimality conditions with an intercept."""
    return np.block([[gram, y[:, None]], [y[None, :], np.zeros((1, 1))]])


# -- interior points -----------------------------------------------------------------------------------------


def _follow_interior(objective: Objective) -> tuple[Floats, float]:
    """Minimise |sum_i a_i s_i|^2/(2 lambda) - sum_i a_i over 0 <= a <= v: Mehrotra's predictor and corrector.

    Return a, and the intercept b, the multiplier of sum_i a_i y_i = 0 (0 without one).
    """
    signed, ridge, n = objective.signed, objective.ridge, len(objective.labels)
    labels = objective.labels if objective.intercept else None
    a, low, high, b = 0.5 * objective.scale, np.ones(n), np.ones(n), 0.0
    for _ in range(60):
        check_time()
        slack = objective.scale - a
        if min(a.min(), slack.min()) <= 0:  # as far as rounding lets it go
            break
        margins = signed @ (signed.T @ a) / ridge + objective.labels * b
        wrong = margins - 1 - low + high
        centre = float(a @ low + slack @ high) / (2 * n)
        small = 1e-12 * min(1.0, float(a.max())) ** 2  # the dual is of the order of the ridge
        if centre < small and np.abs(wrong).max() < 1e-9 * (1 + np.abs(margins).max()):
            break
        try:
            solve = _shifted_solver(signed, low / a + high / slack, ridge)
        except linalg.LinAlgError:
            break
        newton = _NewtonStep(a, slack, low, high, wrong, labels, solve)
        step, dlow, dhigh, _ = newton.step(0.0, np.zeros(n), np.zeros(n))
        length = newton.reach(step, dlow, dhigh)
        ahead = float((a + length * step) @ (low + length * dlow) + (slack - length * step) @ (high + length * dhigh))
        target = centre * (max(ahead, 0.0) / (2 * n) / centre) ** 3
        step, dlow, dhigh, db = newton.step(target, step * dlow, -step * dhigh)
        length = 0.995 * newton.reach(step, dlow, dhigh)
        a, low, high, b = a + length * step, low + length * dlow, high + length * dhigh, b + length * db
    return a, b


@dataclass(frozen=True)
class _NewtonStep:
    """Newton's equations of an interior-point step: a and v - a, the multipliers of both, the slope still wrong.

    `labels` are those of sum_i a_i y_i = 0, None without an intercept.
    """

    a: Floats
    slack: Floats
    low: Floats
    high: Floats
    wrong: Floats
    labels: Floats | None
    solve: Callable[[Floats], Floats]

    def step(self, target: float, second_low: Floats, second_high: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Return the steps of a, both multipliers and b towards products a low = slack high = target.

        The second-order terms of these products are given.
        """
        below = (target - second_low) / self.a - self.low
        above = (target - second_high) / self.slack - self.high
        step, db = self.solve(-self.wrong + below - above), 0.0
        if self.labels is not None:
            along = self.solve(self.labels)
            db = float(self.labels @ (step + self.a) / (self.labels @ along))
            step = step - db * along
        return step, below - self.low / self.a * step, above + self.high / self.slack * step, db

    def reach(self, step: Floats, dlow: Floats, dhigh: Floats) -> float:
        """Return the largest length up to 1 at which nothing is negative."""
        moves = ((self.a, step), (self.slack, -step), (self.low, dlow), (self.high, dhigh))
        return min(float((-values[move < 0] / move[move < 0]).min(initial=1.0)) for values, move in moves)


def _shifted_solver(signed: Floats, diagonal: Floats, ridge: float) -> Callable[[Floats], Floats]:
    """Return what solves (S S^T/lambda + diagonal) x = v, in the smaller of the two dimensions."""
    n, d = signed.shape
    if n <= d:
        full = linalg.cho_factor(signed @ signed.T / ridge + np.diag(diagonal), check_finite=False)
        return lambda v: linalg.cho_solve(full, v, check_finite=False)
    scaled = signed / diagonal[:, None]
    small = linalg.cho_factor(signed.T @ scaled + ridge * np.eye(d), check_finite=False)
    return lambda v: v / diagonal - scaled @ linalg.cho_solve(small, scaled.T @ v, check_finite=False)


# -- hard margin, and the hinge with an l1 penalty -----------------------------------------------------------


def fit_max_margin(objective: Objective) -> ConvexFit:
    """Minimise |w|^2/2 with all margins at least 1: a least-distance programme, by non-negative least squares.

    An intercept enters as a long column (its penalty is 1e-8 of the others'), and the support vectors, once
    known, give w and b exactly.
    """
    labels, signed, intercept = objective.labels, objective.signed, objective.intercept
    n, d = signed.shape
    size = np.sqrt(np.mean(signed**2) * d)
    a = np.hstack([signed, 1e4 * size * labels[:, None]]) if intercept else signed
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
        s, y = signed[support], labels[support]
        solution = linalg.lstsq(_border(s @ s.T, y), np.append(np.ones(len(s)), 0.0), check_finite=False)[0]
        w, b = s.T @ solution[:-1], float(solution[-1])
        dual[support] = solution[:-1]
    else:
        w, b = residual[:d] / -residual[-1] / size, 0.0
        dual = dual / -residual[-1] / size**2
    worst = float((signed @ w + labels * b).min())
    if not worst > 0:
        return ConvexFit.missing(d, "the classes are not separable", inseparable=True)
    weights = np.maximum(dual, 0.0)
    back = signed.T @ weights
    primal, lower = 0.5 * w @ w / worst**2, weights.sum() - 0.5 * back @ back
    return ConvexFit(w / worst, b / worst, float((primal - lower) / primal))


def _fit_sparse_hinge(objective: Objective) -> ConvexFit:
    """Minimise the hinge loss with an l1 penalty as a linear programme in (w+, w-, b, slack), by HiGHS."""
    signed = objective.signed
    n, d = signed.shape
    if objective.ridge > 0:
        return ConvexFit.missing(d, "the hinge loss with both penalties has no solver here; take ridge = 0 or l1 = 0")
    column = objective.labels[:, None] if objective.intercept else np.zeros((n, 0))
    a = np.hstack([-signed, signed, -column, -np.eye(n)])
    cost = np.concatenate([np.full(2 * d, objective.l1), np.zeros(column.shape[1]), objective.scale])
    bounds: list[Any] = [(0, None)] * (2 * d) + [(None, None)] * column.shape[1] + [(0, None)] * n
    optimum = linprog(cost, A_ub=a, b_ub=-np.ones(n), bounds=bounds, method="highs")
    if optimum.status != 0:
        return ConvexFit.missing(d, f"the linear programme was not solved ({optimum.message})")
    lower = -float(optimum.ineqlin.marginals.sum())
    gap = abs(optimum.fun - lower) / max(abs(optimum.fun), 1e-300)
    return ConvexFit(optimum.x[:d] - optimum.x[d : 2 * d], float(optimum.x[2 * d]) if objective.intercept else 0.0, gap)
