"""How scenarios, studies and reports are shown: as aligned text, which a notebook shows preformatted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

MOST_ROWS = 40
"""Rows of a result that are printed; the middle of a longer one is left out, and said so."""
_MOST_NUMBERS = 8
"""Numbers of a list that are shown; of a longer one the first and the last."""


class Readable:
    """A report whose `str` is made for reading: it is the `repr` too, and HTML in a notebook."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def preformatted(text: str) -> str:
    """Return a text as a notebook shows it with its columns aligned."""
    return f"<pre>{escape(text)}</pre>"


def field_rows(model: BaseModel, indent: int = 0, place: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield name, symbol, value and meaning of every field; those inside a part or a list of parts are below it."""
    from pydantic import BaseModel

    from giantstep.partlists import declaration_at, holds_parts, symbol_of

    for name in type(model).model_fields:
        if name == "kind":
            continue
        value, info = getattr(model, name), declaration_at(type(model), name, place)
        part, parts = isinstance(value, BaseModel), value if holds_parts(value) else ()
        shown = type(value).__name__ if part else f"list of {len(parts)}" if parts else shown_value(value)
        yield "  " * indent + name, symbol_of(info), shown, info.description or ""
        if part:
            yield from field_rows(value, indent + 1, place)
        for index, entry in enumerate(parts):
            yield "  " * (indent + 1) + f"{name}.{index}", "", type(entry).__name__, ""
            yield from field_rows(entry, indent + 2, index + 1)


def shown_value(value: Any) -> str:
    """Return a value in few words: ``1.5``, ``tanh(z)``, ``0.1 ... 10 (20 values)``, ``array of 3 x 3``."""
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
        return repr(value) if hasattr(type(value), "model_fields") else str(value)
    if not value:
        return "-"
    if len(value) > _MOST_NUMBERS:
        return f"{shown_value(value[0])} ... {shown_value(value[-1])} ({len(value)} values)"
    return f"[{', '.join(map(shown_value, value))}]"


def model_text(model: BaseModel) -> str:
    """Return a scenario or part as aligned text: its title, then name, symbol, value and meaning of each field."""
    title = getattr(model, "title", "")
    heading = f"{type(model).__name__}: {title}" if title else type(model).__name__
    return "\n".join([heading, *aligned(field_rows(model))])


def inside_sentence(title: str) -> str:
    """Return a title as it stands inside a sentence: its first letter small, unless its first word is a name."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def aligned(rows: Any) -> list[str]:
    """Return rows of texts as lines with aligned columns."""
    cells = [tuple(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return ["  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in cells]


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]], most: float = math.inf) -> list[str]:
    """Return lines with aligned columns: numbers to the right, words to the left; of more than `most` rows the ends."""
    columns = []
    if len(rows) > most:
        half, gap = int(most) // 2, f"({len(rows) - int(most)} more)"
        rows = [*rows[:half], [gap, *[""] * (len(rows[0]) - 1)], *rows[-half:]]
    for head, *cells in zip(heads, *rows):
        width = max(map(len, [head, *cells]))
        has_numbers = any(cell[:1].isdigit() or cell[:1] in ("+", "-") for cell in cells)
        columns.append([cell.rjust(width) if has_numbers else cell.ljust(width) for cell in [head, *cells]])
    return ["  ".join(cells).rstrip() for cells in zip(*columns)]
