"""The best possible error as a curve in samples per dimension, each point of it computed once, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from giantstep.deadline import check_time
from giantstep.gaussian import Target
from giantstep.progress import Progress
from giantstep.types import Floats, Indices

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


class Needed(NamedTuple):
    """Samples per dimension at which the best one has given errors, and |d log samples/d error| there."""

    samples: Floats
    slope: Floats


def needed_samples(
    problem: BoundProblem, name: str, branch: str, errors: Floats, own: Floats, bar: Progress | None = None
) -> Needed:
    """Return the samples per dimension at which the best one has these errors, shape (N,).

    The curve is halved on a lattice of powers of two until it is straight, so that the answer for one error does not
    depend on which others are asked for; where it lies near the method's `own` samples the curve is asked there, too.
    Zero where the best one needs none, NaN where it has no such error at 16 times as many samples.
    """
    return _Inversion(problem, name, branch, np.asarray(errors, float), np.asarray(own, float), bar).solve()


@dataclass
class _Inversion:
    """The errors of one curve that are solved for together; exponents are binary logarithms of samples per dimension.

    The curve is that of the logarithm of what the error is above its smallest value: it is nearly straight.

    Attributes
    ----------
    sought : (N,) the errors on that scale.
    low, high : (N,) exponents between which each error lies.
    above, below : (N,) the curve there: above >= sought >= below.
    """

    problem: BoundProblem
    name: str
    branch: str
    errors: Floats
    own: Floats
    bar: Progress | None
    sought: Floats = field(init=False)
    low: Floats = field(init=False)
    high: Floats = field(init=False)
    above: Floats = field(init=False)
    below: Floats = field(init=False)

    def curve(self, exponents: Floats) -> Floats:
        """Return the curve at exponents."""
        alpha = np.exp2(exponents)
        compute({self.problem: np.unique(alpha).tolist()}, self.bar)
        return self._above_least(best_errors(self.problem, alpha, self.name, self.branch))

    def _above_least(self, errors: Floats) -> Floats:
        least = self.problem.noise if self.name == "mse" else self.problem.flip
        return np.log(np.maximum(errors - least, _TINY))

    def solve(self) -> Needed:
        """Return the answer for every error."""
        start = float(best_errors(self.problem, np.zeros(1), self.name, self.branch)[0])
        needless = self.errors >= start - _ROUNDING * abs(start)
        samples, slope = np.where(needless, 0.0, np.nan), np.where(needless, 0.0, np.nan)
        self.sought = self._above_least(self.errors)
        part = self._bracket(np.flatnonzero(np.isfinite(self.errors) & ~needless & (self.own > 0)))
        self._halve(part)
        self._ask_at_own(part)
        with np.errstate(invalid="ignore", divide="ignore"):
            steep = ((self.high - self.low) / (self.above - self.below))[part]
            samples[part] = np.exp2(
                self.low[part] + np.where(steep < np.inf, (self.above - self.sought)[part] * steep, 0)
            )
            slope[part] = math.log(2) * steep / np.exp(self.sought[part])
        return Needed(samples, slope)

    def _bracket(self, open_: Indices) -> Indices:
        """Find the powers of two beside the errors; return those errors for which there are some."""
        size = self.errors.shape
        self.high = np.ceil(np.log2(np.where(self.own > 0, self.own, 1.0)))
        self.low, self.above, self.below = np.full((3, *size), np.nan)
        found, left = [np.zeros(0, dtype=np.intp)], open_
        for _ in range(_MOST + 1):
            check_time()
            self.below[left] = self.curve(self.high[left])
            found.append(left[self.below[left] <= self.sought[left]])
            left = left[self.below[left] > self.sought[left]]
            self.high[left] += 1
        part = np.concatenate(found)
        left, step = part, 1.0
        while len(left):
            check_time()
            self.low[left] = np.maximum(self.high[left] - step, _LEAST)
            self.above[left] = self.curve(self.low[left])
            left = left[(self.above[left] < self.sought[left]) & (self.low[left] > _LEAST)]
            self.high[left], self.below[left] = self.low[left], self.above[left]
            step *= 2
        part = part[self.above[part] >= self.sought[part]]  # else the error is that of hardly any samples
        left = part
        while len(left := left[self.high[left] - self.low[left] > 1]):
            self._move(left, np.floor(0.5 * (self.low[left] + self.high[left])))
        return part

    def _move(self, part: Indices, middle: Floats) -> Floats:
        """Keep the side of exponents between the ends on which the errors lie; return the curve there."""
        value = self.curve(middle)
        lower = value <= self.sought[part]
        self.high[part], self.below[part] = np.where(lower, [middle, value], [self.high[part], self.below[part]])
        self.low[part], self.above[part] = np.where(lower, [self.low[part], self.above[part]], [middle, value])
        return value

    def _halve(self, part: Indices) -> None:
        """Halve the intervals until the curve is a straight line in the logarithm of the samples."""
        tolerance = self.problem.accuracy / math.log(2)
        while len(part):
            check_time()
            width, drop = self.high[part] - self.low[part], self.above[part] - self.below[part]
            straight = 0.5 * (self.above[part] + self.below[part])
            value = self._move(part, 0.5 * (self.low[part] + self.high[part]))
            with np.errstate(invalid="ignore", divide="ignore"):
                off = np.abs(value - straight) * width / drop  # a line through half as many samples is off by a quarter
            part = part[(off > 4 * tolerance) & (width > tolerance)]

    def _ask_at_own(self, part: Indices) -> None:
        """Take the method's own samples as an end of the interval, where they lie in it and near the answer."""
        own = np.log2(self.own[part])
        with np.errstate(invalid="ignore", divide="ignore"):
            share = (self.above[part] - self.sought[part]) / (self.above[part] - self.below[part])
        place = self.low[part] + share * (self.high[part] - self.low[part])
        near = (self.low[part] < own) & (own < self.high[part]) & (np.abs(place - own) < _NEAR)
        self._move(part[near], own[near])
