"""Subspaces of the directions z1..zk, as orthonormal rows: complements, readable bases,
their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.target import Target


def complement(known: Floats, dims: int) -> Floats:
    """Return orthonormal rows that span what is orthogonal to the rows of ``known``;
    the axes where none is known.
    """
    if not len(known):
        return np.eye(dims)
    projector = np.eye(dims) - known.T @ known
    sizes, vectors = np.linalg.eigh(projector)
    return tidy(vectors[:, sizes > 0.5].T)


def tidy(rows: Floats) -> Floats:
    """Return an orthonormal basis of the same span, the coordinate axes where they are
    one, first entries positive.
    """
    if not len(rows):
        return rows
    echelon = np.array(rows, dtype=float)
    rank = 0
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
    """Make the first entry of every row positive that is not small, and small entries
    zero.
    """
    leading = np.argmax(np.abs(rows) > 1e-6, axis=1)
    signed = rows * np.sign(rows[np.arange(len(rows)), leading])[:, None]
    return np.where(np.abs(signed) < 1e-9, 0.0, signed)


def direction_text(row: Floats) -> str:
    """Write a direction as a combination of the variables."""
    if len(row) == 1:
        return "z"
    parts = [(value, f"z{i + 1}") for i, value in enumerate(row) if abs(value) > 1e-6]
    text = ""
    for value, name in parts:
        size = "" if abs(abs(value) - 1) < 1e-9 else f"{abs(value):.3g} "
        if not text:
            if value < 0:
                sign = "-"
            else:
                sign = ""
        elif value < 0:
            sign = " - "
        else:
            sign = " + "
        text += f"{sign}{size}{name}"
    return text


# -- Directions that are learnt --------------------------------------------------------


LEARNT = 1e-9
"""Singular values of the shifts U, relative to max(1, the largest), below which a
direction counts as not learnt.
"""
FEW_AXES = 12
"""Coordinates up to which learnt directions are chosen near the axes."""


def rank_of(columns: Floats) -> int:
    """Return the number of directions that columns (r, c) span."""
    return int(np.sum(np.linalg.svd(columns, compute_uv=False) > LEARNT))


class Directions(NamedTuple):
    """Orthonormal directions of R^R: learnt (R, m), and the rest of what the target
    sees (R, L).
    """

    learnt: Floats
    rest: Floats

    def along_leading(self, shifts: Floats, shown: int | None = None) -> Directions:
        """Turn the learnt directions so that the first is the leading one of `shifts`
        (k, R), positive where shown.
        """
        if not self.learnt.shape[1]:
            return self
        rows = np.linalg.svd(shifts @ self.learnt)[2]
        learnt = self.learnt @ rows.T
        seen = learnt[:shown]
        signs = np.sign(
            seen[np.argmax(np.abs(seen), axis=0), np.arange(learnt.shape[1])]
        )
        return Directions(learnt * signs, self.rest)

    def of_target(self, frame: Floats) -> int:
        """Return how many directions of the target (r, R) lie, in part or whole, inside
        those that are learnt.

        What rows share may lie across the target, too: the noise of a batch, or Sigma
        w* beside w*.
        """
        return rank_of(frame @ self.learnt)

    def silent(self) -> Floats:
        """Return the directions that are neither learnt nor seen by the target, as
        columns, near the axes.
        """
        R = len(self.learnt)
        both = np.concatenate(self, axis=1)
        projector = np.eye(R) - both @ both.T
        return orthonormal(
            [projector @ axis for axis in np.eye(R)], R - both.shape[1], R
        )


def split_directions(U: Floats, frame: Floats, target: Target) -> Directions:
    """Return a basis of the span of the rows of U (k, R), first a normal of the target,
    and of what is left.
    """
    R = U.shape[1]
    _, values, rows = np.linalg.svd(U, full_matrices=False)
    span = rows[values > LEARNT * max(1.0, float(values.max(initial=0.0)))]
    normals = [np.array(plane.normal) @ frame for plane in target.planes]
    if len(span):
        inside = [n for n in normals if np.linalg.norm(n - span.T @ (span @ n)) < 1e-9]
    else:
        inside = []
    if R <= FEW_AXES:
        axes = [span.T @ (span @ axis) for axis in np.eye(R)]
    else:
        axes = []
    learnt = orthonormal([*inside, *axes, *span], len(span), R)
    left = frame - frame @ learnt @ learnt.T  # what is left of the targets
    seen = int(np.sum(np.linalg.svd(left, compute_uv=False) > 1e-9))
    return Directions(learnt, orthonormal(list(left), seen, R))


def orthonormal(vectors: Sequence[Floats], count: int, R: int) -> Floats:
    """Return `count` independent vectors orthonormalised, as columns (R, count):
    earlier ones first, if long enough.
    """
    basis = np.zeros((0, R))
    for cut in (0.5, 1e-3, 1e-8, 1e-12):
        for vector in vectors:
            if len(basis) == count:
                break
            for _ in range(2):
                vector = vector - basis.T @ (basis @ vector)
            length = np.linalg.norm(vector)
            if length > cut:
                basis = np.concatenate([basis, vector[None] / length])
    return basis.T
