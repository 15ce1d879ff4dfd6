"""Rules for kappa: which parameter sets see the target alike, and what the target is
for them.

Kappa are the coordinates of an input along the directions that the rows have learnt.
The target given kappa is averaged over all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian.conditional import (
    ConditionalTarget,
    coarsened,
    condition,
)
from giantstep.core.maths.gaussian.planes import Plane
from giantstep.core.maths.gaussian.subspaces import (
    FEW_AXES,
    LEARNT,
    Directions,
    split_directions,
)
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.problem import Problem

LEAST_STEEPNESS = 1e-3
"""Means of the blocks over the length of their rows, below which features are as wide
as the inputs.
"""
ON_THE_SPOT = 1e-12
"""Part of a direction of the target that is rounding."""
ACROSS = 1e-9
"""Part of the normal of a plane below which the plane lies across kappa alone."""


class SharedView(NamedTuple):
    """Parameter sets that see the target alike: which, their directions, and the target
    given kappa on one rule.
    """

    sets: Integers
    basis: Directions
    given: ConditionalTarget


def views(
    problem: Problem,
    layer: Layer,
    fineness: float = 1.0,
    leading: bool = False,
    finer: float = 1.0,
    breaks: Sequence[Plane] = (),
) -> Iterator[SharedView]:
    """Yield the parameter sets in groups with one rule for kappa that resolves their
    features.

    With `leading` the first axis of kappa is the direction along which the blocks have
    moved most, or the one direction of the target where nothing is learnt. `finer` is
    for one learnt direction; `breaks` are planes of z.
    """
    # a feature changes over a length 1/steepness of kappa
    lengths = np.linalg.norm(layer.means, axis=2)
    steepness = np.max(lengths / layer.scale(problem), axis=1)
    groups: dict[Any, list[int]] = {}
    for number, key in enumerate(_keys(layer, steepness)):
        groups.setdefault(key, []).append(number)
    for members in groups.values():
        first = members[0]
        sets = np.array(members)
        frame = layer.frame[first]
        basis = _basis(problem, layer, first, leading)
        learnt = frame @ basis.learnt
        rest = frame @ basis.rest
        rest[np.abs(rest) < ON_THE_SPOT] = 0.0
        # a flatter feature is as wide as the inputs, and needs no wider rule
        scale = 1 / max(float(steepness[first]), LEAST_STEEPNESS)
        wanted = fineness
        if basis.learnt.shape[1] == 1:
            # a set has the same rule alone and among others: its scale goes by steps
            scale = float(coarsened(scale))
            wanted = fineness * finer
        # a break across kappa is averaged over, and needs no rule that breaks
        known = [
            plane for plane in breaks if np.linalg.norm(plane.normal @ rest) < ACROSS
        ]
        try:
            given = condition(problem.target, learnt, rest, scale, wanted, known)
        except InputError:  # too many nodes, as many along every direction
            basis, given = _graded(problem, layer.take(sets[:1]), basis, wanted)
        yield SharedView(sets, basis, given)


def _basis(problem: Problem, layer: Layer, first: int, leading: bool) -> Directions:
    """Return the learnt directions of one set and the rest of the target."""
    frame = layer.frame[first]
    rows = layer.rows
    basis = split_directions(layer.means[first], frame, problem.target)
    if rows.has_own_axis and not basis.learnt.shape[1]:
        # their law is given along a spike, even along one of size 0
        own_axis = np.eye(1, layer.means.shape[2])
        basis = split_directions(own_axis, frame, problem.target)
    if not leading:
        return basis
    if not basis.learnt.shape[1] and len(frame) == 1:
        return Directions(frame.T, frame.T[:, :0])
    # a block counts by its share of the neurons
    moved = np.sqrt(problem.pi[first])[:, None] * layer.means[first]
    return basis.along_leading(moved, rows.signed_coordinates(len(frame)))


def _graded(
    problem: Problem, layer: Layer, basis: Directions, fineness: float
) -> tuple[Directions, ConditionalTarget]:
    """Return a rule that is as fine along each direction as the blocks are steep there;
    random points beyond that.
    """
    means = layer.means[0]
    # along these axes the blocks are steep in turn: each has a fineness of its own
    basis = basis.along_leading(np.sqrt(problem.pi[0])[:, None] * means)
    learnt = layer.frame[0] @ basis.learnt
    rest = layer.frame[0] @ basis.rest
    relative = np.abs(means @ basis.learnt) / layer.scale(problem)[0][:, None]
    steepness = np.max(relative, axis=0)
    scales = (1 / np.maximum(steepness, LEAST_STEEPNESS)).tolist()
    target = problem.target
    try:
        return basis, condition(target, learnt, rest, scales, fineness)
    except InputError:
        return basis, condition(target, learnt, rest, scales, fineness, sampled=True)


def _keys(layer: Layer, steepness: Floats) -> Iterator[Any]:
    """Yield for every set what it must have in common with others to share a rule.

    That is where nothing or one and the same direction is learnt; its fineness goes by
    halves of an octave, so that a set has the same rule alone and among others.
    """
    _, values, spans = np.linalg.svd(layer.means, full_matrices=False)
    rounding = LEARNT * np.maximum(1.0, values.max(axis=1, initial=0.0))
    learnt = np.sum(values > rounding[:, None], axis=1)
    scales = coarsened(1 / np.maximum(steepness, LEAST_STEEPNESS)).tolist()
    # a direction and its negative are one line: the largest entry is made positive
    lines = spans[:, 0]
    largest = np.abs(spans[:, :1]).argmax(axis=2)
    lines = lines * np.sign(np.take_along_axis(lines, largest, axis=1))
    coordinates = layer.means.shape[2]
    # lines that differ by rounding are the same
    for number, line in enumerate(np.round(lines, 9)):
        alike = (layer.frame[number].tobytes(), layer.rows.kin(number))
        if not learnt[number]:
            yield alike
        elif learnt[number] > 1 or coordinates > FEW_AXES:
            yield number
        else:
            yield alike, scales[number], line.tobytes()
