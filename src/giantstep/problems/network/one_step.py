"""The preset of one step: a two-layer network after one gradient step, along one
direction of the target.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import BeforeValidator

from giantstep.core.base.display import Readable
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Array, Points
from giantstep.core.maths.gaussian import as_target
from giantstep.core.readout.random_features import active_degrees
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.family import Question
from giantstep.core.scenario.fields import Expression, Number, field
from giantstep.core.scenario.own_classes import refuse_limit
from giantstep.core.scenario.paper_symbols import Paper, notation_of
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.inputs.parts import Inputs, Whitening
from giantstep.problems.network import fields
from giantstep.problems.network.notation import PRESET_PAPERS
from giantstep.problems.network.readouts import Hinge, Logistic, Ridge
from giantstep.problems.network.scenario import (
    LABELS_ELSEWHERE,
    THEORIES,
    Network,
    Preset,
    questions_without,
)
from giantstep.problems.network.steps import (
    GrowingStep,
    MaximalStep,
    NoStep,
    PlantedSpike,
    SmallStep,
)
from giantstep.problems.network.steps.base import GradientStep

AnyStep = Annotated[
    NoStep | PlantedSpike | SmallStep | GrowingStep | MaximalStep,
    pydantic.Field(discriminator="kind"),
]
_READOUTS = {"square": Ridge, "logistic": Logistic, "hinge": Hinge}
_LOSS = (
    "loss of the second layer's fit; log(1 + e^-yf) and max(1 - yf, 0) need the target"
    " sign(z)"
)
_SAME = {
    "readout.kind": "loss",
    "steps": "step",
    "steps.0.precondition": "precondition",
}
_GAINED = {"loss": "square", "precondition": 0.0, "weight_decay": 0.0, "momentum": 0.0}
"""Fields that steps have gained, with the values at which they say nothing: left out of
the content.
"""


def _one_direction(value: Any) -> Any:
    if isinstance(value, str):
        several = re.search(r"\bz[2-9]", value) is not None
    else:
        several = getattr(value, "directions", 1) > 1
    if several:
        raise ValueError("a function of one direction z (FewSteps takes several)")
    return value


class OneStep(Preset):
    """A two-layer network after one gradient step on its first layer, its second layer
    then fitted by ridge regression.

    Data x ~ N(0, I_d), or N(0, Sigma) where `inputs` says so, y = g(<w*, x>) +
    sqrt(noise) N(0, 1). Network f(x) = sum_j a_j sigma(<w_j, x>)/sqrt(p), rows of the
    first layer on the unit sphere, a_j = zeta_j/sqrt(p) at the start. After the step, n
    samples (fresh ones, or those of the step) fit a by minimising sum (y - f)^2 + ridge
    |a|^2. The limit is d -> inf with n/d and p/d fixed. It is a `Network` with one
    step, asked after it.

    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="relu",
    ...     target="tanh(z)",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.01,
    ...     second_layer=gs.Vocabulary([1, -1], [0.9, 0.1]),
    ...     step=gs.PlantedSpike(alignment=0.5),
    ... )
    >>> s.replace(ridge=0.1).ridge
    0.1
    >>> wide = s.replace(
    ...     step=MaximalStep(2.0),
    ...     inputs=gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5]),
    ... )
    >>> gs.predict(wide, precondition=[0, 1]).test_error.values.round(4)
    array([0.1689, 0.0653])
    """

    family: ClassVar[str] = "one-step"
    title: ClassVar[str] = "Two-layer network after one gradient step"
    update_rule: ClassVar[str] = (
        "one step of the network, along one direction\n" + Network.update_rule
    )
    questions: ClassVar[Mapping[str, Question]] = questions_without(
        ("all_data_error", "floor"),
        dims=("time", "direction", "direction_2"),
        what=("shift",),
    )
    theories: ClassVar[Mapping[str, str]] = {
        **{name: text for name, text in THEORIES.items() if name != "published"},
        "isotropic": (
            "the published map of the step onto spiked random features with an"
            " isotropic bulk"
        ),
    }
    papers: ClassVar[tuple[str, ...]] = (*PRESET_PAPERS, "giantstep2026batch")
    paper_symbols: ClassVar[Mapping[str, Paper]] = PRESET_PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(PRESET_PAPERS)
    elsewhere: ClassVar[Mapping[str, str]] = {
        **LABELS_ELSEWHERE,
        "steps": "it takes one step; FewSteps takes several",
        "rate": "the step has it, step=gs.MaximalStep(rate=2.0)",
        "batch_per_dim": (
            "the step has it, step=gs.MaximalStep(rate=2.0, batch_per_dim=4.0)"
        ),
        "loss=cross-entropy": 'that is loss="logistic"',
        "loss=mse": 'that is loss="square"',
    }

    activation: Expression = fields.activation()
    target: Annotated[Expression, BeforeValidator(_one_direction)] = field(
        "g", "target: the label is g(<w*,x>) plus noise", default="tanh(z)"
    )
    noise: Number = fields.noise(only={"loss": ("square",)})
    loss: Literal["square", "logistic", "hinge"] = field("l", _LOSS, default="square")
    flip: Number = fields.flip(only={"loss": ("logistic", "hinge")})
    width_per_dim: Number = fields.width_per_dim()
    samples_per_dim: Number = fields.samples_per_dim()
    ridge: Number = fields.ridge()
    second_layer: fields.SecondLayer = fields.second_layer()
    step: AnyStep = field(
        "step",
        "what happens to the first layer; nothing (random features) if left out",
        default=NoStep(),
    )
    rows: fields.Rows = fields.rows()
    fit_sample: fields.FitSample = fields.fit_sample()
    inputs: Inputs | None = fields.inputs()
    precondition: Whitening = fields.precondition()

    def parts(self, steps: int) -> dict[str, Any]:
        """Return the one step there is; the preconditioners of scenario and step
        multiply.
        """
        step = self.step
        if self.precondition and step.kind == "maximal":  # Sigma^-a Sigma^-b
            step = step.model_copy(
                update={"precondition": self.precondition + step.precondition}
            )
        made = () if step.kind == "none" else (step,)
        readout = _READOUTS[self.loss](self.ridge)
        return {"target": as_target(self.target), "steps": made, "readout": readout}

    def check(self) -> None:
        """Make the network, which checks all there is at its one point."""
        with self.in_own_words():
            self.network()

    def own_name(self, name: str) -> str:
        """Return the field here that means the same as a field of the network."""
        return _SAME.get(name, name.replace("steps.0", "step").removeprefix("readout."))

    def translated(self, points: Points, rows: Array, steps: int) -> dict[str, Array]:
        """Return the points in the fields of the network; the preconditioners of
        scenario and step multiply.
        """
        inside = super().translated(points, rows, steps)
        if "step.precondition" in points:
            inside["steps.0.precondition"] = (
                points["precondition"][rows] + points["step.precondition"][rows]
            )
        return inside

    def step_counts(self, points: Points) -> Array:
        """Return 1, or 0 without a step."""
        return np.full(len(points["ridge"]), int(self.step.kind != "none"))

    def own_settings(self, settings: Mapping[str, Any], steps: int) -> dict[str, Any]:
        """Ask for the time after the step only; "isotropic" is the published map here,
        where it is defined.
        """
        renamed = {
            "isotropic": (
                "published"
                if self.step.kind == "maximal" and self.inputs is None
                else "isotropic"
            )
        }
        theory = settings.get("theory")
        own = {**settings, "theory": renamed.get(str(theory), theory), "floors": False}
        # what a seed means, since each exists
        own["stream"] = "batch" if self.inputs is None else "batch{number}"
        if "time" not in settings:
            return {**own, "first": steps}
        return {**own, "time": np.array([steps])}

    def own_words(self, text: str) -> str:
        """Return what the network says with the loss as it is called here."""
        for loss, readout in _READOUTS.items():
            text = text.replace(f'readout.kind="{readout(1.0).kind}"', f'loss="{loss}"')
        return text.replace("the last step", "the step")

    def limit(self, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
        """Answer as the network does; the published map is called isotropic here."""
        answer = super().limit(points, what, settings)
        if answer.attrs.get("theory") == "published":
            answer.attrs["theory"] = "isotropic"
        return answer

    def prepare(
        self, points: Points, what: str, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Choose what both engines share; the time is no setting here."""
        return {
            n: v
            for n, v in super().prepare(points, what, settings).items()
            if n not in ("floors", "stream")
        }

    def content(self) -> dict[str, Any]:
        """Return the plain content, with the step as it was known before it gained
        fields.
        """
        content = super().content()
        step = {
            name: value
            for name, value in content["step"].items()
            if value != _GAINED.get(name, ...)
        }
        return {**content, "step": step}

    @classmethod
    def example(cls) -> OneStep:
        """Return a small valid scenario."""
        layer = Vocabulary([1, -1], [0.9, 0.1])
        sizes = {"width_per_dim": 1.5, "samples_per_dim": 2.0, "ridge": 0.1}
        return cls(second_layer=layer, step=MaximalStep(rate=2.0), **sizes)

    @classmethod
    def example_for(cls, what: str) -> OneStep:
        """Return a small valid scenario for a question: spikes have one of a small
        step.
        """
        weak = Network.example_for(what)
        alike = {"activation": weak.activation, "step": weak.steps[0]}
        return cls.example().replace(alike if what in ("weights", "spikes") else {})

    @classmethod
    def reference(cls) -> tuple[OneStep, str, float]:
        """Return row R2 of spiked_features section 16: spiked random features, relu and
        tanh.
        """
        spike = PlantedSpike(1.0, alignment=0.5)
        sizes = {"width_per_dim": 1.5, "samples_per_dim": 1.5, "ridge": 0.01}
        return (
            cls(second_layer=Vocabulary([1]), step=spike, **sizes),
            "test_error",
            0.57343370,
        )


# -- Which regime a step of a finite network belongs to, and why -----------------------


HIGHEST_DEGREE = 12
"""Degrees that are looked at: the next one needs an exponent above 6/13, nearly that of
a maximal step.
"""


@dataclass(frozen=True, repr=False)
class Regime(Readable):
    """The regime of a step: its name, the exponent log(eta)/log(n0), the degrees it
    learns, and the reasons.
    """

    name: str
    exponent: float
    degrees: tuple[int, ...]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} (exponent {self.exponent:.3g}): " + " ".join(self.reasons)


def regime(scenario: OneStep | Network, dim: int) -> Regime:
    """Tell which regime the step of a network of dimension `dim` belongs to.

    With eta the step in the normalisation eta_raw = eta sqrt(p), the exponent is
    alpha = log eta/log n0. Degree k of the learnt direction kappa makes a spike of
    strength |c_k| s^k sqrt(p), s = eta c1 |beta|/sqrt(p), against a bulk of order 1: it
    counts from alpha > (k-1)/(2k) on, where c_k is not 0. From alpha = 1/2 on the step
    is maximal.

    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     width_per_dim=2,
    ...     samples_per_dim=4,
    ...     ridge=0.2,
    ...     second_layer="gaussian",
    ...     step=gs.GrowingStep(rate=1.0, exponent=0.3, batch_per_dim=4.0),
    ... )
    >>> print(gs.regime(s, dim=500).name)
    growing step, 2 spikes
    """
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 2:
        raise bad_field("dim", dim, "a whole number at least 2")
    if isinstance(scenario, Network):
        network = scenario
    else:
        network = scenario.network(1)
    if not network.steps:
        return Regime("random features", -math.inf, (), ("There is no step.",))
    step = network.steps[0]
    refuse_limit(scenario)
    if len(network.steps) > 1 or not isinstance(step, GradientStep):
        raise InputError(
            "A regime belongs to one gradient step, but there are several, or what"
            " happens is planted."
        )
    if step.rate == 0:
        return Regime("random features", -math.inf, (), ("The rate is 0.",))
    eta = abs(float(step.size({**network.point(), "dim": np.array([float(dim)])})[0]))
    if math.isfinite(step.batch_per_dim):
        batch = step.batch_per_dim
    else:
        batch = network.samples_per_dim
    samples = max(2, round(batch * dim))
    width = max(1, round(network.width_per_dim * dim))
    exponent = math.log(eta) / math.log(samples)
    reasons = [f"eta = {eta:.4g} = n0^{exponent:.3g} with n0 = {samples}, p = {width}."]
    name, degrees, why = _stairs(network, exponent)
    if abs(network.label.hermite(1)[1]) < 1e-10:
        degrees = ()
        reasons.append(
            "The target has no linear part, so the gradient does not see its direction."
        )
    return Regime(name, exponent, degrees, (*reasons, *why))


def _stairs(
    network: Network, exponent: float
) -> tuple[str, tuple[int, ...], list[str]]:
    present = [
        degree
        for degree in active_degrees(network.activation, HIGHEST_DEGREE)
        if degree
    ]
    if exponent <= 0:
        return (
            "small step",
            (1,),
            ["One spike of finite strength: the fit stays linear in x."],
        )
    if exponent >= 0.5:
        said = (
            "The spike is as large as the initial weights: every degree that the second"
            " layer can tell apart is learnt."
        )
        return "maximal step", tuple(present), [said]
    reached = [k for k in range(1, HIGHEST_DEGREE + 1) if exponent > (k - 1) / (2 * k)]
    degrees = tuple(k for k in reached if k in present)
    why = [
        f"Degrees {', '.join(map(str, degrees))} of the learnt direction have diverging"
        " spikes."
    ]
    silent = [k for k in reached if k not in present]
    if silent:
        why.append(
            f"Degrees {', '.join(map(str, silent))} would, but the activation has none"
            " of them."
        )
    return (
        f"growing step, {len(degrees)} spike{'' if len(degrees) == 1 else 's'}",
        degrees,
        why,
    )
