"""First-order transitions of two directions that no symmetry makes equivalent.

Both branches of state evolution are followed along a grid of n/d with coarse rules, message passing upwards and full
knowledge downwards. Where they differ lies a transition. Its ends are folds of one curve of fixed points: along it n/d
is smooth and has an extremum there. In between, the free entropies (4) of both branches are equal at one n/d; their
slope in alpha is Psi.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from giantstep.deadline import check_time
from giantstep.families.bayes_limit.matrix import FixedPoint, SeveralDirections, entries_of, matrix_of, moved_inside
from giantstep.families.bayes_limit.pairs import COARSE, FINE, Fineness
from giantstep.families.bayes_limit.problem import Thresholds
from giantstep.types import Floats

_RATIO = 1.1
"""Ratio of neighbouring n/d of the grid."""
_SMALLEST, _LARGEST = 0.05, 100.0
_KNOWN = 0.8
"""Smallest eigenvalue of M at which everything counts as known."""
_FULL, _SEED = 0.95, 2e-3
"""Overlaps at which both branches start."""
_DIFFERENT = 3e-3
_SOLVED = 1e-9


class Jump(NamedTuple):
    """A first-order transition; alpha_amp is infinite where message passing never follows."""

    alpha_dyn: float
    q_dyn: float
    alpha_it: float
    q_it: float
    alpha_amp: float
    q_amp: float


@dataclass
class Scan:
    """Message passing and full knowledge on a grid of n/d: (A,), (A, r, r), (A, r, r)."""

    alpha: Floats
    low: Floats
    high: Floats

    def transition(self) -> tuple[int, int] | None:
        """Return the first and the last place of the last run at which the branches differ."""
        places = np.flatnonzero(np.abs(self.high - self.low).max(axis=(1, 2)) > _DIFFERENT)
        if not len(places):
            return None
        run = np.flatnonzero(np.diff(places) > 1)
        return int(places[run[-1] + 1] if len(run) else places[0]), int(places[-1])


def jump_thresholds(problem: SeveralDirections) -> Thresholds:
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
    scan = follow_both(problem)
    ends = scan.transition()
    if ends is None:
        return None
    first, last = ends
    if first == last and not _are_two(problem, float(scan.alpha[first])):
        return None  # coarse rules do not tell a slow branch at a continuous threshold from another one
    identity = np.eye(problem.reading.rank)
    ahead = scan.high[min(first + 1, len(scan.alpha) - 1)]
    alpha_dyn, born = _Arc(problem, identity, scan.alpha[first], scan.high[first], ahead).fold()
    alpha_amp, top = _end_of_message_passing(problem, scan, last)
    alpha_it, best = _equal_entropy(problem, scan, first, last)
    return Jump(alpha_dyn, _mean(born), alpha_it, _mean(best), alpha_amp, _mean(top))


def _are_two(problem: SeveralDirections, alpha: float) -> bool:
    """Tell whether the branches differ where accurate rules solve them."""
    low, high, _ = problem.solve(alpha).M
    return bool(np.abs(high - low).max() > _DIFFERENT)


def _mean(M: Floats) -> float:
    return float(np.trace(M)) / len(M)


def follow_both(problem: SeveralDirections) -> Scan:
    """Follow message passing upwards, then full knowledge downwards until it loses what message passing lacks."""
    r = problem.reading.rank
    alpha, low = _follow_up(problem)
    M, inverse = problem.settle(_FULL * np.eye(r), float(alpha[-1]), np.eye(r), np.eye(0))
    high, differed = low.copy(), False
    for place in range(len(alpha) - 1, -1, -1):
        M, inverse = problem.settle(M, float(alpha[place]), np.eye(r), inverse)
        high[place] = M
        differs = bool(np.abs(M - low[place]).max() > _DIFFERENT)
        if differed and not differs:
            break
        differed = differed or differs
    return Scan(alpha, low, high)


def _follow_up(problem: SeveralDirections) -> tuple[Floats, Floats]:
    """Return n/d and what message passing reaches, up to where it, or if it never does full knowledge, is complete."""
    r, stages = problem.reading.rank, [stage.alpha for stage in problem.stages]
    finite = [alpha for alpha in stages if 0 < alpha < math.inf]
    top = _complete_from(problem, 1.5 * max(finite, default=1.0))
    alpha = max(_SMALLEST, 0.5 * min(finite, default=0.2 * top))
    alphas: list[float] = []
    low: list[Floats] = []
    M, inverse, learnt = np.zeros((r, r)), np.eye(0), 0
    while not alphas or alphas[-1] < top or (
        max(stages) < math.inf and alphas[-1] < _LARGEST and np.linalg.eigvalsh(M)[0] < _KNOWN
    ):  # fmt: skip
        rows = problem.learnt_rows(alpha)
        if len(rows) > learnt:
            M = M + _SEED * rows.T @ np.diag(np.linspace(1.0, 0.8, len(rows))) @ rows
            learnt, inverse = len(rows), np.eye(0)
        if learnt:
            M, inverse = problem.settle(moved_inside(M), alpha, rows, inverse)
        alphas.append(alpha)
        low.append(M)
        alpha *= _RATIO
    return np.array(alphas), np.array(low)


def _complete_from(problem: SeveralDirections, alpha: float) -> float:
    """Return an n/d at which full knowledge keeps nearly everything."""
    r = problem.reading.rank
    while alpha < _LARGEST:
        check_time()
        M, _ = problem.settle(_FULL * np.eye(r), alpha, np.eye(r), np.eye(0))
        if np.linalg.eigvalsh(M)[0] > _KNOWN:
            break
        alpha *= 1.5
    return alpha


class _Arc:
    """The curve of fixed points (M, log alpha) near a point of it, by its length in the direction of a fold."""

    def __init__(self, problem: SeveralDirections, rows: Floats, alpha: float, M: Floats, behind: Floats) -> None:
        self.problem, self.rows, self.project = problem, rows, rows.T @ rows
        self.start = np.append(entries_of(M, rows), math.log(alpha))
        towards = self.start[:-1] - entries_of(behind, rows)
        self.length = float(np.linalg.norm(towards))
        self.tangent = np.append(towards / self.length, 0.0)
        self.inverse = np.linalg.inv(self._jacobian())

    def _gap(self, point: Floats, s: float, fineness: Fineness) -> Floats:
        M = moved_inside(matrix_of(point[:-1], self.rows))
        new = self.problem.map_at(math.exp(point[-1]), self.project, fineness)(M)
        along = float(self.tangent @ (point - self.start)) - s
        return np.append(entries_of(M - new, self.rows), along)

    def _jacobian(self) -> Floats:
        base = self._gap(self.start, 0.0, COARSE)
        columns = [(self._gap(self.start + 1e-5 * unit, 0.0, COARSE) - base) / 1e-5 for unit in np.eye(len(base))]
        return np.stack(columns, axis=1)

    def at(self, s: float, guess: Floats, fineness: Fineness) -> Floats:
        """Return the point (entries of M, log alpha) at length s, by Broyden's method from a guess."""
        point = guess + self.tangent * (s - float(self.tangent @ (guess - self.start)))
        old = self._gap(point, s, fineness)
        for _ in range(12):
            check_time()
            move = -self.inverse @ old
            move *= min(1.0, 0.1 / max(float(np.abs(move).max()), 1e-300))
            point = point + move
            gap = self._gap(point, s, fineness)
            response = self.inverse @ (gap - old)
            scale = float(move @ response)
            if abs(scale) > 1e-3 * float(move @ move):
                self.inverse = self.inverse + np.outer((move - response) / scale, move @ self.inverse)
            old = gap
            if float(np.abs(gap).max()) < _SOLVED:
                break
        return point

    def fold(self) -> tuple[float, Floats]:
        """Return the extremum of alpha along the curve and the overlap there."""
        step, points = 0.25 * self.length, [self.start]
        s, sign = [0.0], 0.0
        for number in range(1, 40):
            points.append(self.at(number * step, points[-1], COARSE))
            s.append(number * step)
            change = points[-1][-1] - points[-2][-1]
            if sign and change * sign < 0:
                break
            sign = math.copysign(1.0, change)
        centre = _extremum(np.array(s[-3:]), np.array([point[-1] for point in points[-3:]]))
        guess = points[-2]
        for width in (0.6 * step, 0.3 * step):
            nodes = centre + width * np.linspace(-1, 1, 5)
            found = []
            for node in nodes:
                guess = self.at(float(node), guess, FINE)
                found.append(guess)
            centre = _extremum(nodes, np.array([point[-1] for point in found]))
            guess = found[2]
        best = self.at(centre, guess, FINE)
        return math.exp(best[-1]), matrix_of(best[:-1], self.rows)


def _extremum(s: Floats, values: Floats) -> float:
    """Return where the polynomial through values has its extremum nearest to the middle."""
    middle, half = float(s.mean()), float(np.ptp(s)) / 2
    slopes = np.polynomial.Polynomial(np.polyfit((s - middle) / half, values, len(s) - 1)[::-1]).deriv().roots()
    real = slopes.real[np.abs(slopes.imag) < 1e-9]
    nearest = float(real[np.argmin(np.abs(real))]) if len(real) else 0.0
    return middle + half * float(np.clip(nearest, -2.0, 2.0))


def _end_of_message_passing(problem: SeveralDirections, scan: Scan, last: int) -> tuple[float, Floats]:
    """Return where message passing jumps: at a fold, where the next direction shows itself, or never."""
    if last + 1 == len(scan.alpha):
        return math.inf, np.full_like(scan.low[last], np.nan)
    below, above = scan.alpha[last], scan.alpha[last + 1]
    rows = problem.learnt_rows(float(below))
    shown = [stage.alpha for stage in problem.stages if below <= stage.alpha < above]
    if shown:
        M = scan.low[last]
        return shown[0], problem.settle(M, shown[0], rows, np.eye(0))[0] if len(rows) else M
    return _Arc(problem, rows, float(below), scan.low[last], scan.low[last - 1]).fold()


def _equal_entropy(problem: SeveralDirections, scan: Scan, first: int, last: int) -> tuple[float, Floats]:
    """Return where both branches have one free entropy, and the overlap of the upper one, by Newton's method."""
    place = (first + last) // 2
    alpha, M = float(scan.alpha[place]), (scan.low[place], scan.high[place])
    for _ in range(12):
        check_time()
        low, high = (_refined(problem, M[side], alpha, side == 1) for side in (0, 1))
        M = (low.M, high.M)
        change = -(high.phi - low.phi) / (high.psi - low.psi)
        change = float(np.clip(change, scan.alpha[first] - alpha, 0.5 * alpha))
        alpha += change
        if abs(change) < 1e-8 * alpha:
            break
    return alpha, M[1]


def _refined(problem: SeveralDirections, M: Floats, alpha: float, informed: bool) -> FixedPoint:
    rows = np.eye(problem.reading.rank) if informed else problem.learnt_rows(alpha)
    if not len(rows):
        return problem.at_zero(alpha)
    near, inverse = problem.settle(M, alpha, rows, np.eye(0))
    return problem.refine(near, alpha, rows, inverse)
