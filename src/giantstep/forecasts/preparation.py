"""Features and labels as a forecast takes them: read once, decomposed once, with what the experiment needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from giantstep.errors import GiantstepWarning, InputError
from giantstep.forecasts.decomposition import (
    Decomposition,
    RowSample,
    centred_kernel,
    decompose_gram,
    decompose_kernel,
    sample_rows,
)
from giantstep.forecasts.rows import RowReading, Source, Sums, read_rows
from giantstep.forecasts.settings import LabelNumbers
from giantstep.lab.devices import to_numpy
from giantstep.lab.memory import available_memory
from giantstep.lab.seeds import Draws
from giantstep.types import DeviceArray, Floats, Integers

PARTS = 4
"""Parts of the rows whose sums are kept apart where refits of random rows would cost more than the forecast."""
MOST_WORK = 2e10
"""N p min(N, p) above which the experiment fits those parts instead of random rows."""
SCALES = 1e12
"""Ratio of the scales of two columns beyond which the smaller one is lost to rounding."""


@dataclass(frozen=True)
class PreparedRows:
    """One data set, decomposed.

    Attributes
    ----------
    take : returns rows by their numbers, on the device; None where rows are not in memory.
    parts : sums over disjoint parts of the rows; empty where `take` is there.
    part : (N,) number of the part of each row, -1 for none.
    kept : (m, p) rows of `sample`, shifted like the sums; `label_shift` (R,) was taken off the labels in sums.
    """

    decomposition: Decomposition
    sample: RowSample
    labels: LabelNumbers
    take: Callable[[Integers], DeviceArray] | None
    parts: list[Sums]
    part: Integers
    kept: DeviceArray
    label_shift: Floats
    duplicates: int
    xp: ModuleType


def prepare(
    source: Source, labels: LabelNumbers, *, rows: int, draws: Draws, trials: int, groups: Integers | None
) -> PreparedRows:
    """Read features once and decompose them.

    Parameters
    ----------
    rows : rows that leave-one-out looks at, where there are more.
    draws : random numbers; their device computes.
    groups : (N,) numbers of the groups whose rows stay together.
    """
    xp, count = draws.xp, len(labels.values)
    wide = source.columns >= count
    everything = wide or count <= rows
    _check_room(source.columns, count if everything else rows, wide, draws.device)
    keep = np.arange(count) if everything else np.sort(draws_choice(draws, count, rows))
    work = float(count) * source.columns * min(count, source.columns)
    apart = not wide and trials > 0 and (work > MOST_WORK or (source.array is None and not everything))
    part = _parts(count, groups, draws) if apart else np.zeros(count, dtype=np.int64)
    numbers = PARTS + 1 if apart else 1
    reading = read_rows(source, labels.values, keep, part, numbers, xp, gram=not wide)
    decomposition, sample = (
        _decompose_wide(reading, labels, draws, rows) if wide else _decompose(reading, labels, keep, xp)
    )
    decomposition = replace(decomposition, copies=reading.duplicates)
    _warn(decomposition, reading, xp)
    take = None if apart else _taker(source, reading, everything, xp)
    return PreparedRows(
        decomposition, sample, labels, take, reading.parts[:PARTS] if apart else [], part, reading.kept,
        reading.label_shift, reading.duplicates, xp,
    )  # fmt: skip


def draws_choice(draws: Draws, count: int, size: int) -> Integers:
    """Return `size` of `count` numbers without repetition."""
    generator: Any = Draws(draws.seed, draws.key, draws.trial).generator("rows kept")
    return np.asarray(generator.choice(count, size, replace=False))


def _parts(count: int, groups: Integers | None, draws: Draws) -> Integers:
    """Return the part of each row: equal parts at random, the few rows left over in a fifth; groups stay together."""
    generator: Any = Draws(draws.seed, draws.key, draws.trial).generator("parts")
    if groups is None:
        part = np.full(count, PARTS)
        order = generator.permutation(count)
        each = count // PARTS
        part[order[: each * PARTS]] = np.arange(each * PARTS) // each
        return part
    sizes = np.bincount(groups)
    filled, home = np.zeros(PARTS), np.zeros(len(sizes), dtype=np.int64)
    for group in sorted(generator.permutation(len(sizes)), key=lambda group: -sizes[group]):
        home[group] = int(np.argmin(filled))
        filled[home[group]] += sizes[group]
    return np.asarray(home[groups])


def _decompose(
    reading: RowReading, labels: LabelNumbers, keep: Integers, xp: ModuleType
) -> tuple[Decomposition, RowSample]:
    whole = reading.parts[0]
    for part in reading.parts[1:]:
        whole = whole + part
    moments = whole.moments(xp)
    _refuse_constant(moments.gram, reading, len(labels.values), xp)
    total = float(np.trace(moments.label_square))
    decomposition, loadings = decompose_gram(moments.gram, moments.cross, total, moments.rows, xp)
    centred = labels.values[keep] - reading.label_shift - moments.label_mean
    vectors = (reading.kept - moments.feature_mean) @ loadings
    sample = sample_rows(decomposition, keep, vectors, labels.values[keep], centred, xp)
    if sample.count == decomposition.rows:  # |Y|^2 - |c|^2 loses digits where the fit is nearly perfect
        rest = float(xp.sum(sample.residual**2))
        decomposition = replace(decomposition, rest=rest)
    return decomposition, sample


def _decompose_wide(
    reading: RowReading, labels: LabelNumbers, draws: Draws, rows: int
) -> tuple[Decomposition, RowSample]:
    xp = draws.xp
    features = reading.kept - xp.mean(reading.kept, axis=0)
    centred = labels.values - labels.values.mean(axis=0)
    kernel = centred_kernel(features, xp)
    _refuse_constant(kernel, reading, features.shape[1], xp)
    decomposition, vectors = decompose_kernel(kernel, xp.asarray(centred), features.shape[1], xp)
    count = len(centred)
    keep = np.arange(count) if count <= rows else np.sort(draws_choice(draws, count, rows))
    vectors = vectors if count <= rows else vectors[xp.asarray(keep)]
    return decomposition, sample_rows(decomposition, keep, vectors, labels.values[keep], centred[keep], xp)


def _taker(
    source: Source, reading: RowReading, everything: bool, xp: ModuleType
) -> Callable[[Integers], DeviceArray] | None:
    if everything:
        return lambda index: reading.kept[xp.asarray(index)]
    array = source.array
    if array is None:
        return None
    return lambda index: xp.asarray(array[index], dtype=np.float64) - xp.asarray(reading.shift)


def _refuse_constant(matrix: DeviceArray, reading: RowReading, others: int, xp: ModuleType) -> None:
    """Refuse features whose variance is nothing but rounding; `matrix` is their Gram matrix or kernel."""
    power = float(xp.sum(xp.diagonal(matrix)))
    if power <= len(matrix) * others * (1e-13 * reading.size) ** 2:
        raise InputError("All columns of the features are constant, so that there is nothing to learn from.")


def _check_room(columns: int, kept: int, wide: bool, device: str) -> None:
    """Refuse what cannot be held: kept rows with their singular vectors, and matrices of the smaller side."""
    side = kept if wide else columns
    needed, free = 8.0 * (2 * kept * columns + 4 * side**2), available_memory(device)
    if needed > free:
        remedy = "take fewer rows or columns" if wide else "take fewer columns"
        raise InputError(
            f"A forecast from {columns} columns and {kept} rows at a time needs {needed / 2**30:.3g} GiB of memory, but"
            f" device {device!r} has {free / 2**30:.3g} GiB free; {remedy}."
        )


def _warn(decomposition: Decomposition, reading: RowReading, xp: ModuleType) -> None:
    if reading.duplicates:
        warnings.warn(
            f"{reading.duplicates} of {decomposition.rows} rows of the features are exact copies of others; "
            "leave-one-out then sees its own rows, and the forecast is too good: drop the copies.",
            GiantstepWarning,
            stacklevel=5,
        )
    if reading.parts:
        variances = to_numpy(xp.diagonal(reading.parts[0].gram))
        varying = variances[variances > 0]
        if len(varying) and varying.max() > SCALES**2 * varying.min():
            warnings.warn(
                f"The scales of the columns differ by more than {SCALES:g}; the small ones are lost to rounding: "
                "standardise the columns.",
                GiantstepWarning,
                stacklevel=5,
            )
