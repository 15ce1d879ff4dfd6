"""The best possible error as a curve in samples per dimension, and its inverse."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from giantstep.core.base.progress import Progress
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Target
from giantstep.core.maths.solve.roots import NotFiniteError, brent_root
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
        return 1e-2 if self.seconds > _SLOW else 1e-10


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
            values = {
                "noise": self.problem.noise,
                "flip": self.problem.flip,
                "samples_per_dim": alpha,
            }
            points = {field: np.array([value]) for field, value in values.items()}
            answer = limit(self.problem.at(alpha), points, "errors", {})
            places = [
                answer.coords["branch"].tolist().index(branch) for branch in BRANCHES
            ]
            self.known[alpha] = np.stack([answer.values[n][0, places] for n in _NAMES])
            if self.bar is not None:
                self.bar.advance()
        return float(self.known[alpha][_NAMES.index(name), BRANCHES.index(branch)])

    def needed(self, name: str, branch: str, error: float, own: float) -> float:
        """Return the samples per dimension at which the best one has an error: 0 if
        none, NaN above 16 times `own`.
        """
        start = self.error(0.0, name, branch)
        if error >= start - _ROUNDING * abs(start):
            return 0.0
        if not (math.isfinite(error) and own > 0):
            return math.nan

        least = self.problem.noise if name == "mse" else self.problem.flip

        def excess(
            x: float,
            # of log(error - its smallest value), nearly a straight line over log
            # samples
        ) -> float:
            best = self.error(2.0**x, name, branch)
            return math.log(max(best - least, _TINY)) - math.log(
                max(error - least, _TINY)
            )

        high = x = math.ceil(math.log2(own))  # powers of two, which all methods share
        while excess(high) > 0:
            high += 1
            if high > x + _MOST:
                return math.nan
        low = high - 1
        while excess(low) < 0:
            low -= 1
            if low < _LEAST:
                return math.nan  # the error is that of hardly any samples
        try:
            return float(
                2.0
                ** brent_root(
                    excess, low, high, xtol=self.problem.accuracy / math.log(2)
                )
            )
        except NotFiniteError:  # no best possible error was found there
            return math.nan

    def steepness(self, name: str, branch: str, samples: float) -> float:
        """Return |d log samples/d error| of the curve."""
        if not samples > 0:
            return 0.0 * samples
        step = max(1e-3, 10 * self.problem.accuracy)
        below, above = (
            self.error(samples * math.exp(x), name, branch) for x in (-step, step)
        )
        return 2 * step / abs(above - below) if above != below else math.inf
