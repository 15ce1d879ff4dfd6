"""Results as tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from giantstep.design.tables import result_text
from giantstep.listing import Row, listing, shown_cell, without_empty_columns
from giantstep.texttable import MOST_ROWS, text_table

if TYPE_CHECKING:
    import xarray


def print_result(result: xarray.Dataset) -> None:
    """Print the main variables of a result: a list for one point, a row per point of a grid."""
    if "shown" in result.attrs:
        print(result_text(result))
        return
    shown = listing(result)
    print(shown.title)
    for rows in shown.tables:
        _print(rows)
    for note in shown.notes:
        print(note)


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print a title and rows of equal length; columns where nothing was computed are left out."""
    print(title)
    _print(rows)


def _print(rows: Sequence[Row]) -> None:
    if not rows:
        return
    rows = without_empty_columns(rows)
    heads = [head for head, _ in rows[0]]
    print("\n".join(text_table(heads, [[shown_cell(*cell) for cell in row] for row in rows], MOST_ROWS)))
    if len(rows) > MOST_ROWS:
        print(f"{len(rows) - MOST_ROWS} of {len(rows)} rows are left out; --out FILE.csv writes all.")
    print()
