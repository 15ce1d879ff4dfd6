"""Labels of a forecast: real numbers (one or several outputs), two classes as +-1, more as one-hot outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.types import Array, Booleans, Floats, Integers

TASKS = ("auto", "regression", "classes")
MOST_CLASSES = 50
"""Whole numbers with at most so many values are taken as classes where nobody says what they are."""
FEWEST_ROWS = 5
"""Rows that a class needs."""


@dataclass(frozen=True)
class LabelNumbers:
    """Labels as numbers.

    Attributes
    ----------
    values : (N, R) outputs, not centred.
    classes : (N,) numbers of the classes from 0; None for regression.
    names : names of the classes, in the order of their numbers.
    """

    values: Floats
    classes: Integers | None
    names: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """What is forecast: ``"regression"`` or ``"classes"``."""
        return "regression" if self.classes is None else "classes"


def read_labels(y: Any, task: str = "auto") -> LabelNumbers:
    """Return labels as numbers; what cannot be used is refused in one sentence.

    Parameters
    ----------
    y : (N,) numbers, texts or truth values, or (N, R) numbers: R outputs, or classes as one-hot rows.
    task : ``"regression"``, ``"classes"``, or ``"auto"``: texts, truth values, two values, one-hot rows and at most 50
        whole numbers are classes.
    """
    if task not in TASKS:
        raise bad_field("task", task, "one of " + ", ".join(TASKS))
    values = np.asarray(y)
    if values.ndim not in (1, 2) or not values.size:
        raise InputError(f"The labels must be a list or a table, one row for each sample, not of shape {values.shape}.")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    _refuse_missing(values)
    if values.ndim == 2:
        return _read_outputs(values, task)
    if task == "classes" or (task == "auto" and _look_like_classes(values)):
        return _read_classes(values)
    if values.dtype.kind not in "biuf":
        raise bad_field("task", task, "classes or auto where labels are texts")
    numbers = values.astype(np.float64)
    if np.ptp(numbers) == 0:
        raise InputError(f"All {len(numbers)} labels are {numbers[0]:g}; labels must differ.")
    return LabelNumbers(numbers[:, None], None)


def _read_outputs(values: Array, task: str) -> LabelNumbers:
    if values.dtype.kind not in "biuf":
        raise InputError(f"A table of labels must hold numbers, but its type is {values.dtype}.")
    numbers = values.astype(np.float64)
    one_hot = bool(np.isin(numbers, (0.0, 1.0)).all() and (numbers.sum(axis=1) == 1).all())
    if task == "classes" and not one_hot:
        raise bad_field("task", task, "regression or auto where labels are a table that is not one-hot")
    if one_hot and task != "regression":
        return _read_classes(np.argmax(numbers, axis=1))
    if np.ptp(numbers, axis=0).max() == 0:
        raise InputError("All columns of the labels are constant; labels must differ.")
    return LabelNumbers(numbers, None)


def _read_classes(values: Array) -> LabelNumbers:
    texts = values if values.dtype.kind in "biuf" else np.array([str(value) for value in values])
    distinct, numbers, counts = np.unique(texts, return_inverse=True, return_counts=True)
    if len(distinct) < 2:
        raise InputError(f"All {len(values)} labels are {distinct[0]!s}; at least two classes are needed.")
    if counts.min() < FEWEST_ROWS:
        rare = int(np.argmin(counts))
        raise InputError(
            f"Class {distinct[rare]!s} has {counts[rare]} of {len(values)} rows; every class needs at least "
            f"{FEWEST_ROWS} (or say task='regression')."
        )
    names = tuple(str(name) for name in distinct.tolist())
    numbers = numbers.astype(np.int64)
    if len(distinct) == 2:
        return LabelNumbers(np.where(numbers == 1, 1.0, -1.0)[:, None], numbers, names)
    return LabelNumbers(np.eye(len(distinct))[numbers], numbers, names)


def _look_like_classes(values: Array) -> bool:
    if values.dtype.kind not in "iuf":
        return True
    distinct = np.unique(values)
    if len(distinct) == 2:
        return True
    whole = bool(np.all(distinct == np.round(distinct)))
    return whole and len(distinct) <= MOST_CLASSES and len(values) >= FEWEST_ROWS * len(distinct)


def _refuse_missing(values: Array) -> None:
    if values.dtype.kind == "c":
        raise InputError("The labels are complex numbers; classes or real numbers are needed.")
    if values.dtype.kind == "f":
        bad: Booleans = np.asarray(~np.isfinite(values))
    else:
        bad = np.array([value is None or value != value for value in values.ravel()]).reshape(values.shape)
    if bad.ndim == 2:
        bad = np.asarray(bad.any(axis=1))
    if bad.any():
        raise InputError(f"{name_rows(np.flatnonzero(bad), len(values))} have labels that are missing or infinite.")


def name_rows(rows: Array, count: int) -> str:
    """Return ``3 of 100 rows (4, 17, 20)``: how many, and the first five.

    >>> name_rows(np.array([4, 17]), 100)
    '2 of 100 rows (4, 17)'
    """
    shown = ", ".join(str(int(row)) for row in rows[:5]) + (", ..." if len(rows) > 5 else "")
    return f"{len(rows)} of {count} rows ({shown})"
