"""Whether a network learns a target, in how many samples, and why:
`giantstep.learnable`.

The exponents of `giantstep.exponents` are conditions on the target. Here the student
has its say: which Hermite orders its activation sees (c_n != 0), which sign its second
layer gives them, and which transform of the label its algorithm applies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.jsondata import json_number
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.functions import Function, as_function
from giantstep.core.maths.gaussian.hermite import multi_indices, root_factorials
from giantstep.core.maths.gaussian.subspaces import (
    complement,
    direction_text,
    tidy,
    tidy_signs,
)
from giantstep.core.maths.gaussian.target import Target, as_target
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.learnability.exponents import (
    HIGHEST_DEGREE,
    Exponents,
    activation_hermite,
    exponents,
    no_coefficient,
    samples_needed,
    seen_orders,
)
from giantstep.problems.learnability.prepared import (
    HIGHEST,
    PreparedTarget,
    Sampled,
    coefficients,
)
from giantstep.problems.learnability.repetition import (
    Repetition,
    label_rule,
    repetition,
)
from giantstep.problems.learnability.reuse import learned_rounds
from giantstep.problems.learnability.staircase import Stage, Staircase, staircase
from giantstep.problems.learnability.verdict import (
    ROUNDS,
    LearnabilityVerdict,
    LearnedStage,
)

ONE_PASS = ("squared", "correlation")
REPEATED = ("extragradient", "sam", "two-step", "exponential")
_NO_DRIFT = 1e-7
"""Drift, relative to the size of the force, that is rounding."""
ALGORITHMS = (*ONE_PASS, *REPEATED, "giant-steps", *ROUNDS)
_TRIED = 4000
"""Random directions in which a form of order 3 and more is looked at."""
_SMALL = 1e-9
"""Normalised Hermite coefficient that is rounding."""
_USUAL_RATE = 0.01
_USUAL_RATES = {"two-step": 0.05}
"""gamma_0 where it is left out: of any algorithm, and of those that need more."""
_USUAL_INNER_RATE = 0.1
_USUAL_INNER_RATES = {"sam": -0.1}
"""rho_0 where it is left out; sharpness is sought up the gradient."""
WEAK_COSINE = 0.1
"""The cosine whose time is told for a linear start: the time is this over the initial
speed.
"""


def learnable(
    target: str | Callable[[Any], Any] | Target,
    activation: str | Callable[[Any], Any] | Function = "relu",
    algorithm: str = "squared",
    second_layer: Sequence[float] | Vocabulary | None = None,
    *,
    rate: float | None = None,
    inner_rate: float | None = None,
    noise: float = 0.0,
) -> LearnabilityVerdict:
    """Say whether a two-layer network learns a target, in about how many samples, and
    why.

    Parameters
    ----------
    target : an expression in z or z1..zk, or what `giantstep.Target` takes.
    activation : of the student.
    algorithm : ``"squared"`` and ``"correlation"`` (one-pass SGD), ``"extragradient"``,
        ``"sam"``, ``"two-step"``, ``"exponential"`` (a sample used twice, or a
        nonlinear loss), ``"giant-steps"`` (few steps on large fresh batches),
        ``"reused"`` and ``"single-pass"`` (few steps on one batch of order d, kept or
        fresh).
    second_layer : the fixed second layer: a list, a Vocabulary (its values), [1.0] if
        left out ([1, -1] for giant steps).
    rate, inner_rate, noise : gamma_0 and rho_0 (gradient_dynamics section 4.2) and the
        variance of the label noise, for the constants.

    Examples
    --------
    >>> print(learnable("h3(z)", "relu", "squared"))
    squared, relu on h3(z): never, because c_3 = 0 for relu, and no higher order of the target is seen by it
    >>> learnable("h3(z)", "relu", "extragradient").samples
    'd'
    """  # noqa: E501
    if algorithm not in ALGORITHMS:
        raise bad_field("algorithm", algorithm, "one of " + ", ".join(ALGORITHMS))
    case = _Case(
        target=as_target(target),
        activation=as_function(activation),
        algorithm=algorithm,
        second_layer=_read_second_layer(second_layer, algorithm),
    )
    for name, value in (("rate", rate), ("noise", noise)):
        if value is not None:
            _check_number(name, value)
    if algorithm in ROUNDS:
        return _judge_rounds(case)
    if case.activation.jumps:
        raise bad_field(
            "activation",
            case.activation.name,
            "a function without jumps (it needs a derivative)",
        )
    if algorithm == "giant-steps":
        return _judge_giant_steps(case)
    if rate is None:
        rate = _USUAL_RATES.get(algorithm, _USUAL_RATE)
    if algorithm in ONE_PASS:
        return _judge_one_pass(case, rate, noise)
    if inner_rate is None:
        inner_rate = _USUAL_INNER_RATES.get(algorithm, _USUAL_INNER_RATE)
    if algorithm == "sam" and inner_rate > 0:
        raise bad_field("inner_rate", inner_rate, 'below 0 where algorithm="sam"')
    if algorithm == "two-step":
        # its first step is a step like the second
        inner_rate = rate
    return _judge_repeated(case, rate, inner_rate, noise)


def _check_number(name: str, value: Any) -> None:
    """Refuse what is no finite number of at least 0."""
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if not is_number or value < 0:
        raise bad_field(name, value, "a finite number, at least 0")


def _read_second_layer(value: Any, algorithm: str) -> tuple[float, ...]:
    """Return the values of the second layer, those that are usual for the algorithm
    where they are left out.
    """
    if value is None:
        # both signs, or no step could leave a minimum of one sign
        return (1.0, -1.0) if algorithm == "giant-steps" else (1.0,)
    if isinstance(value, Vocabulary):
        return value.values
    # a text is no list of numbers, even where every letter is a digit
    numbers = np.array([]) if isinstance(value, str) else np.asarray(value, dtype=float)
    is_list = numbers.ndim == 1 and len(numbers) > 0
    if not is_list or not np.all(np.isfinite(numbers)) or not np.any(numbers):
        raise bad_field("second_layer", value, "a list of finite numbers, not all zero")
    return tuple(numbers.tolist())


@dataclass(frozen=True)
class _Case:
    """What is judged, and what every judgement needs to know of target and student."""

    target: Target
    activation: Function
    algorithm: str
    second_layer: tuple[float, ...]

    @cached_property
    def view(self) -> PreparedTarget:
        return PreparedTarget.of(self.target)

    @cached_property
    def facts(self) -> Exponents:
        return exponents(self.target, self.activation)

    @cached_property
    def c(self) -> Floats:
        return activation_hermite(self.activation, HIGHEST_DEGREE)

    def drifts(self, inner_rate: float, noise: float) -> list[Repetition]:
        grid = label_rule(self.view.inner)
        return repetition(
            self.view.inner,
            grid,
            self.activation,
            self.second_layer,
            self.algorithm,
            inner_rate,
            noise,
        )

    def verdict(
        self,
        reason: str,
        data: dict[str, Any],
        stages: tuple[LearnedStage, ...] = (),
        learned: bool = False,
        worst: int = 1,
        constant: float | None = None,
        hidden: Floats | None = None,
    ) -> LearnabilityVerdict:
        """Return what is learned in these stages, never if there are none; `worst` is
        the order of the slowest.
        """
        if hidden is None:
            basis = self.view.basis
            known = np.concatenate([basis[:0], *(stage.directions for stage in stages)])
            hidden = complement(tidy(known @ basis.T), len(basis)) @ basis
        return LearnabilityVerdict(
            target=self.target,
            activation=self.activation,
            algorithm=self.algorithm,
            second_layer=self.second_layer,
            learned=learned,
            samples=samples_needed(worst) if stages else "never",
            exponent=float(max(1, worst - 1)) if learned else math.inf,
            constant=constant,
            reason=reason,
            stages=stages,
            hidden=hidden,
            data=data,
        )

    def unseen(self) -> str:
        """Say why the student sees nothing of the target; refuse where no order looked
        at is in the target.
        """
        if not self.facts.leap_stages:
            raise no_coefficient(self.target, self.facts.leap_staircase)
        order = int(self.facts.information)
        if order < len(self.c) and self.c[order] == 0:
            return (
                f"c_{order} = 0 for {self.activation.name}, and no higher order of the"
                " target is seen by it"
            )
        return f"{self.activation.name} and the target have no Hermite order in common"

    def rest(self, stages: Sequence[Stage]) -> str:
        """Say why the student does not see the rest."""
        caveats = self.facts.caveats()
        if caveats:
            return caveats[0]
        count = f"{len(stages)} stage{'s' if len(stages) > 1 else ''}"
        return (
            f"after {count} no Hermite order shared with {self.activation.name} is left"
        )

    def through(self, stage: Stage) -> str:
        """Say which coefficient of the student shows a stage."""
        used = [n for n in stage.degrees if n < len(self.c) and self.c[n] != 0]
        return f"through c_{used[0]}" if used else ""


# -- one pass --------------------------------------------------------------------------


def _judge_one_pass(case: _Case, rate: float, noise: float) -> LearnabilityVerdict:
    """Judge SGD with fresh samples: orders that activation and target share, in the
    order of the leap.
    """
    facts = case.facts
    samples = case.view.samples(repeated=False)
    first, signs_note = _first_stage(case, samples)
    data: dict[str, Any] = {
        "information": json_number(facts.information),
        "leap_stages": facts.leap_stages,
        "c": case.c.tolist(),
        "hermite": facts.hermite.tolist(),
        "rate": rate,
        "inner_rate": 0.0,
    }
    if first is None:
        return case.verdict(signs_note or case.unseen(), data)
    stairs = staircase(*samples, degrees=seen_orders(case.activation), start=[first])
    constant = None
    if first.order <= 2:
        constant, speed, blocked = _constant(case.drifts(0.0, noise), first.order, rate)
        data |= speed
        if blocked:
            return case.verdict(blocked, data)
    reason = _why_first(case, first, signs_note)
    if not stairs.complete:
        reason += "; " + case.rest(stairs.stages)
    stages = _learned(
        case, stairs, samples_needed, lambda number, stage: case.through(stage)
    )
    return case.verdict(
        reason,
        data,
        stages,
        learned=stairs.complete,
        worst=max(stage.order for stage in stages),
        constant=constant,
    )


def _why_first(case: _Case, first: Stage, signs_note: str) -> str:
    """Say why the first stage is the first."""
    leading = first.degrees[0]
    reason = (
        f"c_{leading} C_{leading} of {case.activation.name} and the target is not zero"
        f" at order {leading}, the first both have"
    )
    if first.order <= case.facts.information:
        return reason
    # the target has a lower order, which the student does not follow
    low = int(case.facts.information)
    if case.c[low] == 0:
        return f"{reason} (c_{low} = 0 hides order {low})"
    return f"{reason} ({signs_note})"


def _learned(
    case: _Case,
    stairs: Staircase,
    samples: Callable[[int], str],
    note: Callable[[int, Stage], str],
) -> tuple[LearnedStage, ...]:
    """Return the stages in the variables of the target."""
    return tuple(
        LearnedStage(
            stage.order,
            tidy_signs(stage.directions @ case.view.basis),
            samples(stage.order),
            note(number, stage),
        )
        for number, stage in enumerate(stairs.stages, 1)
    )


def _first_stage(
    case: _Case, samples: tuple[Sampled, Sampled]
) -> tuple[Stage | None, str]:
    """Return the first stage a student of these coefficients and signs takes, or why
    there is none.
    """
    r = case.view.inner.directions
    a = case.second_layer
    note = ""
    seen = seen_orders(case.activation)
    for order in range(1, HIGHEST[r] + 1):
        if order not in seen:
            continue
        only = staircase(*samples, degrees={order}, cap=order)
        if not only.stages or only.stages[0].order != order:
            continue
        stage = only.stages[0]
        # an odd order has both signs by itself, u and -u
        if order % 2 or min(a) < 0 < max(a):
            return stage, note
        tensors = coefficients(samples[0], np.zeros((0, r)), np.eye(r), order, 0)[0]
        sign = math.copysign(1.0, sum(a)) * case.c[order]
        grown = _growing(tensors[0, 0], r, order, sign)
        if len(grown):
            return Stage(order, tidy(grown), stage.degrees, stage.strength), note
        note = (
            f"a c_{order} C_{order} < 0 with a second layer of one sign: overlap zero"
            " is stable, not merely slow"
        )
    return None, note


def _growing(values: Floats, r: int, order: int, sign: float) -> Floats:
    """Directions along which sign * C_k(u, ..., u) is positive: eigenvectors for k = 2,
    else the best u, if any.
    """
    indices = np.array(multi_indices(r, order))
    # from normalised polynomials h_b to the form C_k(u, ..., u)
    factorials = root_factorials(order)[indices].prod(axis=1)
    scale = math.factorial(order) / factorials * values
    if order == 2:
        matrix = np.zeros((r, r))
        # the indices have this order, too
        matrix[np.triu_indices(r)] = scale
        sizes, vectors = np.linalg.eigh(sign * (matrix + matrix.T) / 2)
        return vectors[:, sizes > _SMALL].T
    # forms of higher order have no eigenvectors: directions are tried, the axes first
    u = np.random.default_rng(3).standard_normal((_TRIED, r))
    u = np.concatenate([np.eye(r), u / np.linalg.norm(u, axis=1)[:, None]])
    form = sum(
        value * np.prod(u**index, axis=1) for index, value in zip(indices, scale)
    )
    if float(np.max(sign * form)) <= _SMALL:
        return np.zeros((0, r))
    if r == 1:
        return np.eye(1)
    return u[np.argmax(sign * form)][None, :]


def _constant(
    drifts: Sequence[Repetition], order: int, rate: float
) -> tuple[float | None, dict[str, Any], str]:
    """Return the constant of the first stage, the speeds as data, and a sentence where
    the noise stops the growth.
    """
    if order == 1:
        speed = max(
            rate * abs(neuron.value) * float(np.linalg.norm(neuron.drift))
            for neuron in drifts
        )
        constant = WEAK_COSINE / speed if speed > 0 else None
        return constant, {"speed": speed, "cosine": WEAK_COSINE}, ""
    growth = max(neuron.rate(rate)[0] for neuron in drifts)
    if growth <= 0:
        why = (
            f"small cosines shrink at the rate {growth:.3g} per d samples at gamma_0 ="
            f" {rate:g}: zero is stable"
        )
        return None, {"growth": growth}, why
    # from d^-1/2 to order 1 at this rate: log d/(2 growth)
    return 1 / (2 * growth), {"growth": growth}, ""


# -- repetition ------------------------------------------------------------------------


def _judge_repeated(
    case: _Case, rate: float, inner_rate: float, noise: float
) -> LearnabilityVerdict:
    """Judge algorithms that apply a nonlinear function to the label: the generative
    staircase, as far as this one function sees it.
    """
    facts = case.facts
    drifts = case.drifts(inner_rate, noise)
    drift = np.array([neuron.drift for neuron in drifts])
    data: dict[str, Any] = {
        "generative": json_number(facts.generative),
        "generative_stages": facts.generative_stages,
        "rate": rate,
        "inner_rate": inner_rate,
        "drift": (drift @ case.view.basis).tolist(),
    }
    scale = max(math.sqrt(neuron.second) for neuron in drifts)
    has_drift = float(np.max(np.abs(drift))) > _NO_DRIFT * scale
    order = 1 if has_drift else 2
    if facts.generative > 2 and order == 2:
        why = (
            f"the generative exponent is {facts.generative:g}: no function of the label"
            f" sees less than order 3, it takes {samples_needed(facts.generative)}"
            " samples at best"
        )
        return case.verdict(why, data)
    if facts.generative > 1 and order == 1:
        raise InputError(
            f"The quadrature of the target {case.target.name} is not accurate enough to"
            " tell its exponents."
        )
    constant, speed, blocked = _constant(drifts, order, rate)
    data |= speed
    if blocked:
        return case.verdict(blocked, data)
    stairs = facts.generative_staircase
    if order == 2 and stairs.stages[0].order == 1:
        why = (
            f"the label transform of {case.algorithm} with {case.activation.name} has"
            " no mean along a direction, though others have"
        )
        return case.verdict(why, data)
    # stages of order 3 and more take longer than this answer is about
    stages = tuple(
        LearnedStage(stage.order, stage.directions, samples_needed(stage.order))
        for stage in stairs.stages
        if stage.order <= 2
    )
    complete = stairs.complete and facts.generative_leap <= 2
    if order == 1:
        reason = _why_drift(case.algorithm)
    else:
        reason = (
            f"E[fbar(y) z] = 0 but small cosines grow at the rate {data['growth']:.3g}"
            " per d samples"
        )
    if not complete:
        reason += "; the rest has generative order 3 or more"
    return case.verdict(
        reason,
        data,
        stages,
        learned=complete,
        worst=max(stage.order for stage in stages),
        constant=constant,
    )


def _why_drift(algorithm: str) -> str:
    """Say what makes the label nonlinear."""
    means = "using a sample twice"
    if algorithm == "exponential":
        means = "the exponential loss"
    return (
        f"{means} applies a nonlinear function to the label, and E[fbar(y) z] is not"
        " zero"
    )


# -- giant steps -----------------------------------------------------------------------


def _judge_giant_steps(case: _Case) -> LearnabilityVerdict:
    stairs = staircase(
        *case.view.samples(repeated=False), degrees=seen_orders(case.activation)
    )
    count = len(stairs.stages)
    data: dict[str, Any] = {
        "leap_stages": case.facts.leap_stages,
        "c": case.c.tolist(),
        "steps": count,
    }
    if not count:
        return case.verdict(case.unseen(), data)
    stages = _learned(
        case,
        stairs,
        lambda order: "d" if order == 1 else f"d^{order}",
        lambda number, stage: f"step {number}, {case.through(stage)}",
    )
    worst = max(stage.order for stage in stages)
    if worst == 1:
        reason = (
            f"each of {count} step{'s' if count > 1 else ''} on O(d) samples sees one"
            " more direction linearly"
        )
    else:
        hard = next(stage for stage in stages if stage.order == worst)
        if len(hard.directions) == 1:
            has, it = ("has", "it")
        else:
            has, it = ("have", "them")
        reason = (
            f"{hard.text} {has} leap {worst} and one step needs a batch of order"
            f" d^{worst} to see {it}"
        )
    if not stairs.complete:
        reason += "; " + case.rest(stairs.stages)
    # a batch of d^worst, where one pass takes d^(worst - 1) samples
    order = worst + 1 if worst > 1 else 1
    return case.verdict(reason, data, stages, learned=stairs.complete, worst=order)


# -- a constant number of steps on one batch -------------------------------------------


def _judge_rounds(case: _Case) -> LearnabilityVerdict:
    other = "single-pass" if case.algorithm == "reused" else "reused"
    student = (case.target, case.activation, case.second_layer)
    rounds = learned_rounds(*student, case.algorithm)  # type: ignore[arg-type]
    rival = learned_rounds(*student, other)  # type: ignore[arg-type]
    stages = tuple(
        LearnedStage(1, directions, "d", f"round {number}")
        for number, directions in enumerate(rounds.rounds, 1)
    )
    learned = len(rounds.learned) == case.target.directions
    data = {
        "rounds": list(rounds.dimensions),
        "strengths": [list(stage.strength) for stage in rounds.stages],
        "symmetries": rounds.symmetry.certificate(),
        "allowed": rounds.symmetry.allowed.tolist(),
        other: [new.tolist() for new in rival.rounds],
    }
    rival_learns = ", ".join(map(direction_text, rival.learned)) or "nothing"
    if other == "reused":
        rival_name = "a reused batch"
    else:
        rival_name = "a single pass"
    reason = f"{rounds.reason.rstrip('.')}; {rival_name} learns {rival_learns}"
    return case.verdict(reason, data, stages, learned, hidden=rounds.hidden)
