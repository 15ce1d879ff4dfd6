"""What a scenario learns from: its target, its noise, and how many samples it sees in
all, family by family.

Samples count once however often they are used. Where a start knows something of the
target, or gradients see the whole population, no number of samples is fair to it, and
the scenario is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.progress import Progress
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Target, as_target
from giantstep.core.maths.solve.roots import NotFiniteError, brent_root
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.own_classes import parent_of
from giantstep.problems.bayes_limit.limit import limit
from giantstep.problems.bayes_limit.scenario import BayesLimit


@dataclass(frozen=True)
class BoundedError:
    """A variable of a family as an error that has a best possible value: scale *
    variable + shift.
    """

    variable: str
    name: str  # "mse" or "error" of `BayesLimit`
    scale: float = 1.0
    shift: float = 0.0
    clean: bool = False  # whether the labels of the test are not flipped

    def to_best(self, values: Any, flip: float) -> Any:
        """Return values of the variable in the units of `BayesLimit`."""
        values = self.scale * values + self.shift
        return values * (1 - 2 * flip) + flip if self.clean else values

    def from_best(self, values: Any, flip: float) -> Any:
        """Return values of `BayesLimit` in the units of the variable."""
        values = (values - flip) / (1 - 2 * flip) if self.clean else values
        return (values - self.shift) / self.scale


@dataclass(frozen=True)
class Teacher:
    """What is learnt, and from how many samples."""

    target: Target
    noise: float
    flip: float
    # samples per dimension of the last fit (of the whole method where it has no steps
    # of its own)
    fit: float
    # fresh samples per dimension of every step before it
    batches: Sequence[float] | Floats
    counted: str  # how the samples were counted, in words
    observables: tuple[BoundedError, ...]  # the errors that can be compared

    @property
    def problem(self) -> BoundProblem:
        """What the best possible error depends on, but for the samples."""
        return BoundProblem(self.target, float(self.noise), float(self.flip))

    def total(self, steps: int | None = None) -> float:
        """Return the samples per dimension seen after some steps (all of them if left
        out).
        """
        return float(self.fit + np.sum(self.batches[:steps]))


def teacher_of(scenario: Scenario) -> Teacher:
    """Return what a scenario learns from; refuse one that has no target or no number of
    samples.
    """
    reader = _READERS.get(scenario.family)
    who = type(scenario).__name__
    if (
        reader is None or parent_of(type(scenario)) is not None
    ):  # a class of a user may learn from anything
        those = f"families that have: {', '.join(_READERS)}"
        raise InputError(f"{who} has no best possible error to compare with; {those}.")
    teacher = reader(scenario)
    if not np.isfinite(teacher.total()):
        then = (
            "the best possible error is then the noise alone; give the batches a finite"
            " `batch_per_dim`"
        )
        raise InputError(f"{who} takes its steps on infinitely many samples: {then}.")
    return teacher


def _bayes(s: Any) -> Teacher:
    words = "the samples of the scenario itself"
    observables = (BoundedError("mse", "mse"), BoundedError("error", "error"))
    return Teacher(s.target, s.noise, s.flip, s.samples_per_dim, (), words, observables)


def _network(s: Any) -> Teacher:
    if s.inputs is not None:
        raise bad_field(
            "inputs",
            s.inputs,
            "left out: the best possible error is known for isotropic inputs",
        )
    for number, step in enumerate(s.steps):
        if step.kind in ("planted", "shifts"):
            raise bad_field(
                f"steps.{number}",
                step,
                "one that is learnt from samples: what is planted knows the target",
            )
        if step.sees_coordinates and s.coordinates != "gaussian":
            allowed = (
                '"gaussian" with this step: the best possible error is known for'
                " directions of a uniform law"
            )
            raise bad_field("coordinates", s.coordinates, allowed)
    batches = [float(getattr(step, "batch_per_dim", 0.0)) for step in s.steps]
    words = "a fresh batch for every step made, and the fit"
    if s.fit_sample == "same":
        batches[-1] = 0.0
        words = "a batch for every step; the fit uses that of the last step again"
    target = s.target
    noise = s.noise
    flip = 0.0
    observable = BoundedError("test_error", "mse")
    if s.has_classes():
        target = as_target("sign(z)")
        noise = 0.0
        flip = s.flip
        observable = BoundedError("test_misclassified", "error", clean=True)
    return Teacher(
        target, noise, flip, s.samples_per_dim, batches, words, (observable,)
    )


def _preset(s: Any) -> Teacher:
    with s.errors_of_preset():
        return _network(s.network())


def _giant_steps(s: Any) -> Teacher:
    if s.batch_exponent != 1:
        raise bad_field(
            "batch_exponent", s.batch_exponent, "1: other batches are not of order d"
        )
    words = "a fresh batch for every step; the best second layer is not counted"
    batches = [s.batch_per_dim] * s.steps
    return Teacher(
        s.target,
        s.noise,
        0.0,
        0.0,
        batches,
        words,
        (BoundedError("test_error", "mse"),),
    )


def _online_sgd(s: Any) -> Teacher:
    if not isinstance(s.initial_overlap, str) or s.initial_overlap not in (
        "random",
        "zero",
    ):
        raise bad_field(
            "initial_overlap",
            s.initial_overlap,
            '"random": a start with an overlap knows the target',
        )
    if s.target_gram != "identity":
        raise bad_field("target_gram", s.target_gram, '"identity"')
    words = "every sample of the single pass"
    batches = np.full(s.steps, s.batch_size / s.dim)
    return Teacher(
        s.target,
        s.noise,
        0.0,
        0.0,
        batches,
        words,
        (BoundedError("mse", "mse", shift=s.noise),),
    )


def _batch_reuse(s: Any) -> Teacher:
    if not isinstance(s.initial_overlap, str) and np.any(np.asarray(s.initial_overlap)):
        raise bad_field(
            "initial_overlap",
            s.initial_overlap,
            '"zero": a start with an overlap knows the target',
        )
    if s.loss != "square":
        raise bad_field(
            "loss", s.loss, '"square", whose population loss is half a square error'
        )
    fresh = s.data == "fresh"
    if fresh:
        words = "fresh samples for every step"
    else:
        words = "the same samples in every step, counted once"
    if fresh:
        fit = 0.0
        batches = np.full(s.steps, s.samples_per_dim)
    else:
        fit = s.samples_per_dim
        batches = np.zeros(0)
    observables = (BoundedError("population_loss", "mse", scale=2.0),)
    return Teacher(s.target, s.noise, 0.0, fit, batches, words, observables)


def _mixture_glm(s: Any) -> Teacher:
    plain = (
        len(s.weights) == 1
        and type(s.covariances).__name__ == "Isotropic"
        and not np.any(np.asarray(s.mean_gram))
    )
    if not plain or s.data is not None:
        raise InputError(
            "MixtureGLM has a best possible error here for one isotropic cluster"
            " without a mean only."
        )
    size = float(np.sqrt(s.teacher_norm * s.covariances.values[0]))
    sign = s.labels == "sign" and s.noise == 0
    text: str | None = "sign(z)"
    if not sign:
        text = getattr(s.label_function, "expression", None)
    if text is None:
        raise bad_field(
            "labels",
            s.labels,
            "a function of the teacher field (sign without noise inside, linear, ...)",
        )
    target = as_target(
        text if sign or size == 1 else re.sub(r"\bz\b", f"({size!r}*z)", text)
    )
    if sign:
        observables = (BoundedError("test_error", "error"),)
    else:
        observables = (BoundedError("test_mse", "mse"),)
    flip = s.flip if sign else 0.0
    return Teacher(
        target,
        s.noise,
        flip,
        s.samples_per_dim,
        (),
        "the samples of the fit",
        observables,
    )


_READERS: Mapping[str, Callable[[Any], Teacher]] = {
    "bayes-limit": _bayes,
    "network": _network,
    "one-step": _preset,
    "few-steps": _preset,
    "giant-steps": _giant_steps,
    "online-sgd": _online_sgd,
    "batch-reuse": _batch_reuse,
    "mixture-glm": _mixture_glm,
}


# -- The best possible error as a curve in samples per dimension, and its inverse ------


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
