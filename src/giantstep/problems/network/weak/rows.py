"""Rows after a small or growing step at a finite dimension: step_size_regimes section
9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from giantstep.core.base.types import Booleans, Floats, Integers, Strings
from giantstep.core.readout import FiniteSize
from giantstep.problems.network.rows.isotropic import BulkRows
from giantstep.problems.network.rows.words import INDEPENDENT, STRETCHED_ALONE

if TYPE_CHECKING:
    from giantstep.core.readout.fits import Fit
    from giantstep.problems.network.problem import Problem

SHORT_SPIKE = (
    "with initial_output = 1 so small a step leaves a spike shorter than its aligned"
    " part; leave dim out"
)


@dataclass(frozen=True, eq=False)
class WeakRows(BulkRows):
    """Rows with a spike of order 1/sqrt(p), whose means follow |x|^2 at a finite
    dimension: step_size_regimes section 6.
    """

    # (M,): whether the length of the spike is below that of its aligned part
    short: Booleans

    @property
    def flagged(self) -> Strings:
        """A spike that is too short has no law of its own."""
        return np.where(self.short, SHORT_SPIKE, "")

    def finite_size(
        self, problem: Problem, set_of_point: Integers, dim: Floats
    ) -> FiniteSize:
        """Return the stretch of the inputs; so small a step leaves the means of the
        blocks as those of independent rows.
        """
        return FiniteSize(1 / dim, stretch=self.stretch(problem, set_of_point, dim))

    def terms(self, problem: Problem) -> str:
        """Say which terms of a finite size are in."""
        return INDEPENDENT + STRETCHED_ALONE

    def added_to_means(self, problem: Problem) -> Floats | None:
        """No term of order 1/d uses the means."""
        return None

    def means_in_initial_rows(
        self, problem: Problem, set_of_point: Integers, fit: Fit
    ) -> float:
        """Nothing is known of the means beside those of independent rows."""
        return 0.0
