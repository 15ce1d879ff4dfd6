"""TOML in and out: the standard library reads, the small writer here writes; errors are
one sentence.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from giantstep.core.base.errors import InputError
from giantstep.core.scenario.lists import holds_parts

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_toml(text: str, source: str = "The text") -> dict[str, Any]:
    """Parse TOML; what is broken is said in one sentence with line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = str(error)
        raise InputError(
            f"{source} is not valid TOML: {problem[:1].lower()}{problem[1:]}."
        ) from None


def write_toml(
    tables: Mapping[str, Any], comments: Mapping[str, str] | None = None
) -> str:
    """Return TOML text: plain values, then a section for each mapping; `comments` of
    dotted names stand behind them.
    """
    plain = {
        name: value for name, value in tables.items() if not isinstance(value, Mapping)
    }
    sections = {
        name: value for name, value in tables.items() if isinstance(value, Mapping)
    }
    parts = [_lines(plain, "", comments or {})] if plain else []
    parts += [
        f"[{_key(name)}]\n" + _lines(_without_none(table), f"{name}.", comments or {})
        for name, table in sections.items()
    ]
    return "\n".join(parts)


def _lines(table: Mapping[str, Any], prefix: str, comments: Mapping[str, str]) -> str:
    lines = ""
    for name, value in table.items():
        # a list of tables has each on its own line
        if holds_parts(value):
            rows = "".join(f"  {toml_value(entry)},\n" for entry in value)
        else:
            rows = ""
        if comments.get(prefix + name):
            comment = f"  # {comments[prefix + name]}"
        else:
            comment = ""
        text = "[\n" + rows + "]" if rows else toml_value(value)
        lines += f"{_key(name)} = {text}{comment}\n"
    return lines


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is None: TOML has no word for it."""
    return {name: value for name, value in table.items() if value is not None}


def _key(name: str) -> str:
    """Write a key; dotted field names are quoted, so that they stay one key."""
    if _BARE_KEY.fullmatch(name):
        return name
    return json.dumps(name, ensure_ascii=False)


def toml_value(value: Any) -> str:
    """Write a value as one line of TOML."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, complex):
        value = str(value)
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inside = ", ".join(
            f"{_key(name)} = {toml_value(inner)}"
            for name, inner in _without_none(value).items()
        )
        return f"{{ {inside} }}" if inside else "{}"
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    raise InputError(
        f"A {type(value).__name__} cannot be written to a file: {value!r}."
    )
