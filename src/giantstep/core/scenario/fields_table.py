"""A scenario or a part for reading: name, symbol, value and meaning of each field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import BaseModel

from giantstep.core.base.display import Block, Table, shown_value

if TYPE_CHECKING:
    from pydantic import BaseModel


def field_rows(
    model: BaseModel, indent: int = 0, place: int = 0
) -> Iterator[tuple[str, ...]]:
    """Yield name, symbol, value and meaning of every field; those inside a part or a
    list of parts are below it.
    """
    from pydantic import BaseModel

    from giantstep.core.scenario.lists import declaration_at, holds_parts, symbol_of

    for name in type(model).model_fields:
        if name == "kind":
            continue
        value = getattr(model, name)
        info = declaration_at(type(model), name, place)
        part = isinstance(value, BaseModel)
        parts = value if holds_parts(value) else ()
        if part:
            shown = type(value).__name__
        elif parts:
            shown = f"list of {len(parts)}"
        else:
            shown = shown_value(value)
        yield "  " * indent + name, symbol_of(info), shown, info.description or ""
        if part:
            yield from field_rows(value, indent + 1, place)
        for index, entry in enumerate(parts):
            yield "  " * (indent + 1) + f"{name}.{index}", "", type(entry).__name__, ""
            yield from field_rows(entry, indent + 2, index + 1)


def model_blocks(model: BaseModel) -> list[Block]:
    """Return a scenario or part for reading: its title, then name, symbol, value and
    meaning of each field.
    """
    title = getattr(model, "title", "")
    if title:
        heading = f"{type(model).__name__}: {title}"
    else:
        heading = type(model).__name__
    return [
        heading,
        Table(
            ("field", "symbol", "value", "meaning"),
            list(field_rows(model)),
            is_list=True,
        ),
    ]
