"""The study ``giantstep new`` prints: every field with its symbol, meaning and bounds; it reads back."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from giantstep.describe import describe
from giantstep.jsondata import with_infinity
from giantstep.toml import write_toml

_COMMENT_COLUMN = 32
"""Where comments begin, in characters: behind most lines."""

_TAIL = """\
# Fields that vary: a range or a list; several make the outer product.
[grid]
# {field} = {{ start = {start}, stop = {stop}, num = 20 }}   # scale = "log" for equal ratios

# Settings of the limit.
[limit]
# theory = "{theory}"{theories}
# dim = 1000                    # adds the leading finite-size correction, where it is known
# tolerance = 1e-10             # relative residual the equations are solved to

# Settings of the experiment.
[experiment]
dim = 200                       # d: dimension of the data
trials = 5                      # independent repetitions
seed = 0                        # any whole number from 0 on
# device = "cpu"                # or "cuda"
# paired = false                # true gives all points the same draws
# keep_trials = false           # true keeps every trial, not just the mean
"""


def template(family: str) -> str:
    """Return a commented study of a family: its example, with all that could be said instead."""
    about = describe(family)
    example = with_infinity(about["example"])
    rule = textwrap.indent(
        f"{about['title']} (giantstep describe {family})\n\n{about['update_rule']}", "# ", lambda _: True
    )
    head = [*(line.rstrip() for line in rule.splitlines()), ""]
    return "\n".join(
        [
            *head,
            *_questions(about),
            "",
            "[scenario]",
            _line("family", family),
            *_scenario(about, example),
            _tail(about, example),
        ]
    )


def _questions(about: dict[str, Any]) -> Iterator[str]:
    for number, (name, question) in enumerate(about["questions"].items()):
        line = _line("what", name, question["meaning"])
        yield line if number == 0 else f"# {line}"
        settings = ", ".join(question["settings"])
        if settings:
            yield f"#   its settings go into a table [settings]: {settings}"


def _scenario(about: dict[str, Any], example: dict[str, Any]) -> Iterator[str]:
    tables = [field for field in about["fields"] if _is_table(field, example.get(field["name"]))]
    plain = [field for field in about["fields"] if field not in tables]
    for field in plain:
        if example.get(field["name"]) is None:
            yield f"# left out here: {_said(field)}"
        else:
            yield _line(field["name"], example.get(field["name"]), _said(field))
        for choice in field.get("choices", []):
            if "value" not in choice:
                yield from _block(field, choice, {}, "# ")
    for field in tables:
        name = field["name"]
        yield from (
            f"# {_line(name, choice['value'], _said(field))}" for choice in field["choices"] if "value" in choice
        )
    yield ""
    for field in tables:
        yield f"# {_said(field)}"
        values = example[field["name"]] if _is_list(field) else [example[field["name"]]]
        for value in values:
            for choice in field["choices"]:
                if _is_chosen(choice, value):
                    yield from _block(field, choice, value, "")
        for choice in field["choices"]:
            if "value" not in choice and not any(_is_chosen(choice, value) for value in values):
                yield from _block(field, choice, {}, "# ")
        yield ""


def _is_list(field: dict[str, Any]) -> bool:
    return bool(field["type"] == "list of choices")


def _is_table(field: dict[str, Any], value: Any) -> bool:
    """Tell whether a field is written as tables of its own, behind the others."""
    return isinstance(value, dict) or _is_list(field)


def _is_chosen(choice: dict[str, Any], value: dict[str, Any]) -> bool:
    return "value" not in choice and choice.get("kind") == value.get("kind")


def _block(field: dict[str, Any], choice: dict[str, Any], value: dict[str, Any], mark: str) -> Iterator[str]:
    """Yield the table of one part; those that were not chosen are commented out."""
    if mark:
        yield "# and, for another entry" if _is_list(field) else "# or"
    table = f"scenario.{field['name']}"
    yield f"{mark}[[{table}]]" if _is_list(field) else f"{mark}[{table}]"
    if "kind" in choice:
        yield mark + _line("kind", choice["kind"], choice["meaning"])
    for inner in choice["fields"]:
        name = inner["name"].rpartition(".")[2]
        yield mark + _line(name, value.get(name, sample(inner)), _said(inner))


def sample(field: dict[str, Any]) -> Any:
    """Return a value for a field that was given none: its default, or 1, or a number within its bounds."""
    default = with_infinity(field.get("default"))
    if default not in (None, []):
        return default
    if field["type"] == "array of numbers":
        return [[1.0]]
    return [1.0] if field["type"] == "list of numbers" else _inside(field.get("bounds") or {}, field["type"])


def _inside(bounds: dict[str, float], kind: str) -> float:
    """Return 1, or a number within the bounds where 1 is not."""
    low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
    if kind == "whole number":
        return 1 if low is None else max(1, int(low) + ("gt" in bounds))
    if high is not None and (high < 1 or (high == 1 and "lt" in bounds)):
        return high - 1.0 if low is None else (low + high) / 2
    return low + 1.0 if low is not None and low >= 1 else 1.0


def _said(field: dict[str, Any]) -> str:
    allowed = "" if "choices" in field else f"; {field['allowed']}"
    return f"{field['symbol']}: {field['meaning']}{allowed}"


def _line(name: str, value: Any, said: str = "") -> str:
    text = write_toml({"table": {name: value}}).partition("\n")[2].rstrip()
    return f"{text.ljust(_COMMENT_COLUMN - 1)} # {said}" if said else text


def _tail(about: dict[str, Any], example: dict[str, Any]) -> str:
    numbers = [field["name"] for field in about["fields"] if isinstance(example.get(field["name"]), float | int)]
    field = next(iter([name for name in about["shared_fields"] if name in numbers] or numbers))
    value = float(example[field]) or 1.0
    theory, *others = about["theories"]
    said = "".join(f', or "{name}": {about["theories"][name]}' for name in others)
    theories = f"{' ' * max(1, 20 - len(theory))}# {about['theories'][theory]}{said}"
    return _TAIL.format(field=field, start=value / 4, stop=value * 2, theory=theory, theories=theories)
