"""Features wherever they lie: arrays, frames, memory maps, or anything that yields blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from giantstep.errors import InputError
from giantstep.types import Array

BLOCK = 2**22
"""Numbers of a block that is read at a time from an array."""


@dataclass(frozen=True)
class Source:
    """Rows of features, read once from first to last.

    Attributes
    ----------
    blocks : returns blocks (m, p) in order.
    columns : p.
    array : the whole table where it lies in memory, else None.
    """

    blocks: Callable[[], Iterator[Array]]
    columns: int
    array: Array | None


def open_features(features: Any) -> Source:
    """Return features as a source of blocks.

    Parameters
    ----------
    features : (N, p) array, frame or memory map (anything with a shape that can be sliced), or an iterable of blocks.
    """
    if hasattr(features, "columns") and hasattr(features, "dtypes"):
        features = _frame_numbers(features)
    if hasattr(features, "toarray"):
        raise InputError("The features are a sparse matrix; give a dense one, or blocks of dense rows.")
    if isinstance(features, list | tuple) and not _is_list_of_blocks(features):
        features = np.asarray(features)
    if hasattr(features, "shape") and hasattr(features, "__getitem__"):
        _check_shape(features.shape)
        in_memory = isinstance(features, np.ndarray) and not isinstance(features, np.memmap)
        return Source(lambda: _slices(features), features.shape[1], features if in_memory else None)
    if isinstance(features, Iterable):
        blocks = iter(features)
        first = next(blocks, None)
        if first is None:
            raise InputError("The features have no blocks, so no rows.")
        return Source(lambda: chain([first], blocks), check_block(first, None).shape[1], None)
    raise InputError(f"Features are an array or an iterable of blocks of rows, not a {type(features).__name__}.")


def _frame_numbers(frame: Any) -> Array:
    """Return the numbers of a pandas frame; a column that has others is named."""
    for name, kind in zip(frame.columns, frame.dtypes):
        if getattr(kind, "kind", "O") not in "biuf":
            raise InputError(
                f"Column `{name}` of the features holds text or other objects; leave it out (--drop {name}) or code it."
            )
    return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))


def check_block(block: Any, columns: int | None) -> Array:
    """Return a block as an array of real numbers with so many columns."""
    values = np.asarray(block) if not hasattr(block, "get") else block.get()
    if values.dtype.kind not in "biuf":
        raise InputError(f"The features must be numbers, but their type is {values.dtype}.")
    _check_shape(values.shape)
    if columns is not None and values.shape[1] != columns:
        raise InputError(f"A block of the features has {values.shape[1]} columns, those before it {columns}.")
    return values


def _slices(features: Any) -> Iterator[Array]:
    step = max(1, BLOCK // features.shape[1])
    for start in range(0, features.shape[0], step):
        yield features[start : start + step]


def _is_list_of_blocks(features: Any) -> bool:
    return bool(features) and all(getattr(block, "ndim", 0) == 2 for block in features)


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or 0 in shape:
        raise InputError(f"The features must be a table with rows and columns, but have the shape {tuple(shape)}.")
