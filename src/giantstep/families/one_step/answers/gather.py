"""Answers of groups of points, gathered into one for the whole batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from giantstep.family import Answer
from giantstep.types import Array, Floats, Integers

IDENTITY_TOLERANCE = 1e-6
"""Violation of the identity that checks a solution above which digits are lost."""
NO_BULK = "the step cancels the initial weights of a block (bulk scale s = 0)"


class Gatherer:
    """Collects the answers of groups of points into arrays over the whole batch; NaN where nothing was put."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.values: dict[str, Array] = {}
        self.status = np.full(count, "", dtype=object)
        self.residual = np.full(count, np.nan)
        self.iterations = np.zeros(count, dtype=np.int64)
        self.warnings: list[str] = []

    def put(
        self, index: Integers, values: Mapping[str, Array], status: Array, residual: Floats, iterations: Integers
    ) -> None:
        """Put what is known of the points `index`."""
        for name, array in values.items():
            column = self.values.setdefault(name, np.full((self.count, *array.shape[1:]), np.nan))
            column[index] = array
        self.status[index], self.residual[index], self.iterations[index] = status, residual, iterations

    def put_answer(self, index: Integers, answer: Answer) -> None:
        """Put a whole answer, its warnings too."""
        self.put(index, answer.values, answer.status, answer.residual, answer.iterations)
        self.warnings += answer.warnings

    def answer(self) -> Answer:
        """Return all that was put as one answer."""
        status = self.status.astype(str)
        return Answer(self.values, status, self.residual, self.iterations, warnings=self.warnings)
