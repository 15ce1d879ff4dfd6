"""How scenarios, studies and reports are shown: as aligned text, and as HTML tables in
a notebook.

A report is a list of blocks, sentences and tables, which are written once:
`blocks_text` and `blocks_html` show them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    pass

MOST_ROWS = 40
"""Rows of a result that are printed; the middle of a longer one is left out, and said
so.
"""
_MOST_NUMBERS = 8
"""Numbers of a list that are shown; of a longer one the first and the last."""


class Table(NamedTuple):
    """A table of a report: rows of texts below their heads."""

    heads: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    # rows that are shown; the middle of a longer table is left out
    most: float = math.inf
    is_list: bool = False  # whether the text leaves out the heads and indents the rows


Block = str | Table
"""A sentence (an empty one is a line between two blocks of text) or a table."""


class Readable:
    """A report whose `str` is made for reading: it is the `repr` too; a notebook shows
    its blocks as HTML.
    """

    def blocks(self) -> list[Block]:
        """Return the sentences and tables of the report."""
        return [*str(self).splitlines()]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return blocks_html(self.blocks())


def blocks_text(blocks: Sequence[Block]) -> str:
    """Return blocks as lines of text; tables with the same heads share their columns,
    which are headed once.
    """
    together: dict[tuple[str, ...], list[Sequence[str]]] = {}
    for block in blocks:
        if isinstance(block, Table) and not block.is_list:
            together.setdefault(block.heads, []).extend(_without_middle(block))
    aligned_lines = {heads: text_table(heads, rows) for heads, rows in together.items()}
    lines: list[str] = []
    headed: set[tuple[str, ...]] = set()
    for block in blocks:
        if isinstance(block, str):
            lines.append(block)
        elif block.is_list:
            lines += aligned(block.rows)
        else:
            left = aligned_lines[block.heads]
            count = len(_without_middle(block)) + (block.heads not in headed)
            headed.add(block.heads)
            lines += left[:count]
            aligned_lines[block.heads] = left[count:]
    return "\n".join(lines)


def blocks_html(blocks: Sequence[Block]) -> str:
    """Return blocks as HTML: paragraphs and tables."""
    shown = []
    for block in blocks:
        if isinstance(block, Table):
            shown.append(html_table(block.heads, _without_middle(block)))
        elif block:
            shown.append(f"<p>{_html(block)}</p>")
    return "".join(shown)


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table; columns of numbers are aligned to the right."""
    sides = ["right" if _is_numeric(column) else "left" for column in zip(*rows)] or [
        "left"
    ] * len(heads)

    def line(tag: str, cells: Sequence[str]) -> str:
        styled = [
            f'<{tag} style="text-align: {side}">{_html(cell)}</{tag}>'
            for side, cell in zip(sides, cells)
        ]
        return f"<tr>{''.join(styled)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>"


def _html(text: str) -> str:
    """Return a text as HTML that keeps the spaces in front, which indent it."""
    inside = text.lstrip(" ")
    return "&nbsp;" * (len(text) - len(inside)) + escape(inside)


def _without_middle(table: Table) -> Sequence[Sequence[str]]:
    """Return the rows of a table; of more than its most rows the ends, with a row that
    says how many are missing.
    """
    if len(table.rows) <= table.most:
        return table.rows
    half = int(table.most) // 2
    gap = f"({len(table.rows) - int(table.most)} more)"
    return [
        *table.rows[:half],
        [gap, *[""] * (len(table.heads) - 1)],
        *table.rows[-half:],
    ]


def _is_numeric(cells: Sequence[str]) -> bool:
    return any(cell[:1].isdigit() or cell[:1] in ("+", "-") for cell in cells)


def shown_value(value: Any) -> str:
    """Return a value in few words: ``1.5``, ``tanh(z)``, ``0.1 ... 10 (20 values)``,
    ``array of 3 x 3``.
    """
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(getattr(value, "name", None), str) and value.name:
        return value.name
    if getattr(value, "ndim", 0) > 1:
        return f"array of {' x '.join(map(str, value.shape))}"
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        if hasattr(type(value), "model_fields"):
            return repr(value)
        return str(value)
    if not value:
        return "-"
    if len(value) > _MOST_NUMBERS:
        return (
            f"{shown_value(value[0])} ... {shown_value(value[-1])} ({len(value)}"
            " values)"
        )
    return f"[{', '.join(map(shown_value, value))}]"


def inside_sentence(title: str) -> str:
    """Return a title as it stands inside a sentence: its first letter small, unless its
    first word is a name.
    """
    if title[1:2].islower():
        return title[:1].lower() + title[1:]
    return title


def aligned(rows: Any) -> list[str]:
    """Return rows of texts as lines with aligned columns."""
    cells = [tuple(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
        for row in cells
    ]


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with aligned columns: numbers to the right, words to the left."""
    columns = []
    for head, *cells in zip(heads, *rows):
        width = max(map(len, [head, *cells]))
        is_numeric = _is_numeric(cells)
        columns.append(
            [
                cell.rjust(width) if is_numeric else cell.ljust(width)
                for cell in [head, *cells]
            ]
        )
    return ["  ".join(cells).rstrip() for cells in zip(*columns)]
