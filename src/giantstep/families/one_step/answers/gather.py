"""Answers of groups of points, gathered into one for the whole batch, and the values that all fits have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.family import Answer
from giantstep.types import Array, Floats, Integers, Strings

if TYPE_CHECKING:
    from giantstep.readout import Classifier, Errors

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
        self,
        index: Integers,
        values: Mapping[str, Array],
        status: Strings | str,
        residual: Floats | float,
        iterations: Integers | int,
    ) -> None:
        """Put what is known of the points `index`."""
        for name, array in values.items():
            column = self.values.setdefault(name, np.full((self.count, *array.shape[1:]), np.nan))
            column[index] = array
        self.status[index], self.residual[index], self.iterations[index] = status, residual, iterations

    def put_point(self, point: int, values: Mapping[str, Any], status: str, residual: float, iterations: int) -> None:
        """Put what is known of one point."""
        rows = {name: np.asarray(value)[None] for name, value in values.items()}
        self.put(np.array([point]), rows, status, residual, iterations)

    def put_answer(self, index: Integers, answer: Answer) -> None:
        """Put a whole answer, its warnings too."""
        self.put(index, answer.values, answer.status, answer.residual, answer.iterations)
        self.warnings += answer.warnings

    def answer(self) -> Answer:
        """Return all that was put as one answer."""
        status = self.status.astype(str)
        return Answer(self.values, status, self.residual, self.iterations, warnings=self.warnings)


def shared_values(solution: Errors | Classifier, V1: Floats, V2: Floats, row_scale: Floats) -> dict[str, Floats]:
    """Return the variables of a fit that every loss has, as spiked_features section 4 names them.

    The first k entries of x are t; psi is the part of the fit along v_perp, which Q1 contains.
    """
    k, psi = solution.theta.shape[1], solution.tau[:, 0]
    square = row_scale[:, :, None] * row_scale[:, None, :]
    return {
        "test_error": solution.test,
        "train_error": solution.train,
        "objective": solution.objective,
        "test_misclassified": solution.misclassified,
        "norm": solution.norm,
        "theta": solution.theta,
        "t": solution.x[:, :k] * row_scale,
        "psi": psi * row_scale,
        "Q2": solution.Q2,
        "V2": V2,
        "Q1": (solution.Q1 + psi[:, :, None] * psi[:, None, :]) * square,
        "V1": V1 * square,
        "identity": solution.identity,
    }
