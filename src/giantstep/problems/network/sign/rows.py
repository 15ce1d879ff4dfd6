"""Rows after a sign step, whose coordinates moved by cells: sign_step section 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from giantstep.core.maths.gaussian.conditional import ConditionalTarget
from giantstep.core.maths.gaussian.subspaces import Directions
from giantstep.core.readout import Bulk, SignBulk
from giantstep.problems.network.rows.batches import length_across
from giantstep.problems.network.rows.protocol import (
    POPULATION,
    RULE_ERROR,
    Axes,
    Rows,
    Spread,
    Sums,
    sums_on_axes,
    unit_axes,
)

if TYPE_CHECKING:
    from giantstep.core.base.types import Integers
    from giantstep.core.readout.fits import Asked, Fit
    from giantstep.problems.network.describe import Description
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem


@dataclass(frozen=True, eq=False)
class SignRows(Rows):
    """The rows after a sign step, which has no step beside it."""

    bulk: SignBulk

    # the spike lies along an axis of its own even where the target has no part of it
    has_own_axis: ClassVar[bool] = True

    @classmethod
    def of(cls, bulk: SignBulk) -> SignRows:
        """Return the rows whose law is this bulk, a point of it for each set."""
        # isotropic inputs are one atom, where B is the length of the rows
        return cls(np.sqrt(bulk.row_norm)[..., None], bulk)

    @property
    def known(self) -> frozenset[str]:
        """The statistics stand on one rule for the target; a batch has noise."""
        if self.bulk.per_sample.any():
            return frozenset({RULE_ERROR})
        return frozenset({RULE_ERROR, POPULATION})

    def axes(
        self, problem: Problem, basis: Directions, given: ConditionalTarget, sets: Any
    ) -> Axes:
        """Return one channel for each direction, and one for |b|^2."""
        target = given.h1.T
        # the law always has an unlearnt direction
        if not len(target):
            target = np.zeros((1, len(given.nodes)))
        # ds = d(s^2)/(2 s): the channel is that of |b|^2
        return unit_axes(basis, target, 1 / (2 * self.scale(problem)))

    def bulks(self, problem: Problem, basis: Directions) -> tuple[Bulk, ...]:
        """Return the law of the rows of every set."""
        return tuple(self.bulk.take([number]) for number in range(len(self)))

    def spread(self, problem: Problem, layer: Layer) -> Spread:
        """Return the lengths; how single rows differ is not followed."""
        return Spread(length_across(problem, layer), overlaps=None, of_lengths=None)

    def sums(
        self,
        problem: Problem,
        layer: Layer,
        seen: Sequence[Description],
        asked: Asked,
        set_of_point: Integers,
        fit: Fit,
    ) -> Sums | None:
        """Return the sums over single rows along the spike."""
        return sums_on_axes(fit, seen[0].learnt, self.scale_of_model(set_of_point))
