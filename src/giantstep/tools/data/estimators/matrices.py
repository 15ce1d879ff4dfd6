"""A data matrix as people have it: read from a file, checked, brought to zero mean and
unit noise.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from giantstep.core.base.columns import constant_columns
from giantstep.core.base.errors import GiantstepWarning, InputError, check_ending
from giantstep.core.base.types import Booleans, Floats
from giantstep.tools.data.datafile import read_parquet

TABLES = (".csv", ".tsv", ".txt")
ARRAYS = (".npy", ".npz")
PARQUET = (".parquet",)
MISSING = ("", "na", "n/a", "nan", "null", "none")
"""What stands in tables of text for a number that is missing, in small letters."""
SPREAD = 1.5
"""Columns whose variances scatter this many times more than those of a common noise
level have levels of their own.
"""


@dataclass(frozen=True)
class Standardised:
    """Data of zero mean and (about) unit noise, and how to get there."""

    matrix: Floats  # the columns that vary, centred, in units of their noise
    mean: Floats  # of every original column
    # noise level (standard deviation) of every original column; 1 where a column is
    # constant
    noise: Floats
    varies: Booleans  # which of the original columns vary at all
    # whether columns have one (or a known) noise level, so that their variances say
    # which are active
    common: bool

    def apply(self, rows: Floats) -> Floats:
        """Bring other rows of the same columns to the same units."""
        return (rows[:, self.varies] - self.mean[self.varies]) / self.noise[self.varies]


def check_finite(matrix: Floats, name: str = "X") -> None:
    """Refuse NaN and infinity in one sentence that says where the first one is."""
    if (
        np.isfinite(matrix.sum()) or np.isfinite(matrix).all()
    ):  # the sum is finite nearly always, and cheap
        return
    bad = ~np.isfinite(matrix)
    row, column = np.argwhere(bad)[0]
    kind = "NaN" if np.isnan(matrix).any() else "infinity (inf)"
    raise InputError(
        f"Input {name} contains {kind}: {int(bad.sum())} of {bad.size} entries are not"
        f" finite numbers (the first in row {row}, column {column}); fill them in or"
        " leave out their rows or columns first."
    )


def standardise(matrix: Floats, noise_level: Any = "auto") -> Standardised:
    """Centre the columns (n, d) and divide by the noise level: common (their median),
    by feature, given, or auto.

    Auto is common where their variances scatter no more than those of one noise level.
    A common level keeps what the variances say about which features are active; levels
    of their own forgive columns in different units.
    """
    n, d = matrix.shape
    mean = matrix.mean(axis=0)
    centred = matrix - mean
    variance = np.einsum("ij,ij->j", centred, centred) / n
    varies = ~constant_columns(matrix)
    noise = np.ones(d)
    named = isinstance(noise_level, str)
    chosen = variance[varies]
    common = not named or noise_level != "feature"
    if (
        named and noise_level == "auto"
    ):  # whether the middle half of the columns could have the same noise level
        if min(len(chosen), n) >= 20:
            low, high = np.quantile(np.log(chosen), [0.25, 0.75])
        else:
            low = 0.0
            high = np.inf
        common = bool(high - low < SPREAD * 1.349 * np.sqrt(2 / (n - 1)))
    if not named:
        noise[varies] = np.broadcast_to(noise_level, (d,))[varies]
    elif not common:
        noise[varies] = np.sqrt(chosen)
    elif len(chosen):
        # median of the variance of n samples of unit noise
        middle = 2 * gammaincinv((n - 1) / 2, 0.5) / n
        noise[varies] = np.sqrt(np.median(chosen) / middle)
    if not varies.all():
        kept = np.ascontiguousarray(centred[:, varies])
    else:
        kept = centred
    kept /= noise[varies]
    return Standardised(kept, mean, noise, varies, common)


def read_matrix(path: str | Path, transpose: bool = False) -> Floats:
    """Read a data matrix, rows = samples, from a file that ends as `TABLES`, `ARRAYS`
    or `PARQUET` say.

    A first line of names is recognised; columns that hold only text (names of samples)
    are left out with a warning; an ``.npz`` file must hold one matrix, or one called
    ``X``.
    """
    path = Path(path)
    suffix = check_ending(
        path, (*TABLES, *ARRAYS, *PARQUET), "Data are read from {}", there=True
    )
    try:
        matrix = _array(path) if suffix in ARRAYS else _table(path)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, KeyError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(
            f"{path.name!r} cannot be read as a matrix of numbers: {reason}."
        ) from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(
            f"{path.name!r} must hold a matrix (rows = samples), but has the shape"
            f" {matrix.shape}."
        )
    matrix = matrix.T if transpose else matrix
    check_finite(matrix, repr(path.name))
    return np.ascontiguousarray(matrix)


def _array(path: Path) -> Floats:
    loaded = np.load(path, allow_pickle=False)
    if not isinstance(loaded, np.ndarray):
        with loaded:
            names = list(loaded.files)
            matrices = [name for name in names if loaded[name].ndim == 2]
            if "X" not in names and len(matrices) != 1:
                raise InputError(
                    f"{path.name!r} must hold one matrix or one called X, but holds"
                    f" {', '.join(names)}."
                )
            loaded = loaded["X" if "X" in names else matrices[0]]
    if loaded.dtype.kind not in "fiub":
        raise InputError(
            f"{path.name!r} must hold real numbers, but holds {loaded.dtype}."
        )
    return loaded.astype(np.float64)


def _table(path: Path) -> Floats:
    import pandas  # type: ignore[import-untyped]

    if path.suffix.lower() in PARQUET:
        return _numbers(path.name, read_parquet(path))
    with path.open(encoding="utf-8-sig") as file:
        first = file.readline()
    separator = max(",;\t", key=first.count)
    if separator in first:
        kind: dict[str, Any] = {"sep": separator, "engine": "python"}
    else:
        kind = {"sep": r"\s+", "na_values": [""]}
    cells = pandas.read_csv(
        path,
        header=None,
        dtype=str,
        encoding="utf-8-sig",
        keep_default_na=False,
        **kind,
    )
    head = cells.iloc[0]
    values, texts = _split(head)
    counted = [str(place) for place in range(len(head) - 1)]
    numbered = values.isna()[0] and not texts[0] and head[1:].tolist() == counted
    if texts.any() or numbered:
        cells = cells.iloc[1:].set_axis(head, axis=1)
    counts = cells.count(
        axis=1
    ).tolist()  # so read, only cells that are not there are NaN
    if counts and min(counts) < len(head):
        row = counts.index(min(counts))
        raise InputError(
            f"Row {row} of {path.name!r} has {counts[row]} cells, but there are"
            f" {len(head)} columns."
        )
    # pandas writes the numbers of rows first
    return _numbers(path.name, cells.iloc[:, 1:] if numbered else cells)


def _numbers(file: str, frame: Any) -> Floats:
    """Return the columns of numbers, NaN where one is missing; those of text are left
    out, those of both refused.
    """
    columns = []
    for place, name in enumerate(frame.columns):
        cells = frame.iloc[:, place].reset_index(drop=True)
        values, text = _split(cells)
        if text.all():
            about = f"Column {name!r} of {file!r} holds no numbers and is left out."
            warnings.warn(about, GiantstepWarning, stacklevel=2)
        elif text.any():
            row = int(text.argmax())
            raise InputError(
                f"Column {name!r} of {file!r} holds {cells[row]!r} in row {row}, not a"
                " number."
            )
        else:
            columns.append(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if not columns:
        raise InputError(f"{file!r} holds no column of numbers.")
    return np.column_stack(columns)


def _split(cells: Any) -> tuple[Any, Booleans]:
    """Return the numbers in cells, NaN elsewhere, and which cells hold neither a number
    nor a sign of a missing one.
    """
    import pandas

    values = pandas.to_numeric(cells, errors="coerce")
    text = np.array(cells.notna() & values.isna())
    text[text] = [str(cell).strip().lower() not in MISSING for cell in cells[text]]
    return values, text
