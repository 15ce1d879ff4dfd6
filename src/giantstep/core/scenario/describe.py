"""Descriptions of a family, made from its declarations: plain data for pages, text for
people.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from giantstep.core.base.display import Block, Table, blocks_html
from giantstep.core.base.jsondata import json_data, with_infinity
from giantstep.core.maths.gaussian import Function, Target
from giantstep.core.scenario.arrays import FrozenArray
from giantstep.core.scenario.families import family_class
from giantstep.core.scenario.family import Question, Setting
from giantstep.core.scenario.fields import allowed_types, allowed_values, bounds_of
from giantstep.core.scenario.lists import holds_parts, part_list, value_annotation
from giantstep.core.scenario.references import BIBTEX
from giantstep.core.scenario.toml import toml_value, write_toml

_SAID: dict[Any, tuple[str, str]] = {
    float: ("number", ""),
    int: ("whole number", ""),
    tuple: ("list of numbers", "a list of numbers"),
    Function: (
        "function",
        "a name, an expression in z, or in Python a callable (gs.Function)",
    ),
    Target: (
        "function",
        "a name, an expression in z1..zk, or in Python a callable (gs.Target)",
    ),
    FrozenArray: ("array of numbers", "an array of numbers, as nested lists"),
    str: ("text", "str"),
    bool: ("true or false", "true or false"),
    type(None): ("name", "left out"),
}
"""Type -> what it is called, and what of it is allowed (of numbers their bounds)."""
_VARIABLE = ("name", "dims", "symbol", "meaning", "engines", "compared", "absent")
_WIDTH = 110
"""Characters of a line of text."""
_COLUMN = 38
"""Where meanings begin, in characters: behind most names with their symbols."""


# -- as data ---------------------------------------------------------------------------


class Description(dict[str, Any]):
    """What a family is, as strict JSON data; a notebook shows it as tables."""

    def blocks(self) -> list[Block]:
        """Return the title, the fields, the questions with their variables, the
        theories and the papers.
        """
        fields = [
            _field_cells(field, indent) for indent, field in _with_inner(self["fields"])
        ]
        blocks: list[Block] = [
            f"{self['family']}: {self['title']}",
            *self["update_rule"].splitlines(),
        ]
        blocks.append(
            Table(("field", "symbol", "meaning", "allowed", "default"), fields)
        )
        for name, question in self["questions"].items():
            rows = [
                (one["name"], one["symbol"], one["meaning"])
                for one in question["variables"]
            ]
            blocks += [
                f'Question "{name}": {question["meaning"]}',
                Table(("variable", "symbol", "meaning"), rows),
            ]
        blocks.append(Table(("theory", "meaning"), list(self["theories"].items())))
        blocks.append(
            Table(
                ("paper", "title"),
                [(paper["key"], paper["title"]) for paper in self["papers"]],
            )
        )
        return blocks

    def _repr_html_(self) -> str:
        return blocks_html(self.blocks())


def _with_inner(
    fields: Sequence[Mapping[str, Any]], indent: int = 0
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield fields, those of the parts that they may hold below them, each with its
    indent.
    """
    for field in fields:
        yield indent, field
        for choice in field.get("choices", []):
            yield from _with_inner(choice.get("fields", []), indent + 1)


def _field_cells(field: Mapping[str, Any], indent: int) -> tuple[str, ...]:
    default = "required" if field["required"] else _toml(field["default"])
    return (
        "  " * indent + field["name"],
        field["symbol"],
        field["meaning"],
        field["allowed"],
        default,
    )


def describe(family: str) -> Description:
    """Return what a family is as strict JSON data: its fields, questions, theories,
    papers with their notation.
    """
    cls = family_class(family)
    content = {
        "family": cls.family,
        "title": cls.title,
        "about": _first_paragraph(cls),
        "update_rule": cls.update_rule,
        "fields": describe_fields(cls),
        "questions": {
            name: _question(question) for name, question in cls.questions.items()
        },
        "theories": dict(cls.theories),
        "papers": [_paper(key, BIBTEX.get(key, "")) for key in cls.papers],
        "notation": {key: dict(symbols) for key, symbols in cls.notation.items()},
        "shared_fields": list(cls.shared_fields),
        "formula_version": cls.formula_version,
        "example": cls.example().content(),
        "composition": dict(cls.composition()),
    }
    return Description(content)


def describe_fields(model: type[BaseModel], prefix: str = "") -> list[dict[str, Any]]:
    """Return what the fields of a scenario or a part are, as `describe` does."""
    return [
        _field(prefix + name, info)
        for name, info in model.model_fields.items()
        if name != "kind"
    ]


def _field(name: str, info: FieldInfo) -> dict[str, Any]:
    if isinstance(info.json_schema_extra, dict):
        extra = info.json_schema_extra
    else:
        extra = {}
    listed = part_list(info)
    leaves = list(allowed_types(value_annotation(info)))
    parts = [leaf for leaf in leaves if _is_part(leaf)]
    of_parts = "choice" if listed is None else "list of choices"
    about: dict[str, Any] = {
        "name": name,
        "symbol": extra.get("symbol", ""),
        "meaning": info.description or "",
        "type": (
            of_parts
            if parts
            else " or ".join(
                dict.fromkeys(_SAID.get(leaf, ("name",))[0] for leaf in leaves)
            )
        ),
        "allowed": (
            _allowed(info, leaves)
            if listed is None
            else f"a list, each entry {_allowed(info, leaves)}"
        ),
        "required": info.is_required(),
    }
    if "only" in extra:
        about["only"] = extra["only"]
    if not info.is_required():
        about["default"] = _plain(info.default)
    if float in leaves or int in leaves:
        about["bounds"] = bounds_of(info)
        about["infinite"] = bool(extra.get("infinite"))
    if parts:
        about["choices"] = [
            _choice(name, leaf)
            for leaf in leaves
            if _is_part(leaf) or not isinstance(leaf, type)
        ]
    elif leaves and not any(isinstance(leaf, type) for leaf in leaves):
        about["values"] = leaves
    return about


def _choice(name: str, leaf: Any) -> dict[str, Any]:
    if not _is_part(leaf):
        return {"value": leaf}
    kind = leaf.model_fields.get("kind")
    about: dict[str, Any] = {} if kind is None else {"kind": kind.default}
    meaning = _first_paragraph(leaf)
    fields = describe_fields(leaf, f"{name}.")
    return {**about, "name": leaf.__name__, "meaning": meaning, "fields": fields}


def _question(question: Question) -> dict[str, Any]:
    names = dict.fromkeys(
        name for variable in question.variables for name in variable.dims
    )
    return {
        "meaning": question.meaning,
        "variables": [_told(variable, *_VARIABLE) for variable in question.variables],
        "settings": {
            name: _setting(setting) for name, setting in question.settings.items()
        },
        "plot": list(question.plot),
        "dimensions": {
            name: _told(question.dimension(name), "role", "label", "symbol")
            for name in names
        },
    }


def _told(declaration: Any, *names: str) -> dict[str, Any]:
    return {name: json_data(getattr(declaration, name)) for name in names}


def _setting(setting: Setting) -> dict[str, Any]:
    about = {
        "meaning": setting.meaning,
        "default": _plain(setting.default),
        "engines": list(setting.engines),
    }
    if setting.example is not None:
        about["example"] = json_data(
            np.atleast_1d(np.array(setting.example, dtype=object))
        )
    if setting.choices:
        return {**about, "choices": list(setting.choices)}
    return about


def _is_part(leaf: Any) -> bool:
    return isinstance(leaf, type) and issubclass(leaf, BaseModel)


def _allowed(info: FieldInfo, leaves: list[Any]) -> str:
    def said(leaf: Any) -> str:
        if leaf in (float, int):
            return allowed_values(info)
        if _is_part(leaf):
            kind = leaf.model_fields.get("kind")
            if kind is None:
                return f"a table of {', '.join(leaf.model_fields)}"
            return f'kind "{kind.default}"'
        if leaf in _SAID:
            return _SAID[leaf][1]
        return getattr(leaf, "__name__", f'"{leaf}"')

    return " or ".join(map(said, leaves))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Function | Target):
        return value.expression
    if holds_parts(value):
        return [_plain(part) for part in value]
    return json_data(value.values if isinstance(value, FrozenArray) else value)


def _first_paragraph(cls: type) -> str:
    return " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())


def _paper(key: str, bibtex: str) -> dict[str, str]:
    title = re.search(r"(?<!\w)title\s*=\s*\{(.*?)\},\n", bibtex, re.DOTALL)
    return {
        "key": key,
        "title": " ".join(title.group(1).split()) if title else "",
        "bibtex": bibtex,
    }


# -- as text ---------------------------------------------------------------------------


def describe_text(family: str) -> str:
    """Return the description of a family for reading: update rule, fields, questions,
    theories, papers.
    """
    about = describe(family)
    lines = [
        f"{about['family']}: {about['title']}",
        "",
        "Update rule",
        textwrap.indent(about["update_rule"], "  "),
    ]
    lines += ["", "Fields", *_rows(_field_rows(about["fields"]))]
    for number, (name, question) in enumerate(about["questions"].items()):
        lines += [
            "",
            (
                f'Question "{name}"{" (the default)" if not number else ""}:'
                f" {question['meaning']}"
            ),
        ]
        lines += _rows([_variable_row(variable) for variable in question["variables"]])
        rows: list[_Row] = []
        for setting, said in question["settings"].items():
            if "choices" in said:
                choices = f"; one of {', '.join(said['choices'])}"
            else:
                choices = ""
            if said["default"] is None:
                default = ""
            else:
                default = f"; default {_toml(said['default'])}"
            rows.append((2, setting, [said["meaning"] + choices + default]))
        lines += ["  settings:", *_rows(rows)] if rows else []
    lines += [
        "",
        "Theories",
        *_rows([(1, name, [meaning]) for name, meaning in about["theories"].items()]),
    ]
    if about["composition"]:
        lines += ["", "What composes (the experiment answers every pair)"]
        lines += _rows(
            [(1, pair, [verdict]) for pair, verdict in about["composition"].items()]
        )
    lines += [
        "",
        "Papers",
        *_rows([(1, paper["key"], [paper["title"]]) for paper in about["papers"]]),
    ]
    return "\n".join(lines) + "\n"


def field_table(model: type[BaseModel]) -> str:
    """Return the fields of a scenario or a part as `describe_text` shows them."""
    return "\n".join(_rows(_field_rows(describe_fields(model))))


_Row = tuple[int, str, list[str]]
"""Indent, name with its symbol, and what is said of it, line by line."""


def _field_rows(fields: list[dict[str, Any]], indent: int = 1) -> Iterator[_Row]:
    for field in fields:
        if field["required"]:
            default = "; required"
        else:
            default = f"; default {_toml(field['default'])}"
        yield (
            indent,
            _head(field["name"], field["symbol"]),
            [field["meaning"], field["allowed"] + default],
        )
        for choice in field.get("choices", []):
            if "value" in choice:
                yield indent + 1, _toml(choice["value"]), []
                continue
            if "kind" in choice:
                kind = f'kind = "{choice["kind"]}"'
            else:
                kind = choice["name"]
            yield indent + 1, kind, [choice["meaning"]]
            yield from _field_rows(choice["fields"], indent + 2)


def _variable_row(variable: Mapping[str, Any]) -> _Row:
    dims = f"({', '.join(variable['dims'])})" if variable["dims"] else ""
    if len(variable["engines"]) == 1:
        only = f"; {variable['engines'][0]} only"
    else:
        only = ""
    absent = f"; NaN: {variable['absent']}" if variable["absent"] else ""
    return (
        1,
        _head(variable["name"] + dims, variable["symbol"]),
        [variable["meaning"] + only + absent],
    )


def _head(name: str, symbol: str) -> str:
    return f"{name:<22}  {symbol}".rstrip()


def _rows(rows: Iterable[_Row]) -> list[str]:
    """Write names in one column and what is said of them, wrapped, in another; long
    names have a line of their own.
    """
    lines = []
    for indent, head, said in rows:
        head = "  " * indent + head
        body = [line for text in said for line in textwrap.wrap(text, _WIDTH - _COLUMN)]
        heads = [head] if len(head) <= _COLUMN - 2 or not body else []
        lines += [] if heads else [head]
        lines += [
            f"{word:<{_COLUMN}}{line}".rstrip()
            for word, line in zip_longest(heads, body, fillvalue="")
        ]
    return lines


def _toml(value: Any) -> str:
    """Write a value as one line of TOML."""
    return "none" if value is None else toml_value(with_infinity(value))


# -- The study ``giantstep new`` prints: every field with its symbol -------------------


_TAIL = """\
# Fields that vary: a range or a list; several make the outer product.
[grid]
# {field} = {{ start = {start}, stop = {stop}, num = 20 }}  # scale = "log" for equal ratios

# Settings of the limit.
[limit]
# theory = "{theory}"  # {theories}
# dim = 1000  # adds the leading finite-size correction, where it is known
# tolerance = 1e-10  # relative residual the equations are solved to

# Settings of the experiment.
[experiment]
dim = 200  # d: dimension of the data
trials = 5  # independent repetitions
seed = 0  # any whole number from 0 on
# device = "cpu"  # or "cuda"
# paired = false  # true gives all points the same draws
# keep_trials = false  # true keeps every trial, not just the mean
"""  # noqa: E501


def template(family: str) -> str:
    """Return a commented study of a family: its example; other parts and their fields
    are in its description.
    """
    about = describe(family)
    example = with_infinity(about["example"])
    rule = (
        f"{about['title']}\n\n{about['update_rule']}\n\n`giantstep describe {family}`"
        " says all that fields may hold."
    )
    questions = [
        f'what = "{name}"  # {question["meaning"]}'
        for name, question in about["questions"].items()
    ]
    said = {
        field["name"]: f"{field['symbol']}: {field['meaning']}; {field['allowed']}"
        for field in about["fields"]
    }
    absent = [
        f"# {name} is left out here; {text}"
        for name, text in said.items()
        if example.get(name) is None
    ]
    scenario = write_toml(
        {"scenario": example}, {f"scenario.{name}": text for name, text in said.items()}
    )
    numbers = [name for name in said if isinstance(example.get(name), float | int)]
    field = next(
        name for name in [*about["shared_fields"], *numbers] if name in numbers
    )
    value = float(example[field]) or 1.0
    theory, *more = about["theories"]
    theories = "; ".join(
        [
            about["theories"][theory],
            *(f'or "{name}": {about["theories"][name]}' for name in more),
        ]
    )
    tail = _TAIL.format(
        field=field, start=value / 4, stop=value * 2, theory=theory, theories=theories
    )
    head = "\n".join(f"# {line}".rstrip() for line in rule.splitlines())
    return "\n\n".join(
        [head, "\n# ".join(questions), scenario + "\n".join(absent), tail]
    )
