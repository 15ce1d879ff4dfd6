"""Tables of users: columns that do not vary are left out, in the same words
everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, warn_user
from giantstep.core.base.types import Booleans, Floats

ROUNDING = 1e-12
"""Range of a column, relative to its largest entry, that is rounding: such a column
does not vary.
"""
_MOST_NAMED = 8
"""Columns that a warning names; of more it says how many."""


def constant_columns(table: Floats) -> Booleans:
    """Tell which columns of a table do not vary, (columns,).

    >>> constant_columns(np.array([[1.0, 5.0], [2.0, 5.0]])).tolist()
    [False, True]
    """
    largest = np.abs(table).max(axis=0)
    return np.asarray(np.ptp(table, axis=0) <= ROUNDING * largest)


def leave_out_constant(
    table: Floats, names: Sequence[Any] | None = None, called: str = "inputs"
) -> Booleans:
    """Return which columns of a table vary; warn of the others, and refuse a table
    where none does.

    `names` are those of the columns, their numbers from 0 if left out; `called` is what
    the user calls the table.
    """
    constant = constant_columns(table)
    if constant.all():
        raise InputError(
            f"All columns of the {called} are constant, so that there is nothing to"
            " learn from."
        )
    warn_of_constant(constant, names)
    return ~constant


def warn_of_constant(constant: Booleans, names: Sequence[Any] | None = None) -> None:
    """Warn that constant columns were left out: how many, and which."""
    places = np.flatnonzero(constant).tolist()
    if not places:
        return
    which = few_of([str(place if names is None else names[place]) for place in places])
    if len(places) == 1:
        verb = "is constant and was"
    else:
        verb = "are constant and were"
    warn_user(f"{len(places)} of {len(constant)} columns {verb} left out: {which}.")


def few_of(names: Sequence[str]) -> str:
    """Return names in a row; of many the first ones, and how many more there are."""
    if len(names) <= _MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
