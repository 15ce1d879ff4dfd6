"""The preset of one step: a two-layer network after one gradient step, along one direction of the target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import BeforeValidator

from giantstep.families.network.notation import PAPERS
from giantstep.families.network.preset import Preset, content_of_step
from giantstep.families.network.questions import questions_without
from giantstep.families.network.readouts import Hinge, Logistic, Ridge
from giantstep.families.network.scenario import THEORIES, Network, SecondLayer
from giantstep.families.network.steps import GrowingStep as GrowingStep
from giantstep.families.network.steps import MaximalStep as MaximalStep
from giantstep.families.network.steps import NoStep as NoStep
from giantstep.families.network.steps import PlantedSpike as PlantedSpike
from giantstep.families.network.steps import SmallStep as SmallStep
from giantstep.family import Answer, Question
from giantstep.gaussian import as_target
from giantstep.inputs.parts import Inputs, Whitening, content_of_inputs
from giantstep.paper_symbols import Paper, notation_of
from giantstep.scenario import Expression, Number, Scenario, field
from giantstep.types import Array, Points
from giantstep.vocabulary import Vocabulary

AnyStep = Annotated[NoStep | PlantedSpike | SmallStep | GrowingStep | MaximalStep, pydantic.Field(discriminator="kind")]
_READOUTS = {"square": Ridge, "logistic": Logistic, "hinge": Hinge}


def _one_direction(value: Any) -> Any:
    several = re.search(r"\bz[2-9]", value) if isinstance(value, str) else getattr(value, "directions", 1) > 1
    if several:
        raise ValueError("a function of one direction z (FewSteps takes several)")
    return value


_SAME = {"readout.ridge": "ridge", "readout.kind": "loss", "steps.0": "step", "steps": "step"}


class OneStep(Preset):
    """A two-layer network after one gradient step on its first layer, its second layer then fitted by ridge regression.

    Data x ~ N(0, I_d), or N(0, Sigma) where `inputs` says so, y = g(<w*, x>) + sqrt(noise) N(0, 1). Network f(x) =
    sum_j a_j sigma(<w_j, x>)/sqrt(p), rows of the first layer on the unit sphere, a_j = zeta_j/sqrt(p) at the start.
    After the step, n samples (fresh ones, or those of the step) fit a by minimising sum (y - f)^2 + ridge |a|^2. The
    limit is d -> inf with n/d and p/d fixed. It is a `Network` with one step, asked after it.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="relu", target="tanh(z)", width_per_dim=1.5, samples_per_dim=2.0, ridge=0.01,
    ...                second_layer=gs.Vocabulary([1, -1], [0.9, 0.1]), step=gs.PlantedSpike(alignment=0.5))
    >>> s.replace(ridge=0.1).ridge
    0.1
    >>> wide = s.replace(step=MaximalStep(2.0), inputs=gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5]))
    >>> gs.predict(wide, precondition=[0, 1]).test_error.values.round(4)
    array([0.1689, 0.0653])
    """

    family: ClassVar[str] = "one-step"
    title: ClassVar[str] = "Two-layer network after one gradient step"
    update_rule: ClassVar[str] = (
        "data      x ~ N(0, I_d),  y = g(<w*,x>) + sqrt(noise) N(0,1),  |w*| = 1\n"
        "          (inputs: x ~ N(0, Sigma), tr Sigma = d, <w*, Sigma w*> = 1)\n"
        "network   f(x) = sum_j a_j sigma(<w_j,x>)/sqrt(p),  |w_j| = 1 and a_j = zeta_j/sqrt(p) at the start\n"
        "step      w_j <- w_j - eta_raw grad_{w_j} sum_mu (y_mu - f(x_mu))^2/(2 n0),  eta_raw = rate * p (maximal)\n"
        "          eta_raw = rate * sqrt(p) (small), rate * n0^exponent * sqrt(p) (growing)\n"
        "          (precondition = c: Sigma^-c grad in place of grad)\n"
        "planted   w_j <- s_q w_j + u_q v,  |v| = 1,  <v,w*> = alignment\n"
        "fit       a = argmin sum_mu (y_mu - f(x_mu))^2 + ridge |a|^2  on n samples, fresh or the step's own\n"
        "classes   a = argmin sum_mu l(y_mu f(x_mu)) + ridge |a|^2/2  with y = g, flipped with probability flip\n"
        "limit     d -> inf with n/d = samples_per_dim, p/d = width_per_dim, n0/d = batch_per_dim fixed"
    )
    questions: ClassVar[Mapping[str, Question]] = questions_without(
        ("learned", "all_data_error", "floor"), dims=("time", "direction", "direction_2")
    )
    theories: ClassVar[Mapping[str, str]] = {
        **{name: text for name, text in THEORIES.items() if name != "published"},
        "isotropic": "the published map of the step onto spiked random features with an isotropic bulk",
    }
    papers: ClassVar[tuple[str, ...]] = (
        "dandi2025random",
        "cui2024asymptotics",
        "moniri2024theory",
        "ba2022high",
        "mei2022generalization",
        "giantstep2026batch",
    )
    paper_symbols: ClassVar[Mapping[str, Paper]] = PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(PAPERS)
    formula_version: ClassVar[int] = 2
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim", "ridge")
    elsewhere: ClassVar[Mapping[str, str]] = {
        "steps": "it takes one step; FewSteps takes several",
        "rate": "the step has it, step=gs.MaximalStep(rate=2.0)",
        "batch_per_dim": "the step has it, step=gs.MaximalStep(rate=2.0, batch_per_dim=4.0)",
        "loss=cross-entropy": 'that is loss="logistic"',
        "loss=mse": 'that is loss="square"',
    }

    activation: Expression = field("sigma", "activation of the hidden layer", default="relu")
    target: Annotated[Expression, BeforeValidator(_one_direction)] = field(
        "g", "target: the label is g(<w*,x>) plus noise", default="tanh(z)"
    )
    noise: Number = field("delta", "variance of the label noise", default=0.0, ge=0, only={"loss": ("square",)})
    loss: Literal["square", "logistic", "hinge"] = field(
        "l",
        "loss of the second layer's fit; log(1 + e^-yf) and max(1 - yf, 0) need the target sign(z)",
        default="square",
    )
    flip: Number = field(
        "eps",
        "probability that a class is flipped (logistic and hinge)",
        default=0.0,
        ge=0,
        lt=0.5,
        only={"loss": ("logistic", "hinge")},
    )
    width_per_dim: Number = field("beta = p/d", "hidden neurons per dimension", gt=0)
    samples_per_dim: Number = field("alpha = n/d", "samples of the ridge fit per dimension", gt=0)
    ridge: Number = field("lambda", "penalty in sum (y - f)^2 + lambda |a|^2; 0 is the ridgeless limit", ge=0)
    second_layer: SecondLayer = field(
        "zeta, pi", "law of the second layer at the start, times sqrt(p)", default=Vocabulary([1.0, -1.0])
    )
    step: AnyStep = field(
        "step", "what happens to the first layer; nothing (random features) if left out", default=NoStep()
    )
    rows: Literal["sphere", "gaussian"] = field(
        "w0", "first layer at the start: |w_j| = 1, or w_j ~ N(0, I/d)", default="sphere"
    )
    fit_sample: Literal["fresh", "same"] = field(
        "(X, y)", "samples of the ridge fit: fresh ones, or the same as the gradient's (n0 = n)", default="fresh"
    )
    inputs: Inputs | None = field(
        "Sigma, w*",
        "covariance of the inputs and the target's place in it, or rows of a table (isotropic if left out)",
        default=None,
    )
    precondition: Whitening = field(
        "c", 'the step is multiplied by Sigma^-c: a number, "none" (0) or "whitened" (1)', default=0.0
    )

    def network(self, steps: int) -> Network:
        """Return the network that is meant."""
        return _network_of(self)

    def own_names(self, steps: int) -> Mapping[str, str]:
        """Return fields of the network -> fields here."""
        own = {f"steps.0.{name}": f"step.{name}" for name in type(self.step).model_fields}
        return {**_SAME, **own, "steps.0.precondition": "precondition"}

    def translated(self, points: Points, rows: Array, steps: int) -> dict[str, Array]:
        """Return the points in the fields of the network; the preconditioners of scenario and step multiply."""
        inside = super().translated(points, rows, steps)
        if "step.precondition" in points:
            inside["steps.0.precondition"] = points["precondition"][rows] + points["step.precondition"][rows]
        return inside

    def step_counts(self, points: Points) -> Array:
        """Return 1, or 0 without a step."""
        return np.full(len(points["ridge"]), int(self.step.kind != "none"))

    def own_settings(self, settings: Mapping[str, Any], steps: int) -> dict[str, Any]:
        """Ask for the time after the step only; "isotropic" is the published map here, where it is defined."""
        renamed = {"isotropic": "published" if self.step.kind == "maximal" and self.inputs is None else "isotropic"}
        theory = settings.get("theory")
        own = {**settings, "theory": renamed.get(str(theory), theory), "floors": False}
        own["stream"] = "batch" if self.inputs is None else "batch{number}"  # what a seed means, since each exists
        return {**own, "first": steps} if "time" not in settings else own

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

    def shown(self, what: str, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the variables that are declared here, after the step and for the one direction there is."""
        dims = {variable.name: variable.dims for variable in Network.questions[what].variables}
        chosen = {"time": -1, "direction": 0, "direction_2": 0}
        return {
            name: array[(slice(None), *(chosen.get(dim, slice(None)) for dim in dims[name]))]
            for name, array in super().shown(what, values).items()
        }

    def prepare(self, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Choose what both engines share; the time is no setting here."""
        prepared = super().prepare(points, what, settings)
        return {name: value for name, value in prepared.items() if name not in ("floors", "stream")}

    def with_inputs(self, inputs: Any, precondition: float | str = 0.0) -> Scenario:
        """Return this network on inputs with a covariance, as a `Network` whose answers have a `time`.

        Parameters
        ----------
        inputs : `InputBlocks`, `PowerLaw`, `InputCovariance`, `InputRows` or None.
        precondition : the step is multiplied by Sigma^-c: c, "none" (0) or "whitened" (1).

        >>> import giantstep as gs
        >>> s = gs.OneStep(activation="tanh", target="sin(z)", noise=0.02, width_per_dim=1.0, samples_per_dim=1.5,
        ...                ridge=0.1, second_layer=gs.Vocabulary([1]), step=MaximalStep(3.0))
        >>> mixed = gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])
        >>> gs.predict(s.with_inputs(mixed, "whitened")).test_error.values.round(4)
        array([0.2681, 0.0473])
        """
        own = self.replace(inputs=inputs, precondition=precondition).network(1)
        return Network(**{name: getattr(own, name) for name in Network.model_fields})

    def content(self) -> dict[str, Any]:
        """Return the plain content; what is as it was before a field existed is left out."""
        content = content_of_inputs(super().content())
        return {**content, "step": content_of_step(content["step"])}

    def has_classes(self) -> bool:
        """Tell whether a logistic or hinge fit takes the labels as classes."""
        return self.loss != "square"

    @classmethod
    def example(cls) -> OneStep:
        """Return a small valid scenario."""
        return cls(
            width_per_dim=1.5,
            samples_per_dim=2.0,
            ridge=0.1,
            second_layer=Vocabulary([1, -1], [0.9, 0.1]),
            step=MaximalStep(rate=2.0),
        )

    @classmethod
    def example_for(cls, what: str) -> OneStep:
        """Return a small valid scenario for a question: spikes have one of a small step."""
        if what not in ("weights", "spikes"):
            return cls.example()
        step = SmallStep(4, batch_per_dim=4, update="rank-one")
        return cls.example().replace(activation="relu(z) - 1/sqrt(2*pi)", step=step)

    @classmethod
    def reference(cls) -> tuple[OneStep, str, float]:
        """Return row R2 of spiked_features section 16: spiked random features, relu and tanh."""
        scenario = cls(
            activation="relu",
            target="tanh(z)",
            width_per_dim=1.5,
            samples_per_dim=1.5,
            ridge=0.01,
            second_layer=Vocabulary([1]),
            step=PlantedSpike(strength=1.0, alignment=0.5),
        )
        return scenario, "test_error", 0.57343370

    @property
    def blocks(self) -> int:
        """Number of values in the vocabulary (1 for a Gaussian second layer, whose blocks are nodes, not classes)."""
        return len(self.second_layer.values) if isinstance(self.second_layer, Vocabulary) else 1

    def block_count(self) -> Mapping[str, int]:
        """Return the length of the ``block`` dims."""
        return {"block": self.blocks, "block_2": self.blocks}


@lru_cache(maxsize=32)  # small objects; an experiment asks for the network of one scenario at every trial
def _network_of(scenario: OneStep) -> Network:
    step = scenario.step
    if scenario.precondition and step.kind == "maximal":  # Sigma^-a Sigma^-b
        step = step.model_copy(update={"precondition": scenario.precondition + step.precondition})
    return Network(
        target=as_target(scenario.target),
        noise=scenario.noise,
        flip=scenario.flip,
        inputs=scenario.inputs,
        activation=scenario.activation,
        width_per_dim=scenario.width_per_dim,
        second_layer=scenario.second_layer,
        rows=scenario.rows,
        steps=() if step.kind == "none" else (step,),
        readout=_READOUTS[scenario.loss](scenario.ridge),
        samples_per_dim=scenario.samples_per_dim,
        fit_sample=scenario.fit_sample,
    )
