"""The preset of one step: a two-layer network after one gradient step, along one
direction of the target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from giantstep.core.base.types import Array, Points
from giantstep.core.maths.gaussian import as_target
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.family import Question
from giantstep.core.scenario.fields import Expression, Number, field
from giantstep.core.scenario.paper_symbols import Paper, notation_of
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.inputs.parts import Inputs, Whitening
from giantstep.problems.network import fields
from giantstep.problems.network.notation import PRESET_PAPERS
from giantstep.problems.network.preset import Preset, questions_without
from giantstep.problems.network.readouts import Hinge, Logistic, Ridge
from giantstep.problems.network.scenario import LABELS_ELSEWHERE, THEORIES, Network
from giantstep.problems.network.steps import (
    MaximalStep,
    NoStep,
    PlantedSpike,
)
from giantstep.problems.network.steps.registry import any_of

if TYPE_CHECKING:
    AnyStep = Any
else:
    AnyStep = any_of("none", "planted", "small", "growing", "maximal")
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
    """Refuse a target of several directions before its text is read."""
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
    # the time is that after the step, the direction the only one
    questions: ClassVar[Mapping[str, Question]] = questions_without(
        ("all_data_error", "floor"),
        dims=("time", "direction", "direction_2"),
        what=("shift",),
    )
    theories: ClassVar[Mapping[str, str]] = {
        **{name: text for name, text in THEORIES.items() if name != "published"},
        # two maps of one step: in the preset the published one has this name
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
        # no other step has a preconditioner of its own
        if self.precondition and step.kind == "maximal":
            # Sigma^-a Sigma^-b: powers add up
            power = self.precondition + step.precondition
            step = step.model_copy(update={"precondition": power})
        return {
            "target": as_target(self.target),
            # no step is no step: random features, at time 0
            "steps": () if step.kind == "none" else (step,),
            "readout": _READOUTS[self.loss](self.ridge),
        }

    def check(self) -> None:
        """Make the network, which checks all there is at its one point."""
        with self.errors_of_preset():
            # a network checks itself when it is made
            self.network()

    def preset_field(self, name: str) -> str:
        """Return the field here that means the same as a field of the network."""
        return _SAME.get(name, name.replace("steps.0", "step").removeprefix("readout."))

    def network_points(
        self, points: Points, rows: Array, steps: int
    ) -> dict[str, Array]:
        """Return the points in the fields of the network; the preconditioners of
        scenario and step multiply.
        """
        inside = super().network_points(points, rows, steps)
        if "step.precondition" in points:
            # on a grid the powers add up point by point
            inside["steps.0.precondition"] = (
                points["precondition"][rows] + points["step.precondition"][rows]
            )
        return inside

    def step_counts(self, points: Points) -> Array:
        """Return 1, or 0 without a step."""
        # the kind of a step is no number: all points have the same
        return np.full(len(points["ridge"]), int(self.step.kind != "none"))

    def network_settings(
        self, settings: Mapping[str, Any], steps: int
    ) -> dict[str, Any]:
        """Ask for the time after the step only; "isotropic" is the published map here,
        where it is defined.
        """
        # the preset has no variable for a floor
        renamed = {**settings, "floors": False}
        theory = settings.get("theory")
        has_published_map = self.step.kind == "maximal" and self.inputs is None
        if theory == "isotropic" and has_published_map:
            theory = "published"
        renamed["theory"] = theory
        # the name of a stream fixes what a seed draws: both names stay, so that numbers
        # that were printed come again
        renamed["stream"] = "batch" if self.inputs is None else "batch{number}"
        if "time" in settings:
            renamed["time"] = np.array([steps])
        else:
            renamed["first"] = steps
        return renamed

    def preset_words(self, text: str) -> str:
        """Return what the network says with the loss as it is called here."""
        for loss, readout in _READOUTS.items():
            # a field of the preset has the name of the read-out's kind
            text = text.replace(f'readout.kind="{readout(1.0).kind}"', f'loss="{loss}"')
        return text.replace("the last step", "the step")

    def limit(self, points: Points, what: str, settings: Mapping[str, Any]) -> Answer:
        """Answer as the network does; the published map is called isotropic here."""
        answer = super().limit(points, what, settings)
        if answer.attrs.get("theory") == "published":
            # the way back of `network_settings`
            answer.attrs["theory"] = "isotropic"
        return answer

    def prepare(
        self, points: Points, what: str, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Choose what both engines share; the time is no setting here."""
        prepared = super().prepare(points, what, settings)
        # added by `network_settings`, which adds them again when an engine is asked
        for name in ("floors", "stream"):
            prepared.pop(name, None)
        return prepared

    def content(self) -> dict[str, Any]:
        """Return the plain content, with the step as it was known before it gained
        fields.
        """
        content = super().content()
        step = dict(content["step"])
        for name, silent in _GAINED.items():
            if name in step and step[name] == silent:
                del step[name]
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
        if what not in ("weights", "spikes"):
            return cls.example()
        weak = Network.example_for(what)
        return cls.example().replace(activation=weak.activation, step=weak.steps[0])

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
