"""The best possible error as a curve in samples per dimension, and its inverse."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from giantstep.core.base.errors import NotFiniteError
from giantstep.core.base.progress import Progress
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Target
from giantstep.core.maths.solve.roots import brent_root
from giantstep.problems.bayes_limit.limit import limit
from giantstep.problems.bayes_limit.scenario import BayesLimit

NOTHING = 1e-9
"""Samples per dimension that teach nothing."""
BRANCHES = ("bayes", "uninformed")
"""The best possible, and message passing without knowledge."""
_NAMES = ("mse", "error")
_LEAST = -20
"""Binary logarithm of the fewest samples per dimension that are looked for."""
_MOST = 4
"""Doublings of a method's own samples up to which the best one is followed, where
chance put an error below it.
"""
_SLOW = 0.1
"""Seconds for a point of the curve, beyond which it is solved for to 1% rather than to
rounding.
"""
_ROUNDING = 1e-9
"""Relative distance from the error of no samples that only rounding makes."""
_TINY = 1e-14
"""What an error is at least above its smallest value, so that it has a logarithm."""


class BoundProblem(NamedTuple):
    """What is learnt: scenarios that differ in anything else have the same best
    possible error.
    """

    target: Target
    noise: float
    flip: float

    def at(self, samples_per_dim: float) -> BayesLimit:
        """Return the scenario of the best estimator."""
        return BayesLimit(
            **self._asdict(), samples_per_dim=max(samples_per_dim, NOTHING)
        )

    @property
    def seconds(self) -> float:
        """About how long a point of the curve takes."""
        return self.at(1.0).seconds("errors")

    @property
    def accuracy(self) -> float:
        """Relative error up to which samples are solved for."""
        if self.seconds > _SLOW:
            return 1e-2
        return 1e-10


@dataclass
class BoundCurve:
    """The curve of one problem; points that were computed are kept, and counted in a
    bar.
    """

    problem: BoundProblem
    bar: Progress | None = None
    # samples per dimension -> errors (names, branches)
    known: dict[float, Floats] = field(default_factory=dict)

    def error(self, alpha: float, name: str, branch: str = "bayes") -> float:
        """Return the best possible "mse" or "error" at some samples per dimension."""
        alpha = max(alpha, NOTHING)
        if alpha not in self.known:
            self.known[alpha] = self._solved(alpha)
            if self.bar is not None:
                self.bar.advance()
        return float(self.known[alpha][_NAMES.index(name), BRANCHES.index(branch)])

    def _solved(self, alpha: float) -> Floats:
        """Return the errors (names, branches) at some samples per dimension."""
        points = {
            "noise": np.array([self.problem.noise]),
            "flip": np.array([self.problem.flip]),
            "samples_per_dim": np.array([alpha]),
        }
        answer = limit(self.problem.at(alpha), points, "errors", {})
        branches = answer.coords["branch"].tolist()
        places = [branches.index(branch) for branch in BRANCHES]
        return np.stack([answer.values[name][0, places] for name in _NAMES])

    def needed(self, name: str, branch: str, error: float, own: float) -> float:
        """Return the samples per dimension at which the best one has an error: 0 if
        none, NaN above 16 times `own`.
        """
        start = self.error(0.0, name, branch)
        if error >= start - _ROUNDING * abs(start):
            return 0.0
        if not (math.isfinite(error) and own > 0):
            return math.nan
        # of all samples: the noise of the labels, or their flips
        least = self.problem.noise if name == "mse" else self.problem.flip
        log_error = math.log(max(error - least, _TINY))

        def excess(x: float) -> float:
            # log(error - its smallest value) is nearly a straight line over log samples
            best = self.error(2.0**x, name, branch)
            return math.log(max(best - least, _TINY)) - log_error

        # powers of two, which all methods share
        first = math.ceil(math.log2(own))
        high = first
        while excess(high) > 0:
            high += 1
            if high > first + _MOST:
                return math.nan
        low = high - 1
        while excess(low) < 0:
            low -= 1
            if low < _LEAST:
                # the error is that of hardly any samples
                return math.nan
        accuracy = self.problem.accuracy / math.log(2)
        try:
            return float(2.0 ** brent_root(excess, low, high, xtol=accuracy))
        except NotFiniteError:
            # no best possible error was found there
            return math.nan

    def steepness(self, name: str, branch: str, samples: float) -> float:
        """Return |d log samples/d error| of the curve."""
        if not samples > 0:
            return 0.0 * samples
        # ten times what the solution is accurate to, so that differences are not noise
        step = max(1e-3, 10 * self.problem.accuracy)
        below = self.error(samples * math.exp(-step), name, branch)
        above = self.error(samples * math.exp(step), name, branch)
        if above == below:
            return math.inf
        return 2 * step / abs(above - below)
