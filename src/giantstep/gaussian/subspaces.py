"""Subspaces of the directions z1..zk, as orthonormal rows: complements, readable bases, their names."""

from __future__ import annotations

import numpy as np

from giantstep.types import Floats


def complement(known: Floats, dims: int) -> Floats:
    """Return orthonormal rows that span what is orthogonal to the rows of ``known``; the axes where none is known."""
    if not len(known):
        return np.eye(dims)
    projector = np.eye(dims) - known.T @ known
    sizes, vectors = np.linalg.eigh(projector)
    return tidy(vectors[:, sizes > 0.5].T)


def tidy(rows: Floats) -> Floats:
    """Return an orthonormal basis of the same span, the coordinate axes where they are one, first entries positive."""
    if not len(rows):
        return rows
    echelon, rank = np.array(rows, dtype=float), 0
    for column in range(rows.shape[1]):
        if rank == len(rows):
            break
        pivot = rank + int(np.argmax(np.abs(echelon[rank:, column])))
        if abs(echelon[pivot, column]) < 1e-7:
            continue
        echelon[[rank, pivot]] = echelon[[pivot, rank]]
        echelon[rank] /= echelon[rank, column]
        others = np.arange(len(rows)) != rank
        echelon[others] -= echelon[others, column, None] * echelon[rank]
        rank += 1
    unit = echelon / np.linalg.norm(echelon, axis=1)[:, None]
    if np.max(np.abs(unit @ unit.T - np.eye(len(unit)))) > 1e-7:
        unit = np.array(rows, dtype=float)
    return tidy_signs(unit)


def tidy_signs(rows: Floats) -> Floats:
    """Make the first entry of every row positive that is not small, and small entries zero."""
    leading = np.argmax(np.abs(rows) > 1e-6, axis=1)
    signed = rows * np.sign(rows[np.arange(len(rows)), leading])[:, None]
    return np.where(np.abs(signed) < 1e-9, 0.0, signed)


def direction_text(row: Floats) -> str:
    """Write a direction as a combination of the variables.

    >>> direction_text(np.array([0.70710678, -0.70710678]))
    '0.707 z1 - 0.707 z2'
    """
    if len(row) == 1:
        return "z"
    parts = [(value, f"z{i + 1}") for i, value in enumerate(row) if abs(value) > 1e-6]
    text = ""
    for value, name in parts:
        size = "" if abs(abs(value) - 1) < 1e-9 else f"{abs(value):.3g} "
        sign = ("-" if value < 0 else "") if not text else (" - " if value < 0 else " + ")
        text += f"{sign}{size}{name}"
    return text
