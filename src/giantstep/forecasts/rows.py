"""Rows of features wherever they lie, and one pass over them.

Features are arrays, frames, memory maps, or anything that yields blocks of rows. The pass leaves sums from which Gram
matrices follow, the rows that are kept, and what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from giantstep.errors import InputError
from giantstep.forecasts.settings import name_rows
from giantstep.lab.algebra import add_gram
from giantstep.lab.devices import to_numpy
from giantstep.types import Array, Booleans, DeviceArray, Floats, Integers

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


LARGEST = 1e100
"""Entries above this are refused: their squares leave the range of floating point."""
FEWEST = 10
"""Rows that a forecast needs."""


class RowMoments(NamedTuple):
    """Second moments of centred rows, on the device: X^T X, X^T Y, |Y|^2, and the means that were taken off."""

    gram: DeviceArray
    cross: DeviceArray
    label_square: Floats
    feature_mean: DeviceArray
    label_mean: Floats
    rows: int


@dataclass
class Sums:
    """Sums over rows of shifted features and labels, in float64; sums of disjoint rows add up."""

    gram: DeviceArray
    cross: DeviceArray
    label_square: Floats
    feature_sum: DeviceArray
    label_sum: Floats
    count: int = 0

    @classmethod
    def zero(cls, columns: int, outputs: int, xp: ModuleType) -> Sums:
        """Return the sums over no rows."""
        gram = xp.zeros((columns, columns), order="F")
        cross, total = xp.zeros((columns, outputs)), xp.zeros(columns)
        return cls(gram, cross, np.zeros((outputs, outputs)), total, np.zeros(outputs))

    def add(self, features: DeviceArray, labels: Floats, xp: ModuleType) -> None:
        """Add rows."""
        add_gram(self.gram, features, xp)
        self.cross += features.T @ xp.asarray(labels)
        self.label_square += labels.T @ labels
        self.feature_sum += xp.sum(features, axis=0)
        self.label_sum += labels.sum(axis=0)
        self.count += len(labels)

    def __add__(self, other: Sums) -> Sums:
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__)
        return Sums(*(first + second for first, second in pairs))

    def moments(self, xp: ModuleType) -> RowMoments:
        """Return the moments of the rows around their means; only the lower triangle of the Gram matrix is sure."""
        mean, label_mean = self.feature_sum / self.count, self.label_sum / self.count
        gram = self.gram - self.count * (mean[:, None] * mean).T  # both in Fortran's order
        cross = self.cross - self.count * mean[:, None] * xp.asarray(label_mean)
        square = self.label_square - self.count * np.outer(label_mean, label_mean)
        return RowMoments(gram, cross, square, mean, label_mean, self.count)


@dataclass
class RowReading:
    """What one pass over the features leaves.

    Attributes
    ----------
    shift : (p,) subtracted from all rows, the mean of the first block, so that sums lose no digits.
    label_shift : (R,) mean of the labels.
    parts : sums over each part of the rows.
    kept : (m, p) rows asked for, shifted, on the device.
    duplicates : rows that stand in the features more than once, counted without their first.
    size : largest absolute entry.
    """

    shift: Floats
    label_shift: Floats
    parts: list[Sums]
    kept: DeviceArray
    duplicates: int
    size: float


@dataclass
class _Watch:
    """What the pass looks out for besides the sums."""

    bad: list[int] = field(default_factory=list)
    first_bad_column: int = -1
    hashes: list[int] = field(default_factory=list)
    size: float = 0.0

    def see(self, block: Array, start: int) -> bool:
        """Take note of a block; tell whether all its rows are finite."""
        finite: Booleans = np.all(np.isfinite(block), axis=1)
        if not finite.all():
            if not self.bad:
                row = int(np.argmin(finite))
                self.first_bad_column = int(np.argmin(np.isfinite(block[row])))
            self.bad += (start + np.flatnonzero(~finite)).tolist()
            return False
        self.hashes += [hash(row.tobytes()) for row in block]
        self.size = max(self.size, float(np.abs(block).max()))
        return True


def read_rows(
    source: Source, labels: Floats, keep: Integers, part: Integers, parts: int, xp: ModuleType, *, gram: bool = True
) -> RowReading:
    """Pass once over the features.

    Parameters
    ----------
    labels : (N, R).
    keep : increasing numbers of the rows to be kept.
    part : (N,) number of the part that each row belongs to.
    gram : False keeps rows only, without sums (there are no more rows than columns).
    """
    count, outputs = labels.shape
    watch, reading = _Watch(), None
    label_shift = labels.mean(axis=0)
    for start, block in _numbered(source, count):
        if not watch.see(block, start) or watch.bad:
            continue
        values = xp.asarray(block, dtype=np.float64)
        if reading is None:
            shift = xp.mean(values, axis=0)
            columns = len(shift)
            sums = [Sums.zero(columns, outputs, xp) for _ in range(parts if gram else 0)]
            reading = RowReading(to_numpy(shift), label_shift, sums, xp.empty((len(keep), columns)), 0, 0.0)
        values = values - shift
        low, high = np.searchsorted(keep, [start, start + len(values)])
        reading.kept[low:high] = values[xp.asarray(keep[low:high] - start)]
        for number, sums_of_part in enumerate(reading.parts):
            inside = np.flatnonzero(part[start : start + len(values)] == number)
            if len(inside):
                chosen = values if len(inside) == len(values) else values[xp.asarray(inside)]
                sums_of_part.add(chosen, labels[start + inside] - label_shift, xp)
    if watch.bad or reading is None:
        about = f"{name_rows(np.array(watch.bad), count)} of the features hold NaN or infinity"
        raise InputError(f"{about} (the first in column {watch.first_bad_column}); fill them in or leave them out.")
    if watch.size > LARGEST:
        raise InputError(f"The features reach {watch.size:.3g}, too large for their squares; divide them by a number.")
    reading.duplicates = len(watch.hashes) - len(set(watch.hashes))
    reading.size = watch.size
    return reading


def _numbered(source: Source, count: int) -> Iterator[tuple[int, Array]]:
    """Yield the number of the first row of each block, and the block; rows and labels must be equally many."""
    start, columns = 0, None
    for raw in source.blocks():
        block = check_block(raw, columns)
        columns = block.shape[1]
        if start + len(block) > count:
            more = len(source.array) if source.array is not None else f"at least {start + len(block)}"
            raise InputError(f"There are {more} rows of features but {count} labels.")
        yield start, block
        start += len(block)
    if start != count:
        raise InputError(f"There are {start} rows of features but {count} labels.")
    if count < FEWEST:
        raise InputError(f"There are {count} rows; a forecast needs at least {FEWEST}.")
