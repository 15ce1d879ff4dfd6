"""What every step is: a map from one state of the first layer to the next, in the limit and in a real network.

A step knows nothing of read-outs, and no answer asks for its kind. Methods import the engines when they are called, so
that a scenario is made without them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from giantstep.errors import InputError
from giantstep.family import Answer
from giantstep.scenario import Part
from giantstep.types import DeviceArray, Floats, Points

if TYPE_CHECKING:
    from giantstep.families.network.layer import Layer
    from giantstep.families.network.problem import Problem
    from giantstep.families.network.scenario import Network
    from giantstep.families.network.trained import Trained

ClosedForm = Callable[["Network", Points, Mapping[str, Any]], Answer]
"""Answers a question by a formula of its own; its variables have no time, they are those after the step."""


@dataclass(frozen=True)
class Place:
    """A step in its network: which it is, and how many there are."""

    network: Network
    number: int

    @property
    def alone(self) -> bool:
        """Whether it is the only step."""
        return len(self.network.steps) == 1

    def field(self, name: str) -> str:
        """Return the dotted name of a field of the step."""
        return f"steps.{self.number}.{name}"


class Step(Part):
    """What happens to the first layer between its start, or the step before, and the next read-out."""

    learns: ClassVar[bool] = True
    """Whether it follows the samples, so that it needs the derivative of the activation."""
    strong: ClassVar[bool] = True
    """Whether it moves rows by as much as they are long, so that every function of kappa can be fitted."""
    sees_coordinates: ClassVar[bool] = False
    """Whether it treats every coordinate on its own, so that the law of the target's coordinates matters."""
    on_batches: ClassVar[bool] = False
    """Whether finite_batches_several_steps covers it: gradient descent of the rows, on batches of any size."""
    shares_sample: ClassVar[bool] = False
    """Whether a theory of a fit on the sample of the step is known."""

    def check_place(self, place: Place) -> None:
        """Refuse a network that this step makes no sense in, whoever answers; raise `bad_field`."""

    # -- the limit -------------------------------------------------------------------------------------------------

    def missing(self, place: Place, points: Points, theory: str | None) -> str:
        """Say which theory is missing for the limit of this step in its place, or nothing."""
        return ""

    def remarks(self, place: Place, points: Points, theory: str | None) -> list[str]:
        """Return warnings on the limit of this step: approximations that are made, targets that it cannot see."""
        return []

    def turned(self, network: Network, frame: Floats, numbers: Points, number: int) -> Floats:
        """Return the target's directions (M, r, R) in coordinates that hold what this step plants."""
        return frame

    def advance(self, problem: Problem, layer: Layer, number: int, theory: str) -> Layer:
        """Return the layer after the step, for all parameter sets at once; it stays as it is here."""
        return layer

    def closed_form(self, place: Place, what: str, points: Points) -> ClosedForm | None:
        """Return the formula that answers a question of a network with this single step, where it has one."""
        return None

    # -- the experiment --------------------------------------------------------------------------------------------

    def train(self, trained: Trained, number: int, point: Points) -> Trained:
        """Return the real network after the step; `point` holds arrays of one entry."""
        return trained

    def memory(self, place: Place, point: Points, width: int, dim: int, chunk: int) -> int:
        """Return how many numbers the step needs beside the weights before and after it."""
        return 0

    def samples(self, place: Place, point: Points, dim: int) -> float:
        """Return how many samples the step draws; inf for the whole population."""
        return 0


class NoStep(Step):
    """No gradient step: random features, whose rows stay uniform on the unit sphere and independent of the target.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="relu", target="tanh(z)", width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1,
    ...                second_layer=gs.Vocabulary([1]), step=NoStep())
    >>> round(gs.predict(s).test_error.item(), 4)
    0.2291
    """

    learns: ClassVar[bool] = False
    strong: ClassVar[bool] = False

    kind: Literal["none"] = "none"


class GradientStep(Step):
    """A step along the gradient on a batch of `batch_per_dim` * d samples, of a size proportional to `rate`."""

    if TYPE_CHECKING:
        rate: float
        batch_per_dim: float

    def check_place(self, place: Place) -> None:
        """Refuse an activation without a derivative."""
        activation = place.network.activation
        if activation.jumps:
            raise InputError(
                f"Field `activation` must have a derivative for a gradient step, but {activation.name} jumps at "
                f"{activation.jumps[0]:g}; take a smooth one such as tanh(5*z), or no gradient step."
            )

    def size(self, points: Points, number: int = 0) -> Floats:
        """Return eta of every point, in the normalisation eta_raw = eta sqrt(p)."""
        raise NotImplementedError

    def samples(self, place: Place, point: Points, dim: int) -> float:
        """Return the size of the batch."""
        batch = float(point[place.field("batch_per_dim")][0]) * dim
        return max(1, round(batch)) if math.isfinite(batch) else math.inf

    def memory(self, place: Place, point: Points, width: int, dim: int, chunk: int) -> int:
        """Return how many numbers the gradient needs beside the weights before and after it."""
        from giantstep.lab.network import ROW_BLOCK
        from giantstep.lab.population_gradient import gradient_memory

        if math.isinf(float(point[place.field("batch_per_dim")][0])):
            return gradient_memory(width)
        return chunk * (2 * width + dim) + 4 * ROW_BLOCK * width


def by_neuron(values: Floats, trained: Trained) -> DeviceArray:
    """Return values of blocks (k,) for every neuron (p,)."""
    counts = [block.stop - block.start for block in trained.blocks]
    return trained.draws.xp.asarray(np.repeat(np.broadcast_to(values, len(counts)), counts))
