"""The best possible error as a curve in samples per dimension, each point of it computed once, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from giantstep.deadline import check_time
from giantstep.gaussian import Target
from giantstep.progress import Progress
from giantstep.types import Floats

if TYPE_CHECKING:
    from giantstep.families.bayes_limit.scenario import BayesLimit

NOTHING = 1e-9
"""Samples per dimension that teach nothing."""
BRANCHES = ("bayes", "uninformed")
"""The best possible, and message passing without knowledge."""
_NAMES = ("mse", "error")
_LEAST = -20
"""Binary logarithm of the fewest samples per dimension that are looked for."""
_MOST = 4
"""Doublings of a method's own samples up to which the best one is followed, where chance put an error below it."""
_SLOW = 0.1
"""Seconds for a point of the curve, beyond which it is solved for to 1% rather than to 1e-5."""
_NEAR = 0.1
"""Relative distance from a method's own samples within which the curve is asked at them, too."""
_ROUNDING = 1e-9
"""Relative distance from the error of no samples that only rounding makes."""
_TINY = 1e-14
"""What an error is at least above its smallest value, so that it has a logarithm."""


class BoundProblem(NamedTuple):
    """What is learnt: scenarios that differ in anything else have the same best possible error."""

    target: Target
    noise: float
    flip: float

    def at(self, samples_per_dim: float) -> BayesLimit:
        """Return the scenario of the best estimator."""
        from giantstep.families.bayes_limit.scenario import BayesLimit

        return BayesLimit(
            target=self.target, noise=self.noise, flip=self.flip, samples_per_dim=max(samples_per_dim, NOTHING)
        )

    @property
    def seconds(self) -> float:
        """About how long a point of the curve takes."""
        return self.at(1.0).seconds("errors")

    @property
    def accuracy(self) -> float:
        """Relative error up to which `needed_samples` are solved for."""
        return 1e-2 if self.seconds > _SLOW else 1e-5


def _known(problem: BoundProblem) -> dict[float, Floats]:
    """Return what was computed of a curve so far: samples per dimension -> (names, branches)."""
    from giantstep.families.bayes_limit.problem import problem_of

    return problem_of(*problem).known_errors


def compute(wanted: Mapping[BoundProblem, Iterable[float]], bar: Progress | None = None) -> None:
    """Compute the points of curves that are not known yet."""
    from giantstep.study import predict

    for problem, alpha in wanted.items():
        missing = sorted({max(float(a), NOTHING) for a in alpha} - set(_known(problem)))
        if missing:
            watch = False if bar is None else _Forward(bar)
            answer = predict(problem.at(1.0), samples_per_dim=missing, cpu_limit=math.inf, progress=watch)
            rows = np.stack([answer[name].sel(branch=list(BRANCHES)).values for name in _NAMES], axis=1)
            _known(problem).update(zip(missing, rows))


class _Forward:
    """Counts the points of one call in the bar of many."""

    def __init__(self, bar: Progress) -> None:
        self.bar, self.before = bar, bar.done

    def __call__(self, done: int, total: int, text: str) -> None:
        self.bar.reach(self.before + done)


def best_errors(problem: BoundProblem, alpha: Floats, name: str, branch: str = "bayes") -> Floats:
    """Return the best possible "mse" or "error" at samples per dimension alpha, any shape."""
    compute({problem: np.ravel(alpha).tolist()})
    known, place = _known(problem), (_NAMES.index(name), BRANCHES.index(branch))
    flat = [known[max(float(a), NOTHING)][place] for a in np.ravel(alpha)]
    return np.array(flat, dtype=np.float64).reshape(np.shape(alpha))


_Place = tuple[float, float]
"""x and the curve there."""


class Needed(NamedTuple):
    """Samples per dimension at which the best one has given errors, and |d log samples/d error| there."""

    samples: Floats
    slope: Floats


def needed_samples(
    problem: BoundProblem, name: str, branch: str, errors: Floats, own: Floats, bar: Progress | None = None
) -> Needed:
    """Return the samples per dimension at which the best one has these errors, shape (N,).

    Zero where the best one needs none, NaN where it has no such error at 16 times as many samples.
    """
    found = [_Inversion(problem, name, branch, bar).solve(*pair) for pair in zip(errors.tolist(), own.tolist())]
    return Needed(*np.array(found, dtype=np.float64).reshape(-1, 2).T)


@dataclass
class _Inversion:
    """The curve of one error as log(error - its smallest value) over x = log2(samples per dimension), nearly straight.

    It is halved on a lattice of powers of two, so that the answer for one error does not depend on which others are
    asked for, and all of them share its points.
    """

    problem: BoundProblem
    name: str
    branch: str
    bar: Progress | None

    def at(self, x: float) -> float:
        """Return the curve at x."""
        compute({self.problem: [2.0**x]}, self.bar)
        return self._above_least(float(best_errors(self.problem, np.array(2.0**x), self.name, self.branch)))

    def _above_least(self, error: float) -> float:
        least = self.problem.noise if self.name == "mse" else self.problem.flip
        return math.log(max(error - least, _TINY))

    def solve(self, error: float, own: float) -> tuple[float, float]:
        """Return the samples at which the curve has an error, and |d log samples/d error|."""
        start = float(best_errors(self.problem, np.array(0.0), self.name, self.branch))
        if error >= start - _ROUNDING * abs(start):
            return 0.0, 0.0
        if not (math.isfinite(error) and own > 0):
            return math.nan, math.nan
        sought = self._above_least(error)
        ends = self._bracket(sought, math.ceil(math.log2(own)))
        if ends is None:
            return math.nan, math.nan
        low, high = self._narrow(sought, *ends)
        x = _between(sought, low, high)
        if abs(x - math.log2(own)) < _NEAR and low[0] < math.log2(own) < high[0]:
            low, high = self._half(sought, low, high, math.log2(own))
            x = _between(sought, low, high)
        drop = low[1] - high[1]
        steep = (high[0] - low[0]) / drop if drop else math.inf
        return 2.0**x, math.log(2) * steep / math.exp(sought)

    def _bracket(self, sought: float, x: float) -> tuple[_Place, _Place] | None:
        """Return neighbouring whole x between which the curve falls below `sought`; None where there are none."""
        first = x
        while self.at(x) > sought:
            x += 1
            if x > first + _MOST:
                return None
        high, step = (x, self.at(x)), 1
        low = (x - step, self.at(x - step))
        while low[1] < sought and low[0] > _LEAST:
            check_time()
            step *= 2
            x = max(low[0] - step, _LEAST)
            low, high = (x, self.at(x)), low
        if low[1] < sought:
            return None  # the error is that of hardly any samples
        while high[0] - low[0] > 1:
            low, high = self._half(sought, low, high, math.floor(0.5 * (low[0] + high[0])))
        return low, high

    def _half(self, sought: float, low: _Place, high: _Place, x: float) -> tuple[_Place, _Place]:
        """Return the part on one side of x in which the curve passes `sought`."""
        middle = x, self.at(x)
        return (low, middle) if middle[1] <= sought else (middle, high)

    def _narrow(self, sought: float, low: _Place, high: _Place) -> tuple[_Place, _Place]:
        """Halve an interval until the curve is a straight line on it."""
        tolerance = self.problem.accuracy / math.log(2)
        while True:
            check_time()
            width, drop, x = high[0] - low[0], low[1] - high[1], 0.5 * (low[0] + high[0])
            off = abs(self.at(x) - 0.5 * (low[1] + high[1])) * width
            low, high = self._half(sought, low, high, x)
            if off <= 4 * tolerance * drop or width <= tolerance:  # a line through half as many is off by a quarter
                return low, high


def _between(sought: float, low: _Place, high: _Place) -> float:
    """Return where the line between two places has the value `sought`."""
    drop = low[1] - high[1]
    return low[0] + (high[0] - low[0]) * ((low[1] - sought) / drop if drop else 0.0)
