"""The preset of several equal steps: a wide network, giant steps on several directions,
a ridge fit after each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, Points
from giantstep.core.scenario.family import Question
from giantstep.core.scenario.fields import (
    Expression,
    Integer,
    MultiIndex,
    Number,
    Numbers,
    field,
)
from giantstep.problems.inputs.parts import Inputs, Whitening
from giantstep.problems.network import fields
from giantstep.problems.network.preset import Preset, questions_without
from giantstep.problems.network.readouts import Ridge
from giantstep.problems.network.scenario import (
    LABELS_ELSEWHERE,
    OWN_PAPERS,
    THEORIES,
    Network,
)
from giantstep.problems.network.steps import MaximalStep, PlantedShifts


class FewSteps(Preset):
    """A wide two-layer network takes T giant steps on large fresh batches; then its
    second layer is fitted by ridge.

    Data x ~ N(0, I_d), or N(0, Sigma) where `inputs` says so, y = g(z1..zr) +
    sqrt(noise) N(0, 1) with z_j = <w*_j, x>. Network f = sum_i a_i sigma(<w_i,
    x>)/sqrt(p), rows on the unit sphere, a_i = zeta_q/sqrt(p) during the steps,
    block q. Step t: all rows move by rate_t zeta_q E[(y - f) sigma'(<w_i, x>) x]. The
    limit is d -> inf with p/d and n/d fixed; `time` counts the steps made. It is a
    `Network` whose steps are alike.

    >>> import giantstep as gs
    >>> s = gs.FewSteps(
    ...     target="z1 + z1*z2",
    ...     noise=0.1,
    ...     rate=2.0,
    ...     steps=3,
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ... )
    >>> gs.predict(s).test_error.values.round(4)
    array([2.0907, 1.0191, 0.6908, 0.6229])
    """

    family: ClassVar[str] = "few-steps"
    title: ClassVar[str] = "Several giant steps on several directions, then a read-out"
    update_rule: ClassVar[str] = (
        "`steps` maximal steps of the network that are alike, of size `rate` (or one"
        " each), or planted shifts\n" + Network.update_rule
    )
    # what needs one direction, classes, or a step at a finite dimension is left out
    questions: ClassVar[Mapping[str, Question]] = questions_without(
        (
            "test_misclassified",
            "t",
            "psi",
            "Q1",
            "V1",
            "affine_error",
            "mean_eigenvalue",
            "V1_real",
            "V1_imag",
            "V2_real",
            "V2_imag",
        ),
        settings=("normalisation", "stretch"),
        what=("weights", "spikes", "shift"),
    )
    # the published map has one step
    theories: ClassVar[Mapping[str, str]] = {
        name: text for name, text in THEORIES.items() if name != "published"
    }
    papers: ClassVar[tuple[str, ...]] = (
        *OWN_PAPERS,
        "dandi2025random",
        "cui2024asymptotics",
    )
    elsewhere: ClassVar[Mapping[str, str]] = {
        **LABELS_ELSEWHERE,
        "loss": (
            "its second layer is fitted by ridge regression only; a logistic or hinge"
            " fit is Network(readout=gs.Logistic(0.1))"
        ),
        "flip": "its labels are not classes; Network has them",
        "step": (
            "it takes `steps` maximal steps of size `rate`, on batches of"
            " `batch_per_dim`"
        ),
    }

    target: MultiIndex = fields.target()
    activation: Expression = fields.activation()
    noise: Number = fields.noise()
    second_layer: fields.SecondLayer = fields.second_layer()
    rate: Number | Numbers = field(
        "eta_t",
        "step size divided by the width: a number, or one for each step",
        default=1.0,
    )
    steps: Integer = field("T", "number of steps", default=2, ge=0, le=20)
    loss_of_steps: fields.StepLoss = fields.step_loss()
    batch_per_dim: Number = fields.batch_per_dim()
    planted: PlantedShifts = field(
        "U, s", "shifts planted by hand instead of the steps", default=PlantedShifts()
    )
    rows: fields.Rows = fields.rows()
    inputs: Inputs | None = fields.inputs()
    precondition: Whitening = fields.precondition()
    width_per_dim: Number = fields.width_per_dim()
    samples_per_dim: Number = fields.samples_per_dim()
    ridge: Number = fields.ridge()

    def check_points(self, points: Points) -> None:
        """Check a whole grid."""
        for steps in points["steps"].astype(int).tolist():
            # `steps` may vary along a grid, a list of rates has one length
            if not isinstance(self.rate, float) and len(self.rate) != steps:
                raise bad_field(
                    "rate",
                    list(self.rate),
                    f"a number or a list of {steps}, one for each step",
                )
            if self.has_shifts and steps != 0:
                raise bad_field("steps", steps, "0 where shifts are planted")
        super().check_points(points)

    def parts(self, steps: int) -> dict[str, Any]:
        """Return the planted shifts, or steps that are alike."""
        readout = Ridge(self.ridge)
        if self.has_shifts:
            # shifts are planted once, in the place of all steps
            return {"steps": (self.planted,), "readout": readout}
        made = [
            MaximalStep(
                rate,
                batch_per_dim=self.batch_per_dim,
                loss=self.loss_of_steps,
                precondition=self.precondition,
            )
            # one rate stands for all steps
            for rate in np.broadcast_to(self.rate, steps).tolist()
        ]
        return {"steps": tuple(made), "readout": readout}

    def preset_field(self, name: str) -> str:
        """Return the field here that means the same as a field of the network; steps
        have no places of their own.
        """
        if self.has_shifts:
            # the only step
            name = name.replace("steps.0", "planted")
        if re.fullmatch(r"readout\.\w+", name):
            return "ridge"
        # what is wrong with a whole step is its batch here: nothing else has a choice
        return re.sub(r"steps\.\d+\.?", "", name) or "batch_per_dim"

    def step_counts(self, points: Points) -> Array:
        """Return the number of steps; planted shifts are one, shown as time 0."""
        return np.where(self.has_shifts, 1, points["steps"]).astype(np.int64)

    def network_settings(
        self, settings: Mapping[str, Any], steps: int
    ) -> dict[str, Any]:
        """Ask for the times of so many steps; planted shifts stand in the place of
        time 0.
        """
        renamed = dict(settings)
        if "time" not in settings:
            if self.has_shifts:
                renamed["first"] = steps
        elif self.has_shifts:
            # time 1 of the network is time 0 here
            renamed["time"] = np.array([1])
        else:
            # later times of this point are NaN in the joined answer
            renamed["time"] = settings["time"][settings["time"] <= steps]
        return renamed

    def prepare(
        self, points: Points, what: str, settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Choose what both engines share."""
        prepared = super().prepare(points, what, settings)
        if self.has_shifts:
            # the network was asked for time 1
            return {**prepared, "time": np.zeros(1, dtype=np.int64)}
        return prepared

    def content(self) -> dict[str, Any]:
        """Return the plain content; what is as it was before a field existed is left
        out.
        """
        content = super().content()
        # shifts were no kind of a step when the first digests were written
        content["planted"] = {
            name: value for name, value in content["planted"].items() if name != "kind"
        }
        return content

    @property
    def has_shifts(self) -> bool:
        """Whether shifts are planted instead of steps made."""
        return np.size(self.planted.shifts) > 0

    @classmethod
    def example(cls) -> FewSteps:
        """Return a small valid scenario."""
        return cls(
            target="z1 + z1*z2",
            noise=0.1,
            rate=2.0,
            steps=2,
            width_per_dim=1.5,
            samples_per_dim=2.0,
            ridge=0.1,
        )

    @classmethod
    def reference(cls) -> tuple[FewSteps, str, float]:
        """Return few_steps_readout, section 14, setting A0: the network before its
        first step.
        """
        return cls.example().replace(steps=0), "test_error", 2.09072848
