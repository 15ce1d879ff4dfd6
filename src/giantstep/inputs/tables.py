"""A table of real inputs: its centred rows in the eigenbasis of their covariance, and a target planted there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from giantstep.errors import bad_field
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


def check_table(X: Any, name: str = "X") -> Floats:
    """Return a table of numbers with enough rows and no constant column; `name` is that of the field it is given as."""
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
    return table


def diagonalise(X: Any) -> InputTable:
    """Return a checked table in its eigenbasis; directions without variance are left out."""
    table = check_table(X)
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
