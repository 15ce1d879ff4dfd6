"""How scenarios, studies and reports are shown: as HTML in a notebook, as aligned text elsewhere.

>>> import giantstep as gs
>>> print(gs.Vocabulary([1, -1], [0.9, 0.1]))
Vocabulary
  values         zeta_q  [1, -1]     values of the second layer (`OneStep`: at the start, times sqrt(p))
  probabilities  pi_q    [0.9, 0.1]  fraction of neurons with each value; equal if left out
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import BaseModel

    from giantstep.study import Study

_MOST_NUMBERS = 8
"""Numbers of a list that are shown; of a longer one the first and the last."""
_CELL = "text-align:left;vertical-align:top"


class Readable:
    """A report whose `str` is made for reading: it is the `repr` too, and HTML in a notebook."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return paragraphs(str(self).splitlines())


class FieldRow(NamedTuple):
    """A field of a scenario as it is shown."""

    name: str
    symbol: str
    value: str
    meaning: str


def field_rows(model: BaseModel, indent: int = 0, place: int = 0) -> Iterator[FieldRow]:
    """Yield the fields of a scenario or part, those inside a part or a list of parts below it."""
    from pydantic import BaseModel

    from giantstep.partlists import declaration_at, holds_parts

    for name in type(model).model_fields:
        if name == "kind":
            continue
        value, info = getattr(model, name), declaration_at(type(model), name, place)
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        part, parts = isinstance(value, BaseModel), value if holds_parts(value) else ()
        shown = type(value).__name__ if part else f"list of {len(parts)}" if parts else shown_value(value)
        yield FieldRow("  " * indent + name, str(extra.get("symbol", "")), shown, info.description or "")
        if part:
            yield from field_rows(value, indent + 1, place)
        for index, entry in enumerate(parts):
            yield FieldRow("  " * (indent + 1) + f"{name}.{index}", "", type(entry).__name__, "")
            yield from field_rows(entry, indent + 2, index + 1)


def shown_value(value: Any) -> str:
    """Return a value in few words: ``1.5``, ``tanh(z)``, ``0.1 ... 10 (20 values)``, ``array of 3 x 3``."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if getattr(value, "name", None) and isinstance(value.name, str):
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
    return "\n".join([_heading(model), *aligned(field_rows(model))])


def model_html(model: BaseModel) -> str:
    """Return a scenario or part as an HTML table."""
    return f"<b>{escape(_heading(model))}</b>" + html_table(("field", "symbol", "value", "meaning"), field_rows(model))


def study_text(study: Study) -> str:
    """Return a study as text: its question and scenario, and what varies."""
    lines = [f'Study of "{_asked(study)}"', model_text(study.scenario)]
    for name, table in _tables(study).items():
        lines += [f"{name}:", *aligned(table.items())]
    return "\n".join(lines)


def study_html(study: Study) -> str:
    """Return a study as HTML: its question, scenario and tables."""
    question = f"Study of <b>{escape(_asked(study))}</b>: {escape(study.question.meaning)}"
    parts = [html_table((name, ""), table.items()) for name, table in _tables(study).items()]
    return f"<div>{question}</div>{model_html(study.scenario)}{''.join(parts)}"


def inside_sentence(title: str) -> str:
    """Return a title as it stands inside a sentence: its first letter small, unless its first word is a name.

    >>> inside_sentence("Two-layer network"), inside_sentence("SGD of a network")
    ('two-layer network', 'SGD of a network')
    """
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def aligned(rows: Any) -> list[str]:
    """Return rows of texts as lines with aligned columns."""
    cells = [tuple(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return ["  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in cells]


def html_table(head: Sequence[str], rows: Any, right: Sequence[int] = ()) -> str:
    """Return an HTML table; the columns `right` are aligned to the right, leading spaces are kept."""

    def cell(tag: str, number: int, text: str) -> str:
        style = _CELL.replace("left", "right") if number in right else _CELL
        kept = "&nbsp;" * (len(text) - len(text.lstrip())) + escape(text.lstrip())
        return f'<{tag} style="{style}">{kept}</{tag}>'

    def line(tag: str, texts: Sequence[Any]) -> str:
        return "<tr>" + "".join(cell(tag, number, str(text)) for number, text in enumerate(texts)) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"


def paragraphs(lines: Sequence[str]) -> str:
    """Return lines of text as HTML: the first is bold up to its colon, what is indented is a list."""
    first, *rest = lines or [""]
    head, colon, tail = first.partition(":")
    items = "".join(f"<li>{escape(line.strip())}</li>" for line in rest)
    return f"<div><b>{escape(head)}</b>{colon}{escape(tail)}</div>" + (f"<ul>{items}</ul>" if items else "")


def _heading(model: BaseModel) -> str:
    title = getattr(model, "title", "")
    return f"{type(model).__name__}: {title}" if title else type(model).__name__


def _asked(study: Study) -> str:
    return study.what or next(iter(study.scenario.questions))


def _tables(study: Study) -> dict[str, Mapping[str, str]]:
    tables = {"varies": study.grid, "settings": study.settings, "limit": study.limit, "experiment": study.experiment}
    return {
        name: {key.replace("__", "."): shown_value(value) for key, value in table.items()}
        for name, table in tables.items()
        if table
    }
