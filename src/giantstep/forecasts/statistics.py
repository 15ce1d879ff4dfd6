"""One pass over the rows: sums from which Gram matrices follow, the rows that are kept, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import NamedTuple

import numpy as np

from giantstep.errors import InputError
from giantstep.forecasts.labels import name_rows
from giantstep.forecasts.sources import Source, check_block
from giantstep.lab.algebra import add_gram
from giantstep.lab.devices import to_numpy
from giantstep.types import Array, Booleans, DeviceArray, Floats, Integers

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
