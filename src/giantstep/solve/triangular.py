"""Cholesky factors and triangular systems of large matrices, in blocks between which the deadline is looked at.

A factor of some thousand rows is one call of LAPACK for seconds or minutes, in which no deadline is heard.
"""

from __future__ import annotations

import numpy as np

from giantstep.blocks import split_rows
from giantstep.deadline import check_time
from giantstep.types import Floats

_ROWS, _NUMBERS = 256, 1 << 22
"""Rows of a block, and numbers of a block of right sides."""


def cholesky_in_blocks(matrix: Floats) -> Floats:
    """Return the lower triangular L with L L^T = `matrix`, positive definite and given on and below its diagonal."""
    factor, blocks = np.zeros_like(matrix), list(split_rows(len(matrix), 1, _ROWS))
    for number, own in enumerate(blocks):
        before = slice(0, own.start)
        factor[own, own] = np.linalg.cholesky(matrix[own, own] - factor[own, before] @ factor[own, before].T)
        inverse = np.linalg.inv(factor[own, own]).T
        for below in blocks[number + 1 :]:
            check_time()
            factor[below, own] = (matrix[below, own] - factor[below, before] @ factor[own, before].T) @ inverse
    return factor


def solve_lower_in_blocks(factor: Floats, right: Floats) -> Floats:
    """Return L^-1 B for a lower triangular L (n, n) and right sides B (n, m)."""
    solution, blocks = np.empty_like(right), list(split_rows(len(factor), 1, _ROWS))
    inverses = [np.linalg.inv(factor[own, own]) for own in blocks]
    for columns in split_rows(right.shape[1], _ROWS, _NUMBERS):
        for number, own in enumerate(blocks):
            check_time()
            rest = right[own, columns].copy()
            for earlier in blocks[:number]:
                rest -= factor[own, earlier] @ solution[earlier, columns]
            solution[own, columns] = inverses[number] @ rest
    return solution
