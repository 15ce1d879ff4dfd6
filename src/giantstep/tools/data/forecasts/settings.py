"""What is asked of a forecast, checked before any row of features is read: labels,
ridges, sizes and effort.

Labels are real numbers (one or several outputs), two classes as +-1, or more of them as
one-hot outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.core.base.columns import leave_out_constant
from giantstep.core.base.errors import InputError, bad_field, warn_user
from giantstep.core.base.types import Array, Booleans, Floats, Integers
from giantstep.core.lab.devices import available_memory
from giantstep.core.lab.seeds import Draws
from giantstep.core.scenario.checks import check_number, check_whole
from giantstep.tools.data.forecasts.decomposition import Decomposition, decompose

TASKS = ("auto", "regression", "classes")
MOST_CLASSES = 50
"""Whole numbers with at most so many values are taken as classes where nobody says what
they are.
"""
FEWEST_ROWS = 5
"""Rows that a class needs."""


@dataclass(frozen=True)
class LabelNumbers:
    """Labels as numbers."""

    values: Floats  # (N, R) outputs, not centred
    classes: Integers | None  # (N,) numbers of the classes from 0; None for regression
    names: tuple[str, ...] = ()  # of the classes, in the order of their numbers


def read_labels(y: Any, task: str = "auto") -> LabelNumbers:
    """Return labels as numbers: (N,) numbers, texts or truth values, or (N, R) outputs
    or one-hot rows of classes.

    With the task auto texts, truth values, two values, one-hot rows and at most 50
    whole numbers are classes.
    """
    if task not in TASKS:
        raise bad_field("task", task, "one of " + ", ".join(TASKS))
    values = np.asarray(y)
    if values.ndim not in (1, 2) or not values.size:
        raise InputError(
            "The labels must be a list or a table, one row for each sample, not of"
            f" shape {values.shape}."
        )
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    _refuse_missing(values)
    if values.ndim == 2:
        return _read_outputs(values, task)
    numeric = values.dtype.kind in "iuf"
    distinct = np.unique(values) if numeric else values
    few = len(distinct) <= min(MOST_CLASSES, len(values) // FEWEST_ROWS)
    like_classes = (
        not numeric
        or len(distinct) == 2
        or (few and np.all(distinct == np.round(distinct)))
    )
    if task == "classes" or (task == "auto" and like_classes):
        return _read_classes(values)
    if values.dtype.kind not in "biuf":
        raise bad_field("task", task, "classes or auto where labels are texts")
    numbers = values.astype(np.float64)
    if np.ptp(numbers) == 0:
        raise InputError(
            f"All {len(numbers)} labels are {numbers[0]:g}; labels must differ."
        )
    return LabelNumbers(numbers[:, None], None)


def _read_outputs(values: Array, task: str) -> LabelNumbers:
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"A table of labels must hold numbers, but its type is {values.dtype}."
        )
    numbers = values.astype(np.float64)
    one_hot = bool(
        np.isin(numbers, (0.0, 1.0)).all() and (numbers.sum(axis=1) == 1).all()
    )
    if task == "classes" and not one_hot:
        raise bad_field(
            "task",
            task,
            "regression or auto where labels are a table that is not one-hot",
        )
    if one_hot and task != "regression":
        return _read_classes(np.argmax(numbers, axis=1))
    if np.ptp(numbers, axis=0).max() == 0:
        raise InputError("All columns of the labels are constant; labels must differ.")
    return LabelNumbers(numbers, None)


def _read_classes(values: Array) -> LabelNumbers:
    if values.dtype.kind in "biuf":
        texts = values
    else:
        texts = np.array([str(value) for value in values])
    distinct, numbers, counts = np.unique(
        texts, return_inverse=True, return_counts=True
    )
    if len(distinct) < 2:
        raise InputError(
            f"All {len(values)} labels are {distinct[0]!s}; at least two classes are"
            " needed."
        )
    if counts.min() < FEWEST_ROWS:
        rare = int(np.argmin(counts))
        raise InputError(
            f"Class {distinct[rare]!s} has {counts[rare]} of {len(values)} rows; every"
            f" class needs at least {FEWEST_ROWS} (or say task='regression')."
        )
    if len(distinct) == 2:
        outputs = np.where(numbers == 1, 1.0, -1.0)[:, None]
    else:
        outputs = np.eye(len(distinct))[numbers]
    return LabelNumbers(
        outputs, numbers.astype(np.int64), tuple(map(str, distinct.tolist()))
    )


def _refuse_missing(values: Array) -> None:
    if values.dtype.kind == "c":
        raise InputError(
            "The labels are complex numbers; classes or real numbers are needed."
        )
    if values.dtype.kind == "f":
        bad: Booleans = np.asarray(~np.isfinite(values))
    else:
        bad = np.array(
            [value is None or value != value for value in values.ravel()]
        ).reshape(values.shape)
    bad = np.any(bad.reshape(len(values), -1), axis=1)
    if bad.any():
        raise InputError(
            f"{name_rows(np.flatnonzero(bad), len(values))} have labels that are"
            " missing or infinite."
        )


def name_rows(rows: Array, count: int) -> str:
    """Return ``3 of 100 rows (4, 17, 20)``: how many, and the first five.

    >>> name_rows(np.array([4, 17]), 100)
    '2 of 100 rows (4, 17)'
    """
    shown = ", ".join(str(int(row)) for row in rows[:5]) + (
        ", ..." if len(rows) > 5 else ""
    )
    return f"{len(rows)} of {count} rows ({shown})"


RIDGES = tuple(float(f"{ridge:.6g}") for ridge in np.geomspace(0.1, 1e3, 9))
"""Penalties of a forecast where none are given."""
SIZES = 12
"""Sample sizes where none are given."""
SMALLEST = 3
"""Samples of a fit at least: one more than its intercept and one degree of freedom
take.
"""


@dataclass(frozen=True)
class Settings:
    """Ridges, sample sizes and effort of a forecast; see `giantstep.forecast`."""

    ridges: Floats
    samples: Integers
    trials: int
    rows: int
    seed: int
    groups: Integers | None


def read_settings(
    labels: LabelNumbers,
    ridge: Any,
    samples: Any,
    groups: Any,
    trials: Any,
    rows: Any,
    seed: Any,
) -> Settings:
    """Check what is asked and fill in what was left open."""
    count = len(labels.values)
    return Settings(
        _numbers(
            "ridge",
            RIDGES if ridge is None else ridge,
            "at least 0",
            lambda value: 0 <= value < math.inf,
        ),
        _sizes(samples, count, len(labels.names)),
        check_whole(
            "trials", trials, "a whole number, 0 for no experiment or at least 2", 0
        ),
        check_whole("rows", rows, "a whole number at least 10", 10),
        check_whole("seed", seed, "a whole number from 0 to 2**64 - 1", 0, 2**64 - 1),
        None if groups is None else _groups(groups, count),
    )


def _numbers(name: str, values: Any, allowed: str, good: Any) -> Floats:
    given = np.atleast_1d(np.asarray(values)).tolist()
    if not given or np.ndim(values) > 1:
        raise bad_field(name, values, "a number or a list of numbers")
    return np.unique([check_number(name, value, allowed, good) for value in given])


def _sizes(samples: Any, count: int, classes: int) -> Integers:
    if samples is None:
        return default_sizes(count, classes)
    allowed = f"whole numbers at least {SMALLEST}"
    sizes = _numbers(
        "samples", samples, allowed, lambda value: SMALLEST <= value < math.inf
    )
    if not np.all(sizes == np.round(sizes)):
        raise bad_field("samples", samples, allowed)
    return sizes.astype(np.int64)


def default_sizes(count: int, classes: int = 0) -> Integers:
    """Return 12 sample sizes from 20 (or two for each class) to 4 N, with N/4, N/2 and
    N among them.

    >>> default_sizes(1600).tolist()
    [20, 34, 57, 96, 163, 275, 400, 800, 1600, 2242, 3788, 6400]
    """
    first = min(max(20, 2 * classes), count)
    sizes = np.unique(np.round(np.geomspace(first, 4 * count, SIZES)).astype(np.int64))
    for anchor in (count // 4, count // 2, count):
        if anchor >= first:
            sizes[np.argmin(np.abs(np.log(sizes / anchor)))] = anchor
    return np.unique(sizes)


def _groups(groups: Any, count: int) -> Integers:
    labels = np.asarray(groups)
    if labels.ndim != 1 or len(labels) != count:
        raise InputError(
            f"Field `groups` must be one label for each of {count} rows, but has shape"
            f" {labels.shape}."
        )
    numbers = np.unique(
        labels if labels.dtype.kind != "O" else labels.astype(str), return_inverse=True
    )[1]
    if int(numbers.max()) + 1 < 4:
        raise bad_field(
            "groups", sorted(set(labels.tolist())), "labels of at least 4 groups"
        )
    return numbers.astype(np.int64)


# -- Features and labels as a forecast takes them: checked, centred and decomposed once


FEWEST = 10
"""Rows that a forecast needs."""
LARGEST = 1e100
"""Entries above this are refused: their squares leave the range of floating point."""
SCALES = 1e12
"""Ratio of the scales of two columns beyond which the smaller one is lost to
rounding.
"""


@dataclass(frozen=True)
class PreparedRows:
    """One data set, decomposed; `features` (N, p) are centred."""

    settings: Settings
    features: Floats
    labels: LabelNumbers
    decomposition: Decomposition


def prepare(features: Any, labels: LabelNumbers, settings: Settings) -> PreparedRows:
    """Check the features, centre them and decompose them; leave-one-out looks at some
    rows where they are many.
    """
    table = _as_table(features)
    count = len(labels.values)
    if len(table) != count:
        raise InputError(f"There are {len(table)} rows of features but {count} labels.")
    if count < FEWEST:
        raise InputError(f"There are {count} rows; a forecast needs at least {FEWEST}.")
    rows, columns = table.shape
    # what cannot be held is refused: the rows, half of them again for a fit, and
    # matrices of the smaller side
    needed = 8.0 * (2 * rows * columns + 4 * min(rows, columns) ** 2)
    free = available_memory()
    if needed > free:
        raise InputError(
            f"A forecast from {columns} columns and {rows} rows needs"
            f" {needed / 2**30:.3g} GiB of memory, but {free / 2**30:.3g} GiB are free;"
            " take fewer rows or columns."
        )
    centred = np.array(table, dtype=np.float64)
    bad = ~np.isfinite(centred)
    if bad.any():
        about = (
            f"{name_rows(np.flatnonzero(bad.any(axis=1)), count)} of the features hold"
            " NaN or infinity"
        )
        raise InputError(
            f"{about} (the first in column {np.argwhere(bad)[0, 1]}); fill them in or"
            " leave them out."
        )
    size = float(np.abs(centred).max())
    if size > LARGEST:
        raise InputError(
            f"The features reach {size:.3g}, too large for their squares; divide them"
            " by a number."
        )
    varies = leave_out_constant(centred, getattr(features, "columns", None), "features")
    copies = count - len({row.tobytes() for row in centred})
    if not varies.all():
        centred = np.ascontiguousarray(centred[:, varies])
    centred -= centred.mean(axis=0)
    _warn(centred, copies)
    keep = np.arange(count)
    if count > settings.rows:
        generator: Any = Draws(settings.seed, "forecast", 0).generator("rows kept")
        keep = np.sort(generator.choice(count, settings.rows, replace=False))
    return PreparedRows(
        settings, centred, labels, decompose(centred, labels.values, keep, copies)
    )


def _as_table(features: Any) -> Array:
    """Return features as an array of numbers with rows and columns; a column of a frame
    that has others is named.
    """
    if hasattr(features, "columns") and hasattr(features, "dtypes"):
        for name, kind in zip(features.columns, features.dtypes):
            if getattr(kind, "kind", "O") not in "biuf":
                raise InputError(
                    f"Column `{name}` of the features holds text or other objects;"
                    f" leave it out (--drop {name}) or code it."
                )
        return np.asarray(features.to_numpy(dtype=np.float64, na_value=np.nan))
    if hasattr(features, "toarray"):
        raise InputError("The features are a sparse matrix; give a dense one.")
    try:
        table = np.asarray(features)
    except ValueError:
        raise InputError(
            "The features must be a table with rows and columns, but have parts of"
            " unequal shape."
        ) from None
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(
            "The features must be a table with rows and columns, but have the shape"
            f" {table.shape}."
        )
    if table.dtype.kind not in "biuf":
        raise InputError(
            f"The features must be numbers, but their type is {table.dtype}."
        )
    return table


def _warn(centred: Floats, copies: int) -> None:
    """Warn of rows that stand there twice, and of columns that rounding loses beside
    others.
    """
    said = []
    if copies:
        said.append(
            f"{copies} of {len(centred)} rows of the features are exact copies of"
            " others; leave-one-out then sees its own rows, and the forecast is too"
            " good: drop the copies."
        )
    scales = np.abs(centred).max(axis=0)
    varying = scales[scales > 0]
    if varying.max() > SCALES * varying.min():
        said.append(
            f"The scales of the columns differ by more than {SCALES:g}; the small ones"
            " are lost to rounding: standardise the columns."
        )
    for text in said:
        warn_user(text)
