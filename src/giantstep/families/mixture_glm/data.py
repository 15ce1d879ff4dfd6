"""A user's table as a scenario: checked, standardised, and described by the Gaussians that the theory needs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.errors import GiantstepWarning, InputError, bad_field
from giantstep.families.mixture_glm.parts import Dataset, Dense
from giantstep.families.mixture_glm.scenario import MARGIN_LOSSES, MixtureGLM
from giantstep.types import Floats

SCALES = ("columns", "global", "none")
LARGEST = 1e100
"""Numbers above this are refused: their squares leave the range of floating point."""
FEW_VALUES = 10
"""Whole numbers with at most so many values may be meant as classes: it is said that they are not taken so."""


@dataclass(frozen=True)
class Prepared:
    """Inputs (N, d) that are centred and scaled, labels (N), and whether they are classes 1 and -1."""

    inputs: Floats
    labels: Floats
    classes: bool


def scenario_from_data(
    X: Any,
    y: Any,
    *,
    samples_per_dim: float | None = None,
    ridge: float = 1.0,
    loss: str = "square",
    scale: str = "columns",
    **fields: Any,
) -> MixtureGLM:
    """Return the scenario of a dataset; see `MixtureGLM.from_data`."""
    data = prepared(X, y, scale)
    rows, dim = data.inputs.shape
    if loss in MARGIN_LOSSES and not data.classes:
        raise bad_field("loss", loss, "square, huber or interpolate where labels are real numbers, not two classes")
    if loss in ("interpolate", "maxmargin"):
        ridge = 0.0
    if samples_per_dim is None:
        samples_per_dim = max(1, rows // 2) / dim if loss != "interpolate" else 0.5 * min(1.0, rows / dim)
    model = _class_gaussians(data) if data.classes else _covariate_model(data)
    for name in ("weights", "covariances", "labels", "cluster_labels", "mean_gram", "teacher_means", "noise", "data"):
        if name in fields:
            raise InputError(f"Field `{name}` comes from the data and cannot be given.")
    return MixtureGLM(
        **model,
        data=Dataset(data.inputs, data.labels),
        loss=loss,
        ridge=ridge,
        samples_per_dim=samples_per_dim,
        **fields,
    )


def _class_gaussians(data: Prepared) -> dict[str, Any]:
    """Return one Gaussian for each class, with its mean and covariance."""
    groups = [data.inputs[data.labels == sign] for sign in (1.0, -1.0)]
    fewest = min(map(len, groups))
    if fewest < 2:
        raise InputError(f"Only {fewest} of {len(data.inputs)} rows is of one of the classes; at least 2 are needed.")
    share = np.array([len(group) for group in groups]) / len(data.inputs)
    means = np.stack([group.mean(axis=0) for group in groups])
    matrices = np.stack([(group - mean).T @ (group - mean) / len(group) for group, mean in zip(groups, means)])
    return {
        "weights": share / share.sum(),
        "covariances": Dense(matrices, means=means),
        "labels": "cluster",
        "cluster_labels": [1, -1],
    }


def _covariate_model(data: Prepared) -> dict[str, Any]:
    """Return the Gaussian covariate model: a linear teacher that carries the residual of the labels in its variance."""
    rows, dim = data.inputs.shape
    matrix = data.inputs.T @ data.inputs / rows
    cross = np.sqrt(dim) * data.labels @ data.inputs / rows
    return {
        "covariances": Dense(matrix[None], cross=cross[None], teacher_variance=[float(np.mean(data.labels**2))]),
        "labels": "linear",
    }


# -- checks ----------------------------------------------------------------------------------------------------


def prepared(X: Any, y: Any, scale: str = "columns") -> Prepared:
    """Check a table and its labels and bring them to the units of the theory.

    Parameters
    ----------
    X : (N, d) array or pandas frame of numbers.
    y : (N) labels: real numbers, or two classes (numbers, texts, true and false).
    scale : ``"columns"``: every column to unit variance, ``"global"``: all divided by one number, ``"none"``.
        Columns are centred, and so are labels that are real numbers.
    """
    if scale not in SCALES:
        raise bad_field("scale", scale, "one of " + ", ".join(SCALES))
    inputs, names = _inputs(X)
    if np.ndim(y) == 1 and len(y) != len(inputs):
        raise InputError(f"There are {len(inputs)} rows of inputs but {len(y)} labels.")
    if len(inputs) < 3:
        raise InputError(f"There are {len(inputs)} rows; at least 3 are needed, two to fit and one to test on.")
    labels, classes = _labels(y)
    largest = np.abs(inputs).max(axis=0)
    if scale == "columns":
        inputs, largest = inputs / np.where(largest > 0, largest, 1.0), np.minimum(largest, 1.0)
    deviation = inputs.std(axis=0)
    constant = deviation <= 1e-12 * np.maximum(largest, 1e-300)
    if constant.all():
        raise InputError("All columns of the inputs are constant, so that there is nothing to learn from.")
    if constant.any():
        said = _few([names[i] for i in np.flatnonzero(constant)])
        warnings.warn(
            f"{int(constant.sum())} of {len(names)} columns are constant and were left out: {said}.",
            GiantstepWarning,
            stacklevel=4,
        )
    inputs = inputs[:, ~constant] - inputs[:, ~constant].mean(axis=0)
    if scale == "columns":
        inputs = inputs / deviation[~constant]
    elif scale == "global":
        inputs = inputs / inputs.std()
    if not classes:
        if np.ptp(labels) == 0:
            raise InputError(f"All labels are {labels[0]:g}, so that there is nothing to learn.")
        labels = labels - labels.mean()
    return Prepared(inputs, labels, classes)


def _inputs(X: Any) -> tuple[Floats, list[str]]:
    """Return the numbers of a frame or an array and the names of its columns; text and missing values are refused."""
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else []
    if names:
        for name, kind in zip(names, X.dtypes):
            if getattr(kind, "kind", "O") not in "iufb":
                text = X.iloc[:, names.index(name)]
                if _missing_in(text):
                    raise _missing(int(text.isna().sum()), name, int(np.flatnonzero(text.isna())[0]))
                raise InputError(
                    f"Column `{name}` holds text or other objects, not numbers; leave it out or code it as numbers."
                )
        table = X.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        table = np.asarray(X)
        if table.dtype.kind not in "iufb":
            raise InputError(f"The inputs must be numbers, but their type is {table.dtype}.")
        table = table.astype(np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(f"The inputs must be a table with rows and columns, but have the shape {table.shape}.")
    table = np.ascontiguousarray(table)
    names = names or [str(i) for i in range(table.shape[1])]
    bad = ~np.isfinite(table)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise _missing(int(bad.sum()), names[column], int(row))
    if np.abs(table).max() > LARGEST:
        row, column = np.argwhere(np.abs(table) > LARGEST)[0]
        raise InputError(f"Column `{names[column]}` reaches {table[row, column]:g}, too large; divide it by a number.")
    return table, names


def _missing_in(column: Any) -> bool:
    return bool(column.isna().any())


def _missing(count: int, column: str, row: int) -> InputError:
    about = "1 value is missing" if count == 1 else f"{count} values are missing"
    return InputError(
        f"In the inputs {about} or not finite (the first in column `{column}`, row {row}); fill them in or leave out "
        "their rows or columns first."
    )


def _labels(y: Any) -> tuple[Floats, bool]:
    """Return labels as numbers, and whether they are two classes; which class is 1 is said unless it is plain."""
    if hasattr(y, "isna"):
        missing = np.asarray(y.isna())
    else:
        array = np.asarray(y)
        missing = np.isnan(array) if array.dtype.kind == "f" else np.array([one is None for one in array.ravel()])
    values = np.asarray(y)
    if values.ndim != 1:
        raise InputError(f"The labels must be a list, one for each row, but have the shape {values.shape}.")
    if not len(values):
        raise InputError("There are no labels.")
    if missing.any():
        raise InputError(
            f"{int(missing.sum())} of {len(values)} labels are missing (the first in row "
            f"{int(np.flatnonzero(missing)[0])}); leave out their rows first."
        )
    if values.dtype.kind == "c":
        raise InputError("The labels are complex numbers; two classes or real numbers are needed.")
    text = values.dtype.kind not in "iufb"
    if values.dtype.kind == "f" and not np.abs(values).max() <= LARGEST:
        raise InputError(
            "Some labels are infinite or too large; leave out their rows first or divide them by a number."
        )
    found = sorted({str(one) for one in values}) if text else np.unique(values).tolist()
    if text and len(found) > 2:
        raise InputError(
            f"The labels are {len(found)} different texts ({_few(found)}); two classes or numbers are needed."
        )
    if len(found) == 1:
        raise InputError(f"All {len(values)} labels are {found[0]!r}: two classes, or numbers that differ, are needed.")
    if len(found) > 2:
        numbers = values.astype(np.float64)
        if len(found) <= min(FEW_VALUES, len(values) // 3) and np.all(numbers == np.round(numbers)):
            warnings.warn(
                f"The labels have {len(found)} values ({_few([f'{one:g}' for one in found])}) and are taken as real "
                "numbers; classes must be two.",
                GiantstepWarning,
                stacklevel=5,
            )
        return numbers, False
    high = np.array([str(one) for one in values]) == found[1] if text else values == found[1]
    if found != [-1, 1]:
        warnings.warn(
            f"The labels have two values and are taken as classes: {found[0]!r} is -1, {found[1]!r} is 1.",
            GiantstepWarning,
            stacklevel=5,
        )
    return np.where(high, 1.0, -1.0), True


def _few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else ", ".join(names[:8]) + f" and {len(names) - 8} more"
