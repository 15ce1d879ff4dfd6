"""What every kind of step knows: the networks it goes with, the features it leads to, what it does to real weights.

A step is declared by its fields, and answers here for all that depends on its kind. Methods import the engines when
they are called, so that a scenario is made without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from giantstep.errors import bad_field
from giantstep.family import Answer
from giantstep.scenario import Part
from giantstep.types import DeviceArray, Floats, Integers, Points

if TYPE_CHECKING:
    from giantstep.families.one_step.model import SpikedModel
    from giantstep.families.one_step.regimes import Regime
    from giantstep.families.one_step.scenario import OneStep
    from giantstep.lab import Draws
    from giantstep.lab.network import Network

Models = list[tuple[str, Integers]]
"""Which theory answers which points."""
ReadOut = Callable[[Points, Models], Answer]
"""Answers the errors of a fit on the features of the points."""
ClosedForm = Callable[["OneStep", Points, Mapping[str, Any]], Answer]
"""Answers a question by a formula of its own."""


def take_points(points: Points, index: Integers) -> dict[str, Floats]:
    """Return the numbers of the points in `index`."""
    return {name: values[index] for name, values in points.items()}


@dataclass(frozen=True)
class Start:
    """A real network before its step: its rows and labels, the neurons of every block and their values zeta_i."""

    network: Network
    blocks: list[slice]
    second_layer: DeviceArray
    draws: Draws


@dataclass(frozen=True)
class Moved:
    """What a step makes of the rows (p, d).

    `bulk` holds the rows of the bulk: w0_i, or w_i - u_q v after a step on a finite batch. `directions` are the spike v
    and v_perp as columns (d, 2); None where they are e_1 and e_2. <w*,x> = aim[0] x_1 + aim[1] x_2.
    """

    weights: DeviceArray
    bulk: DeviceArray
    directions: DeviceArray = None
    aim: tuple[float, float] = (1.0, 0.0)


class Step(Part):
    """What happens to the first layer between its start and the fit of the second."""

    copies: ClassVar[int] = 3
    """Arrays as large as the weights that an experiment keeps after the step."""
    shares_sample: ClassVar[bool] = False
    """Whether the fit may use the sample of the step."""

    def check_scenario(self, scenario: OneStep) -> None:
        """Refuse a scenario that this step does not go with."""
        if scenario.fit_sample == "same" and not self.shares_sample:
            raise bad_field("fit_sample", "same", '"fresh" unless the step is a SmallStep or a GrowingStep')

    def check_question(self, scenario: OneStep, what: str) -> None:
        """Refuse a question that has no answer after this step."""
        if what in ("weights", "spikes"):
            raise bad_field("step", self, f'a SmallStep or a GrowingStep for what="{what}"')

    # -- the limit -------------------------------------------------------------------------------------------------

    def choose_theory(self, scenario: OneStep, points: Points, wanted: str | None) -> tuple[Models, list[str]]:
        """Return which theory answers which points, and the sentences to say about the choice."""
        return [(wanted or "exact", np.arange(len(points["ridge"])))], []

    def approximations(self, points: Points, models: Models) -> dict[str, str]:
        """Return what these theories approximate, and how far off that may be."""
        return {}

    def warnings(self, scenario: OneStep, points: Points) -> list[str]:
        """Return what else to say about the limit after this step."""
        return []

    def model(self, scenario: OneStep, points: Points, theory: str) -> SpikedModel:
        """Return the spiked random features that stand for the network after the step, one set for each point."""
        raise NotImplementedError

    def check_dimension(self, points: Points, what: str) -> None:
        """Refuse points without a dimension where the question needs one."""

    def closed_form(self, scenario: OneStep, what: str) -> ClosedForm | None:
        """Return the formula that answers a question whatever the points; None where the read-out of features does."""
        return None

    def errors(self, scenario: OneStep, points: Points, models: Models, read_out: ReadOut) -> Answer:
        """Answer ``what="errors"``: what the read-out says of the features, and what the step adds to it."""
        return read_out(points, models)

    def regime(self, scenario: OneStep, dim: int) -> Regime:
        """Tell which regime the step belongs to at a finite dimension."""
        raise NotImplementedError

    # -- the experiment --------------------------------------------------------------------------------------------

    def move(self, scenario: OneStep, point: Points, start: Start) -> Moved:
        """Take the step on a real network; `point` holds arrays of one entry."""
        raise NotImplementedError

    def memory(self, point: Points, width: int, dim: int, chunk: int) -> int:
        """Return how many numbers the step needs beside the weights before and after it."""
        return 0
