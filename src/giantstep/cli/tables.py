"""A result as a readable table on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from giantstep.design.tables import result_text
from giantstep.listing import Row, listing, shown_cell, without_empty_columns

if TYPE_CHECKING:
    import xarray

_MOST_ROWS = 40
"""Rows shown; the middle of a longer table is left out, and said so."""


def print_result(result: xarray.Dataset) -> None:
    """Print the main variables of a result: a list for one point, a row per point of a grid."""
    if "shown" in result.attrs:
        print(result_text(result))
        return
    screen, shown = _console(), listing(result)
    screen.print(shown.title, soft_wrap=True)
    for rows in shown.tables:
        _print(screen, rows)
    for note in shown.notes:
        screen.print(note, soft_wrap=True)


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print a title and rows of equal length."""
    screen = _console()
    screen.print(title, soft_wrap=True)
    _print(screen, rows)


def _console() -> Console:
    """Return a console on stdout, wide where nobody watches (a pipe has no width)."""
    width = None if sys.stdout.isatty() else 160
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def _print(screen: Console, rows: Sequence[Row]) -> None:
    """Print rows of equal length; columns where nothing was computed are left out."""
    if not rows:
        return
    rows = without_empty_columns(rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for head, value in rows[0]:
        table.add_column(head, justify="left" if isinstance(value, str) else "right", overflow="fold")
    half, left_out = _MOST_ROWS // 2, len(rows) - _MOST_ROWS
    for number, row in enumerate(rows):
        if left_out > 0 and number == half:
            table.add_row(*["..."] * len(row))
        if left_out <= 0 or not half <= number < half + left_out:
            table.add_row(*(shown_cell(*cell) for cell in row))
    screen.print(table)
    if left_out > 0:
        screen.print(f"{left_out} of {len(rows)} rows are left out; --out FILE.csv writes all.", soft_wrap=True)
    screen.print()
