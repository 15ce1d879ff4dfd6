"""First-order transitions of two directions that no symmetry makes equivalent.

Both branches of state evolution are followed along a grid of n/d, message passing upwards and full knowledge downwards.
Where they differ lies a transition. Its ends are folds of one curve of fixed points: n/d is smooth in the mean overlap
along it and has an extremum there. In between, the free entropies (4) of both branches are equal at one n/d; their
slope in alpha is Psi.
"""

from __future__ import annotations

import math

import numpy as np

from giantstep.families.bayes_limit.curve import Jump, extremum_near
from giantstep.families.bayes_limit.matrix import (
    OverlapPoint,
    SeveralDirections,
    entries_of,
    matrix_of,
    solve_near,
)
from giantstep.families.bayes_limit.problem import Transitions
from giantstep.families.bayes_limit.tolerances import SETTLED
from giantstep.types import Floats

_RATIO = 1.1
"""Ratio of neighbouring n/d of the grid."""
_SMALLEST, _LARGEST = 0.05, 100.0
"""Samples per dimension between which transitions are looked for."""
_KNOWN = 0.8
"""Smallest eigenvalue of M at which everything counts as known."""
_FULL, _SEED = 0.95, 2e-3
"""Overlaps at which both branches start."""
_DIFFERENT = 3e-3
"""Distance of overlaps that are not on one branch."""
_LEAPT = 0.1
"""Distance of two overlaps at neighbouring n/d beyond which a branch is followed by sweeps."""


def jump_thresholds(problem: SeveralDirections) -> Transitions:
    """Return the thresholds with the last first-order transition, or without one, where the overlap leaves zero."""
    table, jump = problem.thresholds(), find_jump(problem)
    if jump is None:
        weak = table.alpha_weak
        return table._replace(
            alpha_dyn=weak, alpha_it=weak, alpha_amp=weak, q_dyn=0.0, q_it=0.0, q_amp=0.0, transition="continuous"
        )
    return table._replace(**jump._asdict(), transition="first-order")


def find_jump(problem: SeveralDirections) -> Jump | None:
    """Return the last first-order transition; None where message passing reaches the best possible everywhere."""
    alpha, low = _follow_up(problem)
    high = _follow_down(problem, alpha, low)
    places = np.flatnonzero([_apart(a, b) > _DIFFERENT for a, b in zip(low, high)])
    if not len(places):
        return None
    gaps = np.flatnonzero(np.diff(places) > 1)
    first, last = int(places[gaps[-1] + 1] if len(gaps) else places[0]), int(places[-1])
    identity = np.eye(problem.reading.rank)
    ahead = high[min(first + 1, len(alpha) - 1)]
    alpha_dyn, q_dyn = _fold(problem, identity, alpha[first], high[first], ahead)
    if last + 1 == len(alpha):
        alpha_amp, q_amp = math.inf, math.nan
    else:
        alpha_amp, q_amp = _end_of_message_passing(problem, alpha[last : last + 2], low[last], low[last - 1])
    alpha_it, q_it = _equal_entropy(problem, alpha[first : last + 1], low[first : last + 1], high[first : last + 1])
    return Jump(alpha_dyn, q_dyn, alpha_it, q_it, alpha_amp, q_amp)


def _apart(first: OverlapPoint, second: OverlapPoint) -> float:
    return float(np.abs(first.M - second.M).max())


def _mean(M: Floats) -> float:
    return float(np.trace(M)) / len(M)


def _next_on(problem: SeveralDirections, point: OverlapPoint, alpha: float, rows: Floats) -> OverlapPoint:
    """Return the fixed point at a neighbouring alpha: the nearest one, or what sweeps reach."""
    if len(rows):
        found = problem.nearby(point.M, alpha, rows, point.jacobian)
        if found.residual < SETTLED and _apart(found, point) < _LEAPT:
            return found
    return problem.follow(point.M, alpha, rows)


def _follow_up(problem: SeveralDirections) -> tuple[list[float], list[OverlapPoint]]:
    """Return n/d and what message passing reaches, up to where it, or if it never does full knowledge, is complete."""
    r, stages = problem.reading.rank, [stage.alpha for stage in problem.stages]
    finite = [alpha for alpha in stages if 0 < alpha < math.inf]
    top = _complete_from(problem, 1.5 * max(finite, default=1.0))
    alphas = [max(_SMALLEST, 0.5 * min(finite, default=0.2 * top))]
    low: list[OverlapPoint] = []
    M, learnt = np.zeros((r, r)), 0
    while True:
        rows = problem.learnt_rows(alphas[-1])
        if len(rows) > learnt or not low:
            learnt = len(rows)
            M = M + _SEED * rows.T @ np.diag(np.linspace(1.0, 0.8, learnt)) @ rows
            low.append(problem.follow(M, alphas[-1], rows))
        else:
            low.append(_next_on(problem, low[-1], alphas[-1], rows))
        M = low[-1].M
        open_end = max(stages) < math.inf and alphas[-1] < _LARGEST and np.linalg.eigvalsh(M)[0] < _KNOWN
        if alphas[-1] >= top and not open_end:
            return alphas, low
        alphas.append(_RATIO * alphas[-1])


def _complete_from(problem: SeveralDirections, alpha: float) -> float:
    """Return an n/d at which full knowledge keeps nearly everything."""
    identity = np.eye(problem.reading.rank)
    while alpha < _LARGEST:
        if np.linalg.eigvalsh(problem.follow(_FULL * identity, alpha, identity).M)[0] > _KNOWN:
            break
        alpha *= 1.5
    return alpha


def _follow_down(problem: SeveralDirections, alpha: list[float], low: list[OverlapPoint]) -> list[OverlapPoint]:
    """Follow full knowledge downwards until it has lost what message passing lacks."""
    identity = np.eye(problem.reading.rank)
    high, differed = list(low), False
    point = problem.follow(_FULL * identity, alpha[-1], identity)
    for place in range(len(alpha) - 1, -1, -1):
        point = high[place] = _next_on(problem, point, alpha[place], identity)
        differs = _apart(point, low[place]) > _DIFFERENT
        if differed and not differs:
            break
        differed = differed or differs
    return high


def _fold(
    problem: SeveralDirections, rows: Floats, alpha: float, point: OverlapPoint, behind: OverlapPoint
) -> tuple[float, float]:
    """Return the extremum of alpha along the curve of fixed points beyond `point`, and the mean overlap there."""
    start = np.append(entries_of(point.M, rows), math.log(alpha))

    def mean(x: Floats) -> float:
        return _mean(matrix_of(x[:-1], rows))

    def gap(x: Floats) -> Floats:
        return np.append(x[:-1] - entries_of(problem.step(matrix_of(x[:-1], rows), math.exp(x[-1])), rows), mean(x))

    base, h = gap(start), 1e-5
    slopes = np.stack([(gap(start + h * unit) - base) / h for unit in np.eye(len(start))], axis=1)
    known = [start]

    def log_alpha(q: float) -> float:
        """Return log alpha of the fixed point with this mean overlap, solved for from the nearest one known."""
        near = min(known, key=lambda x: abs(mean(x) - q))
        x, _ = solve_near(lambda x: gap(x) - q * np.eye(len(x))[-1], near, slopes)
        known.append(x)
        return float(x[-1])

    step = 0.25 * (_mean(point.M) - _mean(behind.M))
    q, values = _mean(point.M), [math.log(alpha)]
    for _ in range(40):
        values.append(log_alpha(q + len(values) * step))
        if len(values) > 2 and (values[-1] - values[-2]) * (values[-2] - values[-3]) < 0:
            break
    q, _ = extremum_near(log_alpha, q + (len(values) - 2) * step, 0.5 * abs(step), 5)
    return math.exp(log_alpha(q)), q


def _end_of_message_passing(
    problem: SeveralDirections, alpha: list[float], point: OverlapPoint, before: OverlapPoint
) -> tuple[float, float]:
    """Return where message passing jumps between two n/d: where the next direction shows itself, or at a fold."""
    rows = problem.learnt_rows(alpha[0])
    shown = [stage.alpha for stage in problem.stages if alpha[0] <= stage.alpha < alpha[1]]
    if shown:
        return shown[0], _mean(_next_on(problem, point, shown[0], rows).M)
    return _fold(problem, rows, alpha[0], point, before)


def _equal_entropy(
    problem: SeveralDirections, alphas: list[float], lows: list[OverlapPoint], highs: list[OverlapPoint]
) -> tuple[float, float]:
    """Return where both branches have one free entropy, and the overlap of the upper one, by Newton's method."""
    place = (len(alphas) - 1) // 2
    alpha, low, high = alphas[place], lows[place], highs[place]
    for _ in range(12):
        change = -(high.phi - low.phi) / (high.psi - low.psi)
        change = float(np.clip(change, alphas[0] - alpha, 0.5 * alpha))
        if abs(change) < 1e-8 * alpha:
            break
        alpha += change
        low = _next_on(problem, low, alpha, problem.learnt_rows(alpha))
        high = _next_on(problem, high, alpha, np.eye(problem.reading.rank))
    return alpha, _mean(high.M)
