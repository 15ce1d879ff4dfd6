"""A network as what it is: data, first layer, steps, read-out in a row; what no theory
answers is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from giantstep.faces.page.controls import choice_name, sets
from giantstep.faces.page.fields import (
    Field,
    chosen,
    entry_of,
    field_named,
    is_number,
    start_of,
    value_at,
    with_value,
)
from giantstep.faces.page.markup import (
    Html,
    greek,
    joined,
    last_name,
    short,
    tag,
    words,
)

_BATCH = 2
"""Samples per dimension of a batch that was infinite."""
_CHECKED = 6
"""Steps up to which every kind of each is asked for its theory: of more, that takes
longer than a hand waits.
"""

Refusing = Callable[[Mapping[str, Any]], tuple[bool, str]]
"""Says of a scenario whether it is wrong in itself, and why no theory answers it; an
empty text where one does.
"""


def pipeline_html(
    about: Mapping[str, Any], scenario: Mapping[str, Any], refusing: Refusing
) -> Html:
    """Return the stages that a family declares for its page, each a card; nothing where
    it declares none.
    """
    cards = []
    for stage in about["page"].get("pipeline", []):
        if "list" in stage:
            cards += _step_cards(about, scenario, stage, refusing)
        else:
            cards += [_stage_card(about, scenario, stage)]
    return joined(*cards)


def _stage_card(
    about: Mapping[str, Any], scenario: Mapping[str, Any], stage: Mapping[str, Any]
) -> Html:
    title = stage["title"]
    fields = stage["fields"]
    look = {"aria_label": None, "class_": "stage-name", "data_go": fields[0]}
    head = _button(title, f"Go to the controls of the {title}", **look)
    said = " · ".join(
        text for text in (_said(about, scenario, name) for name in fields) if text
    )
    return tag(
        "li", head, tag("div", said, class_="stage-text"), data_holds=" ".join(fields)
    )


def _said(about: Mapping[str, Any], scenario: Mapping[str, Any], name: str) -> str:
    """Return a field in few words; nothing where it is at its default, unless that is
    what it is all about.
    """
    field = field_named(about, name)
    value = value_at(scenario, name)
    if field is None:
        return ""
    value = field.get("default") if value is None else value
    is_default = (
        value == field.get("default")
        and not field["required"]
        and field["type"] not in ("function", "choice")
    )
    if value is None or is_default:
        return ""
    if field["type"] == "function":
        return re.sub(
            r"\d+\.\d{4,}", lambda number: short(float(number[0]), 3), greek(value)
        )
    if isinstance(value, dict):
        kind = str(value.get("kind", ""))
        plain = {
            key: inner
            for key, inner in value.items()
            if key != "kind" and not isinstance(inner, dict | list)
        }
        said = [
            short(inner, 3) if key == kind else f"{words(key)} {short(inner, 3)}"
            for key, inner in plain.items()
        ]
        return " ".join([kind, *said]).strip()
    return f"{words(name)} {short(value, 3)}"


def _step_cards(
    about: Mapping[str, Any],
    scenario: Mapping[str, Any],
    stage: Mapping[str, Any],
    refusing: Refusing,
) -> list[Html]:
    title = stage["title"]
    name = stage["list"]
    field = field_named(about, name)
    entries = value_at(scenario, name)
    if field is None or not isinstance(entries, list):
        return []
    at = ("study", "scenario", *name.split("."), str(len(entries)))
    new = entries[-1] if entries else start_of(field["choices"][0])
    more = _button(
        f"+ {title}",
        f"Add a {title}",
        class_="add",
        id="add-step",
        data_set=sets((at, new)),
    )
    cards = [
        _step_card(field, scenario, entries, place, title, refusing)
        for place in range(len(entries))
    ]
    return [*cards, tag("li", more, class_="adder", data_holds=name)]


def _button(text: str, said: str, **attributes: Any) -> Html:
    return tag(
        "button", text, type="button", title=said, **{"aria_label": said, **attributes}
    )


def _step_card(
    field: Field,
    scenario: Mapping[str, Any],
    entries: list[Any],
    place: int,
    title: str,
    refusing: Refusing,
) -> Html:
    name = f"{field['name']}.{place}"
    entry = entries[place]
    called = f"{title} {place + 1}"
    here = entry_of(field, place)
    now = chosen(here, entry)
    head = tag(
        "div",
        _button(
            called,
            "Go to its controls",
            aria_label=None,
            class_="stage-name",
            data_go=name,
        ),
        tag("span", *_tools(field["name"], entries, place, called), class_="tools"),
        class_="stage-head",
    )
    options = []
    for choice in here["choices"]:
        start = entry if choice is now else start_of(choice)
        if len(entries) <= _CHECKED:
            wrong, why = refusing(with_value(scenario, name, start))
        else:
            wrong = False
            why = ""
        said = choice_name(choice)
        look = {
            "class_": "refused" if why else None,
            "title": why or choice.get("meaning"),
        }
        change = sets((_at(name), start))
        if not why or choice is now:
            text = said
        else:
            text = f"{said} ({'needs values' if wrong else 'no theory yet'})"
        options.append(
            tag(
                "option",
                text,
                value=said,
                selected=choice is now,
                data_set=change,
                **look,
            )
        )
    kinds = tag("select", *options, id=f"stage-{name}", aria_label=f"kind of {called}")
    values = []
    batches = []
    for inner in (now or {}).get("fields", []):
        key = last_name(inner["name"])
        if isinstance(entry, dict):
            value = entry.get(key, inner.get("default"))
        else:
            value = None
        if inner.get("infinite"):
            batches.append(_batch(inner, f"{name}.{key}", value))
        elif is_number(value) and (inner["required"] or value != inner.get("default")):
            values.append(f"{words(key)} {short(value, 3)}")
    return tag(
        "li",
        head,
        kinds,
        tag("div", " · ".join(values), class_="stage-text"),
        *batches,
        data_holds=name,
    )


def _at(name: str) -> tuple[str, ...]:
    """Return the path of a field in the state of the page."""
    return ("study", "scenario", *name.split("."))


def _tools(name: str, entries: list[Any], place: int, called: str) -> list[Html]:
    """Return the buttons that move a step past its neighbours, or remove it."""

    def swapped(other: int) -> str:
        there = entries[other] if 0 <= other < len(entries) else None
        return sets(
            (_at(f"{name}.{other}"), entries[place]), (_at(f"{name}.{place}"), there)
        )

    last = len(entries) - 1
    return [
        _button(
            "‹",
            f"Move earlier: {called}",
            disabled=place == 0,
            data_set=swapped(place - 1),
        ),
        _button(
            "›",
            f"Move later: {called}",
            disabled=place == last,
            data_set=swapped(place + 1),
        ),
        _button(
            "×", f"Remove: {called}", data_set=sets((_at(f"{name}.{place}"), None))
        ),
    ]


def _batch(inner: Field, name: str, value: Any) -> Html:
    """Return a switch between an infinite batch and a finite one."""
    is_finite = value != "inf"
    change = sets((_at(name), "inf" if is_finite else _BATCH))
    tick = tag(
        "input", type="checkbox", checked=is_finite, data_batch=name, data_set=change
    )
    if is_finite:
        said = f"{words(last_name(inner['name']))} {short(value, 3)}"
    else:
        said = "finite batch"
    return tag("label", tick, said, class_="tick", title=inner["meaning"])
