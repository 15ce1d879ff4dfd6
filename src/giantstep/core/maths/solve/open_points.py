"""The points of a batch that are still iterated, where solved ones are frozen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Booleans, Indices


class OpenPoints:
    """Rounds of an iteration over a batch; a point is frozen as soon as it is solved,
    so that its answer does not depend on its neighbours.

    A loop over it yields the points that are open, as indices into the batch, until
    none is left or the rounds are over. Every round begins with a look at the
    time.

    >>> guess = np.array([1.0, 100.0])
    >>> points = OpenPoints(len(guess), rounds=5)
    >>> for active in points:
    ...     guess[active] /= 2
    ...     points.freeze(guess[active] < 0.6)
    >>> guess, points.active
    (array([0.5  , 3.125]), array([1]))
    """

    def __init__(self, points: int | Indices, rounds: int) -> None:
        self.active: Indices
        if isinstance(points, int):
            self.active = np.arange(points)
        else:
            self.active = points
        self.rounds = rounds

    def __iter__(self) -> Iterator[Indices]:
        for _ in range(self.rounds):
            if not self.active.size:
                return
            check_time()
            yield self.active

    def freeze(self, solved: Booleans) -> None:
        """Freeze those of the active points that are solved."""
        self.active = self.active[~solved]
