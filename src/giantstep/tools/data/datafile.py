"""A user's table: read from CSV, NPZ, NPY or Parquet, split into inputs and one column
of labels.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, check_ending, nearest

ENDINGS = (".csv", ".tsv", ".npz", ".parquet")


@dataclass(frozen=True)
class LabelledTable:
    """Inputs (a pandas frame or an array) and labels of the same rows; `others` are
    further columns by name.
    """

    inputs: Any
    labels: Any
    others: Mapping[str, Any] = field(default_factory=dict)


def read_labelled(
    path: str | Path, label: str, others: Sequence[str] = ()
) -> LabelledTable:
    """Read a table and split off the column (of .npz the array) `label`, and `others`
    that are no inputs either.
    """
    path = Path(path)
    ending = check_ending(path, ENDINGS, "Data are read from {} files", there=True)
    if ending == ".npz":
        return _from_npz(path, label, others)
    return _from_table(path, ending, label, others)


def read_npy(path: str | Path, labels: str | Path) -> LabelledTable:
    """Read inputs from one .npy file, as a memory map, and labels from another."""
    arrays = []
    for file, mode in ((Path(path), "r"), (Path(labels), None)):
        if file.suffix.lower() != ".npy":
            raise InputError(
                "Labels of .npy features come from another .npy file, but it is called"
                f" {file.name!r}."
            )
        check_ending(file, (".npy",), "", there=True)
        try:
            arrays.append(np.load(file, mmap_mode=mode, allow_pickle=False))  # type: ignore[arg-type]
        except (OSError, ValueError, EOFError) as error:
            raise InputError(
                f"{file.name} is not an .npy file of numbers or texts:"
                f" {_first_line(error)}."
            ) from None
    return LabelledTable(arrays[0], arrays[1])


def _from_table(
    path: Path, ending: str, label: str, others: Sequence[str]
) -> LabelledTable:
    if ending == ".parquet":
        frame = read_parquet(path)
    else:
        frame = _text(path, "," if ending == ".csv" else "\t")
    names = [str(name) for name in frame.columns]
    for other in others:
        if other not in names or other == label:
            raise InputError(
                f"There is no further column `{other}` in"
                f" {path.name}{nearest(other, names)}."
            )
    if label not in names:
        if len(names) > 1 or ";" not in names[0]:
            about = ""
        else:
            about = " (separated by semicolons? commas are needed)"
        guess = nearest(label, names)
        raise InputError(
            f"There is no column `{label}` in {path.name}{guess}; it has"
            f" {_few(names)}{about}."
        )
    if len(names) < 2:
        raise InputError(
            f"{path.name} has no column beside `{label}`, so nothing to learn from."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"Column `{twice}` stands in {path.name} more than once.")
    if not len(frame):
        raise InputError(f"{path.name} has no rows below its line of names.")
    frame.columns = names
    return LabelledTable(
        frame.drop(columns=[label, *others]),
        frame[label],
        {name: frame[name] for name in others},
    )


def _text(path: Path, separator: str) -> Any:
    import pandas  # type: ignore[import-untyped]

    try:
        names = pandas.read_csv(
            path, sep=separator, header=None, nrows=1, dtype=str
        ).iloc[0]
        # a column without a name in front is names of rows
        frame = pandas.read_csv(path, sep=separator)
    except (
        ValueError,
        OSError,
    ) as error:  # broken lines, other encodings and empty files are ValueErrors
        raise InputError(
            f"{path.name} is not a table with a first line of names:"
            f" {_first_line(error)}."
        ) from None
    if names.isna().any():
        number = int(names.isna().argmax()) + 1
        raise InputError(
            f"Column {number} of {path.name} has no name (numbers of rows?); name it or"
            " leave it out."
        )
    frame.columns = names  # pandas would rename those that stand there twice
    return frame


def read_parquet(path: Path) -> Any:
    """Read a Parquet file as a pandas frame."""
    import pandas

    try:
        return pandas.read_parquet(path)
    except ImportError:
        install = "which is not installed (install pyarrow or fastparquet)"
        raise InputError(
            f"{path.name} needs a reader of Parquet files, {install}."
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path.name} cannot be read as Parquet: {_first_line(error)}."
        ) from None


def _from_npz(path: Path, label: str, others: Sequence[str]) -> LabelledTable:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {_first_line(error)}.") from None
    except (ValueError, AttributeError, EOFError, zipfile.BadZipFile):
        raise InputError(
            f"{path.name} is not an .npz file of arrays of numbers or texts."
        ) from None
    for name in (label, *others):
        if name not in arrays:
            raise InputError(
                f"There is no array `{name}` in {path.name}; it has"
                f" {_few(list(arrays))}."
            )
    tables = [
        name
        for name, array in arrays.items()
        if name not in (label, *others) and array.ndim == 2
    ]
    if len(tables) != 1:
        raise InputError(
            f"{path.name} must hold one table of inputs beside `{label}`, but has"
            f" {len(tables)}."
        )
    return LabelledTable(
        arrays[tables[0]], arrays[label], {name: arrays[name] for name in others}
    )


def _few(names: list[str]) -> str:
    if len(names) <= 12:
        return ", ".join(names)
    return ", ".join(names[:12]) + f" and {len(names) - 12} more"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["it is broken"])[0].rstrip(".")
