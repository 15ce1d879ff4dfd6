"""What every step is: a map from one state of the first layer to the next, in the limit
and in a real network.

A step knows nothing of read-outs, and no answer asks for its kind. Methods import the
engines when they are called, so that a scenario is made without them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import DeviceArray, Floats, Points
from giantstep.core.scenario.answer import Answer
from giantstep.core.scenario.arrays import ArrayField, FrozenArray
from giantstep.core.scenario.fields import Number, Numbers, field
from giantstep.core.scenario.model import Part

if TYPE_CHECKING:
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem
    from giantstep.problems.network.rows.protocol import Descent
    from giantstep.problems.network.scenario import Network
    from giantstep.problems.network.trained import Trained

ClosedForm = Callable[["Network", Points, Mapping[str, Any]], Answer]
"""Answers a question by a formula of its own; its variables have no time, they are
those after the step.
"""


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
    """What happens to the first layer between its start, or the step before, and the
    next read-out.
    """

    if TYPE_CHECKING:
        kind: str

    limit_methods: ClassVar[tuple[str, ...]] = ("advance", "closed_form")
    # whether it follows the samples, so that it needs the activation's derivative
    learns: ClassVar[bool] = True
    # whether it moves rows by as much as they are long, so that a fit sees any degree
    strong: ClassVar[bool] = True
    # whether it treats every coordinate on its own: their law matters
    sees_coordinates: ClassVar[bool] = False
    # whether finite_batches_several_steps covers it: descent on batches of any size
    on_batches: ClassVar[bool] = False
    # whether blocks may be cut by the overlaps of their rows: `splits.split_overlaps`
    splits: ClassVar[bool] = False
    # whether a theory of a fit on the sample of the step is known
    shares_sample: ClassVar[bool] = False
    # field at 0 of which nothing moves and the bare limit jumps: a fit sees any spike
    jumps_at: ClassVar[str] = ""

    def check_place(self, place: Place) -> None:
        """Refuse a network that this step makes no sense in, whoever answers; raise
        `bad_field`.
        """

    # -- the limit ---------------------------------------------------------------------

    def missing(self, place: Place, points: Points, theory: str | None) -> str:
        """Say which theory is missing for the limit of this step in its place, or
        nothing.
        """
        return ""

    def remarks(self, place: Place, points: Points, theory: str | None) -> list[str]:
        """Return warnings on the limit of this step: approximations that are made,
        targets that it cannot see.
        """
        return []

    def turned(
        self, network: Network, frame: Floats, numbers: Points, number: int
    ) -> Floats:
        """Return the target's directions (M, r, R) in coordinates that hold what this
        step plants.
        """
        return frame

    def advance(
        self, problem: Problem, layer: Layer, number: int, theory: str
    ) -> Layer:
        """Return the layer after the step, for all parameter sets at once; it stays as
        it is here.
        """
        return layer

    def descent(self, problem: Problem, number: int) -> Descent:
        """Return a step of gradient descent in numbers, which rows that follow finite
        batches repeat.
        """
        raise NotImplementedError

    def closed_form(self, place: Place, what: str, points: Points) -> ClosedForm | None:
        """Return the formula that answers a question of a network with this single
        step, where it has one.
        """
        return None

    # -- the experiment ----------------------------------------------------------------

    def train(self, trained: Trained, number: int, point: Points) -> Trained:
        """Return the real network after the step; `point` holds arrays of one entry."""
        return trained

    def memory(
        self, place: Place, point: Points, width: int, dim: int, chunk: int
    ) -> int:
        """Return how many numbers the step needs beside the weights before and after
        it.
        """
        return 0

    def samples(self, place: Place, point: Points, dim: int) -> float:
        """Return how many samples the step draws; inf for the whole population."""
        return 0


class NoStep(Step):
    """No gradient step: random features, whose rows stay uniform on the unit sphere and
    independent of the target.

    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="relu",
    ...     target="tanh(z)",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ...     second_layer=gs.Vocabulary([1]),
    ...     step=NoStep(),
    ... )
    >>> round(gs.predict(s).test_error.item(), 4)
    0.2291
    """

    learns: ClassVar[bool] = False
    strong: ClassVar[bool] = False
    splits: ClassVar[bool] = True

    kind: Literal["none"] = "none"


class GradientStep(Step):
    """A step along the gradient on a batch of `batch_per_dim` * d samples, of a size
    proportional to `rate`.
    """

    if TYPE_CHECKING:
        rate: float
        batch_per_dim: float

    def check_place(self, place: Place) -> None:
        """Refuse an activation without a derivative."""
        activation = place.network.activation
        if activation.jumps:
            raise InputError(
                "Field `activation` must have a derivative for a gradient step, but"
                f" {activation.name} jumps at {activation.jumps[0]:g}; take a smooth"
                " one such as tanh(5*z), or no gradient step."
            )

    def size(self, points: Points, number: int = 0) -> Floats:
        """Return eta of every point, in the normalisation eta_raw = eta sqrt(p)."""
        raise NotImplementedError

    def samples(self, place: Place, point: Points, dim: int) -> float:
        """Return the size of the batch."""
        batch = float(point[place.field("batch_per_dim")][0]) * dim
        # no batch is empty, however small a network is
        return max(1, round(batch)) if math.isfinite(batch) else math.inf

    def memory(
        self, place: Place, point: Points, width: int, dim: int, chunk: int
    ) -> int:
        """Return how many numbers the gradient needs beside the weights before and
        after it.
        """
        from giantstep.problems.network.population_gradient import gradient_memory
        from giantstep.problems.network.weights import ROW_BLOCK

        if math.isinf(float(point[place.field("batch_per_dim")][0])):
            return gradient_memory(width)
        return chunk * (2 * width + dim) + 4 * ROW_BLOCK * width


def by_neuron(values: Floats, trained: Trained) -> DeviceArray:
    """Return values of blocks (k,) for every neuron (p,)."""
    counts = [block.stop - block.start for block in trained.blocks]
    # one number stands for all blocks
    return trained.draws.xp.asarray(
        np.repeat(np.broadcast_to(values, len(counts)), counts)
    )


# -- Shifts planted by hand in place of a gradient: the spiked random-features model ---


MOST_PLANTED = 3
"""Rank of planted shifts: product rules over so many directions."""


class PlantedSpike(Step):
    """The spiked random-features model: w_i <- s_q w_i + u_q v, with |v| = 1 and <v,
    w*> = gamma, planted by hand.

    A single number as `strength` multiplies the values of the vocabulary; a list gives
    u_q block by block. `bulk` is s_q, one number for all blocks or a list. With several
    target directions w* is the first of them.

    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     activation="relu",
    ...     target="tanh(z)",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ...     second_layer=gs.Vocabulary([1, -1]),
    ...     step=PlantedSpike(strength=1.0, alignment=0.5),
    ... )
    >>> gs.predict(s, step__alignment=[0.0, 0.5, 1.0]).test_error.values.round(3)
    array([0.257, 0.202, 0.041])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            strength: float | Sequence[float] = ...,
            bulk: float | Sequence[float] = ...,
            alignment: float = ...,
        ) -> None: ...

    learns: ClassVar[bool] = False
    jumps_at: ClassVar[str] = "strength"

    kind: Literal["planted"] = "planted"
    strength: Number | Numbers = field(
        "u_q",
        "size of the spike in each block (a number multiplies the vocabulary)",
        default=1.0,
    )
    bulk: Number | Numbers = field(
        "s_q", "scale of the initial weights in each block", default=1.0
    )
    alignment: Number = field(
        "gamma",
        "cosine between the spike and the target direction",
        default=1.0,
        ge=-1,
        le=1,
    )

    def check_place(self, place: Place) -> None:
        """Refuse lists that do not have one number for each block, and blocks without
        initial weights.
        """
        gaussian = place.network.second_layer == "gaussian"
        blocks = place.network.blocks
        for name, value in (("strength", self.strength), ("bulk", self.bulk)):
            if not isinstance(value, float) and (
                gaussian and name == "strength" or len(value) != blocks
            ):
                if gaussian:
                    several = 'where second_layer="gaussian"'
                else:
                    several = f"or a list of {blocks}, one per block"
                raise bad_field(place.field(name), list(value), f"one number {several}")
        if np.any(np.atleast_1d(self.bulk) == 0):
            raise bad_field(place.field("bulk"), self.bulk, "different from 0")

    def missing(self, place: Place, points: Points, theory: str | None) -> str:
        """Refuse a spike off the target where inputs have a covariance: its own place
        in it is not said.
        """
        # along the target, or against it, a spike has the place of the target
        tilted = np.any(np.abs(points[place.field("alignment")]) != 1)
        if tilted and place.network.inputs is not None:
            return (
                "a place of the spike in the eigenspaces of the inputs, where its"
                " alignment is not 1"
            )
        return ""

    def turned(
        self, network: Network, frame: Floats, numbers: Points, number: int
    ) -> Floats:
        """Return the frame with the spike as first axis and one more axis, where w* has
        what the spike has not.
        """
        gamma = numbers[f"steps.{number}.alignment"]
        # where inputs have a covariance a spike lies along the target: see `missing`
        if frame.shape[2] > network.target.directions or np.all(gamma == 1):
            return frame
        frame = np.pad(frame, ((0, 0), (0, 0), (0, 1)))
        # the target is a unit vector still: what the spike does not have lies across it
        frame[:, 0, 0] = gamma
        frame[:, 0, -1] = np.sqrt(np.maximum(0.0, 1 - gamma**2))
        return frame

    def advance(
        self, problem: Problem, layer: Layer, number: int, theory: str
    ) -> Layer:
        """Plant the spike along the first axis, or along the target where they are the
        same.
        """
        numbers = problem.numbers
        name = f"steps.{number}."
        ones = np.ones((len(layer), len(problem.zeta)))
        strength = np.array(self.strength) * ones
        bulk = np.array(self.bulk) * ones
        # a number is one of the points; a list is no field that varies
        if name + "strength" in numbers:
            strength = numbers[name + "strength"][:, None] * problem.zeta
        if name + "bulk" in numbers:
            bulk = numbers[name + "bulk"][:, None] * ones
        # more coordinates than directions: the spike has one of its own
        turned = problem.isotropic and problem.frame.shape[2] > problem.frame.shape[1]
        axis = layer.frame[:, :1]
        if turned:  # `turned` has made the spike the first axis
            axis = np.eye(1, layer.means.shape[2])
        return layer.rows.shifted(problem, layer, strength[..., None] * axis, bulk)

    def train(self, trained: Trained, number: int, point: Points) -> Trained:
        """Plant the spike v, where w* = gamma v + sqrt(1 - gamma^2) v_perp
        (spiked_features section 8).
        """
        name = f"steps.{number}."
        strength = point.get(name + "strength", np.array(self.strength))
        bulk = by_neuron(point.get(name + "bulk", np.array(self.bulk)), trained)
        sizes = by_neuron(strength, trained)
        # one number multiplies the vocabulary, a list is given block by block
        if isinstance(self.strength, float):
            sizes = sizes * trained.second_layer
        spike = trained.inputs.spike(float(point[name + "alignment"][0]), trained.dim)
        spike = trained.draws.xp.asarray(spike)
        after = trained.with_weights(
            trained.network.weights * bulk[:, None] + sizes[:, None] * spike
        )
        if number:
            return after
        return dataclasses.replace(
            after, directions=trained.draws.xp.eye(trained.dim, 2)
        )


class PlantedShifts(Step):
    """Rows w_i <- s_q w_i + U_q planted by hand: U_q (k, r) along the target
    directions, s_q (k,).

    >>> import giantstep as gs
    >>> s = gs.FewSteps(
    ...     target="z1 + z1*z2",
    ...     width_per_dim=1.5,
    ...     samples_per_dim=2.0,
    ...     ridge=0.1,
    ...     noise=0.1,
    ...     steps=0,
    ...     planted=PlantedShifts([[1.5, 0.5], [-1.5, 0.5]]),
    ... )
    >>> gs.predict(s).test_error.sizes["time"]
    1
    """

    if TYPE_CHECKING:

        def __init__(
            self, shifts: ArrayLike = ..., bulk: float | Sequence[float] = ...
        ) -> None: ...

    learns: ClassVar[bool] = False

    kind: Literal["shifts"] = "shifts"
    shifts: ArrayField = field(
        "U_q",
        "shift of each block along the target directions (blocks, directions)",
        default=FrozenArray([]),
    )
    bulk: Numbers = field(
        "s_q", "scale of the initial weights in each block; 1 if left out", default=()
    )

    def check_place(self, place: Place) -> None:
        """Refuse shifts of other shapes than blocks and directions."""
        network = place.network
        shifts = np.asarray(self.shifts)
        k = network.blocks
        r = network.target.directions
        if network.second_layer == "gaussian":
            raise bad_field(
                "second_layer",
                "gaussian",
                "a Vocabulary, whose blocks can be shifted one by one",
            )
        if shifts.shape != (k, r):
            raise bad_field(
                place.field("shifts"),
                shifts.tolist(),
                f"{k} rows (blocks) of {r} numbers (directions)",
            )
        if self.bulk and len(self.bulk) != k:
            raise bad_field(
                place.field("bulk"),
                list(self.bulk),
                f"a list of {k} numbers, one for each block",
            )
        if np.linalg.matrix_rank(shifts) > MOST_PLANTED:
            raise bad_field(
                place.field("shifts"),
                shifts.tolist(),
                f"of rank {MOST_PLANTED} at most",
            )
        # rows without a bulk have no answer: few_steps_readout section 15
        if any(abs(scale) < 1e-6 for scale in self.bulk):
            raise bad_field(place.field("bulk"), list(self.bulk), "different from 0")

    def advance(
        self, problem: Problem, layer: Layer, number: int, theory: str
    ) -> Layer:
        """Shift every block along the target directions, in whitened coordinates."""
        bulk = np.broadcast_to(
            np.array(self.bulk or 1.0), (len(layer), len(problem.zeta))
        )
        shifts = np.asarray(self.shifts) @ layer.frame
        return layer.rows.shifted(problem, layer, shifts, bulk)

    def train(self, trained: Trained, number: int, point: Points) -> Trained:
        """Shift the rows of every block."""
        xp = trained.draws.xp
        weights = (
            trained.network.weights
            * by_neuron(np.array(self.bulk or 1.0), trained)[:, None]
        )
        for block, shift in zip(trained.blocks, np.asarray(self.shifts)):
            trained.inputs.add_along(weights[block], xp.asarray(shift), xp)
        return trained.with_weights(weights)
