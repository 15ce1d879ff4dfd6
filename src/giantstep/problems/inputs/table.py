"""A table of real inputs: its centred rows in the eigenbasis of their covariance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from giantstep.core.base.columns import constant_columns, warn_of_constant
from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Booleans, Floats

NO_VARIANCE = 1e-10
"""Eigenvalues below this, relative to the largest, are directions in which the rows do
not vary.
"""
MOST_CORRELATION = 1e-6
"""Of the outputs z_a of two directions of a target, which is a function of independent
ones.
"""
_NULL_SPACE = 1e-6
"""Length of Sigma^1/2 w*, relative to the largest it could have, of a direction in
which rows do not vary.
"""


class InputTable(NamedTuple):
    """Centred rows scaled to tr Sigma = d: eigenvalues (d,), falling; `basis`
    (columns, d) are the eigenvectors.
    """

    rows: Floats
    eigenvalues: Floats
    basis: Floats

    def whitened(self) -> Floats:
        """Return the rows in whitened eigen-coordinates (N, d), of covariance I."""
        return self.rows @ self.basis / np.sqrt(self.eigenvalues)


def diagonalise(X: Any, name: str = "X") -> InputTable:
    """Return a table in its eigenbasis, without directions without variance; `name` is
    that of its field.
    """
    try:
        table = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise bad_field(name, X, "a table of numbers, one row for each input") from None
    constant = _check_table(table, name)
    warn_of_constant(constant, getattr(X, "columns", None))
    centred = table - table.mean(axis=0)
    # the mean of equal numbers is rounded
    centred[:, constant] = 0.0
    if constant.any():
        varying = np.ascontiguousarray(centred[:, ~constant])
    else:
        varying = centred
    values, vectors = np.linalg.eigh(varying.T @ varying / len(varying))
    present = values > NO_VARIANCE * values[-1]
    # eigh has them rising
    values = values[present][::-1]
    vectors = vectors[:, present][:, ::-1]
    if constant.any():
        # the eigenvectors of the table without these columns, signs and all
        basis = np.zeros((table.shape[1], vectors.shape[1]))
        basis[~constant] = vectors
    else:
        basis = vectors
    # the mean eigenvalue is 1: tr Sigma = d, directions without variance left out
    scale = values.mean()
    return InputTable(
        rows=centred / np.sqrt(scale), eigenvalues=values / scale, basis=basis
    )


def _check_table(table: Floats, name: str) -> Booleans:
    """Return which columns are constant; refuse a table that has no covariance."""
    text = f"<array {'x'.join(map(str, table.shape))}>"
    if table.ndim != 2 or table.shape[1] < 2:
        allowed = f"a table of rows with at least 2 columns, not of shape {table.shape}"
        raise bad_field(name, text, allowed)
    if not np.isfinite(table).all():
        column = int(np.flatnonzero(~np.isfinite(table).all(axis=0))[0])
        raise bad_field(name, text, f"finite in every place (column {column} is not)")
    constant = constant_columns(table)
    varying = int(np.sum(~constant))
    if varying < 2:
        allowed = f"a table with at least 2 columns that vary ({varying} of them does)"
        raise bad_field(name, text, allowed)
    # fewer rows leave eigenvalues far from those of the law the rows come from
    least = 2 * varying
    if len(table) < least:
        form = "a covariance is given by gs.InputCovariance(eigenvalues, target)"
        allowed = f"a table of at least {least} rows, twice its columns ({form})"
        raise bad_field(name, text, allowed)
    return constant


def whitened_target(
    table: InputTable, direction: ArrayLike | None, name: str = "target_direction"
) -> Floats:
    """Return directions in whitened eigen-coordinates (r, d), rows of length 1; `name`
    is that of their field.
    """
    if direction is None:
        return _usual_target(len(table.eigenvalues))
    columns = len(table.basis)
    try:
        directions = np.atleast_2d(np.asarray(direction, dtype=float))
    except (TypeError, ValueError):
        # refused below, as directions of another length
        directions = np.empty((1, 0))
    fits = directions.ndim == 2 and directions.shape[1] == columns
    if not fits or not np.isfinite(directions).all():
        allowed = f"{columns} finite numbers, one for each column"
        raise bad_field(name, direction, allowed)
    # Sigma^1/2 w*
    rows = directions @ table.basis * np.sqrt(table.eigenvalues)
    lengths = np.linalg.norm(rows, axis=1)
    largest = np.linalg.norm(directions, axis=1) * np.sqrt(table.eigenvalues[0])
    if np.any(lengths <= _NULL_SPACE * largest):
        allowed = "a direction in which the rows vary, not one of their null space"
        raise bad_field(name, direction, allowed)
    rows = rows / lengths[:, None]
    correlation = np.abs(rows @ rows.T - np.eye(len(rows))).max()
    if correlation > MOST_CORRELATION:
        allowed = (
            "directions without correlation on the rows, W* Sigma W*^T = I (one is"
            f" {correlation:.2g})"
        )
        raise bad_field(name, f"<array {len(directions)}x{columns}>", allowed)
    return rows


def _usual_target(dim: int) -> Floats:
    """Return one direction with the same share of Var z on every eigenvector of the
    leading half, (1, d).
    """
    half = (dim + 1) // 2
    # fixed signs: a table has one usual target
    signs = np.where(np.random.default_rng(0).random(half) < 0.5, -1.0, 1.0)
    return np.pad(signs / np.sqrt(half), (0, dim - half))[None]
