"""What is asked of a forecast, checked before any row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from giantstep.checks import check_number, check_whole
from giantstep.errors import InputError, bad_field
from giantstep.forecasts.labels import LabelNumbers
from giantstep.types import Floats, Integers

RIDGES = tuple(float(f"{ridge:.6g}") for ridge in np.geomspace(0.1, 1e3, 9))
"""Penalties of a forecast where none are given."""
SIZES = 12
"""Sample sizes where none are given."""
SMALLEST = 3
"""Samples of a fit at least: one more than its intercept and one degree of freedom take."""


@dataclass(frozen=True)
class Settings:
    """Ridges, sample sizes and effort of a forecast; see `giantstep.forecast`."""

    ridges: Floats
    samples: Integers
    trials: int
    rows: int
    seed: int
    device: str
    groups: Integers | None
    draws: int | None


def read_settings(labels: LabelNumbers, ridge: Any, samples: Any, groups: Any, draws: Any, **counts: Any) -> Settings:
    """Check what is asked and fill in what was left open.

    Parameters
    ----------
    **counts : trials, rows, seed, device.
    """
    count = len(labels.values)
    return Settings(
        _numbers("ridge", RIDGES if ridge is None else ridge, "at least 0", lambda value: 0 <= value < math.inf),
        _sizes(samples, count, len(labels.names)),
        check_whole("trials", counts["trials"], "a whole number, 0 for no experiment or at least 2", 0),
        check_whole("rows", counts["rows"], "a whole number at least 10", 10),
        check_whole("seed", counts["seed"], "a whole number from 0 to 2**64 - 1", 0, 2**64 - 1),
        counts["device"],
        None if groups is None else _groups(groups, count),
        None if draws is None else check_whole("draws", draws, "a whole number at least 1", 1),
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
    sizes = _numbers("samples", samples, allowed, lambda value: SMALLEST <= value < math.inf)
    if not np.all(sizes == np.round(sizes)):
        raise bad_field("samples", samples, allowed)
    return sizes.astype(np.int64)


def default_sizes(count: int, classes: int = 0) -> Integers:
    """Return 12 sample sizes from 20 (or two for each class) to 4 N, with N/4, N/2 and N among them.

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
        raise InputError(f"Field `groups` must be one label for each of {count} rows, but has shape {labels.shape}.")
    numbers = np.unique(labels if labels.dtype.kind != "O" else labels.astype(str), return_inverse=True)[1]
    if int(numbers.max()) + 1 < 4:
        raise bad_field("groups", sorted(set(labels.tolist())), "labels of at least 4 groups")
    return numbers.astype(np.int64)
