"""A table of real inputs: its centred rows in the eigenbasis of their covariance, and a target planted there.

What the limit assumes of inputs, and how far these are from it: effective ranks, and two tests of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from giantstep.display import aligned
from giantstep.errors import bad_field
from giantstep.inputs.law import InputLaw
from giantstep.types import Floats

NO_VARIANCE = 1e-10
"""Eigenvalues below this, relative to the largest, are directions in which the rows do not vary."""

MOST_CORRELATION = 1e-6
"""Of the outputs z_a of two directions of a target, which is a function of independent ones."""


class InputTable(NamedTuple):
    """Centred rows scaled to tr Sigma = d: eigenvalues (d,), falling; `basis` (columns, d) are the eigenvectors."""

    rows: Floats
    eigenvalues: Floats
    basis: Floats

    def whitened(self) -> Floats:
        """Return the rows in whitened eigen-coordinates (N, d), of covariance I."""
        return self.rows @ self.basis / np.sqrt(self.eigenvalues)


def diagonalise(X: Any, name: str = "X") -> InputTable:
    """Return a table in its eigenbasis, without directions without variance; `name` is that of its field.

    It must hold numbers, with enough rows and no constant column.
    """
    try:
        table = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise bad_field(name, X, "a table of numbers, one row for each input") from None
    shown = f"<array {'x'.join(map(str, table.shape))}>"
    if table.ndim != 2 or table.shape[1] < 2:
        raise bad_field(name, shown, f"a table of rows with at least 2 columns, not of shape {table.shape}")
    if not np.isfinite(table).all():
        column = int(np.flatnonzero(~np.isfinite(table).all(axis=0))[0])
        raise bad_field(name, shown, f"finite in every place (column {column} is not)")
    needed = 2 * table.shape[1]
    if len(table) < needed:
        form = "a covariance is given by gs.InputCovariance(eigenvalues, target)"
        raise bad_field(name, shown, f"a table of at least {needed} rows, twice its columns ({form})")
    constant = np.flatnonzero(np.ptp(table, axis=0) == 0)
    if constant.size:
        raise bad_field(name, shown, f"without constant columns (column {int(constant[0])} is one)")
    centred = table - table.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    kept = values > NO_VARIANCE * values[-1]
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    scale = values.mean()
    return InputTable(centred / np.sqrt(scale), values / scale, vectors)


def whitened_target(table: InputTable, direction: ArrayLike | None, name: str = "target_direction") -> Floats:
    """Return directions in whitened eigen-coordinates (r, d), rows of length 1; `name` is that of their field."""
    d, columns = len(table.eigenvalues), len(table.basis)
    if direction is None:
        half = (d + 1) // 2
        signs = np.where(np.random.default_rng(0).random(half) < 0.5, -1.0, 1.0)
        return np.pad(signs / np.sqrt(half), (0, d - half))[None]
    try:
        given = np.atleast_2d(np.asarray(direction, dtype=float))
    except (TypeError, ValueError):
        given = np.empty((1, 0))
    if given.ndim != 2 or given.shape[1] != columns or not np.isfinite(given).all():
        raise bad_field(name, direction, f"{columns} finite numbers, one for each column")
    rows = given @ table.basis * np.sqrt(table.eigenvalues)
    lengths = np.linalg.norm(rows, axis=1)
    largest = np.linalg.norm(given, axis=1) * np.sqrt(table.eigenvalues[0])
    if np.any(lengths <= 1e-6 * largest):
        raise bad_field(name, direction, "a direction in which the rows vary, not one of their null space")
    rows = rows / lengths[:, None]
    correlation = np.abs(rows @ rows.T - np.eye(len(rows))).max()
    if correlation > MOST_CORRELATION:
        allowed = f"directions without correlation on the rows, W* Sigma W*^T = I (one is {correlation:.2g})"
        raise bad_field(name, f"<array {len(given)}x{columns}>", allowed)
    return rows


# -- How far inputs are from what the limit assumes: effective ranks --------------------------------------


LEAST_RANKS = (100.0, 20.0)
"""Effective ranks r_eff and r_4 of the inputs below which the limit is off: structured_inputs, section 8."""
MOST_EXCESS = 3.0
"""Variance of |x|^2/d over its Gaussian value up to which rows of a table are taken for Gaussian ones."""


@dataclass(frozen=True)
class RowTests:
    """What tells the rows of a table from Gaussian inputs of the same covariance: structured_inputs, section 13."""

    rows: int  # how many there are
    norm_excess: float  # Var(|x|^2/d) over its value for Gaussian inputs, 2 int lambda^2 dmu/d
    kurtosis: tuple[float, ...]  # E z^4/(E z^2)^2 along every direction of the target; 3 for Gaussian inputs

    @classmethod
    def of_table(cls, table: InputTable, target: Floats) -> Self:
        """Return the tests of a table with a target in whitened eigen-coordinates (r, d)."""
        d = len(table.eigenvalues)
        lengths = np.sum(table.rows**2, axis=1) / d
        excess = float(lengths.var() / (2 * np.mean(table.eigenvalues**2) / d))
        z = table.whitened() @ target.T
        kurtosis = np.mean(z**4, axis=0) / np.mean(z**2, axis=0) ** 2
        return cls(len(table.rows), excess, tuple(float(value) for value in kurtosis))


def describe_inputs(law: InputLaw, tests: RowTests | None) -> str:
    """Return a table of the effective ranks of d eigenvalues and of the tests of their rows, where there are some."""
    d, binned = len(law.masses), len(law.binned().masses)
    first, second = (d * rank for rank in law.effective_ranks())
    spectrum = "one atom for each eigenvalue" if d == binned else "the leading eigenvalues, and bins of the others"
    lines = [
        ("d", str(d), "directions in which inputs vary"),
        ("atoms", str(binned), spectrum),
        ("r_eff", f"{first:.1f}", f"(tr Sigma)^2/tr Sigma^2; the limit wants {LEAST_RANKS[0]:g} or more"),
        ("r_4", f"{second:.1f}", f"(tr Sigma^2)^2/tr Sigma^4; the limit wants {LEAST_RANKS[1]:g} or more"),
    ]
    if tests is not None:
        kurtosis = ", ".join(f"{value:.2g}" for value in tests.kurtosis)
        lines += [
            ("rows", str(tests.rows), "inputs of the table"),
            ("Var |x|^2", f"{tests.norm_excess:.2g}", f"times that of Gaussian inputs; up to {MOST_EXCESS:g} is near"),
            ("kurtosis of z", kurtosis, "3 for Gaussian inputs"),
        ]
    return "\n".join(aligned(lines))


def warnings_of(ranks: Floats, excess: float) -> list[str]:
    """Warn where rows are far from Gaussian, or where effective ranks (G, 2) of inputs are low at some point."""
    said = []
    if excess > MOST_EXCESS:
        said.append(
            f"The squared lengths of the rows have {excess:.3g} times the variance of Gaussian inputs: the limit is "
            "that of Gaussian inputs, and may be far off."
        )
    low = ranks[np.argmin(np.min(ranks / LEAST_RANKS, axis=1))]
    if np.any(low < LEAST_RANKS):
        said.append(
            f"The inputs have the effective ranks r_eff = {low[0]:.3g} and r_4 = {low[1]:.3g}: below 100 and 20 the "
            'limit may be several percent off (theory="auto" at a finite dim mends part; see the page on structured '
            "inputs)."
        )
    return said
