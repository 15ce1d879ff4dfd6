"""A network as what it is: data, first layer, steps, read-out in a row; what no theory answers is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from giantstep.explorer.controls import choice_name, sets
from giantstep.explorer.fields import Field, chosen, entry_of, field_named, is_number, start_of, value_at, with_value
from giantstep.explorer.markup import Html, greek, joined, last_name, short, tag, words

_BATCH = 2
"""Samples per dimension of a batch that was infinite."""

Refusing = Callable[[Mapping[str, Any]], str | None]
"""Says of a scenario why no theory answers it."""


def pipeline_html(about: Mapping[str, Any], scenario: Mapping[str, Any], refusing: Refusing) -> Html:
    """Return the stages that a family declares for its page, each a card; nothing where it declares none."""
    cards = []
    for stage in about["page"].get("pipeline", []):
        cards += (
            _step_cards(about, scenario, stage, refusing) if "list" in stage else [_stage_card(about, scenario, stage)]
        )
    return joined(*cards)


def _stage_card(about: Mapping[str, Any], scenario: Mapping[str, Any], stage: Mapping[str, Any]) -> Html:
    title, fields = stage["title"], stage["fields"]
    head = tag(
        "button",
        title,
        type="button",
        class_="stage-name",
        title=f"Go to the controls of the {title}",
        data_go=fields[0],
    )
    said = " · ".join(text for text in (_said(about, scenario, name) for name in fields) if text)
    return tag("li", head, tag("div", said, class_="stage-text"), data_holds=" ".join(fields))


def _said(about: Mapping[str, Any], scenario: Mapping[str, Any], name: str) -> str:
    """Return a field in few words; nothing where it is at its default, unless that is what it is all about."""
    field = field_named(about, name)
    value = value_at(scenario, name)
    if field is None:
        return ""
    value = field.get("default") if value is None else value
    is_default = value == field.get("default") and not field["required"] and field["type"] not in ("function", "choice")
    if value is None or is_default:
        return ""
    if field["type"] == "function":
        return greek(value)
    if isinstance(value, dict):
        kind = value.get("kind", "")
        plain = {
            key: short(inner, 3) for key, inner in value.items() if key != "kind" and not isinstance(inner, dict | list)
        }
        return " ".join(
            [str(kind), *(text if key == kind else f"{words(key)} {text}" for key, text in plain.items())]
        ).strip()
    return f"{words(name)} {short(value, 3)}"


def _step_cards(
    about: Mapping[str, Any], scenario: Mapping[str, Any], stage: Mapping[str, Any], refusing: Refusing
) -> list[Html]:
    title, name = stage["title"], stage["list"]
    field = field_named(about, name)
    entries = value_at(scenario, name)
    if field is None or not isinstance(entries, list):
        return []
    at = ("study", "scenario", *name.split("."))
    longer = [*entries, entries[-1] if entries else start_of(field["choices"][0])]
    said = f"Add a {title}"
    more = tag(
        "button",
        f"+ {title}",
        type="button",
        class_="add",
        id="add-step",
        title=said,
        aria_label=said,
        data_set=sets((at, longer)),
    )
    cards = [_step_card(field, scenario, entries, place, title, refusing) for place in range(len(entries))]
    return [*cards, tag("li", more, class_="adder", data_holds=name)]


def _step_card(
    field: Field, scenario: Mapping[str, Any], entries: list[Any], place: int, title: str, refusing: Refusing
) -> Html:
    name, entry = f"{field['name']}.{place}", entries[place]
    at = ("study", "scenario", *name.split("."))
    here = entry_of(field, place)
    now = chosen(here, entry)
    options = []
    for choice in here["choices"]:
        start = entry if choice is now else start_of(choice)
        why = refusing(with_value(scenario, name, start))
        said = choice_name(choice)
        options.append(
            tag(
                "option",
                f"{said} (no theory yet)" if why else said,
                value=said,
                selected=choice is now,
                class_="refused" if why else None,
                title=why or choice.get("meaning"),
                data_set=sets((at, start)),
            )
        )
    kinds = tag("select", *options, id=f"stage-{name}", aria_label=f"kind of {title} {place + 1}")
    rest = [*entries[:place], *entries[place + 1 :]]
    moves = [
        ("‹", "Move to the left", [*rest[: place - 1], entry, *rest[place - 1 :]], place == 0),
        ("›", "Move to the right", [*rest[: place + 1], entry, *rest[place + 1 :]], place == len(rest)),
        ("×", "Remove", rest, False),
    ]
    tools = [
        tag(
            "button",
            sign,
            type="button",
            title=label,
            aria_label=f"{label}: {title} {place + 1}",
            disabled=idle,
            data_set=sets((at[:-1], after)),
        )
        for sign, label, after, idle in moves
    ]
    go = tag(
        "button", f"{title} {place + 1}", type="button", class_="stage-name", title="Go to its controls", data_go=name
    )
    values, batches = [], []
    for inner in (now or {}).get("fields", []):
        key = last_name(inner["name"])
        value = entry.get(key, inner.get("default")) if isinstance(entry, dict) else None
        if inner.get("infinite"):
            batches.append(_batch(inner, (*at, key), f"{name}.{key}", value))
        elif is_number(value) and (inner["required"] or value != inner.get("default")):
            values.append(f"{words(key)} {short(value, 3)}")
    head = tag("div", go, tag("span", *tools, class_="tools"), class_="stage-head")
    return tag("li", head, kinds, tag("div", " · ".join(values), class_="stage-text"), *batches, data_holds=name)


def _batch(inner: Field, at: Sequence[str], name: str, value: Any) -> Html:
    """Return a switch between an infinite batch and a finite one."""
    is_finite = value != "inf"
    tick = tag(
        "input",
        type="checkbox",
        checked=is_finite,
        data_batch=name,
        data_set=sets((at, "inf" if is_finite else _BATCH)),
    )
    said = f"{words(last_name(inner['name']))} {short(value, 3)}" if is_finite else "finite batch"
    return tag("label", tick, said, class_="tick", title=inner["meaning"])
