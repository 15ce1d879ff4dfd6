"""In which order a learner finds the directions of a target: leap and generative
staircase.

At every stage U is the span of the directions found so far and D its complement. For
k = 1, 2, ... the tensors C_k[T, q] = E[T(y) q(z_U) He_k(z_D)] are formed for all test
functions q (products of normalised Hermite polynomials of z_U) and all label transforms
T; the first k with a tensor that is not zero gives the new directions, the range of its
unfolding. T = y alone is what one pass over the data sees (the leap), many T is what
repetition can see (generative). The rule is gradient_dynamics section 1.2.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.subspaces import complement, tidy
from giantstep.problems.learnability.prepared import (
    HIGHEST,
    Sampled,
    coefficients,
    tested_degree,
    unfolding_gram,
)

TOLERANCE = 1e-7
"""A coefficient E[T q h_b] with normalised T, q and h_b counts as zero below this."""
GATE = 10.0
"""... or below the root of this many times the difference between the rule and a
coarser one.
"""


@dataclass(frozen=True)
class Stage:
    """One stage of a staircase."""

    order: int  # k, the number of new directions that enter together
    directions: Floats  # the new ones, (count, r) orthonormal rows
    # n = k + deg q of the Hermite tensors through which they are seen, increasing
    degrees: tuple[int, ...]
    strength: tuple[float, ...]  # norm of the unfolded tensor along each

    @property
    def count(self) -> int:
        """Number of new directions."""
        return len(self.directions)


@dataclass(frozen=True)
class Staircase:
    """Stages in their order; ``complete`` says whether every direction is found up to
    the highest order tried.
    """

    stages: tuple[Stage, ...]
    complete: bool
    highest: int

    @property
    def first(self) -> float:
        """The order of the first stage, inf where there is none."""
        return self.stages[0].order if self.stages else math.inf

    @property
    def exponent(self) -> float:
        """The largest order, inf where some direction is not found."""
        if self.complete:
            return max(stage.order for stage in self.stages)
        return math.inf

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The stages as (order, number of new directions)."""
        return [(stage.order, stage.count) for stage in self.stages]


def staircase(
    fine: Sampled,
    coarse: Sampled,
    cap: int | None = None,
    degrees: Collection[int] | None = None,
    start: Sequence[Stage] = (),
) -> Staircase:
    """Return the stages up to the order `cap` after `start`, seen through Hermite
    tensors of these `degrees`.
    """
    r = fine.points.shape[1]
    most = cap or HIGHEST[r]
    stages = list(start)
    known = np.concatenate([np.zeros((0, r)), *(stage.directions for stage in stages)])
    while len(known) < r:
        check_time()
        stage = _next_stage(fine, coarse, known, most, degrees)
        if stage is None:
            return Staircase(tuple(stages), False, most)
        stages.append(stage)
        known = np.concatenate([known, stage.directions])
    return Staircase(tuple(stages), True, most)


def _next_stage(
    fine: Sampled,
    coarse: Sampled,
    known: Floats,
    most: int,
    seen: Collection[int] | None,
) -> Stage | None:
    """Return the first order that shows new directions, and these; None up to the order
    `most`.
    """
    rest = complement(known, fine.points.shape[1])
    for order in range(1, most + 1):
        total, gap, degrees = _tensors(fine, coarse, known, rest, order, seen)
        sizes, vectors = np.linalg.eigh(total)
        new = sizes > max(TOLERANCE**2, GATE * gap)
        if np.any(new) and degrees:
            directions = tidy(vectors[:, new].T @ rest)
            inside = directions @ rest.T
            strength = np.sqrt(np.einsum("ai,ij,aj->a", inside, total, inside))
            return Stage(order, directions, tuple(degrees), tuple(strength.tolist()))
    return None


def _tensors(
    fine: Sampled,
    coarse: Sampled,
    known: Floats,
    rest: Floats,
    order: int,
    seen: Collection[int] | None,
) -> tuple[Floats, float, list[int]]:
    """Return the Gram matrix of all tensors of an order, what the coarser rule says
    otherwise, and the Hermite orders that are not zero.
    """
    tested = tested_degree(len(known), fine.points.shape[1])
    values = coefficients(fine, known, rest, order, tested)
    if coarse.points is fine.points:
        rough = values
    else:
        rough = coefficients(coarse, known, rest, order, tested)
    degrees = []
    total = np.zeros((len(rest), len(rest)))
    gap = 0.0
    for degree in values:
        # a student without this Hermite order is blind to the tensor
        if seen is not None and order + degree not in seen:
            continue
        gram = unfolding_gram(values[degree], len(rest), order)
        other = unfolding_gram(rough[degree], len(rest), order)
        change = np.max(np.abs(gram - other))
        # squares: the matrix is quadratic in the coefficients
        if np.max(np.diag(gram)) > max(TOLERANCE**2, GATE * change):
            degrees.append(order + degree)
        total = total + gram
        gap = gap + change
    return total, gap, degrees
