"""What the limit assumes of inputs, and how far these are from it: effective ranks, and
two tests of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from giantstep.core.base.display import aligned
from giantstep.core.base.types import Floats
from giantstep.problems.inputs.law import InputLaw
from giantstep.problems.inputs.table import InputTable

LEAST_RANKS = (100.0, 20.0)
"""Effective ranks r_eff and r_4 of the inputs below which the limit is off:
structured_inputs, section 8.
"""
MOST_EXCESS = 3.0
"""Variance of |x|^2/d over its Gaussian value up to which rows of a table are taken for
Gaussian ones.
"""


@dataclass(frozen=True)
class RowTests:
    """What tells the rows of a table from Gaussian inputs of the same covariance:
    structured_inputs, section 13.
    """

    rows: int  # how many there are
    # Var(|x|^2/d) over its value for Gaussian inputs, 2 int lambda^2 dmu/d
    norm_excess: float
    # E z^4/(E z^2)^2 along every direction of the target; 3 for Gaussian inputs
    kurtosis: tuple[float, ...]

    @classmethod
    def of_table(cls, table: InputTable, target: Floats) -> Self:
        """Return the tests of a table with a target in whitened eigen-coordinates (r,
        d).
        """
        d = len(table.eigenvalues)
        lengths = np.sum(table.rows**2, axis=1) / d
        excess = float(lengths.var() / (2 * np.mean(table.eigenvalues**2) / d))
        z = table.whitened() @ target.T
        kurtosis = np.mean(z**4, axis=0) / np.mean(z**2, axis=0) ** 2
        return cls(len(table.rows), excess, tuple(float(value) for value in kurtosis))


def describe_inputs(law: InputLaw, tests: RowTests | None) -> str:
    """Return a table of the effective ranks of d eigenvalues and of the tests of their
    rows, where there are some.
    """
    d = len(law.masses)
    binned = len(law.binned().masses)
    second_rank, fourth_rank = law.effective_ranks()
    if d == binned:
        spectrum = "one atom for each eigenvalue"
    else:
        spectrum = "the leading eigenvalues, and bins of the others"
    lines = [
        ("d", str(d), "directions in which inputs vary"),
        ("atoms", str(binned), spectrum),
        (
            "r_eff",
            f"{d * second_rank:.1f}",
            f"(tr Sigma)^2/tr Sigma^2; the limit wants {LEAST_RANKS[0]:g} or more",
        ),
        (
            "r_4",
            f"{d * fourth_rank:.1f}",
            f"(tr Sigma^2)^2/tr Sigma^4; the limit wants {LEAST_RANKS[1]:g} or more",
        ),
    ]
    if tests is not None:
        kurtosis = ", ".join(f"{value:.2g}" for value in tests.kurtosis)
        lines += [
            ("rows", str(tests.rows), "inputs of the table"),
            (
                "Var |x|^2",
                f"{tests.norm_excess:.2g}",
                f"times that of Gaussian inputs; up to {MOST_EXCESS:g} is near",
            ),
            ("kurtosis of z", kurtosis, "3 for Gaussian inputs"),
        ]
    return "\n".join(aligned(lines))


def warnings_of(ranks: Floats, excess: float) -> list[str]:
    """Warn where rows are far from Gaussian, or where effective ranks (G, 2) of inputs
    are low at some point.
    """
    warnings = []
    if excess > MOST_EXCESS:
        warnings.append(
            f"The squared lengths of the rows have {excess:.3g} times the variance of"
            " Gaussian inputs: the limit is that of Gaussian inputs, and may be far"
            " off."
        )
    # the point that is worst of all, in either rank
    low = ranks[np.argmin(np.min(ranks / LEAST_RANKS, axis=1))]
    if np.any(low < LEAST_RANKS):
        warnings.append(
            f"The inputs have the effective ranks r_eff = {low[0]:.3g} and r_4 ="
            f" {low[1]:.3g}: below 100 and 20 the limit may be several percent off"
            ' (theory="auto" at a finite dim mends part; see the page on structured'
            " inputs)."
        )
    return warnings
