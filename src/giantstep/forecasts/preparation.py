"""Features and labels as a forecast takes them: checked, centred and decomposed once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.errors import GiantstepWarning, InputError
from giantstep.forecasts.decomposition import Decomposition, RowSample, decompose
from giantstep.forecasts.settings import LabelNumbers, Settings, name_rows
from giantstep.lab.memory import available_memory
from giantstep.lab.seeds import Draws
from giantstep.types import Array, Floats

FEWEST = 10
"""Rows that a forecast needs."""
LARGEST = 1e100
"""Entries above this are refused: their squares leave the range of floating point."""
SCALES = 1e12
"""Ratio of the scales of two columns beyond which the smaller one is lost to rounding."""


@dataclass(frozen=True)
class PreparedRows:
    """One data set, decomposed; `features` (N, p) are centred."""

    features: Floats
    labels: LabelNumbers
    decomposition: Decomposition
    sample: RowSample


def prepare(features: Any, labels: LabelNumbers, settings: Settings) -> PreparedRows:
    """Check the features, centre them and decompose them; leave-one-out looks at some rows where they are many."""
    table = _as_table(features)
    count = len(labels.values)
    if len(table) != count:
        raise InputError(f"There are {len(table)} rows of features but {count} labels.")
    if count < FEWEST:
        raise InputError(f"There are {count} rows; a forecast needs at least {FEWEST}.")
    _check_room(*table.shape)
    centred = np.array(table, dtype=np.float64)
    size = _check_entries(centred)
    copies = count - len({row.tobytes() for row in centred})
    centred -= centred.mean(axis=0)
    if not np.any(np.abs(centred) > 1e-13 * size):
        raise InputError("All columns of the features are constant, so that there is nothing to learn from.")
    _warn(centred, copies)
    keep = np.arange(count)
    if count > settings.rows:
        generator: Any = Draws(settings.seed, "forecast", 0).generator("rows kept")
        keep = np.sort(generator.choice(count, settings.rows, replace=False))
    return PreparedRows(centred, labels, *decompose(centred, labels.values, keep, copies))


def _as_table(features: Any) -> Array:
    """Return features as an array of numbers with rows and columns; a column of a frame that has others is named."""
    if hasattr(features, "columns") and hasattr(features, "dtypes"):
        for name, kind in zip(features.columns, features.dtypes):
            if getattr(kind, "kind", "O") not in "biuf":
                raise InputError(
                    f"Column `{name}` of the features holds text or other objects; leave it out (--drop {name}) or "
                    "code it."
                )
        return np.asarray(features.to_numpy(dtype=np.float64, na_value=np.nan))
    if hasattr(features, "toarray"):
        raise InputError("The features are a sparse matrix; give a dense one.")
    try:
        table = np.asarray(features)
    except ValueError:
        raise InputError(
            "The features must be a table with rows and columns, but have parts of unequal shape."
        ) from None
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(f"The features must be a table with rows and columns, but have the shape {table.shape}.")
    if table.dtype.kind not in "biuf":
        raise InputError(f"The features must be numbers, but their type is {table.dtype}.")
    return table


def _check_room(rows: int, columns: int) -> None:
    """Refuse what cannot be held: the rows, half of them again for a fit, and matrices of the smaller side."""
    needed, free = 8.0 * (2 * rows * columns + 4 * min(rows, columns) ** 2), available_memory()
    if needed > free:
        raise InputError(
            f"A forecast from {columns} columns and {rows} rows needs {needed / 2**30:.3g} GiB of memory, but "
            f"{free / 2**30:.3g} GiB are free; take fewer rows or columns."
        )


def _check_entries(table: Floats) -> float:
    """Return the largest absolute entry; refuse what is missing, infinite or too large."""
    bad = ~np.isfinite(table)
    if bad.any():
        about = f"{name_rows(np.flatnonzero(bad.any(axis=1)), len(table))} of the features hold NaN or infinity"
        column = np.argwhere(bad)[0, 1]
        raise InputError(f"{about} (the first in column {column}); fill them in or leave them out.")
    size = float(np.abs(table).max())
    if size > LARGEST:
        raise InputError(f"The features reach {size:.3g}, too large for their squares; divide them by a number.")
    return size


def _warn(centred: Floats, copies: int) -> None:
    """Warn of rows that stand there twice, and of columns that rounding loses beside others."""
    said = []
    if copies:
        said.append(
            f"{copies} of {len(centred)} rows of the features are exact copies of others; leave-one-out then sees its "
            "own rows, and the forecast is too good: drop the copies."
        )
    scales = np.abs(centred).max(axis=0)
    varying = scales[scales > 0]
    if varying.max() > SCALES * varying.min():
        said.append(
            f"The scales of the columns differ by more than {SCALES:g}; the small ones are lost to rounding: "
            "standardise the columns."
        )
    for text in said:
        warnings.warn(text, GiantstepWarning, stacklevel=4)
