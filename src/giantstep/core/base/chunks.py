"""Blocks of large arrays.

A computation looks at its deadline between two operations only
(`giantstep.core.base.deadline`): one operation on an array of gigabytes would be deaf
for many seconds. What can become so large is computed in blocks, with a look before
each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats

BLOCK = 1 << 23
"""Numbers of a block: 64 MB, of which most operations take a tenth of a second."""


def split_rows(rows: int, numbers: int, block: int = BLOCK) -> Iterator[slice]:
    """Yield consecutive parts of so many rows with `numbers` numbers each, at most a
    block (or one row) at a time.
    """
    size = max(1, block // max(numbers, 1))
    for start in range(0, rows, size):
        check_time()
        yield slice(start, min(start + size, rows))


def filled(shape: tuple[int, ...], value: float) -> Floats:
    """Return an array that holds one value, written block by block: memory that is
    touched first takes its time.
    """
    array = np.empty(shape)
    flat = array.reshape(-1)
    for part in split_rows(flat.size, 1):
        flat[part] = value
    return array


def with_zeros(values: Floats, shape: Sequence[int]) -> Floats:
    """Return an array of that shape with the values in its first corner, zeros
    beyond.
    """
    whole = np.zeros(shape)
    whole[tuple(map(slice, values.shape))] = values
    return whole
