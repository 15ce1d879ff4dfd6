"""Tables in plain text: what reports, design questions and the command line print."""

from __future__ import annotations

import math
from collections.abc import Sequence

MOST_ROWS = 40
"""Rows of a result that are printed; the middle of a longer one is left out, and said so."""


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], most: float = math.inf) -> list[str]:
    """Return lines with aligned columns: numbers to the right, words to the left; of more than `most` rows the ends.

    >>> text_table(["name", "gap"], [["test_error", "0.5%"], ["norm", "12%"]])
    ['name         gap', 'test_error  0.5%', 'norm         12%']
    """
    columns = list(zip(heads, *without_middle(rows, most)))
    aligned = [_aligned(column, is_words(column[1:])) for column in columns]
    return ["  ".join(cells).rstrip() for cells in zip(*aligned)]


def without_middle(rows: Sequence[Sequence[str]], most: float) -> list[Sequence[str]]:
    """Return at most `most` rows: the ends, and a row that says how many are left out between them."""
    if len(rows) <= most:
        return list(rows)
    half, gap = int(most) // 2, f"({len(rows) - int(most)} more)"
    return [*rows[:half], [gap, *[""] * (len(rows[0]) - 1)], *rows[-half:]]


def is_words(cells: Sequence[str]) -> bool:
    """Tell whether a column holds no numbers."""
    return not any(cell[:1].isdigit() or cell[:1] in ("+", "-") for cell in cells)


def _aligned(cells: Sequence[str], left: bool) -> list[str]:
    width = max(map(len, cells))
    return [cell.ljust(width) if left else cell.rjust(width) for cell in cells]
