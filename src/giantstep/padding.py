"""Arrays of one variable that differ in length, laid into one: NaN (of names: no name) where one is shorter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from giantstep.types import Array, Floats


def blank_array(shape: Sequence[int], like: Array) -> Array:
    """Return an array of NaN, or of empty names where `like` holds names."""
    names = like.dtype.kind in "UO"
    return np.full(shape, "" if names else np.nan, dtype=object if names else np.float64)


def largest_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape into which all of them fit."""
    return tuple(map(max, zip(*shapes)))


def corner(index: Any, shape: Sequence[int]) -> Any:
    """Return where an array of that shape goes at `index` of a larger one."""
    return (index, *map(slice, shape))


def with_zeros(values: Floats, shape: Sequence[int]) -> Floats:
    """Return an array of that shape with the values in its first corner, zeros beyond."""
    whole = np.zeros(shape)
    whole[tuple(map(slice, values.shape))] = values
    return whole


def last_known(values: Floats, axis: int) -> Floats:
    """Return the last number along an axis, where a trajectory ends; beyond it a shorter one is padded with NaN."""
    known = np.isfinite(np.moveaxis(values, axis, -1))
    last = known.shape[-1] - 1 - np.argmax(known[..., ::-1], axis=-1)
    return np.take_along_axis(np.moveaxis(values, axis, -1), last[..., None], axis=-1)[..., 0]


def pad_stack(arrays: Sequence[Any]) -> Array:
    """Return arrays of one variable as one, (B, ...), blank where one is shorter or None."""
    known = [np.asarray(array) for array in arrays if array is not None]
    shapes = {array.shape for array in known}
    if len(known) == len(arrays) and len(shapes) == 1:
        return np.stack(known).astype(object if known[0].dtype.kind in "UO" else np.float64)
    full = blank_array((len(arrays), *largest_shape(list(shapes))), known[0])
    for index, array in enumerate(arrays):
        if array is not None:
            full[corner(index, np.shape(array))] = array
    return full
