"""From the points of a grid to distinct problems: what steps and read-out of M
parameter sets share.

Points whose inputs and blocks are the same make one `Problem`; those of them that
differ only in the read-out (samples, ridge, label noise after large batches) share a
parameter set, whose steps are followed once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from giantstep.core.base.types import Booleans, Floats, Integers, Points
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.readout.finite_size import whole_blocks
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.inputs.law import InputLaw, InputSpectrum
from giantstep.problems.network.scenario import Network

GAUSSIAN_NODES = {1: 80, 2: 32}
"""Gauss-Hermite nodes of a Gaussian second layer, for one target direction and for
more; 32 and 20 are not negligible. Twenty are 0.3% off after two steps on two
directions, and take 10 s where 32 take 25.
"""
WHOLE_GAUSSIAN_NODES = 60
"""Nodes where sums over the layer are all that is needed: moments of degree 14 and more
are exact.
"""
NEGLIGIBLE = 1e-8
"""Weight of a node of the Gaussian second layer, relative to one, that is left out."""


@dataclass(frozen=True)
class Problem:
    """The network of M parameter sets, without its read-out."""

    network: Network
    zeta: Floats  # (k,)
    # (M, k): fractions of the blocks, of whole neurons at a finite dimension
    pi: Floats
    inputs: InputSpectrum
    # (M, r, R): the target's directions in the coordinates before the first step
    frame: Floats
    numbers: Points  # the numeric fields of every set (M,)
    quadratic_dim: float = np.inf
    """Dimension at which every atom has a fluctuation of its own in place of the
    lengths: structured_inputs (8.1).
    """

    def take(self, kept: Integers) -> Problem:
        """Return the problem of some of its parameter sets."""
        numbers = take_points(self.numbers, kept)
        return dataclasses.replace(
            self, frame=self.frame[kept], pi=self.pi[kept], numbers=numbers
        )

    @property
    def activation(self) -> Function:
        """The activation of the hidden layer."""
        return self.network.activation

    @property
    def target(self) -> Target:
        """The target."""
        return self.network.target

    @cached_property
    def neurons(self) -> Floats:
        """Number of neurons of every block (M, k), infinite in the limit."""
        return self.pi * (self.numbers["width_per_dim"] * self.numbers["dim"])[:, None]

    @property
    def isotropic(self) -> bool:
        """Whether the inputs have one eigenvalue."""
        return len(self.inputs.masses) == 1

    @property
    def is_split(self) -> bool:
        """Whether the blocks are cut into sub-blocks; a Gaussian second layer, which
        has nodes, has none.
        """
        if self.network.second_layer == "gaussian":
            return False
        return len(self.zeta) > self.network.blocks

    @property
    def coordinate_eigenvalues(self) -> Floats:
        """Eigenvalue of every coordinate (R,)."""
        if self.isotropic:
            return np.ones(self.frame.shape[2])
        return self.inputs.coordinate_eigenvalues

    @cached_property
    def kept(self) -> Floats:
        """E[y|x] over the target, 1 - 2 flip (M,)."""
        return 1 - 2 * self.numbers["flip"]

    def of_step(self, number: int, name: str) -> Floats:
        """Return a field of step `number`, (M,)."""
        return self.numbers[f"steps.{number}.{name}"]

    def fed_back(self, number: int) -> Floats:
        """Return pi_q zeta_q, by which the gradient of a step sees the output; zero for
        the correlation loss (M, k).
        """
        square = getattr(self.network.steps[number], "loss", "square") == "square"
        return self.pi * self.zeta if square else np.zeros_like(self.pi)

    def strengths(self, number: int) -> Floats:
        """Return rate zeta_q of a step (M, k)."""
        return self.of_step(number, "rate")[:, None] * self.zeta


@dataclass(frozen=True)
class Share:
    """Points that make one problem: where they are in the grid, and which parameter set
    each has.
    """

    points: Integers  # of the grid
    set_of_point: Integers  # of the problem, for each of these points
    problem: Problem

    def points_of(self, sets: Integers) -> tuple[Integers, Integers]:
        """Return where the points of these parameter sets are in the grid, and which of
        the sets each point has.
        """
        kept = np.flatnonzero(np.isin(self.set_of_point, sets))
        order = np.argsort(sets)
        # the sets need not be sorted, and are counted as they are given
        place = np.searchsorted(sets, self.set_of_point[kept], sorter=order)
        return self.points[kept], order[place]


def second_layer_law(network: Network, whole: bool = False) -> tuple[Floats, Floats]:
    """Return zeta_q and pi_q; a Gaussian law becomes its nodes that matter for a fit,
    or a `whole` coarser rule.
    """
    law = network.second_layer
    if isinstance(law, Vocabulary):
        return np.array(law.values), np.array(law.probabilities)
    few = GAUSSIAN_NODES[min(network.target.directions, 2)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(
        WHOLE_GAUSSIAN_NODES if whole else few
    )
    # the weights of the rule add up to sqrt(2 pi)
    weights = weights / weights.sum()
    if whole:
        return nodes, weights
    # what is kept is a law again: its weights add up to 1
    keep = weights > NEGLIGIBLE
    return nodes[keep], weights[keep] / weights[keep].sum()


def take_points(points: Points, index: Integers) -> dict[str, Floats]:
    """Return the numbers of the points in `index`."""
    return {name: values[index] for name, values in points.items()}


def share_points(
    network: Network, points: Points, index: Integers, theory: str = "exact"
) -> Iterator[Share]:
    """Yield the points of `index` by problem, with the distinct parameter sets of
    each.
    """
    inside = take_points(points, index)
    moving = [
        # a step of rate 0 needs no theory of its batch
        np.isfinite(batch) & (inside[f"{step}rate"] != 0)
        for step, batch in batches_of(inside).items()
    ]
    # points of one problem go through the same theory
    columns = [np.isfinite(inside["dim"]), *moving]
    if network.inputs is not None:
        columns += [
            # at a finite dimension the spectrum is that of a network
            inside["dim"],
            *(values for name, values in inside.items() if name.startswith("inputs.")),
        ]
    leaders, which = _distinct(np.stack(columns, axis=1).astype(float))
    for number in range(len(leaders)):
        rows = np.flatnonzero(which == number)
        yield _share(network, take_points(inside, rows), index[rows], theory)


def batches_of(points: Points) -> dict[str, Floats]:
    """Return "steps.<number>." -> samples per dimension of the batch of that step,
    where it has one.
    """
    ending = "batch_per_dim"
    return {
        name.removesuffix(ending): values
        for name, values in points.items()
        if name.endswith("." + ending)
    }


def finite_batches(points: Points) -> Booleans:
    """Tell which points have a step on a finite batch."""
    return np.any(
        [np.zeros(len(points["dim"])), *map(np.isfinite, batches_of(points).values())],
        axis=0,
    )


def _share(network: Network, points: Points, index: Integers, theory: str) -> Share:
    names = sorted(name for name in points if name.startswith("steps."))
    names += [name for name in points if name.startswith("coordinates.")]
    # label noise reaches the rows through finite batches alone
    names += ["flip", *(["noise"] if finite_batches(points).any() else [])]
    # sizes reach the layer at a finite dimension alone
    if np.isfinite(points["dim"]).any():
        names += ["dim", "width_per_dim"]
    else:
        names += []
    rows = np.stack([points[name] for name in names], axis=1)
    first, owner = _distinct(rows)
    numbers = take_points(points, first)
    inputs = InputSpectrum.isotropic(network.target.directions)
    if network.inputs is not None:
        law = input_law(network, points, 0)
        inputs = inputs if law.isotropic else law.binned().spectrum()
    frame = np.broadcast_to(inputs.frame, (len(first), *inputs.frame.shape))
    for number, step in enumerate(network.steps):
        # a spike off the target needs an axis of its own before the first step
        frame = step.turned(network, frame, numbers, number)
    zeta, pi = second_layer_law(network)
    neurons = (numbers["width_per_dim"] * numbers["dim"])[:, None]
    if (
        network.second_layer != "gaussian" and np.isfinite(neurons).all()
    ):  # fractions of whole neurons
        pi = whole_blocks(pi, neurons[:, 0]) / neurons
    pi = np.broadcast_to(pi, (len(first), len(zeta)))
    if theory == "quadratic":
        # points on one covariance share a problem at one dimension alone
        quadratic = float(points["dim"][0])
    else:
        quadratic = np.inf
    problem = Problem(
        network=network,
        zeta=zeta,
        pi=pi,
        inputs=inputs,
        frame=frame,
        numbers=numbers,
        quadratic_dim=quadratic,
    )
    return Share(points=index, set_of_point=owner, problem=problem)


def _distinct(rows: Floats) -> tuple[Integers, Integers]:
    """Return where each distinct row stands first, and which of them every row is."""
    # bytes differ where numbers do by one bit: nothing is rounded together
    found: dict[bytes, int] = {}
    places = [found.setdefault(row.tobytes(), place) for place, row in enumerate(rows)]
    first = np.array(list(found.values()))
    return first, np.searchsorted(first, places)


def input_law(network: Network, points: Points, index: int) -> InputLaw:
    """Return the law of the inputs at one point, whose numbers may vary; at a finite
    dimension that of a network.
    """
    return inputs_at(network, points, index).input_law(float(points["dim"][index]))


def inputs_at(network: Network, points: Points, index: int) -> Network:
    """Return the network with the inputs of one point."""
    own = network.numeric_fields()
    given = {
        name: float(values[index])
        for name, values in points.items()
        if name.startswith("inputs.")
    }
    changed: Mapping[str, Any] = {
        # grids are of floats, which a whole number refuses
        name: int(value) if own[name][1].annotation is int else value
        for name, value in given.items()
        if value != own[name][0]
    }
    return network.replace(changed) if changed else network
