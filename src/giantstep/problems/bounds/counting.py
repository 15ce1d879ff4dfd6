"""What a scenario learns from: its target, its noise, and how many samples it sees in
all, family by family.

Samples count once however often they are used. Where a start knows something of the
target, or gradients see the whole population, no number of samples is fair to it, and
the scenario is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Target, as_target
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.own_classes import parent_of
from giantstep.problems.bounds.curve import BoundProblem


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
        if self.clean:
            # a flip turns a right answer into a wrong one, and a wrong one into a right
            return values * (1 - 2 * flip) + flip
        return values

    def from_best(self, values: Any, flip: float) -> Any:
        """Return values of `BayesLimit` in the units of the variable."""
        if self.clean:
            values = (values - flip) / (1 - 2 * flip)
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
    # a class of a user may learn from anything
    is_of_user = parent_of(type(scenario)) is not None
    if reader is None or is_of_user:
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
    return Teacher(
        target=s.target,
        noise=s.noise,
        flip=s.flip,
        fit=s.samples_per_dim,
        batches=(),
        counted="the samples of the scenario itself",
        observables=(BoundedError("mse", "mse"), BoundedError("error", "error")),
    )


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
        # counted with the fit
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
        target=target,
        noise=noise,
        flip=flip,
        fit=s.samples_per_dim,
        batches=batches,
        counted=words,
        observables=(observable,),
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
        target=s.target,
        noise=s.noise,
        flip=0.0,
        fit=0.0,
        batches=batches,
        counted=words,
        observables=(BoundedError("test_error", "mse"),),
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
        target=s.target,
        noise=s.noise,
        flip=0.0,
        fit=0.0,
        batches=batches,
        counted=words,
        # its error is without the noise of the labels
        observables=(BoundedError("mse", "mse", shift=s.noise),),
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
    if s.data == "fresh":
        words = "fresh samples for every step"
        fit = 0.0
        batches = np.full(s.steps, s.samples_per_dim)
    else:
        words = "the same samples in every step, counted once"
        fit = s.samples_per_dim
        batches = np.zeros(0)
    # a loss is half a square error
    observable = BoundedError("population_loss", "mse", scale=2.0)
    return Teacher(
        target=s.target,
        noise=s.noise,
        flip=0.0,
        fit=fit,
        batches=batches,
        counted=words,
        observables=(observable,),
    )


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
    words = "the samples of the fit"
    # the teacher field is size z, z of variance 1
    size = float(np.sqrt(s.teacher_norm * s.covariances.values[0]))
    if s.labels == "sign" and s.noise == 0:
        return Teacher(
            target=as_target("sign(z)"),
            noise=s.noise,
            flip=s.flip,
            fit=s.samples_per_dim,
            batches=(),
            counted=words,
            observables=(BoundedError("test_error", "error"),),
        )
    text = getattr(s.label_function, "expression", None)
    if text is None:
        raise bad_field(
            "labels",
            s.labels,
            "a function of the teacher field (sign without noise inside, linear, ...)",
        )
    if size != 1:
        text = re.sub(r"\bz\b", f"({size!r}*z)", text)
    return Teacher(
        target=as_target(text),
        noise=s.noise,
        flip=0.0,
        fit=s.samples_per_dim,
        batches=(),
        counted=words,
        observables=(BoundedError("test_mse", "mse"),),
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
