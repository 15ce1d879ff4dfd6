"""The controls of the page as HTML: what a study holds, every field with a control that says where its value goes.

What is typed goes to ``data-path``, a path into the state of the page; what is picked sets all of ``data-set``, a list
of paths with their values. So the page knows no family, and what it shows is made in one place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from giantstep.explorer.fields import (
    Field,
    chosen,
    grid_fields,
    groups,
    is_list,
    is_number,
    is_numeric,
    open_fields,
    slider_range,
    start_of,
    value_at,
    with_axis,
)
from giantstep.explorer.markup import Html, greek, joined, last_name, pretty, short, tag, words

_FINITE = 10
"""What a field starts with that was infinite."""
_NAMES = ("relu", "erf", "tanh", "sin(z)", "z", "h2(z)", "z + h2(z)", "sign(z)", "softplus(z)")
_SAFE = 2**53 - 1
"""Largest seed: whole numbers of JavaScript are exact up to here."""


def controls_html(
    about: Mapping[str, Any], study: Mapping[str, Any], view: Mapping[str, Any], most: Mapping[str, int]
) -> Html:
    """Return all controls of a study.

    Parameters
    ----------
    about : what `fields.described` says of its family.
    study : the tables of a study file.
    view : ``variables``, ``log``, ``dots`` and ``budget`` of the page.
    most : the largest ``dim``, ``trials``, ``dots`` and ``budget``.
    """
    (_, main), *themes = groups(about)
    folds = [
        _fold(f"theme-{re.sub(r'[^a-z0-9]+', '-', title.lower())}", title, *_fields(about, study, names))
        for title, names in themes
    ]
    scenario = tag("fieldset", tag("legend", "Scenario"), *_fields(about, study, main), class_="main-fields")
    names = tag("datalist", *(tag("option", value=name) for name in _NAMES), id="names")
    return joined(
        scenario,
        _axes(about, study, view),
        _shown(about, study, view),
        *folds,
        _experiment(about, study, view, most),
        _more(about, study),
        names,
    )


def _path(*parts: str) -> str:
    return json.dumps(parts)


def sets(*changes: tuple[Sequence[str], Any]) -> str:
    """Return what a control sets: paths into the state of the page, with their values."""
    return json.dumps(changes)


def _fold(name: str, title: str, *inside: Html) -> Html:
    return tag("details", tag("summary", title), *inside, id=name)


def _labelled(name: str, title: str, control: Html, help_: str = "") -> Html:
    head = tag("div", tag("label", title, for_=name), class_="head")
    return tag("div", head, control, *([tag("p", help_, class_="help")] if help_ else []), class_="field")


def _select(options: Sequence[tuple[str, Any, bool, str]], at: Sequence[str], **attributes: Any) -> Html:
    """Return a list of options: what each says, its value, whether it is chosen, its meaning."""
    made = [
        tag("option", text, value=text, selected=is_now, title=meaning or None, data_set=sets((at, value)))
        for text, value, is_now, meaning in options
    ]
    return tag("select", *made, **attributes)


# -- fields of the scenario ----------------------------------------------------------------------------------------


def _fields(about: Mapping[str, Any], study: Mapping[str, Any], names: Sequence[str]) -> list[Html]:
    fields = open_fields(about, study["scenario"])
    return [
        _field(about, study, field, depth)
        for name in names
        for field, depth in fields
        if field["name"].split(".")[0] == name
    ]


def _field(about: Mapping[str, Any], study: Mapping[str, Any], field: Field, depth: int) -> Html:
    name = field["name"]
    head = tag("div", tag("label", _label(name), for_=f"f-{name}"), tag("i", pretty(field["symbol"])), class_="head")
    if {name, re.sub(r"\.\d+(?=\.)", "", name)} & set(study.get("grid", {})):
        inside = tag("p", "varies: see Axes below", class_="help", id=f"f-{name}")
    else:
        value = value_at(study["scenario"], name)
        control = _control(about, field, field.get("default") if value is None else value)
        inside = joined(control, tag("p", greek(field["meaning"]), class_="help", id=f"f-{name}-help"))
    return tag("div", head, inside, class_="field inner" if depth else "field")


def _label(name: str) -> str:
    """Return how a control is called: without what its field lies in, an entry of a list by its place (``step 1``)."""
    entries, _, place = last_name(name).rpartition(".")
    return f"{words(entries).removesuffix('s')} {int(place) + 1}" if entries else words(place)


def _control(about: Mapping[str, Any], field: Field, value: Any) -> Html:
    name = field["name"]
    common = {"id": f"f-{name}", "data_field": name, "aria_describedby": f"f-{name}-help"}
    at = ("study", "scenario", *name.split("."))
    if is_list(field):
        return _list(field, value if isinstance(value, list) else [], at, common)
    if "choices" in field:
        now = chosen(field, value)
        options = [(choice_name(one), start_of(one), one is now, one.get("meaning", "")) for one in field["choices"]]
        return _select(options, at, **common)
    if "values" in field:
        return _select([(str(one), one, one == value, "") for one in field["values"]], at, **common)
    if is_numeric(field) and (is_number(value) or value == "inf"):
        return _number(about, field, value, at, common)
    return _text(field, value, at, common)


def choice_name(choice: Mapping[str, Any]) -> str:
    """Return how a choice of a part is called."""
    return str(choice.get("value", choice.get("kind", words(choice.get("name", "")))))


def _list(field: Field, value: list[Any], at: Sequence[str], common: Mapping[str, Any]) -> Html:
    """Return how many entries a list of parts has; a new one is like the last."""
    longer = [*value, value[-1] if value else start_of(field["choices"][0])]
    more = tag("button", "add one", type="button", data_set=sets((at, longer)), **common)
    fewer = tag("button", "remove the last", type="button", disabled=not value, data_set=sets((at, value[:-1])))
    return tag("div", tag("output", len(value), for_=common["id"]), more, fewer, class_="row")


def _number(about: Mapping[str, Any], field: Field, value: Any, at: Sequence[str], common: Mapping[str, Any]) -> Html:
    is_whole = field["type"] == "whole number" or field["name"] in about["page"].get("whole", ())
    known = value if is_number(value) else _FINITE
    ends = slider_range({**field, "type": "whole number"} if is_whole else field, known)
    slider = tag(
        "input",
        type="range",
        id=f"{common['id']}-slider",
        data_path=_path(*at),
        data_scale="log" if ends["log"] else "whole" if is_whole else "linear",
        **slider_places(ends, known),
        aria_valuetext=short(value),
        aria_label=f"{words(field['name'])}, slider",
        disabled=value == "inf",
    )
    number = tag(
        "input",
        class_="number",
        type="text",
        inputmode="decimal",
        data_path=_path(*at),
        data_kind="number or list" if "list" in field["type"] else "number",
        data_allowed=field["allowed"],
        value=short(value, 6),
        **common,
    )
    if not field.get("infinite"):
        return tag("div", slider, number, class_="row")
    other = known if value == "inf" else "inf"
    tick = tag("input", type="checkbox", id=f"{common['id']}-inf", checked=value == "inf", data_set=sets((at, other)))
    return tag("div", slider, number, tag("label", tick, "∞", class_="tick"), class_="row")


def slider_places(ends: Mapping[str, Any], value: float) -> dict[str, str]:
    """Return the ends, the step and the place of a slider; those of a logarithmic one are powers of ten."""

    def place(number: float) -> str:
        return f"{math.log10(number) if ends['log'] else number:.12g}"

    return {"min": place(ends["min"]), "max": place(ends["max"]), "step": f"{ends['step']:.12g}", "value": place(value)}


def _text(field: Field, value: Any, at: Sequence[str], common: Mapping[str, Any]) -> Html:
    if isinstance(value, dict) and "npz" in value:
        shape = value.get("shape")
        size = " × ".join(map(str, shape if isinstance(shape, list) else ()))
        return tag("input", type="text", class_="wide", disabled=True, value=f"array of the preset, {size}", **common)
    is_text = field["type"] in ("function", "text", "name")
    listed = "names" if field["type"] == "function" else None
    kind = "text" if is_text else "value"
    given = {**common, "class_": "wide", "type": "text", "spellcheck": "false", "list": listed, "data_kind": kind}
    return tag("div", tag("input", data_path=_path(*at), value=_written(value), **given), class_="row")


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        nested = any(isinstance(entry, list | dict) for entry in value)
        return json.dumps(value) if nested else ", ".join(short(entry, 6) for entry in value)
    return json.dumps(value) if isinstance(value, dict) else str(value)


# -- axes and what is shown ----------------------------------------------------------------------------------------


def _axes(about: Mapping[str, Any], study: Mapping[str, Any], view: Mapping[str, Any]) -> Html:
    names = list(study.get("grid", {}))
    titles = ["Field that varies", "Second field that varies", *("Another field" for _ in names[2:])]
    axes = [_axis(about, study, view, number, title) for number, title in enumerate(titles)]
    ticks = [
        tag(
            "label",
            tag("input", type="checkbox", id=f"log-{side}", data_log=side, checked=side in view["log"]),
            said,
            class_="tick",
        )
        for side, said in (("x", "log horizontal axis"), ("y", "log vertical axis"))
    ]
    return tag("fieldset", tag("legend", "Axes"), *axes, tag("div", *ticks, class_="row"))


def _axis(about: Mapping[str, Any], study: Mapping[str, Any], view: Mapping[str, Any], number: int, title: str) -> Html:
    grid = study.get("grid", {})
    name = next(iter(list(grid)[number:]), "")
    offered = [
        field["name"]
        for field in grid_fields(about, study["scenario"])
        if field["name"] == name or field["name"] not in grid
    ]
    listed = [*([name] if name and name not in offered else []), *offered]
    options = [tag("option", "none", value="", data_set=sets((("study", "grid"), with_axis(about, study, number, ""))))]
    for one in listed:
        after = grid if one == name else with_axis(about, study, number, one)
        options.append(
            tag("option", words(one), value=one, selected=one == name, data_set=sets((("study", "grid"), after)))
        )
    control = tag("select", *options, id=f"axis-{number}")
    return _labelled(f"axis-{number}", title, joined(control, _range(study, view, number, name) if name else ""))


def _range(study: Mapping[str, Any], view: Mapping[str, Any], number: int, name: str) -> Html:
    value, at = study["grid"][name], ("study", "grid", name)
    if not isinstance(value, dict):
        given = {
            "id": f"axis-{number}-list",
            "data_field": name,
            "aria_label": f"values of {words(name)}",
            "data_kind": "values",
        }
        row = [tag("input", class_="wide", data_path=_path(*at), value=_written(value), **given)]
        if isinstance(value, list) and len(value) > 1 and all(map(is_number, value)):
            ends = {"start": min(value), "stop": max(value), "num": 60}
            row.append(tag("button", "range", type="button", data_set=sets((at, ends))))
        return tag("div", *row, class_="row")
    row = []
    for key, title in (("start", "from"), ("stop", "to"), ("num", "points")):
        given = {"id": f"axis-{number}-{key}", "data_field": f"{name}.{key}", "title": title, "data_kind": "value"}
        said = f"{words(name)}: {title}"
        row.append(
            tag(
                "input",
                class_="short",
                inputmode="decimal",
                data_path=_path(*at, key),
                value=short(value.get(key), 6),
                aria_label=said,
                **given,
            )
        )
    options = []
    for spacing in ("linear", "log"):
        after = {key: inner for key, inner in value.items() if key != "scale"}
        if spacing == "log":
            after["scale"] = "log"
            start, stop = after.get("start", 0), after.get("stop", 0)
            if is_number(start) and is_number(stop) and start <= 0 < stop:
                after["start"] = float(f"{stop / 1000:.1g}")
        log = view["log"].replace("x", "")
        changes = sets((at, after), *([(("log",), "x" * (spacing == "log") + log)] if number == 0 else []))
        options.append(
            tag("option", spacing, value=spacing, selected=value.get("scale", "linear") == spacing, data_set=changes)
        )
    row.append(
        tag("select", *options, class_="short", id=f"axis-{number}-scale", aria_label=f"spacing of {words(name)}")
    )
    return tag("div", *row, class_="row")


def _shown(about: Mapping[str, Any], study: Mapping[str, Any], view: Mapping[str, Any]) -> Html:
    """Return a tick for each variable: those a question is about, and those drawn; the others are folded away."""
    question = about["questions"][study["what"]]

    def ticks(variables: Sequence[Mapping[str, Any]]) -> Html:
        return tag("div", *(tick(variable) for variable in variables), class_="checks")

    def tick(variable: Mapping[str, Any]) -> Html:
        name = variable["name"]
        box = tag("input", type="checkbox", id=f"v-{name}", data_variable=name, checked=name in view["variables"])
        return tag("label", box, variable["called"], title=variable["meaning"])

    first = [one for one in question["variables"] if one["name"] in (*question["plot"], *view["variables"])]
    others = [one for one in question["variables"] if one not in first]
    fold = [_fold("more-shown", f"{len(others)} more variables", ticks(others))] if others else []
    return tag("fieldset", tag("legend", "Shown"), ticks(first), *fold)


# -- experiment and settings ---------------------------------------------------------------------------------------


def _experiment(
    about: Mapping[str, Any], study: Mapping[str, Any], view: Mapping[str, Any], most: Mapping[str, int]
) -> Html:
    table = study.get("experiment", {})
    at = ("study", "experiment")
    rows = [
        (
            "dim",
            "dimension d",
            "of the data; larger is slower and nearer the limit",
            table.get("dim"),
            at,
            2,
            most["dim"],
        ),
        ("trials", "trials", "independent repetitions", table.get("trials"), at, 1, most["trials"]),
        ("seed", "seed", "any whole number from 0 on", table.get("seed"), at, 0, _SAFE),
        ("dots", "dots", "points of the experiment along each field that varies", view["dots"], (), 1, most["dots"]),
        (
            "budget",
            "budget in seconds",
            "after it the experiment is stopped, its dots stay",
            view["budget"],
            (),
            1,
            most["budget"],
        ),
    ]
    has_dim = any(field["name"] == "dim" for field in about["fields"])
    return _fold("theme-experiment", "Experiment", *(_whole(*row) for row in rows if not (has_dim and row[0] == "dim")))


def _whole(name: str, title: str, help_: str, value: Any, at: Sequence[str], least: int, most: int) -> Html:
    given = {
        "id": f"e-{name}",
        "data_field": name,
        "data_own": True,
        "data_kind": "whole",
        "data_least": least,
        "data_most": most,
    }
    number = tag(
        "input",
        class_="number",
        inputmode="numeric",
        value=_written(value),
        data_path=_path(*at, name),
        aria_errormessage=f"e-{name}-wrong",
        **given,
    )
    row = tag("div", tag("label", title, for_=f"e-{name}"), number, class_="row whole")
    wrong = tag("p", class_="wrong own", id=f"e-{name}-wrong", hidden=True)
    return tag("div", row, tag("p", help_, class_="help"), wrong, class_="field")


def _more(about: Mapping[str, Any], study: Mapping[str, Any]) -> Html:
    fields = []
    limit = study.get("limit", {})
    if len(about["theories"]) > 1:
        options = [("chosen by the family", None, "theory" not in limit, "")]
        options += [(name, name, limit.get("theory") == name, meaning) for name, meaning in about["theories"].items()]
        control = _select(options, ("study", "limit", "theory"), id="s-theory")
        fields.append(
            _labelled(
                "s-theory",
                "theory",
                control,
                "; ".join(f"{name}: {meaning}" for name, meaning in about["theories"].items()),
            )
        )
    if not any(field["name"] == "dim" for field in about["fields"]):
        control = tag(
            "input",
            id="s-dim",
            class_="number",
            value=_written(limit.get("dim")),
            placeholder="∞",
            data_path=_path("study", "limit", "dim"),
            data_kind="value",
        )
        said = "adds the leading correction to the curve, where it is known; empty: the limit"
        fields.append(_labelled("s-dim", "finite-size correction at d", control, said))
    settings = study.get("settings", {})
    for name, setting in about["questions"][study["what"]]["settings"].items():
        control = _setting_control(name, setting, settings.get(name, setting["default"]))
        fields.append(_labelled(f"s-{name}", words(name), control, setting["meaning"]))
    return _fold("more", "Theory and settings", *fields)


def _setting_control(name: str, setting: Mapping[str, Any], value: Any) -> Html:
    at, given = ("study", "settings", name), {"id": f"s-{name}", "data_field": name}
    choices = setting.get("choices") or ([True, False] if isinstance(setting["default"], bool) else None)
    if choices:
        return _select([(short(one), one, one == value, "") for one in choices], at, **given)
    control = tag(
        "input",
        class_="wide",
        value=_written(value),
        placeholder="chosen",
        data_path=_path(*at),
        data_kind="value",
        **given,
    )
    return tag("div", control, class_="row")
