"""A table as fields of a scenario: checked, standardised, and described by the
Gaussians of mixture_glm section 7.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas  # type: ignore[import-untyped]

from giantstep.core.base.columns import few_of, leave_out_constant
from giantstep.core.base.errors import InputError, bad_field, warn_user
from giantstep.core.base.types import Floats
from giantstep.problems.mixture_glm.parts import MARGIN_LOSSES, Dataset, Dense
from giantstep.problems.mixture_glm.tolerances import LARGEST

SCALES = ("columns", "global", "none")
FEW_VALUES = 10
"""Whole numbers with at most so many values may be meant as classes: it is said that
they are not taken so.
"""


class PreparedTable(NamedTuple):
    """Inputs (N, d) that are centred and scaled, labels (N), and whether they are
    classes 1 and -1.
    """

    inputs: Floats
    labels: Floats
    classes: bool


def table_fields(
    X: Any, y: Any, samples_per_dim: float | None, ridge: float, loss: str, scale: str
) -> dict[str, Any]:
    """Return the fields of the scenario of a dataset; see `MixtureGLM.from_data`."""
    table = prepare_table(X, y, scale)
    rows, dim = table.inputs.shape
    if loss in MARGIN_LOSSES and not table.classes:
        raise bad_field(
            "loss",
            loss,
            "square, huber or interpolate where labels are real numbers, not two"
            " classes",
        )
    if samples_per_dim is None:
        if loss != "interpolate":
            samples_per_dim = max(1, rows // 2) / dim
        else:
            samples_per_dim = 0.5 * min(1.0, rows / dim)
    return {
        **(_label_gaussians(table) if table.classes else _covariate_model(table)),
        "data": Dataset(table.inputs, table.labels),
        "loss": loss,
        "ridge": 0.0 if loss in ("interpolate", "maxmargin") else ridge,
        "samples_per_dim": samples_per_dim,
    }


def _label_gaussians(table: PreparedTable) -> dict[str, Any]:
    """Return one Gaussian for each class, with its mean and covariance."""
    groups = [table.inputs[table.labels == sign] for sign in (1.0, -1.0)]
    fewest = min(map(len, groups))
    if fewest < 2:
        raise InputError(
            f"Only {fewest} of {len(table.inputs)} rows is of one of the classes; at"
            " least 2 are needed."
        )
    share = np.array([len(group) for group in groups]) / len(table.inputs)
    means = np.stack([group.mean(axis=0) for group in groups])
    matrices = np.stack(
        [
            (group - mean).T @ (group - mean) / len(group)
            for group, mean in zip(groups, means)
        ]
    )
    covariances = Dense(matrices, means=means)
    return {
        "weights": share / share.sum(),
        "covariances": covariances,
        "labels": "cluster",
        "cluster_labels": [1, -1],
    }


def _covariate_model(table: PreparedTable) -> dict[str, Any]:
    """Return the Gaussian covariate model: a linear teacher that carries the residual
    of the labels in its variance.
    """
    rows, dim = table.inputs.shape
    matrix = table.inputs.T @ table.inputs / rows
    cross = np.sqrt(dim) * table.labels @ table.inputs / rows
    covariances = Dense(
        matrix[None],
        cross=cross[None],
        teacher_variance=[float(np.mean(table.labels**2))],
    )
    return {"covariances": covariances, "labels": "linear"}


# -- checks ----------------------------------------------------------------------------


def prepare_table(X: Any, y: Any, scale: str = "columns") -> PreparedTable:
    """Check a table and its labels and bring them to the units of the theory; see
    `MixtureGLM.from_data`.
    """
    if scale not in SCALES:
        raise bad_field("scale", scale, "one of " + ", ".join(SCALES))
    inputs, names = _inputs(X)
    if np.ndim(y) == 1 and len(y) != len(inputs):
        raise InputError(f"There are {len(inputs)} rows of inputs but {len(y)} labels.")
    if len(inputs) < 3:
        raise InputError(
            f"There are {len(inputs)} rows; at least 3 are needed, two to fit and one"
            " to test on."
        )
    labels, classes = _labels(y)
    if scale == "columns":  # entries near the largest numbers have no squares
        largest = np.abs(inputs).max(axis=0)
        inputs = inputs / np.where(largest > 0, largest, 1.0)
    varies = leave_out_constant(inputs, names)
    deviation = inputs.std(axis=0)[varies]
    inputs = inputs[:, varies] - inputs[:, varies].mean(axis=0)
    if scale == "columns":
        inputs = inputs / deviation
    elif scale == "global":
        inputs = inputs / inputs.std()
    return PreparedTable(inputs, labels if classes else labels - labels.mean(), classes)


def _inputs(X: Any) -> tuple[Floats, list[str]]:
    """Return the numbers of a frame or an array and the names of its columns; text and
    missing values are refused.
    """
    if np.ndim(X) != 2 or 0 in np.shape(X):
        raise InputError(
            "The inputs must be a table with rows and columns, but have the shape"
            f" {np.shape(X)}."
        )
    frame = pandas.DataFrame(X)
    names = [str(name) for name in frame.columns]
    for name, kind in zip(names, frame.dtypes):
        if getattr(kind, "kind", "O") not in "iufb":
            raise InputError(
                f"Column `{name}` holds text or other objects, not numbers; leave it"
                f" out (--drop {name}) or code it as numbers."
            )
    table = np.ascontiguousarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    missing = ~np.isfinite(table)
    if missing.any():
        count, (column, row) = int(missing.sum()), np.argwhere(missing.T)[0]
        if count == 1:
            about = "1 value is missing"
        else:
            about = f"{count} values are missing"
        raise InputError(
            f"In the inputs {about} or not finite (the first in column"
            f" `{names[column]}`, row {row}); fill them in or leave out their rows or"
            " columns first."
        )
    largest = np.abs(table).max(axis=0)
    if largest.max() > LARGEST:
        column = int(np.argmax(largest > LARGEST))
        raise InputError(
            f"Column `{names[column]}` reaches {largest[column]:g}, too large; divide"
            " it by a number."
        )
    return table, names


def _labels(y: Any) -> tuple[Floats, bool]:
    """Return labels as numbers, and whether they are two classes; which class is 1 is
    said unless it is plain.
    """
    values = np.asarray(y)
    if values.ndim != 1:
        raise InputError(
            "The labels must be a list, one for each row, but have the shape"
            f" {values.shape}."
        )
    missing = pandas.isna(values)
    if missing.any():
        about = (
            f"{int(missing.sum())} of {len(values)} labels are missing (the first in"
            f" row {int(np.argmax(missing))})"
        )
        raise InputError(f"{about}; leave out their rows first.")
    if values.dtype.kind == "c":
        raise InputError(
            "The labels are complex numbers; two classes or real numbers are needed."
        )
    if values.dtype.kind == "f" and not np.abs(values).max() <= LARGEST:
        raise InputError(
            "Some labels are infinite or too large; leave out their rows first or"
            " divide them by a number."
        )
    text = values.dtype.kind not in "iufb"
    if text:
        values = np.array([str(value) for value in values])
    else:
        values = values
    distinct = np.unique(values).tolist()
    if len(distinct) == 1:
        raise InputError(
            f"All {len(values)} labels are {distinct[0]!r}: two classes, or numbers"
            " that differ, are needed."
        )
    if len(distinct) == 2:
        if distinct != [-1, 1]:
            warn_user(
                f"The labels have two values and are taken as classes: {distinct[0]!r}"
                f" is -1, {distinct[1]!r} is 1."
            )
        return np.where(values == distinct[1], 1.0, -1.0), True
    if text:
        raise InputError(
            f"The labels are {len(distinct)} different texts ({few_of(distinct)}); two"
            " classes or numbers are needed."
        )
    numbers = values.astype(np.float64)
    if len(distinct) <= min(FEW_VALUES, len(values) // 3) and np.all(
        numbers == np.round(numbers)
    ):
        warn_user(
            f"The labels have {len(distinct)} values"
            f" ({few_of([f'{value:g}' for value in distinct])}) and are taken as real"
            " numbers; classes must be two."
        )
    return numbers, False
